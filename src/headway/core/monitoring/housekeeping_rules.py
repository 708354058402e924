"""Alert rules about the housekeeping itself."""

from collections.abc import Iterator
from datetime import timedelta

from headway.core.monitoring.alerts import MINUTE, Finding, Severity, alert_rule
from headway.core.monitoring.metrics import AlertMetrics
from headway.core.reasons import format_duration

TICK_AGE_MAX_MIN = 5


@alert_rule(
    "A housekeeping step fails repeatedly.",
    Severity.CRITICAL,
    link="/trouble",
    fires_after=3 * MINUTE,
    measures={"housekeeping": lambda metrics: len(metrics.failing_steps)},
)
def housekeeping(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield every step that fails, with its error."""
    for step in metrics.failing_steps:
        yield Finding(
            since=step.since,
            subject=step.name,
            count=step.failures,
            sentence=(
                f"The housekeeping step {step.name} has failed for"
                f" {format_duration(metrics.now - step.since)}: {step.error}. All other steps run."
            ),
        )


@alert_rule(
    "No process does the housekeeping.",
    Severity.CRITICAL,
    threshold=TICK_AGE_MAX_MIN,
    unit="minutes since the last round",
    fires_after=timedelta(0),
    expression="headway_tick_age_seconds > 60 * {threshold}",
)
def no_tick(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if the last round of the housekeeping was made too long ago."""
    last = metrics.ticked_at
    if last is not None and metrics.now - last > timedelta(minutes=threshold):
        yield Finding(
            since=last,
            sentence=(
                "The housekeeping has not run for"
                f" {format_duration(metrics.now - last)}: leases, pauses and deadlines are not"
                " checked. Start `headway run` or a worker."
            ),
        )
