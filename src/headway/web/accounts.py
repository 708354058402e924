"""`/api/accounts`, `/api/jobs`, `/api/quotas`: the account lane, with the reason of every wait."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headway.core.accounts.jobs import JobStatus, PlatformName
from headway.web.access import ApiRoute, OverseeOperations, ReadOperations, Whose, WriteOperations
from headway.web.account_models import (
    AccountsShape,
    JobShape,
    JobsShape,
    PlatformWord,
    QuotasShape,
    StatusWord,
)
from headway.web.error_responses import said
from headway.web.inputs import Cursor, NamePath
from headway.web.listings import cut, link_next

JOBS_MAX = 500
Limit = Annotated[int, Query(ge=1, le=JOBS_MAX, description="How many at most.")]


def router() -> APIRouter:
    """Make the routes; a job goes by its id, or by seller/platform/kind."""
    routes = APIRouter(route_class=ApiRoute, tags=["accounts"])
    routes.get("/api/accounts", responses=said(404, 422))(accounts)
    routes.get("/api/accounts/{account_id}/jobs", responses=said(404, 422))(account_jobs)
    routes.get("/api/jobs", responses=said(404, 422))(jobs)
    routes.get("/api/jobs/{job:path}", responses=said(404, 422))(job_of)
    routes.post("/api/jobs/{job:path}/revive", responses=said(404, 409))(revive)
    routes.post("/api/jobs/{job:path}/run", responses=said(404, 409))(run)
    routes.get("/api/quotas")(quotas)
    return routes


def accounts(
    request: Request,
    reply: Response,
    operations: ReadOperations,
    *,
    seller: Whose,
    platform: PlatformWord | None = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> AccountsShape:
    """List accounts, those that need a person first."""
    found = operations.lane.accounts(
        seller=seller, platform=_platform(platform), limit=limit + 1, cursor=cursor
    )
    shown, next_cursor = cut(found, limit)
    link_next(request, reply, next_cursor)
    told = {
        "now": operations.now,
        "accounts": shown,
        "sellers": operations.lane.sellers({each.user_id for each in shown}),
        "next_cursor": next_cursor,
    }
    return AccountsShape.model_validate(told)


def account_jobs(operations: ReadOperations, account_id: NamePath) -> JobsShape:
    """List the jobs of one account."""
    found = operations.lane.account_jobs(account_id)
    return JobsShape.model_validate({"now": operations.now, "jobs": found})


def jobs(
    request: Request,
    reply: Response,
    operations: ReadOperations,
    *,
    seller: Whose,
    status: StatusWord | None = None,
    platform: PlatformWord | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> JobsShape:
    """List jobs in the order in which they run, each with what blocks it."""
    found = operations.lane.jobs(
        seller=seller,
        platform=_platform(platform),
        status=None if status is None else JobStatus(status),
        limit=limit + 1,
        cursor=cursor,
    )
    shown, next_cursor = cut(found, limit)
    link_next(request, reply, next_cursor)
    return JobsShape.model_validate(
        {"now": operations.now, "jobs": shown, "next_cursor": next_cursor}
    )


def job_of(operations: ReadOperations, job: NamePath) -> JobShape:
    """Explain one job."""
    return JobShape.model_validate(operations.lane.job(job))


def revive(operations: WriteOperations, job: NamePath) -> JobShape:
    """Queue a dead job again; what failed before is forgiven."""
    (revived,) = operations.lane.revive([job])
    return JobShape.model_validate(revived)


def run(operations: WriteOperations, job: NamePath) -> JobShape:
    """Make a job due now; it still waits for its turn, its budget and its shop."""
    return JobShape.model_validate(operations.lane.run(job))


def quotas(operations: OverseeOperations) -> QuotasShape:
    """Show what is used of each platform's day, and what the next one will bring."""
    return QuotasShape.model_validate({"now": operations.now, "quotas": operations.lane.quotas()})


def _platform(word: PlatformWord | None) -> PlatformName | None:
    return None if word is None else PlatformName(word)
