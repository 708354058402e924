"""Notifications to send: stored with their event, sent at least once to each address.

A sender leases a message; after a crash another sends it again to those addresses only that are not
recorded. The mark in its text shows a reader who gets it twice that it is the same.
"""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection

from headway.core.monitoring.messages import (
    GIVE_UP_AFTER,
    ClaimedMessage,
    Message,
    QuietHours,
    notice_message,
    retry_after,
)
from headway.store.pool import guarded
from headway.store.queries import Queries

LEASE = timedelta(minutes=5)
POST = """
INSERT INTO outbox (key, severity, title, body, created_at, due_at, notice_id, is_resolved)
VALUES (%(key)s, %(severity)s, %(title)s, %(body)s, %(created_at)s, %(due_at)s, %(notice_id)s,
  %(is_resolved)s)
ON CONFLICT ON CONSTRAINT outbox_key_unique DO NOTHING
"""
WITHDRAW = """
DELETE FROM outbox WHERE starts_with(key, %(begins_with)s) AND ended_at IS NULL
  AND delivered = '{}' AND tries = 0
"""
IS_STORED = "SELECT EXISTS (SELECT FROM outbox WHERE starts_with(key, %(begins_with)s))"
CLAIM = """
UPDATE outbox SET lease_until = %(lease_until)s, tries = tries + 1
WHERE id = (SELECT id FROM outbox WHERE ended_at IS NULL AND due_at <= %(now)s
              AND (lease_until IS NULL OR lease_until < %(now)s)
            ORDER BY due_at, created_at FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id::text, tries, severity, title, body, created_at, delivered, is_resolved
"""
NEXT = """
SELECT min(greatest(due_at, coalesce(lease_until, due_at))) FROM outbox WHERE ended_at IS NULL
"""
NOTE = """
UPDATE outbox SET delivered = delivered || %(target)s::text
WHERE id = %(id)s AND tries = %(tries)s AND ended_at IS NULL
"""
END = """
WITH ended AS (
  UPDATE outbox SET ended_at = %(now)s, is_sent = %(is_sent)s, error = %(error)s,
    lease_until = NULL
  WHERE id = %(id)s AND tries = %(tries)s AND ended_at IS NULL RETURNING notice_id
)
UPDATE notices SET delivered_at = %(now)s FROM ended
WHERE %(is_sent)s AND notices.id = ended.notice_id AND delivered_at IS NULL
"""
AGAIN = """
UPDATE outbox SET due_at = %(due_at)s, error = %(error)s, lease_until = NULL
WHERE id = %(id)s AND tries = %(tries)s AND ended_at IS NULL
"""
# At most one notice a day says that something new is held.
HELD = """
INSERT INTO notices (user_id, topic, subject, text, created_at)
SELECT user_id, 'price_held', user_id || ' ' || to_char(max(held_at) AT TIME ZONE 'UTC',
  'YYYY-MM-DD'), count(*) || CASE WHEN count(*) = 1 THEN ' change is' ELSE ' changes are' END
  || ' held for a person to approve or reject', %(now)s
FROM listing_state WHERE held_reason IS NOT NULL GROUP BY user_id
ON CONFLICT ON CONSTRAINT notices_unique DO NOTHING
"""
UNREPORTED = """
SELECT id::text, user_id, topic, text FROM notices
WHERE delivered_at IS NULL AND created_at > %(since)s
  AND NOT EXISTS (SELECT FROM outbox WHERE notice_id = notices.id)
ORDER BY created_at, id LIMIT 100
"""
FORGET = "DELETE FROM outbox WHERE ended_at < %(before)s"


def post(connection: Connection[Any], message: Message) -> bool:
    """Store a message in the caller's transaction; return False if it exists already."""
    return connection.execute(POST, asdict(message)).rowcount == 1


def withdraw(connection: Connection[Any], begins_with: str) -> bool:
    """Delete unsent messages, in the caller's transaction; return True if none was sent."""
    values = {"begins_with": begins_with}
    taken = connection.execute(WITHDRAW, values).rowcount
    return taken > 0 and connection.execute(IS_STORED, values).fetchone() == (False,)


class Outbox(Queries):
    """Table `outbox`."""

    def gather(self, now: datetime, *, quiet: QuietHours | None) -> int:
        """Store a message for every notice of the last day that has none; return how many."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(HELD, {"now": now})
            rows = connection.execute(UNREPORTED, {"since": now - GIVE_UP_AFTER}).fetchall()
            return sum(
                post(
                    connection,
                    notice_message(
                        id_, topic=topic, seller=seller, text=text, now=now, quiet=quiet
                    ),
                )
                for id_, seller, topic, text in rows
            )

    def claim(self, now: datetime) -> ClaimedMessage | None:
        """Lease the message that has been due longest; None if none is."""
        return self._find(ClaimedMessage, CLAIM, {"now": now, "lease_until": now + LEASE})

    def next_at(self) -> datetime | None:
        """Return when the next message may be sent; None if none waits."""
        due_at: datetime | None = self._one(NEXT)[0]
        return due_at

    def note(self, message: ClaimedMessage, target: str) -> bool:
        """Record that an address has the message; return False if the lease was lost."""
        values = {"id": message.id, "tries": message.tries, "target": target}
        return self._write(NOTE, values) == 1

    def settle(self, message: ClaimedMessage, error: str, *, now: datetime) -> bool:
        """End a message, or retry it later, for a day; return True if it has ended."""
        is_sent = not error
        has_ended = is_sent or now - message.created_at >= GIVE_UP_AFTER
        values = {
            "id": message.id,
            "tries": message.tries,
            "now": now,
            "error": error,
            "is_sent": is_sent,
            "due_at": now + retry_after(message.tries),
        }
        self._write(END if has_ended else AGAIN, values)
        return has_ended

    def forget(self, before: datetime) -> int:
        """Remove what was ended before that instant; return how many."""
        return self._write(FORGET, {"before": before})
