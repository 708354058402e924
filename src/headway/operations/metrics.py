"""The figures that metrics show, from what the screens show."""

from collections import Counter
from collections.abc import Mapping, Sequence

from headway.core.monitoring.alerts import Alert
from headway.core.monitoring.metrics import AlertMetrics
from headway.core.monitoring.rules import Severity
from headway.observe.metrics import MetricValues
from headway.store.monitoring.freshness import Freshness
from headway.store.status import Overview

NAN = float("nan")


def figures_of(
    seen: Overview,
    metrics: AlertMetrics,
    alerts: Sequence[Alert],
    freshness: Freshness | None = None,
) -> MetricValues:
    """Return the figures in an overview of everybody's."""
    counts, front, lane = seen.counts, seen.storefront, seen.accounts
    leaves_at, oldest = seen.next_call.leaves_at, seen.oldest_read_at
    by_severity = Counter(each.severity for each in alerts)
    return MetricValues(
        plain={
            "supplier_up": float(not seen.breaker.is_open),
            "supplier_calls_day": seen.spent.day_count,
            "supplier_calls_day_limit": seen.spent.day_limit,
            "supplier_calls_minute": seen.spent.minute_count,
            "fill_ratio": NAN if seen.spent.fill is None else seen.spent.fill,
            "next_call_seconds": (
                NAN if leaves_at is None else max(0.0, (leaves_at - seen.now).total_seconds())
            ),
            "oldest_read_seconds": (NAN if oldest is None else (seen.now - oldest).total_seconds()),
            "changes_waiting": sum(each.waiting for each in front.shops),
            "pushes_day": front.written.count,
            "changes_held": front.held_count,
            "accounts_disconnected": sum(not each.is_connected for each in metrics.connections),
            "sellers_at_quota": sum(each.orders >= each.orders_max for each in lane.sellers),
            "permit_delay_seconds": metrics.hour.permit_wait_s,
        },
        by_label={
            **_ages(seen, freshness),
            "push_lag_seconds": {
                "0.5": NAN if front.written.p50_s is None else front.written.p50_s,
                "0.95": NAN if front.written.p95_s is None else front.written.p95_s,
            },
            "failures": {
                "supplier": seen.breaker.failures,
                "listing": counts.failing,
                "shop": sum(each.failing for each in front.shops),
            },
            "jobs": {
                "running": len(lane.running),
                "due": lane.due_count,
                "dead": lane.dead_count,
            },
            "quota_ratio": {
                each.platform.value: (each.used + each.reserved) / each.limit
                for each in lane.budgets
            },
            **_wrong(metrics),
            "alerts": {each.value: by_severity.get(each, 0) for each in Severity},
        },
    )


def _ages(seen: Overview, freshness: Freshness | None) -> dict[str, Mapping[str, float]]:
    """Return how listings stand, and how old they are."""
    counts, tiers = seen.counts, () if freshness is None else freshness.tiers
    return {
        "listings": {
            "fresh": counts.fresh,
            "stale": counts.stale,
            "unread": counts.unread,
            "parked": counts.parked,
            "overdue": counts.overdue,
            "in_call": counts.in_call,
        },
        "listing_age_listings": {f"{hours:02}": count for hours, count in enumerate(seen.ages_h)},
        "fresh_ratio": {each.tier.value: each.fresh / each.total for each in tiers if each.total},
        "promise_kept_ratio": {
            each.tier.value: each.kept_share for each in tiers if each.kept_share is not None
        },
    }


def _wrong(metrics: AlertMetrics) -> dict[str, Mapping[str, float]]:
    """Return what alerts are judged by and of which there is no other figure."""
    hour = metrics.hour
    return {
        "hour": {
            "calls": hour.calls,
            "calls_failed": hour.calls_failed,
            "reads": hour.reads,
            "reads_failed": hour.reads_failed,
            "overdue": hour.overdue,
        },
        "trouble": {
            "paused": sum(each.is_wide for each in metrics.pauses),
            "refusals_in_a_row": metrics.refusals_in_a_row,
            "stuck": hour.stuck,
            "shops_down": sum(each.is_connected for each in metrics.connections),
            "tokens_ending": len(metrics.tokens),
            "quotas_spent": sum(each.is_spent(metrics.now) for each in metrics.quotas),
        },
        "promise_burn_fast": {each.tier: each.burn_fast for each in metrics.promises},
        "promise_burn_slow": {each.tier: each.burn_slow for each in metrics.promises},
    }
