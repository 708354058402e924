"""Outgoing webhooks: endpoints, deliveries, and what follows from an attempt.

A failed delivery is retried after 5 s, and less and less often for three days. It delays later
events of its own subject only, because these arrive in order. An endpoint that fails five times in
a row, whatever the event, gets one attempt at a time, at most five minutes apart.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from headway.core.catalog.listings import LimitKey, SellerId

RETRIES = tuple(
    timedelta(seconds=seconds) for seconds in (5, 30, 120, 600, 1800, 3600, 7200, 18_000, 43_200)
)
GIVE_UP_AFTER = timedelta(days=3)
# So many failures in a row are the endpoint's, and not one event's.
STREAK = 5
PROBE_FIRST, PROBE_MAX = timedelta(seconds=5), timedelta(minutes=5)
THROTTLED_FOR = timedelta(seconds=30)
SLOW_S = 2.0
GONE, TOO_MANY, UNAVAILABLE = 410, 429, 503
# Both secrets sign for so long after one was replaced.
ROTATION = timedelta(hours=24)


class EndpointStatus(StrEnum):
    """Whether events are sent to an endpoint."""

    ENABLED = "enabled"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLease:
    """An endpoint in the hands of one worker; `secrets` are encrypted, the newest first."""

    id: str
    seller: SellerId | None
    url: str
    fence: int
    failures: int
    failing_since: datetime | None
    secrets: Sequence[bytes] = field(repr=False)

    @property
    def limit_key(self) -> LimitKey:
        """The key of its rate limit."""
        return limit_key_of(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueEvent:
    """An event to send now, and how often that was tried."""

    event_id: int
    message_id: str
    type: str
    seller: str
    subject: str
    data: Mapping[str, Any]
    occurred_at: datetime
    attempts: int
    first_tried_at: datetime | None

    @property
    def body(self) -> bytes:
        """The request's body, the same in every attempt."""
        occurred_at = self.occurred_at.astimezone(UTC).replace(tzinfo=None)
        envelope = {
            "id": self.message_id,
            "type": self.type,
            "timestamp": f"{occurred_at.isoformat(timespec='microseconds')}Z",
            "sequence": self.event_id,
            "seller": self.seller or None,
            "subject": self.subject,
            "data": self.data,
        }
        return json.dumps(envelope, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """The answer to one attempt; without a `status` there was none, and `error` says why."""

    status: int | None = None
    error: str = ""
    reply: str = ""
    retry_after_s: float | None = None
    took_s: float = 0.0

    @property
    def is_delivered(self) -> bool:
        """True if the endpoint accepted the event."""
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004 - the class of good answers


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptVerdict:
    """What becomes of a delivery and of its endpoint after an attempt.

    `disabled_reason` says why the endpoint gets nothing more. If it `has_recovered`, everything
    that waits for a retry is due.
    """

    is_delivered: bool
    has_ended: bool
    due_at: datetime | None
    error: str
    failures: int
    failing_since: datetime | None
    retry_at: datetime | None
    is_slow: bool
    disabled_reason: str = ""
    has_recovered: bool = False


def limit_key_of(endpoint_id: str) -> LimitKey:
    """Return the key of an endpoint's rate limit, under which its secrets are stored too."""
    return LimitKey(f"webhook:{endpoint_id}")


def after_attempt(
    lease: EndpointLease,
    event: DueEvent,
    attempt: DeliveryAttempt,
    now: datetime,
    *,
    disable_after: timedelta,
) -> AttemptVerdict:
    """Decide what follows from the answer to one attempt."""
    if attempt.is_delivered:
        return AttemptVerdict(
            is_delivered=True,
            has_ended=True,
            due_at=None,
            error="",
            failures=0,
            failing_since=None,
            retry_at=None,
            is_slow=attempt.took_s > SLOW_S,
            has_recovered=lease.failures >= STREAK,
        )
    failures, failing_since = lease.failures + 1, lease.failing_since or now
    asked_for = timedelta(seconds=attempt.retry_after_s or 0)
    wait = max(RETRIES[min(event.attempts, len(RETRIES) - 1)], asked_for)
    is_gone = attempt.status == GONE
    reason = "it answered 410 Gone" if is_gone else ""
    if not is_gone and now - failing_since >= disable_after:
        days = (now - failing_since) // timedelta(days=1)
        reason = f"it has failed for {days} days; the last error: {_error(attempt)}"
    return AttemptVerdict(
        is_delivered=False,
        # A disabled endpoint keeps what waits for it.
        has_ended=not reason and now - (event.first_tried_at or now) >= GIVE_UP_AFTER,
        due_at=now + wait,
        error=_error(attempt),
        failures=failures,
        failing_since=failing_since,
        retry_at=_retry_at(failures, attempt, now),
        is_slow=True,
        disabled_reason=reason,
    )


def _error(attempt: DeliveryAttempt) -> str:
    return attempt.error or f"it answered {attempt.status}"


def _retry_at(failures: int, attempt: DeliveryAttempt, now: datetime) -> datetime | None:
    """Return until when the whole endpoint is left alone."""
    if attempt.status == TOO_MANY or (attempt.status == UNAVAILABLE and attempt.retry_after_s):
        wait_s = attempt.retry_after_s
        return now + (THROTTLED_FOR if wait_s is None else timedelta(seconds=wait_s))
    if failures < STREAK:
        return None
    return now + min(PROBE_FIRST * (1 << min(failures - STREAK, 10)), PROBE_MAX)
