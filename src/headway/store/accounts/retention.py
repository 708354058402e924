"""Records of accounts that are older than they are to be kept, deleted in short transactions."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from headway.store.pool import guarded
from headway.store.queries import Queries

ROWS = 1000


class KeptKind(StrEnum):
    """Kinds of records that have a retention of their own."""

    ORDERS = "orders"
    CUSTOMERS = "customers"
    PAYMENTS = "payments"
    LISTINGS = "listings"
    UNREADABLE = "unreadable"


# An order that is open may still change; a customer is as old as the last order.
OLD: Mapping[KeptKind, tuple[str, str]] = {
    KeptKind.ORDERS: ("orders", "NOT is_open AND placed_at < %(before)s"),
    KeptKind.CUSTOMERS: (
        "customers",
        """updated_at < %(before)s AND NOT EXISTS (SELECT FROM orders
             WHERE orders.account_id = customers.account_id
               AND orders.customer_id = customers.external_id
               AND (orders.placed_at >= %(before)s OR orders.is_open))""",
    ),
    KeptKind.PAYMENTS: ("payments", "paid_at < %(before)s"),
    KeptKind.LISTINGS: ("listings", "state = 'removed' AND updated_at < %(before)s"),
    KeptKind.UNREADABLE: ("unreadable_records", "seen_at < %(before)s"),
}
# The parts of an order go with it. The event counts by seller.
DELETE = """
WITH old AS (
  SELECT ctid AS place FROM {table} WHERE {where} LIMIT %(rows)s
), deleted AS (
  DELETE FROM {table} USING old WHERE {table}.ctid = old.place RETURNING {table}.user_id
)
SELECT user_id, count(*) FROM deleted GROUP BY user_id
"""
EVENT = """
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, created_at)
VALUES (%(user_id)s, %(now)s, 'records_expired', %(value)s::jsonb, %(now)s)
"""


class RecordRetention(Queries):
    """How long the records of accounts are kept, by kind; kinds without an age are kept."""

    def apply(
        self,
        kept: Mapping[KeptKind, timedelta],
        now: datetime,
        *,
        goes_on: Callable[[], bool] = lambda: True,
        expired: Callable[[str, int], None] = lambda _kind, _count: None,
    ) -> bool:
        """Delete what is too old, batch after batch; return True if more is left."""
        for kind, age in kept.items():
            count = ROWS
            while count >= ROWS:
                count = self._delete(kind, now - age, now)
                expired(kind.value, count)
                if count >= ROWS and not goes_on():
                    return True
        return False

    def _delete(self, kind: KeptKind, before: datetime, now: datetime) -> int:
        """Delete one batch, with an event for each seller; return how many rows that were."""
        table, where = OLD[kind]
        values: dict[str, Any] = {"before": before, "rows": ROWS, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            query = DELETE.format(table=table, where=where).encode()
            counts = connection.execute(query, values).fetchall()
            for user_id, count in counts:
                value = {"kind": kind, "count": count, "before": before.isoformat()}
                event = {"user_id": user_id, "value": json.dumps(value), "now": now}
                connection.execute(EVENT, event)
        return sum(count for _, count in counts)
