"""How often a listing changes, learned by Bayes from what reads found.

A read says only whether something changed since the one before. `Evidence` sums that up in two
numbers, `Prior` holds what is known of the whole catalog; together they give a rate.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import mul
from typing import Self

from headway.core.catalog.listings import Evidence

RATES = 28
RATE_MIN, RATE_MAX = 0.0005, 24.0
GRID = tuple(RATE_MIN * (RATE_MAX / RATE_MIN) ** (n / (RATES - 1)) for n in range(RATES))
LOG_GRID = tuple(math.log(rate) for rate in GRID)
# Before anything is known: most parts hardly change, a few do so often.
SHAPE, MEAN = 0.35, 0.05
# The curve alone would call 24 changes a day unthinkable, and take weeks to see them.
TAIL = 2e-5
# Of each fit, so much stays with the first belief, so that no rate becomes unthinkable.
DOUBT = 0.03
# Three would do for most; but that all are alike must be found out within days.
EM_STEPS = 10
FORGET_DAYS = 45.0
# A change that was certain is no evidence; beyond this many expected changes, it is certain.
CERTAIN = 50.0


def _product(weights: Iterable[float]) -> float:
    total: float = sum(map(mul, weights, GRID))
    return total


def _first_shares() -> tuple[float, ...]:
    """Return Gamma(SHAPE) with this MEAN on the grid, with a thin tail of fast movers."""
    # On a logarithmic grid the density carries one more power of the rate.
    weights = [math.exp(SHAPE * math.log(g) - g * SHAPE / MEAN) for g in GRID]
    # The lowest rate stands for all below it as well, a geometric series.
    weights[0] /= 1 - (GRID[0] / GRID[1]) ** SHAPE
    total = sum(weights)
    return tuple((1 - RATES * TAIL) * weight / total + TAIL for weight in weights)


FIRST_SHARES = _first_shares()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Distribution of change rates over the catalog; without shares, it is not fitted yet."""

    shares: tuple[float, ...] = ()
    # Each rate with its logarithm and that of its share, since every read needs them.
    _logs: tuple[tuple[float, float, float], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shares = self.shares or FIRST_SHARES
        assert len(shares) == RATES, f"{len(shares)} shares for {RATES} rates"
        logs = tuple(math.log(share) if share > 0 else -math.inf for share in shares)
        object.__setattr__(self, "_logs", tuple(zip(logs, LOG_GRID, GRID, strict=True)))

    @property
    def mean(self) -> float:
        """Changes a day of a listing without evidence."""
        return _product(self.shares or FIRST_SHARES)

    def rate(self, evidence: Evidence) -> float:
        """Return the changes a day to expect of a listing."""
        weights = self._weights(evidence.changes_seen, evidence.watched_days)
        return _product(weights) / sum(weights)

    def refit(self, cells: Iterable[tuple[float, float, int]]) -> Self:
        """Return the prior that fits the catalog: how many have seen what in how many days."""
        cells = [cell for cell in cells if cell[2] > 0]
        if not cells:
            return self
        prior, count_all = self, sum(count for _, _, count in cells)
        for _ in range(EM_STEPS):
            sums = [0.0] * RATES
            for changes_seen, watched_days, count in cells:
                weights = prior._weights(changes_seen, watched_days)
                scale = count / sum(weights)
                sums = [total + scale * weight for total, weight in zip(sums, weights, strict=True)]
            prior = type(self)(
                shares=tuple(
                    (1 - DOUBT) * total / count_all + DOUBT * first
                    for total, first in zip(sums, FIRST_SHARES, strict=True)
                )
            )
        return prior

    def _weights(self, changes_seen: float, watched_days: float) -> list[float]:
        """Return how likely each rate is by now, up to a common factor."""
        logs = [
            log_share + changes_seen * log_rate - watched_days * rate
            for log_share, log_rate, rate in self._logs
        ]
        most, exp = max(logs), math.exp
        return [exp(log - most) for log in logs]


def learn(
    evidence: Evidence,
    *,
    gap_days: float,
    rate: float,
    has_changed: bool,
    at: datetime,
    share: float = 1.0,
) -> Evidence:
    """Return the evidence after one more read, `gap_days` after the last.

    A change within a long gap hides others and when it came, hence the correction by the expected
    number. `share` is how much of the change is the listing's own, not its family's.
    """
    gap_days = max(0.0, gap_days)
    kept = math.exp(-gap_days / FORGET_DAYS)
    changes_seen, watched_days = kept * evidence.changes_seen, kept * evidence.watched_days
    if not has_changed:
        return Evidence(
            changes_seen=changes_seen,
            watched_days=watched_days + gap_days,
            changed_at=evidence.changed_at,
        )
    changes, days = _worth_of_change(rate * gap_days, gap_days)
    is_own = share >= 1 / 2
    return Evidence(
        changes_seen=changes_seen + share * changes,
        watched_days=watched_days + share * days,
        changed_at=at if is_own else evidence.changed_at,
    )


def _worth_of_change(expected: float, gap_days: float) -> tuple[float, float]:
    """Return how many changes and how many days a change counts, so many being expected."""
    if expected > CERTAIN:
        return 0.0, 0.0
    if expected < 1e-6:  # noqa: PLR2004 - where the series is exact and the quotient is not
        return 1.0, gap_days / 2
    spread = expected / math.expm1(expected)
    changes = spread * (spread + expected)
    return changes, gap_days * max(0.0, spread * (spread + expected - 1) / expected)


HOUR = timedelta(hours=1)
BINS = tuple(n * HOUR for n in (1, 3, 6, 12, 24, 48, 96, 192))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recency:
    """How much more often a listing changes that changed lately, by time since that change.

    `hits` counts the changes found, `hits_expected` those that the rates had predicted. What comes
    after the bins belongs to `families`.
    """

    SMOOTHING = 15.0
    FACTOR_MIN, FACTOR_MAX = 0.3, 8.0
    KEPT_A_DAY = 0.97

    hits: tuple[float, ...] = ()
    hits_expected: tuple[float, ...] = ()

    def factor(self, since_change: timedelta | None) -> float:
        """Return by what to multiply the rate of a listing that changed so long ago."""
        index = bin_of(since_change)
        if index is None or index >= len(self.hits):
            return 1.0
        ratio = (self.hits[index] + self.SMOOTHING) / (self.hits_expected[index] + self.SMOOTHING)
        return min(self.FACTOR_MAX, max(self.FACTOR_MIN, ratio))

    def plus(self, hits: Iterable[float], hits_expected: Iterable[float]) -> Self:
        """Return the counts with those of one call added."""
        return type(self)(
            hits=_added(self.hits, hits), hits_expected=_added(self.hits_expected, hits_expected)
        )

    def decayed(self) -> Self:
        """Return the counts a day later: old news counts less."""
        return type(self)(
            hits=tuple(self.KEPT_A_DAY * hit for hit in self.hits),
            hits_expected=tuple(self.KEPT_A_DAY * hits for hits in self.hits_expected),
        )


def bin_of(since_change: timedelta | None) -> int | None:
    """Return the bin of a change so long ago; None if it is too long ago to matter."""
    if since_change is None:
        return None
    return next((n for n, end in enumerate(BINS) if since_change < end), None)


def _added(counts: tuple[float, ...], more: Iterable[float]) -> tuple[float, ...]:
    more = tuple(more)
    size = max(len(counts), len(more))
    padded = counts + (0.0,) * (size - len(counts))
    return tuple(a + b for a, b in zip(padded, more + (0.0,) * (size - len(more)), strict=True))
