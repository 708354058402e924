"""The supplier queue for a forecast: the waiting listings, and when tokens expire."""

from datetime import datetime

from headway.core.catalog.listings import MAIN, LimitKey, Listing, SupplierName
from headway.store.pause_sql import SUPPLIER_PAUSED, is_unmarked
from headway.store.pool import Pool
from headway.store.queries import Queries
from headway.store.timetable.schedule import EVIDENCE_COLUMNS, read_listing

# A forecast reads no more than this many scheduled listings; other priorities have few.
SCHEDULED_MAX, OTHERS_MAX = 6000, 500
# The same short range scans as those of the front, only longer.
QUEUE = f"""
SELECT listing.id::text, user_id, sku, listing.priority, fence, next_sync_at, hour_bucket,
  minute_offset, created_at, last_successful_sync, suspicion, sync_priority, value_weight, family,
  swept_from, {", ".join(EVIDENCE_COLUMNS)}
FROM (VALUES ('manual', {OTHERS_MAX}), ('onboarding', {OTHERS_MAX}),
  ('scheduled', {SCHEDULED_MAX}), ('retry', {OTHERS_MAX})) AS queue(priority, depth)
CROSS JOIN LATERAL (
  SELECT * FROM product_sync_schedule AS row
  WHERE is_active AND sync_status <> 'syncing' AND supplier = %(supplier)s
    AND row.priority = queue.priority AND NOT row.is_paused AND NOT {is_unmarked("row")}
  ORDER BY next_sync_at LIMIT queue.depth) AS listing
WHERE NOT {SUPPLIER_PAUSED}
"""
EXPIRIES = "SELECT expires_at FROM credential WHERE credential_key = %(key)s ORDER BY expires_at"


class Ahead(Queries):
    """Reads for a forecast of one supplier's queue; nothing here locks or writes."""

    def __init__(self, pool: Pool, supplier: SupplierName = MAIN) -> None:
        super().__init__(pool)
        self._supplier = supplier

    def queue(self, now: datetime) -> list[Listing]:
        """Return the waiting listings, more than a call needs, with what a policy knows of each."""
        values = {"now": now, "supplier": self._supplier}
        return self._read(read_listing, QUEUE, values)

    def token_ends(self, limit_key: LimitKey) -> tuple[datetime, ...]:
        """Return when each token expires."""
        return tuple(at for (at,) in self._rows(EXPIRIES, {"key": limit_key}))
