"""What is deleted of one customer: orders stay, for the books, and nobody is named in them."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from psycopg import Connection

from headway.core.accounts.erasure import (
    ErasedAccount,
    ErasureKind,
    ErasureSubject,
    customer_words,
)
from headway.core.catalog.listings import SellerId

OF_ACCOUNT = "account_id = ANY(%(account_ids)s::uuid[])"
LOCK_ACCOUNTS = """
SELECT FROM connected_accounts WHERE id = ANY(%(account_ids)s::uuid[]) ORDER BY id FOR UPDATE
"""
CUSTOMERS = f"""
SELECT external_id, name, email FROM customers
WHERE {OF_ACCOUNT} AND (external_id = ANY(%(customer_ids)s) OR lower(email) = ANY(%(emails)s))
"""
ORDERS = f"""
SELECT external_id FROM orders WHERE {OF_ACCOUNT} AND customer_id = ANY(%(customer_ids)s)
"""
IS_CUSTOMER = f"{OF_ACCOUNT} AND external_id = ANY(%(customer_ids)s)"
IN_ORDER = f"{OF_ACCOUNT} AND order_id = ANY(%(order_ids)s)"
IS_ORDER = f"""
{OF_ACCOUNT} AND customer_id IS NOT NULL
  AND (customer_id = ANY(%(customer_ids)s) OR external_id = ANY(%(order_ids)s))
"""
IS_RAW = f"""
{OF_ACCOUNT} AND ((kind = 'customers' AND external_id = ANY(%(customer_ids)s))
  OR (kind = 'orders' AND external_id = ANY(%(order_ids)s))
  OR (%(pattern)s <> '' AND raw::text ~* %(pattern)s))
"""
IS_DELIVERY = f"""
{OF_ACCOUNT} AND kind IN ('customers', 'privacy') AND external_id = ANY(%(customer_ids)s)
"""
IS_REQUEST = f"{OF_ACCOUNT} AND customer_id = ANY(%(customer_ids)s)"
IS_NOTED = f"{IS_CUSTOMER} AND kind = 'customers'"
# By table: which rows are concerned, and what becomes of them.
CHANGES: Sequence[tuple[str, str, str]] = (
    ("shipments", f"{IN_ORDER} AND tracking <> ''", "UPDATE shipments SET tracking = ''"),
    ("refunds", f"{IN_ORDER} AND reason <> ''", "UPDATE refunds SET reason = ''"),
    ("orders", IS_ORDER, "UPDATE orders SET customer_id = NULL, updated_at = %(now)s"),
    ("customers", IS_CUSTOMER, "DELETE FROM customers"),
    ("unreadable_records", IS_RAW, "DELETE FROM unreadable_records"),
    (
        "webhook_deliveries",
        IS_DELIVERY,
        (
            "UPDATE webhook_deliveries SET external_id = NULL,"
            " handled_at = coalesce(handled_at, %(now)s)"
        ),
    ),
    ("privacy_requests", IS_REQUEST, "DELETE FROM privacy_requests"),
    ("record_deletions", IS_NOTED, "DELETE FROM record_deletions"),
)
Values = dict[str, Any]


def customer_subject(
    connection: Connection[Any],
    user_id: SellerId,
    accounts: Sequence[ErasedAccount],
    *,
    customer_ids: Sequence[str] = (),
    emails: Sequence[str] = (),
    order_ids: Sequence[str] = (),
) -> ErasureSubject:
    """Return a customer with all ids, addresses and orders that are stored, and lock the accounts.

    No page is stored meanwhile, so no order is missed.
    """
    values: Values = {
        "account_ids": [account.id for account in accounts],
        "customer_ids": list(customer_ids),
        "emails": [email.strip().lower() for email in emails],
    }
    connection.execute(LOCK_ACCOUNTS, values)
    rows = connection.execute(CUSTOMERS, values).fetchall()
    ids = sorted({*customer_ids, *(row[0] for row in rows)})
    addresses = sorted({*values["emails"], *(row[2].strip().lower() for row in rows)} - {""})
    orders = connection.execute(ORDERS, {**values, "customer_ids": ids}).fetchall()
    names = {text.strip() for row in rows for text in row}
    return ErasureSubject(
        kind=ErasureKind.CUSTOMER,
        user_id=user_id,
        accounts=tuple(accounts),
        customer_ids=tuple(ids),
        emails=tuple(addresses),
        order_ids=tuple(sorted({*order_ids, *(row[0] for row in orders)})),
        words=customer_words({*names, *ids, *addresses}),
        is_stored=bool(rows or orders),
    )


def customer_counts(connection: Connection[Any], values: Values) -> dict[str, int]:
    """Count the rows that an erasure of a customer would delete or empty."""
    counts = {}
    for table, where, _ in CHANGES:
        query = f"SELECT count(*) FROM {table} WHERE {where}"
        row = connection.execute(query.encode(), _with_pattern(values)).fetchone()
        assert row is not None, "a count always answers"
        counts[table] = row[0]
    return {name: count for name, count in counts.items() if count}


def _step(where: str, change: str) -> Callable[[Connection[Any], Values], int]:
    query = f"{change} WHERE {where}".encode()

    def run(connection: Connection[Any], values: Values) -> int:
        return connection.execute(query, _with_pattern(values)).rowcount

    return run


def _with_pattern(values: Values) -> Values:
    """Add the pattern of the words in a raw reply: whole words, however JSON spells them."""
    words = sorted(values["spellings"], key=len, reverse=True)
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)" if words else ""
    return {**values, "pattern": pattern}


CUSTOMER_STEPS = tuple((table, _step(where, change)) for table, where, change in CHANGES)
