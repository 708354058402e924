"""Alert rules about endpoints that events are sent to."""

from collections.abc import Iterator
from datetime import timedelta

from headway.core.monitoring.alerts import HOUR, Finding, Severity, alert_rule
from headway.core.monitoring.metrics import AlertMetrics, EndpointMetric
from headway.core.reasons import format_duration


def lasting(metrics: AlertMetrics) -> list[EndpointMetric]:
    """Return the endpoints that have failed for more than an hour, or that Headway disabled."""
    return [
        endpoint
        for endpoint in metrics.endpoints.failing
        if endpoint.is_disabled or metrics.now - endpoint.since >= HOUR
    ]


@alert_rule(
    "An endpoint that events are sent to fails, or was disabled because it failed.",
    Severity.WARNING,
    link="/trouble",
    fires_after=timedelta(0),
    measures={"endpoints_failing": lambda metrics: len(lasting(metrics))},
)
def webhook_failing(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield those endpoints, each with its last error and what waits."""
    for endpoint in lasting(metrics):
        span = metrics.now - endpoint.since
        whose = f" of {endpoint.seller}" if endpoint.seller else ""
        what = "was disabled" if endpoint.is_disabled else f"has failed for {format_duration(span)}"
        waiting = f"; {endpoint.waiting:,} events wait" if endpoint.waiting else ""
        yield Finding(
            severity=Severity.CRITICAL if endpoint.is_disabled else None,
            since=endpoint.since,
            seller=endpoint.seller,
            subject=endpoint.id,
            sentence=(
                f"The webhook endpoint {endpoint.host}{whose} {what}: {endpoint.error}{waiting}."
            ),
        )
