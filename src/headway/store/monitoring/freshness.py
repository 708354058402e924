"""Freshness over time: every five minutes, how many listings were fresh, by tier.

A large table is sampled, so a sample costs the same at any size. The first process in a span of
five minutes stores it; the others skip it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from pydantic import computed_field

from headway.core.accounts.jobs import Tier
from headway.store.pool import Pool, guarded
from headway.store.queries import Queries
from headway.store.sampling import SampleShare, share_of

EVERY = timedelta(minutes=5)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
POINTS_MAX = 300
# A promise is kept when this share of a tier's listings is younger than promised.
KEPT_SHARE = 0.95

IS_THERE = "SELECT EXISTS (SELECT FROM freshness_samples WHERE at = %(at)s)"
# Parked and paused listings wait for a person, and count only for the total. A new listing that was
# not read yet is not late yet.
ADD_SAMPLE = """
INSERT INTO freshness_samples (at, tier, total, parked, paused, fresh, stale, unread, kept,
  promise_min, oldest_read_at)
SELECT %(at)s, tier, round(count(*) * %(weight)s),
  round(count(*) FILTER (WHERE NOT is_active) * %(weight)s),
  round(count(*) FILTER (WHERE is_active AND is_paused) * %(weight)s),
  round(count(*) FILTER (WHERE is_going AND read_at > %(day_ago)s) * %(weight)s),
  round(count(*) FILTER (WHERE is_going AND read_at <= %(day_ago)s) * %(weight)s),
  round(count(*) FILTER (WHERE is_going AND read_at IS NULL) * %(weight)s),
  round(count(*) FILTER (WHERE is_going
    AND coalesce(read_at, added_at) > %(now)s - promise.minutes * interval '1 minute')
    * %(weight)s),
  min(promise.minutes), min(read_at) FILTER (WHERE is_going AND consecutive_failures = 0)
FROM (SELECT is_active, is_paused, is_active AND NOT is_paused AS is_going, consecutive_failures,
        last_successful_sync AS read_at, row.created_at AS added_at,
        coalesce(profiles.tier, 'free') AS tier
      FROM (SELECT * FROM product_sync_schedule TABLESAMPLE SYSTEM (%(percent)s)
            WHERE is_active OR sync_status = 'parked') AS row
      LEFT JOIN profiles USING (user_id)) AS listing
JOIN unnest(%(tiers)s::text[], %(minutes)s::float8[]) AS promise(tier, minutes) USING (tier)
GROUP BY tier
ON CONFLICT DO NOTHING
"""
COLUMNS = """at, tier, total, parked, paused, fresh, stale, unread, kept, promise_min,
  oldest_read_at"""
LATEST = f"""
SELECT {COLUMNS} FROM freshness_samples
WHERE at = (SELECT max(at) FROM freshness_samples) ORDER BY tier
"""
# If there are more samples than points, the last of each equal span.
SERIES = f"""
WITH span AS (
  SELECT greatest(1, extract(epoch FROM max(at) - %(since)s) / %(spans)s) AS step_s
  FROM freshness_samples WHERE at >= %(since)s
), chosen AS (
  SELECT max(at) AS at FROM freshness_samples, span WHERE at >= %(since)s
  GROUP BY ceil(extract(epoch FROM at - %(since)s) / step_s)
)
SELECT {COLUMNS} FROM freshness_samples JOIN chosen USING (at) ORDER BY at, tier
"""
FORGET = "DELETE FROM freshness_samples WHERE at < %(before)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFreshness:
    """How fresh the listings of one tier's sellers were; `kept` were younger than promised."""

    tier: Tier
    total: int
    """Listings of the tier's sellers."""
    parked: int
    """Parked listings."""
    paused: int
    """Paused listings."""
    fresh: int
    """Listings whose last read is young enough."""
    stale: int
    """Listings whose last read is too old."""
    unread: int
    """Listings that were never read."""
    kept: int
    """Listings whose last read is younger than promised."""
    promise_min: float
    """The promised age in minutes."""
    oldest_read_at: datetime | None
    """When the listing that was read longest ago was read; null if none was read."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def kept_share(self) -> float | None:
        """The share younger than promised, without parked and paused listings."""
        going = self.total - self.parked - self.paused
        return self.kept / going if going > 0 else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def holds(self) -> bool:
        """True if the promise was kept, or there was nothing to keep."""
        share = self.kept_share
        return share is None or share >= KEPT_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How fresh all listings were at one instant, and those of each tier that has any."""

    at: datetime
    """When it was measured."""
    tiers: tuple[TierFreshness, ...]
    """One entry for each tier that has listings."""

    @property
    def total(self) -> int:
        """How many there were, parked and paused ones included."""
        return sum(tier.total for tier in self.tiers)

    @property
    def fresh(self) -> int:
        """How many were read within a day."""
        return sum(tier.fresh for tier in self.tiers)

    @property
    def stale(self) -> int:
        """How many were last read longer ago."""
        return sum(tier.stale for tier in self.tiers)

    @property
    def fresh_share(self) -> float | None:
        """The share of listings read within a day."""
        return self.fresh / self.total if self.total else None

    @property
    def oldest_age_s(self) -> float | None:
        """How long ago the oldest good read was, failing listings left aside."""
        reads = [tier.oldest_read_at for tier in self.tiers if tier.oldest_read_at is not None]
        return (self.at - min(reads)).total_seconds() if reads else None


class FreshnessSamples(Queries):
    """`freshness_samples`; `promises_min` is the promised maximum age of each tier's listings."""

    def __init__(self, pool: Pool, *, promises_min: Mapping[Tier, float]) -> None:
        super().__init__(pool)
        self._promises_min = promises_min

    def sample(self, now: datetime) -> datetime:
        """Take one sample in every span of five minutes; return when the next span begins."""
        at = _floor(now)
        with guarded(), self._pool.connection() as connection:
            if connection.execute(IS_THERE, {"at": at}).fetchone() != (True,):
                share = share_of(connection, "product_sync_schedule")
                connection.execute(ADD_SAMPLE, self._values(now, at, share))
        return at + EVERY

    def _values(self, now: datetime, at: datetime, share: SampleShare) -> dict[str, Any]:
        return {
            "now": now,
            "at": at,
            "day_ago": now - DAY,
            "percent": share.percent,
            "weight": share.weight,
            "tiers": [tier.value for tier in Tier],
            "minutes": [float(self._promises_min[tier]) for tier in Tier],
        }

    def latest(self) -> Freshness | None:
        """Return the last sample; None before the first."""
        samples = self._samples(LATEST, {})
        return samples[0] if samples else None

    def series(self, since: datetime, *, points_max: int = POINTS_MAX) -> tuple[Freshness, ...]:
        """Return the samples since then, the oldest first, thinned to about so many."""
        return self._samples(SERIES, {"since": since, "spans": max(1, points_max - 1)})

    def forget(self, before: datetime) -> int:
        """Remove samples taken before that instant; return how many."""
        return self._write(FORGET, {"before": before})

    def _samples(self, statement: str, values: Mapping[str, Any]) -> tuple[Freshness, ...]:
        rows = self._read(_tier, statement, values)
        return tuple(
            Freshness(at=at, tiers=tuple(tier for _, tier in group))
            for at, group in groupby(rows, key=lambda row: row[0])
        )


def _tier(*, at: datetime, tier: str, **columns: Any) -> tuple[datetime, TierFreshness]:  # noqa: ANN401
    return at, TierFreshness(tier=Tier(tier), **columns)


def _floor(now: datetime) -> datetime:
    return now - (now - datetime.min.replace(tzinfo=UTC)) % EVERY
