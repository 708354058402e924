"""Which due jobs a claim takes, and how much of its platform's day each may reserve.

The store finds the longest due jobs of every class (a platform and a score) and asks these
functions which of them to lease. A share of a platform's day that has no budget left is closed for
the rest of the claim.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headway.core.accounts.jobs import (
    CALLS_MIN,
    JobCandidate,
    JobRule,
    JobStatus,
    JobType,
    PlatformName,
    Tier,
    calls_beyond_share,
    next_month,
    reservation,
    score,
    waits_since,
)
from headway.core.catalog.listings import SellerId
from headway.core.limits.daily_shares import DayPlan, DayShare, share_of

ClosedShare = tuple[PlatformName, DayShare]

SHARES = {score(tier, job_type): share_of(tier, job_type) for tier in Tier for job_type in JobType}
# How many jobs of busy accounts a claim skips; doubled with each further attempt.
DEPTH = 4
LOOKS_MAX = 9


def depth(limit: int, look: int) -> int:
    """Return how many jobs of each class a claim reads in its n-th attempt."""
    return (limit + DEPTH) << look


def closed_to(without: Collection[PlatformName]) -> set[ClosedShare]:
    """Return the shares that are closed from the start: all of these platforms."""
    return {(platform, share) for platform in without for share in DayShare}


def open_classes(
    platforms: Iterable[PlatformName], closed: Collection[ClosedShare] = ()
) -> list[tuple[PlatformName, int]]:
    """Return the platforms and scores whose jobs may run."""
    return [
        (platform, number)
        for platform in platforms
        for number, share in SHARES.items()
        if (platform, share) not in closed
    ]


def is_closed(job: JobCandidate, closed: Collection[ClosedShare]) -> bool:
    """Return True if a job's share of its platform's day has no budget left."""
    return (job.platform, share_of(job.tier, job.type)) in closed


def closed_by(job: JobCandidate) -> set[ClosedShare]:
    """Return the shares that close if there is no budget for this job: its own and lesser ones."""
    shares = list(DayShare)
    lesser = shares[shares.index(share_of(job.tier, job.type)) :]
    return {(job.platform, share) for share in lesser}


def over_quota(front: Sequence[JobCandidate]) -> dict[SellerId, Tier]:
    """Return the sellers whose orders of the month are used up, with their tier."""
    return {job.user_id: job.tier for job in front if job.is_over_quota}


def plan_limit_notice(now: datetime) -> str:
    """Return what a seller reads whose orders of the month are used up."""
    return (
        "The orders of the month that your plan includes are used up. New data is read again from"
        f" {next_month(now):%-d %B %Y}, or at once with a higher plan."
    )


def choose(
    front: Sequence[JobCandidate], room: int, over: Collection[SellerId]
) -> list[JobCandidate]:
    """Return the best jobs, one of each account, without those of sellers over their quota."""
    best: dict[str, JobCandidate] = {}
    for job in front:
        if len(best) < room and job.user_id not in over:
            best.setdefault(job.account_id, job)
    return list(best.values())


def costs(job: JobCandidate, limit: float, rule: JobRule) -> list[float]:
    """Return the reservations to try, largest first: what the run needs, else the minimum."""
    needed = reservation(job.calls_estimate, run_calls=job.run_calls, job_type=job.type, rule=rule)
    return sorted({min(needed, limit), min(CALLS_MIN, limit)}, reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftToOthers:
    """What a job leaves of its platform's day; alone if that is because of its own use."""

    calls: float
    is_alone: bool


def left_to_others(
    job: JobCandidate,
    plan: DayPlan,
    used: Mapping[DayShare, float],
    rule: JobRule,
    now: datetime,
) -> LeftToOthers:
    """Return what a due job leaves to others; one that used more than its share leaves more."""
    share, waited = share_of(job.tier, job.type), now - waits_since(job, rule)
    beyond = calls_beyond_share(job, rule, now, stretch=plan.stretch(share))
    if beyond:
        calls = plan.leave_beyond(share, used, beyond=beyond, waited=waited)
        return LeftToOthers(calls=calls, is_alone=True)
    return LeftToOthers(calls=plan.leave(share, used, waited), is_alone=False)


def type_after(job_type: JobType, status: JobStatus) -> JobType:
    """Return the type of a job after a claim; a completed webhook job becomes incremental."""
    is_pulled = job_type is not JobType.BACKFILL and status is JobStatus.COMPLETED
    return JobType.INCREMENTAL if is_pulled else job_type


# Scores by tier and type, as the statements need them.
SCORES_BY_TIER: Mapping[str, Mapping[str, int]] = {
    tier.value: {job_type.value: score(tier, job_type) for job_type in JobType} for tier in Tier
}
EVENTS = {
    JobStatus.COMPLETED: "job_completed",
    JobStatus.FAILED: "job_failed",
    JobStatus.DEAD: "job_dead",
    JobStatus.LIMITED: "plan_limit_reached",
    JobStatus.CANCELLED: "job_cancelled",
}


def event_of(status: JobStatus, reason: str) -> str:
    """Return the event type of a claim's end; a queued job yielded, or has to wait."""
    return EVENTS.get(status, "job_rescheduled" if reason else "job_yielded")
