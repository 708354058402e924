"""Tick: the housekeeping that keeps the line honest. Any number of ticks at once are harmless."""

from datetime import timedelta

from headway.clock import Clock
from headway.core.model import Wait
from headway.engine.ports import Ledger, Schedule

EVERY = timedelta(seconds=30)
FORGET_EVERY = timedelta(hours=1)
# Leases are written by one host's clock and read by another's; each may be 90 s off.
CLOCKS_APART_MAX = timedelta(minutes=3)


class Tick:
    """Rescue on silence: leases that ran out go back to the queue under a new fence.

    Once an hour the ledger forgets what is older than its retention.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        schedule: Schedule,
        ledger: Ledger,
        retention: timedelta,
        every: timedelta = EVERY,
    ) -> None:
        self._clock = clock
        self._schedule = schedule
        self._ledger = ledger
        self._retention = retention
        self._every = every
        self._forget_at = clock.now()
        self.rescued = 0

    def step(self) -> Wait:
        """Do one round, and say when the next is due."""
        now = self._clock.now()
        self.rescued += self._schedule.rescue(now - CLOCKS_APART_MAX)
        if now >= self._forget_at:
            self._ledger.forget(now - self._retention)
            self._forget_at = now + FORGET_EVERY
        return Wait(until=now + self._every, why="next round")
