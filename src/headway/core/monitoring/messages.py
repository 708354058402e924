"""Messages to people: what is said of news, when it may be sent, and when it is tried again."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from headway.core.monitoring.alert_state import AlertPhase, News
from headway.core.monitoring.rules import Severity
from headway.core.reasons import format_duration

DAY = timedelta(days=1)
AGAIN_FIRST = timedelta(seconds=30)
AGAIN_MAX = timedelta(hours=1)
# What nobody could be told of in that time is shown on the page, and old news elsewhere.
GIVE_UP_AFTER = DAY
MARK_CHARS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Hours of the day (UTC) in which only what is critical is sent; they may pass midnight."""

    begins: time
    ends: time

    def until(self, now: datetime) -> datetime | None:
        """Return when the quiet that now is ends; None if it is not quiet."""
        clock = now.time()
        is_over_midnight = self.begins > self.ends
        is_in = clock >= self.begins, clock < self.ends
        if not (any(is_in) if is_over_midnight else all(is_in)):
            return None
        ends_at = datetime.combine(now.date(), self.ends, tzinfo=now.tzinfo)
        return ends_at if ends_at > now else ends_at + DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is to be sent. `key` says of what; all keys of one trouble begin alike."""

    key: str
    begins_with: str
    severity: Severity
    title: str
    body: str
    created_at: datetime
    due_at: datetime
    notice_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message in hand: `tries` is its fence, `delivered` are the addresses that have it."""

    id: str
    tries: int
    severity: Severity
    title: str
    body: str
    created_at: datetime
    delivered: Sequence[str]


def mark_of(key: str) -> str:
    """Return the short mark by which whoever gets a message twice knows it."""
    return hashlib.sha256(key.encode()).hexdigest()[:MARK_CHARS]


def message_of(news: News, now: datetime, *, base: str, quiet: Quiet | None = None) -> Message:
    """Write what is told of an alert; `base` is where the page is, if anybody said so."""
    state, alert = news.state, news.state.alert
    fired_at = state.fired_at or now
    trouble = f"alert {alert.name} {alert.subject} {fired_at.isoformat()} "
    key = f"{trouble}{news.word} {alert.severity}"
    is_over = news.word is AlertPhase.RESOLVED
    lines = [
        f"Over, after {format_duration(now - state.since)}. It was: {alert.sentence}"
        if is_over
        else alert.sentence,
        f"Page: {base}{alert.link}" if base else f"Page: {alert.link}",
        f"Runbook: {base}{alert.runbook}",
    ]
    return Message(
        key=key,
        begins_with=trouble,
        severity=alert.severity,
        title=f"{'resolved' if is_over else alert.severity}: {alert.name.replace('_', ' ')}",
        body=_signed(lines, key),
        created_at=now,
        due_at=due(alert.severity, now, quiet),
    )


def notice_message(
    notice_id: str, *, topic: str, seller: str, text: str, now: datetime, quiet: Quiet | None
) -> Message:
    """Write what a seller is told, for whoever looks after the sellers."""
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


def due(severity: Severity, now: datetime, quiet: Quiet | None) -> datetime:
    """Return when a message may be sent: now, or when the quiet hours end."""
    ends_at = None if quiet is None or severity is Severity.CRITICAL else quiet.until(now)
    return ends_at or now


def again_after(tries: int) -> timedelta:
    """Return how long to wait after so many tries in vain."""
    doublings: int = 2 ** min(tries - 1, 10)
    return min(AGAIN_MAX, AGAIN_FIRST * doublings)


def _signed(lines: list[str], key: str) -> str:
    return "\n".join([*lines, f"Message {mark_of(key)}"])
