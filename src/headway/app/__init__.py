"""The composition root: the only place where adapters meet.

Commands that only read the database use it too, and should start at once. So the engine, the
metrics and the clients of providers are imported when something is made that works with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from headway.app import providers
from headway.app.providers import (
    day_limits,
    main_entry,
    main_limit_key,
    shared_limits,
    supplier_limit,
)
from headway.app.rules import (
    account_rule,
    at_pace,
    failure_rule,
    fetch_rule,
    least_price,
    policy_at,
    push_rule,
    seats_per_min,
    seller_defaults,
)
from headway.clock import Clock, fresh_id
from headway.core.accounts.jobs import Account, Job, JobRule, JobType, PlatformName, Tier
from headway.core.catalog.intake import handle_of
from headway.core.catalog.lifecycle import Judge
from headway.core.catalog.listings import MAIN, LimitKey, SellerId, SupplierName
from headway.core.dispatch import Verb
from headway.core.timetable.policies import Policy, by_name
from headway.engine.rules import TICK_EVERY, FetchRule, PullRule, PushRule
from headway.providers.registry import main_storefront, platform_role, platforms
from headway.store.access.isolation import TenantPool
from headway.store.accounts.account_queries import AccountQueries
from headway.store.accounts.jobs import Jobs
from headway.store.accounts.troubles import AccountTroubles
from headway.store.accounts.webhooks import Webhooks
from headway.store.catalog.listings import Listings
from headway.store.catalog.pushes import Pushes
from headway.store.catalog.sellers import Sellers
from headway.store.limits.breakers import Breakers
from headway.store.limits.day_demand import DayDemand
from headway.store.limits.limiter import PostgresLimiter
from headway.store.monitoring.freshness import FreshnessSamples
from headway.store.pauses import Pauses
from headway.store.timetable.ahead import Ahead
from headway.store.timetable.markets import Markets
from headway.store.timetable.schedule import Schedule
from headway.store.timetable.slots import Timetable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    import httpx

    from headway.config import Settings
    from headway.core.accounts.pagination import Paginator
    from headway.core.catalog.storefront import Shop
    from headway.core.reasons import ListingPosition
    from headway.engine.fetch import Fetch
    from headway.engine.observed_limiter import ObservedLimiter
    from headway.engine.ports import Platform, Storefront, Supplier
    from headway.engine.pull import Pull
    from headway.engine.push import Push
    from headway.engine.tick import SupplierTick, Tick
    from headway.observe.metrics import ProcessMetrics
    from headway.providers.oauth import OAuthClient
    from headway.providers.provider import SupplierPace
    from headway.store.pool import Pool

# How many accounts a worker keeps connections to.
OPENED_MAX = 32


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
    pauses: Pauses
    breakers: Breakers
    troubles: AccountTroubles
    webhooks: Webhooks
    consents: Mapping[PlatformName, Callable[[], OAuthClient]]
    supplier: SupplierName
    limit_key: LimitKey
    pace: SupplierPace
    sign_in_early: timedelta
    open_supplier: Callable[[SupplierName], Supplier]
    pushes: Pushes
    new_storefront: Callable[[Shop], Storefront]
    push_rule: PushRule
    jobs: Jobs
    job_rule: JobRule
    platforms: Mapping[PlatformName, Callable[[Account], Platform]]
    pull_rule: PullRule = field(default_factory=PullRule)
    tick_every: timedelta = TICK_EVERY
    shop_restore_per_s: float
    judge: Judge
    rule: FetchRule
    account_queries: AccountQueries
    open_metrics: Callable[[], ProcessMetrics]

    @property
    def process_metrics(self) -> ProcessMetrics:
        """What this process counts and traces; the same for every copy of the application."""
        return self.open_metrics()

    def fetch(self, owner: str, *, wake_push: Callable[[], None] = lambda: None) -> Fetch:
        """Make a worker's fetch."""
        from headway.engine.fetch import Fetch

        return Fetch(
            clock=self.clock,
            limiter=self.observed_limiter(Verb.FETCH),
            schedule=self.schedule,
            sellers=self.sellers,
            markets=self.markets,
            breakers=self.breakers,
            supplier=self.open_supplier(self.supplier),
            judge=self.judge,
            rule=self.rule,
            owner=owner,
            wake_push=wake_push,
        )

    def push(self, owner: str, *, only: str | None = None) -> Push:
        """Make a worker's push, for all shops or for one."""
        from headway.engine.push import Push
        from headway.engine.push_bulk import BulkPush
        from headway.store.catalog.bulk import Bulks

        limiter = self.observed_limiter(Verb.PUSH)
        opened: dict[tuple[str, str, str | None], Storefront] = {}

        def open_shop(shop: Shop) -> Storefront:
            limiter.seller = shop.user_id
            key = shop.id, shop.domain, shop.currency
            if key not in opened:
                storefront = self.new_storefront(shop)
                limit = providers.shop_limit(
                    self.settings, shop.domain, restore_per_s=self.shop_restore_per_s
                )
                self.limiter.know(replace(limit, key=storefront.limit_key))
                opened[key] = storefront
            return opened[key]

        bulk = BulkPush(
            clock=self.clock,
            pushes=self.pushes,
            bulks=Bulks(self.pool),
            from_count=self.settings.bulk_from,
            write_file=main_storefront()[1].price_file,
        )
        return Push(
            clock=self.clock,
            limiter=limiter,
            pushes=self.pushes,
            breakers=self.breakers,
            troubles=self.troubles,
            open_shop=open_shop,
            handle=handle_of,
            rule=self.push_rule,
            owner=owner,
            ids=self.limiter.ids,
            bulk=bulk,
            only=only,
        )

    def open_platform(self, account: Account) -> Platform:
        """Make the client that reads an account; the limiter then knows its limit."""
        platform = self.platforms[account.platform](account)
        own = providers.own_limit(account, self.settings, restore_per_s=self.shop_restore_per_s)
        if own is not None:
            self.limiter.know(own)
        return platform

    def pull(self, owner: str, *, only: PlatformName | None = None) -> Pull:
        """Make a worker's pull, for all platforms or for one."""
        from headway.engine.pull import Pull
        from headway.store.limits.error_share import ErrorShare

        limiter = self.observed_limiter(Verb.PULL)
        opened: dict[tuple[str, str], Platform] = {}

        def open_platform(account: Account) -> Platform:
            limiter.seller = account.user_id
            key = account.id, account.shop
            if key not in opened:
                if len(opened) >= OPENED_MAX:
                    opened.pop(next(iter(opened)))
                opened[key] = self.open_platform(account)
            return opened[key]

        return Pull(
            clock=self.clock,
            limiter=limiter,
            jobs=self.jobs,
            breakers=self.breakers,
            troubles=self.troubles,
            open_platform=open_platform,
            platforms=self.platforms,
            errors_counted=[name for name, role in platforms().items() if role.counts_errors],
            paginator_of=_paginator_of,
            errors=ErrorShare(self.pool),
            rule=self.job_rule,
            pull_rule=self.pull_rule,
            owner=owner,
            only=only,
        )

    def observed_limiter(self, verb: str) -> ObservedLimiter:
        """Return a limiter for one worker that counts and traces its calls."""
        from headway.engine.observed_limiter import ObservedLimiter

        return ObservedLimiter(
            self.limiter, clock=self.clock, verb=verb, watch=self.process_metrics
        )

    def tick(self, *, watch: Callable[[datetime], datetime] | None = None) -> Tick:
        """Make a tick; with `watch` it also checks alerts."""
        from headway.app.erasure import erase_due, expire_records
        from headway.app.retention import old_rows
        from headway.engine.tick import SupplierTick, SupplierTicks, Tick
        from headway.store.catalog.history_months import HistoryMonths
        from headway.store.catalog.suppliers import Suppliers
        from headway.store.monitoring.housekeeping import Housekeeping
        from headway.store.monitoring.notices import Notices

        def new_supplier_tick(name: SupplierName) -> SupplierTick:
            app = self.for_supplier(name)
            return SupplierTick(
                schedule=app.schedule,
                markets=app.markets,
                timetable=app.timetable,
                policy=app.policy,
                every=self.tick_every,
                now=self.clock.now(),
            )

        return Tick(
            clock=self.clock,
            schedule=self.schedule,
            sellers=self.sellers,
            suppliers=SupplierTicks(names=Suppliers(self.pool).names, new=new_supplier_tick),
            jobs=self.jobs,
            pauses=self.pauses,
            notices=Notices(self.pool),
            sample=self.freshness.sample,
            watch=watch,
            housekeeping=Housekeeping(self.pool),
            erase=partial(erase_due, self),
            expire=partial(expire_records, self),
            memories=old_rows(self),
            history=HistoryMonths(self.pool, months=self.settings.history_months).maintain,
            every=self.tick_every,
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

    def for_supplier(self, name: SupplierName) -> App:
        """Return the same application for this supplier; raises NotFoundError.

        The credential and its limit, the queue, the market and the retry windows are that
        supplier's.
        """
        if name == self.supplier:
            return self
        entry = providers.find_entry(name, self.settings, self.pool)
        limit = supplier_limit(self.settings, entry)
        limit_key = LimitKey(limit.key)
        self.limiter.know(limit)
        pool, role = self.pool, providers.role_of(entry)
        pace = role.pace(self.settings, entry)
        rate = seats_per_min(self.settings, pace)
        policy = policy_at(self.policy, pace)
        return replace(
            self,
            pace=pace,
            policy=policy,
            judge=replace(self.judge, policy=policy),
            supplier=name,
            limit_key=limit_key,
            rule=at_pace(self.rule, self.settings, pace),
            schedule=Schedule(pool, name, read_events=self.settings.read_events),
            ahead=Ahead(pool, name),
            markets=Markets(
                pool,
                name,
                limit_key=limit_key,
                seats_per_min=rate,
                price_min=least_price(self.settings),
            ),
            sign_in_early=role.sign_in_early,
            timetable=Timetable(pool, name),
        )

    def as_person(self, *, actor: str, seller: SellerId | None = None) -> App:
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
    role = providers.role_of(entry)
    pace = role.pace(settings, entry)
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
            kinds={platform: role.kinds for platform, role in platforms().items()},
            days={platform: day.key for platform, day in days.items()},
            demand=demand,
        ),
        job_rule=job_rule,
        platforms=providers.platforms(settings, clock, pool, platform_transport),
        supplier=MAIN,
        limit_key=main_limit_key(settings),
        pace=pace,
        sign_in_early=role.sign_in_early,
        schedule=Schedule(pool, read_events=settings.read_events),
        ahead=Ahead(pool),
        listings=Listings(pool),
        sellers=Sellers(pool, seller_defaults(settings)),
        markets=Markets(
            pool,
            limit_key=main_limit_key(settings),
            seats_per_min=seats_per_min(settings, pace),
            price_min=least_price(settings),
        ),
        timetable=Timetable(pool),
        freshness=FreshnessSamples(
            pool, promises_min={tier: settings.promises_min[tier.value] for tier in Tier}
        ),
        pauses=Pauses(pool),
        breakers=Breakers(pool),
        troubles=AccountTroubles(pool),
        webhooks=Webhooks(pool),
        consents=providers.oauth_clients(settings, clock, pool, shop_transport),
        open_supplier=lambda name: providers.supplier(name, settings, clock, pool, transport),
        pushes=Pushes(pool, Sellers(pool, seller_defaults(settings))),
        new_storefront=lambda shop: providers.storefront(
            shop, settings, clock, pool, shop_transport
        ),
        push_rule=push_rule(settings),
        shop_restore_per_s=main_storefront()[1].restore_per_s,
        judge=Judge(rule=failure_rule(settings), policy=policy),
        account_queries=AccountQueries(pool, job_rule, days, demand, platforms=platforms()),
        open_metrics=cache(_new_metrics),
        rule=fetch_rule(settings, policy),
    )


def _new_metrics() -> ProcessMetrics:
    from headway.observe.metrics import ProcessMetrics

    return ProcessMetrics()


def _paginator_of(job: Job) -> Paginator:
    paginator_of = platform_role(job.account.platform).paginator_of
    return paginator_of(job.kind, is_backfill=job.type is JobType.BACKFILL)
