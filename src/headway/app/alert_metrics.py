"""The signs that alerts are judged by: of everybody, counted for it; of one seller, as shown."""

from collections.abc import Sequence
from datetime import datetime

from headway.app import App
from headway.app.providers import supplier_key
from headway.app.rules import MINUTE_S
from headway.core.limits.state import UNKNOWN
from headway.core.monitoring.alerts import TOKEN_NOTICE
from headway.core.monitoring.burn_rate import burn
from headway.core.monitoring.metrics import (
    AlertMetrics,
    ConnectionMetric,
    QuotaMetric,
    TierMetric,
    TokenMetric,
)
from headway.core.monitoring.rules import FAST, SLOW
from headway.core.pauses import Pause
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.counts import count_listings
from headway.store.catalog.suppliers import Suppliers
from headway.store.monitoring.counters import MinuteCounters
from headway.store.monitoring.freshness import KEPT_SHARE, Freshness
from headway.store.pool import guarded
from headway.store.status import Overview


def alert_metrics_now(app: App, now: datetime, *, pauses: Sequence[Pause]) -> AlertMetrics:
    """Count the signs of everybody's line, shops and accounts."""
    settings, pulse = app.settings, MinuteCounters(app.pool)
    status = app.limiter.status(app.limit_key)
    # Every limiter waits out one window when it begins, which is no trouble.
    is_known = status.reason != UNKNOWN
    free_at = status.promised_at or status.next_free_at
    pace_s = max(settings.rate_gap_s, MINUTE_S / settings.rate_limit)
    wait_s = (free_at - now).total_seconds() - pace_s if is_known else 0.0
    with guarded(), app.pool.connection() as connection:
        counts, _, oldest_read_at = count_listings(connection, now, app.rule.seat_rule.slack, None)
    troubles = pulse.troubles()
    limit_keys = {row.name: supplier_key(row) for row in Suppliers(app.pool).all()}
    breakers = app.breakers.load_all(list(limit_keys.values()))
    return AlertMetrics(
        now=now,
        breaker=app.breakers.load(app.limit_key),
        others={
            name: breakers[limit_key]
            for name, limit_key in limit_keys.items()
            if breakers[limit_key].is_open
        },
        hour=pulse.read(
            now, limit_keys=[app.limit_key, *limit_keys.values()], permit_wait_s=max(0.0, wait_s)
        ),
        calls_paused_until=status.paused_until if is_known else None,
        calls_paused_reason=status.reason,
        pauses=pauses,
        stale=counts.stale,
        total=counts.total,
        oldest_read_at=oldest_read_at,
        promises=promises_of(app.freshness.series(now - SLOW[-1]), now),
        held=troubles.held,
        held_since=troubles.held_since,
        failing=counts.failing,
        refused=troubles.refused,
        refusals_in_a_row=troubles.refusals_in_a_row,
        parked=counts.parked,
        connections=troubles.connections,
        dead_jobs=troubles.dead_jobs,
        quotas=[
            QuotaMetric(
                platform=each.platform,
                left=each.left,
                limit=each.limit,
                room_at=each.forecast.room_at,
                paused_until=each.paused_until,
            )
            for each in app.account_queries.budgets(now)
        ],
        tokens=Credentials(app.pool).ending(
            now + TOKEN_NOTICE, client_id=settings.shopify_client_id
        ),
    )


def alert_metrics_of(
    seen: Overview, *, pauses: Sequence[Pause], tokens: Sequence[TokenMetric]
) -> AlertMetrics:
    """Return the signs in a seller's overview; what all sellers share is not in it."""
    front, lane = seen.storefront, seen.accounts
    is_known = seen.gate.pause_reason != UNKNOWN
    return AlertMetrics(
        now=seen.now,
        breaker=seen.breaker,
        calls_paused_until=seen.gate.paused_until if is_known else None,
        calls_paused_reason=seen.gate.pause_reason,
        pauses=pauses,
        stale=seen.counts.stale,
        total=seen.counts.total,
        oldest_read_at=seen.oldest_read_at,
        held=front.held_count,
        held_since=min((each.at for each in front.held), default=None),
        failing=seen.counts.failing,
        refused=sum(each.failing for each in front.shops),
        refusals_in_a_row=max((each.failures for each in front.failing), default=0),
        parked=seen.counts.parked,
        connections=_connections(seen),
        dead_jobs=lane.dead_count,
        tokens=tokens,
    )


def _connections(seen: Overview) -> list[ConnectionMetric]:
    """Return every account that is lost, and the shops that do not answer."""
    lost = [
        ConnectionMetric(
            seller=each.user_id,
            name=f"{each.platform} {each.shop}",
            is_connected=False,
            trouble=each.trouble,
        )
        for each in seen.accounts.accounts
        if not each.is_connected
    ]
    down = [
        ConnectionMetric(
            seller=each.user_id,
            name=f"shopify {each.shop}",
            is_connected=True,
            trouble=each.trouble,
        )
        for each in seen.storefront.shops
        if each.is_connected and each.trouble
    ]
    return [*lost, *down]


def promises_of(samples: Sequence[Freshness], now: datetime) -> list[TierMetric]:
    """Return how each tier's promise stands, by the samples of the last hours."""
    if not samples:
        return []
    newest = samples[-1]
    metrics = []
    for each in newest.tiers:
        kept = [
            (sample.at, tier.kept_share)
            for sample in samples
            for tier in sample.tiers
            if tier.tier is each.tier and tier.kept_share is not None
        ]
        metrics.append(
            TierMetric(
                tier=each.tier,
                promise_min=each.promise_min,
                kept_share=1.0 if each.kept_share is None else each.kept_share,
                burn_fast=burn(kept, now, FAST, promised=KEPT_SHARE),
                burn_slow=burn(kept, now, SLOW, promised=KEPT_SHARE),
                at=newest.at,
            )
        )
    return metrics
