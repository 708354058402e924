"""Import products that a shop already has: a whole file in one transaction, in few statements.

Decides which rows collide with each other or with stored products; those are refused with their
line numbers. An existing part gets only the columns the file gives, and keeps its shop SKU.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from psycopg import Cursor, Rollback

from headway.core.catalog.intake import (
    COLUMNS,
    ImportResult,
    ImportRow,
    RefusedRow,
    ShopSkuForm,
    shop_sku,
)
from headway.core.catalog.listings import Priority, SellerId, Sku
from headway.core.dispatch import STOREFRONT
from headway.core.timetable.policies import Policy
from headway.store.catalog.listings import KNOWN_PARTS, LOCK, PART_KEY, enter_staged
from headway.store.pool import guarded
from headway.store.queries import Queries

MANY = 1000

STAGE = """
CREATE TEMPORARY TABLE arriving (
  line bigint, user_id text, sku text, shop_sku text, is_shop_sku_given boolean, title text,
  shopify_product_id text, shopify_variant_id text, shopify_inventory_item_id text,
  family text, weight double precision, sales double precision, margin double precision, tier text,
  channels text, value_weight double precision, is_revalued boolean
) ON COMMIT DROP
"""
KEEP_SHOP_SKUS = """
UPDATE arriving SET shop_sku = product.shop_sku FROM product
WHERE product.user_id = arriving.user_id AND product.sku = arriving.sku AND NOT is_shop_sku_given
"""
REFUSE = """
WITH refused AS (DELETE FROM arriving USING ({found}) AS found
                 WHERE arriving.line = found.line RETURNING arriving.*, found.reason)
SELECT line, reason, sku, user_id, CASE WHEN is_shop_sku_given THEN shop_sku END, title,
  shopify_product_id, shopify_variant_id, shopify_inventory_item_id,
  family, weight, sales, margin, tier, channels
FROM refused
"""
# In this order: a row that was refused already does not collide with others.
REFUSALS = (
    """
  SELECT line, 'sku: the part is in line ' || first || ' already' AS reason FROM (
    SELECT line, min(line) OVER (PARTITION BY user_id, sku) AS first FROM arriving) AS numbered
  WHERE line > first""",
    f"""
  SELECT line, 'sku: ' || sku || ' and ' || first || ' in line ' || first_line
    || ' differ only in case or spaces, so they are one part; give one of them' AS reason FROM (
    SELECT line, sku, first_value(sku) OVER same AS first, first_value(line) OVER same AS first_line
    FROM arriving WINDOW same AS (PARTITION BY user_id, {PART_KEY} ORDER BY line)) AS numbered
  WHERE line > first_line""",
    f"""
  SELECT line, 'sku: the part is listed as ' || min(known.sku) || ', which differs only in case or'
    || ' spaces; use that, or remove it first: headway remove' AS reason
  FROM arriving JOIN ({KNOWN_PARTS.format(of="user_id IN (SELECT user_id FROM arriving)")}) AS known
    ON known.user_id = arriving.user_id
    AND {PART_KEY.replace("sku", "known.sku")} = {PART_KEY.replace("sku", "arriving.sku")}
  GROUP BY line, arriving.sku HAVING NOT bool_or(known.sku = arriving.sku)""",
    """
  SELECT line, 'sku: the part was removed; bring it back first: headway revive' AS reason
  FROM arriving JOIN product_sync_schedule AS row USING (user_id, sku)
  WHERE row.removed_at IS NOT NULL""",
    """
  SELECT line, 'shop_sku: in the shop the part is ' || product.shop_sku
    || ', which an import does not change' AS reason
  FROM arriving JOIN product USING (user_id, sku) WHERE product.shop_sku <> arriving.shop_sku""",
    """
  SELECT line, 'shop_sku: ' || arriving.shop_sku || ' is the shop SKU of ' || min(owner.sku)
    AS reason
  FROM arriving JOIN (
    SELECT user_id, shop_sku, sku FROM product UNION ALL
    SELECT user_id, shop_sku, sku FROM product_staging WHERE status IN ('requested', 'normalized')
  ) AS owner USING (user_id, shop_sku)
  WHERE owner.sku <> arriving.sku GROUP BY line, arriving.shop_sku""",
    """
  SELECT line, 'shopify_variant_id: it is the variant of ' || min(product.sku) AS reason
  FROM arriving JOIN product USING (user_id, shopify_variant_id)
  WHERE product.sku <> arriving.sku AND NOT EXISTS (SELECT FROM arriving AS moving
    WHERE moving.user_id = product.user_id AND moving.sku = product.sku
      AND moving.shopify_variant_id <> product.shopify_variant_id)
  GROUP BY line""",
    """
  SELECT line, 'shopify_variant_id: ' || others || ' parts of this file have it' AS reason
  FROM (SELECT line, count(*) OVER (PARTITION BY user_id, shopify_variant_id) AS others
        FROM arriving WHERE shopify_variant_id IS NOT NULL) AS counted
  WHERE others > 1""",
    """
  SELECT line, 'shop_sku: ' || shop_sku || ' would be the shop SKU of ' || others
    || ' parts of this file' AS reason
  FROM (SELECT line, shop_sku, count(*) OVER (PARTITION BY user_id, shop_sku) AS others
        FROM arriving) AS counted
  WHERE others > 1""",
)
# Rows are locked in the order of their ids, and before any state is, as settle does. A listing
# that is being read stays leased: its settle keeps both as they are here.
REVALUE = """
WITH found AS (
  SELECT row.id, arriving.line, arriving.value_weight, arriving.family, arriving.channels
  FROM arriving JOIN product_sync_schedule AS row USING (user_id, sku)
  WHERE arriving.value_weight <> row.value_weight OR arriving.family <> coalesce(row.family, '')
    OR arriving.channels <> coalesce(row.channels, '')
  ORDER BY row.id FOR UPDATE OF row
), revalued AS (
  UPDATE product_sync_schedule AS row SET
    value_weight = coalesce(found.value_weight, row.value_weight),
    family = coalesce(found.family, row.family),
    channels = coalesce(found.channels, row.channels)
  FROM found WHERE row.id = found.id
  RETURNING found.line
)
UPDATE arriving SET is_revalued = true FROM revalued WHERE arriving.line = revalued.line
"""
HAS_OTHER_IDS = """
  (coalesce(arriving.shopify_product_id, product.shopify_product_id),
   coalesce(arriving.shopify_variant_id, product.shopify_variant_id),
   coalesce(arriving.shopify_inventory_item_id, product.shopify_inventory_item_id))
  IS DISTINCT FROM
  (product.shopify_product_id, product.shopify_variant_id, product.shopify_inventory_item_id)
"""
# A push in progress would settle what it did to another product. Its fence is taken, not its lease:
# until that has expired its call may still arrive.
END_VISITS = f"""
UPDATE connected_accounts SET push_fence = push_fence + 1
WHERE platform = '{STOREFRONT}' AND user_id IN (
  SELECT user_id FROM arriving JOIN product USING (user_id, sku) WHERE {HAS_OTHER_IDS})
"""
# What the shop confirmed was about another product: this one must be read and written again, and
# its price is not ours yet.
FORGET = f"""
UPDATE listing_state AS state SET applied = NULL, applied_at = NULL, applied_version = 0,
  verified_at = NULL, push_failures = 0, push_error = NULL, push_suspicion = NULL,
  push_at = CASE WHEN state.desired IS NULL THEN NULL ELSE %(now)s END
FROM arriving JOIN product USING (user_id, sku)
WHERE state.user_id = product.user_id AND state.sku = product.sku AND {HAS_OTHER_IDS}
"""
# Before anything is written: what each part was and will be, for those that change.
EVENTS = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
  created_at)
SELECT arriving.user_id, arriving.sku, %(now)s, 'part_imported', fact.old, fact.new, %(now)s
FROM arriving LEFT JOIN product USING (user_id, sku)
LEFT JOIN product_sync_schedule AS row USING (user_id, sku)
CROSS JOIN LATERAL (SELECT
  CASE WHEN product.sku IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
    'shop_sku', product.shop_sku, 'title', nullif(product.title, ''),
    'shopify_product_id', product.shopify_product_id,
    'shopify_variant_id', product.shopify_variant_id,
    'shopify_inventory_item_id', product.shopify_inventory_item_id,
    'family', row.family, 'channels', row.channels, 'value_weight', row.value_weight)) END AS old,
  jsonb_strip_nulls(jsonb_build_object(
    'shop_sku', arriving.shop_sku, 'title', coalesce(arriving.title, nullif(product.title, '')),
    'shopify_product_id', coalesce(arriving.shopify_product_id, product.shopify_product_id),
    'shopify_variant_id', coalesce(arriving.shopify_variant_id, product.shopify_variant_id),
    'shopify_inventory_item_id',
      coalesce(arriving.shopify_inventory_item_id, product.shopify_inventory_item_id),
    'family', coalesce(arriving.family, row.family),
    'channels', coalesce(arriving.channels, row.channels),
    'value_weight', coalesce(arriving.value_weight, row.value_weight))) AS new) AS fact
WHERE fact.old IS DISTINCT FROM fact.new
"""
# A row that was there before has an xmax: its old version was locked by this very statement.
WRITE = """
WITH written AS (
  INSERT INTO product AS row (user_id, sku, shop_sku, title, shopify_product_id,
    shopify_variant_id, shopify_inventory_item_id, created_at, updated_at)
  SELECT user_id, sku, shop_sku, coalesce(title, ''), shopify_product_id, shopify_variant_id,
    shopify_inventory_item_id, %(now)s, %(now)s
  FROM arriving ORDER BY user_id, sku
  ON CONFLICT (user_id, sku) DO UPDATE SET
    title = coalesce(nullif(excluded.title, ''), row.title),
    shopify_product_id = coalesce(excluded.shopify_product_id, row.shopify_product_id),
    shopify_variant_id = coalesce(excluded.shopify_variant_id, row.shopify_variant_id),
    shopify_inventory_item_id =
      coalesce(excluded.shopify_inventory_item_id, row.shopify_inventory_item_id),
    updated_at = excluded.updated_at
  WHERE coalesce(nullif(excluded.title, ''), row.title) <> row.title
     OR excluded.shopify_product_id <> coalesce(row.shopify_product_id, '')
     OR excluded.shopify_variant_id <> coalesce(row.shopify_variant_id, '')
     OR excluded.shopify_inventory_item_id <> coalesce(row.shopify_inventory_item_id, '')
  RETURNING user_id, sku, xmax = 0 AS is_new
)
SELECT count(*) FILTER (WHERE is_new),
  count(*) FILTER (WHERE NOT is_new) + (SELECT count(*) FROM arriving WHERE is_revalued
    AND NOT EXISTS (SELECT FROM written
                    WHERE written.user_id = arriving.user_id AND written.sku = arriving.sku)),
  (SELECT count(*) FROM arriving)
FROM written
"""
SELLERS = "SELECT DISTINCT user_id FROM arriving ORDER BY user_id"

UNSCHEDULED = """
FROM product WHERE (%(seller)s::text IS NULL OR user_id = %(seller)s)
  AND NOT EXISTS (SELECT FROM product_sync_schedule AS row
                  WHERE row.user_id = product.user_id AND row.sku = product.sku)
"""
COUNT_UNSCHEDULED = f"SELECT count(*) {UNSCHEDULED}"
SOME_UNSCHEDULED = f"""
SELECT user_id, sku {UNSCHEDULED} AND (user_id, sku) > (%(after_user)s, %(after_sku)s)
ORDER BY user_id, sku LIMIT %(limit)s
"""


class Products(Queries):
    """Rows of `product` that an import brings."""

    def take_in(
        self,
        rows: Iterable[ImportRow | RefusedRow],
        *,
        form: ShopSkuForm,
        policy: Policy,
        now: datetime,
        is_rehearsal: bool = False,
    ) -> ImportResult:
        """Add or complete products and give each a schedule row; a dry run changes nothing.

        All in one transaction, including the reading of the rows: if that raises, nothing is
        stored.
        """
        refused: list[RefusedRow] = []
        with guarded(), self._pool.connection() as connection, connection.transaction():
            cursor = connection.cursor()
            _stage(cursor, rows, refused, form=form)
            _refuse(cursor, refused)
            imported = _write(cursor, refused, policy=policy, now=now)
            if is_rehearsal:
                raise Rollback
        return imported

    def unscheduled_count(self, *, seller: SellerId | None = None) -> int:
        """Count the products that have no schedule row."""
        return int(self._one(COUNT_UNSCHEDULED, {"seller": seller})[0])

    def unscheduled(
        self, *, seller: SellerId | None = None, after: tuple[str, str] = ("", ""), limit: int
    ) -> list[tuple[SellerId, Sku]]:
        """Return the next products that have no schedule row, in order of seller and SKU."""
        user_id, sku = after
        values = {"seller": seller, "after_user": user_id, "after_sku": sku, "limit": limit}
        return self._rows(SOME_UNSCHEDULED, values)


def _stage(
    cursor: Cursor[tuple[Any, ...]],
    rows: Iterable[ImportRow | RefusedRow],
    refused: list[RefusedRow],
    *,
    form: ShopSkuForm,
) -> None:
    cursor.execute(STAGE)
    with cursor.copy("COPY arriving FROM STDIN") as copy:
        for row in rows:
            if isinstance(row, RefusedRow):
                refused.append(row)
                continue
            copy.write_row(
                (
                    row.line,
                    row.seller,
                    row.sku,
                    row.shop_sku or shop_sku(row.sku, form),
                    row.shop_sku is not None,
                    *(getattr(row, name) for name in COLUMNS[3:]),
                    row.value_weight,
                    None,
                )
            )


def _refuse(cursor: Cursor[tuple[Any, ...]], refused: list[RefusedRow]) -> None:
    """Remove staged rows that collide, and return the refusals with line numbers."""
    cursor.execute("ANALYZE arriving")
    cursor.execute(LOCK)
    cursor.execute(KEEP_SHOP_SKUS)
    for refusal in REFUSALS:
        for line, reason, *values in cursor.execute(REFUSE.format(found=refusal)).fetchall():
            columns = zip(COLUMNS, values, strict=True)
            cells = {name: "" if value is None else str(value) for name, value in columns}
            refused.append(RefusedRow(line=line, reason=reason, cells=cells))
    refused.sort(key=lambda part: part.line)


def _write(
    cursor: Cursor[tuple[Any, ...]], refused: list[RefusedRow], *, policy: Policy, now: datetime
) -> ImportResult:
    sellers = [user_id for (user_id,) in cursor.execute(SELLERS).fetchall()]
    cursor.execute(EVENTS, {"now": now})
    cursor.execute(REVALUE)
    cursor.execute(END_VISITS)
    cursor.execute(FORGET, {"now": now})
    row = cursor.execute(WRITE, {"now": now}).fetchone()
    assert row is not None, "a count always answers"
    added, updated, entering = row
    enter_staged(cursor, policy=policy, now=now, priority=Priority.SCHEDULED)
    if added > MANY:  # otherwise the first pushes use a plan for the old table size
        cursor.execute("ANALYZE product, product_sync_schedule")
    return ImportResult(
        added=added,
        updated=updated,
        unchanged=entering - added - updated,
        refused=refused,
        sellers=sellers,
    )
