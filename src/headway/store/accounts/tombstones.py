"""Hashes of what was erased, and what is left out because of them.

A hash begins with the salt of the database. The identifier itself is stored nowhere.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.accounts.erasure import scalars
from headway.core.accounts.jobs import PlatformName
from headway.core.accounts.warehouse import Order, Records, Unreadable
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError

Identifier = tuple[str, str]
CUSTOMER, EMAIL, ORDER = "customer", "email", "order"
NAME_CHARS_MAX = 320

HAS_ANY = """
SELECT FROM tombstones WHERE shop_hash = erased_hash('shop', %(platform)s, %(shop)s)
  AND kind IN ('customer', 'email', 'order') LIMIT 1
"""
ERASED = """
SELECT DISTINCT entry.kind, entry.value
FROM unnest(%(kinds)s::text[], %(values)s::text[]) AS entry (kind, value)
JOIN tombstones AS stone ON stone.hash = erased_hash(entry.kind, %(platform)s, entry.value)
WHERE stone.shop_hash = erased_hash('shop', %(platform)s, %(shop)s)
"""
MATCHING = """
WHERE stone.lifted_at IS NULL AND (
  (stone.kind = 'seller' AND stone.hash = erased_hash('seller', '', %(user_id)s))
  OR (stone.kind = 'account' AND stone.hash = erased_hash('account', %(platform)s, %(shop)s)))
"""
BLOCKING = f"""
SELECT stone.kind, erasure.status <> 'done', coalesce(erasure.sweep_at, erasure.requested_at)
FROM tombstones AS stone JOIN erasures AS erasure ON erasure.id = stone.erasure_id
{MATCHING} ORDER BY 2 DESC, 3 DESC LIMIT 1
"""
LIFT = f"""
UPDATE tombstones SET lifted_at = %(now)s FROM tombstones AS stone
{MATCHING} AND tombstones.erasure_id = stone.erasure_id AND tombstones.hash = stone.hash
"""


def erased_among(
    connection: Connection[Any],
    platform: PlatformName,
    shop: str,
    identifiers: set[Identifier],
) -> set[Identifier]:
    """Return those of these customers, addresses and orders that were erased in this shop."""
    where = {"platform": platform, "shop": shop}
    # What no table can hold, or is very long, is no id.
    identifiers = {
        (kind, name)
        for kind, name in identifiers
        if name.isprintable() and len(name) <= NAME_CHARS_MAX
    }
    if not identifiers or connection.execute(HAS_ANY, where).fetchone() is None:
        return set()
    kinds, names = zip(*sorted(identifiers), strict=True)
    values = {**where, "kinds": list(kinds), "values": list(names)}
    return {(kind, value) for kind, value in connection.execute(ERASED, values).fetchall()}


def without_erased(
    connection: Connection[Any], platform: PlatformName, shop: str, records: Records
) -> Records:
    """Return the records of a page without the personal data of customers who were erased."""
    identifiers = set(_identifiers(records))
    erased = erased_among(connection, platform, shop, identifiers)
    if not erased:
        return records
    customers = [
        row
        for row in records.customers
        if (CUSTOMER, row.external_id) in erased or (EMAIL, email_key(row.email)) in erased
    ]
    erased |= {(CUSTOMER, row.external_id) for row in customers}
    return replace(
        records,
        customers=tuple(row for row in records.customers if row not in customers),
        orders=tuple(_impersonal(order, erased) for order in records.orders),
        unreadable=tuple(
            row if erased.isdisjoint(_named(row)) else _blank(row)
            for row in records.unreadable
            if not (row.kind == "customers" and not erased.isdisjoint(_named(row)))
        ),
    )


def allow_again(
    connection: Connection[Any],
    user_id: SellerId,
    platform: PlatformName,
    shop: str,
    *,
    on_purpose: bool,
    now: datetime,
) -> None:
    """Let a shop, or a seller, that was erased be connected again; or raise ConflictError."""
    values = {"user_id": user_id, "platform": platform, "shop": shop, "now": now}
    row = connection.execute(BLOCKING, values).fetchone()
    if row is None:
        return
    kind, is_open, at = row
    whose = user_id if kind == "seller" else f"the {platform} shop {shop}"
    if is_open:
        raise ConflictError(
            f"{whose} is being erased, until about {at:%H:%M} UTC; connect it again after that"
        )
    if not on_purpose:
        raise ConflictError(
            f"{whose} was erased at {at:%Y-%m-%d %H:%M} UTC; to connect it again on purpose, use"
            " --after-erasure, or after_erasure"
        )
    connection.execute(LIFT, values)


def email_key(email: str) -> str:
    """Return an address as it is hashed."""
    return email.strip().lower()


def _identifiers(records: Records) -> Iterator[Identifier]:
    for customer in records.customers:
        yield CUSTOMER, customer.external_id
        if customer.email:
            yield EMAIL, email_key(customer.email)
    for order in records.orders:
        yield ORDER, order.external_id
        if order.customer_id is not None:
            yield CUSTOMER, order.customer_id
    for row in records.unreadable:
        yield from _named(row)


def _named(row: Unreadable) -> Iterator[Identifier]:
    """Yield what an unreadable record may be about: nobody knows which field is which."""
    if row.kind == "orders":
        yield ORDER, row.external_id
    for text in {row.external_id, *scalars(row.raw)}:
        yield CUSTOMER, text.rpartition("/")[2]
        if "@" in text:
            yield EMAIL, email_key(text)


def _impersonal(order: Order, erased: set[Identifier]) -> Order:
    is_erased = (ORDER, order.external_id) in erased or (CUSTOMER, order.customer_id) in erased
    if not is_erased:
        return order
    return replace(
        order,
        customer_id=None,
        shipments=tuple(replace(part, tracking="") for part in order.shipments),
        refunds=tuple(replace(part, reason="") for part in order.refunds),
    )


def _blank(row: Unreadable) -> Unreadable:
    return replace(row, raw={}, reason="cannot be read; its customer was erased")
