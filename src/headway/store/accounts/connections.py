"""Connected shops: which seller has which, and how much waits to be pushed there.

A shop has one seller. A seller has one storefront, and any number of shops on platforms that are
only read. Neither is exchanged once the shop was written or read: the stored ids are invalid in
another shop. Until then it can be corrected.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.accounts import jobs
from headway.core.accounts.jobs import DataKind, PlatformName
from headway.core.accounts.refusals import UNINSTALLED
from headway.core.catalog.listings import SellerId
from headway.core.dispatch import STOREFRONT
from headway.errors import ConflictError, NotFoundError
from headway.store.accounts.credentials import DELETE_TOKENS
from headway.store.accounts.job_rows import cancel, enlist, lock_seller, resume
from headway.store.accounts.tombstones import allow_again
from headway.store.monitoring.notices import NoticeTopic, add_notice, subject_of
from headway.store.pool import Pool, guarded
from headway.store.queries import is_uuid

COLUMNS = """
id::text, user_id, platform, shop, status,
CASE status WHEN 'connected' THEN wait_reason ELSE reason END, locations, locations_at,
owner_id, title, horizon_at, scopes, push_started_at
"""
# A name that was mistyped must not be the seller's, or the shop's, for ever.
UNDO = f"""
DELETE FROM connected_accounts AS row
WHERE platform = %(platform)s AND (user_id <> %(user_id)s AND shop = %(shop)s
    OR user_id = %(user_id)s AND shop <> %(shop)s AND platform = '{STOREFRONT}')
  AND status = 'disconnected'
  AND NOT EXISTS (SELECT FROM push_intent WHERE account_id = row.id)
  AND NOT EXISTS (SELECT FROM orders WHERE account_id = row.id)
  AND NOT EXISTS (SELECT FROM listings WHERE account_id = row.id)
  AND NOT EXISTS (SELECT FROM customers WHERE account_id = row.id)
  AND NOT EXISTS (SELECT FROM payments WHERE account_id = row.id)
  AND NOT EXISTS (SELECT FROM listing_state AS state
                  WHERE row.platform = '{STOREFRONT}' AND state.user_id = row.user_id
                    AND applied IS NOT NULL)
"""
# A new account starts like a returning one: the next statement connects both.
CONNECT = """
INSERT INTO connected_accounts AS row
  (user_id, platform, shop, status, push_started_at, created_at, updated_at)
VALUES (%(user_id)s, %(platform)s, %(shop)s, 'disconnected',
  CASE WHEN NOT %(rehearses)s THEN %(now)s END, %(now)s, %(now)s)
ON CONFLICT DO NOTHING
"""
FIND = f"""
SELECT {COLUMNS} FROM connected_accounts
WHERE platform = %(platform)s AND user_id = %(user_id)s AND shop = %(shop)s
"""
# A new token does not create another account: missing values stay.
RECONNECT = f"""
UPDATE connected_accounts SET status = 'connected', jobs_status = 'connected', reason = '',
  locations = NULL,
  locations_at = NULL, scopes = NULL, channels_at = NULL, missing_scopes = '{{}}',
  refusals = 0, refused_since = NULL, refused_at = NULL, suspensions = 0, wait_until = NULL,
  uninstalled_at = NULL, is_leaving = false, wait_reason = '',
  owner_id = coalesce(nullif(%(owner_id)s, ''), owner_id),
  title = coalesce(nullif(%(title)s, ''), title), updated_at = %(now)s
WHERE platform = %(platform)s AND user_id = %(user_id)s AND shop = %(shop)s
RETURNING {COLUMNS}
"""
IN_THE_WAY = """
SELECT user_id, shop FROM connected_accounts
WHERE platform = %(platform)s AND (user_id = %(user_id)s OR shop = %(shop)s)
ORDER BY user_id = %(user_id)s DESC
"""
DISCONNECT = f"""
UPDATE connected_accounts SET status = 'disconnected', jobs_status = 'disconnected',
  reason = %(reason)s, is_leaving = %(is_leaving)s, updated_at = %(now)s
WHERE id = %(account_id)s AND user_id = %(user_id)s
RETURNING {COLUMNS}
"""
EVENT = """
INSERT INTO sync_audit_log
  (user_id, sync_timestamp, event_type, new_value, error_message, created_at)
VALUES (%(user_id)s, %(now)s, %(event)s, %(value)s::jsonb, nullif(%(reason)s, ''), %(now)s)
"""
LIST = f"""
SELECT {COLUMNS} FROM connected_accounts
WHERE (%(platform)s::text IS NULL OR platform = %(platform)s)
  AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
  AND (%(shop)s::text IS NULL OR shop = %(shop)s)
ORDER BY user_id, platform <> '{STOREFRONT}', platform, shop
"""
BY_ID = f"""
SELECT {COLUMNS} FROM connected_accounts
WHERE id = %(account_id)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
"""
SEVERAL = f"SELECT {COLUMNS} FROM connected_accounts WHERE id = ANY (%(ids)s::uuid[]) ORDER BY id"
NAMED = f"""
SELECT {COLUMNS} FROM connected_accounts
WHERE platform = '{STOREFRONT}' AND (user_id = %(name)s OR shop = %(shop)s)
ORDER BY user_id = %(name)s DESC LIMIT 1
"""
SOME = f"""
SELECT {COLUMNS} FROM connected_accounts
WHERE (%(user_id)s::text IS NULL OR user_id = %(user_id)s) AND (%(after)s::text IS NULL
  OR (user_id, platform <> '{STOREFRONT}', platform, shop)
     > (%(after)s, %(platform)s::text <> '{STOREFRONT}', %(platform)s::text, %(shop)s::text))
ORDER BY user_id, platform <> '{STOREFRONT}', platform, shop LIMIT %(limit)s
"""
STOREFRONTS = f"""
SELECT {COLUMNS} FROM connected_accounts
WHERE platform = '{STOREFRONT}' AND user_id = ANY(%(user_ids)s)
"""
TALLY = f"""
SELECT user_id,
  (SELECT count(*) FROM product WHERE product.user_id = account.user_id),
  (SELECT count(*) FROM listing_state AS state
   WHERE state.user_id = account.user_id AND push_at IS NOT NULL),
  (SELECT count(*) FROM listing_state AS state
   WHERE state.user_id = account.user_id AND push_at IS NOT NULL AND push_failures > 0),
  (SELECT count(*) FROM listing_state AS state
   WHERE state.user_id = account.user_id AND held_reason IS NOT NULL)
FROM connected_accounts AS account
WHERE platform = '{STOREFRONT}' AND user_id = ANY(%(user_ids)s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedShop:
    """A seller's connection to a shop; locations by name are None until they were read.

    `reason` says why it is disconnected, or why it waits. `scopes` are the access scopes that the
    shop granted, None if it did not list them.
    A storefront that was never started is in rehearsal.
    """

    id: str
    """The account's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    seller: SellerId
    platform: PlatformName
    shop: str
    status: str
    """Whether the shop is connected. Example: `connected`"""
    reason: str
    """Why it is not connected; empty if it is. Example: `the shop refused the token`"""
    locations: Mapping[str, Any] | None
    """Ids of the shop's stock locations by name; null until they were read.
    Example: `{"Main warehouse": "gid://shopify/Location/1"}`
    """
    locations_at: datetime | None
    """When the locations were read; null if they were not."""
    owner_id: str
    """The id of the platform's account that owns the shop; empty if it stands alone.
    Example: `51234567`
    """
    title: str
    """The shop's name, as people know it. Example: `Acme Aviation`"""
    horizon_at: datetime | None
    """How far back orders are read."""
    scopes: Sequence[str] | None
    """Access scopes that the shop granted; null if the platform does not say.
    Example: `["read_orders", "write_products"]`
    """
    started_at: datetime | None
    """When a person started writing to the shop; null while it is in rehearsal."""

    @property
    def is_in_rehearsal(self) -> bool:
        """True if the shop is read and not written, until a person starts it."""
        return self.platform == STOREFRONT and self.started_at is None

    @property
    def bare(self) -> jobs.Account:
        """The account as jobs know it."""
        return jobs.Account(
            id=self.id,
            user_id=self.seller,
            platform=self.platform,
            shop=self.shop,
            owner_id=self.owner_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopTally:
    """Listings in a seller's shop, and changes that wait to be pushed."""

    products: int
    """Listings in the shop."""
    waiting: int
    """Listings with a change that waits to be written."""
    failing: int
    """Listings whose write the shop refused."""
    held: int
    """Listings with a held change."""


class ConnectedShops:
    """Table `connected_accounts`, the shops in it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def connect(
        self,
        user_id: SellerId,
        shop: str,
        *,
        platform: PlatformName = STOREFRONT,
        kinds: Sequence[DataKind],
        owner_id: str = "",
        title: str = "",
        rehearses: bool = True,
        after_erasure: bool = False,
        now: datetime,
    ) -> ConnectedShop:
        """Connect a seller to a shop with a job for each kind, or again; raises ConflictError.

        A new shop `rehearses`: it is read and not written until a person starts it. One that was
        erased is connected again only `after_erasure`, on purpose.
        """
        values = {
            "user_id": user_id,
            "platform": platform,
            "shop": shop,
            "owner_id": owner_id,
            "title": title,
            "rehearses": rehearses,
            "now": now,
        }
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, user_id)
            allow_again(connection, user_id, platform, shop, on_purpose=after_erasure, now=now)
            connection.execute(UNDO, values)
            connection.execute(CONNECT, values)
            row = connection.execute(FIND, values).fetchone()
            if row is None:
                raise _conflict(connection, values)
            before = _account(row)
            resume(connection, before.bare, now=now)
            row = connection.execute(RECONNECT, values).fetchone()
            assert row is not None, "the seller's lock keeps it there"
            account = _account(row)
            enlist(connection, account.bare, kinds, now=now)
            if before.status == "disconnected":
                add_account_event(connection, account, "account_connected", now=now)
        return account

    def disconnect(
        self,
        user_id: SellerId,
        reason: str,
        *,
        platform: PlatformName = STOREFRONT,
        shop: str | None = None,
        is_leaving: bool = False,
        now: datetime,
    ) -> ConnectedShop:
        """Disconnect a seller's shop, cancel its jobs, store the reason and notify the seller.

        `is_leaving` if somebody asked for it: it is no alarm then. Raises ConflictError if the
        seller has several there and none is named.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            account = _only(connection, user_id, platform, shop).bare
            return disconnect(connection, account, reason, is_leaving=is_leaving, now=now)

    def list(self, platform: PlatformName | None = None) -> list[ConnectedShop]:
        """Return every shop, or those of one platform, by seller."""
        with guarded(), self._pool.connection() as connection:
            values = {"platform": platform, "user_id": None, "shop": None}
            rows = connection.execute(LIST, values).fetchall()
        return [_account(row) for row in rows]

    def of_seller(
        self, user_id: SellerId, platform: PlatformName = STOREFRONT, shop: str | None = None
    ) -> ConnectedShop:
        """Return a seller's shop; raises NotFoundError, or ConflictError if there are several."""
        with guarded(), self._pool.connection() as connection:
            return _only(connection, user_id, platform, shop)

    def find(self, account_id: str, user_id: SellerId | None = None) -> ConnectedShop:
        """Return an account by its id, a seller's own or any; raises NotFoundError."""
        row = None
        if is_uuid(account_id):
            values = {"account_id": account_id, "user_id": user_id}
            with guarded(), self._pool.connection() as connection:
                row = connection.execute(BY_ID, values).fetchone()
        if row is None:
            raise NotFoundError(f"there is no account {account_id}; see: headway accounts list")
        return _account(row)

    def named(self, name: str, shop: str) -> ConnectedShop:
        """Return the storefront of a seller of that name, or of that address; or NotFoundError."""
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(NAMED, {"name": name, "shop": shop}).fetchone()
        if row is None:
            raise NotFoundError(f"no shop {name} is connected; see: headway shops")
        return _account(row)

    def some(
        self,
        user_id: SellerId | None,
        *,
        after: tuple[str | None, str | None, str | None],
        limit: int,
    ) -> Sequence[ConnectedShop]:
        """Return shops by seller, or one seller's, after that seller's shop on that platform."""
        seller, platform, shop = after
        values = {
            "user_id": user_id,
            "after": seller,
            "platform": platform,
            "shop": shop,
            "limit": limit,
        }
        with guarded(), self._pool.connection() as connection:
            return [_account(row) for row in connection.execute(SOME, values).fetchall()]

    def storefronts(self, user_ids: Collection[SellerId]) -> Sequence[ConnectedShop]:
        """Return the storefronts of these sellers."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(STOREFRONTS, {"user_ids": [*user_ids]}).fetchall()
        return [_account(row) for row in rows]

    def tally(self, user_ids: Collection[SellerId]) -> dict[SellerId, ShopTally]:
        """Count the listings in the shops of these sellers, and the changes that wait."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(TALLY, {"user_ids": list(user_ids)}).fetchall()
        return {
            user_id: ShopTally(products=products, waiting=waiting, failing=failing, held=held)
            for user_id, products, waiting, failing, held in rows
        }


def disconnect(
    connection: Connection[Any],
    account: jobs.Account,
    reason: str,
    *,
    is_leaving: bool = False,
    now: datetime,
) -> ConnectedShop:
    """Disconnect an account in the caller's transaction, cancel its jobs, notify the seller.

    An account that is already disconnected, with nothing left to cancel, causes no new notice.
    """
    lock_seller(connection, account.user_id)
    cancelled = cancel(connection, account, reason, now=now)
    values = {
        "account_id": account.id,
        "user_id": account.user_id,
        "reason": reason,
        "is_leaving": is_leaving or reason == UNINSTALLED,
        "now": now,
    }
    before = connection.execute(BY_ID, values).fetchone()
    row = connection.execute(DISCONNECT, values).fetchone()
    if before is None or row is None:
        raise NotFoundError(_no_shop(account.user_id, account.platform))
    shop = _account(row)
    if reason == UNINSTALLED:  # the platform refused it, so nobody can use it any more
        tokens = {"key_platforms": [shop.platform], "key_names": [shop.shop]}
        connection.execute(DELETE_TOKENS, tokens)
    if cancelled or _account(before).status == "connected":
        add_account_event(connection, shop, "account_disconnected", now=now)
        add_notice(
            connection,
            NoticeTopic.DISCONNECTED,
            subject_of(account.id, now),
            user_id=account.user_id,
            text=f"{shop.platform} shop {shop.title or shop.shop} is disconnected: {reason}",
            now=now,
        )
    return shop


def _only(
    connection: Connection[Any], user_id: SellerId, platform: PlatformName, shop: str | None
) -> ConnectedShop:
    """Return a seller's shop; raises NotFoundError, or ConflictError if there are several."""
    values = {"platform": platform, "user_id": user_id, "shop": shop}
    rows = connection.execute(LIST, values).fetchall()
    if not rows:
        raise NotFoundError(_no_shop(user_id, platform))
    if len(rows) > 1:
        shops = ", ".join(_account(row).shop for row in rows)
        raise ConflictError(f"{user_id} has several shops on {platform}: {shops}; name one")
    return _account(rows[0])


def _no_shop(user_id: SellerId, platform: PlatformName) -> str:
    if platform == STOREFRONT:
        return f"{user_id} has no shop; connect one with: headway connect SHOP --seller {user_id}"
    return (
        f"{user_id} has no shop on {platform}; connect one with:"
        f" headway connect SHOP --seller {user_id} --platform {platform}"
    )


def _conflict(connection: Connection[Any], values: Mapping[str, Any]) -> ConflictError:
    owner, owned = connection.execute(IN_THE_WAY, values).fetchall()[0]
    if owner == values["user_id"]:
        return ConflictError(
            f"{owner} has the shop {owned}; connect {values['shop']} as another seller of the same"
            f" owner: --seller {owner}/2 --with {owner}"
        )
    return ConflictError(f"{owned} is the shop of {owner}; a shop has one seller")


def add_account_event(
    connection: Connection[Any], account: ConnectedShop, event: str, *, now: datetime
) -> None:
    """Add an event about an account to the history, in the caller's transaction."""
    value = {"account": account.id, "platform": account.platform, "shop": account.shop}
    connection.execute(
        EVENT,
        {
            "user_id": account.seller,
            "event": event,
            "value": json.dumps(value),
            "reason": account.reason,
            "now": now,
        },
    )


def accounts_by_id(connection: Connection[Any], ids: Sequence[str]) -> Sequence[ConnectedShop]:
    """Return accounts by their ids, in the caller's transaction."""
    rows = connection.execute(SEVERAL, {"ids": list(ids)}).fetchall()
    return [_account(row) for row in rows]


def _account(row: Sequence[Any]) -> ConnectedShop:
    columns = dict(zip(ConnectedShop.__dataclass_fields__, row, strict=True))
    return ConnectedShop(**columns)
