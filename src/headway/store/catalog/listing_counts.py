"""Listings by state and age: counted, or sampled where there are many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection

from headway.core.catalog.listings import SellerId
from headway.store.catalog.suppliers import overdue_count
from headway.store.queries import Row
from headway.store.sampling import share_of

COUNT_MAX = 10_000
# Up to this many listings of a seller are all counted; of more, a random sample.
SELLER_ALL_MAX = 4_000
SELLER_SAMPLE = 1_500
PAUSED, PARKED, UNREAD, STALE = -3, -2, -1, 24

# Whole hours since the last good read, or one of these special values.
AGE = f"""CASE WHEN sync_status = 'parked' THEN {PARKED} WHEN is_paused THEN {PAUSED}
  WHEN last_successful_sync IS NULL THEN {UNREAD}
  ELSE least({STALE}, greatest(0,
    floor(extract(epoch FROM %(now)s - last_successful_sync)::float8 / 3600)))::int END"""
# Listings switched off are not counted.
AGES = f"""
SELECT {AGE}, count(*), min(last_successful_sync) FILTER (WHERE consecutive_failures = 0)
FROM product_sync_schedule TABLESAMPLE SYSTEM (%(percent)s)
WHERE is_active OR sync_status = 'parked' GROUP BY 1
"""
# One seller's rows: all of them, or a random sample.
SELLER_AGES = f"""
SELECT {AGE}, count(*), min(last_successful_sync) FILTER (WHERE consecutive_failures = 0),
  count(*) FILTER (WHERE is_active AND NOT is_paused AND sync_status <> 'syncing'
    AND next_sync_at < %(late)s),
  count(*) FILTER (WHERE is_active AND NOT is_paused AND consecutive_failures > 0),
  count(*) FILTER (WHERE sync_status = 'syncing')
FROM ({{listings}}) AS row
WHERE is_active OR sync_status = 'parked' GROUP BY 1
"""
ALL_OF_THEM = """
SELECT * FROM product_sync_schedule WHERE user_id = %(seller)s ORDER BY sku LIMIT %(all)s
"""
SOME_OF_THEM = """
SELECT row.* FROM (SELECT user_id, sku FROM listing_search WHERE user_id = %(seller)s
                   ORDER BY place LIMIT %(some)s) AS listings
CROSS JOIN LATERAL (SELECT * FROM product_sync_schedule AS row
  WHERE row.user_id = listings.user_id AND row.sku = listings.sku LIMIT 1) AS row
"""
SELLER_SIZE = "SELECT listing_count FROM profiles WHERE user_id = %(seller)s"
BEHIND = f"""
SELECT
  {overdue_count("%(late)s")},
  (SELECT count(*) FROM (SELECT FROM product_sync_schedule WHERE is_active
     AND consecutive_failures > 0 AND sync_status <> 'syncing' AND NOT is_paused
     LIMIT %(most)s) AS failing),
  (SELECT count(*) FROM (SELECT FROM product_sync_schedule
     WHERE sync_status = 'parked' LIMIT %(most)s) AS parked),
  (SELECT count(*) FROM product_sync_schedule WHERE sync_status = 'syncing')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingCounts:
    """Listings by state; fresh, stale, unread, parked and paused add up to the total."""

    total: int
    """All listings."""
    fresh: int
    """Listings whose last read is young enough."""
    stale: int
    """Listings whose last read is too old."""
    unread: int
    """Listings that were never read."""
    parked: int
    """Listings that Headway stopped reading after repeated failures."""
    failing: int
    """Listings whose last read failed."""
    overdue: int
    """Listings that should have been read by now."""
    in_call: int
    """Listings that are in a call now."""
    is_estimate: bool
    paused: int = 0
    """Listings that a person paused."""

    @property
    def fresh_share(self) -> float | None:
        """The share of listings read within a day."""
        return self.fresh / self.total if self.total else None


def count_listings(
    connection: Connection, now: datetime, slack: timedelta, seller: SellerId | None
) -> tuple[ListingCounts, tuple[int, ...], datetime | None]:
    """Count listings by the age of their last good read; a large table is sampled."""
    if seller is not None:
        return _seller_counts(connection, now, slack, seller)
    share = share_of(connection, "product_sync_schedule")
    rows = connection.execute(AGES, {"now": now, "percent": share.percent}).fetchall()
    counted, is_estimate = sum(count for _, count, _ in rows), share.is_estimate
    weight = share.size / counted if is_estimate and counted else 1.0
    by_age = {age: round(count * weight) for age, count, _ in rows}
    values = {"late": now - slack, "most": COUNT_MAX}
    overdue, failing, parked, in_call = connection.execute(BEHIND, values).fetchall()[0]
    counts = _counts(
        by_age,
        total=share.size if is_estimate else counted,
        failing=failing,
        overdue=overdue,
        in_call=in_call,
        is_estimate=is_estimate,
    )
    if is_estimate:
        counts = replace(counts, parked=parked)
    return counts, _ages_h(by_age), _oldest(rows)


def _seller_counts(
    connection: Connection, now: datetime, slack: timedelta, seller: SellerId
) -> tuple[ListingCounts, tuple[int, ...], datetime | None]:
    bounds = {"all": SELLER_ALL_MAX, "some": SELLER_SAMPLE}
    values = {"now": now, "late": now - slack, "seller": seller, **bounds}
    (listed,) = connection.execute(SELLER_SIZE, values).fetchone() or (0,)
    is_large = listed > SELLER_ALL_MAX
    statement = SELLER_AGES.format(listings=SOME_OF_THEM if is_large else ALL_OF_THEM)
    rows = connection.execute(statement, values).fetchall()
    counted = sum(row[1] for row in rows)
    weight = listed / counted if is_large and counted else 1.0
    by_age = {row[0]: round(row[1] * weight) for row in rows}
    overdue, failing, in_call = (
        round(sum(row[column] for row in rows) * weight) for column in (3, 4, 5)
    )
    counts = _counts(
        by_age,
        total=sum(by_age.values()),
        failing=failing,
        overdue=overdue,
        in_call=in_call,
        is_estimate=is_large or counted >= SELLER_ALL_MAX,
    )
    return counts, _ages_h(by_age), _oldest(rows)


def _counts(by_age: Mapping[int, int], **counts: Any) -> ListingCounts:  # noqa: ANN401
    """Return the counts by state, from the counts by age and the others."""
    ages_h = _ages_h(by_age)
    return ListingCounts(
        fresh=sum(ages_h[:STALE]),
        stale=ages_h[STALE],
        unread=by_age.get(UNREAD, 0),
        parked=by_age.get(PARKED, 0),
        paused=by_age.get(PAUSED, 0),
        **counts,
    )


def _ages_h(by_age: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(by_age.get(age, 0) for age in range(STALE + 1))


def _oldest(rows: Sequence[Row]) -> datetime | None:
    """Return the oldest good read of listings that do not fail."""
    return min((row[2] for row in rows if row[0] >= 0 and row[2] is not None), default=None)
