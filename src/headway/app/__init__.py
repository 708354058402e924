"""The composition root: the only place where adapters meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import httpx

from headway.app import providers
from headway.app.call_metrics import ProcessMetrics
from headway.app.providers import (
    day_limits,
    main_entry,
    main_limit_key,
    shared_limits,
    supplier_limit,
)
from headway.app.rules import (
    LEASE_MARGIN,
    MINUTE_S,
    account_rule,
    at_pace,
    failure_rule,
    fetch_rule,
    seats_per_min,
    seller_defaults,
)
from headway.clock import Clock, fresh_id
from headway.config import Settings
from headway.core.accounts.jobs import Account, Job, JobRule, JobType, PlatformName, Tier
from headway.core.accounts.pagination import Paginator
from headway.core.catalog.intake import handle_of
from headway.core.catalog.lifecycle import Judge
from headway.core.catalog.listings import MAIN, LimitKey, SellerId, SupplierName
from headway.core.catalog.storefront import Shop
from headway.core.dispatch import Verb
from headway.core.limits.status import LimitStatus
from headway.core.reasons import ListingPosition
from headway.core.timetable.next_call import SupplierQueue
from headway.core.timetable.policies import Policy, by_name
from headway.engine import ports
from headway.engine.fetch import Fetch, FetchRule
from headway.engine.observed_limiter import ObservedLimiter
from headway.engine.ports import Platform, Storefront, Supplier
from headway.engine.ports_limits import Limiter
from headway.engine.pull import Pull, PullRule
from headway.engine.push import Push, PushRule
from headway.engine.push_bulk import BulkPush
from headway.engine.supplier_queue import current_rule, read_front
from headway.engine.supplier_tick import SupplierTick, SupplierTicks
from headway.engine.tick import EVERY, Tick
from headway.providers.oauth import OAuthClient
from headway.providers.provider import SupplierEntry, SupplierPace
from headway.providers.registry import main_storefront, platform_role
from headway.store.access.isolation import TenantPool
from headway.store.accounts.jobs import Jobs
from headway.store.accounts.oauth_flows import OAuthFlows
from headway.store.accounts.status import AccountQueries
from headway.store.accounts.webhooks import Webhooks
from headway.store.catalog.bulk import Bulks
from headway.store.catalog.history_months import HistoryMonths
from headway.store.catalog.listings import Listings
from headway.store.catalog.pushes import Pushes
from headway.store.catalog.raw_replies import RawReplies
from headway.store.catalog.sellers import Sellers
from headway.store.catalog.suppliers import Suppliers
from headway.store.dispatch import DispatchLeases
from headway.store.limits.breakers import Breakers
from headway.store.limits.day_demand import DayDemand
from headway.store.limits.error_share import ErrorShare
from headway.store.limits.limiter import PostgresLimiter
from headway.store.monitoring.alert_states import AlertStates
from headway.store.monitoring.freshness import FreshnessSamples
from headway.store.monitoring.notices import Notices
from headway.store.monitoring.outbox import Outbox
from headway.store.pauses import Pauses
from headway.store.pool import Pool
from headway.store.runs import Runs
from headway.store.timetable.ahead import Ahead
from headway.store.timetable.markets import Markets
from headway.store.timetable.schedule import Schedule
from headway.store.timetable.slots import Timetable

# How many accounts a worker keeps connections to.
OPENED_MAX = 32
BUDGETS_KEPT = timedelta(days=35)
SAMPLES_KEPT = timedelta(days=35)
# A shop without a dispatch for this long is disconnected or idle.
DISPATCH_LEASES_KEPT = timedelta(days=1)
# OAuth flows that never returned from the consent page are deleted after this time.
FLOWS_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Everything a runner, the page or the command line works with."""

    settings: Settings
    clock: Clock
    pool: Pool
    policy: Policy
    limiter: PostgresLimiter
    schedule: Schedule
    ahead: Ahead
    listings: Listings
    sellers: Sellers
    markets: Markets
    timetable: Timetable
    freshness: FreshnessSamples
    raw: RawReplies
    pauses: Pauses
    breakers: Breakers
    webhooks: Webhooks
    consents: Mapping[PlatformName, Callable[[], OAuthClient]]
    supplier: SupplierName
    limit_key: LimitKey
    pace: SupplierPace
    open_supplier: Callable[[SupplierName], Supplier]
    pushes: Pushes
    new_storefront: Callable[[Shop], Storefront]
    push_rule: PushRule
    jobs: Jobs
    job_rule: JobRule
    platforms: Mapping[PlatformName, Callable[[Account], Platform]]
    pull_rule: PullRule = field(default_factory=PullRule)
    shop_restore_per_s: float
    judge: Judge
    rule: FetchRule
    account_queries: AccountQueries
    process_metrics: ProcessMetrics = field(default_factory=ProcessMetrics)

    def fetch(
        self,
        owner: str,
        *,
        limiter: Limiter | None = None,
        schedule: ports.SchedulePort | None = None,
        markets: ports.MarketsPort | None = None,
        breakers: ports.BreakersPort | None = None,
        supplier: Supplier | None = None,
        wake_push: Callable[[], None] = lambda: None,
    ) -> Fetch:
        """Make a worker's fetch; only the simulation replaces ports."""
        return Fetch(
            clock=self.clock,
            limiter=self.observed_limiter(Verb.FETCH, limiter),
            schedule=schedule or self.schedule,
            sellers=self.sellers,
            markets=markets or self.markets,
            breakers=breakers or self.breakers,
            supplier=supplier or self.open_supplier(self.supplier),
            judge=self.judge,
            rule=self.rule,
            owner=owner,
            wake_push=wake_push,
        )

    def push(
        self,
        owner: str,
        *,
        limiter: PostgresLimiter | None = None,
        pushes: ports.PushesPort | None = None,
        breakers: ports.BreakersPort | None = None,
        only: str | None = None,
    ) -> Push:
        """Make a worker's push, for all shops or for one; a port given here stands in.

        Only the simulation needs that.
        """
        gate = limiter or self.limiter
        watched = self.observed_limiter(Verb.PUSH, gate)
        opened: dict[str, Storefront] = {}

        def open_shop(shop: Shop) -> Storefront:
            watched.seller = shop.user_id
            if shop.id not in opened:
                storefront = self.new_storefront(shop)
                limit = providers.shop_limit(
                    self.settings, shop.domain, restore_per_s=self.shop_restore_per_s
                )
                gate.know(replace(limit, key=storefront.limit_key))
                opened[shop.id] = storefront
            return opened[shop.id]

        flows = pushes or self.pushes
        bulk = BulkPush(
            clock=self.clock,
            pushes=flows,
            bulks=Bulks(self.pool),
            from_count=self.settings.bulk_from,
            write_file=main_storefront()[1].price_file,
        )
        return Push(
            clock=self.clock,
            limiter=watched,
            pushes=flows,
            breakers=breakers or self.breakers,
            open_shop=open_shop,
            handle=handle_of,
            rule=self.push_rule,
            owner=owner,
            ids=self.limiter.ids,
            bulk=bulk,
            only=only,
        )

    def pull(
        self,
        owner: str,
        *,
        limiter: PostgresLimiter | None = None,
        jobs: ports.JobsPort | None = None,
        breakers: ports.BreakersPort | None = None,
        open_platform: Callable[[Account], Platform] | None = None,
        only: PlatformName | None = None,
    ) -> Pull:
        """Make a worker's pull, for all platforms or for one; a port given here stands in.

        Only the simulation needs that.
        """
        gate = limiter or self.limiter
        watched = self.observed_limiter(Verb.PULL, gate)
        opened: dict[str, Platform] = {}

        def open_once(account: Account) -> Platform:
            watched.seller = account.user_id
            if account.id not in opened:
                if len(opened) >= OPENED_MAX:
                    opened.pop(next(iter(opened)))
                opened[account.id] = (open_platform or self.open_platform)(account)
                own = providers.own_limit(
                    account, self.settings, restore_per_s=self.shop_restore_per_s
                )
                if own is not None:
                    gate.know(own)
            return opened[account.id]

        return Pull(
            clock=self.clock,
            limiter=watched,
            jobs=jobs or self.jobs,
            breakers=breakers or self.breakers,
            open_platform=open_once,
            paginator_of=_paginator_of,
            errors=ErrorShare(self.pool),
            rule=self.job_rule,
            pull_rule=self.pull_rule,
            owner=owner,
            only=only,
        )

    def observed_limiter(self, verb: str, limiter: Limiter | None = None) -> ObservedLimiter:
        """Return a limiter for one worker that counts and traces its calls."""
        return ObservedLimiter(
            limiter or self.limiter, clock=self.clock, verb=verb, watch=self.process_metrics
        )

    def open_platform(self, account: Account) -> Platform:
        """Make the connector of an account."""
        return self.platforms[account.platform](account)

    def tick(
        self,
        *,
        jobs: ports.JobsPort | None = None,
        schedule: ports.SchedulePort | None = None,
        markets: ports.MarketsPort | None = None,
        timetable: ports.TimetablePort | None = None,
        every: timedelta = EVERY,
        has_samples: bool = True,
        watch: Callable[[datetime], datetime] | None = None,
    ) -> Tick:
        """Make a tick that also checks alerts with `watch`; a port given here replaces the App's.

        Only the simulation needs that, of the settings' supplier. It has its own figures of
        freshness, and takes no samples.
        """

        def new_line(name: SupplierName) -> SupplierTick:
            line = self.for_supplier(name)
            return SupplierTick(
                schedule=schedule or line.schedule,
                markets=markets or line.markets,
                timetable=timetable or line.timetable,
                policy=self.policy,
                every=every,
                now=self.clock.now(),
            )

        return Tick(
            clock=self.clock,
            schedule=schedule or self.schedule,
            sellers=self.sellers,
            lines=SupplierTicks(names=Suppliers(self.pool).names, new_line=new_line),
            jobs=jobs or self.jobs,
            pauses=self.pauses,
            notices=Notices(self.pool),
            sample=self.freshness.sample if has_samples else None,
            watch=watch,
            memories=(
                (self.jobs, BUDGETS_KEPT),
                (self.freshness, SAMPLES_KEPT),
                (OAuthFlows(self.pool), FLOWS_KEPT),
                (self.limiter, timedelta(days=self.settings.ledger_retention_days)),
                (self.raw, timedelta(days=self.settings.raw_retention_days)),
                (self.pushes, timedelta(days=self.settings.ledger_retention_days)),
                (self.webhooks, timedelta(days=self.settings.ledger_retention_days)),
                (Runs(self.pool), timedelta(days=self.settings.ledger_retention_days)),
                (DispatchLeases(self.pool, self.clock), DISPATCH_LEASES_KEPT),
                (AlertStates(self.pool), timedelta(days=self.settings.ledger_retention_days)),
                (Outbox(self.pool), timedelta(days=self.settings.ledger_retention_days)),
            ),
            history=HistoryMonths(self.pool, months=self.settings.history_months).tend,
            every=every,
            rescues=self.process_metrics.rescued,
        )

    def adopt(self) -> int:
        """Place every listing by this policy if another one had; return how many were placed."""
        seats_per_min = self.settings.rate_limit * self.settings.batch_size
        return self.timetable.adopt(self.policy, self.clock.now(), seats_per_min=seats_per_min)

    def policy_reason(self, position: ListingPosition, now: datetime) -> str:
        """Return why the policy reads a listing when it does."""
        policy = self.policy
        if policy.is_eager:
            policy = policy.informed(self.markets.load((), now))
        return policy.reason(position.listing, now)

    def supplier_queue(
        self, now: datetime, *, pool: Pool | None = None, status: LimitStatus | None = None
    ) -> SupplierQueue:
        """Read what every listing waits for: permits, the supplier, the front of the queue.

        With `pool`, read the rows through that one; `status` is the limiter's, if already read.
        """
        status = status or self.limiter.status(self.limit_key)
        app = self if pool is None else self._over(pool)
        pace_s = max(self.pace.gap_s, MINUTE_S / self.pace.calls_per_min)
        front = read_front(app.schedule, now, self.rule.seat_rule)
        rule = current_rule(
            self.rule.seat_rule,
            front,
            now,
            policy=self.policy,
            schedule=app.schedule,
            markets=app.markets,
            pace=self.rule.pace,
        )
        is_full = rule.retries_left == 0
        window = self.policy.retry_window(now, app.schedule.listed()) if is_full else None
        return SupplierQueue(
            rule=rule,
            breaker=app.breakers.load(self.limit_key),
            # The next permit may already be promised to the call that waits for it.
            permit_at=status.promised_at or status.next_free_at,
            pace=max(timedelta(seconds=pace_s), self.rule.pace),
            paused_until=status.paused_until,
            pause_reason=status.reason,
            retries_from=None if window is None else window.closes_at,
            front=front,
        )

    def _over(self, pool: Pool) -> "App":
        """Return the same application whose supplier queue is read through this pool."""
        return replace(
            self,
            schedule=Schedule(pool, self.supplier),
            breakers=Breakers(pool),
            markets=self._markets_over(pool, self.supplier, self.limit_key, self.pace),
        )

    def _markets_over(
        self, pool: Pool, name: SupplierName, limit_key: LimitKey, pace: SupplierPace
    ) -> Markets:
        rate = seats_per_min(self.settings, pace)
        return Markets(pool, name, limit_key=limit_key, seats_per_min=rate)

    def for_supplier(self, name: SupplierName) -> "App":
        """Return the same application for this supplier; raises NotFoundError.

        The credential and its limit, the queue, the market and the retry windows are that
        supplier's.
        """
        if name == self.supplier:
            return self
        entry: SupplierEntry = (
            main_entry(self.settings)[0] if name == MAIN else Suppliers(self.pool).find(name)
        )
        limit = supplier_limit(self.settings, entry)
        limit_key = LimitKey(limit.key)
        self.limiter.know(limit)
        pool, pace = self.pool, providers.role_of(entry).pace(self.settings, entry)
        return replace(
            self,
            pace=pace,
            supplier=name,
            limit_key=limit_key,
            rule=at_pace(self.rule, self.settings, pace),
            schedule=Schedule(pool, name),
            ahead=Ahead(pool, name),
            markets=self._markets_over(pool, name, limit_key, pace),
            timetable=Timetable(pool, name),
        )

    def with_poll(self, poll: timedelta) -> "App":
        """Return the same application whose workers poll this often."""
        return replace(self, rule=replace(self.rule, poll=poll))

    def as_person(self, *, actor: str, seller: SellerId | None = None) -> "App":
        """Return the application as this person may use it; with `seller`, only that seller's data.

        Sellers' data is read with tenant isolation; what all sellers share (limits, the supplier,
        the front of the queue) is read as the engine reads it.
        """
        pool = TenantPool(self.pool, actor=actor, seller=seller)
        return replace(
            self,
            pool=pool,
            listings=Listings(pool),
            sellers=self.sellers.over(pool),
            timetable=Timetable(pool, self.supplier),
            account_queries=self.account_queries.over(pool),
        )


def build(
    settings: Settings,
    clock: Clock,
    pool: Pool,
    *,
    transport: httpx.BaseTransport | None = None,
    shop_transport: httpx.BaseTransport | None = None,
    platform_transport: httpx.BaseTransport | None = None,
    ids: Callable[[], str] = fresh_id,
) -> App:
    """Put the parts together over an open, migrated database."""
    policy = by_name(settings.policy)
    limiter = PostgresLimiter(pool, clock, list(shared_limits(settings).values()), ids=ids)
    days, entry = day_limits(settings), main_entry(settings)[0]
    pace = providers.role_of(entry).pace(settings, entry)
    job_rule = account_rule(settings)
    demand = DayDemand(pool, job_rule)
    return App(
        settings=settings,
        clock=clock,
        pool=pool,
        policy=policy,
        limiter=limiter,
        jobs=Jobs(
            pool,
            limiter,
            job_rule,
            days={platform: day.key for platform, day in days.items()},
            demand=demand,
        ),
        job_rule=job_rule,
        platforms=providers.platforms(settings, clock, pool, platform_transport),
        supplier=MAIN,
        limit_key=main_limit_key(settings),
        pace=pace,
        schedule=Schedule(pool),
        ahead=Ahead(pool),
        listings=Listings(pool),
        sellers=Sellers(pool, seller_defaults(settings)),
        markets=Markets(
            pool, limit_key=main_limit_key(settings), seats_per_min=seats_per_min(settings, pace)
        ),
        timetable=Timetable(pool),
        freshness=FreshnessSamples(
            pool, promises_min={tier: settings.promises_min[tier.value] for tier in Tier}
        ),
        raw=RawReplies(pool),
        pauses=Pauses(pool),
        breakers=Breakers(pool),
        webhooks=Webhooks(pool),
        consents=providers.oauth_clients(settings, clock, pool, shop_transport),
        open_supplier=lambda name: providers.supplier(name, settings, clock, pool, transport),
        pushes=Pushes(pool, guard_move=settings.guard_move),
        new_storefront=lambda shop: providers.storefront(
            shop, settings, clock, pool, shop_transport
        ),
        push_rule=PushRule(
            lease=timedelta(seconds=settings.shopify_timeout_s) + LEASE_MARGIN,
            verify_every=None
            if settings.drift == "off"
            else timedelta(hours=settings.drift_check_h),
            repairs_drift=settings.drift == "repair",
        ),
        shop_restore_per_s=main_storefront()[1].restore_per_s,
        judge=Judge(rule=failure_rule(settings), policy=policy),
        account_queries=AccountQueries(pool, job_rule, days, demand),
        rule=fetch_rule(settings, policy),
    )


def _paginator_of(job: Job) -> Paginator:
    paginator_of = platform_role(job.account.platform).paginator_of
    return paginator_of(job.kind, is_backfill=job.type is JobType.BACKFILL)
