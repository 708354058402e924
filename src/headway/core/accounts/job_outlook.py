"""When a waiting job will run: the queue of jobs, played forward with the rules that claim them.

Each claim takes the best job that is due and for which its platform's day has room. A run that ends
is due again after its interval. What webhooks will ask for is unknown, so they are left out.
"""

from bisect import insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from math import ceil, exp

from headway.core.accounts.claims import (
    SHARES,
    ClosedShare,
    closed_by,
    costs,
    left_to_others,
)
from headway.core.accounts.jobs import (
    DAY,
    JobCandidate,
    JobRule,
    JobType,
    PlatformName,
    rank,
    stretched,
)
from headway.core.limits.daily_shares import DayPlan, DayShare, share_of

# So far ahead, and so many claims, a forecast is worth its while.
HORIZON = timedelta(hours=36)
CLAIMS_MAX = 6000
# Quota becomes free, and waits become too long, at moments in between: look again this often.
LOOK_EVERY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class HourCalls:
    """Calls that a share made in an hour."""

    hour: datetime
    share: DayShare
    calls: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOutlook:
    """A platform's day: its plan, what is used and until when that counts, what is reserved.

    Calls count until `stay` after the end of the time `bucket` in which they were made.
    """

    plan: DayPlan
    uses: Sequence[tuple[datetime, float]]
    hours: Sequence[HourCalls]
    reserved: float
    bucket: timedelta
    stay: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutlook:
    """Everything that a forecast needs.

    `jobs` wait, `running` jobs end soon. A platform is shut until `opens_at`. `call_lasts` is how
    long a call and what is around it takes, `history_calls` how many a history needs in all.
    """

    jobs: Sequence[JobCandidate]
    running: Sequence[JobCandidate]
    days: Mapping[PlatformName, DayOutlook]
    rule: JobRule
    opens_at: Mapping[PlatformName, datetime] = field(default_factory=dict)
    call_lasts: timedelta = timedelta(seconds=1)
    history_calls: Mapping[PlatformName, float] = field(default_factory=dict)


def foresee_jobs(outlook: JobOutlook, now: datetime, ids: Collection[str]) -> dict[str, datetime]:
    """Return when each of these jobs will run; those beyond the horizon are left out."""
    return _FutureJobs(outlook, now, set(ids)).play()


@dataclass(slots=True)
class _FutureDay:
    """A platform's day as it will be."""

    outlook: DayOutlook
    used: float = 0.0
    reserved: float = 0.0
    leaving: list[tuple[datetime, float]] = field(default_factory=list)
    share_leaving: list[tuple[datetime, str, float]] = field(default_factory=list)
    by_share: dict[DayShare, float] = field(default_factory=lambda: dict.fromkeys(DayShare, 0.0))

    def __post_init__(self) -> None:
        self.reserved = self.outlook.reserved
        for leaves_at, amount in self.outlook.uses:
            self.used += amount
            heappush(self.leaving, (leaves_at, amount))
        for past in self.outlook.hours:
            self._count(past.share, past.calls, past.hour)

    def move_to(self, at: datetime) -> None:
        """Forget what no longer counts at that instant."""
        while self.leaving and self.leaving[0][0] <= at:
            self.used -= heappop(self.leaving)[1]
        while self.share_leaving and self.share_leaving[0][0] <= at:
            _, share, amount = heappop(self.share_leaving)
            self.by_share[DayShare(share)] -= amount

    def reserve(self, cost: float, leave: float) -> bool:
        """Reserve that many calls if they fit beside what is used, reserved and left to others."""
        if self.used + self.reserved + cost + leave > self.outlook.plan.limit:
            return False
        self.reserved += cost
        return True

    def settle(self, share: DayShare, reserved: float, made: float, at: datetime) -> None:
        """Replace a reservation by the calls that were made."""
        self.reserved = max(0.0, self.reserved - reserved)
        self.used += made
        bucket = self.outlook.bucket
        begun = at - (at - at.replace(hour=0, minute=0, second=0, microsecond=0)) % bucket
        heappush(self.leaving, (begun + bucket + self.outlook.stay, made))
        self._count(share, made, at.replace(minute=0, second=0, microsecond=0))

    def _count(self, share: DayShare, amount: float, hour: datetime) -> None:
        self.by_share[share] += amount
        heappush(self.share_leaving, (hour + DAY, share.value, amount))


@dataclass(frozen=True, slots=True, kw_only=True)
class _FutureRun:
    """A run under way: what it reserved, and the calls that it will have made."""

    job: JobCandidate
    started_at: datetime
    reserved: float
    calls: float


class _FutureJobs:
    """The queue as it will be: due jobs by platform and score, coming ones, and runs under way."""

    def __init__(self, outlook: JobOutlook, now: datetime, ids: set[str]) -> None:
        self._outlook = outlook
        self._now = now
        self._left = ids
        self._times: dict[str, datetime] = {}
        self._days = {name: _FutureDay(day) for name, day in outlook.days.items()}
        self._stretch = {
            (name, share): day.plan.stretch(share)
            for name, day in outlook.days.items()
            for share in (DayShare.PAID, DayShare.FREE)
        }
        self._due: dict[tuple[PlatformName, int], list[JobCandidate]] = {}
        self._events: list[tuple[datetime, int, JobCandidate | _FutureRun | None]] = []
        self._numbers = count()
        self._busy: set[str] = set()
        self._closed: set[ClosedShare] = set()
        self._claims = 0
        for job in outlook.jobs:
            self._add(max(now, job.due_at), job)
        for job in outlook.running:
            self._resume(job)
        self._add(now, None)

    def play(self) -> dict[str, datetime]:
        """Return when each job runs that was asked for."""
        end = self._now + HORIZON
        while self._left and self._events and self._claims < CLAIMS_MAX:
            at = self._events[0][0]
            if at > end:
                break
            while self._events and self._events[0][0] <= at:
                self._happen(heappop(self._events)[2], at)
            for day in self._days.values():
                day.move_to(at)
            while self._claim(at):
                pass
        return self._times

    # -- what happens ------------------------------------------------------------------------

    def _add(self, at: datetime, what: JobCandidate | _FutureRun | None) -> None:
        heappush(self._events, (at, next(self._numbers), what))

    def _happen(self, what: JobCandidate | _FutureRun | None, at: datetime) -> None:
        if isinstance(what, JobCandidate):
            queue = self._due.setdefault((what.platform, what.score), [])
            insort(queue, what, key=_due_order)
        elif what is None:
            self._closed.clear()
            self._add(_next_look(at), None)
        else:
            self._end(what, at)

    def _resume(self, job: JobCandidate) -> None:
        """Let a job that runs now end as its estimate says."""
        calls = max(1.0, job.calls_estimate - job.run_calls)
        day, share = self._outlook.days.get(job.platform), 0.0
        if day is not None:
            share = day.reserved / sum(
                run.platform == job.platform for run in self._outlook.running
            )
        self._busy.add(job.account_id)
        started_at = job.started_at or self._now
        run = _FutureRun(job=job, started_at=started_at, reserved=share, calls=calls)
        self._add(self._now + calls * self._outlook.call_lasts, run)

    def _end(self, run: _FutureRun, at: datetime) -> None:
        """End a run: its calls count, and its job is due again."""
        job, rule = run.job, self._outlook.rule
        share, day = share_of(job.tier, job.type), self._days.get(job.platform)
        self._busy.discard(job.account_id)
        if day is not None:
            day.settle(share, run.reserved, run.calls, at)
            if run.calls < run.reserved:
                self._closed.clear()
        made = job.run_calls + ceil(run.calls)
        since = timedelta(0) if job.day_calls_at is None else at - job.day_calls_at
        again = replace(
            job,
            due_at=at,
            run_calls=made,
            day_calls=run.calls + job.day_calls * exp(-max(timedelta(0), since) / DAY),
            day_calls_at=at,
            started_at=run.started_at,
        )
        if job.type is JobType.BACKFILL:
            if made < self._outlook.history_calls.get(job.platform, float("inf")):
                self._add(at, again)
            return
        if made >= ceil(job.calls_estimate):
            span = stretched(
                job.tier, job.kind, rule, self._stretch.get((job.platform, share), 1.0)
            )
            again = replace(again, due_at=max(at, run.started_at + span), run_calls=0)
        self._add(again.due_at, again)

    # -- a claim -----------------------------------------------------------------------------

    def _claim(self, at: datetime) -> bool:
        """Take the best job that may run; return False if none may."""
        if len(self._busy) >= self._outlook.rule.running_max:
            return False
        job = self._best(at)
        if job is None:
            return False
        reserved = self._reserve(job, at)
        if reserved is None:
            return True
        self._due[(job.platform, job.score)].remove(job)
        self._busy.add(job.account_id)
        self._claims += 1
        if job.id in self._left:
            self._left.discard(job.id)
            self._times[job.id] = at
        calls = self._calls(job, reserved)
        run = _FutureRun(job=job, started_at=at, reserved=reserved, calls=calls)
        self._add(at + max(1.0, calls) * self._outlook.call_lasts, run)
        return True

    def _best(self, at: datetime) -> JobCandidate | None:
        """Return the best due job whose account is free and whose share is open."""
        best, best_rank = None, -1.0
        for (platform, score), queue in self._due.items():
            shut = self._outlook.opens_at.get(platform, at) > at
            if not queue or shut or (platform, SHARES[score]) in self._closed:
                continue
            job = next((job for job in queue if job.account_id not in self._busy), None)
            if job is None:
                continue
            its_rank = rank(score, job.due_at, at, self._outlook.rule.ageing)
            if best is None or (its_rank, best.due_at, best.id) > (best_rank, job.due_at, job.id):
                best, best_rank = job, its_rank
        return best

    def _reserve(self, job: JobCandidate, at: datetime) -> float | None:
        """Return what a job reserves of its day; None if there is no room, and its share closes."""
        day = self._days.get(job.platform)
        if day is None:
            return 0.0
        plan, rule = day.outlook.plan, self._outlook.rule
        left = left_to_others(job, plan, day.by_share, rule, at)
        for cost in costs(job, plan.limit, rule):
            if day.reserve(cost, left.calls):
                return cost
        if left.is_alone:  # the others of its share may have room: it waits for the next look
            self._due[(job.platform, job.score)].remove(job)
            self._add(_next_look(at), job)
        else:
            self._closed |= closed_by(job)
        return None

    def _calls(self, job: JobCandidate, reserved: float) -> float:
        """Return how many calls a run makes before it ends or yields."""
        most = self._outlook.rule.calls_per_claim[job.type]
        if job.type is JobType.BACKFILL:
            return min(reserved, most) if job.platform in self._days else most
        return min(max(1.0, job.calls_estimate - job.run_calls), most)


def _due_order(job: JobCandidate) -> tuple[datetime, str]:
    return job.due_at, job.id


def _next_look(at: datetime) -> datetime:
    """Return the next full five minutes: a full hour is one of them."""
    return (
        at - (at - at.replace(hour=0, minute=0, second=0, microsecond=0)) % LOOK_EVERY + LOOK_EVERY
    )
