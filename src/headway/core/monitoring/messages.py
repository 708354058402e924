"""Notifications: their text, when they may be sent, and when they are retried."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from headway.core.monitoring.alert_state import AlertChange, AlertPhase
from headway.core.monitoring.alerts import Severity
from headway.core.reasons import format_duration

DAY = timedelta(days=1)
RETRY_FIRST = timedelta(seconds=30)
RETRY_MAX = timedelta(hours=1)
# A message that could not be delivered for a day is dropped; the page still shows the alert.
GIVE_UP_AFTER = DAY
MARK_CHARS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """Hours of the day (UTC) in which only critical messages are sent; they may pass midnight."""

    begins: time
    ends: time

    def until(self, now: datetime) -> datetime | None:
        """Return the end of the quiet hours that include now; None outside of them."""
        clock = now.time()
        is_over_midnight = self.begins > self.ends
        is_in = clock >= self.begins, clock < self.ends
        if not (any(is_in) if is_over_midnight else all(is_in)):
            return None
        ends_at = datetime.combine(now.date(), self.ends, tzinfo=now.tzinfo)
        return ends_at if ends_at > now else ends_at + DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to send.

    `key` identifies it; the keys of all messages about one alert begin with `begins_with`.
    """

    key: str
    begins_with: str
    severity: Severity
    title: str
    body: str
    created_at: datetime
    due_at: datetime
    notice_id: str | None = None
    is_resolved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedMessage:
    """A message that a process is sending.

    `tries` is its fencing number, `delivered` the targets that have received it.
    """

    id: str
    tries: int
    severity: Severity
    title: str
    body: str
    created_at: datetime
    delivered: Sequence[str]
    is_resolved: bool = False


def message_mark(key: str) -> str:
    """Return the short mark by which a reader recognizes a message that arrives twice."""
    return hashlib.sha256(key.encode()).hexdigest()[:MARK_CHARS]


def alert_message(
    change: AlertChange, now: datetime, *, base: str, quiet: QuietHours | None = None
) -> Message:
    """Write the message about a change of an alert; `base` is the public address, if it is set."""
    state, alert = change.state, change.state.alert
    fired_at = state.fired_at or now
    begins_with = f"alert {alert.name} {alert.subject} {fired_at.isoformat()} "
    key = f"{begins_with}{change.phase} {alert.severity}"
    is_resolved = change.phase is AlertPhase.RESOLVED
    lines = [
        f"Over, after {format_duration(now - state.since)}. It was: {alert.sentence}"
        if is_resolved
        else alert.sentence,
        *_flapping(change),
        f"Page: {base}{alert.link}",
        f"Runbook: {base}{alert.runbook}",
    ]
    return Message(
        key=key,
        begins_with=begins_with,
        severity=alert.severity,
        title=f"{'resolved' if is_resolved else alert.severity}: {alert.name.replace('_', ' ')}",
        body=_signed(lines, key),
        created_at=now,
        due_at=due(alert.severity, now, quiet),
        is_resolved=is_resolved,
    )


def _flapping(change: AlertChange) -> list[str]:
    """Return why an alert that fires again and again stays open for longer."""
    state = change.state
    if not state.repeats or change.phase is AlertPhase.RESOLVED:
        return []
    times = "again" if state.repeats == 1 else f"{state.repeats + 1} times"
    clear = format_duration(state.resolves_after)
    fired = f"It fired {times} within a day of its end."
    return [f"{fired} It stays open until it has been clear for {clear}."]


def notice_message(
    notice_id: str, *, topic: str, seller: str, text: str, now: datetime, quiet: QuietHours | None
) -> Message:
    """Write the message that informs the operators of a notice to a seller."""
    key = f"notice {notice_id}"
    return Message(
        key=key,
        begins_with=key,
        severity=Severity.WARNING,
        title=f"{seller}: {topic.replace('_', ' ')}",
        body=_signed([f"{seller}: {text}"], key),
        created_at=now,
        due_at=due(Severity.WARNING, now, quiet),
        notice_id=notice_id,
    )


def due(severity: Severity, now: datetime, quiet: QuietHours | None) -> datetime:
    """Return when a message may be sent: now, or when the quiet hours end."""
    ends_at = None if quiet is None or severity is Severity.CRITICAL else quiet.until(now)
    return ends_at or now


def retry_after(tries: int) -> timedelta:
    """Return how long to wait after this many failed tries."""
    doublings: int = 2 ** min(tries - 1, 10)
    return min(RETRY_MAX, RETRY_FIRST * doublings)


def _signed(lines: list[str], key: str) -> str:
    return "\n".join([*lines, f"Message {message_mark(key)}"])
