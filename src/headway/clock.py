"""Clocks and generators: the only module that reads the time or creates randomness.

SystemClock is the wall clock; ScaledClock runs faster, for the demo. Simulations run on
`headway_lab.virtual_clock`.
"""

import random
import secrets
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol

Rng = random.Random


def rng(seed: int | str) -> Rng:
    """Return a random generator for a seed."""
    return random.Random(seed)  # noqa: S311 - for worlds and jitter, never for secrets


def fresh_id(generator: Rng | None = None) -> str:
    """Return a new identifier; from a generator if the run must be repeatable."""
    if generator is None:
        return str(uuid.uuid4())
    return str(uuid.UUID(int=generator.getrandbits(128), version=4))


def fresh_secret() -> str:
    """Return a random secret that needs no quoting in a URL or a shell."""
    return secrets.token_hex(32)


class Clock(Protocol):
    """The time as the engine reads it."""

    @property
    def is_real(self) -> bool:
        """Whether this is real time, so that the database's clock can replace it."""

    def now(self) -> datetime:
        """Return the instant, in UTC."""

    def monotonic(self) -> float:
        """Return monotonic seconds from an arbitrary start."""

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Sleep; return early if the event is set."""

    def event(self) -> threading.Event:
        """Return an event that can wake a sleeper on this clock."""


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
        """Return an event that can wake a sleeper."""
        return threading.Event()


class ScaledClock:
    """A clock that runs `speed` times faster than the system clock, from a given start."""

    is_real = False

    def __init__(self, speed: float, *, start: datetime, origin_s: float | None = None) -> None:
        assert speed > 0
        self.speed = speed
        self.start = start
        # The host's monotonic seconds at the start. They are the same in every process of a host,
        # and do not jump with the wall clock: a process that starts later shows the same time.
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
        """Return an event that can wake a sleeper."""
        return threading.Event()
