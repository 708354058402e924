"""Crashes and freezes of simulated workers, injected at every operation with an outside effect.

After a crash every operation raises again, so no `finally` and no error handler of the crashed
worker writes anything, exactly as after kill -9.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx

from headway.clock import Clock, Rng

STEPS_MAX = 12


class Crashed(BaseException):
    """The worker has crashed; not an Exception, because no code of ours may catch it."""


class FaultInjector:
    """Injects a crash or a freeze into one run of a worker, after a number of operations."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steps_left: int | None = None
        self._steps_after_claim: int | None = None
        self._stall_s = 0.0
        self._skips = 0
        self.is_over = False

    def crash_soon(self, generator: Rng) -> None:
        """Crash within a few operations from now, or from the next claim on."""
        touches = generator.randrange(STEPS_MAX)
        if generator.random() < 0.5:  # noqa: PLR2004 - idle or busy, evenly
            self._steps_left = touches
        else:
            self._steps_after_claim = touches

    def crash_after(self, touches: int) -> None:
        """Crash at the operation after this many."""
        self._steps_left = touches

    def stall(self, seconds: float, *, skips: int = 0) -> None:
        """Freeze for that long at the next point where it is possible, or `skips` points later."""
        self._stall_s, self._skips = seconds, skips

    def end(self) -> None:
        """End it now."""
        self.is_over = True

    def may_crash(self) -> None:
        """Pass one point at which it may end."""
        if self._steps_left is not None:
            self._steps_left -= 1
            self.is_over |= self._steps_left < 0
        if self.is_over:
            raise Crashed

    def before_claim(self) -> None:
        """Note that it is about to claim."""
        if self._steps_after_claim is not None:
            self._steps_left, self._steps_after_claim = self._steps_after_claim, None

    def may_freeze(self) -> None:
        """Pass a point at which it may freeze."""
        if self._skips:
            self._skips -= 1
            return
        stall_s, self._stall_s = self._stall_s, 0.0
        if stall_s:
            self._clock.sleep(stall_s)


class SkewedClock:
    """A worker's own clock: as fast as the true one, but set wrongly."""

    is_real = False

    def __init__(self, clock: Clock, skew_s: float) -> None:
        self._clock = clock
        self._skew = timedelta(seconds=skew_s)

    def now(self) -> datetime:
        """Return the time by this worker's clock."""
        return self._clock.now() + self._skew

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        return self._clock.monotonic()

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Wait for that long."""
        self._clock.sleep(seconds, wake)

    def event(self) -> threading.Event:
        """Return an event for sleepers on the true clock."""
        return self._clock.event()


class CrashingTransport(httpx.BaseTransport):
    """A worker's transport that may crash before a request is sent or before its reply is read."""

    def __init__(self, inner: httpx.BaseTransport, injector: FaultInjector) -> None:
        self._inner = inner
        self._injector = injector

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        self._injector.may_crash()
        response = self._inner.handle_request(request)
        self._injector.may_crash()
        return response


class CrashingPort:
    """A port of a worker, who may crash before any operation; a subclass checks some of them."""

    def __init__(self, inner: Any, injector: FaultInjector) -> None:  # noqa: ANN401 - a port, or a wrong one in a test
        self._inner = inner
        self._injector = injector

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the port
        operation = getattr(self._inner, name)

        def crash_or_do(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the port
            self._injector.may_crash()
            return operation(*args, **kwargs)

        return crash_or_do

    @contextmanager
    def _may_crash(self, *, freezes: bool = False, claims: bool = False) -> Iterator[None]:
        """Surround an operation and its checks with the points at which the worker may crash."""
        if freezes:
            self._injector.may_freeze()
        if claims:
            self._injector.before_claim()
        self._injector.may_crash()
        yield
        self._injector.may_crash()


class CrashingPool:
    """A worker's connection pool that may crash before or after any transaction."""

    def __init__(self, pool: Any, injector: FaultInjector) -> None:  # noqa: ANN401 - only the store knows pools
        self._pool = pool
        self._injector = injector

    @contextmanager
    def connection(self, *args: Any, **kwargs: Any) -> Iterator[Any]:  # noqa: ANN401 - as the pool
        """Lend a connection for one transaction."""
        self._injector.may_crash()
        with self._pool.connection(*args, **kwargs) as connection:
            yield connection
        self._injector.may_crash()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the pool
        return getattr(self._pool, name)
