"""Tick: the housekeeping that keeps the line honest. Any number of ticks at once are harmless."""

from collections.abc import Sequence
from datetime import timedelta

from headway.clock import Clock
from headway.core.model import CLOCKS_APART_MAX, Wait
from headway.engine.ports import Ledger, Schedule, Sellers

EVERY = timedelta(seconds=30)
HOURLY = timedelta(hours=1)


class Tick:
    """Rescue on silence: leases that ran out go back to the queue under a new fence.

    Once an hour each memory forgets what is older than its retention, and catalogues are counted.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        schedule: Schedule,
        sellers: Sellers,
        memories: Sequence[tuple[Ledger, timedelta]],
        every: timedelta = EVERY,
    ) -> None:
        self._clock = clock
        self._schedule = schedule
        self._sellers = sellers
        self._memories = memories
        self._every = every
        self._hourly_at = clock.now()
        self.rescued = 0

    def step(self) -> Wait:
        """Do one round, and say when the next is due."""
        now = self._clock.now()
        self.rescued += self._schedule.rescue(now - CLOCKS_APART_MAX)
        if now >= self._hourly_at:
            self._sellers.count_catalogues(now)
            for memory, retention in self._memories:
                memory.forget(now - retention)
            self._hourly_at = now + HOURLY
        return Wait(until=now + self._every, why="next round")
