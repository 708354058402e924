"""Endpoints as people see and set them: URL, secrets, deliveries, replay."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.accounts.outgoing_webhooks import EndpointStatus, limit_key_of
from headway.core.accounts.webhook_catalog import TEST
from headway.core.catalog.listings import SellerId
from headway.errors import NotFoundError
from headway.store import cursors
from headway.store.pool import guarded
from headway.store.queries import Queries

NEVER = datetime.fromisoformat("9999-12-31T00:00:00+00:00")
# The newest secret signs first: names are sorted from the last to the first.
SECRET, OLD_SECRET = "signing", "former"
COLUMNS = """
endpoint.id::text, endpoint.user_id AS seller, endpoint.url, endpoint.description,
endpoint.event_types, endpoint.status, endpoint.reason, endpoint.disabled_at, endpoint.failures,
endpoint.failing_since, endpoint.retry_at, endpoint.delivered_at, endpoint.created_at, (
  SELECT count(*) FROM event_deliveries AS delivery
  WHERE delivery.endpoint_id = endpoint.id AND delivery.ended_at IS NULL) AS waiting_count, (
  SELECT count(*) FROM event_deliveries AS delivery WHERE delivery.endpoint_id = endpoint.id
    AND delivery.ended_at IS NOT NULL AND NOT delivery.is_delivered) AS given_up_count
"""
FIND = f"SELECT {COLUMNS} FROM webhook_endpoints AS endpoint WHERE id::text = %(id)s"
LIST = f"""
SELECT {COLUMNS} FROM webhook_endpoints AS endpoint
WHERE (%(seller)s::text IS NULL OR user_id = %(seller)s)
  AND (%(at)s::timestamptz IS NULL OR (created_at, id::text) > (%(at)s, %(after)s))
ORDER BY created_at, id::text LIMIT %(limit)s
"""
ADD = """
INSERT INTO webhook_endpoints (user_id, url, description, event_types, created_at, updated_at)
VALUES (%(seller)s, %(url)s, %(description)s, %(event_types)s, %(now)s, %(now)s)
RETURNING id::text
"""
# An endpoint that is enabled, or gets another URL, begins without its failures.
UPDATE = """
UPDATE webhook_endpoints SET url = coalesce(%(url)s, url),
  description = coalesce(%(description)s, description),
  event_types = coalesce(%(event_types)s::text[], event_types),
  status = coalesce(%(status)s, status), updated_at = %(now)s,
  reason = CASE %(status)s WHEN 'enabled' THEN '' WHEN 'disabled' THEN 'a person disabled it'
    ELSE reason END,
  disabled_at = CASE %(status)s WHEN 'enabled' THEN NULL WHEN 'disabled'
    THEN coalesce(disabled_at, %(now)s) ELSE disabled_at END,
  failures = CASE WHEN fresh.is_fresh THEN 0 ELSE failures END,
  failing_since = CASE WHEN fresh.is_fresh THEN NULL ELSE failing_since END,
  retry_at = CASE WHEN fresh.is_fresh THEN NULL ELSE retry_at END,
  is_slow = is_slow AND NOT fresh.is_fresh
FROM (SELECT coalesce(%(status)s = 'enabled', false) OR %(url)s::text IS NOT NULL AS is_fresh)
  AS fresh
WHERE id::text = %(id)s
"""
DUE_NOW = """
UPDATE event_deliveries SET due_at = NULL
WHERE endpoint_id::text = %(id)s AND ended_at IS NULL AND due_at IS NOT NULL
"""
DELETE = """
WITH gone AS (DELETE FROM credential WHERE credential_key = %(key)s)
DELETE FROM webhook_endpoints WHERE id::text = %(id)s
"""
SAVE = """
INSERT INTO credential (credential_key, name, secret, expires_at)
VALUES (%(key)s, %(name)s, %(secret)s, %(expires_at)s)
ON CONFLICT (credential_key, name) DO UPDATE SET secret = excluded.secret,
  expires_at = excluded.expires_at, version = credential.version + 1
"""
KEEP_FORMER = f"""
INSERT INTO credential (credential_key, name, secret, expires_at)
SELECT credential_key, '{OLD_SECRET}', secret, %(until)s FROM credential
WHERE credential_key = %(key)s AND name = '{SECRET}'
ON CONFLICT (credential_key, name) DO UPDATE SET secret = excluded.secret,
  expires_at = excluded.expires_at, version = credential.version + 1
"""
ADD_TEST = f"""
INSERT INTO webhook_events (type, user_id, subject, endpoint_id, data, occurred_at)
SELECT '{TEST}', coalesce(user_id, ''), 'endpoint:' || id, id,
  jsonb_build_object('endpoint_id', id), %(now)s
FROM webhook_endpoints WHERE id::text = %(id)s
RETURNING message_id
"""
# Events that were recorded for this endpoint, or for others while it was disabled.
REPLAY = """
INSERT INTO event_deliveries AS delivery (endpoint_id, event_id, user_id, subject)
SELECT endpoint.id, event.id, endpoint.user_id, event.subject
FROM webhook_endpoints AS endpoint JOIN webhook_events AS event
  ON CASE WHEN event.endpoint_id IS NOT NULL THEN event.endpoint_id = endpoint.id
     ELSE (endpoint.user_id IS NULL OR endpoint.user_id = event.user_id)
       AND (endpoint.event_types = '{}' OR event.type = ANY(endpoint.event_types)) END
WHERE endpoint.id::text = %(id)s
  AND (%(message_id)s::text IS NULL OR event.message_id = %(message_id)s)
  AND (%(since)s::timestamptz IS NULL OR event.occurred_at >= %(since)s)
  AND NOT (%(only_failed)s AND EXISTS (SELECT FROM event_deliveries AS done
    WHERE done.endpoint_id = endpoint.id AND done.event_id = event.id AND done.is_delivered))
ORDER BY event.id
ON CONFLICT (endpoint_id, event_id) DO UPDATE SET ended_at = NULL, is_delivered = false,
  due_at = NULL, first_tried_at = NULL
"""
DELIVERIES = """
SELECT event.message_id AS id, event.id AS sequence, event.type,
  nullif(event.user_id, '') AS seller, event.subject, event.occurred_at, delivery.attempts,
  delivery.tried_at,
  CASE WHEN delivery.ended_at IS NULL THEN delivery.due_at END AS due_at, delivery.http_status,
  delivery.error, delivery.reply, event.data,
  CASE WHEN delivery.ended_at IS NULL THEN 'waiting' WHEN delivery.is_delivered THEN 'delivered'
    ELSE 'given up' END AS status
FROM event_deliveries AS delivery JOIN webhook_events AS event ON event.id = delivery.event_id
WHERE delivery.endpoint_id::text = %(endpoint_id)s
  AND (%(before)s::bigint IS NULL OR delivery.event_id < %(before)s)
  AND (%(status)s::text IS NULL OR %(status)s = CASE WHEN delivery.ended_at IS NULL THEN 'waiting'
    WHEN delivery.is_delivered THEN 'delivered' ELSE 'given up' END)
ORDER BY delivery.event_id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """An endpoint, without its secret."""

    id: str
    """The endpoint's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    seller: SellerId | None
    """Whose events it receives; null for those of all sellers. Example: `acme`"""
    url: str
    """Where events are sent. Example: `https://app.example.com/webhooks`"""
    description: str
    """What it is for. Example: `order import`"""
    event_types: tuple[str, ...]
    """Types that it receives; empty for all. Example: `["order.created", "order.updated"]`"""
    status: EndpointStatus
    """Whether events are sent to it."""
    reason: str
    """Why it is disabled; empty if it is not. Example: `it answered 410 Gone`"""
    disabled_at: datetime | None
    """When it was disabled; null if it is enabled."""
    failures: int
    """Failed attempts in a row."""
    failing_since: datetime | None
    """Since when no attempt has succeeded; null after a success."""
    retry_at: datetime | None
    """Nothing is sent to it before this instant; null if it need not wait."""
    delivered_at: datetime | None
    """The last successful delivery; null if there was none."""
    created_at: datetime
    waiting_count: int
    """Events that wait to be sent."""
    given_up_count: int
    """Events that were not delivered within three days; a replay sends them again."""

    @property
    def cursor(self) -> str:
        """The cursor of the endpoints after it."""
        return cursors.encode("endpoints", self.created_at, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDelivery:
    """An event for an endpoint, and how its delivery stands."""

    id: str
    """The event's id: the header `webhook-id`. Example: `evt_0d6f3b1d7c114f0e9a552d6f3b1d7c11`"""
    sequence: int
    """The event's position."""
    type: str
    """The type of the event. Example: `order.created`"""
    seller: SellerId | None
    """The seller it is about; null if it is about none. Example: `acme`"""
    subject: str
    """What it is about. Example: `order:6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11/3141592653`"""
    occurred_at: datetime
    """When it happened."""
    status: str
    """`waiting`, `delivered` or `given up`. Example: `delivered`"""
    attempts: int
    """How often it was sent."""
    tried_at: datetime | None
    """The last attempt; null if there was none."""
    due_at: datetime | None
    """When it is tried again; null for at once, or if it has ended."""
    http_status: int | None
    """The status of the last answer; null if there was none. Example: `200`"""
    error: str
    """Why the last attempt failed; empty if it did not. Example: `no answer in time`"""
    reply: str
    """The beginning of the last answer. Example: `ok`"""
    data: dict[str, Any]
    """What the event contains. Example: `{"order_id": "3141592653"}`"""

    @property
    def cursor(self) -> str:
        """The cursor of the deliveries before it."""
        return cursors.encode("deliveries", self.sequence)


class WebhookEndpoints(Queries):
    """Table `webhook_endpoints`, and its deliveries as people see them."""

    def find(self, endpoint_id: str) -> WebhookEndpoint:
        """Return an endpoint; raises NotFoundError."""
        endpoint = self._find(WebhookEndpoint, FIND, {"id": endpoint_id})
        if endpoint is None:
            raise NotFoundError(f"there is no webhook endpoint {endpoint_id}")
        return endpoint

    def some(
        self, *, seller: SellerId | None, cursor: str | None, limit: int
    ) -> list[WebhookEndpoint]:
        """Return endpoints by age, from the cursor on."""
        at, after = None, None
        if cursor is not None:
            _, at, after = cursors.decode(cursor, str, datetime, str)
        values = {"seller": seller, "at": at, "after": after, "limit": limit}
        return self._read(WebhookEndpoint, LIST, values)

    def add(
        self,
        *,
        seller: SellerId | None,
        url: str,
        description: str,
        event_types: Sequence[str],
        secret: bytes,
        now: datetime,
    ) -> str:
        """Store an endpoint and its secret; return its id."""
        values = {
            "seller": seller,
            "url": url,
            "description": description,
            "event_types": list(event_types),
            "now": now,
        }
        with guarded(), self._pool.connection() as connection, connection.transaction():
            row = connection.execute(ADD, values).fetchone()
            assert row is not None, "the statement returns a row"
            _save_secret(connection, row[0], secret)
        return str(row[0])

    def update(
        self,
        endpoint_id: str,
        *,
        url: str | None,
        description: str | None,
        event_types: Sequence[str] | None,
        status: EndpointStatus | None,
        now: datetime,
    ) -> None:
        """Set what is not None; an endpoint that is enabled gets what waits for it at once."""
        values = {
            "id": endpoint_id,
            "url": url,
            "description": description,
            "event_types": None if event_types is None else list(event_types),
            "status": status,
            "now": now,
        }
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(UPDATE, values)
            if status is EndpointStatus.ENABLED or url is not None:
                connection.execute(DUE_NOW, values)

    def delete(self, endpoint_id: str) -> None:
        """Delete an endpoint with its secrets and deliveries."""
        self._write(DELETE, {"id": endpoint_id, "key": limit_key_of(endpoint_id)})

    def rotate(self, endpoint_id: str, secret: bytes, *, former_until: datetime) -> None:
        """Store a new secret; the former one also signs until that instant."""
        values = {"key": limit_key_of(endpoint_id), "until": former_until}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(KEEP_FORMER, values)
            _save_secret(connection, endpoint_id, secret)

    def add_test(self, endpoint_id: str, *, now: datetime) -> str:
        """Record a test event for this endpoint alone; return its id."""
        return str(self._one(ADD_TEST, {"id": endpoint_id, "now": now})[0])

    def replay(
        self,
        endpoint_id: str,
        *,
        message_id: str | None = None,
        since: datetime | None = None,
        only_failed: bool = False,
    ) -> int:
        """Let stored events be sent to an endpoint again; return how many."""
        values = {
            "id": endpoint_id,
            "message_id": message_id,
            "since": since,
            "only_failed": only_failed,
        }
        return self._write(REPLAY, values)

    def deliveries(
        self, endpoint_id: str, *, status: str | None, cursor: str | None, limit: int
    ) -> list[EventDelivery]:
        """Return the deliveries of an endpoint, the newest first, from the cursor on."""
        before = None
        if cursor is not None:
            _, before = cursors.decode(cursor, str, int)
        values = {"endpoint_id": endpoint_id, "status": status, "before": before, "limit": limit}
        return self._read(EventDelivery, DELIVERIES, values)


def _save_secret(connection: Connection[Any], endpoint_id: str, secret: bytes) -> None:
    values = {"key": limit_key_of(endpoint_id), "name": SECRET, "secret": secret}
    connection.execute(SAVE, {**values, "expires_at": NEVER})
