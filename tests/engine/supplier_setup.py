"""A tick and workers in virtual time, and a broker between them that may lose or repeat."""

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.engine.conftest import EngineRig

from headway.app.dispatch import dispatch_rule, new_dispatcher, new_tick_loop
from headway.core.dispatch import DispatchLease
from headway.runners.embedded import run_steps
from headway_lab.virtual_clock import VirtualClock

QUIET = threading.Event()


@dataclass
class Broker:
    """Messages by the instant at which they are delivered; `copies` of each arrive."""

    clock: VirtualClock
    copies: int = 1
    sent: int = 0
    waiting: list[tuple[datetime, int, DispatchLease]] = field(default_factory=list)
    _order: Any = field(default_factory=itertools.count)

    def send(self, dispatch_lease: DispatchLease, wait: timedelta) -> None:
        self.sent += 1
        for _ in range(self.copies):
            heapq.heappush(
                self.waiting, (self.clock.now() + wait, next(self._order), dispatch_lease)
            )

    def next(self) -> DispatchLease | None:
        if not self.waiting or self.waiting[0][0] > self.clock.now():
            return None
        return heapq.heappop(self.waiting)[2]


@dataclass
class DispatchRig:
    """A tick and some workers on one line, in virtual time."""

    rig: EngineRig
    broker: Broker
    reports: list[tuple[str, str]] = field(default_factory=list)
    stops: dict[str, threading.Event] = field(default_factory=dict)

    def open(self, *names: str) -> None:
        app, clock, send = self.rig.app, self.rig.clock, self.broker.send
        tick = new_tick_loop(app, send=send, rule=dispatch_rule(app))
        clock.spawn(lambda: run_steps(tick.step, clock, QUIET, self.report, "tick"))
        for name in names:
            self.stops[name] = threading.Event()
            clock.spawn(self.worker(name))

    def worker(self, name: str) -> Callable[[], None]:
        app, clock, stop = self.rig.app, self.rig.clock, self.stops[name]
        hand = new_dispatcher(
            app,
            name,
            send=self.broker.send,
            report=self.report,
            rule=dispatch_rule(app),
            stopping=stop,
        )

        def work() -> None:
            while not stop.is_set():
                dispatch_lease = self.broker.next()
                if dispatch_lease is not None:
                    hand.carry(dispatch_lease)
                clock.sleep(0.05)

        return work

    def report(self, name: str, text: str) -> None:
        self.reports.append((name, text))

    def run(self, until: Callable[[], bool], seconds: int = 3600) -> int:
        """Let virtual time pass until the condition holds; return how many seconds that took."""
        for second in range(seconds):
            if until():
                return second
            self.rig.clock.sleep(1)
        raise AssertionError(f"no end in sight: {self.reports[-5:]}")
