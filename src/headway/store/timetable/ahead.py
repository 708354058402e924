"""The supplier queue for a forecast: the waiting listings, and when tokens expire."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.core.catalog.listings import MAIN, Evidence, LimitKey, Listing, Priority, SupplierName
from headway.store.pause_sql import SUPPLIER_PAUSED, is_unmarked
from headway.store.pool import Pool, guarded
from headway.store.timetable.schedule import EVIDENCE_COLUMNS

# A forecast reads no more than this many scheduled listings; other priorities have few.
SCHEDULED_MAX, OTHERS_MAX = 6000, 500
COLUMNS = (
    "id",
    "user_id",
    "sku",
    "priority",
    "fence",
    "next_sync_at",
    "hour_bucket",
    "minute_offset",
    "created_at",
    "last_successful_sync",
    "suspicion",
    "sync_priority",
    "value_weight",
    "family",
    "swept_from",
    *EVIDENCE_COLUMNS,
)
DEPTHS = {
    "manual": OTHERS_MAX,
    "onboarding": OTHERS_MAX,
    "scheduled": SCHEDULED_MAX,
    "retry": OTHERS_MAX,
}
# The same short range scans as those of the front, only longer.
QUEUE = "SELECT {columns} FROM ({priorities}) AS queue WHERE NOT {supplier}".format(
    columns=", ".join("id::text" if name == "id" else name for name in COLUMNS),
    priorities=" UNION ALL ".join(
        f"""
  (SELECT * FROM product_sync_schedule AS row WHERE is_active AND sync_status <> 'syncing'
     AND supplier = %(supplier)s AND priority = '{priority}'
     AND NOT row.is_paused AND NOT {is_unmarked("row")}
   ORDER BY next_sync_at LIMIT {depth})"""
        for priority, depth in DEPTHS.items()
    ),
    supplier=SUPPLIER_PAUSED,
)
EXPIRIES = "SELECT expires_at FROM credential WHERE credential_key = %(key)s ORDER BY expires_at"


class Ahead:
    """Reads for a forecast of one supplier's queue; nothing here locks or writes."""

    def __init__(self, pool: Pool, supplier: SupplierName = MAIN) -> None:
        self._pool = pool
        self._supplier = supplier

    def queue(self, now: datetime) -> list[Listing]:
        """Return the waiting listings, more than a call needs, with what a policy knows of each."""
        values = {"now": now, "supplier": self._supplier}
        with guarded(), self._pool.connection() as connection:
            return [_listing(row) for row in connection.execute(QUEUE, values).fetchall()]

    def token_ends(self, limit_key: LimitKey) -> tuple[datetime, ...]:
        """Return when each token expires."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(EXPIRIES, {"key": limit_key}).fetchall()
        return tuple(row[0] for row in rows)


def _listing(row: Sequence[Any]) -> Listing:
    values = dict(zip(COLUMNS, row, strict=True))
    evidence = Evidence(**{name: values.pop(name) for name in EVIDENCE_COLUMNS})
    return Listing(**{**values, "priority": Priority(values["priority"]), "evidence": evidence})
