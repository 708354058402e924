"""Sellers' shops: who is connected to which, and how much waits there.

A seller has one shop and a shop one seller. Neither is exchanged once the shop was written or read:
the ids that are stored for its products mean nothing in another shop. Until then it was a mistake.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg_pool import ConnectionPool

from headway.core.model import SellerId
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.store.pool import guarded

# Where the API of every shop is, whatever address its customers see. A token goes nowhere else.
HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.myshopify\.com")
# What a merchant's browser shows while looking at the shop from inside.
ADMIN = re.compile(r"admin\.shopify\.com/store/([a-z0-9-]+)")

COLUMNS = "id::text, user_id, shop, status, reason, locations, locations_at"
CONNECT = """
INSERT INTO connected_accounts AS row (user_id, platform, shop, created_at, updated_at)
VALUES (%(user_id)s, 'shopify', %(shop)s, %(now)s, %(now)s)
ON CONFLICT DO NOTHING
"""
# A name that was mistyped must not be the seller's, or the shop's, for ever.
UNDO = """
DELETE FROM connected_accounts AS row
WHERE platform = 'shopify' AND (user_id = %(user_id)s) <> (shop = %(shop)s)
  AND status = 'disconnected'
  AND NOT EXISTS (SELECT FROM push_intent WHERE account_id = row.id)
  AND NOT EXISTS (SELECT FROM listing_state AS state
                  WHERE state.user_id = row.user_id AND applied IS NOT NULL)
"""
RECONNECT = f"""
UPDATE connected_accounts SET status = 'connected', reason = '', locations = NULL,
  locations_at = NULL, updated_at = %(now)s
WHERE platform = 'shopify' AND user_id = %(user_id)s AND shop = %(shop)s
RETURNING {COLUMNS}
"""
IN_THE_WAY = """
SELECT user_id, shop FROM connected_accounts
WHERE platform = 'shopify' AND (user_id = %(user_id)s OR shop = %(shop)s)
ORDER BY user_id = %(user_id)s DESC
"""
DISCONNECT = f"""
UPDATE connected_accounts SET status = 'disconnected', reason = %(reason)s, updated_at = %(now)s
WHERE platform = 'shopify' AND user_id = %(user_id)s
RETURNING {COLUMNS}
"""
LIST = f"""
SELECT {COLUMNS} FROM connected_accounts
WHERE platform = 'shopify' AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY user_id
"""
TALLY = """
SELECT user_id,
  (SELECT count(*) FROM product WHERE product.user_id = account.user_id),
  (SELECT count(*) FROM listing_state AS state
   WHERE state.user_id = account.user_id AND push_at IS NOT NULL),
  (SELECT count(*) FROM listing_state AS state
   WHERE state.user_id = account.user_id AND push_at IS NOT NULL AND push_failures > 0),
  (SELECT count(*) FROM listing_state AS state
   WHERE state.user_id = account.user_id AND held_reason IS NOT NULL)
FROM connected_accounts AS account WHERE platform = 'shopify'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A seller's connection to a shop; locations by name are None until the shop told them."""

    id: str
    user_id: SellerId
    shop: str
    status: str
    reason: str
    locations: Mapping[str, Any] | None
    locations_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What is in a seller's shop, and what waits to get there."""

    products: int
    waiting: int
    failing: int
    held: int


class Accounts:
    """Table `connected_accounts`, the shops in it."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def connect(self, user_id: SellerId, shop: str, *, now: datetime) -> Account:
        """Connect a seller to a shop, or connect them again; raises ConflictError."""
        values = {"user_id": user_id, "shop": shop_domain(shop), "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(UNDO, values)
            connection.execute(CONNECT, values)
            row = connection.execute(RECONNECT, values).fetchone()
            if row is not None:
                return _account(row)
            owner, owned = connection.execute(IN_THE_WAY, values).fetchall()[0]
            if owner == user_id:
                raise ConflictError(
                    f"{owner} has the shop {owned}; connect {values['shop']} as another seller"
                )
            raise ConflictError(f"{owned} is the shop of {owner}; a shop has one seller")

    def disconnect(self, user_id: SellerId, reason: str, *, now: datetime) -> Account:
        """Stop visiting a seller's shop, and keep why."""
        values = {"user_id": user_id, "reason": reason, "now": now}
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(DISCONNECT, values).fetchone()
        if row is None:
            raise NotFoundError(_no_shop(user_id))
        return _account(row)

    def list(self) -> list[Account]:
        """Return every shop, by seller."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(LIST, {"user_id": None}).fetchall()
        return [_account(row) for row in rows]

    def of_seller(self, user_id: SellerId) -> Account:
        """Return a seller's shop; raises NotFoundError."""
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(LIST, {"user_id": user_id}).fetchone()
        if row is None:
            raise NotFoundError(_no_shop(user_id))
        return _account(row)

    def tally(self) -> dict[SellerId, Tally]:
        """Count what is in every seller's shop, and what waits to get there."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(TALLY).fetchall()
        return {
            user_id: Tally(products=products, waiting=waiting, failing=failing, held=held)
            for user_id, products, waiting, failing, held in rows
        }


def shop_domain(text: str) -> str:
    """Return the host name of a shop, however a person wrote it; raises InvalidError."""
    bare = re.sub(r"^[a-z][a-z0-9+.-]*://", "", text.strip().lower())
    if inside := ADMIN.match(bare):
        return f"{inside[1]}.myshopify.com"
    host = re.split(r"[/?#]", bare, maxsplit=1)[0].removesuffix(".")
    if not HOST.fullmatch(host):
        raise InvalidError(f"{text!r} is not a shop's address; write it as name.myshopify.com")
    return host


def _no_shop(user_id: SellerId) -> str:
    return f"{user_id} has no shop; connect one with: headway connect SHOP --seller {user_id}"


def _account(row: tuple[Any, ...]) -> Account:
    return Account(**dict(zip(Account.__dataclass_fields__, row, strict=True)))
