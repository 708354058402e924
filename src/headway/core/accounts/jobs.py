"""Jobs of the account lane: their order, and the state of a job after a run.

queued ──claim──▶ running ──▶ completed ──due──▶ queued      (a backfill stays completed)
                     ├──────▶ queued                         yields, has to wait, quota spent
                     ├──────▶ failed ──due──▶ queued         2^n minutes later
                     ├──────▶ dead ──revive──▶ queued        the fifth failure; notifies the seller;
                     │                                       by itself now and then after an outage
                     └──────▶ plan_limit_reached ──month, upgrade──▶ queued
any but dead ──disconnect──▶ cancelled ──reconnect──▶ queued, from its cursor
any but dead ──a person──▶ paused ──a person──▶ queued, from its cursor
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from math import ceil, exp
from typing import NewType, Protocol

from headway.core.accounts.pagination import Cursor
from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError

# Where sellers sell: the name of a provider with the role of a platform.
PlatformName = NewType("PlatformName", str)
PLATFORM_PATTERN = r"^[a-z][a-z0-9_-]{0,30}$"


class Tier(StrEnum):
    """What a seller pays for, least first."""

    FREE = "free"
    STARTER = "starter"
    GROWTH = "growth"
    PRO = "pro"

    @property
    def weight(self) -> int:
        """1 for free to 4 for pro."""
        return list(Tier).index(self) + 1

    @property
    def is_paid(self) -> bool:
        """True if the seller pays."""
        return self is not Tier.FREE


class DataKind(StrEnum):
    """What a job pulls."""

    ORDERS = "orders"
    LISTINGS = "listings"
    CUSTOMERS = "customers"
    PAYMENTS = "payments"


class JobType(StrEnum):
    """Why a job runs, least urgent first."""

    BACKFILL = "backfill"
    INCREMENTAL = "incremental"
    WEBHOOK = "webhook_triggered"

    @property
    def weight(self) -> int:
        """1 for a backfill to 3 for a webhook."""
        return list(JobType).index(self) + 1


class JobStatus(StrEnum):
    """Where a job stands; see the drawing above."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    LIMITED = "plan_limit_reached"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A seller's connection to a platform; `shop` is a domain or the platform's shop id.

    `owner_id` is the account that the platform's limit applies to, if that is not the shop.
    """

    id: str
    user_id: SellerId
    platform: PlatformName
    shop: str
    owner_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A claimed job, with what is needed to run and to settle it.

    `wanted` are ids that webhooks named. `run_calls` counts the calls of the current run, over
    all its claims; `is_first` until a run was completed; `is_paused` once a person stopped it.
    `enlisted_at` is when its account was connected.
    """

    id: str
    account: Account
    kind: DataKind
    type: JobType
    tier: Tier
    fence: int
    cursor: Cursor
    started_at: datetime
    due_at: datetime
    retry_count: int = 0
    calls_estimate: float = 0.0
    run_calls: int = 0
    requested_ids: tuple[str, ...] = ()
    is_first: bool = False
    is_paused: bool = False
    enlisted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRule:
    """The numbers of the account lane; see `config` for what each means."""

    intervals: Mapping[Tier, timedelta]
    kind_intervals: Mapping[DataKind, timedelta]
    order_quotas: Mapping[Tier, int]
    running_max: int = 10
    failures_max: int = 5
    # A job gains a point of score for each such span that it waits beyond its due time.
    ageing: timedelta = timedelta(minutes=5)
    # After this many calls a run yields to others, and continues later.
    calls_per_claim: Mapping[JobType, int] = field(
        default_factory=lambda: {
            JobType.BACKFILL: 10,
            JobType.INCREMENTAL: 50,
            JobType.WEBHOOK: 50,
        }
    )
    lease: timedelta = timedelta(seconds=90)


# What has a history to be pulled once; listings are walked whole every time.
BACKFILLED = frozenset({DataKind.ORDERS, DataKind.CUSTOMERS, DataKind.PAYMENTS})


MINUTE = timedelta(minutes=1)
# What a run reserves of a day: what it usually needs, between a minimum and a maximum share.
CALLS_MIN = 2
CALLS_MAX = 100
# How fast the estimate of a run's calls follows what runs need.
LEARNING = 0.3
DAY = timedelta(days=1)
# How much longer than promised an interval becomes at most; jobs then leave nothing to others.
STRETCH_MAX = DAY * 2 / 3
# How much of a day a job may use, as a multiple of what its runs need.
SHARE_SLACK = 1.5
THROTTLE_MAX = timedelta(minutes=15)
# How often a job that died of an outage is tried again.
REVIVE_EVERY = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCandidate:
    """A job at the front of the queue, not yet claimed.

    `is_over_quota` when its seller has used up the month's orders. `started_at` is the start of
    its last run, None if it never ran.
    """

    id: str
    account_id: str
    user_id: SellerId
    platform: PlatformName
    score: int
    tier: Tier
    type: JobType
    due_at: datetime
    calls_estimate: float = 0.0
    run_calls: int = 0
    is_over_quota: bool = False
    kind: DataKind = DataKind.ORDERS
    day_calls: float = 0.0
    day_calls_at: datetime | None = None
    started_at: datetime | None = None


class DayUse(Protocol):
    """What a job uses of its platform's day: `day_calls` a day, as of an instant."""

    @property
    def type(self) -> JobType:
        """Why it runs."""

    @property
    def tier(self) -> Tier:
        """What its seller pays for."""

    @property
    def kind(self) -> DataKind:
        """What it pulls."""

    @property
    def calls_estimate(self) -> float:
        """Calls that a run needs; 0 if unknown."""

    @property
    def day_calls(self) -> float:
        """Calls a day, as of `day_calls_at`."""

    @property
    def day_calls_at(self) -> datetime | None:
        """When it made its last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Result of a claim: the new status of the job, and until when.

    A dead job with `revive_at` is tried again from then on, without a person.
    """

    status: JobStatus
    next_run_at: datetime | None
    retry_count: int = 0
    reason: str = ""
    revive_at: datetime | None = None


def platform_name(text: str) -> PlatformName:
    """Return the name of a platform, known or not; raises InvalidError if it cannot be one."""
    if not re.match(PLATFORM_PATTERN, text) or text.endswith("\n"):
        raise InvalidError(f"{text!r} is not the name of a platform; see: headway providers")
    return PlatformName(text)


def score(tier: Tier, job_type: JobType) -> int:
    """Return the score before ageing, from 43 (webhook, pro tier) to 11 (backfill, free tier)."""
    return tier.weight * 10 + job_type.weight


SCORES = tuple(score(tier, job_type) for tier in Tier for job_type in JobType)


def rank(base: int, due_at: datetime, now: datetime, ageing: timedelta) -> float:
    """Return the rank, highest first: the score plus a point for each span of waiting."""
    return base + max(timedelta(0), now - due_at) / ageing


def in_order(
    candidates: Iterable[JobCandidate], now: datetime, ageing: timedelta
) -> list[JobCandidate]:
    """Return the candidates, best first; of equals, the longest due first."""
    return sorted(
        candidates,
        key=lambda candidate: (
            -rank(candidate.score, candidate.due_at, now, ageing),
            candidate.due_at,
            candidate.id,
        ),
    )


def reservation(estimate: float, *, run_calls: int, job_type: JobType, rule: JobRule) -> int:
    """Return how many calls a claim reserves: what its run still needs, as far as it may go."""
    needed = ceil(estimate) - run_calls
    return max(CALLS_MIN, min(needed, rule.calls_per_claim[job_type], CALLS_MAX))


def learn(estimate: float, calls: int) -> float:
    """Return what a run is expected to need, after one that needed that many calls."""
    return float(calls) if estimate <= 0 else estimate + LEARNING * (calls - estimate)


def next_month(now: datetime) -> datetime:
    """Return the first instant of the next calendar month."""
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)


def throttle_pause(times: int, job_id: str) -> timedelta:
    """Return the pause after the n-th throttled reply in a row that names no wait time."""
    pause = min(timedelta(seconds=2 ** min(times, 20)), THROTTLE_MAX)
    return pause * (1 + _phase(job_id)) / 2


def interval(tier: Tier, kind: DataKind, rule: JobRule) -> timedelta:
    """Return how often what is new is looked for."""
    return max(rule.intervals[tier], rule.kind_intervals[kind])


def stretched(tier: Tier, kind: DataKind, rule: JobRule, stretch: float) -> timedelta:
    """Return the interval where a platform's day is too short for all.

    It is never so much longer that no time is left to find room in the day.
    """
    span = interval(tier, kind, rule)
    return max(span, min(span * stretch, span + STRETCH_MAX, DAY))


def waits_since(job: JobCandidate, rule: JobRule) -> datetime:
    """Return since when a due job waits: for news from its interval on, however stretched.

    History has no interval, and waits since it last yielded.
    """
    if job.type is JobType.BACKFILL or job.started_at is None:
        return job.due_at
    return min(job.due_at, job.started_at + interval(job.tier, job.kind, rule))


def calls_beyond_share(job: DayUse, rule: JobRule, now: datetime, *, stretch: float) -> float:
    """Return how many more calls a job made in a day than its share; 0 if no more.

    The share is what its runs need at the interval of its tier, stretched as everybody's is, and
    half as much again for webhooks and retries. History has no share: it leaves all to what is new.
    """
    if job.type is JobType.BACKFILL or job.day_calls_at is None:
        return 0.0
    made = job.day_calls * exp(-max(timedelta(0), now - job.day_calls_at) / DAY)
    runs = DAY / stretched(job.tier, job.kind, rule, stretch)
    return max(0.0, made - SHARE_SLACK * runs * (job.calls_estimate or CALLS_MIN))


def completed(job: Job, rule: JobRule, now: datetime, *, stretch: float = 1.0) -> Ending:
    """End a completed run; an incremental job is scheduled again, a backfill is not.

    The first interval is shortened at random, to spread accounts that were connected together.
    """
    if job.type is JobType.BACKFILL:
        return Ending(status=JobStatus.COMPLETED, next_run_at=None)
    span = stretched(job.tier, job.kind, rule, stretch)
    if job.is_first:
        span *= (1 + _phase(job.id)) / 2
    return Ending(status=JobStatus.COMPLETED, next_run_at=max(now, job.started_at + span))


def failed(
    job: Job, rule: JobRule, reason: str, now: datetime, *, may_pass: bool = False
) -> Ending:
    """Charge a job with a failure: tried again after 2^n minutes, dead after a few.

    A failure that may pass, such as an outage, leaves a dead job that is tried now and then.
    """
    count = job.retry_count + 1
    if count >= rule.failures_max:
        revive_at = now + REVIVE_EVERY if may_pass else None
        return Ending(
            status=JobStatus.DEAD,
            next_run_at=None,
            retry_count=count,
            reason=reason,
            revive_at=revive_at,
        )
    return Ending(
        status=JobStatus.FAILED,
        next_run_at=now + 2**count * MINUTE,
        retry_count=count,
        reason=reason,
    )


def rescheduled(job: Job, until: datetime, reason: str) -> Ending:
    """Release a job without a failure: it continues from its cursor at that time."""
    return Ending(
        status=JobStatus.QUEUED, next_run_at=until, retry_count=job.retry_count, reason=reason
    )


def limited(job: Job, now: datetime) -> Ending:
    """Set a job aside until its seller may have orders again."""
    return Ending(
        status=JobStatus.LIMITED,
        next_run_at=next_month(now),
        retry_count=job.retry_count,
        reason="the month's orders are used up",
    )


def _phase(job_id: str) -> float:
    """Return a number in [0, 1) that is this job's own."""
    return int.from_bytes(sha256(job_id.encode()).digest()[:4], "big") / 2**32
