"""Table `privacy_requests`: customers who want their data, and what is stored of each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId
from headway.core.monitoring.metrics import PrivacyMetric
from headway.store import cursors
from headway.store.pool import guarded
from headway.store.queries import Queries

COLUMNS = """
request.id::text, request.user_id AS seller, request.platform, account.shop, request.customer_id,
request.order_ids, request.requested_at, request.due_at, request.exported_at, request.done_at,
coalesce(request.actor, '') AS actor
"""
REQUESTS = """
privacy_requests AS request JOIN connected_accounts AS account ON account.id = request.account_id
"""
SOME = f"""
SELECT {COLUMNS} FROM {REQUESTS}
WHERE (%(user_id)s::text IS NULL OR request.user_id = %(user_id)s)
  AND (%(is_all)s OR request.done_at IS NULL)
  AND (%(after)s::timestamptz IS NULL
    OR (request.due_at, request.id) > (%(after)s::timestamptz, %(after_id)s::uuid))
ORDER BY request.due_at, request.id LIMIT %(limit)s
"""
FIND = f"""
SELECT {COLUMNS}, request.account_id::text FROM {REQUESTS}
WHERE request.id::text = %(id)s AND (%(user_id)s::text IS NULL OR request.user_id = %(user_id)s)
"""
EXPORTED = "UPDATE privacy_requests SET exported_at = %(now)s WHERE id::text = %(id)s"
DONE = """
WITH done AS (
  UPDATE privacy_requests SET done_at = %(now)s, actor = %(actor)s
  WHERE id::text = %(id)s AND done_at IS NULL RETURNING id, user_id, platform
)
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, %(now)s, 'data_request_answered',
  jsonb_build_object('request', id, 'platform', platform), %(now)s FROM done
"""
THEIRS = """
account_id = %(account_id)s::uuid AND (external_id = %(customer_id)s OR email <> '' AND lower(email)
  IN (SELECT lower(email) FROM customers WHERE account_id = %(account_id)s::uuid
      AND external_id = %(customer_id)s))
"""
ORDERS = f"""
account_id = %(account_id)s::uuid AND (external_id = ANY(%(order_ids)s)
  OR customer_id = %(customer_id)s
  OR customer_id IN (SELECT external_id FROM customers WHERE {THEIRS}))
"""
IN_ORDERS = f"""
account_id = %(account_id)s::uuid AND order_id IN (SELECT external_id FROM orders WHERE {ORDERS})
"""
RAW = """
account_id = %(account_id)s::uuid AND (
  (kind = 'customers' AND external_id = %(customer_id)s)
  OR (kind = 'orders' AND external_id = ANY(%(order_ids)s))
  OR raw::text ~ ('(?<!\\w)' || %(customer_id)s || '(?!\\w)'))
"""
# By table: which rows are about a customer.
OF_CUSTOMER: Mapping[str, str] = {
    "customers": THEIRS,
    "orders": ORDERS,
    **dict.fromkeys(("line_items", "shipments", "refunds", "payments"), IN_ORDERS),
    "unreadable_records": RAW,
}
OPEN = """
SELECT request.user_id AS seller, request.platform || ' ' || account.shop AS name,
  count(*) AS count, min(request.requested_at) AS since, min(request.due_at) AS due_at
FROM privacy_requests AS request JOIN connected_accounts AS account
  ON account.id = request.account_id
WHERE request.done_at IS NULL
GROUP BY request.user_id, request.platform, account.shop
ORDER BY min(request.due_at), name LIMIT 100
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequest:
    """A customer's request for their data; it must be answered by `due_at`."""

    id: str
    """The request's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    seller: SellerId
    platform: PlatformName
    shop: str
    customer_id: str
    """The customer's id on the platform. Example: `7001`"""
    order_ids: tuple[str, ...]
    """Orders that the request names. Example: `["5001"]`"""
    requested_at: datetime
    """When it came."""
    due_at: datetime
    """By when it must be answered."""
    exported_at: datetime | None
    """When the data was last exported; null if it was not."""
    done_at: datetime | None
    """When a person marked it as answered; null while it is open."""
    actor: str
    """Who marked it as answered; empty while it is open. Example: `operations`"""

    @property
    def cursor(self) -> str:
        """Where a list goes on after this one."""
        return cursors.encode(self.due_at, self.id)


class PrivacyRequests(Queries):
    """Requests of customers for their data."""

    def some(
        self,
        user_id: SellerId | None,
        *,
        is_all: bool = False,
        cursor: str | None = None,
        limit: int,
    ) -> list[PrivacyRequest]:
        """Return open requests, or all, those that are due first before others."""
        after, after_id = (None, None) if cursor is None else cursors.decode(cursor, datetime, UUID)
        values = {"user_id": user_id, "is_all": is_all, "after": after, "after_id": after_id}
        return self._read(PrivacyRequest, SOME, {**values, "limit": limit})

    def find(self, id_: str, *, user_id: SellerId | None = None) -> PrivacyRequest | None:
        """Return a request, of any seller or of one."""
        values = {"id": id_, "user_id": user_id}
        query = FIND.replace(", request.account_id::text", "")
        return self._find(PrivacyRequest, query, values)

    def export(self, id_: str, *, now: datetime) -> dict[str, tuple[Mapping[str, Any], ...]]:
        """Return what is stored of the customer of a request, by table, and record the export."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            cursor = connection.cursor(row_factory=dict_row)
            request = cursor.execute(FIND, {"id": id_, "user_id": None}).fetchone()
            assert request is not None, "the caller found it"
            rows: dict[str, tuple[Mapping[str, Any], ...]] = {
                table: tuple(
                    {name: value for name, value in row.items() if name != "account_id"}
                    for row in cursor.execute(
                        f"SELECT * FROM {table} WHERE {where}".encode(),
                        request,
                    )
                )
                for table, where in OF_CUSTOMER.items()
            }
            cursor.execute(EXPORTED, {"id": id_, "now": now})
        return rows

    def answer(self, id_: str, *, actor: str, now: datetime) -> bool:
        """Mark a request as answered; return False if it was before."""
        return self._write(DONE, {"id": id_, "actor": actor, "now": now}) == 1

    def open(self) -> list[PrivacyMetric]:
        """Return how many requests of each account are open, and since when."""
        return self._read(PrivacyMetric, OPEN)
