"""Why a job of the account lane waits, until when, and its place (law L13)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from headway.core.accounts.jobs import (
    DataKind,
    JobRule,
    JobStatus,
    JobType,
    PlatformName,
    Tier,
    calls_beyond_share,
    next_month,
    rank,
)
from headway.core.catalog.listings import SellerId
from headway.core.limits.daily_shares import DayShare, share_of
from headway.core.pauses import Pause, longest
from headway.core.reasons import describe_pause, format_duration, format_time


class JobState(StrEnum):
    """What a job is doing, or what it waits for."""

    RUNNING = "running"
    SILENT = "silent"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    QUOTA = "plan limit"
    BACKOFF = "backoff"
    NOT_DUE = "not due"
    NO_ANSWER = "no answer"
    RATE_LIMITED = "rate limited"
    PAUSED = "paused"
    BUDGET = "budget"
    BUSY = "account busy"
    FULL = "all places taken"
    NEXT = "next"
    IN_LINE = "in line"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPosition:
    """One job's row, and its place among those that are due (`has_more`: at least that far).

    `is_over_quota` if its seller's orders of the month are used up: it is set aside once it is due.
    `unreadable_example` is one of the records that cannot be read, and why.
    """

    id: str
    account_id: str
    user_id: SellerId
    platform: PlatformName
    shop: str
    kind: DataKind
    type: JobType
    tier: Tier
    score: int
    status: JobStatus
    next_run_at: datetime | None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    lease_until: datetime | None = None
    lease_owner: str | None = None
    retry_count: int = 0
    last_error: str = ""
    wait_reason: str = ""
    calls_estimate: float = 0.0
    run_calls: int = 0
    queries_used: int = 0
    changed_at: datetime | None = None
    day_calls: float = 0.0
    day_calls_at: datetime | None = None
    revive_at: datetime | None = None
    unreadable_count: int = 0
    unreadable_example: str = ""
    ahead_count: int | None = None
    has_more: bool = False
    is_over_quota: bool = False

    @property
    def name(self) -> str:
        """The job's name for people; the backfill of a kind is a job of its own."""
        history = "/history" if self.type is JobType.BACKFILL else ""
        return f"{self.user_id}/{self.platform}/{self.kind}{history}"

    def is_due(self, now: datetime) -> bool:
        """Return True if the job would run now unless something blocks it."""
        return self.status in WAITING and self.next_run_at is not None and self.next_run_at <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """Why no job of a platform and share may run now, and from when on one may."""

    state: JobState
    explain_job: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueueState:
    """What every job waits for: places, accounts that are busy, platforms and budgets.

    `platforms` are those whose jobs can run.
    """

    running_count: int
    running_max: int
    ageing: timedelta
    platforms: tuple[PlatformName, ...] = ()
    busy: Collection[str] = ()
    pauses: Sequence[Pause] = ()
    shut: Mapping[tuple[PlatformName, DayShare], Shut] = field(default_factory=dict)
    order_quotas: Mapping[Tier, int] = field(default_factory=dict)
    rule: JobRule | None = None
    stretch: Mapping[tuple[PlatformName, DayShare], float] = field(default_factory=dict)

    def is_beyond_share(self, position: JobPosition, now: datetime) -> bool:
        """Return True if a job has used more than its share of its platform's day."""
        stretch = self.stretch.get((position.platform, share_of(position.tier, position.type)))
        if self.rule is None or stretch is None:
            return False
        return calls_beyond_share(position, self.rule, now, stretch=stretch) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """Why a job waits and until when; None if only a person ends it."""

    state: JobState
    sentence: str
    until: datetime | None = None


WAITING = frozenset({JobStatus.QUEUED, JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.LIMITED})


def aged(position: JobPosition, queue: JobQueueState, now: datetime) -> float:
    """Return the score with what waiting has added to it."""
    due_at = position.next_run_at or now
    return rank(position.score, due_at, now, queue.ageing)


def explain_job(position: JobPosition, queue: JobQueueState, now: datetime) -> JobAnswer:
    """Return what a job does, or the first thing that blocks it and until when.

    Records that it cannot read are named too.
    """
    answer = _answer(position, queue, now)
    count = position.unreadable_count
    if not count:
        return answer
    records = "1 record cannot" if count == 1 else f"{count} records cannot"
    aside = f"{records} be read, and all others are ({position.unreadable_example})."
    return replace(answer, sentence=f"{answer.sentence} {aside}")


def _answer(position: JobPosition, queue: JobQueueState, now: datetime) -> JobAnswer:
    if position.status is JobStatus.RUNNING:
        return _running(position, now)
    if position.next_run_at is None:
        return _at_rest(position, now)
    if position.is_over_quota and position.next_run_at < next_month(now):
        return _over_quota(position, next_month(now), now)
    if position.is_due(now):
        return _due(position, queue, now)
    held = _held(position, queue, f"Due at {format_time(position.next_run_at, now)}", now)
    if held is not None and (held.until is None or held.until > position.next_run_at):
        return held
    return _later(position, position.next_run_at, now)


def _running(position: JobPosition, now: datetime) -> JobAnswer:
    until = position.lease_until or now
    if until < now:
        return JobAnswer(
            state=JobState.SILENT,
            sentence=(
                f"Its worker has not responded since {format_time(until, now)}; the next round"
                " frees the job, and it continues where it was."
            ),
            until=now,
        )
    calls = f"{position.run_calls:,} call{'' if position.run_calls == 1 else 's'}"
    about = f" of about {position.calls_estimate:,.0f}" if position.calls_estimate else ""
    since = f" since {format_time(position.started_at, now)}" if position.started_at else ""
    return JobAnswer(
        state=JobState.RUNNING,
        sentence=f"Runs{since}, {calls}{about} so far.",
        until=until,
    )


def _at_rest(position: JobPosition, now: datetime) -> JobAnswer:
    if position.status is JobStatus.DEAD:
        count, again = position.retry_count, "fix that, then:"
        if position.revive_at is not None:
            until = format_time(position.revive_at, now)
            again = f"it is tried again at {until}, or immediately with:"
        return JobAnswer(
            state=JobState.DEAD,
            sentence=(
                f"Dead after {count} failure{'' if count == 1 else 's'} in a row"
                f" ({position.last_error or 'no reason given'}); {again}"
                f" headway revive {position.id}"
            ),
            until=position.revive_at,
        )
    if position.status is JobStatus.CANCELLED:
        reason = position.wait_reason or "no reason given"
        return JobAnswer(
            state=JobState.CANCELLED,
            sentence=(
                f"Cancelled because the account is disconnected ({reason}); once it is connected"
                " again, it continues where it was."
            ),
        )
    if position.status is JobStatus.PAUSED:
        why = f" ({position.wait_reason})" if position.wait_reason else ""
        return JobAnswer(
            state=JobState.PAUSED,
            sentence=(
                f"Paused by a person{why}; to continue: headway accounts resume"
                f" {position.account_id}"
            ),
        )
    return JobAnswer(state=JobState.DONE, sentence="All history is pulled; nothing is left to do.")


def _over_quota(position: JobPosition, until: datetime, now: datetime) -> JobAnswer:
    return JobAnswer(
        state=JobState.QUOTA,
        sentence=(
            f"The monthly order quota of the tier {position.tier} is used up; it continues at"
            f" {format_time(until, now)}, or immediately with a higher tier."
        ),
        until=until,
    )


def _later(position: JobPosition, until: datetime, now: datetime) -> JobAnswer:
    if position.status is JobStatus.LIMITED:
        return _over_quota(position, until, now)
    at = format_time(until, now)
    if position.status is JobStatus.FAILED:
        count = position.retry_count
        return JobAnswer(
            state=JobState.BACKOFF,
            sentence=(
                f"Failed {'once' if count == 1 else f'{count} times in a row'}"
                f" ({position.last_error or 'no reason given'}); tried again at {at}."
            ),
            until=until,
        )
    reason = f": {position.wait_reason}" if position.wait_reason else ""
    return JobAnswer(state=JobState.NOT_DUE, sentence=f"Due at {at}{reason}.", until=until)


def _held(position: JobPosition, queue: JobQueueState, due: str, now: datetime) -> JobAnswer | None:
    """Return what keeps a due job from running, such as a pause or a budget; None if nothing."""
    pause = longest(pause for pause in queue.pauses if stops_job(pause, position.user_id))
    if pause is not None:
        return JobAnswer(
            state=JobState.PAUSED,
            sentence=f"{due}, but {pause.what} is {describe_pause(pause, now)}.",
            until=pause.until,
        )
    share, why = share_of(position.tier, position.type), ""
    if queue.is_beyond_share(position, now):
        share, why = DayShare.HISTORY, "this shop has used its share of the day, and "
    shut = queue.shut.get((position.platform, share))
    if shut is not None:
        return JobAnswer(
            state=shut.state,
            sentence=(
                f"{due}, but {why}{shut.explain_job}; possible from {format_time(shut.until, now)}."
            ),
            until=shut.until,
        )
    return None


def _due(position: JobPosition, queue: JobQueueState, now: datetime) -> JobAnswer:
    due = f"Due {_since(position, now)}"
    held = _held(position, queue, due, now)
    if held is not None:
        return held
    if position.account_id in queue.busy:
        return JobAnswer(
            state=JobState.BUSY,
            sentence=f"{due}; another job of this shop is running, and they run one at a time.",
            until=now,
        )
    if queue.running_count >= queue.running_max:
        return JobAnswer(
            state=JobState.FULL,
            sentence=f"{due}; {queue.running_count} jobs are running, as many as may run at once.",
            until=now,
        )
    if not position.ahead_count:
        return JobAnswer(
            state=JobState.NEXT, sentence=f"{due}; the next free worker takes it.", until=now
        )
    ahead = f"{position.ahead_count:,}{' or more' if position.has_more else ''}"
    noun = "job runs" if position.ahead_count == 1 else "jobs run"
    return JobAnswer(state=JobState.IN_LINE, sentence=f"{due}; {ahead} {noun} first.", until=now)


def stops_job(pause: Pause, seller: SellerId) -> bool:
    """Return True if a pause stops the jobs of a seller."""
    return pause.stops_writes and pause.covers(seller)


def _since(position: JobPosition, now: datetime) -> str:
    due_at = position.next_run_at or now
    return "now" if due_at >= now else f"for {format_duration(now - due_at)}"
