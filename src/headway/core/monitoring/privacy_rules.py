"""Alert rules about customers' rights: requests that wait, and erasures that do not end."""

from collections.abc import Iterator
from datetime import timedelta

from headway.core.accounts.erasure import OVERDUE_AFTER
from headway.core.monitoring.alerts import Finding, Severity, alert_rule, counted
from headway.core.monitoring.metrics import AlertMetrics
from headway.core.reasons import format_duration, format_time

# A month is the limit: ten days are left to answer.
WARN_AFTER_DAYS = 20


@alert_rule(
    "Customers wait for their data, and the day by which they must have it is near.",
    Severity.CRITICAL,
    link="/accounts",
    threshold=WARN_AFTER_DAYS,
    unit="days since the first request",
    measures={"privacy_requests": lambda metrics: _due(metrics, WARN_AFTER_DAYS)},
)
def privacy_due(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield the shops whose customers have waited for so many days."""
    for row in metrics.privacy:
        if metrics.now - row.since < timedelta(days=threshold):
            continue
        yield Finding(
            seller=row.seller,
            subject=f"{row.seller} {row.name}",
            since=row.since,
            count=row.count,
            sentence=(
                f"{counted(row.count, 'customer')} of {row.name} of {row.seller} waiting for their"
                f" data; the first must have it by {format_time(row.due_at, metrics.now)}. See:"
                " headway privacy list"
            ),
        )


@alert_rule(
    "An erasure does not end.",
    Severity.CRITICAL,
    link="/trouble",
    measures={"erasures_stuck": lambda metrics: metrics.open_erasures * _is_stuck(metrics)},
)
def erasure_stuck(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield a finding if the first open erasure was requested long ago."""
    since = metrics.erasing_since
    if since is not None and _is_stuck(metrics):
        yield Finding(
            since=since,
            count=metrics.open_erasures,
            sentence=(
                f"An erasure that was requested {format_duration(metrics.now - since)} ago is not"
                " done. A running Headway continues it; see: headway erase list"
            ),
        )


def _due(metrics: AlertMetrics, days: float) -> int:
    """Return how many customers wait in shops whose first request is so many days old."""
    span = timedelta(days=days)
    return sum(row.count for row in metrics.privacy if metrics.now - row.since >= span)


def _is_stuck(metrics: AlertMetrics) -> bool:
    since = metrics.erasing_since
    return since is not None and metrics.now - since >= OVERDUE_AFTER
