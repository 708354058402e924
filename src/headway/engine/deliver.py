"""Deliver: send events to endpoints. A step takes one endpoint and sends what is due there.

Delivery is at least once: after a crash between sending and recording it the event is sent again,
under the same id. Events of one subject are sent in order. An endpoint is in the hands of one
worker at a time; those that fail or are slow are served by workers of their own, so that they delay
only others like them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import urlsplit

from headway.clock import Clock
from headway.core.accounts.outgoing_webhooks import (
    AttemptVerdict,
    DeliveryAttempt,
    DueEvent,
    EndpointLease,
    after_attempt,
)
from headway.core.catalog.listings import Done, Wait
from headway.core.limits.transitions import CallReport, Permit, Rejected
from headway.engine.ports_limits import Limiter
from headway.errors import TimedOutError

BATCH = 50
GRACE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRule:
    """How long an endpoint is held and may fail, and how often to look for events."""

    lease: timedelta = timedelta(minutes=1)
    poll: timedelta = timedelta(seconds=1)
    idle_poll: timedelta = timedelta(seconds=10)
    disable_after: timedelta = timedelta(days=5)


class DeliveryQueue(Protocol):
    """Events that wait to be sent."""

    def claim(
        self, now: datetime, *, owner: str, lease_until: datetime, is_slow: bool
    ) -> EndpointLease | None:
        """Lease the endpoint with due events that was served longest ago; None if none has."""

    def due(self, lease: EndpointLease, now: datetime, *, limit: int) -> Sequence[DueEvent]:
        """Return events to send, in order; none is behind one of its subject that must wait."""

    def settle(
        self,
        lease: EndpointLease,
        event: DueEvent,
        attempt: DeliveryAttempt,
        verdict: AttemptVerdict,
        *,
        now: datetime,
    ) -> bool:
        """Record an attempt; return False, and record nothing, if the lease was lost."""

    def release(self, lease: EndpointLease, *, retry_at: datetime | None) -> None:
        """End the lease; with `retry_at` the endpoint is left alone until then."""

    def next_at(self, now: datetime) -> datetime | None:
        """Return when the next delivery may be due; None if no endpoint exists."""


class EndpointSender(Protocol):
    """The way to an endpoint."""

    @property
    def timeout_s(self) -> float:
        """How long an attempt takes at most."""

    def send(self, lease: EndpointLease, event: DueEvent) -> DeliveryAttempt:
        """Send an event; whatever goes wrong is in the result."""


class Deliver:
    """Sends events in steps; `is_slow` for the worker that serves slow and failing endpoints."""

    def __init__(
        self,
        *,
        clock: Clock,
        queue: DeliveryQueue,
        limiter: Limiter,
        know: Callable[[EndpointLease], None],
        sender: EndpointSender,
        rule: DeliveryRule,
        owner: str,
        is_slow: bool,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._limiter = limiter
        self._know = know
        self._sender = sender
        self._rule = rule
        self._owner = owner
        self._is_slow = is_slow

    def step(self) -> Done | Wait:
        """Serve the endpoint that waited longest, or return when to check again."""
        now = self._clock.now()
        lease_until = now + self._rule.lease
        lease = self._queue.claim(
            now, owner=self._owner, lease_until=lease_until, is_slow=self._is_slow
        )
        if lease is None:
            next_at = self._queue.next_at(now)
            until = now + self._rule.idle_poll
            if next_at is not None:
                until = min(next_at, now + self._rule.poll)
            return Wait(until=until, why="no event waits")
        self._know(lease)
        return self._serve(lease, lease_until)

    def _serve(self, lease: EndpointLease, lease_until: datetime) -> Done:
        """Send what is due, as long as the lease lasts and the endpoint answers."""
        last_start = lease_until - timedelta(seconds=self._sender.timeout_s + GRACE_S)
        sent, waiting, retry_at, problem = 0, set[str](), None, ""
        for event in self._queue.due(lease, self._clock.now(), limit=BATCH):
            if event.subject in waiting:
                continue
            if self._clock.now() > last_start:
                break
            permit = self._permit(lease)
            if isinstance(permit, Rejected):
                retry_at = self._clock.now() + timedelta(seconds=permit.retry_in_s)
                break
            attempt = self._attempt(lease, event, permit)
            now = self._clock.now()
            verdict = after_attempt(
                lease, event, attempt, now, disable_after=self._rule.disable_after
            )
            if not self._queue.settle(lease, event, attempt, verdict, now=now):
                return Done(what="another worker sends to this endpoint")
            lease = replace(lease, failures=verdict.failures, failing_since=verdict.failing_since)
            sent += verdict.is_delivered
            if not verdict.is_delivered:
                waiting.add(event.subject)
                problem = verdict.disabled_reason or verdict.error
            if verdict.retry_at is not None or verdict.disabled_reason:
                break
        self._queue.release(lease, retry_at=retry_at)
        return Done(what=_summary(lease, sent, problem))

    def _permit(self, lease: EndpointLease) -> Permit | Rejected:
        """Take a permit for a call that begins now."""
        permit = self._limiter.reserve(
            [lease.limit_key],
            owner=self._owner,
            max_wait_s=0,
            lease_s=self._sender.timeout_s + GRACE_S,
            grace_s=GRACE_S,
            purpose="webhook",
            begins=True,
        )
        if isinstance(permit, Permit) and permit.granted is None:
            self._limiter.settle(permit, sent=False)
            return Rejected(retry_in_s=permit.wait_s)
        return permit

    def _attempt(self, lease: EndpointLease, event: DueEvent, permit: Permit) -> DeliveryAttempt:
        """Send an event under a permit, and settle the permit."""
        attempt = self._sender.send(lease, event)
        result = "ok" if attempt.is_delivered else "failed"
        report = CallReport(result=result, http_status=attempt.status)
        if attempt.status is None:
            report = replace(report, ended=TimedOutError.ended)
        self._limiter.settle(permit, sent=True, is_late=attempt.status is None, report=report)
        if attempt.retry_after_s and not attempt.is_delivered:
            reason = f"it answered {attempt.status}"
            self._limiter.pause(lease.limit_key, attempt.retry_after_s, reason)
        return attempt


def _summary(lease: EndpointLease, sent: int, problem: str) -> str:
    host = urlsplit(lease.url).hostname
    if problem:
        return f"{host}: {problem}" + (f", after {sent} events" if sent else "")
    return f"sent {sent} event{'' if sent == 1 else 's'} to {host}" if sent else ""
