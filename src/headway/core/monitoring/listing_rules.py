"""Alert rules about listings: freshness, promises, held changes, failures."""

from collections.abc import Iterator
from datetime import timedelta

from headway.core.monitoring.alerts import (
    HOUR,
    MINUTE,
    Finding,
    Severity,
    alert_rule,
    counted,
    listed,
    warning_or_critical,
)
from headway.core.monitoring.metrics import AlertMetrics, TierMetric
from headway.core.monitoring.supplier_rules import STANDSTILLS
from headway.core.reasons import format_duration

DAY = timedelta(days=1)


def _stale(metrics: AlertMetrics) -> int:
    """Return how many listings are stale, none while the oldest read is what the policy allows."""
    oldest = metrics.oldest_read_at
    is_allowed = oldest is not None and oldest >= metrics.now - metrics.age_max
    return 0 if is_allowed else metrics.stale


@alert_rule(
    "Parts were not read for more than 24 h.",
    Severity.WARNING,
    link="/parts?state=stale",
    threshold=0,
    unit="parts",
    fires_after=4 * MINUTE,
    resolves_after=10 * MINUTE,
    suppressed_by=STANDSTILLS,
    suppressed_for=3 * HOUR,
    measures={"stale": _stale},
    expression='headway_trouble{{what="stale"}} > {threshold}',
)
def stale(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if listings were not read for more than a day, and the policy's slack."""
    oldest, count = metrics.oldest_read_at, _stale(metrics)
    if count > threshold:
        age = f"; the oldest read was {format_duration(metrics.now - oldest)} ago" if oldest else ""
        yield Finding(
            since=oldest + DAY if oldest and oldest + DAY < metrics.now else None,
            count=count,
            sentence=f"{counted(count, 'listing')} stale: no read for more than 24 h{age}.",
        )


@alert_rule(
    "Many more parts of a tier are late than promised.",
    Severity.CRITICAL,
    link="/freshness",
    threshold=6,
    unit="times what the promise allows, over 15 min and 1 h",
    resolves_after=10 * MINUTE,
    expression="headway_promise_burn_fast >= {threshold}",
    recent="max_over_time(headway_promise_burn_fast[{span}]) >= {threshold}",
)
def promise_burning(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield the tiers whose promise is broken fast."""
    for tier in metrics.promises:
        if tier.burn_fast >= threshold:
            yield _broken_promise(tier, tier.burn_fast)


# Raised beside promise_burning too: what slipped before it burned still does.
@alert_rule(
    "Somewhat more parts of a tier are late than promised.",
    Severity.WARNING,
    link="/freshness",
    threshold=1.5,
    unit="times what the promise allows, over 1 h and 6 h",
    resolves_after=10 * MINUTE,
    suppressed_by=("promise_burning",),
    suppressed_for=6 * HOUR,
    expression="headway_promise_burn_slow >= {threshold}",
)
def promise_slipping(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield the tiers whose promise is broken slowly."""
    for tier in metrics.promises:
        if tier.burn_slow >= threshold:
            yield _broken_promise(tier, tier.burn_slow)


@alert_rule(
    "Changes are held until a person approves or rejects them.",
    Severity.WARNING,
    link="/changes",
    threshold=0,
    unit="changes",
    expression="headway_changes_held > {threshold}",
)
def held(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if changes wait for approval."""
    if metrics.held > threshold:
        yield Finding(
            since=metrics.held_since,
            count=metrics.held,
            sentence=f"{counted(metrics.held, 'change')} held and waiting for approval.",
        )


@alert_rule(
    "Parts are parked (no longer read) after repeated failures.",
    Severity.CRITICAL,
    link="/trouble",
    threshold=0.05,
    unit="of all parts is critical; any is a warning",
    expression='headway_listings{{state="parked"}} > 0',
)
def parked(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if listings are parked."""
    if metrics.parked:
        yield Finding(
            severity=warning_or_critical(is_critical=metrics.parked > threshold * metrics.total),
            count=metrics.parked,
            sentence=(
                f"{counted(metrics.parked, 'listing')} parked after repeated failures"
                f"{listed(metrics.names.parked, metrics.parked)}. Fix the cause, then revive."
            ),
        )


@alert_rule(
    "A shop repeatedly refuses to update a part.",
    Severity.WARNING,
    link="/trouble",
    threshold=3,
    unit="refusals in a row",
    measures={"refusals_in_a_row": lambda metrics: metrics.refusals_in_a_row},
    expression='headway_trouble{{what="refusals_in_a_row"}} > {threshold}',
)
def refused_by_shop(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if shops reject updates; a few refusals are only a notice."""
    if metrics.refused:
        is_lasting = metrics.refusals_in_a_row > threshold
        yield Finding(
            severity=Severity.WARNING if is_lasting else Severity.NOTICE,
            count=metrics.refused,
            sentence=(
                f"{counted(metrics.refused, 'listing')} refused by the shop"
                f"{listed(metrics.names.refused, metrics.refused)}. Headway tries again."
            ),
        )


@alert_rule(
    "Parts fail at the supplier. Shown on the page, never sent.",
    Severity.NOTICE,
    link="/trouble",
    expression='headway_failures{{blame="listing"}} > 0',
)
def failing(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield a notice if listings fail at the supplier."""
    if metrics.failing:
        yield Finding(
            count=metrics.failing,
            sentence=(
                f"{counted(metrics.failing, 'listing')} failing at the supplier"
                f"{listed(metrics.names.failing, metrics.failing)}; tried again later."
            ),
        )


def _broken_promise(tier: TierMetric, burn: float) -> Finding:
    return Finding(
        since=tier.at,
        subject=tier.tier,
        sentence=(
            f"Data of the tier {tier.tier} is promised to be no older than"
            f" {format_duration(timedelta(minutes=tier.promise_min))}. This is so for"
            f" {tier.kept_share:.1%} of the listings; {burn:.1f} times as many are late as the"
            " promise allows."
        ),
    )
