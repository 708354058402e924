"""One run of the account lane: the real engine and store in virtual time, the laws looking on."""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from headway.app import App, build
from headway.app.monitoring import alert_monitor
from headway.clock import Clock, fresh_id, rng
from headway.config import Settings
from headway.core.accounts.jobs import Account, PlatformName
from headway.core.catalog.listings import Done, Wait
from headway.engine.pull import Pull
from headway.errors import InvalidError
from headway.providers.etsy.limits import day_key
from headway.runners.embedded import Step, run_steps
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.warehouse import Warehouse
from headway.store.pool import Pool
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY
from headway_lab.simulation.accounts.ages import Ages
from headway_lab.simulation.accounts.blast_radius import BlastRadius, tie_faults
from headway_lab.simulation.accounts.comparison import RowComparison, RowTally
from headway_lab.simulation.accounts.culprits import choose_culprits
from headway_lab.simulation.accounts.etsy import SimulatedEtsy
from headway_lab.simulation.accounts.faults import AccountFaults
from headway_lab.simulation.accounts.laws import AccountLaws
from headway_lab.simulation.accounts.observed_ports import ObservedJobs, ObservedPlatformTransport
from headway_lab.simulation.accounts.opening import account_settings, etsy_demand, host
from headway_lab.simulation.accounts.operations import SimulatedOperations
from headway_lab.simulation.accounts.people import AccountPeople, MakeWebhook
from headway_lab.simulation.accounts.platforms import PastClock, SimulatedPlatform
from headway_lab.simulation.accounts.printify import SimulatedPrintify
from headway_lab.simulation.accounts.shopify import SimulatedShopify
from headway_lab.simulation.accounts.world import DAY_S, HOUR_S, AccountWorld, ShopPlan
from headway_lab.simulation.alert_log import AlertLog
from headway_lab.simulation.crashes import CrashingPool, CrashingTransport, FaultInjector
from headway_lab.simulation.explain_checks import check_job_explanations, record_job_forecasts
from headway_lab.simulation.forecast_checks import ForecastChecks
from headway_lab.simulation.job_evidence import JobEvidence
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.simulation.workers import NoFreshnessSamples, SimulatedWorkers, with_ports
from headway_lab.virtual_clock import VirtualClock

# The month changes on the fifth day of a run: quotas start again.
START = datetime(2026, 1, 27, tzinfo=UTC)
WORKERS = 4
# Longer than in production: an event wakes an idle worker when a job becomes due.
POLL = timedelta(minutes=10)
TICK = timedelta(minutes=1)
TIDY_EVERY_H = 6
# How often some jobs are asked until when they wait: hourly, or this many times in a run.
ASKINGS_MAX, ASKED_JOBS, JOBS_MAX = 100, 6, 500
DEMAND_TO_QUOTA = 1.6
# After the last event: when to check that all rows are in the warehouse. Etsy's orders are
# read again every day, regardless of their timestamps; a little later everything must be there.
# Removed rows are found by two full pulls, hours apart.
LOOKS_H = (3, 8, 16, 26, 38, 54)
LIFT = 10
BUDGET_EVERY = 10
HOURS = 24
# The reason of a worker that has nothing to do.
IDLE = "no job may run"
RING_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPlan:
    """What to run."""

    world: AccountWorld
    days: float = 1.0
    seed: int = 1
    faults: AccountFaults = field(default_factory=AccountFaults)
    workers: int = WORKERS
    looks_h: tuple[float, ...] = LOOKS_H
    # Whether alerts are evaluated each minute, which takes time.
    is_watched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountParts:
    """Parts that a test may swap for wrong ones, to see the law checks notice."""

    settings: Callable[[Settings], Settings] = lambda settings: settings
    app: Callable[[App], App] = lambda app: app
    jobs: Callable[[Any], Any] = lambda jobs: jobs
    pull: Callable[[Pull], Pull] = lambda pull: pull


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountOutcome:
    """The outcome of the run; `tally` is of the end, after the last event."""

    served: dict[str, float]
    etsy_served: dict[str, float]
    age_min: dict[str, dict[str, float]]
    etsy_age_min: dict[str, dict[str, float]]
    longest_wait_h: dict[str, float]
    starved: int
    tally: RowTally = field(default_factory=RowTally)
    settling_s: float = 0.0


class AccountScenario:
    """The world, the platforms, the engine and the law checks of one run."""

    def __init__(
        self, plan: AccountPlan, pool: Pool, data_dir: Path, parts: AccountParts | None = None
    ) -> None:
        self.plan = plan
        self._parts = parts or AccountParts()
        self._pool = pool
        self.clock = VirtualClock(START)
        self._stop = threading.Event()
        self._ids = rng(f"ids:{plan.seed}")
        self.violations = ViolationLog(self.clock)
        self.evidence = JobEvidence(pool)
        self.evidence.number_ids()
        self.etsy_demand = etsy_demand(plan.world.shops.values())
        limit = max(1, round(self.etsy_demand / DEMAND_TO_QUOTA))
        self.settings = self._parts.settings(account_settings(data_dir, etsy_limit=limit))
        self._past_webhooks: dict[str, list[MakeWebhook]] = defaultdict(list)
        self.platforms = self._open_platforms(limit)
        culprits = choose_culprits(plan.world, plan.faults, seed=plan.seed)
        tie_faults(culprits, plan.faults, self.platforms, self.clock)
        self.blast = BlastRadius(
            violations=self.violations,
            clock=self.clock,
            culprits=culprits,
            faults=plan.faults,
            platforms=self.platforms,
            shared_days={ETSY: limit},
        )
        transports = {host(name): simulated.transport for name, simulated in self.platforms.items()}
        self._transport = ObservedPlatformTransport(transports, self._check_limits)
        self.app = self._build(pool)
        self.ages = Ages()
        self.forecasts = ForecastChecks()
        self.alerts = AlertLog(self.clock)
        self.laws = AccountLaws(
            violations=self.violations,
            clock=self.clock,
            evidence=self.evidence,
            ages=self.ages,
            forecasts=self.forecasts,
            blast=self.blast,
        )
        self.workers = SimulatedWorkers(
            self.clock, faults=plan.faults.workers, seed=plan.seed, stop=self._stop
        )
        operations = SimulatedOperations(self.app, self.clock, self.platforms, self.laws)
        self.people = AccountPeople(
            self.clock, plan.world, self.platforms, operations, self.laws, seed=plan.seed
        )
        self.judge = RowComparison(
            violations=self.violations,
            evidence=self.evidence,
            warehouse=Warehouse(pool),
            accounts=ConnectedShops(pool),
            platforms=self.platforms,
            shops=plan.world.shops,
            tier_of=self.app.sellers.tier,
            blast=self.blast,
        )
        self.flooded: list[ShopPlan] = []
        self._claims = 0
        self._idle: dict[str, None] = {}
        self._refusals = dict.fromkeys(PLATFORMS, 0)
        self._breaches: dict[PlatformName, str] = {}
        operations.enter(plan.world.tiers)
        self.people.arrive()
        self.evidence.tidy()

    def run(self, progress: Callable[[float], None] = lambda _at_s: None) -> None:
        """Run all days, then let the world stand still until all rows are in the warehouse."""
        self.clock.spawn(self.people.live)
        self._spawn_floods()
        self.clock.spawn(self._tick)
        for number in range(self.plan.workers):
            self.workers.spawn(f"pull-{number + 1}", self._pull, has_bell=True)
        self.clock.spawn(self._ring)
        self.clock.spawn(lambda: self._check_hourly(progress))
        self.clock.spawn(self._record_forecasts)
        self.workers.spawn_mishaps()
        end_s = self.plan.days * DAY_S
        self.clock.run(end_s)
        self.forecasts.close(end_s)
        self.outcome = self._measure()
        self._settle(end_s)
        self._stop.set()
        self.workers.end()
        self.clock.run(self.clock.monotonic() + 2 * HOUR_S)

    # -- setting up --------------------------------------------------------------------------

    def _open_platforms(self, etsy_limit: int) -> dict[PlatformName, SimulatedPlatform]:
        """Open every shop, and apply its history."""
        seed, faults, past = self.plan.seed, self.plan.faults.platforms, PastClock(self.clock)
        self.etsy = SimulatedEtsy(
            self.clock,
            past,
            faults[ETSY],
            day_limit=etsy_limit,
            seed=seed,
        )
        shops = self.plan.world.shops
        on_shopify = [shop for shop in shops.values() if shop.platform == SHOPIFY]
        platforms: dict[PlatformName, SimulatedPlatform] = {
            SHOPIFY: SimulatedShopify(
                self.clock, past, faults[SHOPIFY], shops=on_shopify, seed=seed
            ),
            ETSY: self.etsy,
            PRINTIFY: SimulatedPrintify(self.clock, past, faults[PRINTIFY], seed=seed),
        }
        for shop in shops.values():
            platforms[shop.platform].open(shop)
        for event in self.plan.world.history:
            past.set(event.at_s)
            webhook = platforms[shops[event.shop].platform].act(shops[event.shop], event)
            if webhook is not None:
                self._past_webhooks[event.shop].append(webhook)
        past.set(None)
        return platforms

    def _build(
        self,
        pool: Any,  # noqa: ANN401 - a pool or a crashing one
        *,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> App:
        app = build(
            self.settings,
            clock or self.clock,
            pool,
            platform_transport=transport or self._transport,
            ids=lambda: fresh_id(self._ids),
        )
        return self._parts.app(replace(app, pull_rule=replace(app.pull_rule, poll=POLL)))

    # -- the actors --------------------------------------------------------------------------

    def _tick(self) -> None:
        jobs = self._observed_jobs(FaultInjector(self.clock))
        watch = (
            alert_monitor(self.app, on_change=self.alerts.record) if self.plan.is_watched else None
        )
        samples = NoFreshnessSamples(self._pool, promises_min={})
        app = with_ports(self.app, jobs=jobs, freshness=samples, tick_every=TICK)
        run_steps(
            app.tick(watch=watch).step, self.clock, self._stop, lambda _name, _text: None, "tick"
        )

    def _pull(self, injector: FaultInjector, owner: str, clock: Clock) -> Step:
        pool = CrashingPool(self._pool, injector)
        app = self._build(pool, clock=clock, transport=CrashingTransport(self._transport, injector))
        # Permits go by the database's clock, no matter what the worker's clock says. A worker
        # that cannot crash shares one limiter with all others, which knows the rows it wrote last.
        may_crash = self.plan.faults.workers.is_deadly
        limiter = self._build(pool).limiter if may_crash else self.app.limiter
        pull = with_ports(app, limiter=limiter, jobs=self._observed_jobs(injector)).pull(owner)
        return self._recording_idleness(owner.partition(".")[0], self._parts.pull(pull).step)

    def _recording_idleness(self, name: str, step: Step) -> Step:
        def noted() -> Done | Wait:
            self._idle.pop(name, None)
            result = step()
            if isinstance(result, Wait) and result.why == IDLE:
                self._idle[name] = None
            return result

        return noted

    def _ring(self) -> None:
        """Wake one idle worker whenever a job becomes due, as polling would in production."""
        looked_at = self.clock.now()
        while not self._stop.is_set():
            due_at = self.evidence.next_due(looked_at)
            now = self.clock.now()
            if due_at is not None and due_at <= now:
                looked_at = now
                if self._idle:
                    self.workers.ring(self._idle.popitem()[0])
            wait_s = RING_S if due_at is None else (due_at - now).total_seconds()
            self.clock.sleep(min(max(wait_s, 1.0), RING_S))

    def _spawn_floods(self) -> None:
        """Flood one shop for each such fault: a paying one, of the first platform that has any."""
        for flood in self.plan.faults.floods:
            shops = [
                shop
                for shop in self.plan.world.shops.values()
                if shop.platform in flood.platforms and self._past_webhooks[shop.key]
            ]
            if not shops:
                raise InvalidError("--fault: no shop has orders that webhooks could be about")
            shop = min(
                shops,
                key=lambda shop: (
                    not shop.tier.is_paid,
                    flood.platforms.index(shop.platform),
                    shop.number,
                ),
            )
            self.flooded.append(shop)
            self.blast.strain(shop)
            webhooks = self._past_webhooks[shop.key]
            self.clock.spawn(partial(self.people.flood, shop, webhooks, flood.count))

    def _observed_jobs(self, injector: FaultInjector) -> ObservedJobs:
        return ObservedJobs(
            self._parts.jobs(self.app.jobs),
            self.laws,
            injector,
            lost=self._lost,
            check_budget=self._check_budget,
        )

    def _lost(self, account: Account, reason: str) -> None:
        self.blast.disconnected(account, reason)
        self.people.lost(account, reason)

    def _check_hourly(self, progress: Callable[[float], None]) -> None:
        """Once an hour compare the running jobs; every day check which tiers were served."""
        hour = 0
        while not self._stop.is_set():
            self.clock.sleep(HOUR_S)
            if self._stop.is_set():
                return
            hour += 1
            self.laws.note_set_aside()
            self.laws.compare()
            check_job_explanations(self.app, self.violations)
            if hour % HOURS == 0:
                self.laws.close_day(day=hour // HOURS - 1)
            if hour % TIDY_EVERY_H == 0:
                self.evidence.tidy()
            progress(self.clock.monotonic())

    def _record_forecasts(self) -> None:
        """Now and then ask some jobs until when they wait."""
        draw, end_s = rng(f"foretell:{self.plan.seed}"), self.plan.days * DAY_S
        every_s = max(HOUR_S, end_s / ASKINGS_MAX)
        while True:
            self.clock.sleep(draw.uniform(0, 2 * every_s))
            at_s = self.clock.monotonic()
            if at_s >= end_s:
                return
            waiting = sorted(
                job.id for job in self.app.account_queries.jobs(self.clock.now(), limit=JOBS_MAX)
            )
            sample = draw.sample(waiting, min(ASKED_JOBS, len(waiting)))
            record_job_forecasts(self.app, sample, self.forecasts, at_s=at_s)

    # -- what the platforms and the limiter say ----------------------------------------------

    def _check_limits(self) -> None:
        """Check every platform's own log: the call that just arrived must exceed no limit."""
        for name, simulated in self.platforms.items():
            if simulated.refusals > self._refusals[name]:
                count = simulated.refusals - self._refusals[name]
                self._refusals[name] = simulated.refusals
                self.violations.add("L1", f"{name} refused a call", count=count)
            breach = simulated.breach()
            if breach is not None and breach != self._breaches.get(name):
                self._breaches[name] = breach
                self.violations.add("L1", f"{name}: {breach}")

    def _check_budget(self) -> None:
        """Read the daily quota now and then: used and reserved calls fit in its limit."""
        self._claims += 1
        if self._claims % BUDGET_EVERY:
            return
        for gauge in self.app.limiter.status(day_key(self.settings.etsy_keystring)).gauges:
            if gauge.used + gauge.reserved > gauge.limit:
                text = f"{gauge.used:g} used and {gauge.reserved:g} reserved of {gauge.limit:g}"
                self.violations.add("L11", f"of Etsy's day {text}")

    # -- the end -----------------------------------------------------------------------------

    def _measure(self) -> AccountOutcome:
        starved = self.laws.close(days=self.plan.days)
        return AccountOutcome(
            served=self.ages.served(),
            etsy_served=self.ages.served(only=ETSY),
            age_min=self.ages.age_min(),
            etsy_age_min=self.ages.age_min(only=ETSY),
            longest_wait_h=self.ages.worst_h(),
            starved=starved,
        )

    def _settle(self, end_s: float) -> None:
        """Run on while the world stands still, until all rows are there or it is too late.

        Etsy's daily quota is large by now: the waits of a small one were checked before.
        """
        self.etsy.lift(LIFT)
        for hours in self.plan.looks_h:
            self.clock.run(end_s + hours * HOUR_S)
            tally = self.judge.look(self.clock.now(), is_final=hours == self.plan.looks_h[-1])
            self.outcome = replace(self.outcome, tally=tally, settling_s=hours * HOUR_S)
            if tally.is_equal:
                break
        self.laws.compare()
