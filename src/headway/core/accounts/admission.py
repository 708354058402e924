"""How many more sellers fit into a platform's day, and what it costs to bring them in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import floor

from headway.core.accounts.jobs import (
    CALLS_MIN,
    DAY,
    STRETCH_MAX,
    DataKind,
    JobRule,
    JobType,
    PlatformName,
    Tier,
    interval,
    stretched,
)
from headway.core.limits.daily_shares import PLANNED, DayPlan, DayShare, share_of

# What is assumed until runs have shown it: five states of listings and their front, and one page of
# everything else; and for a shop's history, its first pages.
CALLS_PER_RUN = {DataKind.LISTINGS: 6.0}
FIRST_CALLS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCosts:
    """Calls that a run of each kind needs, and those of a shop's first runs and history."""

    per_run: Mapping[DataKind, float]
    first: float = FIRST_CALLS

    def a_run(self, kind: DataKind) -> float:
        """Return what a run of a kind needs, as measured or assumed."""
        return self.per_run.get(kind) or CALLS_PER_RUN.get(kind, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformAdmission:
    """What more sellers mean for the day of a platform; each brings one shop."""

    platform: PlatformName
    limit: float
    """Calls permitted in 24 hours."""
    wanted: float
    """Calls a day that the present sellers need at their intervals."""
    calls_per_seller: float
    """Calls a day that one more seller needs at the intervals of the tier."""
    fits: int
    """How many more sellers fit at the intervals of the tier."""
    fits_stretched: int
    """How many more fit if everybody's intervals are stretched as far as they may be."""
    stretch: float
    """How many times longer the intervals of the tier become with these sellers."""
    first_calls: float
    """Calls of the first runs of all of them, their history included."""
    days: float
    """How many days the first runs take beside the reading of what is new."""


def admission(
    platform: PlatformName,
    plan: DayPlan,
    costs: RunCosts,
    rule: JobRule,
    *,
    kinds: tuple[DataKind, ...],
    tier: Tier,
    sellers: int,
) -> PlatformAdmission:
    """Return what that many more sellers of a tier mean for a platform's day."""
    share = share_of(tier, JobType.INCREMENTAL)
    calls = sum(costs.a_run(kind) * (DAY / interval(tier, kind, rule)) for kind in kinds)
    least = sum(costs.a_run(kind) * (DAY / _longest(tier, kind, rule)) for kind in kinds)
    wanted = plan.demand.get(DayShare.PAID, 0.0) + plan.demand.get(DayShare.FREE, 0.0)
    usable = PLANNED * plan.limit
    after = DayPlan(
        limit=plan.limit,
        demand={**plan.demand, share: plan.demand.get(share, 0.0) + sellers * calls},
    )
    first = sellers * costs.first
    return PlatformAdmission(
        platform=platform,
        limit=plan.limit,
        wanted=wanted,
        calls_per_seller=calls,
        fits=max(0, floor((usable - wanted) / calls)),
        fits_stretched=max(0, floor((usable - wanted * least / calls) / least)),
        stretch=after.stretch(share),
        first_calls=first,
        days=first / max(CALLS_MIN, after.planned(DayShare.HISTORY)),
    )


def _longest(tier: Tier, kind: DataKind, rule: JobRule) -> timedelta:
    return stretched(tier, kind, rule, float(STRETCH_MAX / interval(tier, kind, rule) + 1))
