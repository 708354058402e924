"""Positions of listings: their rows, and how many SKUs go first, counted on the index."""

from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from headway.core.catalog.listings import MAIN, SellerId, Sku, SupplierName
from headway.core.dispatch import STOREFRONT
from headway.core.pauses import Pause
from headway.core.reasons import ListingPosition
from headway.store.catalog.shop_waits import SHOP_WAITS
from headway.store.catalog.suppliers import Suppliers
from headway.store.pauses import active_pauses
from headway.store.pool import Lent, guarded
from headway.store.queries import Queries, read_as

AHEAD_MAX = 1000
NEIGHBORS = 200
SMALL_CATALOG = 2000
PREFIX_LENGTH = 3

# What goes before a row: every higher priority, and its own up to its due time. Retries come after
# the scheduled that are due, and before those that are not. Each branch is a bounded range scan.
BRANCH = """
  (SELECT sku FROM product_sync_schedule AS other
   WHERE supplier = me.supplier AND is_active AND sync_status <> 'syncing' AND NOT is_paused
     AND priority = '{priority}' AND sku <> me.sku
     AND next_sync_at <= {bound}
     AND (me.priority <> '{priority}' OR (other.next_sync_at, other.id) < (me.next_sync_at, me.id))
   ORDER BY next_sync_at LIMIT {limit})"""
BOUNDS = {
    "manual": "CASE me.priority WHEN 'manual' THEN me.next_sync_at ELSE 'infinity' END",
    "onboarding": "CASE me.priority WHEN 'manual' THEN '-infinity'"
    " WHEN 'onboarding' THEN me.next_sync_at ELSE 'infinity' END",
    "scheduled": "CASE me.priority WHEN 'scheduled' THEN me.next_sync_at"
    " WHEN 'retry' THEN %(now)s ELSE '-infinity' END",
    "retry": "CASE WHEN me.priority = 'retry' THEN me.next_sync_at"
    " WHEN me.priority = 'scheduled' AND me.next_sync_at > %(now)s THEN %(now)s"
    " ELSE '-infinity' END",
}
BRANCHES = "\n  UNION ALL".join(
    BRANCH.format(priority=priority, bound=bound, limit=AHEAD_MAX + 1)
    for priority, bound in BOUNDS.items()
)
POSITIONS = f"""
SELECT me.id::text, me.user_id, me.sku, me.priority, me.next_sync_at, me.sync_status, me.is_active,
  me.removed_at,
  me.lease_owner, me.lease_until, me.last_sync_at, me.last_successful_sync,
  me.consecutive_failures, me.suspicion, me.last_error, ahead.skus AS ahead_count,
  ahead.rows > {AHEAD_MAX} AS has_more, state.held_reason, state.push_at,
  coalesce(state.desired -> 'quantities' <> CASE WHEN state.proposed IS NOT NULL
    THEN state.proposed -> 'quantities'
    WHEN state.desired ? 'pack' THEN state.desired -> 'quantities'
    ELSE state.observed -> 'quantities' END, false) AS holds_stock,
  state.desired IS NULL AND state.rejected IS NOT NULL AS is_rejected,
  (SELECT coalesce(sum(value::numeric), 0)::int FROM jsonb_each_text(state.desired -> 'quantities')
   WHERE NOT account.locations ? key) AS unsold_count,
  coalesce(state.push_failures, 0) AS push_failures, state.push_error, state.applied_at,
  bulk.id IS NOT NULL AS is_in_bulk, account.status AS shop_status, account.reason AS shop_reason,
  wait.until AS shop_wait_until, wait.reason AS shop_wait_reason,
  account.id IS NOT NULL AND account.push_started_at IS NULL AS is_shop_in_rehearsal,
  me.changes_seen, me.watched_days, me.changed_at, me.value_weight, me.family, me.swept_from,
  me.is_paused
FROM ({{chosen}}) AS me
LEFT JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN connected_accounts AS account ON account.user_id = me.user_id
  AND account.platform = '{STOREFRONT}'
LEFT JOIN ({SHOP_WAITS} ORDER BY user_id, until DESC) AS wait ON wait.user_id = me.user_id
LEFT JOIN push_intent AS bulk ON bulk.account_id = account.id AND bulk.state = 'open'
  AND bulk.kind = 'bulk' AND me.sku = ANY (bulk.skus)
CROSS JOIN LATERAL (SELECT count(DISTINCT sku) AS skus, count(*) AS rows FROM ({BRANCHES}
) AS before) AS ahead
ORDER BY me.sku, me.user_id
"""

OF_SKU = POSITIONS.format(
    chosen="""SELECT * FROM product_sync_schedule WHERE sku = %(sku)s
  AND (%(seller)s::text IS NULL OR user_id = %(seller)s)"""
)
ENDS = "\n  UNION ALL ".join(
    f"(SELECT * FROM product_sync_schedule WHERE supplier = %(supplier)s AND is_active"
    f" AND sync_status <> 'syncing' AND NOT is_paused AND priority = '{priority}'"
    f" ORDER BY next_sync_at {order} LIMIT %(limit)s)"
    for priority in BOUNDS
    for order in ("ASC", "DESC")
)
SAMPLE = POSITIONS.format(
    chosen=f"""SELECT DISTINCT ON (id) * FROM ({ENDS}
  UNION ALL (SELECT * FROM product_sync_schedule WHERE supplier = %(supplier)s
             AND sync_status = 'syncing' LIMIT %(limit)s)
  UNION ALL (SELECT * FROM product_sync_schedule WHERE supplier = %(supplier)s AND is_paused
             LIMIT %(limit)s)
  UNION ALL (SELECT * FROM product_sync_schedule WHERE supplier = %(supplier)s
             AND consecutive_failures > 0
             ORDER BY consecutive_failures DESC LIMIT %(limit)s)) AS ends"""
)

OF_SELLER = "(%(seller)s::text IS NULL OR user_id = %(seller)s)"
NEAR = f"""
(SELECT DISTINCT sku FROM product_sync_schedule WHERE {OF_SELLER} ORDER BY sku LIMIT %(small)s)
UNION
(SELECT sku FROM product_sync_schedule WHERE sku >= %(prefix)s AND {OF_SELLER}
 ORDER BY sku LIMIT %(around)s)
UNION
(SELECT sku FROM product_sync_schedule WHERE sku >= %(sku)s AND {OF_SELLER}
 ORDER BY sku LIMIT %(around)s)
UNION
(SELECT sku FROM product_sync_schedule WHERE sku < %(sku)s AND {OF_SELLER}
 ORDER BY sku DESC LIMIT %(around)s)
"""


class ListingPositions(Queries):
    """The rows of `product_sync_schedule`, as `headway explain` needs them."""

    def of_sku(
        self, sku: Sku, now: datetime, *, seller: SellerId | None = None
    ) -> list[ListingPosition]:
        """Return every listing of this SKU, of one seller or of all."""
        return self._positions(OF_SKU, {"sku": sku, "seller": seller, "now": now})

    def sample(
        self, now: datetime, *, supplier: SupplierName = MAIN, limit: int = 25
    ) -> list[ListingPosition]:
        """Return both ends of each queue of a supplier, what is being read, and what fails most."""
        return self._positions(SAMPLE, {"now": now, "supplier": supplier, "limit": limit})

    def similar(self, sku: Sku, *, seller: SellerId | None = None, most: int = 3) -> list[Sku]:
        """Return SKUs similar to this one, among its neighbors and the first of all."""
        values = {
            "sku": sku,
            "seller": seller,
            "prefix": sku[:PREFIX_LENGTH],
            "small": SMALL_CATALOG,
            "around": NEIGHBORS,
        }
        by_folded = {sku.casefold(): sku for (sku,) in self._rows(NEAR, values)}
        close = get_close_matches(sku.casefold(), by_folded, n=most)
        return [Sku(by_folded[name]) for name in close]

    def _positions(self, statement: str, values: dict[str, Any]) -> list[ListingPosition]:
        with guarded(), self._pool.connection() as connection:
            rows = read_as(connection, ListingPosition, statement, values)
            pauses = active_pauses(connection, values["now"], seller=values.get("seller"))
            bought = Suppliers(Lent(connection)).of_sellers({row.user_id for row in rows})

        def stops(pause: Pause, row: ListingPosition) -> bool:
            return pause.reaches(bought[row.user_id]) and pause.covers(row.user_id, row.sku)

        return [
            replace(row, pauses=tuple(pause for pause in pauses if stops(pause, row)))
            for row in rows
        ]
