"""Events that wait to be sent to endpoints, as workers see them.

The lease is on the endpoint: one worker at a time sends to it, and a worker that lost its lease
records nothing. Followers of an event that must be tried again wait behind it.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from headway.core.accounts.outgoing_webhooks import (
    AttemptVerdict,
    DeliveryAttempt,
    DueEvent,
    EndpointLease,
)
from headway.store.queries import Queries

READY = """delivery.endpoint_id = endpoint.id AND delivery.ended_at IS NULL
  AND (delivery.due_at IS NULL OR delivery.due_at <= %(now)s)
  AND NOT EXISTS (SELECT FROM event_deliveries AS earlier
    WHERE earlier.endpoint_id = delivery.endpoint_id AND earlier.subject = delivery.subject
      AND earlier.event_id < delivery.event_id AND earlier.ended_at IS NULL
      AND earlier.due_at > %(now)s)"""
# A step from one endpoint with open deliveries to the next, whatever number each of them has.
WAITING = """
WITH RECURSIVE step AS (
  (SELECT endpoint_id FROM event_deliveries WHERE ended_at IS NULL ORDER BY endpoint_id LIMIT 1)
  UNION ALL
  SELECT (SELECT next.endpoint_id FROM event_deliveries AS next
          WHERE next.ended_at IS NULL AND next.endpoint_id > step.endpoint_id
          ORDER BY next.endpoint_id LIMIT 1)
  FROM step WHERE step.endpoint_id IS NOT NULL
)"""
CLAIM = f"""{WAITING}, chosen AS (
  SELECT endpoint.id FROM step JOIN webhook_endpoints AS endpoint ON endpoint.id = step.endpoint_id
  WHERE endpoint.status = 'enabled' AND endpoint.is_slow = %(is_slow)s
    AND (endpoint.lease_until IS NULL OR endpoint.lease_until <= %(now)s)
    AND (endpoint.retry_at IS NULL OR endpoint.retry_at <= %(now)s)
    AND EXISTS (SELECT FROM event_deliveries AS delivery WHERE {READY})
  ORDER BY endpoint.served_at NULLS FIRST, endpoint.id LIMIT 1 FOR UPDATE OF endpoint SKIP LOCKED
)
UPDATE webhook_endpoints AS endpoint SET fence = fence + 1, lease_owner = %(owner)s,
  lease_until = %(lease_until)s, served_at = %(now)s
FROM chosen WHERE endpoint.id = chosen.id
RETURNING endpoint.id::text, endpoint.user_id AS seller, endpoint.url, endpoint.fence,
  endpoint.failures, endpoint.failing_since, ARRAY(
    SELECT secret FROM credential WHERE credential_key = 'webhook:' || endpoint.id
      AND expires_at > %(now)s ORDER BY name DESC) AS secrets
"""
DUE = f"""
SELECT event.id AS event_id, event.message_id, event.type, event.user_id AS seller, event.subject,
  event.data, event.occurred_at, delivery.attempts, delivery.first_tried_at
FROM (SELECT %(id)s::uuid AS id) AS endpoint
JOIN event_deliveries AS delivery ON {READY}
JOIN webhook_events AS event ON event.id = delivery.event_id
ORDER BY delivery.event_id LIMIT %(limit)s
"""
# Whoever has taken over holds a higher fence. The instants of retries come from one clock only.
SETTLE = """
WITH ours AS (
  SELECT id FROM webhook_endpoints WHERE id = %(id)s AND fence = %(fence)s FOR UPDATE
), tried AS (
  UPDATE event_deliveries AS delivery SET attempts = attempts + 1,
    first_tried_at = coalesce(first_tried_at, %(now)s), tried_at = %(now)s,
    due_at = %(due_at)s, ended_at = CASE WHEN %(has_ended)s THEN %(now)s::timestamptz END,
    is_delivered = %(is_delivered)s, http_status = %(http_status)s, error = %(error)s,
    reply = %(reply)s
  FROM ours WHERE delivery.endpoint_id = ours.id AND delivery.event_id = %(event_id)s
    AND delivery.ended_at IS NULL
  RETURNING delivery.endpoint_id
), hurried AS (
  UPDATE event_deliveries AS delivery SET due_at = NULL
  FROM ours WHERE %(has_recovered)s AND delivery.endpoint_id = ours.id
    AND delivery.ended_at IS NULL AND delivery.due_at > %(now)s
    AND delivery.event_id <> %(event_id)s
), reported AS (
  INSERT INTO webhook_events (type, user_id, subject, data, occurred_at)
  SELECT 'endpoint.disabled', coalesce(endpoint.user_id, ''), 'endpoint:' || endpoint.id,
    jsonb_build_object('endpoint_id', endpoint.id, 'url', endpoint.url,
      'reason', %(disabled_reason)s::text), %(now)s
  FROM ours JOIN webhook_endpoints AS endpoint USING (id)
  WHERE %(disabled_reason)s <> ''
    AND webhook_is_wanted('endpoint.disabled', coalesce(endpoint.user_id, ''))
)
UPDATE webhook_endpoints AS endpoint SET failures = %(failures)s,
  failing_since = %(failing_since)s, retry_at = %(retry_at)s, is_slow = %(is_slow)s,
  delivered_at = CASE WHEN %(is_delivered)s THEN %(now)s ELSE delivered_at END,
  status = CASE WHEN %(disabled_reason)s = '' THEN status ELSE 'disabled' END,
  reason = CASE WHEN %(disabled_reason)s = '' THEN reason ELSE %(disabled_reason)s END,
  disabled_at = CASE WHEN %(disabled_reason)s = '' THEN disabled_at ELSE %(now)s END
FROM ours WHERE endpoint.id = ours.id
"""
RELEASE = """
UPDATE webhook_endpoints SET lease_owner = NULL, lease_until = NULL,
  retry_at = coalesce(%(retry_at)s, retry_at)
WHERE id = %(id)s AND fence = %(fence)s
"""
NEXT = f"""{WAITING}
SELECT EXISTS (SELECT FROM webhook_endpoints), (
  SELECT min(instant) FROM step JOIN webhook_endpoints AS endpoint ON endpoint.id = step.endpoint_id
  CROSS JOIN LATERAL (VALUES (endpoint.lease_until), (endpoint.retry_at),
    ((SELECT min(due_at) FROM event_deliveries AS delivery
      WHERE delivery.endpoint_id = endpoint.id AND ended_at IS NULL AND due_at > %(now)s))
  ) AS next (instant)
  WHERE endpoint.status = 'enabled' AND instant > %(now)s)
"""
FORGET = "DELETE FROM webhook_events WHERE occurred_at < %(before)s"


class EventDeliveries(Queries):
    """Table `event_deliveries` behind the engine's port."""

    def claim(
        self, now: datetime, *, owner: str, lease_until: datetime, is_slow: bool
    ) -> EndpointLease | None:
        """Lease the endpoint with due events that was served longest ago; None if none has."""
        values = {"now": now, "owner": owner, "lease_until": lease_until, "is_slow": is_slow}
        return self._find(EndpointLease, CLAIM, values)

    def due(self, lease: EndpointLease, now: datetime, *, limit: int) -> Sequence[DueEvent]:
        """Return events to send, in order; none is behind one of its subject that must wait."""
        return self._read(DueEvent, DUE, {"id": lease.id, "now": now, "limit": limit})

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
        values = {
            **asdict(verdict),
            "id": lease.id,
            "fence": lease.fence,
            "event_id": event.event_id,
            "http_status": attempt.status,
            "reply": attempt.reply,
            "now": now,
        }
        return self._write(SETTLE, values) == 1

    def release(self, lease: EndpointLease, *, retry_at: datetime | None) -> None:
        """End the lease; with `retry_at` the endpoint is left alone until then."""
        values = {"id": lease.id, "fence": lease.fence, "retry_at": retry_at}
        self._write(RELEASE, values)

    def next_at(self, now: datetime) -> datetime | None:
        """Return when the next delivery may be due; None if no endpoint exists."""
        exists, instant = self._one(NEXT, {"now": now})
        return (instant or datetime.max.replace(tzinfo=now.tzinfo)) if exists else None

    def forget(self, before: datetime) -> int:
        """Remove events from before that instant and their deliveries; return how many."""
        return self._write(FORGET, {"before": before})
