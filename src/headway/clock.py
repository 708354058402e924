"""Clocks and generators: the only module that asks the time or makes randomness.

SystemClock is the wall clock, ScaledClock runs faster for the demo, VirtualClock jumps from event
to event and runs many actors, one at a time, in an order that depends on nothing but their sleeps.
"""

import heapq
import itertools
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

import greenlet

Rng = random.Random


def rng(seed: int | str) -> Rng:
    """Make the generator that this seed always makes."""
    return random.Random(seed)  # noqa: S311 - for worlds and jitter, never for secrets


def fresh_id(generator: Rng | None = None) -> str:
    """Make a new identifier; from a generator when a run must be repeatable."""
    if generator is None:
        return str(uuid.uuid4())
    return str(uuid.UUID(int=generator.getrandbits(128), version=4))


def fresh_secret() -> str:
    """Make a password nobody can guess, safe inside an address or a shell."""
    return secrets.token_hex(32)


class Clock(Protocol):
    """What the engine may know of time."""

    @property
    def is_real(self) -> bool:
        """Whether this is the world's clock, so that the database's may stand in for it."""

    def now(self) -> datetime:
        """Return the instant, in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never jump, from an arbitrary start."""

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Let that much time pass, or less if the event is set meanwhile."""

    def event(self) -> threading.Event:
        """Make an event that can wake a sleeper on this clock."""


class SystemClock:
    """The wall clock."""

    is_real = True

    def now(self) -> datetime:
        """Return the instant, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the host's monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Sleep, or wait for the event."""
        if wake is not None:
            wake.wait(max(0.0, seconds))
        elif seconds > 0:
            time.sleep(seconds)

    def event(self) -> threading.Event:
        """Make an event that can wake a sleeper."""
        return threading.Event()


class ScaledClock:
    """A clock that runs `speed` times faster than the wall, from a given start."""

    is_real = False

    def __init__(self, speed: float, *, start: datetime, origin_s: float | None = None) -> None:
        assert speed > 0
        self.speed = speed
        self.start = start
        # The host's monotonic seconds at the start. They are the same in every process of a host,
        # and stand still where the wall clock jumps: whoever joins later shows the same instant.
        self.origin_s = time.monotonic() if origin_s is None else origin_s

    def now(self) -> datetime:
        """Return the scaled instant, in UTC."""
        return self.start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return scaled seconds since the start."""
        return (time.monotonic() - self.origin_s) * self.speed

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Sleep for that many scaled seconds, or wait for the event."""
        real = max(0.0, seconds) / self.speed
        if wake is not None:
            wake.wait(real)
        elif real > 0:
            time.sleep(real)

    def event(self) -> threading.Event:
        """Make an event that can wake a sleeper."""
        return threading.Event()


class VirtualClock:
    """Time that passes only when every actor sleeps.

    Each actor is a greenlet: it runs until it sleeps, then the earliest sleeper goes on. Two actors
    due at once run in the order in which they went to sleep, so a run is repeatable.
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
        """Return the virtual instant, in UTC."""
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
        """Make an event that wakes its sleepers at the instant at which it is set."""
        return _VirtualEvent(self)

    def rouse(self, event: threading.Event) -> None:
        """Let whoever sleeps on this event go on at the present instant."""
        for actor in [each for each, (_, wake) in self._naps.items() if wake is event]:
            self._schedule(actor, self._elapsed_s, None)

    def spawn(self, actor: Callable[[], None]) -> None:
        """Start an actor at the present instant, when the hub next runs."""
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
    """An event whose setting is seen by those who sleep in virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def set(self) -> None:
        """Set it, and wake the sleepers."""
        super().set()
        self._clock.rouse(self)
