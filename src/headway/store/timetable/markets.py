"""The price of a seat, how often listings change, and which change together (adaptive policy).

It also moves due times: of a family in which one listing changed, and near the deadline. Every
statement adds or replaces one small thing, so any number of workers may learn at once.
"""

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from headway.core.catalog.listings import MAIN, Sku, SupplierName
from headway.core.limits.shared_key import REMEMBERED, learned_share
from headway.core.timetable.families import Family
from headway.core.timetable.market import PRICE_MIN, Lesson, Market, lawful_share
from headway.core.timetable.rates import RATES, Prior, Recency
from headway.store.limits.refusals import UNEXPLAINED
from headway.store.pool import Pool
from headway.store.queries import Queries

# Two index scans, of the waiting listings and of those being read: there may be any number of
# other suppliers.
OURS = """(
  SELECT * FROM product_sync_schedule WHERE supplier = %(supplier)s AND is_active
    AND NOT is_paused AND sync_status <> 'syncing'
  UNION ALL
  SELECT * FROM product_sync_schedule WHERE supplier = %(supplier)s AND is_active
    AND NOT is_paused AND sync_status = 'syncing') AS ours"""
LOAD = f"""
SELECT listings, exp(log_price), prior, hits, hits_expected, fitted_at, updated_at,
  (SELECT jsonb_object_agg(name, state) FROM family
   WHERE limit_key = %(limit_key)s AND name = ANY(%(names)s)),
  array(SELECT begun_at FROM ({UNEXPLAINED}) AS refused),
  (SELECT coalesce(arrived_by, begun_at) FROM call_ledger
   WHERE limit_key = %(limit_key)s AND purpose = 'fetch' AND status IN ('sent', 'lost')
   ORDER BY begun_at DESC LIMIT 1)
FROM market WHERE limit_key = %(limit_key)s
"""
# A price steps slowly where a round takes long, so one that belongs to a catalog of another size
# would be wrong for days: then it follows from the prior again.
COUNT = f"""
INSERT INTO market AS row (limit_key, listings, updated_at)
SELECT %(limit_key)s, count(DISTINCT sku), %(now)s FROM {OURS}
ON CONFLICT (limit_key) DO UPDATE SET listings = excluded.listings,
  log_price = CASE WHEN excluded.listings BETWEEN row.listings / 2.0 AND row.listings * 2
                   THEN row.log_price END
"""
ADDED = """(SELECT array_agg(coalesce(old, 0) + coalesce(new, 0) ORDER BY number)
    FROM unnest({column}, %({column})s::float8[]) WITH ORDINALITY AS bin(old, new, number))"""
LEARN = f"""
WITH kept AS (
  INSERT INTO family (limit_key, name, state, updated_at)
  SELECT %(limit_key)s, key, value, %(now)s FROM jsonb_each(%(families)s::jsonb) ORDER BY key
  ON CONFLICT (limit_key, name) DO UPDATE SET state = excluded.state, updated_at = %(now)s
)
UPDATE market SET log_price = coalesce(log_price, ln(%(price)s::float8)) + %(step)s,
  hits = coalesce({ADDED.format(column="hits")}, '{{}}'),
  hits_expected = coalesce({ADDED.format(column="hits_expected")}, '{{}}'),
  updated_at = %(now)s
WHERE limit_key = %(limit_key)s
"""

# Listings of about the same evidence make one cell, so a fit costs the same at any size.
CELLS = f"""
SELECT avg(changes_seen), avg(watched_days), count(*) FROM {OURS} WHERE watched_days > 0
GROUP BY round(changes_seen::numeric, 1),
  width_bucket(ln(greatest(watched_days, 0.001)), ln(0.001), ln(1000), 140)
"""
FIT = """
UPDATE market SET prior = %(prior)s, fitted_at = %(now)s, hits = %(hits)s,
  hits_expected = %(hits_expected)s
WHERE limit_key = %(limit_key)s AND fitted_at IS NOT DISTINCT FROM %(fitted_at)s
"""

WAITS = """supplier = %(supplier)s AND is_active AND NOT is_paused AND sync_status <> 'syncing'
    AND priority = 'scheduled'"""

# Swept listings go before other due ones, but not before those near the deadline, whose due time is
# their last read. Both are counted by SKU, as seats are: a SKU takes one seat however many sellers
# list it.
SWEEP = """
UPDATE product_sync_schedule AS row SET swept_from = row.next_sync_at, updated_at = %(now)s,
  next_sync_at = least(%(now)s, (
    SELECT min(next_sync_at) FROM (
      SELECT next_sync_at, last_successful_sync FROM product_sync_schedule
      WHERE {waits} AND next_sync_at > last_successful_sync
      ORDER BY next_sync_at LIMIT 1) AS first))
FROM (
  SELECT id FROM product_sync_schedule
  WHERE {companion} AND sku IN (
    SELECT sku FROM product_sync_schedule WHERE {companion}
    GROUP BY sku ORDER BY min(last_successful_sync), sku LIMIT %(limit)s)
  ORDER BY id FOR UPDATE SKIP LOCKED
) AS companion WHERE row.id = companion.id
RETURNING row.sku
""".format(
    waits=WAITS,
    companion=f"""family = %(family)s AND {WAITS} AND last_successful_sync < %(read_before)s
    AND swept_from IS NULL AND next_sync_at > %(now)s""",
)
SPARE = f"""
UPDATE product_sync_schedule AS row SET next_sync_at = row.swept_from, swept_from = NULL,
  updated_at = %(now)s
FROM (
  SELECT id FROM product_sync_schedule
  WHERE family = ANY(%(families)s) AND {WAITS} AND swept_from IS NOT NULL
  ORDER BY id FOR UPDATE SKIP LOCKED
) AS companion WHERE row.id = companion.id
RETURNING row.sku
"""

# Two queries, so that a listing added just now does not hide one that was read long ago.
OLDEST = f"""
SELECT least(
  (SELECT last_successful_sync FROM product_sync_schedule
   WHERE {WAITS} AND last_successful_sync IS NOT NULL ORDER BY last_successful_sync LIMIT 1),
  (SELECT min(created_at) FROM product_sync_schedule
   WHERE {WAITS} AND last_successful_sync IS NULL))
"""
AGES = f"""
SELECT floor(extract(epoch FROM %(now)s - coalesce(last_successful_sync, created_at)) / 60)::int,
  count(DISTINCT sku)
FROM {OURS} WHERE priority = 'scheduled' GROUP BY 1
"""
HURRY = """
UPDATE product_sync_schedule AS row SET next_sync_at = row.last_successful_sync,
  swept_from = NULL, updated_at = %(now)s
FROM (
  SELECT id FROM product_sync_schedule
  WHERE {oldest} AND sku IN (
    SELECT sku FROM product_sync_schedule WHERE {oldest}
    GROUP BY sku ORDER BY min(last_successful_sync), sku LIMIT %(count)s)
  ORDER BY id FOR UPDATE SKIP LOCKED
) AS oldest WHERE row.id = oldest.id AND row.next_sync_at > row.last_successful_sync
RETURNING row.sku
""".format(oldest=f"{WAITS} AND last_successful_sync IS NOT NULL")


class Markets(Queries):
    """The rows of `market` and `family` of one supplier, and the due times they change."""

    def __init__(
        self,
        pool: Pool,
        supplier: SupplierName = MAIN,
        *,
        limit_key: str,
        seats_per_min: float,
        price_min: float = PRICE_MIN,
    ) -> None:
        super().__init__(pool)
        self._limit_key, self._supplier = limit_key, supplier
        self._key = {"limit_key": limit_key, "supplier": supplier}
        self._seats_per_min = seats_per_min
        self._price_min = max(PRICE_MIN, price_min)

    def over(self, pool: Pool) -> "Markets":
        """Return the same over another pool."""
        return Markets(
            pool,
            self._supplier,
            limit_key=self._limit_key,
            seats_per_min=self._seats_per_min,
            price_min=self._price_min,
        )

    def load(self, families: Collection[str], now: datetime) -> Market:
        """Return the market, with the state of these families."""
        row = self._load(families, now)
        if row is None:
            self.count(now)
            row = self._load(families, now)
        assert row is not None, "it was just counted"
        listings, price, prior, hits, expected, fitted_at, updated_at, *lately = row
        states, refused_at, called_at = lately
        share = lawful_share(learned_share(refused_at, now), listings, self._seats_per_min)
        return Market(
            listings=listings,
            seats_per_min=self._seats_per_min * share,
            price=price,
            price_min=self._price_min,
            share=share,
            # Shares of another version, for other rates, are ignored.
            prior=Prior(shares=tuple(prior) if len(prior) == RATES else ()),
            recency=Recency(hits=tuple(hits), hits_expected=tuple(expected)),
            families={
                name: Family.from_json(name, state) for name, state in (states or {}).items()
            },
            fitted_at=fitted_at,
            updated_at=updated_at,
            called_at=called_at,
        )

    def count(self, now: datetime) -> None:
        """Count the SKUs among which the seats are shared."""
        self._execute(COUNT, {"now": now})

    def learn(self, market: Market, lesson: Lesson, now: datetime) -> list[Sku]:
        """Store what a call taught; return the SKUs whose due time it changed."""
        values = {
            "now": now,
            "price": market.going_price,
            "step": market.price_step(lesson, now),
            "hits": list(lesson.hits),
            "hits_expected": list(lesson.hits_expected),
            "families": json.dumps({family.name: family.as_json() for family in lesson.families}),
        }
        self._execute(LEARN, values)
        moved: list[Sku] = []
        if lesson.spares:
            moved += self._skus(SPARE, {"families": list(lesson.spares), "now": now})
        for sweep in lesson.sweeps:
            named = {
                "family": sweep.family,
                "read_before": sweep.read_before,
                "limit": sweep.limit,
                "now": now,
            }
            moved += self._skus(SWEEP, named)
        return moved

    def refit(self, market: Market, now: datetime) -> None:
        """Fit the distribution of change rates again, unless another worker just did."""
        cells = self._rows(CELLS, self._key)
        recency = market.recency.decayed()
        values = {
            "prior": list(market.prior.refit(cells).shares),
            "hits": list(recency.hits),
            "hits_expected": list(recency.hits_expected),
            "fitted_at": market.fitted_at,
            "now": now,
        }
        self._execute(FIT, values)

    def oldest(self) -> datetime | None:
        """Return when the longest waiting listing was last read or added; None if none waits."""
        oldest_at: datetime | None = self._one(OLDEST, self._key)[0]
        return oldest_at

    def ages_min(self, now: datetime) -> Mapping[int, int]:
        """Return how many SKUs were last read that many minutes ago."""
        return dict(self._rows(AGES, {**self._key, "now": now}))

    def hurry(self, count: int, now: datetime) -> list[Sku]:
        """Put this many of the listings read longest ago first; return the SKUs that moved."""
        return self._skus(HURRY, {"count": count, "now": now})

    def _load(self, families: Collection[str], now: datetime) -> tuple[Any, ...] | None:
        values = {**self._key, "names": list(families), "since": now - REMEMBERED}
        return self._first(LOAD, values)

    def _execute(self, statement: str, values: Mapping[str, Any]) -> None:
        self._write(statement, {**values, **self._key})

    def _skus(self, statement: str, values: Mapping[str, Any]) -> list[Sku]:
        return [sku for (sku,) in self._rows(statement, {**values, **self._key})]
