"""Jobs that pull sellers' accounts: their order, what blocks them, and how a person moves them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from headway.core.access import Need
from headway.core.accounts.jobs import JobStatus
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, NotFoundError
from headway.operations.callers import Caller
from headway.operations.inputs import Cursor, NamePath, PlatformText, SellerQuery
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.providers.registry import known_platform
from headway.store.accounts.job_list import JobView, is_job_name
from headway.store.accounts.job_rows import JobRows

TAG = "accounts"
JOBS_MAX = 500
JobLimit = Annotated[int, Field(ge=1, le=JOBS_MAX, description="How many at most.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Jobs in the order in which they run: the due ones, best first, then those that come."""

    now: datetime
    jobs: tuple[JobView, ...]
    """The jobs, in the order in which they run."""
    next_cursor: str | None = None


@operation(
    "GET",
    "/api/accounts/{account_id}/jobs",
    need=Need.READ,
    tag=TAG,
    errors=(404, 422),
    name="list_account_jobs",
)
def account_jobs(caller: Caller, account_id: NamePath) -> JobPage:
    """List the jobs of one account."""
    now = caller.now
    rows = caller.shared.account_queries.of_account(now, account_id, user_id=caller.seller)
    if rows is None:
        raise NotFoundError("there is no such account; see: headway shops, or /api/accounts")
    return JobPage(now=now, jobs=tuple(rows))


@operation("GET", "/api/jobs", need=Need.READ, tag=TAG, errors=(404, 422), name="list_jobs")
def jobs(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    status: JobStatus | None = None,
    platform: PlatformText | None = None,
    cursor: Cursor = None,
    limit: JobLimit = 50,
) -> JobPage:
    """List jobs in the order in which they run, each with what blocks it."""
    now = caller.now
    # A place in the queue is counted among everybody's jobs.
    rows = caller.shared.account_queries.jobs(
        now,
        user_id=caller.known(seller),
        platform=None if platform is None else known_platform(platform),
        status=status,
        limit=limit + 1,
        cursor=cursor,
    )
    shown, next_cursor = cut(rows, limit)
    return JobPage(now=now, jobs=shown, next_cursor=next_cursor)


@operation(
    "GET", "/api/jobs/{job:path}", need=Need.READ, tag=TAG, errors=(404, 422), name="get_job"
)
def job_of(caller: Caller, job: NamePath) -> JobView:
    """Explain one job."""
    queries, now = caller.shared.account_queries, caller.now
    row = queries.job(now, job) if is_job_name(job) else None
    if row is not None and caller.seller in {None, row.seller}:
        return row
    user_id = SellerId(job.partition("/")[0])
    if "/" not in job or caller.seller not in {None, user_id}:
        raise NotFoundError("there is no such job; see: headway jobs, or /api/jobs")
    names = sorted(row.name for row in queries.jobs(now, user_id=user_id, limit=JOBS_MAX))
    hint = f"{user_id} has {', '.join(names)}" if names else "see: headway jobs"
    raise NotFoundError(f"there is no such job; {hint}")


@operation("POST", "/api/jobs/{job:path}/revive", need=Need.WRITE, tag=TAG, errors=(404, 409))
def revive_job(caller: Caller, job: NamePath) -> JobView:
    """Queue a dead job again; what failed before is forgiven."""
    row = job_of(caller, job)
    if row.status is not JobStatus.DEAD:
        raise ConflictError(f"{row.name} is not dead: {row.reason}")
    JobRows(caller.own.pool).revive(row.id, user_id=caller.seller, now=caller.now)
    return job_of(caller, row.id)


@operation("POST", "/api/jobs/{job:path}/run", need=Need.WRITE, tag=TAG, errors=(404, 409))
def run_job(caller: Caller, job: NamePath) -> JobView:
    """Make a job due now; it still waits for its place, its quota and its shop."""
    row = job_of(caller, job)
    rows = JobRows(caller.own.pool)
    if not rows.hurry([row.id], user_id=caller.seller, now=caller.now):
        raise ConflictError(f"{row.name} cannot be made due: {row.reason}")
    return job_of(caller, row.id)


def places(caller: Caller, rows: Sequence[JobView]) -> list[int]:
    """Return the place of each job in everybody's queue, the due ones first, up to a bound."""
    return caller.shared.account_queries.places(caller.now, rows)
