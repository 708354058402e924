"""Sixteen callers that are killed and restarted until standard input ends; run as a program.

Each has a clock that is wrong by up to ninety seconds, and asks the limiter in the database of the
given folder before each call to the given port.
"""

import http.client
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from headway.clock import Rng, SystemClock, rng
from headway.core.limits.transitions import Granted, NotYet, Permit, Rejected, Resource, Window
from headway.errors import ConfigError, StoreError
from headway.store.limits.limiter import PostgresLimiter
from headway.store.pool import open_pool
from headway.store.server.embedded import find_running

T = TypeVar("T")
COUNT = 16
KILL_EVERY_S = 0.5
RESOURCE = Resource(key="supplier", rules=(Window(limit=2, span_s=0.5, gap_s=0.25, jitter_s=0.1),))
LEASE_S = 1.5
TIMEOUT_S = 0.2
STEPS = ("reserved", "begun", "sent", "answered")


class SkewedClock(SystemClock):
    """The clock of a host with a wrong time."""

    def __init__(self, skew_s: float) -> None:
        self.skew_s = skew_s

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.skew_s)


class Caller:
    """One process: it reserves, waits, calls and settles, and may crash at any step."""

    def __init__(self, folder: Path, port: int, generator: Rng) -> None:
        self.folder = folder
        self.port = port
        self.generator = generator
        self.clock = SkewedClock(generator.uniform(-90, 90))
        self.limiter: PostgresLimiter | None = None

    def live(self) -> None:
        while True:
            permit = self.retry(self.reserve)
            if isinstance(permit, Rejected):
                self.clock.sleep(permit.retry_in_s)
            else:
                self.maybe_crash("reserved")
                self.clock.sleep(permit.wait_s)
                self.use(permit)

    def use(self, permit: Permit) -> None:
        while True:
            asked_s = self.clock.monotonic()
            try:
                answer = self.retry(lambda limiter: limiter.begin(permit), is_once=True)
            except StoreError:
                # It may have been granted all the same; nothing was sent, so return it.
                self.retry(lambda limiter: limiter.settle(permit, sent=False))
                return
            if not isinstance(answer, NotYet):
                break
            self.clock.sleep(answer.wait_s)
        if not isinstance(answer, Granted):
            return
        self.maybe_crash("begun")
        if self.clock.monotonic() - asked_s > answer.send_within_s:
            self.retry(lambda limiter: limiter.settle(permit, sent=False))
            return
        is_late = self.call(permit)
        self.maybe_crash("answered")
        self.retry(lambda limiter: limiter.settle(permit, sent=True, is_late=is_late))

    def call(self, permit: Permit) -> bool:
        """Call the supplier; return whether the call may still arrive."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"/{permit.id}")
            self.maybe_crash("sent")
            connection.getresponse().read()
        except OSError:
            return True
        finally:
            connection.close()
        return False

    def reserve(self, limiter: PostgresLimiter) -> Permit | Rejected:
        return limiter.reserve(
            ["supplier"],
            owner=str(os.getpid()),
            priority=self.generator.randrange(3),
            max_wait_s=4,
            lease_s=LEASE_S,
            grace_s=0.2,
        )

    def retry(self, action: Callable[[PostgresLimiter], T], *, is_once: bool = False) -> T:
        """Run an action as soon as there is a database; only once if repeating it could do harm."""
        while True:
            try:
                return action(self.limiter or self.connect())
            except (StoreError, ConfigError) as error:
                self.limiter = None
                if is_once:
                    raise StoreError(str(error)) from error
                self.clock.sleep(0.05)

    def connect(self) -> PostgresLimiter:
        running = find_running(self.folder)
        if running is None:
            raise StoreError("no server")
        pool = open_pool(running.dsn("storm"), size=1)
        self.limiter = PostgresLimiter(pool, self.clock, [RESOURCE])
        return self.limiter

    def maybe_crash(self, step: str) -> None:
        if self.generator.random() < (0.01 if step == "reserved" else 0.05):
            os.kill(os.getpid(), signal.SIGKILL)


def start_caller(folder: Path, port: int, seed: str) -> int:
    """Fork a caller; return its process id."""
    child = os.fork()
    if child:
        return child
    signal.setitimer(signal.ITIMER_REAL, 600)  # never outlive the test, whatever happens
    try:
        Caller(folder, port, rng(seed)).live()
    finally:
        os._exit(1)


def main(folder: Path, port: int, seed: str) -> None:
    generator = rng(seed)
    started = 0
    children: set[int] = set()
    try:
        while not select.select([sys.stdin], [], [], KILL_EVERY_S)[0]:
            while len(children) < COUNT:
                started += 1
                children.add(start_caller(folder, port, f"{seed} {started}"))
            os.kill(generator.choice(sorted(children)), signal.SIGKILL)
            with suppress(ChildProcessError):
                while dead := os.waitpid(-1, os.WNOHANG)[0]:
                    children.discard(dead)
    finally:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    sys.stdout.write(str(started))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
