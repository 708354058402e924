"""One run: the real engine on the real store in virtual time, with the laws looking on."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from headway.app import App, build
from headway.app.monitoring import alert_monitor
from headway.app.providers import supplier_limit
from headway.clock import Clock, fresh_id, rng
from headway.config import Settings
from headway.core.catalog.listings import SellerId, Sku
from headway.core.laws import replay_windows
from headway.runners.embedded import Step, run_steps
from headway.store.pool import Pool
from headway_lab.simulation.alert_log import AlertLog
from headway_lab.simulation.blast_radius import Bystanders, check_named
from headway_lab.simulation.crashes import CrashingPool, CrashingTransport, FaultInjector
from headway_lab.simulation.deadlines import Deadlines, Promise
from headway_lab.simulation.desired_versions import DesiredVersions, grace_of
from headway_lab.simulation.evidence import ScheduleEvidence
from headway_lab.simulation.explain_checks import check_explanations, record_forecasts
from headway_lab.simulation.faults import Faults
from headway_lab.simulation.figures import Figures
from headway_lab.simulation.forecast_checks import ForecastChecks
from headway_lab.simulation.isolation import Isolation
from headway_lab.simulation.laws import Laws, Rules
from headway_lab.simulation.observed_ports import (
    ObservedCalls,
    ObservedMarkets,
    ObservedPushes,
    ObservedSchedule,
    ObservedSupplierTransport,
    ObservedTimetable,
    WorkerContext,
)
from headway_lab.simulation.opening import new_shops, open_shops, simulated
from headway_lab.simulation.pauses import PauseChecks
from headway_lab.simulation.people import People
from headway_lab.simulation.shop_laws import ShopLaws
from headway_lab.simulation.truth import ReferenceReader
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.simulation.workers import NoFreshnessSamples, SimulatedWorkers, with_ports
from headway_lab.simulation.world import DAY_S, SimulatedCatalog, World
from headway_lab.simulators.boeing import BoeingSimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 5, tzinfo=UTC)
# Longer than in production: no listing is added here, and a wait for a known one ends by itself.
POLL = timedelta(minutes=5)
# Without crashes and pauses nothing becomes due that a worker does not wait for.
QUIET_POLL = timedelta(minutes=20)
# An event wakes a pusher for new changes; by itself it polls for what failed or a crashed one left.
FAULTY_PUSH_POLL = timedelta(minutes=1)
# What the supplier allows, which is not to be taken from our own settings.
LIMIT, SPAN_S = 2, 60.0
# How far a price may move by itself: the number of the law, independent of our settings.
GUARD_MOVE = Decimal("0.50")
HOUR_S = 3600.0
TIDY_EVERY_H = 6
# All rows are compared every hour of the first day; a long run then does so when it tidies.
COMPARE_HOURLY_H = 24
# Half as often as in production: a rescued listing waits for minutes anyway.
TICK = timedelta(minutes=1)
# Without crashes there is nothing to rescue, and without windows nothing begins on the minute.
QUIET_TICK = timedelta(minutes=3)
# A permit every half minute, and about a second for the call that it was for.
CALL_CYCLE_S = 31.0
# How often some parts are asked until when they wait: hourly, but at most this many times in a run,
# since looking ahead takes time.
ASKINGS_MAX, ASKED_PARTS = 20, 6
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
    # Whether alerts are evaluated each minute, which takes longer than all else.
    is_watched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts that a test may swap for wrong ones, to see the law checks notice."""

    settings: Callable[[Settings], Settings] = lambda settings: settings
    app: Callable[[App], App] = lambda app: app
    schedule: Callable[[Any], Any] = lambda schedule: schedule
    pushes: Callable[[Any], Any] = lambda pushes: pushes


class Scenario:
    """The world, the supplier, the shops, the engine and the law checks of one run."""

    def __init__(self, plan: Plan, pool: Pool, data_dir: Path, parts: Parts | None = None) -> None:
        self.plan = plan
        self._parts = parts or Parts()
        self._pool = pool
        self.clock = VirtualClock(START)
        self._stop = threading.Event()
        self._ids = rng(f"ids:{plan.seed}")
        self.violations = ViolationLog(self.clock)
        self.catalog = SimulatedCatalog(plan.world, self.clock)
        self.affected = plan.faults.affected(
            list(plan.world.start),
            seed=plan.seed,
            changing={change.part.sku for change in plan.world.changes},
        )
        self.simulator = BoeingSimulator(
            self.catalog,
            self.clock,
            faults=self.affected.plan(plan.faults, seed=plan.seed),
            seed=plan.seed,
        )
        self._transport = SimTransport(self.simulator.handle, self.clock, seed=plan.seed)
        drift_checks = plan.faults.shop_edits_per_h > 0
        self.settings = self._parts.settings(
            simulated(plan.policy, data_dir, drift_checks=drift_checks)
        )
        self._evidence = ScheduleEvidence(pool)
        self.sellers = [SellerId(f"seller-{number + 1}") for number in range(plan.sellers)]
        self.shops = new_shops(
            self.clock,
            self.settings,
            self.sellers,
            faults=plan.faults.shop_plan(seed=plan.seed, poison=self.affected.shop_poison),
            seed=plan.seed,
        )
        self._shop_transport = SimTransport(self.shops.simulator.handle, self.clock, seed=plan.seed)
        self.app = self._build(pool)
        self.app.adopt()
        self._enter_listings()
        self._set_up_checks()
        self.lost = 0
        self.alerts = AlertLog(self.clock)
        self.workers = SimulatedWorkers(
            self.clock, faults=plan.faults, seed=plan.seed, stop=self._stop
        )
        self.people = People(
            self.clock,
            self.shops,
            self.shop_laws,
            places=sorted(set(self.settings.locations.values())),
            seed=plan.seed,
        )

    def run(self, progress: Callable[[float], None] = lambda _at_s: None) -> None:
        """Run all days."""
        self.clock.spawn(self._apply_changes)
        self.clock.spawn(self._tick)
        for number in range(self.plan.workers):
            self.workers.spawn(f"fetch-{number + 1}", self._fetch)
        # Where pushers crash or freeze, a second one takes over.
        for number in range(2 if self.plan.faults.is_deadly else 1):
            self.workers.spawn(f"push-{number + 1}", self._push, has_bell=True)
        self.clock.spawn(lambda: self._check_hourly(progress))
        self.clock.spawn(self._record_forecasts)
        self.workers.spawn_mishaps()
        self.people.spawn(self.workers, self.plan.faults)
        self.pauses.spawn(self.workers, self.app.pauses.pause)
        end_s = self.plan.days * DAY_S
        self.clock.run(end_s)
        self._close(end_s)

    # -- setting up --------------------------------------------------------------------------

    def _build(
        self,
        pool: Any,  # noqa: ANN401 - a pool or a crashing one
        *,
        transport: httpx.BaseTransport | None = None,
        shop_transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> App:
        app = build(
            self.settings,
            clock or self.clock,
            pool,
            transport=transport or self._transport,
            shop_transport=shop_transport or self._shop_transport,
            ids=lambda: fresh_id(self._ids),
        )
        faults = self.plan.faults
        poll = POLL if faults.is_deadly or faults.planned_pauses else QUIET_POLL
        push_poll = FAULTY_PUSH_POLL if faults.specs else POLL
        return self._parts.app(
            replace(
                app,
                rule=replace(app.rule, poll=poll),
                push_rule=replace(app.push_rule, poll=push_poll),
            )
        )

    def _enter_listings(self) -> None:
        skus = sorted(self.plan.world.start)
        keys = [(self.sellers[0], sku) for sku in skus]
        # Other sellers list a part of the same catalog: their listings share its seats.
        for number, seller in enumerate(self.sellers[1:], start=1):
            keys += [(seller, sku) for sku in skus[number::5]]
        self.app.listings.add(keys, policy=self.app.policy, now=self.clock.now())
        self.app.sellers.count_catalogs(self.clock.now())
        self.reference = ReferenceReader(
            places=self.settings.locations,
            currency=self.settings.currency,
            shown_prices=self.simulator.shown_prices,
            markup=self.settings.markup,
            margin_min=self.settings.margin_min,
            basis=self.settings.price_basis,
            rounding=self.settings.rounding,
            compare_at=self.settings.compare_at,
        )
        start, ids = self.plan.world.start, self._ids
        open_shops(
            self.app, self.shops, self._evidence, reference=self.reference, parts=start, ids=ids
        )
        self._evidence.tidy()

    def _set_up_checks(self) -> None:
        """Set up the law checks and the figures, which see everything from here on."""
        plan, rows, shop_listings = self.plan, self._evidence.all_rows(), self.shops.shop_listings
        followed = {
            id_: shop_listing
            for id_, shop_listing in shop_listings.items()
            if not self.affected.affects(shop_listing.sku)
            and shop_listing.sku not in self.affected.unwritable
        }
        calls_per_day = len(plan.world.start) / self.settings.batch_size + AUTH_CALLS_PER_DAY
        load = calls_per_day * CALL_CYCLE_S / DAY_S
        self.promise = Promise(
            age_max_s=self.app.policy.age_max.total_seconds(),
            load=min(load, LOAD_MAX),
            outages=plan.faults.silences,
        )
        self.grace = grace_of(plan.faults)
        self.pauses = PauseChecks(
            plan.faults, violations=self.violations, clock=self.clock, seller=self.sellers[0]
        )
        self.figures = Figures(followed)
        self.forecasts = ForecastChecks()
        self.versions = DesiredVersions(shop_listings, followed.keys())
        self.deadlines = Deadlines([row.id for row in rows], self.promise)
        self.listings = len(rows)
        self.isolation = self._judge_retries(is_overloaded=load > LOAD_MAX)
        self.bystanders = Bystanders(
            self.violations, self.affected.poison, {row.id: row.sku for row in rows}
        )
        self.laws = Laws(
            violations=self.violations,
            bystanders=self.bystanders,
            evidence=self._evidence,
            clock=self.clock,
            rules=Rules(
                seats=self.settings.batch_size,
                failures_max=self.settings.failures_max,
                missing_confirmations=self.settings.missing_confirmations,
                currency=self.settings.currency,
                guard_move=GUARD_MOVE,
                is_overloaded=load > LOAD_MAX,
            ),
            affected=self.affected,
            reference=self.reference,
            figures=self.figures,
            versions=self.versions,
            deadlines=self.deadlines,
            isolation=self.isolation,
            pauses=self.pauses,
            forecasts=self.forecasts,
        )
        self.shop_laws = ShopLaws(
            violations=self.violations,
            evidence=self._evidence,
            clock=self.clock,
            shops=self.shops,
            versions=self.versions,
            figures=self.figures,
            guard_move=GUARD_MOVE,
            pauses=self.pauses,
            may_leave_sale=lambda shop_listing: self.laws.may_leave_sale(shop_listing.id),
            unwritable=self.affected.unwritable,
        )
        self.log = ObservedCalls(simulator=self.simulator, limit=LIMIT, violations=self.violations)

    def _judge_retries(self, *, is_overloaded: bool) -> Isolation | None:
        """Put law L4 in play where it is promised, and hours have seats to spare."""
        if self.plan.policy != "split" or is_overloaded:
            return None
        return Isolation(
            violations=self.violations,
            clock=self.clock,
            listings=self.listings,
            promise=self.promise,
        )

    # -- the actors --------------------------------------------------------------------------

    def _apply_changes(self) -> None:
        for change in self.plan.world.changes:
            self.clock.sleep(change.at_s - self.clock.monotonic())
            if self._stop.is_set():
                return
            self.catalog.apply(change.part)
            self.figures.changed(
                change.part.sku, self.reference.see(change.part).shop_fields, change.at_s
            )

    def _tick(self) -> None:
        context = WorkerContext(injector=FaultInjector(self.clock))
        schedule = ObservedSchedule(self._schedule(), self.laws, context)
        has_windows = self.app.policy.retry_window(self.clock.now(), self.listings) is not None
        is_quiet = not (has_windows or self.plan.faults.is_deadly)
        app = with_ports(
            self.app,
            schedule=schedule,
            markets=ObservedMarkets(self.app.markets, self.laws, context.injector),
            timetable=ObservedTimetable(self.app.timetable, self.laws),
            tick_every=QUIET_TICK if is_quiet and not self.plan.is_watched else TICK,
        )
        if self.plan.is_watched:
            tick = app.tick(watch=alert_monitor(self.app, on_change=self.alerts.record))
        else:
            samples = NoFreshnessSamples(self._pool, promises_min={})
            tick = with_ports(app, freshness=samples).tick()
        run_steps(tick.step, self.clock, self._stop, lambda _name, _text: None, "tick")

    def _fetch(self, injector: FaultInjector, owner: str, clock: Clock) -> Step:
        context = WorkerContext(injector=injector)
        transport = ObservedSupplierTransport(
            self._transport,
            clock=self.clock,
            catalog=self.catalog,
            laws=self.laws,
            log=self.log,
            context=context,
        )
        pool = CrashingPool(self._pool, injector)
        app = self._build(pool, transport=transport, clock=clock)
        # Permits go by the database's clock, no matter what the worker's clock says.
        limiter = self._build(pool).limiter
        schedule = ObservedSchedule(self._schedule(), self.laws, context)
        markets = ObservedMarkets(self.app.markets, self.laws, injector)
        app = with_ports(app, schedule=schedule, markets=markets, limiter=limiter)
        return app.fetch(owner, wake_push=self.workers.ring).step

    def _push(self, injector: FaultInjector, owner: str, clock: Clock) -> Step:
        pool = CrashingPool(self._pool, injector)
        app = self._build(
            pool, shop_transport=CrashingTransport(self._shop_transport, injector), clock=clock
        )
        limiter = self._build(pool).limiter
        pushes = ObservedPushes(self._parts.pushes(self.app.pushes), self.shop_laws, injector)
        return with_ports(app, pushes=pushes, limiter=limiter).push(owner).step

    def _schedule(self) -> Any:  # noqa: ANN401 - a port, or a wrong one in a test
        return self._parts.schedule(self.app.schedule)

    def _check_hourly(self, progress: Callable[[float], None]) -> None:
        """Once an hour check what is due, and every few hours compare all rows and vacuum."""
        hour = 0
        while not self._stop.is_set():
            self.clock.sleep(HOUR_S)
            if self._stop.is_set():
                return
            hour += 1
            if hour <= COMPARE_HOURLY_H or hour % TIDY_EVERY_H == 0:
                self.laws.compare()
            self.lost += self.shop_laws.check_versions(self._may_wait_for_push)
            check_explanations(self.app, self.violations)
            if hour % TIDY_EVERY_H == 0:
                self.shop_laws.check_shop_listings(self._may_stay)
                self._evidence.tidy()
            progress(self.clock.monotonic())

    def _record_forecasts(self) -> None:
        """Now and then ask some parts until when they wait."""
        draw, skus = rng(f"foretell:{self.plan.seed}"), sorted(self.plan.world.start)
        every_s = max(HOUR_S, self.plan.days * DAY_S / ASKINGS_MAX)
        while not self._stop.is_set():
            self.clock.sleep(draw.uniform(0, 2 * every_s))
            if self._stop.is_set():
                return
            sample = draw.sample(skus, min(ASKED_PARTS, len(skus)))
            record_forecasts(self.app, sample, self.forecasts, at_s=self.clock.monotonic())

    # -- the end -----------------------------------------------------------------------------

    def _close(self, end_s: float) -> None:
        self.forecasts.close(end_s)
        self.laws.compare(is_whole=True)
        self.deadlines.close(end_s, self.laws.counted())
        self.bystanders.close(end_s, self.laws.counted())
        culprits = [*self.affected.poison, *self.affected.unwritable]
        self.culprits = check_named(self.app, [Sku(sku) for sku in culprits], self.violations)
        if self.isolation is not None:
            self.isolation.close(end_s=end_s)
        self._replay_ledger()
        self.tally = self.figures.close(end_s, may_wait=self._may_wait)
        for sku, at_s in self.tally.lost:
            self.violations.add("L6", f"the change of {sku} at {at_s / 60:.1f} min was never seen")
        self.lost += len(self.tally.lost) + self.shop_laws.check_versions(self._may_wait_for_push)
        self.shop_laws.check_shop_listings(self._may_stay)
        self.shop_laws.close()
        # Workers in flight find that time is over: nothing of theirs reaches the tables.
        self._stop.set()
        self.workers.end()
        self.clock.run(end_s + 2 * HOUR_S)

    def _may_wait(self, changed_s: float) -> bool:
        end_s = self.plan.days * DAY_S
        is_young = end_s - changed_s <= self.promise.age_max_s
        return is_young or self.promise.excused_until(changed_s, end_s) > end_s

    def _may_wait_for_push(self, since_s: float) -> bool:
        return self.grace.covers(since_s, self.clock.monotonic())

    def _may_stay(self, edited_s: float) -> bool:
        """Return True if the drift check need not have noticed a merchant's edit yet."""
        drift_check_s = self.settings.drift_check_h * HOUR_S + HOUR_S
        return self._may_wait_for_push(edited_s + drift_check_s)

    def _replay_ledger(self) -> None:
        resource = supplier_limit(self.settings)
        window = replace(resource.windows[0], limit=LIMIT, span_s=SPAN_S)
        calls = self.app.limiter.calls_since(resource.key, START)
        for breach in replay_windows(calls, window):
            self.violations.add("L1", f"by the ledger, call {breach.permit_id} was one too many")
