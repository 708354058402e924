"""The workers of a run: they may freeze or crash, and start again a little later."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headway.app import App
from headway.clock import Clock, rng
from headway.runners.embedded import Step, run_steps
from headway.store.monitoring.freshness import FreshnessSamples
from headway_lab.simulation.crashes import Crashed, FaultInjector, SkewedClock
from headway_lab.simulation.faults import Faults
from headway_lab.virtual_clock import VirtualClock

HOUR_S = 3600.0
MakeStep = Callable[[FaultInjector, str, Clock], Step]


class NoFreshnessSamples(FreshnessSamples):
    """Takes no samples: a simulation measures freshness itself."""

    def sample(self, now: datetime) -> datetime:
        """Return when to ask again."""
        return now + timedelta(days=1)


def with_ports(app: App, **ports: Any) -> App:  # noqa: ANN401 - ports, or wrong ones in a test
    """Return the application with other ports, which its fetch, push, pull and tick then use."""
    return replace(app, **ports)


class SimulatedWorkers:
    """Workers that may crash; `make_step` builds the step of one run of a worker."""

    def __init__(
        self, clock: VirtualClock, *, faults: Faults, seed: int, stop: threading.Event
    ) -> None:
        self._clock = clock
        self._faults = faults
        self._seed = seed
        self._stop = stop
        self._generator = rng(f"luck:{seed}")
        self._injectors: dict[str, FaultInjector] = {}
        self._bells: dict[str, threading.Event] = {}
        self.crashes = 0
        self.stalls = 0

    def spawn(self, name: str, make_step: MakeStep, *, has_bell: bool = False) -> None:
        """Start a worker; one with a bell is woken by `ring`."""
        self._injectors[name] = FaultInjector(self._clock)
        bell = self._clock.event() if has_bell else None
        if bell is not None:
            self._bells[name] = bell
        self._clock.spawn(lambda: self._work(name, make_step, bell))

    def ring(self, name: str | None = None) -> None:
        """Wake all workers that have a bell, or only the one of that name."""
        for owner, bell in self._bells.items():
            if name in {None, owner}:
                bell.set()

    def spawn_mishaps(self) -> None:
        """Schedule crashes, freezes and absences as often as the faults say."""
        self.spawn_times("crash", self._faults.crashes_per_h, self._crash)
        self.spawn_times("stall", self._faults.stalls_per_h, self._stall)
        for absence in self._faults.absences:
            self.spawn_at(absence.start_s, self.end)

    def spawn_times(self, name: str, per_h: float, strike: Callable[[], None]) -> None:
        """Call `strike` at random moments, this often an hour."""
        if per_h <= 0:
            return
        generator = rng(f"{name}:{self._seed}")

        def strike_at_times() -> None:
            while not self._stop.is_set():
                self._clock.sleep(generator.expovariate(per_h / HOUR_S))
                if not self._stop.is_set():
                    strike()

        self._clock.spawn(strike_at_times)

    def spawn_at(self, at_s: float, act: Callable[[], None]) -> None:
        """Call `act` at that second."""

        def wait_and_act() -> None:
            self._clock.sleep(at_s - self._clock.monotonic())
            if not self._stop.is_set():
                act()

        self._clock.spawn(wait_and_act)

    def end(self) -> None:
        """End all workers: nothing of theirs reaches the tables any more."""
        for injector in self._injectors.values():
            injector.end()

    def _work(self, name: str, make_step: MakeStep, bell: threading.Event | None) -> None:
        """Run one worker, again after each crash."""
        generator = rng(f"{name}:{self._seed}")
        number = 0
        while not self._stop.is_set():
            number += 1
            injector = self._injectors[name] = FaultInjector(self._clock)
            skew_s = self._faults.skew_max_s
            clock = SkewedClock(self._clock, generator.uniform(-skew_s, skew_s))
            try:
                step = make_step(injector, f"{name}.{number}", clock)
                run_steps(step, clock, self._stop, _ignore, name, wake=bell)
            except Crashed:
                away_s = self._away_s()
                self.crashes += not (self._stop.is_set() or away_s)
                self._clock.sleep(away_s + generator.uniform(1, 30))

    def _away_s(self) -> float:
        """Return how long it is until workers are there again."""
        now_s = self._clock.monotonic()
        spans = (absence for absence in self._faults.absences if absence.holds(now_s))
        return max((span.end_s - now_s for span in spans), default=0.0)

    def _crash(self) -> None:
        self._pick().crash_soon(self._generator)

    def _stall(self) -> None:
        self.stalls += 1
        self._pick().stall(self._generator.uniform(100, 400), skips=self._generator.randrange(2))

    def _pick(self) -> FaultInjector:
        return self._generator.choice(list(self._injectors.values()))


def _ignore(_name: str, _text: str) -> None:
    """Ignore what a step reports; the law checks find problems themselves."""
