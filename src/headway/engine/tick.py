"""Tick: the housekeeping that keeps the line honest. Any number of ticks at once are harmless."""

from datetime import timedelta

from headway.clock import Clock
from headway.core.model import Wait
from headway.engine.ports import Schedule

EVERY = timedelta(seconds=30)


class Tick:
    """Rescue on silence: leases that ran out go back to the queue under a new fence."""

    def __init__(self, *, clock: Clock, schedule: Schedule, every: timedelta = EVERY) -> None:
        self._clock = clock
        self._schedule = schedule
        self._every = every
        self.rescued = 0

    def step(self) -> Wait:
        """Do one round, and say when the next is due."""
        now = self._clock.now()
        self.rescued += self._schedule.rescue(now)
        return Wait(until=now + self._every, why="next round")
