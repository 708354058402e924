"""Alert rules about shops and accounts: connections, tokens, jobs, quotas."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from headway.core.monitoring.alerts import (
    HOUR,
    MINUTE,
    Finding,
    Severity,
    alert_rule,
    counted,
    listed,
)
from headway.core.monitoring.metrics import AlertMetrics, ConnectionMetric
from headway.core.reasons import format_duration, format_time

# Long enough that most people are back from a holiday before the token expires.
TOKEN_NOTICE = timedelta(days=7)
# Late jobs of a platform stand still if none of its jobs made a call for so long.
STANDSTILL = timedelta(minutes=30)
# An account that used this share of a platform's day is named in the alert.
TOP_SHARE_MIN = 0.25


@alert_rule(
    "A shop or platform does not answer, refuses access, or is suspended.",
    Severity.WARNING,
    link="/accounts",
    # Headway retries a shop some time after its platform answers other shops.
    suppressed_for=HOUR,
    measures={"shops_down": lambda metrics: sum(shop.is_connected for shop in metrics.connections)},
)
def shop_refused(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield the connected shops and the platforms that do not answer."""
    for connection in metrics.connections:
        if connection.is_connected and connection.trouble:
            yield _connection_finding(connection)


@alert_rule(
    "A seller's account is disconnected and must be connected again.",
    Severity.CRITICAL,
    link="/accounts",
    expression="headway_accounts_disconnected > 0",
)
def disconnected(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield the accounts that are disconnected."""
    for connection in metrics.connections:
        if not connection.is_connected:
            yield _connection_finding(connection)


@alert_rule(
    "Jobs of accounts are due, and none of their platform's jobs runs.",
    Severity.CRITICAL,
    link="/accounts",
    threshold=1,
    unit="jobs that are due for an hour",
    measures={"jobs_late": lambda metrics: sum(count for _, count, _ in standing_still(metrics))},
    expression='headway_trouble{{what="jobs_late"}} >= {threshold}',
)
def jobs_late(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield the platforms whose jobs stand still, though their day has room."""
    for platform, count, since in standing_still(metrics):
        if count < threshold:
            continue
        late = format_duration(metrics.now - since)
        yield Finding(
            subject=platform,
            count=count,
            since=since,
            sentence=(
                f"{counted(count, f'{platform} job')} due for more than an hour, the longest for"
                f" {late}, and none has run for half an hour. Check that `headway run` or a worker"
                " with pull places runs."
            ),
        )


def standing_still(metrics: AlertMetrics) -> Iterator[tuple[str, int, datetime]]:
    """Yield the platforms without a run, how many of their jobs are late, and since when."""
    excused = {quota.platform for quota in metrics.quotas if quota.is_short(metrics.now)}
    excused |= {shop.name for shop in metrics.connections if shop.seller is None}
    for platform in dict.fromkeys(jobs.platform for jobs in metrics.jobs):
        its = [jobs for jobs in metrics.jobs if jobs.platform == platform]
        count = sum(jobs.late for jobs in its)
        called_at = max((jobs.last_call_at for jobs in its if jobs.last_call_at), default=None)
        is_still = called_at is None or metrics.now - called_at >= STANDSTILL
        if count and is_still and platform not in excused:
            since = min(jobs.oldest_due_at for jobs in its if jobs.oldest_due_at is not None)
            yield platform, count, since


@alert_rule(
    "A token expires within a week and cannot be renewed.",
    Severity.CRITICAL,
    link="/accounts",
    measures={"tokens_ending": lambda metrics: len(metrics.tokens)},
)
def token_expiring(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield the grants that expire soon or have expired."""
    for token in metrics.tokens:
        if token.expires_at > metrics.now + TOKEN_NOTICE:
            continue
        has_expired = token.expires_at <= metrics.now
        yield Finding(
            severity=Severity.CRITICAL if has_expired else Severity.WARNING,
            seller=token.seller,
            subject=f"{token.seller} {token.name}",
            sentence=(
                f"The token of {token.name} of {token.seller}"
                f" {'expired' if has_expired else 'expires'} at"
                f" {format_time(token.expires_at, metrics.now)} and cannot be renewed; connect the"
                " account again."
            ),
        )


@alert_rule(
    "Account jobs are dead after repeated failures.",
    Severity.WARNING,
    link="/accounts",
    threshold=0,
    unit="jobs",
    expression='headway_jobs{{status="dead"}} > {threshold}',
)
def dead_jobs(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if jobs are dead."""
    if metrics.dead_jobs > threshold:
        yield Finding(
            count=metrics.dead_jobs,
            sentence=(
                f"{counted(metrics.dead_jobs, 'job')} dead after repeated failures"
                f"{listed(metrics.names.dead_jobs, metrics.dead_jobs)}. Fix the cause, then revive"
                " them."
            ),
        )


@alert_rule(
    "Some records of an account cannot be read.",
    Severity.WARNING,
    link="/accounts",
    measures={
        "unreadable": lambda metrics: sum(metric.count for metric in metrics.unreadable),
    },
)
def unreadable(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield the accounts with records that cannot be read, by kind."""
    for metric in metrics.unreadable:
        noun = metric.kind if metric.count > 1 else metric.kind.removesuffix("s")
        yield Finding(
            seller=metric.seller,
            subject=f"{metric.seller} {metric.name} {metric.kind}",
            count=metric.count,
            sentence=(
                f"{metric.count:,} {noun} of {metric.name} of {metric.seller} cannot be read"
                f"{listed(metric.examples, metric.count)}: {metric.reason}. All others are read."
            ),
        )


@alert_rule(
    "Most listings of an account are missing on the platform; Headway keeps them for now.",
    Severity.WARNING,
    link="/accounts",
    measures={"removals_held": lambda metrics: len(metrics.held_removals)},
)
def removals_held(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield the accounts whose listings are missing on the platform, but not removed here."""
    for removal in metrics.held_removals:
        decide = f"headway removals {removal.seller} --platform {removal.platform}"
        yield Finding(
            seller=removal.seller,
            subject=f"{removal.seller} {removal.name}",
            since=removal.since,
            count=removal.missing,
            sentence=(
                f"{removal.name} of {removal.seller} no longer shows {removal.missing} of"
                f" {removal.known} listings: {removal.reason}. Check the shop. If they are gone:"
                f" {decide} --confirm {removal.missing}. If they are still there: {decide}"
                f" --dismiss {removal.missing}."
            ),
        )


@alert_rule(
    "Parts are in a shop but not on their sales channels, so nobody can buy them.",
    Severity.WARNING,
    link="/accounts",
    measures={"unpublished": lambda metrics: sum(shop.count for shop in metrics.unpublished)},
)
def unpublished(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield the shops where parts cannot be published; their prices and stock go on."""
    for shop in metrics.unpublished:
        parts = "1 part" if shop.count == 1 else f"{shop.count:,} parts"
        yield Finding(
            seller=shop.seller,
            subject=f"{shop.seller} {shop.name}",
            count=shop.count,
            sentence=f"{parts} of {shop.seller} cannot be bought in {shop.name}: {shop.reason}.",
        )


@alert_rule(
    "A shop sells parts that are out of stock.",
    Severity.WARNING,
    link="/accounts",
    measures={"oversold": lambda metrics: sum(shop.count for shop in metrics.oversold)},
)
def oversell(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield the shops that sell at zero stock, or do not track it."""
    for shop in metrics.oversold:
        parts = "1 part" if shop.count == 1 else f"{shop.count:,} parts"
        yield Finding(
            seller=shop.seller,
            subject=f"{shop.seller} {shop.name}",
            count=shop.count,
            sentence=(
                f"{shop.name} sells {parts} of {shop.seller} even when out of stock"
                f" ({', '.join(shop.examples)}): it does not track the stock, or continues selling"
                f" at zero. Change that in the shop, or run:"
                f" headway terms {shop.seller} --oversell deny."
            ),
        )


@alert_rule(
    "A platform's daily limit is used up, or the platform asked Headway to wait.",
    Severity.WARNING,
    link="/accounts",
    fires_after=4 * MINUTE,
    measures={
        "quotas_spent": lambda metrics: sum(quota.is_spent(metrics.now) for quota in metrics.quotas)
    },
)
def quota_spent(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield the platforms whose daily quota is used up, or that asked us to wait."""
    for quota in metrics.quotas:
        if not quota.is_spent(metrics.now):
            continue
        is_paused = quota.paused_until is not None and quota.paused_until > metrics.now
        until = quota.paused_until if is_paused else quota.room_at
        again = f"; the next call is possible at {format_time(until, metrics.now)}" if until else ""
        spent = (
            "asked Headway to wait"
            if is_paused
            else f"has no call left of its {quota.limit:,.0f} a day"
        )
        most = ""
        if quota.top_account and quota.top_calls >= TOP_SHARE_MIN * quota.limit:
            most = f" {quota.top_account} alone used about {quota.top_calls:,.0f} of the day."
        yield Finding(
            subject=quota.platform, sentence=f"{quota.platform.capitalize()} {spent}{again}.{most}"
        )


def _connection_finding(connection: ConnectionMetric) -> Finding:
    at = "" if connection.at is None else f"{connection.at:%Y-%m-%d %H} h"
    platform = connection.name.partition(" ")[0]
    is_lost_together = connection.at is not None and not connection.is_connected
    cause = f"{platform} {connection.trouble} {at}" if is_lost_together else platform
    return Finding(
        seller=connection.seller,
        subject=" ".join(filter(None, (connection.seller, connection.name)))
        if connection.seller or not is_lost_together
        else cause,
        under=cause if connection.seller else "",
        count=connection.count,
        sentence=_connection_sentence(connection),
    )


def _connection_sentence(connection: ConnectionMetric) -> str:
    name, seller = connection.name, connection.seller
    reason = connection.trouble or "no reason given"
    if connection.refused:
        return (
            f"{name.capitalize()} refuses the tokens of {connection.refused} accounts at once, so"
            f" the cause is not these accounts, and none is disconnected. The last refusal:"
            f" {reason}."
        )
    if seller is None and not connection.is_connected:
        return (
            f"{connection.count:,} accounts of {name.capitalize()} were disconnected within an"
            f" hour, for the same reason: {reason}. Find the cause, then connect them again."
        )
    if seller is None:
        return f"{name.capitalize()} does not answer for any account: {reason}."
    if connection.is_connected:
        return f"{name} of {seller} does not answer: {reason}."
    return f"{name} of {seller} is disconnected: {reason}. Connect it again."
