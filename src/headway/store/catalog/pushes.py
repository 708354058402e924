"""What is to be written to the shops: due shops, one leased visit at a time, intents, the settle.

A visit ends by its fence: whatever a late pusher reports is refused as a whole, and whoever comes
after it finds its open intents.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from headway.core.accounts.jobs import Account, PlatformName
from headway.core.catalog.listings import CLOCKS_APART_MAX, Sku
from headway.core.catalog.storefront import (
    BulkProgress,
    Change,
    Gid,
    Intent,
    Pushed,
    PushLease,
    Shop,
    WriteKind,
)
from headway.core.dispatch import STOREFRONT, Verb
from headway.store.accounts.connections import disconnect
from headway.store.accounts.job_rows import lock_seller
from headway.store.catalog.bulk import OPEN_BULK, plain_progress, read_bulk
from headway.store.catalog.changes import CHANGES, read_changes
from headway.store.dispatch import is_resting
from headway.store.pause_sql import ALL_PAUSED, is_listing_paused, is_seller_paused
from headway.store.pool import Pool, guarded

LOCATIONS_KEPT = timedelta(days=1)
# A patrol takes half of what the smallest bucket restores, and leaves the rest to pushes.
DRIFT_CHECK_EVERY = timedelta(seconds=8)

SHOP_COLUMNS = """
  account.id::text, account.user_id, account.shop,
  CASE WHEN account.locations_at > %(told_after)s THEN account.locations END,
  coalesce(profile.guard_move, %(guard_move)s)
"""
OPEN_TO_US = f"""account.platform = 'shopify' AND account.status = 'connected'
  AND (account.push_lease_until IS NULL OR account.push_lease_until < %(silent)s)
  AND NOT {ALL_PAUSED} AND NOT {is_seller_paused("account")}"""
# Which shops are looked at: all, one, or those for which no worker was asked to come.
ALL_SHOPS, ONE_SHOP = "true", "account.id = %(only)s::uuid"
IDLE_SHOPS = "NOT " + is_resting(Verb.PUSH, f"'{STOREFRONT}:' || account.id")
# One probe of one index per shop, whatever the number of listings; past those that are paused.
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
  AND (least(first.push_at, bulk.poll_at) <= %(now)s OR account.locations IS NULL)
ORDER BY least(first.push_at, bulk.poll_at) NULLS FIRST, account.id LIMIT %(limit)s
"""
DRIFT_CHECK_SHOPS = f"""
SELECT {SHOP_COLUMNS}
FROM connected_accounts AS account LEFT JOIN profiles AS profile USING (user_id)
CROSS JOIN LATERAL (
  SELECT verified_at FROM listing_state AS state
  WHERE user_id = account.user_id AND applied IS NOT NULL AND NOT {is_listing_paused("state")}
  ORDER BY verified_at NULLS FIRST LIMIT 1) AS oldest
WHERE {OPEN_TO_US} AND {{which}}
  AND coalesce(account.drift_check_at, '-infinity') <= %(now)s
  AND coalesce(oldest.verified_at, '-infinity') < %(before)s
  AND account.id::text <> ALL (%(due)s)
ORDER BY account.drift_check_at NULLS FIRST, account.id LIMIT %(limit)s
"""
LEASE = f"""
WITH taken AS (
  UPDATE connected_accounts AS account SET push_fence = push_fence + 1, push_owner = %(owner)s,
    push_lease_until = %(lease_until)s, updated_at = %(now)s
  WHERE id = %(id)s AND {OPEN_TO_US}
  RETURNING *)
SELECT {SHOP_COLUMNS}, account.push_fence, account.drift_check_at
FROM taken AS account LEFT JOIN profiles AS profile USING (user_id)
"""
OPEN = """
SELECT id::text, kind, skus FROM push_intent
WHERE account_id = %(id)s AND state = 'open' AND kind <> 'bulk' ORDER BY created_at, id
"""
# What is unsure is left alone until it is read back, and that waits for stragglers to arrive.
DUE = (
    CHANGES
    + f"""AND state.push_at <= %(now)s AND state.sku <> ALL (%(skus)s)
  AND NOT {is_listing_paused("state")}
ORDER BY state.push_at, state.sku LIMIT %(limit)s"""
)
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
UNSEEN = (
    CHANGES
    + f"""AND state.applied IS NOT NULL AND product.shopify_variant_id IS NOT NULL
  AND coalesce(state.verified_at, '-infinity') < %(before)s AND state.sku <> ALL (%(in_bulk)s)
  AND NOT {is_listing_paused("state")}
ORDER BY state.verified_at NULLS FIRST, state.sku LIMIT %(limit)s"""
)
DRIFT_CHECKS = "UPDATE connected_accounts SET drift_check_at = %(next)s WHERE id = %(id)s"

INTEND = """
INSERT INTO push_intent (id, account_id, user_id, kind, fence, skus, writes, created_at)
SELECT %(intent)s, id, user_id, %(kind)s, push_fence, %(skus)s, %(writes)s::jsonb, %(now)s
FROM connected_accounts WHERE id = %(id)s AND push_fence = %(fence)s AND push_owner IS NOT NULL
"""

# One statement, so one transaction and one trip: what the fence refuses writes nothing at all. Rows
# are locked in the order of their keys, as a read's settle, a person and an import do. A
# revived part that has its status back is the merchant's own again: we no longer ask for one.
SETTLE = """
WITH ours AS (
  UPDATE connected_accounts SET
    push_owner = CASE WHEN %(keeps_lease)s THEN push_owner END,
    push_lease_until = CASE WHEN %(keeps_lease)s THEN push_lease_until END,
    locations = coalesce(%(locations)s::jsonb, locations),
    locations_at = CASE WHEN %(forgets_locations)s THEN NULL
      WHEN %(locations)s::jsonb IS NULL THEN locations_at ELSE %(now)s END,
    updated_at = %(now)s
  WHERE id = %(id)s AND push_fence = %(fence)s AND push_owner IS NOT NULL
  RETURNING user_id
), new AS (
  SELECT ours.user_id, told.*, (
    -- A shop may show more than the documents' column holds.
    SELECT greatest(least(sum(value::bigint), 2147483647), -2147483648)::int
    FROM jsonb_each_text(told.applied -> 'quantities')) AS stock
  FROM ours, jsonb_to_recordset(%(rows)s::jsonb) AS told(
    sku text, shop_sku text, title text, version bigint, applied jsonb, forgets_applied boolean,
    product_id text, variant_id text, item_id text, forgets_ids boolean, handle text,
    status text, former_status text, variants_count int, is_verified boolean,
    retry_at timestamptz, failures int, error text, staging text, held_reason text, desired jsonb)
), listed AS (
  SELECT user_id, sku FROM listing_state AS row JOIN new USING (user_id, sku)
  WHERE row.sku = ANY (%(skus)s) ORDER BY user_id, sku FOR UPDATE OF row
), stocked AS (
  SELECT user_id, sku FROM product AS row JOIN new USING (user_id, sku)
  WHERE row.sku = ANY (%(skus)s) ORDER BY user_id, sku FOR UPDATE OF row
), states AS (
  UPDATE listing_state AS row SET
    applied = CASE WHEN new.forgets_applied THEN NULL
      WHEN new.applied = row.desired AND row.desired ->> 'status' <> 'DRAFT'
        THEN new.applied - 'status'
      ELSE coalesce(new.applied, row.applied) END,
    applied_at = CASE WHEN new.applied IS NULL THEN row.applied_at ELSE %(now)s END,
    applied_version = CASE WHEN new.applied = row.desired THEN row.desired_version
                           ELSE row.applied_version END,
    push_at = CASE
      WHEN new.applied = row.desired THEN NULL
      WHEN new.retry_at IS NOT NULL AND row.desired_version = new.version THEN new.retry_at
      WHEN new.applied IS NULL AND NOT new.forgets_applied THEN row.push_at
      -- Half done, it keeps its place: what it still lacks travels with what others lack.
      ELSE least(row.push_at, %(now)s) END,
    push_failures = new.failures, push_error = nullif(new.error, ''),
    verified_at = CASE WHEN new.is_verified THEN %(now)s ELSE row.verified_at END,
    held_reason = coalesce(new.held_reason, row.held_reason),
    held_at = CASE WHEN new.held_reason IS NULL THEN row.held_at ELSE %(now)s END,
    proposed = CASE WHEN new.held_reason IS NULL THEN row.proposed ELSE row.desired END,
    desired = CASE WHEN new.held_reason IS NOT NULL THEN new.desired
      WHEN new.applied = row.desired AND row.desired ->> 'status' <> 'DRAFT'
        THEN row.desired - 'status'
      ELSE row.desired END,
    desired_version = row.desired_version + CASE WHEN new.held_reason IS NULL THEN 0 ELSE 1 END
  FROM new JOIN listed USING (user_id, sku)
  WHERE row.user_id = new.user_id AND row.sku = ANY (%(skus)s) AND row.sku = new.sku
    AND (new.held_reason IS NULL OR row.desired_version = new.version)
), added AS (
  INSERT INTO product AS row (user_id, sku, shop_sku, title, shopify_product_id,
    shopify_variant_id, shopify_inventory_item_id, shopify_handle, status, former_status,
    variants_count, price, cost_per_item, currency, inventory_quantity, created_at, updated_at)
  SELECT user_id, sku, shop_sku, title, product_id, variant_id, item_id, handle, status,
    former_status, variants_count, (applied ->> 'price')::numeric, (applied ->> 'cost')::numeric,
    applied ->> 'currency', stock, %(now)s, %(now)s
  FROM new LEFT JOIN stocked USING (user_id, sku) WHERE variant_id IS NOT NULL
  ORDER BY user_id, sku
  ON CONFLICT (user_id, sku) DO UPDATE SET
    shopify_product_id = excluded.shopify_product_id,
    shopify_variant_id = excluded.shopify_variant_id,
    shopify_inventory_item_id = excluded.shopify_inventory_item_id,
    shopify_handle = coalesce(excluded.shopify_handle, row.shopify_handle),
    status = coalesce(excluded.status, row.status),
    former_status = coalesce(excluded.former_status, row.former_status),
    variants_count = coalesce(excluded.variants_count, row.variants_count),
    price = excluded.price, cost_per_item = excluded.cost_per_item,
    currency = excluded.currency, inventory_quantity = excluded.inventory_quantity,
    updated_at = %(now)s
), kept AS (
  UPDATE product AS row SET
    shopify_product_id = CASE WHEN new.forgets_ids THEN NULL ELSE row.shopify_product_id END,
    shopify_variant_id = CASE WHEN new.forgets_ids THEN NULL ELSE row.shopify_variant_id END,
    shopify_inventory_item_id =
      CASE WHEN new.forgets_ids THEN NULL ELSE row.shopify_inventory_item_id END,
    status = coalesce(new.status, row.status),
    former_status = coalesce(new.former_status, row.former_status),
    price = coalesce((new.applied ->> 'price')::numeric, row.price),
    cost_per_item = coalesce((new.applied ->> 'cost')::numeric, row.cost_per_item),
    currency = coalesce(new.applied ->> 'currency', row.currency),
    inventory_quantity = coalesce(new.stock, row.inventory_quantity),
    updated_at = %(now)s
  FROM new JOIN stocked USING (user_id, sku)
  WHERE row.user_id = new.user_id AND row.sku = ANY (%(skus)s) AND row.sku = new.sku
    AND new.variant_id IS NULL
    AND (new.applied IS NOT NULL OR new.forgets_ids OR new.status IS NOT NULL)
), staged AS (
  UPDATE product_staging AS row SET status = new.staging, reason = new.error,
    shopify_product_id = coalesce(new.product_id, row.shopify_product_id), updated_at = %(now)s
  FROM new WHERE row.user_id = new.user_id AND row.sku = new.sku AND new.staging IS NOT NULL
), intents AS (
  UPDATE push_intent AS row SET state = told.state, result = told.result, closed_at = %(now)s
  FROM ours, jsonb_to_recordset(%(ends)s::jsonb) AS told(id uuid, state text, result text)
  WHERE row.id = told.id AND row.state = 'open'
), narrowed AS (
  UPDATE push_intent AS row SET
    skus = CASE WHEN told.skus IS NULL THEN row.skus
                ELSE ARRAY(SELECT jsonb_array_elements_text(told.skus)) END,
    kind = coalesce(told.kind, row.kind), progress = coalesce(told.progress, row.progress)
  FROM ours, jsonb_to_recordset(%(narrows)s::jsonb)
    AS told(id uuid, skus jsonb, kind text, progress jsonb)
  WHERE row.id = told.id AND row.state = 'open'
), events AS (
  INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
    error_message, batch_id, created_at)
  SELECT ours.user_id, told.sku, %(now)s, told.kind, told.old, told.new, told.error,
    %(call_id)s::uuid, %(now)s
  FROM ours, jsonb_to_recordset(%(events)s::jsonb) AS told(
    sku text, kind text, old jsonb, new jsonb, error text)
)
SELECT count(*) FROM ours
"""

LEAVE = """
UPDATE connected_accounts SET push_owner = NULL, push_lease_until = NULL,
  push_fence = push_fence + 1
WHERE id = %(id)s AND status = 'connected'
"""
FORGET = "DELETE FROM push_intent WHERE created_at < %(before)s AND state <> 'open'"


class Pushes:
    """`listing_state`, `product` and `push_intent` behind the engine's port."""

    def __init__(self, pool: Pool, *, guard_move: Decimal) -> None:
        self._pool = pool
        self._guard_move = guard_move

    def due_shops(
        self,
        now: datetime,
        *,
        verified_before: datetime | None,
        limit: int,
        only: str | None = None,
    ) -> list[Shop]:
        """Return shops that nobody is at: with changes due, then with listings to verify."""
        which = ALL_SHOPS if only is None else ONE_SHOP
        values = {**self._common(now), "limit": limit, "before": verified_before, "only": only}
        return self._due(which, values)

    def idle_shops(
        self, now: datetime, *, verified_before: datetime | None, limit: int
    ) -> list[Shop]:
        """Return those of the due shops for which no worker was asked to come."""
        values = {**self._common(now), "limit": limit, "before": verified_before}
        return self._due(IDLE_SHOPS, values)

    def _due(self, which: str, values: dict[str, Any]) -> list[Shop]:
        limit = values["limit"]
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(DUE_SHOPS.format(which=which), values).fetchall()
            if len(rows) < limit and values["before"] is not None:
                due = [id_ for id_, *_ in rows]
                others = {**values, "due": due, "limit": limit - len(rows)}
                rows += connection.execute(DRIFT_CHECK_SHOPS.format(which=which), others).fetchall()
        return [_shop(row) for row in rows]

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
            taken = connection.execute(LEASE, values).fetchone()
            if taken is None:
                return None
            *columns, fence, drift_check_at = taken
            leased = _shop(columns)
            values["user_id"] = leased.user_id
            bulk = read_bulk(connection.execute(OPEN_BULK, values).fetchone())
            unsure = [_intent(row) for row in connection.execute(OPEN, values)]
            drift_check: list[Change] = []
            values["skus"] = sorted({sku for each in unsure for sku in each.skus})
            changes = read_changes(connection, UNSURE, values) if unsure else []
            if not changes and (
                not unsure or connection.execute(ARE_LISTED, values).fetchone() == (True,)
            ):
                unsure = []
                changes = read_changes(connection, DUE, values)
            may_drift_check = verified_before is not None and (
                drift_check_at is None or drift_check_at <= now
            )
            if not unsure and not changes and may_drift_check:
                values["in_bulk"] = list(bulk.skus) if bulk else []
                drift_check = read_changes(connection, UNSEEN, values)
                connection.execute(DRIFT_CHECKS, {"id": shop.id, "next": now + DRIFT_CHECK_EVERY})
        return PushLease(
            shop=leased,
            fence=fence,
            changes=changes,
            open=unsure,
            drift_check=drift_check,
            bulk=bulk,
        )

    def intend(self, push_lease: PushLease, intent: Intent, *, now: datetime) -> bool:
        """Store an intent before it is sent; False if the errand is no longer ours."""
        values = {
            "intent": intent.id,
            "kind": intent.kind.value,
            "skus": list(intent.skus),
            "writes": json.dumps(list(intent.writes)),
            "id": push_lease.shop.id,
            "fence": push_lease.fence,
            "now": now,
        }
        with guarded(), self._pool.connection() as connection:
            return connection.execute(INTEND, values).rowcount == 1

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
        locations: Mapping[str, Gid] | None = None,
        forgets_locations: bool = False,
        call_id: str | None = None,
        keeps_lease: bool = False,
        now: datetime,
    ) -> bool:
        """Write what a visit came to and end the lease; False if it is no longer ours."""
        told: list[dict[str, Any]] = []
        told += [{"id": id_, "skus": list(skus)} for id_, skus in (narrows or {}).items()]
        told += [
            {"id": id_, "skus": list(skus), "kind": WriteKind.PRICE}
            for id_, skus in (unbulks or {}).items()
        ]
        told += [{"id": id_, "progress": plain_progress(p)} for id_, p in (progress or {}).items()]
        ends = [(id_, "done", result) for id_, result in (closes or {}).items()]
        ends += [(id_, "void", result) for id_, result in (voids or {}).items()]
        values = {
            "id": push_lease.shop.id,
            "fence": push_lease.fence,
            "now": now,
            "call_id": call_id,
            "forgets_locations": forgets_locations,
            "locations": None if locations is None else json.dumps(dict(locations)),
            "skus": [each.change.sku for each in pushed],
            "rows": json.dumps([_told(each) for each in pushed]),
            "events": json.dumps([fact for each in pushed for fact in _facts(each)]),
            "ends": json.dumps([{"id": i, "state": s, "result": r} for i, s, r in ends]),
            "narrows": json.dumps(told),
            "keeps_lease": keeps_lease,
        }
        with guarded(), self._pool.connection() as connection:
            found = connection.execute(SETTLE, values).fetchone()
        return found == (1,)

    def disconnect(self, shop: Shop, reason: str, *, now: datetime) -> None:
        """Stop visiting a shop whose grant is refused, and tell its seller why."""
        account = Account(
            id=shop.id, user_id=shop.user_id, platform=PlatformName.SHOPIFY, shop=shop.domain
        )
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, shop.user_id)
            if connection.execute(LEAVE, {"id": shop.id}).rowcount:
                disconnect(connection, account, reason, now=now)

    def forget(self, before: datetime) -> int:
        """Remove intents that are closed and were made before that instant; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FORGET, {"before": before}).rowcount

    def _common(self, now: datetime) -> dict[str, Any]:
        return {
            "now": now,
            "silent": now - CLOCKS_APART_MAX,
            "told_after": now - LOCATIONS_KEPT,
            "guard_move": self._guard_move,
        }


def _shop(row: Sequence[Any]) -> Shop:
    id_, user_id, domain, locations, guard_move = row
    return Shop(id=id_, user_id=user_id, domain=domain, locations=locations, guard_move=guard_move)


def _intent(row: Sequence[Any]) -> Intent:
    id_, kind, skus = row
    return Intent(id=id_, kind=WriteKind(kind), skus=skus)


def _told(each: Pushed) -> dict[str, Any]:
    """Return what is to be written about one listing, in the columns that the statement names."""
    change, ids = each.change, each.ids
    return {
        "sku": change.sku,
        "shop_sku": change.shop_sku,
        "title": change.draft.title if change.draft else "",
        "version": change.desired_version,
        "applied": None if each.applied is None else dict(each.applied),
        "forgets_applied": each.forgets_applied,
        "product_id": ids and ids.product,
        "variant_id": ids and ids.variant,
        "item_id": ids and ids.item,
        "forgets_ids": each.forgets_ids,
        "handle": each.handle,
        "status": each.status,
        "former_status": each.former_status,
        "variants_count": each.variants_count,
        "is_verified": each.is_verified,
        "retry_at": each.retry_at and each.retry_at.isoformat(),
        "failures": each.failures,
        "error": each.error,
        "staging": each.staging,
        "held_reason": each.held_reason,
        "desired": each.desired and dict(each.desired),
    }


def _facts(each: Pushed) -> list[dict[str, Any]]:
    """Return the events of one listing."""
    return [
        {
            "sku": each.change.sku,
            "kind": event.kind,
            "old": event.old and dict(event.old),
            "new": event.new and dict(event.new),
            "error": event.error,
        }
        for event in each.events
    ]
