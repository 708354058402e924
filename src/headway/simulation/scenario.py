"""One run: the real engine on the real store in virtual time, with the laws looking on."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from pydantic import SecretStr

from headway.app import App, boeing_resource, build
from headway.clock import Clock, VirtualClock, fresh_id, rng
from headway.config import Settings
from headway.core.invariants import replay_windows
from headway.core.model import SellerId
from headway.runners.embedded import turn
from headway.simulation.asking import ask
from headway.simulation.book import LawBook
from headway.simulation.deadlines import Deadlines, Promise
from headway.simulation.faults import Faults
from headway.simulation.figures import Figures
from headway.simulation.laws import Laws, Rules
from headway.simulation.mortal import Crashed, Life, MortalPool, SkewedClock
from headway.simulation.truth import Eye
from headway.simulation.witness import CallLog, Hands, WitnessedSchedule, WitnessedTransport
from headway.simulation.world import DAY_S, Catalogue, World
from headway.simulators.boeing import BoeingSimulator, SignIn
from headway.simulators.transport import SimTransport
from headway.store.evidence import Evidence

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

START = datetime(2026, 1, 5, tzinfo=UTC)
# Longer than in earnest: here nobody adds a listing, and a wait for those there are ends by itself.
POLL = timedelta(minutes=5)
# What the supplier allows, which is not to be taken from our own settings.
LIMIT, SPAN_S = 2, 60.0
HOUR_S = 3600.0
TIDY_EVERY_H = 6
# A permit every half minute, and about a second for the call that it was for.
CALL_CYCLE_S = 31.0
AUTH_CALLS_PER_DAY = 48
LOAD_MAX = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run."""

    world: World
    policy: str = "rolling"
    days: float = 1.0
    seed: int = 1
    faults: Faults = field(default_factory=Faults)
    workers: int = 2
    sellers: int = 1
    poll: timedelta = POLL


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts that a test may swap for wrong ones, to see the law book notice."""

    settings: Callable[[Settings], Settings] = lambda settings: settings
    app: Callable[[App], App] = lambda app: app
    schedule: Callable[[Any], Any] = lambda schedule: schedule


class Scenario:
    """The world, the supplier, the engine and the law book of one run."""

    def __init__(
        self, plan: Plan, pool: "ConnectionPool", data_dir: Path, parts: Parts | None = None
    ) -> None:
        self.plan = plan
        self._parts = parts or Parts()
        self._pool = pool
        self.clock = VirtualClock(START)
        self._stop = threading.Event()
        self._ids = rng(f"ids:{plan.seed}")
        self._luck = rng(f"luck:{plan.seed}")
        self.book = LawBook(self.clock)
        self.catalogue = Catalogue(plan.world, self.clock)
        self.fates = plan.faults.fates(list(plan.world.start), seed=plan.seed)
        self.simulator = BoeingSimulator(
            self.catalogue,
            self.clock,
            faults=self.fates.plan(plan.faults, seed=plan.seed),
            seed=plan.seed,
        )
        self._wire = SimTransport(self.simulator.handle, self.clock, seed=plan.seed)
        self.settings = self._parts.settings(_settings(plan.policy, data_dir))
        self.app = self._build(pool)
        self._evidence = Evidence(pool)
        self._enter_listings()
        self._look_on()
        self._lives: list[Life] = [Life(self.clock) for _ in range(plan.workers)]
        self.crashes = 0
        self.stalls = 0

    def run(self, progress: Callable[[float], None] = lambda _at_s: None) -> None:
        """Let the days pass."""
        self.clock.spawn(self._change_the_world)
        self.clock.spawn(self._tick)
        for index in range(self.plan.workers):
            self.clock.spawn(lambda index=index: self._work(index))  # type: ignore[misc]
        self.clock.spawn(lambda: self._look_around(progress))
        self._spawn_mishaps(self.plan.faults.crashes_per_h, "crash", self._crash)
        self._spawn_mishaps(self.plan.faults.stalls_per_h, "stall", self._stall)
        end_s = self.plan.days * DAY_S
        self.clock.run(end_s)
        self._close(end_s)

    # -- setting up --------------------------------------------------------------------------

    def _build(
        self,
        pool: Any,  # noqa: ANN401 - a pool or a mortal one
        *,
        wire: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> App:
        app = build(
            self.settings,
            clock or self.clock,
            pool,
            transport=wire or self._wire,
            ids=lambda: fresh_id(self._ids),
        )
        return self._parts.app(app.with_poll(self.plan.poll))

    def _enter_listings(self) -> None:
        sellers = [SellerId(f"seller-{number}") for number in range(1, self.plan.sellers + 1)]
        skus = sorted(self.plan.world.start)
        keys = [(sellers[0], sku) for sku in skus]
        # Other sellers list a part of the same catalogue: their listings share its seats.
        for number, seller in enumerate(sellers[1:], start=1):
            keys += [(seller, sku) for sku in skus[number::5]]
        self.app.listings.add(keys, policy=self.app.policy, now=self.clock.now())
        self._evidence.tidy()

    def _look_on(self) -> None:
        plan = self.plan
        eye = Eye(
            places=self.settings.locations,
            markup=self.app.judge.terms.markup,
            currency=self.settings.currency,
            shown_prices=self.simulator.shown_prices,
        )
        rows = self._evidence.all_rows()
        followed = {row.id: row.sku for row in rows if not self.fates.strikes(row.sku)}
        sights = {sku: eye.see(part) for sku, part in plan.world.start.items()}
        calls_per_day = len(plan.world.start) / self.settings.batch_size + AUTH_CALLS_PER_DAY
        load = calls_per_day * CALL_CYCLE_S / DAY_S
        self.promise = Promise(
            age_max_s=self.app.policy.age_max.total_seconds(),
            load=min(load, LOAD_MAX),
            outages=plan.faults.outages,
        )
        self.eye = eye
        self.figures = Figures(followed, {sku: sights[sku] for sku in set(followed.values())})
        self.deadlines = Deadlines([row.id for row in rows], self.promise)
        self.listings = len(rows)
        self.laws = Laws(
            book=self.book,
            evidence=self._evidence,
            clock=self.clock,
            rules=Rules(
                seats=self.settings.batch_size,
                failures_max=self.settings.failures_max,
                missing_confirmations=self.settings.missing_confirmations,
                currency=self.settings.currency,
                is_overloaded=load > LOAD_MAX,
            ),
            fates=self.fates,
            eye=eye,
            figures=self.figures,
            deadlines=self.deadlines,
        )
        self.log = CallLog(simulator=self.simulator, limit=LIMIT, book=self.book)

    # -- the actors --------------------------------------------------------------------------

    def _change_the_world(self) -> None:
        for change in self.plan.world.changes:
            self.clock.sleep(change.at_s - self.clock.monotonic())
            if self._stop.is_set():
                return
            self.catalogue.become(change.part)
            self.figures.changed(change.part.sku, self.eye.see(change.part), change.at_s)

    def _tick(self) -> None:
        life = Life(self.clock)
        self._lives.append(life)
        schedule = WitnessedSchedule(self._schedule(), self.laws, Hands(life=life))
        step = self.app.tick(schedule=schedule).step
        with contextlib.suppress(Crashed):
            turn(step, self.clock, self._stop, _unheard, "tick")

    def _work(self, index: int) -> None:
        """Be one worker, incarnation after incarnation."""
        generator = rng(f"worker:{self.plan.seed}:{index}")
        number = 0
        while not self._stop.is_set():
            number += 1
            life = self._lives[index] = Life(self.clock)
            skew_s = self.plan.faults.skew_max_s
            clock = SkewedClock(self.clock, generator.uniform(-skew_s, skew_s))
            owner = f"fetch-{index + 1}.{number}"
            try:
                turn(self._fetch(life, owner, clock), clock, self._stop, _unheard, "fetch")
            except Crashed:
                self.crashes += not self._stop.is_set()
                self.clock.sleep(generator.uniform(1, 30))

    def _fetch(self, life: Life, owner: str, clock: Clock) -> Callable[[], Any]:
        hands = Hands(life=life)
        wire = WitnessedTransport(
            self._wire,
            clock=self.clock,
            catalogue=self.catalogue,
            laws=self.laws,
            log=self.log,
            hands=hands,
        )
        pool = MortalPool(self._pool, life)
        app = self._build(pool, wire=wire, clock=clock)
        # Permits go by the database's clock, whatever the worker's own says.
        limiter = self._build(pool).limiter
        schedule = WitnessedSchedule(self._schedule(), self.laws, hands)
        return app.fetch(owner, schedule=schedule, limiter=limiter).step

    def _schedule(self) -> Any:  # noqa: ANN401 - a port, or a wrong one in a test
        return self._parts.schedule(self.app.schedule)

    def _look_around(self, progress: Callable[[float], None]) -> None:
        """Once an hour compare everything, and keep the tables tidy."""
        hour = 0
        while not self._stop.is_set():
            self.clock.sleep(HOUR_S)
            if self._stop.is_set():
                return
            hour += 1
            self.laws.compare()
            ask(self.app, self.book)
            if hour % TIDY_EVERY_H == 0:
                self._evidence.tidy()
            progress(self.clock.monotonic())

    def _spawn_mishaps(self, per_h: float, name: str, strike: Callable[[], None]) -> None:
        if per_h <= 0:
            return
        generator = rng(f"{name}:{self.plan.seed}")

        def strike_at_times() -> None:
            while not self._stop.is_set():
                self.clock.sleep(generator.expovariate(per_h / HOUR_S))
                if not self._stop.is_set():
                    strike()

        self.clock.spawn(strike_at_times)

    def _crash(self) -> None:
        self._luck.choice(self._lives[: self.plan.workers]).doom(self._luck)

    def _stall(self) -> None:
        self.stalls += 1
        life = self._luck.choice(self._lives[: self.plan.workers])
        life.stall(self._luck.uniform(100, 400))

    # -- the end -----------------------------------------------------------------------------

    def _close(self, end_s: float) -> None:
        self.laws.compare(is_whole=True)
        self.deadlines.close(end_s, self.laws.counted())
        self._replay_ledger()
        self.tally = self.figures.close(end_s, may_wait=self._may_wait)
        for sku, at_s in self.tally.lost:
            self.book.broken("L6", f"the change of {sku} at {at_s / 60:.1f} min was never seen")
        # Whoever is on the way finds that time is over: nothing of it reaches the tables.
        self._stop.set()
        for life in self._lives:
            life.end()
        self.clock.run(end_s + 2 * HOUR_S)

    def _may_wait(self, changed_s: float) -> bool:
        end_s = self.plan.days * DAY_S
        is_young = end_s - changed_s <= self.promise.age_max_s
        return is_young or self.promise.excused_until(changed_s, end_s) > end_s

    def _replay_ledger(self) -> None:
        resource = boeing_resource(self.settings)
        window = replace(resource.windows[0], limit=LIMIT, span_s=SPAN_S)
        calls = self.app.limiter.calls_since(resource.key, START)
        for breach in replay_windows(calls, window):
            self.book.broken("L1", f"by the ledger, call {breach.ticket_id} was one too many")


def _unheard(_name: str, _text: str) -> None:
    """Take what a step reports; the laws look for themselves."""


def _settings(policy: str, data_dir: Path) -> Settings:
    access = SignIn()
    return Settings.model_validate(
        {
            "policy": policy,
            "data_dir": data_dir,
            "boeing_url": "http://boeing.invalid",
            "boeing_client_id": access.client_id,
            "boeing_client_secret": SecretStr(access.client_secret),
            "boeing_username": access.username,
            "boeing_password": SecretStr(access.password),
        }
    )
