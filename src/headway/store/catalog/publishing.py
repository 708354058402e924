"""Requests to publish parts: each part once, however often it is requested.

A part belongs to the batch that requested it last.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.catalog.intake import ImportedPart, ShopSkuForm, sku_of
from headway.core.catalog.listings import Priority, SellerId, Sku
from headway.core.catalog.publishing import (
    NAMED_MAX,
    REFUSED,
    PartStanding,
    refuse_removed,
    refuse_respelled,
    refuse_taken,
)
from headway.core.dispatch import STOREFRONT
from headway.core.timetable.policies import Policy
from headway.errors import ConflictError, InvalidError
from headway.store.catalog.listings import KNOWN_PARTS, LOCK, PART_KEY, enter
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

PARTS_MAX = 10_000
CONNECT = "connect a shop first: headway connect SHOP --seller {seller}"

Conn = Connection[tuple[Any, ...]]

SHOPS = f"""
SELECT user_id FROM connected_accounts WHERE platform = '{STOREFRONT}' AND status = 'connected'
ORDER BY user_id LIMIT %(limit)s
"""
SHOP = f"""
SELECT status, reason FROM connected_accounts WHERE platform = '{STOREFRONT}' AND user_id = %s
"""
# A part is in the shop if all its ids are known; an import may bring only some of them.
STANDINGS = """
SELECT requested.sku, product.shop_sku AS product_shop_sku,
  CASE WHEN num_nulls(shopify_variant_id, shopify_inventory_item_id) = 0
       THEN product.shopify_product_id END AS product_id,
  staging.shop_sku AS staged_shop_sku, staging.status AS staged_status
FROM unnest(%(skus)s::text[]) AS requested(sku)
LEFT JOIN product ON product.user_id = %(seller)s AND product.sku = requested.sku
LEFT JOIN product_staging AS staging
  ON staging.user_id = %(seller)s AND staging.sku = requested.sku
"""
# Parts that are listed under another spelling only, by the spelling that was asked for.
SPELLED = f"""
SELECT requested.sku, min(known.sku)
FROM unnest(%(skus)s::text[]) AS requested(sku)
JOIN ({KNOWN_PARTS.format(of="user_id = %(seller)s")}) AS known
  ON {PART_KEY.replace("sku", "known.sku")} = {PART_KEY.replace("sku", "requested.sku")}
GROUP BY requested.sku HAVING NOT bool_or(known.sku = requested.sku)
"""
REMOVED = """
SELECT sku FROM product_sync_schedule
WHERE user_id = %(seller)s AND sku = ANY(%(skus)s) AND removed_at IS NOT NULL
"""
OWNERS = """
SELECT shop_sku, sku FROM product
WHERE user_id = %(seller)s AND shop_sku = ANY(%(shop_skus)s)
UNION SELECT shop_sku, sku FROM product_staging
WHERE user_id = %(seller)s AND shop_sku = ANY(%(shop_skus)s)
  AND status IN ('requested', 'normalized')
"""
# A failed request is repeated, and gives its shop SKU to the part that has it now. A part that was
# blocked and has lost its shop SKU is not read any more.
CLEAR = """
WITH cleared AS (
  DELETE FROM product_staging
  WHERE user_id = %(seller)s AND status NOT IN ('requested', 'normalized')
    AND (sku = ANY(%(fresh)s) OR (shop_sku = ANY(%(shop_skus)s) AND sku <> ALL(%(skus)s)))
  RETURNING user_id, sku, status
), given_up AS (
  SELECT id FROM product_sync_schedule JOIN cleared USING (user_id, sku)
  WHERE status = 'blocked' AND sku <> ALL(%(skus)s) ORDER BY id FOR UPDATE OF product_sync_schedule
)
UPDATE product_sync_schedule AS row SET is_active = false, updated_at = %(now)s
FROM given_up WHERE row.id = given_up.id
"""
ASK = """
INSERT INTO product_staging AS row (user_id, sku, shop_sku, batch_id, status, shopify_product_id,
  created_at, updated_at)
SELECT %(seller)s, sku, shop_sku, %(batch_id)s::uuid, status, product_id, %(now)s, %(now)s
FROM unnest(%(skus)s::text[], %(shop_skus)s::text[], %(statuses)s::text[], %(ids)s::text[])
  AS requested(sku, shop_sku, status, product_id) ORDER BY sku
ON CONFLICT (user_id, sku) DO UPDATE SET batch_id = excluded.batch_id,
  status = CASE WHEN excluded.status IN ('created', 'published') THEN excluded.status
           ELSE row.status END,
  reason = CASE WHEN excluded.status IN ('created', 'published') THEN '' ELSE row.reason END
"""
# A part that is in the shop is read there, to confirm that it is visible.
CONFIRM = """
UPDATE listing_state SET push_at = %(now)s
WHERE user_id = %(seller)s AND sku = ANY(%(created)s) AND desired IS NOT NULL
  AND coalesce(push_at > %(now)s, true)
"""
# Listings that go first anyway are left alone. One that is being read keeps its lease, and is read
# once more: that call may have been sent before the request.
HURRY = """
WITH free AS (
  SELECT id, sync_status = 'parked' AS was_parked FROM product_sync_schedule
  WHERE user_id = %(seller)s AND sku = ANY(%(fresh)s)
    AND (sync_status = 'syncing' OR NOT (is_active AND priority IN ('manual', 'onboarding')))
  ORDER BY id FOR UPDATE SKIP LOCKED
), hurried AS (
  UPDATE product_sync_schedule AS row SET
    priority = 'onboarding', next_sync_at = %(now)s, is_active = true, updated_at = %(now)s,
    sync_status = CASE WHEN was_parked THEN 'pending' ELSE row.sync_status END,
    consecutive_failures = 0, missing_count = 0, suspicion = 0, last_error = NULL
  FROM free WHERE row.id = free.id
  RETURNING row.user_id, row.sku, was_parked
)
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, batch_id, created_at)
SELECT user_id, sku, %(now)s, 'listing_revived', %(batch_id)s::uuid, %(now)s
FROM hurried WHERE was_parked
"""

PARTS = """
WITH queue AS (
  SELECT id, row_number() OVER (PARTITION BY supplier
    ORDER BY priority = 'onboarding', next_sync_at, id) AS place
  FROM product_sync_schedule
  WHERE supplier = ANY(ARRAY(
      SELECT DISTINCT row.supplier FROM product_staging AS staging
      JOIN product_sync_schedule AS row USING (user_id, sku) WHERE {chosen}))
    AND is_active AND sync_status <> 'syncing' AND NOT is_paused
    AND priority IN ('manual', 'onboarding')
)
SELECT staging.sku, staging.shop_sku, staging.status,
  coalesce(CASE WHEN staging.status IN ('normalized', 'created')
                  THEN coalesce(held_reason, push_error)
                WHEN staging.status <> 'requested' THEN staging.reason
                WHEN row.sync_status = 'syncing' THEN 'is being read now'
                ELSE row.last_error END, '') AS reason,
  coalesce(product.shopify_product_id, staging.shopify_product_id) AS shopify_product_id,
  coalesce(staging.details -> 'left_out', '[]') AS left_out,
  CASE WHEN staging.status = 'requested' THEN queue.place END AS place,
  CASE WHEN staging.status = 'requested' AND row.sync_status <> 'syncing'
       THEN row.next_sync_at END AS due_at
FROM product_staging AS staging
LEFT JOIN product USING (user_id, sku)
LEFT JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN product_sync_schedule AS row USING (user_id, sku)
LEFT JOIN queue ON queue.id = row.id
WHERE {chosen} ORDER BY staging.sku
"""
OF_BATCH = PARTS.format(
    chosen="""staging.batch_id = %(batch_id)s::uuid
  AND (%(seller)s::text IS NULL OR staging.user_id = %(seller)s)"""
)
OF_SKUS = PARTS.format(chosen="staging.user_id = %(seller)s AND staging.sku = ANY(%(skus)s)")
# The settle of a read writes the raw replies.
FORGET = "DELETE FROM boeing_raw_data WHERE created_at < %(before)s"
OWNER = "SELECT user_id FROM product_staging WHERE batch_id = %s::uuid LIMIT 1"


class Publishing(Queries):
    """Rows of `product_staging`: requests to publish parts, and their results."""

    def forget(self, before: datetime) -> int:
        """Remove raw replies older than that instant; return how many."""
        return self._write(FORGET, {"before": before})

    def seller(self, named: SellerId | None) -> SellerId:
        """Return the seller of that name, or the only one who has a shop; raises RequestError."""
        if named is not None:
            return named
        rows = self._rows(SHOPS, {"limit": NAMED_MAX})
        match [user_id for (user_id,) in rows]:
            case []:
                raise ConflictError(f"no seller has a shop; {CONNECT.format(seller='NAME')}")
            case [only]:
                return SellerId(only)
            case several:
                raise InvalidError(f"name the seller (--seller): {', '.join(several)}")

    def request(
        self,
        user_id: SellerId,
        skus: Iterable[str],
        *,
        batch_id: str,
        form: ShopSkuForm,
        policy: Policy,
        now: datetime,
    ) -> list[ImportedPart]:
        """Request parts, in one transaction; return each part's status, in the order given.

        Raises InvalidError that shows a part number that cannot be one, and ConflictError if the
        seller has no shop; then nothing was done.
        """
        requested = _folded(skus)
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(LOCK)
            _require_shop(connection, user_id)
            parts = _judge(connection, user_id, requested, form)
            taken = [part for part in parts if part.status != REFUSED]
            fresh = [part.sku for part in taken if part.status == "requested"]
            created = [part.sku for part in taken if part.status == "created"]
            batch = {"batch_id": batch_id, "fresh": fresh, "created": created, "now": now}
            values = _columns(user_id, taken) | batch
            for statement in (CLEAR, ASK, CONFIRM):
                connection.execute(statement, values)
            connection.execute(HURRY, {**values, "fresh": [*fresh, *created]})
            keys = [(user_id, sku) for sku in fresh]
            enter(connection.cursor(), keys, policy=policy, now=now, priority=Priority.ONBOARDING)
            stored = {part.sku: part for part in read_as(connection, ImportedPart, OF_SKUS, values)}
        return [stored.get(part.sku, part) for part in parts]

    def owner(self, batch_id: str) -> SellerId | None:
        """Return the seller of a batch; None if it has no part."""
        row = self._first(OWNER, (batch_id,))
        return None if row is None else SellerId(row[0])

    def batch(self, batch_id: str, *, seller: SellerId | None = None) -> list[ImportedPart]:
        """Return the parts of a batch; none if there is no such batch, or not of this seller."""
        return self._read(ImportedPart, OF_BATCH, {"batch_id": batch_id, "seller": seller})

    def parts(self, user_id: SellerId, skus: Sequence[Sku]) -> list[ImportedPart]:
        """Return the status of these parts that were ever requested."""
        return self._read(ImportedPart, OF_SKUS, {"seller": user_id, "skus": list(skus)})


def _folded(skus: Iterable[str]) -> list[Sku]:
    requested = list(dict.fromkeys(sku_of(sku) for sku in skus))
    if not requested:
        raise InvalidError("no part number was given")
    if len(requested) > PARTS_MAX:
        raise InvalidError(f"{len(requested):,} parts at once; ask for at most {PARTS_MAX:,}")
    return requested


def _require_shop(connection: Conn, user_id: SellerId) -> None:
    row = connection.execute(SHOP, (user_id,)).fetchone()
    status, reason = row or ("", "")
    if status == "connected":
        return
    lacks = f"the shop of {user_id} is disconnected ({reason})" if row else f"{user_id} has no shop"
    raise ConflictError(f"{lacks}; {CONNECT.format(seller=user_id)}")


def _judge(
    connection: Conn, user_id: SellerId, skus: list[Sku], form: ShopSkuForm
) -> list[ImportedPart]:
    """Decide about each part: published, under way, to be requested, or refused."""
    spelled = connection.execute(SPELLED, {"seller": user_id, "skus": skus}).fetchall()
    standings = read_as(connection, PartStanding, STANDINGS, {"seller": user_id, "skus": skus})
    known = {standing.sku: standing.part(form) for standing in standings}
    values = _columns(user_id, [part for part in known.values() if part.status == "requested"])
    owners = connection.execute(OWNERS, values).fetchall()
    parts = refuse_respelled([known[sku] for sku in skus], dict(spelled))
    removed = {sku for (sku,) in connection.execute(REMOVED, {"seller": user_id, "skus": skus})}
    parts = refuse_removed(parts, removed)
    return refuse_taken(parts, owners)


def _columns(user_id: SellerId, parts: Sequence[ImportedPart]) -> dict[str, Any]:
    return {
        "seller": user_id,
        "skus": [part.sku for part in parts],
        "shop_skus": [part.shop_sku for part in parts],
        "statuses": [part.status for part in parts],
        "ids": [part.shopify_product_id for part in parts],
    }
