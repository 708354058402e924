"""Alert rules about suppliers: calls, reads, permits and pauses."""

import re
from collections.abc import Iterator
from datetime import timedelta

from headway.core.catalog.listings import MAIN
from headway.core.monitoring.alerts import (
    HOUR,
    MINUTE,
    Finding,
    Severity,
    alert_rule,
    counted,
    warning_or_critical,
)
from headway.core.monitoring.metrics import AlertMetrics
from headway.core.pauses import Pause, PauseKind
from headway.core.reasons import format_duration, format_time

# A share of very few calls means little; at least this many must have failed.
FAILURES_MIN = 3
# The documents' second threshold is four times the first: 5 % and 20 %.
CRITICAL_FACTOR = 4
# For the wait for a permit they are 5 s and 30 s.
CRITICAL_WAIT_FACTOR = 6
# A refusal within the limit has one of these causes.
TOO_MANY = re.compile(r"\b429\b")
SHARED_KEY = (
    " It refuses calls as too many though Headway keeps the limit: another program or another"
    " Headway uses the same credential, or its limit is lower than the settings say."
)
# While one of these fires, its consequences raise no alerts of their own.
STANDSTILLS = ("supplier_down", "paused")
FAILED_SHARE = (
    'headway_hour{{{{what="{0}_failed"}}}} / ignoring (what) headway_hour{{{{what="{0}"}}}}'
    ' > {{threshold}} and ignoring (what) headway_hour{{{{what="{0}_failed"}}}} >= 3'
)


@alert_rule(
    "The supplier does not answer, and its circuit breaker is open.",
    Severity.CRITICAL,
    fires_after=MINUTE,
    expression="headway_supplier_up == 0",
    recent="min_over_time(headway_supplier_up[{span}]) == 0",
)
def supplier_down(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield every supplier whose circuit breaker is open."""
    now = metrics.now
    for name, breaker in (("", metrics.breaker), *metrics.others.items()):
        if not breaker.is_open:
            continue
        since = breaker.opened_at or now
        yield Finding(
            since=since,
            subject=name,
            sentence=(
                f"The supplier {name + ' ' if name else ''}has not answered for"
                f" {format_duration(now - since)} ({breaker.reason or 'no reason given'});"
                f" tried again at {format_time(breaker.open_until or now, now)}."
                f"{SHARED_KEY if TOO_MANY.search(breaker.reason) else ''}"
            ),
        )


@alert_rule(
    "Calls to the supplier wait longer than the rate limit requires.",
    Severity.WARNING,
    threshold=5,
    unit="seconds longer than usual; critical at six times that",
    expression="headway_permit_delay_seconds > {threshold}",
)
def permit_wait(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if calls wait longer than the rate limit explains."""
    now, until = metrics.now, metrics.calls_paused_until
    wait_s = max(metrics.hour.permit_wait_s, (until - now).total_seconds() if until else 0.0)
    if wait_s > threshold:
        is_critical = wait_s > CRITICAL_WAIT_FACTOR * threshold
        yield Finding(
            severity=Severity.CRITICAL if is_critical else None,
            sentence=(
                f"The next call to the supplier is possible at {format_time(until, now)}"
                f" ({metrics.calls_paused_reason or 'no reason given'})."
                if until is not None and until > now
                else "Calls to the supplier wait"
                f" {format_duration(timedelta(seconds=wait_s))} longer than the rate limit"
                " requires."
            ),
        )


@alert_rule(
    "Too many calls to the supplier failed in the last hour.",
    Severity.CRITICAL,
    link="/",
    threshold=0.05,
    unit="of the calls; critical at four times that",
    resolves_after=10 * MINUTE,
    suppressed_by=STANDSTILLS,
    suppressed_for=HOUR,
    expression=FAILED_SHARE.format("calls"),
)
def error_share(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if too many calls failed in the last hour."""
    hour = metrics.hour
    return _failed_share("calls to the supplier", hour.calls_failed, hour.calls, threshold)


@alert_rule(
    "Too many parts could not be read in the last hour.",
    Severity.CRITICAL,
    link="/trouble",
    threshold=0.05,
    unit="of the parts; critical at four times that",
    resolves_after=10 * MINUTE,
    expression=FAILED_SHARE.format("reads"),
)
def reads_failed(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if too many reads failed in the last hour."""
    hour = metrics.hour
    return _failed_share("parts that were asked for", hour.reads_failed, hour.reads, threshold)


@alert_rule(
    "Too few parts were read in the last hour, although more were due.",
    Severity.CRITICAL,
    threshold=30,
    unit="parts an hour, while so many wait",
    suppressed_by=STANDSTILLS,
    suppressed_for=HOUR,
    expression=(
        'headway_hour{{what="reads"}} < {threshold} and ignoring (what)'
        ' headway_hour{{what="reads"}} + ignoring (what) headway_hour{{what="overdue"}}'
        " >= {threshold}"
    ),
)
def few_synced(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if few parts were read in the last hour although enough were due."""
    hour = metrics.hour
    if hour.reads < threshold <= hour.reads + hour.overdue:
        yield Finding(
            count=hour.reads,
            sentence=(
                f"Parts read in the last hour: {hour.reads:,}; due for longer than that:"
                f" {hour.overdue:,}."
            ),
        )


@alert_rule(
    "Many parts have been due for more than an hour.",
    Severity.WARNING,
    link="/timetable",
    threshold=100,
    unit="parts",
    resolves_after=10 * MINUTE,
    suppressed_by=STANDSTILLS,
    suppressed_for=3 * HOUR,
    expression='headway_hour{{what="overdue"}} > {threshold}',
)
def overdue(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if many parts have been due for more than an hour."""
    count = metrics.hour.overdue
    if count > threshold:
        yield Finding(count=count, sentence=f"{counted(count, 'part')} due for more than an hour.")


@alert_rule(
    "Everything is paused, or reading from a supplier is.",
    Severity.WARNING,
    fires_after=timedelta(0),
    resolves_after=timedelta(0),
    measures={"paused": lambda metrics: sum(pause.is_wide for pause in metrics.pauses)},
    recent='max_over_time(headway_trouble{{what="paused"}}[{span}]) > 0',
)
def paused(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield every pause; a pause of one seller or part is only a notice."""
    for pause in metrics.pauses:
        end = (
            f"until {format_time(pause.until, metrics.now)}"
            if pause.until
            else "until somebody resumes"
        )
        reason = f": {pause.reason}" if pause.reason else ""
        yield Finding(
            severity=Severity.WARNING if pause.is_wide else Severity.NOTICE,
            since=pause.since,
            seller=pause.seller,
            subject=" ".join(filter(None, (pause.kind, pause.seller, pause.sku, pause.supplier))),
            sentence=(
                f"{_paused_work(pause)} is paused by {pause.actor or 'somebody'} {end}{reason}."
            ),
        )


@alert_rule(
    "A supplier has stock at a location that is not mapped.",
    Severity.WARNING,
    link="/changes",
    fires_after=timedelta(0),
    measures={"unknown_locations": lambda metrics: len(metrics.unknown_locations)},
)
def unknown_location(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield every location that is neither mapped nor left out."""
    for location in metrics.unknown_locations:
        of = "" if location.supplier == MAIN else f" of the supplier {location.supplier}"
        yield Finding(
            subject=f"{location.supplier} {location.name}",
            since=location.since,
            sentence=(
                f"The location {location.name}{of} is not mapped. Its stock is not sold, and parts"
                " that may have moved there are held. Map it in HEADWAY_LOCATIONS or in the terms"
                " of its sellers, or list it in HEADWAY_LOCATIONS_UNSOLD."
            ),
        )


@alert_rule(
    "A supplier refuses calls within its limit: something else uses the credential.",
    Severity.WARNING,
    link="/",
    fires_after=timedelta(0),
    measures={"shared_keys": lambda metrics: len(metrics.shared_keys)},
)
def key_shared(metrics: AlertMetrics, _: float) -> Iterator[Finding]:
    """Yield every supplier that refused calls of the last day that no call of ours explains."""
    for key in metrics.shared_keys:
        of = "The supplier" if key.supplier == MAIN else f"The supplier {key.supplier}"
        spends = "" if key.share is None else f" Headway now spends {key.share:.0%} of the limit."
        yield Finding(
            subject=key.supplier,
            since=key.since,
            count=key.count,
            sentence=(
                f"{of} refused {counted(key.count, 'call')} within the limit, the last at"
                f" {format_time(key.last_at, metrics.now)}: another program or another Headway uses"
                f" the same credential, or its limit is lower than the settings say.{spends}"
            ),
        )


@alert_rule(
    "Parts or jobs were not released after their lease ended.",
    Severity.CRITICAL,
    threshold=10,
    unit="of them are critical; any is a warning",
    measures={"stuck": lambda metrics: metrics.hour.stuck},
)
def stuck(metrics: AlertMetrics, threshold: float) -> Iterator[Finding]:
    """Yield a finding if leases ended long ago and no tick released them."""
    count = metrics.hour.stuck
    if count:
        yield Finding(
            severity=warning_or_critical(is_critical=count > threshold),
            count=count,
            sentence=f"{counted(count, 'part or job', 'parts or jobs')} still claimed although the"
            " lease ended long ago: no tick releases them.",
        )


def _failed_share(noun: str, failed: int, total: int, threshold: float) -> Iterator[Finding]:
    share = failed / total if total else 0.0
    if failed >= FAILURES_MIN and share > threshold:
        yield Finding(
            severity=warning_or_critical(is_critical=share > CRITICAL_FACTOR * threshold),
            count=failed,
            sentence=f"{failed:,} of {total:,} {noun} failed in the last hour ({share:.0%}).",
        )


def _paused_work(pause: Pause) -> str:
    work = {
        PauseKind.ALL: "Everything",
        PauseKind.SUPPLIER: f"Reading {pause.what}",
        PauseKind.SELLER: f"Everything of {pause.seller}",
        PauseKind.LISTING: f"{pause.sku} of {pause.seller}",
    }
    return work[pause.kind]
