"""List of suppliers for operators: their sellers, listings and calls.

Every figure is a range of an index, so that a page costs the same however many suppliers there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headway.core.catalog.listings import LimitKey, SupplierName
from headway.core.limits.breaker import Breaker
from headway.store import cursors
from headway.store.catalog.suppliers import COLUMNS, SupplierRow
from headway.store.limits.breakers import Breakers
from headway.store.pool import Lent, guarded
from headway.store.queries import Queries, read_as

DAY = timedelta(days=1)

SOME = f"""
SELECT {COLUMNS} FROM suppliers WHERE name > %(after)s AND removed_at IS NULL
ORDER BY name LIMIT %(limit)s
"""
# Failing listings are shown with their reasons, and do not count for the oldest read.
OLDEST = """LEFT JOIN LATERAL (
  SELECT last_successful_sync AS read_at FROM product_sync_schedule
  WHERE supplier = requested.name AND is_active AND sync_status <> 'syncing' AND NOT is_paused
    AND last_successful_sync IS NOT NULL AND consecutive_failures = 0
  ORDER BY last_successful_sync LIMIT 1
) AS oldest ON true"""
FIGURES = f"""
SELECT requested.name, coalesce(bought.sellers, 0) AS sellers,
  coalesce(bought.listings, 0)::bigint AS listings, calls.count AS calls,
  oldest.read_at AS oldest_read_at
FROM unnest(%(names)s::text[], %(limit_keys)s::text[]) AS requested(name, limit_key)
LEFT JOIN (
  SELECT supplier, count(*) AS sellers, sum(listing_count) AS listings FROM profiles
  WHERE supplier = ANY(%(names)s) GROUP BY supplier
) AS bought ON bought.supplier = requested.name
CROSS JOIN LATERAL (
  SELECT count(*) FROM call_ledger WHERE limit_key = requested.limit_key AND begun_at > %(day_ago)s
    AND begun_at <= %(now)s AND status <> 'unsent'
) AS calls
{OLDEST}
"""
WORST = f"""
SELECT requested.name
FROM unnest(%(names)s::text[], %(limit_keys)s::text[]) AS requested(name, limit_key)
LEFT JOIN breaker USING (limit_key) {OLDEST}
ORDER BY breaker.opened_at, oldest.read_at, requested.name LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierView:
    """A supplier with its sellers, listings and calls of the last 24 hours."""

    name: SupplierName
    """The supplier's name. Example: `east`"""
    client_id: str
    username: str
    url: str
    kind: str
    """The kind of supplier, as `headway providers` lists it; empty for the usual one.
    Example: `feed`
    """
    sellers: int
    """Sellers who buy from it."""
    listings: int
    """Listings in its queue."""
    calls: int
    """Calls in the last 24 hours."""
    breaker: Breaker
    """Its circuit breaker."""
    oldest_read_at: datetime | None
    """When the listing that was read longest ago was read; null if none was read."""

    @property
    def cursor(self) -> str:
        """The cursor of the page after this item."""
        return cursors.encode(self.name)


class SupplierQueries(Queries):
    """Queries on `suppliers`, their listings and their calls."""

    def rows(self, *, limit: int, after: str = "") -> list[SupplierRow]:
        """Return suppliers beside the settings', in the order of their names."""
        return self._read(SupplierRow, SOME, {"after": after, "limit": limit})

    def views(self, suppliers: Mapping[LimitKey, SupplierRow], now: datetime) -> list[SupplierView]:
        """Return the status of these suppliers by limit key, in the same order."""
        values = {
            "names": [supplier.name for supplier in suppliers.values()],
            "limit_keys": list(suppliers),
            "now": now,
            "day_ago": now - DAY,
        }
        with guarded(), self._pool.connection() as connection:
            rows: list[dict[str, Any]] = read_as(connection, dict, FIGURES, values)
            breakers = Breakers(Lent(connection)).load_all(list(suppliers))
        figures = {row["name"]: row for row in rows}
        return [
            SupplierView(
                client_id=row.client_id,
                username=row.username,
                url=row.url,
                kind=row.kind,
                breaker=breakers[limit_key],
                **figures[row.name],
            )
            for limit_key, row in suppliers.items()
        ]

    def worst(self, suppliers: Mapping[LimitKey, SupplierRow], *, limit: int) -> list[SupplierName]:
        """Return suppliers that do not answer, longest first, then those with the oldest reads."""
        names = [supplier.name for supplier in suppliers.values()]
        values = {"names": names, "limit_keys": list(suppliers), "limit": limit}
        return [name for (name,) in self._rows(WORST, values)]
