"""A claim under way: a job, where its run is, what it holds, what it has used."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headway.core.accounts.jobs import DataKind, Job, JobType
from headway.core.accounts.narrowing import (
    NARROW,
    Narrowed,
    NarrowingPaginator,
    has_known_rows,
)
from headway.core.accounts.pagination import RUN, SINCE, Cursor, Paginator
from headway.core.dispatch import PullClaim
from headway.core.limits.transitions import CallReport, Permit
from headway.core.monitoring import calls
from headway.engine.ports import JobsPort, Platform
from headway.engine.ports_limits import Limiter
from headway.engine.pull_progress import with_failures, without_trace
from headway.errors import (
    AppRefusedError,
    MovedError,
    PermanentError,
    ProviderError,
    RequestRefusedError,
    SuspendedError,
    ThrottledError,
    TimedOutError,
    TooLargeError,
    TransientError,
    UnsentError,
)

ANSWERED, MISSING = 200, 404
# Statuses that say nothing about a list, and errors that no row of a page can cause.
NO_LISTS_FAULT = (401, 403)
NO_ROWS_FAULT = (
    AppRefusedError,
    MovedError,
    RequestRefusedError,
    SuspendedError,
    ThrottledError,
    UnsentError,
)

# Open orders that are looked at again at the start of a run, at most.
RECHECKS_MAX = 20
# What a bug raises, in a walk or in reading a reply.
BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(slots=True, kw_only=True)
class Claim:
    """State of a claimed job in its worker.

    `sent` are the calls of this claim, `unrecorded` those that the store does not know of yet.
    `spent` is what was taken of the day's reservation for them, and is one ahead before a call.
    """

    job: Job
    walk: Paginator
    cursor: Cursor
    day: Permit | None
    opened: Platform | None = None
    permit: Permit | None = None
    sent: int = 0
    unrecorded: int = 0
    spent: int = 0
    waits_since: datetime | None = None
    has_begun: bool = False
    has_refreshed: bool = False
    is_answered: bool = False
    is_accepted: bool = False

    @property
    def platform(self) -> Platform:
        """The platform's client."""
        assert self.opened is not None, "a step opens it first"
        return self.opened

    @property
    def what(self) -> str:
        """A short description for people."""
        account = self.job.account
        return f"{account.platform} {account.shop} {self.job.kind}"

    @property
    def packed(self) -> PullClaim:
        """The claim as it passes to another worker."""
        return PullClaim(
            job=self.job,
            cursor=self.cursor if self.has_begun else None,
            day=self.day,
            permit=self.permit,
            sent=self.sent,
            unrecorded=self.unrecorded,
            spent=self.spent,
            waits_since=self.waits_since,
            has_refreshed=self.has_refreshed,
            is_answered=self.is_answered,
        )


def unpacked(pull_claim: PullClaim, walk: Paginator) -> Claim:
    """Return the claim as another worker left it."""
    return Claim(
        job=pull_claim.job,
        walk=walk,
        cursor=pull_claim.job.cursor if pull_claim.cursor is None else pull_claim.cursor,
        day=pull_claim.day,
        permit=pull_claim.permit,
        sent=pull_claim.sent,
        unrecorded=pull_claim.unrecorded,
        spent=pull_claim.spent,
        waits_since=pull_claim.waits_since,
        has_begun=pull_claim.cursor is not None,
        has_refreshed=pull_claim.has_refreshed,
        is_answered=pull_claim.is_answered,
    )


def begin_run(jobs: JobsPort, job: Job, walk: Paginator, now: datetime) -> Cursor:
    """Begin a run, or continue the current one; both first read what webhooks named."""
    if RUN in job.cursor:
        try:
            cursor = walk.begin(job.cursor, now, job.requested_ids)
            walk.ask(cursor)
        except BUGS:  # an older walk left it, which this one does not understand
            lasting = {name: value for name, value in job.cursor.items() if name != RUN}
            return walk.begin(lasting, now, job.requested_ids)
        return cursor
    ids = list(job.requested_ids)
    is_for_new = job.kind is DataKind.ORDERS and job.type is not JobType.BACKFILL
    if is_for_new and walk.recheck_after is not None:
        before = now - walk.recheck_after
        open_ids = jobs.open_orders(job.account, checked_before=before, limit=RECHECKS_MAX)
        ids = list(dict.fromkeys([*ids, *open_ids]))
    since = {} if job.enlisted_at is None else {SINCE: job.enlisted_at.isoformat()}
    begun = walk.begin({**since, **without_trace(job.cursor)}, now, ids)
    started = {name: value for name, value in begun.items() if name != SINCE}
    return with_failures(started, job.cursor)


def narrowed(run: Claim, error: ProviderError, now: datetime) -> Narrowed | None:
    """Return how to ask for less, if one row may be the cause; None if that is out of question."""
    is_out = isinstance(error, NO_ROWS_FAULT) or not isinstance(run.walk, NarrowingPaginator)
    # A list that is refused as such is an outage; one object that is refused is narrowed down to.
    is_out |= error.status in NO_LISTS_FAULT and not run.cursor[RUN].get("wanted")
    if is_out or not isinstance(error, TransientError | PermanentError):
        return None
    assert isinstance(run.walk, NarrowingPaginator)
    is_known = isinstance(error, TooLargeError) or NARROW in run.cursor[RUN]
    # A failed run of history may have to wait for hours until there is quota for the next.
    is_known |= has_known_rows(run.cursor) or run.job.type is JobType.BACKFILL
    is_repeated = run.job.retry_count > 0 or is_known
    return run.walk.narrow(run.cursor, str(error), now, is_repeated=is_repeated)


def describe_bug(error: Exception) -> str:
    """Return where the bug is, without the error's text, which may contain a seller's data."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = "" if at is None else f" at {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"
    return f"a bug, please report it: {type(error).__name__}{where}"


def settle_call(
    limiter: Limiter,
    run: Claim,
    permit: Permit,
    *,
    result: str,
    error: Exception | None = None,
    is_missing: bool = False,
) -> None:
    """Settle the permit, and correct the meters from the reply."""
    was_sent, answered = not isinstance(error, UnsentError), MISSING if is_missing else ANSWERED
    run.sent += was_sent
    run.unrecorded += was_sent
    cost, observations = run.platform.cost, dict(run.platform.observations)
    actual = None if cost is None or error is not None else cost.actual
    if cost is not None and cost.observation is not None:
        observations.setdefault(permit.keys[0], cost.observation)
    limiter.settle(
        permit,
        sent=was_sent,
        actual=0 if isinstance(error, ThrottledError) and cost is not None else actual,
        is_late=isinstance(error, TimedOutError),
        report=CallReport(
            result=result,
            ended=calls.ANSWERED if error is None else getattr(error, "ended", "bug"),
            http_status=getattr(error, "status", None) if error else answered,
        ),
        # `settle` corrects one key; several keys are corrected one by one.
        observation=observations.pop(permit.keys[0], None) if len(permit.keys) == 1 else None,
    )
    if isinstance(error, ThrottledError) and run.platform.day_key is not None:
        # What is left may be this account's alone: see `_throttled`.
        observations.pop(run.platform.day_key, None)
    for key, observation in observations.items():
        limiter.observe(key, observation, permit=run.day)
