"""Add new listings to the schedule: many at once, none twice, each with a valid SKU."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, LiteralString

from psycopg import Cursor

from headway.core.catalog.intake import seller_of, sku_of
from headway.core.catalog.listings import MAIN, Priority, SellerId, Sku, SupplierName
from headway.core.timetable.policies import CatalogSummary, Policy
from headway.core.timetable.policies.policy import EMPTY, HOURS
from headway.core.timetable.seats import URGENT
from headway.store.pause_sql import is_listing_paused, is_seller_paused
from headway.store.pool import guarded
from headway.store.queries import Queries

# One file, or one request to publish, at a time: the owner of a shop SKU must not change meanwhile,
# nor how many listings an hour holds.
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('headway intake', 0))"

# Part numbers with the same key are one part; as `part_key` in core/catalog/intake.py.
PART_KEY = r"upper(regexp_replace(sku, '\s', '', 'g'))"
# Read after the lock was taken, so that nobody adds another spelling meanwhile.
KNOWN_PARTS = """
SELECT user_id, sku FROM product WHERE {of}
  AND NOT EXISTS (SELECT FROM product_sync_schedule AS row WHERE row.user_id = product.user_id
    AND row.sku = product.sku AND row.removed_at IS NOT NULL)
UNION SELECT user_id, sku FROM product_sync_schedule WHERE {of} AND removed_at IS NULL
UNION SELECT user_id, sku FROM product_staging WHERE {of}"""

STAGE = """
CREATE TEMPORARY TABLE arriving (
  line bigint, user_id text, sku text, value_weight double precision, family text, channels text
) ON COMMIT DROP
"""
# A part that is listed already has its slot, and is in the loads.
NEW = """
SELECT user_id, sku, min(value_weight), min(family), min(arriving.channels),
  coalesce(min(profile.supplier), %(main)s)
FROM arriving LEFT JOIN profiles AS profile USING (user_id) WHERE NOT EXISTS (
  SELECT FROM product_sync_schedule AS row
  WHERE row.user_id = arriving.user_id AND row.sku = arriving.sku)
GROUP BY user_id, sku ORDER BY min(line)
"""
STAGE_SLOTS = """
CREATE TEMPORARY TABLE placed (
  user_id text, sku text, value_weight double precision, family text, channels text, supplier text,
  hour_bucket smallint, minute_offset smallint, next_sync_at timestamptz
) ON COMMIT DROP
"""
LOADS = """
SELECT hour_bucket, count(*) FROM product_sync_schedule
WHERE supplier = %(supplier)s AND is_active GROUP BY hour_bucket
"""
# The process that places the first listings need not place them again when it starts.
BEGIN = """
INSERT INTO timetable (policy, adopted_at) SELECT %(policy)s, %(now)s
WHERE NOT EXISTS (SELECT FROM product_sync_schedule) ON CONFLICT DO NOTHING
"""
# Paused listings are added with their mark; see `store.pauses`, which takes the same lock.
ENTER = f"""
INSERT INTO product_sync_schedule
  (user_id, sku, hour_bucket, minute_offset, next_sync_at, priority, value_weight, family, channels,
   supplier, is_paused, created_at, updated_at)
SELECT user_id, sku, hour_bucket, minute_offset, next_sync_at, %(priority)s,
  coalesce(value_weight, 1),
  family, channels, supplier, {is_seller_paused("placed")} OR {is_listing_paused("placed")},
  %(now)s, %(now)s
FROM placed
ON CONFLICT (user_id, sku) DO NOTHING
"""


COUNT_SKUS = """
SELECT count(*) FROM (
  SELECT DISTINCT supplier, sku FROM product_sync_schedule WHERE is_active) AS seat
"""


class Listings(Queries):
    """Adds rows to `product_sync_schedule`, and counts them."""

    def add(
        self,
        keys: Iterable[tuple[SellerId, Sku]],
        *,
        policy: Policy,
        now: datetime,
        priority: Priority = Priority.SCHEDULED,
    ) -> int:
        """Give each new listing its slot; existing ones stay as they are.

        Raises InvalidError that shows a seller or a part number that cannot be one; then none is
        added.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            return enter(connection.cursor(), keys, policy=policy, now=now, priority=priority)

    def count_skus(self) -> int:
        """Return how many SKUs take a seat; a SKU that two sellers list takes one."""
        return int(self._one(COUNT_SKUS)[0])


def enter(
    cursor: Cursor[tuple[Any, ...]],
    keys: Iterable[tuple[SellerId, Sku]],
    *,
    policy: Policy,
    now: datetime,
    priority: Priority,
) -> int:
    """Add listings inside the caller's transaction; an urgent priority is due at once."""
    cursor.execute(STAGE)
    with cursor.copy("COPY arriving FROM STDIN") as copy:
        for line, (user_id, sku) in enumerate(keys):
            copy.write_row((line, seller_of(user_id), sku_of(sku), None, None, None))
    cursor.execute("ANALYZE arriving")
    return enter_staged(cursor, policy=policy, now=now, priority=priority)


def enter_staged(
    cursor: Cursor[tuple[Any, ...]], *, policy: Policy, now: datetime, priority: Priority
) -> int:
    """Give each arriving listing that is new its slot, in the order of arrival; return how many.

    Each counts in the loads that the next one finds.
    """
    cursor.execute(LOCK)
    catalogs: dict[SupplierName, CatalogSummary] = {}
    cursor.execute(BEGIN, {"policy": policy.name, "now": now})
    cursor.execute(STAGE_SLOTS)
    # Kept in memory, so that any number of them needs the same few statements.
    keys = cursor.connection.execute(NEW, {"main": MAIN}).fetchall()
    if policy.weighs_slots:
        catalogs = {
            supplier: read_catalog(cursor, supplier) for supplier in {key[-1] for key in keys}
        }
    with cursor.copy("COPY placed FROM STDIN") as copy:
        for user_id, sku, value_weight, family, channels, supplier in keys:
            place = policy.place(sku, now, catalogs.get(supplier, EMPTY))
            if policy.weighs_slots:
                catalogs[supplier] = catalogs[supplier].with_one_in(place.hour_bucket)
            due_at = now if priority in URGENT else place.next_sync_at
            slot = (place.hour_bucket, place.minute_offset, due_at)
            copy.write_row((user_id, sku, value_weight, family, channels, supplier, *slot))
    return cursor.execute(ENTER, {"now": now, "priority": priority.value}).rowcount


def read_catalog(
    cursor: Cursor[tuple[Any, ...]], supplier: SupplierName, loads: LiteralString = LOADS
) -> CatalogSummary:
    """Count a supplier's active listings by hour, and lock out others that place listings."""
    cursor.execute(LOCK)
    loads_by_hour = dict(cursor.execute(loads, {"supplier": supplier}).fetchall())
    return CatalogSummary(loads=tuple(loads_by_hour.get(hour, 0) for hour in range(HOURS)))
