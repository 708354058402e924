"""The values of the gauges, from the status overview and the alert measurements."""

from collections import Counter
from collections.abc import Mapping, Sequence

from headway.core.monitoring.alerts import Alert, Severity
from headway.core.monitoring.metrics import AlertMetrics
from headway.core.monitoring.rules import measured
from headway.observe.metrics import MetricValues
from headway.store.monitoring.freshness import Freshness
from headway.store.status import Overview

NAN = float("nan")


def metric_values(
    overview: Overview,
    metrics: AlertMetrics,
    alerts: Sequence[Alert],
    freshness: Freshness | None = None,
) -> MetricValues:
    """Return the gauge values of an overview of all sellers."""
    counts, front, lane = overview.counts, overview.storefront, overview.accounts
    leaves_at, oldest = overview.next_call.leaves_at, overview.oldest_read_at
    by_severity = Counter(alert.severity for alert in alerts)
    return MetricValues(
        plain={
            "supplier_up": float(not overview.breaker.is_open),
            "supplier_calls_day": overview.spent.day_count,
            "supplier_calls_day_limit": overview.spent.day_limit,
            "supplier_calls_minute": overview.spent.minute_count,
            "fill_ratio": NAN if overview.spent.fill is None else overview.spent.fill,
            "next_call_seconds": (
                NAN if leaves_at is None else max(0.0, (leaves_at - overview.now).total_seconds())
            ),
            "oldest_read_seconds": (
                NAN if oldest is None else (overview.now - oldest).total_seconds()
            ),
            "changes_waiting": sum(shop.waiting for shop in front.shops),
            "pushes_day": front.written.count,
            "changes_held": front.held_count,
            "accounts_disconnected": metrics.disconnected,
            "sellers_at_quota": metrics.sellers_at_quota,
            "tick_age_seconds": (
                NAN
                if metrics.ticked_at is None
                else (metrics.now - metrics.ticked_at).total_seconds()
            ),
            "permit_delay_seconds": metrics.hour.permit_wait_s,
            "webhook_events_waiting": metrics.endpoints.waiting,
            "webhook_oldest_seconds": _oldest_event_s(metrics),
        },
        by_label={
            **_ages(overview, freshness),
            "push_lag_seconds": {
                "0.5": NAN if front.written.p50_s is None else front.written.p50_s,
                "0.95": NAN if front.written.p95_s is None else front.written.p95_s,
            },
            "failures": {
                "supplier": overview.breaker.failures,
                "listing": counts.failing,
                "shop": sum(shop.failing for shop in front.shops),
            },
            "jobs": {
                "running": len(lane.running),
                "due": lane.due_count,
                "dead": lane.dead_count,
                "overdue": sum(jobs.overdue for jobs in metrics.jobs),
                "limited": sum(jobs.limited for jobs in metrics.jobs),
            },
            **_job_values(metrics),
            "webhook_endpoints": {
                "enabled": metrics.endpoints.enabled,
                "disabled": metrics.endpoints.disabled,
                "failing": len(metrics.endpoints.failing),
            },
            "quota_ratio": {
                str(budget.platform): (budget.used + budget.reserved) / budget.limit
                for budget in lane.budgets
            },
            **_alert_values(metrics),
            "alerts": {severity.value: by_severity.get(severity, 0) for severity in Severity},
        },
    )


def _oldest_event_s(metrics: AlertMetrics) -> float:
    """Return the age of the oldest event that waits for an enabled endpoint."""
    oldest_at = metrics.endpoints.oldest_at
    return 0.0 if oldest_at is None else (metrics.now - oldest_at).total_seconds()


def _ages(overview: Overview, freshness: Freshness | None) -> dict[str, Mapping[str, float]]:
    """Return the listings by state, by age and by tier."""
    counts, tiers = overview.counts, () if freshness is None else freshness.tiers
    return {
        "listings": {
            "fresh": counts.fresh,
            "stale": counts.stale,
            "unread": counts.unread,
            "parked": counts.parked,
            "overdue": counts.overdue,
            "in_call": counts.in_call,
        },
        "listing_age_listings": {
            f"{hours:02}": count for hours, count in enumerate(overview.ages_h)
        },
        "fresh_ratio": {tier.tier.value: tier.fresh / tier.total for tier in tiers if tier.total},
        "promise_kept_ratio": {
            tier.tier.value: tier.kept_share for tier in tiers if tier.kept_share is not None
        },
    }


def _job_values(metrics: AlertMetrics) -> dict[str, Mapping[tuple[str, ...], float]]:
    """Return age and overdue jobs by platform, kind and tier."""
    by_class = {(jobs.platform, jobs.kind, jobs.tier): jobs for jobs in metrics.jobs}
    return {
        "jobs_due": {label: jobs.due for label, jobs in by_class.items()},
        "jobs_overdue": {label: jobs.overdue for label, jobs in by_class.items()},
        "job_delay_seconds": {
            label: 0.0
            if jobs.oldest_due_at is None
            else (metrics.now - jobs.oldest_due_at).total_seconds()
            for label, jobs in by_class.items()
        },
        "job_promise_kept_ratio": {
            label: 1 - jobs.overdue / jobs.total for label, jobs in by_class.items()
        },
    }


def _alert_values(metrics: AlertMetrics) -> dict[str, Mapping[str, float]]:
    """Return what only alert rules need."""
    hour = metrics.hour
    return {
        "hour": {
            "calls": hour.calls,
            "calls_failed": hour.calls_failed,
            "reads": hour.reads,
            "reads_failed": hour.reads_failed,
            "overdue": hour.overdue,
        },
        "trouble": measured(metrics),
        "promise_burn_fast": {tier.tier: tier.burn_fast for tier in metrics.promises},
        "promise_burn_slow": {tier.tier: tier.burn_slow for tier in metrics.promises},
    }
