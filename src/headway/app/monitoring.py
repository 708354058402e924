"""The measurements for alert rules, the check of each tick, and the notifications that follow."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headway.app.providers import supplier_key, token_prefixes
from headway.app.rules import MINUTE_S
from headway.core.catalog.listings import MAIN, LimitKey, SupplierName
from headway.core.dispatch import STOREFRONT
from headway.core.limits.state import UNKNOWN
from headway.core.monitoring.account_rules import TOKEN_NOTICE
from headway.core.monitoring.burn_rate import FAST, SLOW, burn
from headway.core.monitoring.messages import Message, QuietHours, alert_message
from headway.core.monitoring.metrics import (
    AlertMetrics,
    ConnectionMetric,
    QuotaMetric,
    SharedKeyMetric,
    TierMetric,
    TokenMetric,
    TroubleNames,
)
from headway.core.monitoring.rules import current_alerts
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.erasures import Erasures
from headway.store.accounts.privacy_requests import PrivacyRequests
from headway.store.catalog.listing_counts import count_listings
from headway.store.catalog.suppliers import Suppliers
from headway.store.limits.refusals import RefusedCalls
from headway.store.monitoring.alert_counters import MinuteCounters
from headway.store.monitoring.alert_states import AlertStates
from headway.store.monitoring.endpoint_counters import EndpointCounters
from headway.store.monitoring.freshness import KEPT_SHARE, Freshness
from headway.store.monitoring.housekeeping import Housekeeping
from headway.store.monitoring.job_ages import JobAges
from headway.store.monitoring.outbox import Outbox
from headway.store.pauses import Pauses
from headway.store.pool import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headway.app import App
    from headway.config import Settings
    from headway.core.monitoring.alert_state import AlertChange
    from headway.core.pauses import Pause
    from headway.engine.notify import Notify
    from headway.store.limits.quotas import Budget
    from headway.store.status import Overview


def alert_metrics_now(app: App, now: datetime, *, pauses: Sequence[Pause]) -> AlertMetrics:
    """Measure the supplier queues, shops and accounts of all sellers."""
    settings, counters = app.settings, MinuteCounters(app.pool)
    status = app.limiter.status(app.limit_key)
    # Every limiter waits for one window when it starts; that is no reason for an alert.
    is_known = status.reason != UNKNOWN
    free_at = status.promised_at or status.next_free_at
    pace_s = max(settings.rate_gap_s, MINUTE_S / settings.rate_limit)
    wait_s = (free_at - now).total_seconds() - pace_s if is_known else 0.0
    with guarded(), app.pool.connection() as connection:
        counts, _, oldest_read_at = count_listings(connection, now, app.rule.seat_rule.slack, None)
    all_terms = app.sellers.location_terms()
    troubles, ages = counters.troubles(app.platforms, now), JobAges(app.pool)
    limit_keys = {row.name: supplier_key(row) for row in Suppliers(app.pool).all()}
    breakers = app.breakers.load_all(list(limit_keys.values()))
    open_erasures, erasing_since = Erasures(app.pool).open_since()
    return AlertMetrics(
        now=now,
        breaker=app.breakers.load(app.limit_key),
        others={
            name: breakers[limit_key]
            for name, limit_key in limit_keys.items()
            if breakers[limit_key].is_open
        },
        hour=counters.read(
            now, limit_keys=[app.limit_key, *limit_keys.values()], permit_wait_s=max(0.0, wait_s)
        ),
        calls_paused_until=status.paused_until if is_known else None,
        calls_paused_reason=status.reason,
        pauses=pauses,
        stale=counts.stale,
        age_max=app.policy.age_max,
        total=counts.total,
        oldest_read_at=oldest_read_at,
        promises=promises_of(app.freshness.series(now - SLOW[-1]), now),
        held=troubles.held,
        held_since=troubles.held_since,
        failing=counts.failing,
        refused=troubles.refused,
        refusals_in_a_row=troubles.refusals_in_a_row,
        parked=counts.parked,
        names=troubles.names,
        unreadable=troubles.unreadable,
        connections=troubles.connections,
        dead_jobs=troubles.dead_jobs,
        disconnected=troubles.disconnected,
        jobs=ages.read(now, app.job_rule, app.platforms, late=JOB_LATE),
        sellers_at_quota=ages.sellers_at_quota(now, app.job_rule.order_quotas),
        held_removals=troubles.removals,
        privacy=PrivacyRequests(app.pool).open(),
        open_erasures=open_erasures,
        erasing_since=erasing_since,
        unknown_locations=[
            location
            for location in troubles.locations
            if any(terms.is_unknown(location.name) for terms in all_terms)
        ],
        shared_keys=list(_shared_keys(app, limit_keys, now)),
        unpublished=troubles.unpublished,
        oversold=troubles.oversold,
        quotas=[_quota_metric(app, budget, now) for budget in app.account_queries.budgets(now)],
        tokens=Credentials(app.pool).ending(now + TOKEN_NOTICE, prefixes=token_prefixes(settings)),
        ticked_at=Housekeeping(app.pool).last_round(),
        failing_steps=Housekeeping(app.pool).failing(),
        endpoints=EndpointCounters(app.pool).read(),
    )


def _shared_keys(
    app: App, limit_keys: Mapping[SupplierName, LimitKey], now: datetime
) -> Iterator[SharedKeyMetric]:
    """Yield the suppliers that refused calls within the limit, and what Headway spends there."""
    suppliers = {app.limit_key: MAIN, **{key: name for name, key in limit_keys.items()}}
    for refused in RefusedCalls(app.pool).unexplained(list(suppliers), now):
        name = suppliers[refused.key]
        queue = app.for_supplier(name)
        share = queue.markets.load((), now).share if queue.policy.is_eager else None
        yield SharedKeyMetric(
            supplier=name,
            count=refused.count,
            since=refused.since,
            last_at=refused.last_at,
            share=share,
        )


def _quota_metric(app: App, budget: Budget, now: datetime) -> QuotaMetric:
    """Measure a platform's day; if it is used up, with the account that used most of it."""
    metric = QuotaMetric(
        platform=budget.platform,
        left=budget.left,
        limit=budget.limit,
        room_at=budget.forecast.room_at,
        paused_until=budget.paused_until,
    )
    if not metric.is_spent(now):
        return metric
    name, calls = app.account_queries.top_account(now, budget.platform)
    return replace(metric, top_account=name, top_calls=calls)


def alert_metrics_of(
    overview: Overview, *, pauses: Sequence[Pause], tokens: Sequence[TokenMetric]
) -> AlertMetrics:
    """Return the measurements in a seller's overview; what all sellers share is not in it."""
    front, lane = overview.storefront, overview.accounts
    is_known = overview.gate.pause_reason != UNKNOWN
    return AlertMetrics(
        now=overview.now,
        breaker=overview.breaker,
        calls_paused_until=overview.gate.paused_until if is_known else None,
        calls_paused_reason=overview.gate.pause_reason,
        pauses=pauses,
        stale=overview.counts.stale,
        total=overview.counts.total,
        oldest_read_at=overview.oldest_read_at,
        held=front.held_count,
        held_since=min((change.at for change in front.held), default=None),
        failing=overview.counts.failing,
        refused=sum(shop.failing for shop in front.shops),
        refusals_in_a_row=max((listing.failures for listing in front.failing), default=0),
        parked=overview.counts.parked,
        names=_names(overview),
        connections=_connections(overview),
        dead_jobs=lane.dead_count,
        tokens=tokens,
    )


def _names(overview: Overview) -> TroubleNames:
    """Return the first few of what is in trouble, as the overview lists it."""
    trouble = overview.trouble
    return TroubleNames(
        parked=[f"{row.sku} of {row.seller}" for row in trouble if row.is_parked],
        failing=[f"{row.sku} of {row.seller}" for row in trouble if not row.is_parked],
        refused=[f"{row.sku} of {row.seller}" for row in overview.storefront.failing],
        dead_jobs=[job.name for job in overview.accounts.dead],
    )


def _connections(overview: Overview) -> list[ConnectionMetric]:
    """Return the disconnected accounts, and the shops that do not answer."""
    disconnected = [
        ConnectionMetric(
            seller=account.seller,
            name=f"{account.platform} {account.shop}",
            is_connected=False,
            trouble=account.trouble,
        )
        for account in overview.accounts.accounts
        if not account.is_connected
    ]
    down = [
        ConnectionMetric(
            seller=shop.seller,
            name=f"{STOREFRONT} {shop.shop}",
            is_connected=True,
            trouble=shop.trouble,
        )
        for shop in overview.storefront.shops
        if shop.is_connected and shop.trouble
    ]
    return [*disconnected, *down]


def promises_of(samples: Sequence[Freshness], now: datetime) -> list[TierMetric]:
    """Return each tier's promise and burn rates, from the samples of the last hours."""
    if not samples:
        return []
    newest = samples[-1]
    metrics = []
    for tier in newest.tiers:
        kept = [
            (sample.at, past.kept_share)
            for sample in samples
            for past in sample.tiers
            if past.tier is tier.tier and past.kept_share is not None
        ]
        metrics.append(
            TierMetric(
                tier=tier.tier,
                promise_min=tier.promise_min,
                kept_share=1.0 if tier.kept_share is None else tier.kept_share,
                burn_fast=burn(kept, now, FAST, promised=KEPT_SHARE),
                burn_slow=burn(kept, now, SLOW, promised=KEPT_SHARE),
                at=newest.at,
            )
        )
    return metrics


EVERY = timedelta(minutes=1)
# A job that is due for so long should have run, unless its platform's day is short.
JOB_LATE = timedelta(hours=1)
ACTOR = "watch"


def alert_monitor(
    app: App, *, on_change: Callable[[AlertChange], None] = lambda _change: None
) -> Callable[[datetime], datetime]:
    """Return the step that checks the alert rules each minute and queues messages.

    Without an address to notify, no message is queued: an address that is added later gets no old
    messages.
    """
    app = app.as_person(actor=ACTOR)
    states, outbox = AlertStates(app.pool), Outbox(app.pool)
    settings, quiet = app.settings, quiet_hours(app.settings)
    base, has_targets = settings.public_url.rstrip("/"), bool(notify_urls(settings))

    def check(now: datetime) -> datetime:
        def write(change: AlertChange) -> Message | None:
            return alert_message(change, now, base=base, quiet=quiet) if has_targets else None

        metrics = alert_metrics_now(
            app, app.clock.now(), pauses=Pauses(app.pool).active(app.clock.now())
        )
        alerts = current_alerts(metrics, settings.alert_thresholds)
        for change in states.update(alerts, now, write=write) or ():
            on_change(change)
        if has_targets:
            outbox.gather(now, quiet=quiet)
        return now + EVERY

    return check


def notify_of(app: App) -> Notify | None:
    """Return the step that sends messages; None without an address. Raises ConfigError."""
    from headway.engine.notify import Notify
    from headway.observe.notify import AppriseSender

    urls = notify_urls(app.settings)
    if not urls:
        return None
    return Notify(clock=app.clock, outbox=Outbox(app.pool), messenger=AppriseSender(urls))


def notify_urls(settings: Settings) -> list[str]:
    """Return the addresses without duplicates."""
    return list(dict.fromkeys(settings.notify_urls.get_secret_value().split()))


def quiet_hours(settings: Settings) -> QuietHours | None:
    """Return the quiet hours, if the settings have any."""
    if settings.notify_quiet is None:
        return None
    begins, ends = settings.notify_quiet
    return QuietHours(begins=begins, ends=ends)
