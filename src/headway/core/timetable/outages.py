"""Supplier outages, derived from the call ledger: law L3 excludes that time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from headway.core.catalog.listings import AuthStep

ANSWERED = frozenset({"ok", *(step.value for step in AuthStep)})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """A call of the ledger, with its end if known; `result` is None if the outcome is unknown."""

    begun_at: datetime
    finished_at: datetime | None
    result: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A stretch that begins with a failed call and ends with the next one that was answered."""

    starts_at: datetime
    ends_at: datetime
    failed_calls: int
    reason: str


def outages(calls: Iterable[LoggedCall], now: datetime) -> list[Outage]:
    """Return the stretches without an answer, in order; one that still lasts ends now."""
    spans: list[Outage] = []
    failed: list[LoggedCall] = []
    for call in sorted(calls, key=lambda call: call.begun_at):
        if call.result is None:
            continue
        if call.result not in ANSWERED:
            failed.append(call)
        elif failed:
            spans.append(_stretch(failed, call.finished_at or call.begun_at))
            failed = []
    if failed:
        spans.append(_stretch(failed, now))
    return spans


def _stretch(failed: list[LoggedCall], ends_at: datetime) -> Outage:
    return Outage(
        starts_at=failed[0].begun_at,
        ends_at=ends_at,
        failed_calls=len(failed),
        reason=failed[-1].result or "",
    )
