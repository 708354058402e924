"""Writes to the shops: due shops, one push lease per shop, intents, settle.

A settle names its fence: what a late worker reports is refused as a whole, and the next worker
finds its open intents.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headway.core.catalog.listings import CLOCKS_APART_MAX, SellerId, Sku
from headway.core.catalog.storefront import (
    BulkProgress,
    Change,
    Intent,
    Pushed,
    PushLease,
    Shop,
    ShopChannels,
    ShopDetails,
    WriteKind,
)
from headway.core.dispatch import STOREFRONT, Verb
from headway.store.accounts.connections import disconnect
from headway.store.accounts.job_rows import lock_seller
from headway.store.catalog.bulk import OPEN_BULK, plain_progress, read_bulk
from headway.store.catalog.changes import CHANGES, DUE, read_change
from headway.store.catalog.sellers import Sellers
from headway.store.dispatch import is_resting
from headway.store.pause_sql import ALL_PAUSED, is_listing_paused, is_seller_paused
from headway.store.pool import Pool, guarded
from headway.store.queries import Queries, read_as
from headway.store.sql_files import read_sql

LOCATIONS_KEPT = timedelta(days=1)
# Drift checks take half of what the smallest bucket restores, and leave the rest to pushes.
DRIFT_CHECK_EVERY = timedelta(seconds=8)

SHOP_COLUMNS = """
  account.id::text, account.user_id, account.shop AS domain,
  CASE WHEN account.locations_at > %(read_after)s THEN account.locations END AS locations,
  CASE WHEN account.channels_at > %(read_after)s THEN account.channels END AS channels,
  account.missing_scopes, coalesce(profile.guard_move, %(guard_move)s) AS guard_move,
  coalesce(profile.oversell, %(oversell)s) = 'deny' AS stops_overselling,
  account.push_started_at IS NULL AS is_in_rehearsal, profile.currency
"""
OPEN_TO_US = f"""account.platform = '{STOREFRONT}' AND account.status = 'connected'
  AND (account.push_lease_until IS NULL OR account.push_lease_until < %(expired_before)s)
  AND (account.wait_until IS NULL OR account.wait_until <= %(now)s)
  AND NOT {ALL_PAUSED} AND NOT {is_seller_paused("account")}"""
# Which shops to read: all, one, or those without a dispatched worker.
ALL_SHOPS, ONE_SHOP = "true", "account.id = %(only)s::uuid"
IDLE_SHOPS = "NOT " + is_resting(Verb.PUSH, f"'{STOREFRONT}:' || account.id")
# One probe of one index per shop, whatever the number of listings; past those that are paused. The
# shop that was called longest ago is first, so that a slow one delays others by one call.
DUE_SHOPS = f"""
SELECT {SHOP_COLUMNS}
FROM connected_accounts AS account LEFT JOIN profiles AS profile USING (user_id)
LEFT JOIN LATERAL (
  SELECT push_at FROM listing_state AS state
  WHERE user_id = account.user_id AND push_at IS NOT NULL AND NOT {is_listing_paused("state")}
  ORDER BY push_at LIMIT 1) AS first ON true
LEFT JOIN LATERAL (
  SELECT coalesce((progress ->> 'poll_at')::timestamptz, created_at) AS poll_at FROM push_intent
  WHERE account_id = account.id AND state = 'open' AND kind = 'bulk' LIMIT 1) AS bulk ON true
WHERE {OPEN_TO_US} AND {{which}}
  AND (least(first.push_at, bulk.poll_at) <= %(now)s OR account.locations IS NULL
    OR account.channels_at IS NULL)
ORDER BY account.push_called_at NULLS FIRST, least(first.push_at, bulk.poll_at) NULLS FIRST,
  account.id
LIMIT %(limit)s
"""
ONE = f"""
SELECT {SHOP_COLUMNS}
FROM connected_accounts AS account LEFT JOIN profiles AS profile USING (user_id)
WHERE {ONE_SHOP}
"""
# What a person removed is the merchant's own again.
IS_REMOVED = """EXISTS (SELECT FROM product_sync_schedule AS row
  WHERE row.user_id = state.user_id AND row.sku = state.sku AND row.removed_at IS NOT NULL)"""
DRIFT_CHECK_SHOPS = f"""
SELECT {SHOP_COLUMNS}
FROM connected_accounts AS account LEFT JOIN profiles AS profile USING (user_id)
CROSS JOIN LATERAL (
  SELECT verified_at FROM listing_state AS state
  WHERE user_id = account.user_id AND applied IS NOT NULL AND NOT {is_listing_paused("state")}
    AND NOT {IS_REMOVED}
  ORDER BY verified_at NULLS FIRST LIMIT 1) AS oldest
WHERE {OPEN_TO_US} AND {{which}}
  AND coalesce(account.drift_check_at, '-infinity') <= %(now)s
  AND coalesce(oldest.verified_at, '-infinity') < %(before)s
  AND account.id::text <> ALL (%(due)s)
ORDER BY account.drift_check_at NULLS FIRST, account.id LIMIT %(limit)s
"""
# Parts that are read at the supplier and whose price in the shop is not ours yet: imported and
# revived ones, and those being published, until the shop was searched for them in vain.
FIRST_PRICES = """
SELECT count(*) FROM product_sync_schedule AS row
LEFT JOIN product USING (user_id, sku) LEFT JOIN product_staging AS staging USING (user_id, sku)
LEFT JOIN listing_state AS state USING (user_id, sku)
WHERE row.user_id = %(user_id)s AND row.is_active AND row.consecutive_failures = 0
  AND (product.sku IS NOT NULL
    OR coalesce(staging.status, 'requested') IN ('requested', 'normalized'))
  AND coalesce(state.applied_version, 0) = 0 AND state.applied_at IS NULL
"""
CLAIM = read_sql("catalog", "push_claim")
OPEN = """
SELECT id::text, kind, skus FROM push_intent
WHERE account_id = %(id)s AND state = 'open' AND kind <> 'bulk' ORDER BY created_at, id
"""
# What may have been written is read back first, once stragglers have had time to arrive.
UNSURE = (
    CHANGES
    + f"""AND state.sku = ANY (%(skus)s) AND coalesce(state.push_at, '-infinity') <= %(now)s
  AND NOT {is_listing_paused("state")}
ORDER BY state.sku LIMIT %(limit)s"""
)
ARE_LISTED = """
SELECT EXISTS (SELECT FROM listing_state
  WHERE user_id = %(user_id)s AND sku = ANY (%(skus)s) AND desired IS NOT NULL)
"""
UNVERIFIED = (
    CHANGES
    + f"""AND state.applied IS NOT NULL AND product.shopify_variant_id IS NOT NULL
  AND coalesce(state.verified_at, '-infinity') < %(before)s AND state.sku <> ALL (%(in_bulk)s)
  AND NOT {is_listing_paused("state")} AND NOT {IS_REMOVED}
ORDER BY state.verified_at NULLS FIRST, state.sku LIMIT %(limit)s"""
)
DRIFT_CHECKS = "UPDATE connected_accounts SET drift_check_at = %(next)s WHERE id = %(id)s"

INTEND = """
INSERT INTO push_intent (id, account_id, user_id, kind, fence, skus, writes, created_at)
SELECT %(intent)s, id, user_id, %(kind)s, push_fence, %(skus)s, %(writes)s::jsonb, %(now)s
FROM connected_accounts WHERE id = %(id)s AND push_fence = %(fence)s AND push_owner IS NOT NULL
  AND push_started_at IS NOT NULL
"""

SETTLE = read_sql("catalog", "push_settle")

LEAVE = """
UPDATE connected_accounts SET push_owner = NULL, push_lease_until = NULL,
  push_fence = push_fence + 1
WHERE id = %(id)s AND status = 'connected'
"""
FORGET = "DELETE FROM push_intent WHERE created_at < %(before)s AND state <> 'open'"


class Pushes(Queries):
    """`listing_state`, `product` and `push_intent` behind the engine's port."""

    def __init__(self, pool: Pool, sellers: Sellers) -> None:
        super().__init__(pool)
        self._sellers = sellers
        self._guard_move = sellers.defaults.guard.move_max
        self._oversell = sellers.defaults.terms.oversell

    def due_shops(
        self,
        now: datetime,
        *,
        verified_before: datetime | None,
        limit: int,
        only: str | None = None,
    ) -> list[Shop]:
        """Return shops without a lease: with changes due, then with listings to verify."""
        which = ALL_SHOPS if only is None else ONE_SHOP
        values = {**self._common(now), "limit": limit, "before": verified_before, "only": only}
        return self._due(which, values)

    def idle_shops(
        self, now: datetime, *, verified_before: datetime | None, limit: int
    ) -> list[Shop]:
        """Return the due shops without a dispatched worker."""
        values = {**self._common(now), "limit": limit, "before": verified_before}
        return self._due(IDLE_SHOPS, values)

    def _due(self, which: str, values: dict[str, Any]) -> list[Shop]:
        limit = values["limit"]
        with guarded(), self._pool.connection() as connection:
            shops = read_as(connection, Shop, DUE_SHOPS.format(which=which), values)
            if len(shops) < limit and values["before"] is not None:
                due = [shop.id for shop in shops]
                others = {**values, "due": due, "limit": limit - len(shops)}
                shops += read_as(connection, Shop, DRIFT_CHECK_SHOPS.format(which=which), others)
        return shops

    def shop(self, account_id: str, *, now: datetime) -> Shop | None:
        """Return a shop with its locations and channels, whenever they were read."""
        values = {**self._common(now), "read_after": "-infinity", "only": account_id}
        return self._find(Shop, ONE, values)

    def claim(
        self,
        shop: Shop,
        *,
        now: datetime,
        owner: str,
        lease_until: datetime,
        verified_before: datetime | None,
        limit: int,
    ) -> PushLease | None:
        """Lease a shop under a new fence, with what is due there; None if another was faster."""
        values = {
            **self._common(now),
            "id": shop.id,
            "owner": owner,
            "lease_until": lease_until,
            "before": verified_before,
            "limit": limit,
        }
        with guarded(), self._pool.connection() as connection, connection.transaction():
            taken = connection.execute(CLAIM, values).fetchone()
            if taken is None:
                return None
            *columns, fence, drift_check_at = taken
            leased = Shop(**dict(zip(Shop.__dataclass_fields__, columns, strict=False)))
            values["user_id"] = leased.user_id
            bulk = read_bulk(connection.execute(OPEN_BULK, values).fetchone())
            unsure = read_as(connection, Intent, OPEN, values)
            drift_check: list[Change] = []
            values["skus"] = sorted({sku for intent in unsure for sku in intent.skus})
            changes = read_as(connection, read_change, UNSURE, values) if unsure else []
            if not changes and (
                not unsure or connection.execute(ARE_LISTED, values).fetchone() == (True,)
            ):
                unsure = []
                changes = read_as(connection, read_change, DUE, values)
            may_drift_check = verified_before is not None and (
                drift_check_at is None or drift_check_at <= now
            )
            if not unsure and not changes and may_drift_check:
                values["in_bulk"] = list(bulk.skus) if bulk else []
                drift_check = read_as(connection, read_change, UNVERIFIED, values)
                connection.execute(DRIFT_CHECKS, {"id": shop.id, "next": now + DRIFT_CHECK_EVERY})
        if any(change.is_first for change in changes) and not leased.is_in_rehearsal:
            leased = replace(leased, takeover=self._find_takeover(leased.user_id, now))
        return PushLease(
            shop=leased,
            fence=fence,
            changes=changes,
            open=unsure,
            drift_check=drift_check,
            bulk=bulk,
        )

    def _find_takeover(self, user_id: SellerId, now: datetime) -> str | None:
        (count,) = self._one(FIRST_PRICES, {"user_id": user_id})
        return self._sellers.settings([user_id], now)[user_id].find_takeover(count, now)

    def intend(self, push_lease: PushLease, intent: Intent, *, now: datetime) -> bool:
        """Store an intent before it is sent; return False if the push lease was lost."""
        values = {
            "intent": intent.id,
            "kind": intent.kind.value,
            "skus": list(intent.skus),
            "writes": json.dumps(list(intent.writes)),
            "id": push_lease.shop.id,
            "fence": push_lease.fence,
            "now": now,
        }
        return self._write(INTEND, values) == 1

    def settle(
        self,
        push_lease: PushLease,
        pushed: Sequence[Pushed] = (),
        *,
        closes: Mapping[str, str] | None = None,
        voids: Mapping[str, str] | None = None,
        narrows: Mapping[str, Sequence[Sku]] | None = None,
        progress: Mapping[str, BulkProgress] | None = None,
        unbulks: Mapping[str, Sequence[Sku]] | None = None,
        details: ShopDetails | None = None,
        channels: ShopChannels | None = None,
        forgets_locations: bool = False,
        forgets_channels: bool = False,
        call_id: str | None = None,
        keeps_lease: bool = False,
        now: datetime,
    ) -> bool:
        """Write the result of a push and end the lease; return False if the lease was lost."""
        changed: list[dict[str, Any]] = []
        changed += [{"id": id_, "skus": list(skus)} for id_, skus in (narrows or {}).items()]
        changed += [
            {"id": id_, "skus": list(skus), "kind": WriteKind.PRICE}
            for id_, skus in (unbulks or {}).items()
        ]
        changed += [
            {"id": id_, "progress": plain_progress(p)} for id_, p in (progress or {}).items()
        ]
        ends = [(id_, "done", result) for id_, result in (closes or {}).items()]
        ends += [(id_, "void", result) for id_, result in (voids or {}).items()]
        values = {
            "id": push_lease.shop.id,
            "fence": push_lease.fence,
            "now": now,
            "call_id": call_id,
            "forgets_locations": forgets_locations,
            "locations": None if details is None else json.dumps(dict(details.locations)),
            "scopes": None if details is None else details.scopes and list(details.scopes),
            "forgets_channels": forgets_channels,
            "channels": None if channels is None else json.dumps(dict(channels.ids)),
            "missing_scopes": [] if channels is None else list(channels.missing_scopes),
            "skus": [push.change.sku for push in pushed],
            "rows": json.dumps([_columns(push) for push in pushed]),
            "events": json.dumps([fact for push in pushed for fact in _facts(push)]),
            "ends": json.dumps([{"id": i, "state": s, "result": r} for i, s, r in ends]),
            "narrows": json.dumps(changed),
            "keeps_lease": keeps_lease,
        }
        return self._first(SETTLE, values) == (1,)

    def disconnect(self, shop: Shop, reason: str, *, now: datetime) -> None:
        """Disconnect a shop that refuses our access, and notify its seller."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, shop.user_id)
            if connection.execute(LEAVE, {"id": shop.id}).rowcount:
                disconnect(connection, shop.account, reason, now=now)

    def forget(self, before: datetime) -> int:
        """Remove intents that are closed and were made before that instant; return how many."""
        return self._write(FORGET, {"before": before})

    def _common(self, now: datetime) -> dict[str, Any]:
        return {
            "now": now,
            "expired_before": now - CLOCKS_APART_MAX,
            "read_after": now - LOCATIONS_KEPT,
            "guard_move": self._guard_move,
            "oversell": self._oversell,
            "storefront": STOREFRONT,
        }


def _columns(push: Pushed) -> dict[str, Any]:
    """Return the result for one listing in the columns of push_settle.sql."""
    change, ids = push.change, push.ids
    return {
        "sku": change.sku,
        "shop_sku": change.shop_sku,
        "title": change.draft.title if change.draft else "",
        "version": change.desired_version,
        "applied": None if push.applied is None else dict(push.applied),
        "forgets_applied": push.forgets_applied,
        "product_id": ids and ids.product,
        "variant_id": ids and ids.variant,
        "item_id": ids and ids.item,
        "forgets_ids": push.forgets_ids,
        "handle": push.handle,
        "status": push.status,
        "former_status": push.former_status,
        "variants_count": push.variants_count,
        "shown": push.shown and dict(push.shown),
        "tracked": push.tracked,
        "inventory_policy": push.inventory_policy,
        "is_verified": push.is_verified,
        "retry_at": push.retry_at and push.retry_at.isoformat(),
        "failures": push.failures,
        "error": push.error,
        "suspicion": None if push.suspicion is None else dict(push.suspicion),
        "staging": push.staging,
        "held_reason": push.held_reason,
        "is_repriced": push.is_repriced,
        "desired": push.desired and dict(push.desired),
    }


def _facts(push: Pushed) -> list[dict[str, Any]]:
    """Return the events of one listing."""
    return [
        {
            "sku": push.change.sku,
            "kind": event.kind,
            "old": event.old and dict(event.old),
            "new": event.new and dict(event.new),
            "error": event.error,
            "code": event.code,
        }
        for event in push.events
    ]
