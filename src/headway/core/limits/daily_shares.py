"""How a platform's daily quota is shared by sellers whose demand exceeds it.

Use of a rolling day is free again only a day later, so a seller who takes all that is free now
blocks the others for hours. Therefore the demand of all jobs at their intervals is planned ahead:
paid jobs first, and intervals are stretched until the plan fits. All jobs continue evenly, paid
ones at their own pace. A small part is not planned: it is left for webhooks, retries and history.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from headway.core.accounts.jobs import JobType, Tier

# The planned share of a day, and the share that free sellers always get.
PLANNED = 0.9
FREE_MIN = 0.05
# What history leaves besides, or it would take all that webhooks and tries again need.
SPARE = 0.05
# What history gets in any case. It takes half of the unplanned part at once; the rest is kept for
# jobs that have waited too long, since news may use up a day hours before it ends.
HISTORY_MIN = 0.08
DAY = timedelta(days=1)
# A refusal for this long is about the day, not about a second or a minute.
DAY_REFUSAL_MIN = timedelta(hours=1)
# Replies to other accounts within this time show whether the day is used up for all.
EVIDENCE_SPAN = timedelta(minutes=10)
# With less than this share left, or fewer calls, a day counts as used up.
LEFT_MIN_SHARE, LEFT_MIN = 0.01, 2.0


class DayShare(StrEnum):
    """Whose part of a day a job uses: history waits behind everybody's news."""

    PAID = "paid"
    FREE = "free"
    HISTORY = "history"


# Whatever the demand of others, a job stops leaving quota to them after this wait beyond its
# interval. What is left of a day is enough to find room in, so that none waits for a whole day.
PATIENCE = {DayShare.PAID: DAY / 2, DayShare.FREE: DAY * 2 / 3, DayShare.HISTORY: DAY * 3 / 4}


def share_of(tier: Tier, job_type: JobType) -> DayShare:
    """Return the share that a job uses."""
    if job_type is JobType.BACKFILL:
        return DayShare.HISTORY
    return DayShare.PAID if tier.is_paid else DayShare.FREE


def is_refused_alone(
    retry_after_s: float | None, *, left: float, limit: float, answered: int
) -> bool:
    """Return True if a day's refusal is about one account, not about the day that all share.

    `left` is what the replies to all accounts say is left of the limit, and `answered` how many
    of them were no error lately. Without such replies the day counts as used up for all.
    """
    is_of_day = retry_after_s is not None and retry_after_s >= DAY_REFUSAL_MIN.total_seconds()
    return is_of_day and answered > 0 and left >= max(LEFT_MIN, LEFT_MIN_SHARE * limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPlan:
    """A day's calls: the limit, and the demand at all jobs' intervals.

    The demand of history is what its unfinished jobs need to progress at all.
    """

    limit: float
    demand: Mapping[DayShare, float]

    def planned(self, share: DayShare) -> float:
        """Return how many calls a day are this share's."""
        usable, free_demand = PLANNED * self.limit, self.demand.get(DayShare.FREE, 0.0)
        free_min = min(free_demand, FREE_MIN * self.limit)
        paid = min(self.demand.get(DayShare.PAID, 0.0), usable - free_min)
        free = max(free_min, min(free_demand, usable - paid))
        return {DayShare.PAID: paid, DayShare.FREE: free}.get(share, self.limit - paid - free)

    def stretch(self, share: DayShare) -> float:
        """Return how many times longer than promised this share's intervals are."""
        demand = self.demand.get(share, 0.0)
        return max(1.0, demand / self.planned(share)) if demand > 0 else 1.0

    def leave(
        self, share: DayShare, used: Mapping[DayShare, float], waited: timedelta = timedelta(0)
    ) -> float:
        """Return how much a job leaves to others: the unused part of their plan.

        A job that has waited too long leaves nothing.
        """
        if waited >= PATIENCE[share]:
            return 0.0
        if share is DayShare.PAID:
            return self._kept_for_history(used)
        left = self._unused(DayShare.PAID, used)
        if share is DayShare.FREE:
            return left + self._kept_for_history(used)
        return left + self._unused(DayShare.FREE, used) + SPARE * self.limit

    def leave_beyond(
        self,
        share: DayShare,
        used: Mapping[DayShare, float],
        *,
        beyond: float,
        waited: timedelta = timedelta(0),
    ) -> float:
        """Return how much a job leaves to others that made `beyond` more calls than its share.

        It waits behind everybody's news, as history does. What it took beyond its share was not
        the others' use of their plan.
        """
        fair = {**used, share: max(0.0, used.get(share, 0.0) - beyond)}
        return self.leave(DayShare.HISTORY, fair, waited)

    def _kept_for_history(self, used: Mapping[DayShare, float]) -> float:
        """Return what news leaves to history that waits: no more than it needs."""
        unused = max(0.0, HISTORY_MIN * self.limit - used.get(DayShare.HISTORY, 0.0))
        return min(self.demand.get(DayShare.HISTORY, 0.0), unused)

    def _unused(self, share: DayShare, used: Mapping[DayShare, float]) -> float:
        return max(0.0, self.planned(share) - used.get(share, 0.0))
