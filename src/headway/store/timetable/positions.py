"""Positions of listings: their rows, and how many SKUs go first, counted on the index."""

from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from headway.core.catalog.listings import MAIN, Priority, SellerId, Sku, SupplierName
from headway.core.pauses import Pause
from headway.core.reasons import ListingPosition
from headway.store.catalog.suppliers import Suppliers
from headway.store.pauses import standing
from headway.store.pool import Lent, Pool, guarded

AHEAD_MAX = 1000
NEIGHBOURS = 200
SMALL_CATALOG = 2000
PREFIX_LENGTH = 3

FIELDS = tuple(name for name in ListingPosition.__dataclass_fields__ if name != "pauses")

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
STANDING = f"""
SELECT me.id::text, me.user_id, me.sku, me.priority, me.next_sync_at, me.sync_status, me.is_active,
  me.lease_owner, me.lease_until, me.last_sync_at, me.last_successful_sync,
  me.consecutive_failures, me.suspicion, me.last_error, ahead.skus, ahead.rows > {AHEAD_MAX},
  state.held_reason, state.push_at, coalesce(state.push_failures, 0), state.push_error,
  state.applied_at, bulk.id IS NOT NULL, account.status, account.reason,
  me.changes_seen, me.watched_days, me.changed_at, me.value_weight, me.family, me.swept_from,
  me.is_paused
FROM ({{chosen}}) AS me
LEFT JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN connected_accounts AS account ON account.user_id = me.user_id
  AND account.platform = 'shopify'
LEFT JOIN push_intent AS bulk ON bulk.account_id = account.id AND bulk.state = 'open'
  AND bulk.kind = 'bulk' AND me.sku = ANY (bulk.skus)
CROSS JOIN LATERAL (SELECT count(DISTINCT sku) AS skus, count(*) AS rows FROM ({BRANCHES}
) AS before) AS ahead
ORDER BY me.sku, me.user_id
"""

OF_SKU = STANDING.format(
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
SAMPLE = STANDING.format(
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


class ListingPositions:
    """The rows of `product_sync_schedule`, as `headway explain` needs them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def of_sku(
        self, sku: Sku, now: datetime, *, seller: SellerId | None = None
    ) -> list[ListingPosition]:
        """Return every listing of this SKU, of one seller or of all."""
        return self._read(OF_SKU, {"sku": sku, "seller": seller, "now": now})

    def sample(
        self, now: datetime, *, supplier: SupplierName = MAIN, limit: int = 25
    ) -> list[ListingPosition]:
        """Return both ends of each queue of a supplier, what is being read, and what fails most."""
        return self._read(SAMPLE, {"now": now, "supplier": supplier, "limit": limit})

    def similar(self, sku: Sku, *, seller: SellerId | None = None, most: int = 3) -> list[Sku]:
        """Return SKUs similar to this one, among its neighbors and the first of all."""
        values = {
            "sku": sku,
            "seller": seller,
            "prefix": sku[:PREFIX_LENGTH],
            "small": SMALL_CATALOG,
            "around": NEIGHBOURS,
        }
        with guarded(), self._pool.connection() as connection:
            known = [row[0] for row in connection.execute(NEAR, values).fetchall()]
        by_folded = {sku.casefold(): sku for sku in known}
        close = get_close_matches(sku.casefold(), by_folded, n=most)
        return [Sku(by_folded[name]) for name in close]

    def _read(self, statement: str, values: dict[str, Any]) -> list[ListingPosition]:
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(statement, values).fetchall()
            pauses = standing(connection, values["now"], seller=values.get("seller"))
            bought = Suppliers(Lent(connection)).of_sellers({row[1] for row in rows})
        return [
            _standing(row, [pause for pause in pauses if pause.reaches(bought[row[1]])])
            for row in rows
        ]


def _standing(row: Sequence[Any], pauses: Sequence[Pause]) -> ListingPosition:
    values = dict(zip(FIELDS, row, strict=True))
    mine = tuple(pause for pause in pauses if pause.covers(values["user_id"], values["sku"]))
    return ListingPosition(**{**values, "priority": Priority(values["priority"]), "pauses": mine})
