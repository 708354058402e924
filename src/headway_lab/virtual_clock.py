"""Virtual time: a clock that jumps from event to event and runs many actors, one at a time.

The order of the actors depends only on their sleeps, so a run is repeatable.
"""

import heapq
import itertools
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

import greenlet


class VirtualClock:
    """Time that passes only when every actor sleeps.

    Each actor is a greenlet: it runs until it sleeps, then the earliest sleeper continues. Two
    actors due at once run in the order in which they went to sleep, so a run is repeatable.
    """

    is_real = False

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._step_s = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, greenlet.greenlet]] = []
        self._naps: dict[greenlet.greenlet, tuple[int, threading.Event | None]] = {}
        self._hub = greenlet.getcurrent()

    def now(self) -> datetime:
        """Return the virtual time, in UTC."""
        return self._start + timedelta(seconds=self._elapsed_s + self._step_s)

    def monotonic(self) -> float:
        """Return virtual seconds since the start; steps of the clock do not show here."""
        return self._elapsed_s

    def step(self, seconds: float) -> None:
        """Move the wall clock without time passing, as a bad time server would."""
        self._step_s += seconds

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Let others run until this much virtual time has passed."""
        if wake is not None and wake.is_set():
            return
        wake_at = self._elapsed_s + max(0.0, seconds)
        current = greenlet.getcurrent()
        if current is self._hub:
            self.run(wake_at)
            return
        self._schedule(current, wake_at, wake)
        self._hub.switch()

    def event(self) -> threading.Event:
        """Return an event that wakes its sleepers at the moment it is set."""
        return _VirtualEvent(self)

    def rouse(self, event: threading.Event) -> None:
        """Wake the sleepers of this event now."""
        for actor in [nap for nap, (_, wake) in self._naps.items() if wake is event]:
            self._schedule(actor, self._elapsed_s, None)

    def spawn(self, actor: Callable[[], None]) -> None:
        """Start an actor now, when the hub next runs."""
        fresh = greenlet.greenlet(actor, parent=self._hub)
        self._schedule(fresh, self._elapsed_s, None)

    def run(self, until_s: float) -> None:
        """Run the actors until that virtual second; an actor's exception surfaces here."""
        assert greenlet.getcurrent() is self._hub, "only the hub may run the actors"
        while self._sleepers and self._sleepers[0][0] <= until_s:
            wake_at, number, actor = heapq.heappop(self._sleepers)
            if self._naps.get(actor, (None, None))[0] != number:
                continue  # roused before its time
            del self._naps[actor]
            self._elapsed_s = max(self._elapsed_s, wake_at)
            actor.switch()
        self._elapsed_s = max(self._elapsed_s, until_s)

    def _schedule(
        self, actor: greenlet.greenlet, wake_at: float, wake: threading.Event | None
    ) -> None:
        number = next(self._order)
        self._naps[actor] = (number, wake)
        heapq.heappush(self._sleepers, (wake_at, number, actor))


class _VirtualEvent(threading.Event):
    """An event that wakes sleepers in virtual time when it is set."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def set(self) -> None:
        """Set it, and wake the sleepers."""
        super().set()
        self._clock.rouse(self)
