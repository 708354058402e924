"""The statements that store a page in the warehouse: each takes all its rows at once, as JSON.

A row that is as it was is not written again, except where we must know that it was looked at.
"""

from collections.abc import Mapping

ORDER = {
    "external_id": "text", "number": "text", "status": "text", "payment_status": "text",
    "fulfillment_status": "text", "is_open": "boolean", "currency": "text", "total": "numeric",
    "current_total": "numeric", "subtotal": "numeric", "shipping": "numeric", "tax": "numeric",
    "discount": "numeric", "customer_id": "text", "placed_at": "timestamptz",
    "modified_at": "timestamptz", "cancelled_at": "timestamptz",
}  # fmt: skip
LISTING = {
    "external_id": "text", "sku": "text", "title": "text", "state": "text", "price": "numeric",
    "currency": "text", "quantity": "integer", "modified_at": "timestamptz",
}  # fmt: skip
CUSTOMER = {
    "external_id": "text", "name": "text", "email": "text", "country": "text",
    "modified_at": "timestamptz",
}  # fmt: skip
PAYMENT = {
    "external_id": "text", "order_id": "text", "kind": "text", "status": "text",
    "amount": "numeric", "currency": "text", "paid_at": "timestamptz",
    "line_item_id": "text", "reference_type": "text", "reference_id": "text",
    "is_transfer": "boolean",
}  # fmt: skip
# What an order holds: table → the columns of its rows, the order's id besides.
PARTS: Mapping[str, Mapping[str, str]] = {
    "line_items": {
        "external_id": "text", "listing_id": "text", "sku": "text", "title": "text",
        "quantity": "integer", "current_quantity": "integer", "price": "numeric",
        "currency": "text",
    },
    "shipments": {
        "external_id": "text", "status": "text", "carrier": "text", "tracking": "text",
        "shipped_at": "timestamptz", "delivered_at": "timestamptz",
    },
    "refunds": {
        "external_id": "text", "status": "text", "amount": "numeric", "currency": "text",
        "reason": "text", "refunded_at": "timestamptz",
    },
}  # fmt: skip
# Where each table's rows are found within an account.
KEYS: Mapping[str, tuple[str, ...]] = {
    "orders": ("external_id",),
    **dict.fromkeys(PARTS, ("order_id", "external_id")),
    "listings": ("external_id",),
    "customers": ("external_id",),
    "payments": ("external_id",),
    "unreadable_records": ("kind", "external_id"),
}


def _new(columns: Mapping[str, str]) -> str:
    typed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
    return f"jsonb_to_recordset(%(rows)s::jsonb) AS new({typed})"


def _upsert(
    table: str,
    columns: Mapping[str, str],
    *,
    is_watched: str = "",
    is_old: str = "false",
    kept: str = "",
) -> str:
    """Return the statement for whole records.

    A row that `is_watched` is also written to record that it was read. A record that `is_old`
    changes nothing. The column `kept` stays if a record does not have it.
    """
    names, facts = ", ".join(columns), [name for name in columns if name != "external_id"]
    stamps = ["created_at", "updated_at", *(["checked_at"] if is_watched else [])]
    excluded = {name: f"excluded.{name}" for name in facts}
    if kept:
        excluded[kept] = f"coalesce(excluded.{kept}, row.{kept})"
    rows = f"({', '.join(f'row.{name}' for name in facts)})"
    news = f"({', '.join(excluded.values())})"
    sets = [f"{name} = {value}" for name, value in excluded.items()]
    sets += ["checked_at = excluded.checked_at"] if is_watched else []
    looks = f" OR {is_watched}" if is_watched else ""
    return f"""
INSERT INTO {table} AS row (account_id, user_id, platform, {names}, {", ".join(stamps)})
SELECT %(account_id)s::uuid, %(user_id)s::text, %(platform)s::text, {names},
  {", ".join(["%(now)s::timestamptz"] * len(stamps))}
FROM {_new(columns)} ORDER BY external_id
ON CONFLICT (account_id, external_id) DO UPDATE SET {", ".join(sets)},
  updated_at = CASE WHEN {rows} IS DISTINCT FROM {news} THEN excluded.updated_at
                    ELSE row.updated_at END
WHERE ({rows} IS DISTINCT FROM {news}{looks}) AND NOT coalesce({is_old}, false)"""


def _replace(table: str, columns: Mapping[str, str]) -> str:
    """Return the statement that makes the parts of these orders what they are now."""
    names, facts = ", ".join(columns), [name for name in columns if name != "external_id"]
    rows = f"({', '.join(f'row.{name}' for name in facts)})"
    news = f"({', '.join(f'excluded.{name}' for name in facts)})"
    return f"""
WITH new AS (SELECT * FROM {_new({"order_id": "text", **columns})}), gone AS (
  DELETE FROM {table} AS row WHERE account_id = %(account_id)s AND order_id = ANY(%(ids)s::text[])
    AND NOT EXISTS (SELECT FROM new WHERE new.order_id = row.order_id
                    AND new.external_id = row.external_id)
  RETURNING order_id
), written AS (
  INSERT INTO {table} AS row (account_id, user_id, order_id, {names})
  SELECT %(account_id)s::uuid, %(user_id)s::text, order_id, {names} FROM new
  ORDER BY order_id, external_id
  ON CONFLICT (account_id, order_id, external_id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in facts)}
  WHERE {rows} IS DISTINCT FROM {news}
  RETURNING order_id
)
SELECT order_id FROM gone UNION SELECT order_id FROM written"""


# An erasure locks the row: either this page sees its hashes, or it sees the rows of this page.
IS_OURS = """
SELECT shop FROM connected_accounts
WHERE id = %(account_id)s AND user_id = %(user_id)s AND platform = %(platform)s FOR KEY SHARE
"""
# How many more of this month's orders there are now. An order may be placed again: both count.
ORDERS = f"""
WITH old AS (
  SELECT count(*) FROM orders WHERE account_id = %(account_id)s
    AND external_id = ANY(%(ids)s::text[])
    AND placed_at >= %(month)s AND placed_at < %(next_month)s
), written AS ({_upsert("orders", ORDER, is_watched="row.is_open")}
)
SELECT count(*) - (SELECT count FROM old) FROM {_new(ORDER)}
WHERE placed_at >= %(month)s AND placed_at < %(next_month)s
"""
REPLACE = {table: _replace(table, columns) for table, columns in PARTS.items()}
# An order has changed when what it holds has.
TOUCH = """
UPDATE orders SET updated_at = %(now)s
WHERE account_id = %(account_id)s AND external_id = ANY(%(ids)s) AND updated_at <> %(now)s
"""
RECOUNT = """
SELECT count(*) FROM orders
WHERE user_id = %(user_id)s AND placed_at >= %(month)s AND placed_at < %(next_month)s
"""
# The first page of a month counts the stored orders: a slow clock may have stored some.
COUNT = f"""
INSERT INTO profiles AS profile (user_id, orders_month, orders_count, created_at, updated_at)
VALUES (%(user_id)s, %(first_day)s, ({RECOUNT}), %(now)s, %(now)s)
ON CONFLICT (user_id) DO UPDATE SET orders_month = excluded.orders_month,
  orders_count = CASE WHEN profile.orders_month = excluded.orders_month
    THEN profile.orders_count + %(more)s ELSE excluded.orders_count END,
  updated_at = excluded.updated_at
"""
LISTINGS = _upsert("listings", LISTING, is_watched="true")
# Several orders name one customer: older data does not replace newer data.
CUSTOMERS = _upsert(
    "customers",
    CUSTOMER,
    is_old="excluded.modified_at < row.modified_at",
    kept="modified_at",
)
PAYMENTS = _upsert("payments", PAYMENT, kept="order_id")
# The order of a payment is known by its line, which may be stored before or after the payment.
JOIN_PAYMENTS = """
UPDATE payments SET order_id = line.order_id, updated_at = %(now)s FROM line_items AS line
WHERE payments.account_id = %(account_id)s AND payments.order_id IS NULL
  AND payments.line_item_id = ANY(%(line_item_ids)s) AND line.account_id = %(account_id)s
  AND line.external_id = payments.line_item_id
"""
LINK_PAYMENTS = """
UPDATE payments SET order_id = new.order_id, updated_at = %(now)s
FROM jsonb_to_recordset(%(rows)s::jsonb) AS new(external_id text, order_id text)
WHERE account_id = %(account_id)s AND payments.external_id = new.external_id
  AND payments.order_id IS NULL
"""

UNREADABLE = """
INSERT INTO unreadable_records AS row
  (account_id, kind, external_id, user_id, reason, raw, seen_at)
SELECT %(account_id)s::uuid, kind, external_id, %(user_id)s::text, reason, raw, %(now)s
FROM jsonb_to_recordset(%(rows)s::jsonb)
  AS new(kind text, external_id text, reason text, raw jsonb) ORDER BY kind, external_id
ON CONFLICT (account_id, kind, external_id) DO UPDATE SET
  reason = excluded.reason, raw = excluded.raw, seen_at = excluded.seen_at
"""
# It was read, so it still exists, and others are read before it.
LOOKED_AT = """
UPDATE {table} SET checked_at = %(now)s
WHERE account_id = %(account_id)s AND external_id = ANY(%(ids)s) AND {is_watched}
"""
LOOKED_AT_ORDERS = LOOKED_AT.format(table="orders", is_watched="is_open")
LOOKED_AT_LISTINGS = LOOKED_AT.format(table="listings", is_watched="state <> 'removed'")
HEALED = """
DELETE FROM unreadable_records AS row USING
  jsonb_to_recordset(%(rows)s::jsonb) AS new(kind text, external_id text)
WHERE row.account_id = %(account_id)s AND row.kind = new.kind
  AND row.external_id = new.external_id
"""
GONE_ORDERS = """
UPDATE orders SET status = 'gone', is_open = false, checked_at = %(now)s, updated_at = %(now)s
WHERE account_id = %(account_id)s AND external_id = ANY(%(ids)s) AND status <> 'gone'
"""
GONE_LISTINGS = """
UPDATE listings SET state = 'removed', updated_at = %(now)s
WHERE account_id = %(account_id)s AND external_id = ANY(%(ids)s) AND state <> 'removed'
"""
# Merged into another customer, or deleted: whose name and mail it was must not stay.
GONE_CUSTOMERS = """
UPDATE customers SET name = '', email = '', country = '', updated_at = %(now)s
WHERE account_id = %(account_id)s AND external_id = ANY(%(ids)s)
  AND (name <> '' OR email <> '' OR country <> '')
"""
REMOVED = """
UPDATE listings SET state = 'removed', updated_at = %(now)s
WHERE account_id = %(account_id)s AND checked_at < %(since)s AND state <> 'removed'
"""
WALKS = """
SELECT walks FROM listing_walks WHERE account_id = %(account_id)s FOR UPDATE
"""
MISSING = """
SELECT count(*), count(*) FILTER (WHERE checked_at < %(since)s),
  count(*) FILTER (WHERE checked_at < %(since)s AND state = ANY(%(empty_lists)s)),
  count(*) FILTER (WHERE checked_at < %(first)s),
  count(*) FILTER (WHERE checked_at >= %(newest)s)
FROM listings WHERE account_id = %(account_id)s AND state <> 'removed'
"""
SAVE_WALKS = """
INSERT INTO listing_walks AS row
  (account_id, user_id, walks, known, missing, held_reason, held_since, updated_at)
VALUES (%(account_id)s, %(user_id)s, %(walks)s, %(known)s, %(missing)s, %(held_reason)s::text,
  CASE WHEN %(held_reason)s::text IS NOT NULL THEN %(now)s::timestamptz END, %(now)s)
ON CONFLICT (account_id) DO UPDATE SET walks = excluded.walks, known = excluded.known,
  missing = excluded.missing, held_reason = excluded.held_reason,
  held_since = CASE WHEN excluded.held_reason IS NULL THEN NULL
    ELSE coalesce(row.held_since, excluded.held_since) END,
  updated_at = excluded.updated_at
"""
HORIZON = """
UPDATE connected_accounts SET horizon_at = %(horizon_at)s
WHERE id = %(account_id)s AND user_id = %(user_id)s
  AND horizon_at IS DISTINCT FROM %(horizon_at)s::timestamptz
"""
# A delivery after the page was requested may be newer than the page: it stays open.
HANDLED = """
UPDATE webhook_deliveries SET handled_at = %(now)s
WHERE account_id = %(account_id)s AND kind = %(kind)s AND handled_at IS NULL
  AND received_at <= %(asked_at)s
  AND (external_id = ANY(%(ids)s::text[]) OR (external_id IS NULL AND %(is_done)s))
"""

OPEN_ORDERS = """
SELECT external_id FROM orders
WHERE account_id = %(account_id)s AND user_id = %(user_id)s AND is_open
  AND checked_at < %(checked_before)s
ORDER BY checked_at, external_id LIMIT %(limit)s
"""
STANDING = f"""
SELECT coalesce((SELECT tier FROM profiles WHERE user_id = %(user_id)s), 'free'),
  coalesce((SELECT orders_count FROM profiles
            WHERE user_id = %(user_id)s AND orders_month = %(first_day)s), ({RECOUNT}))
"""
COUNTS = """
SELECT (SELECT count(*) FROM orders WHERE {ours}),
  (SELECT count(*) FROM orders WHERE {ours} AND is_open),
  (SELECT count(*) FROM listings WHERE {ours} AND state <> 'removed'),
  (SELECT count(*) FROM customers WHERE {ours}),
  (SELECT count(*) FROM payments WHERE {ours}),
  (SELECT count(*) FROM unreadable_records WHERE {ours}),
  (SELECT max(placed_at) FROM orders WHERE {ours})
""".format(ours="account_id = %(account_id)s AND user_id = %(user_id)s")
UNREADABLES = """
SELECT kind, external_id, reason, raw FROM unreadable_records
WHERE account_id = %(account_id)s AND user_id = %(user_id)s
ORDER BY seen_at DESC, kind, external_id LIMIT %(limit)s
"""
ROWS = "SELECT * FROM {table} WHERE account_id = %(account_id)s"
