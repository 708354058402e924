"""`/api/accounts`, `/api/jobs`, `/api/quotas`: the account lane, with the reason of every wait."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from headway.app import App
from headway.core.access import Principal
from headway.core.jobs import JobStatus, PlatformName
from headway.errors import ConflictError, NotFoundError
from headway.store.job_rows import JobRows
from headway.store.views_jobs import JobView, is_job_name
from headway.web.access import ApiRoute, Caller, OverseeDesk, ReadDesk, Whose, WriteDesk
from headway.web.api import ProblemShape
from headway.web.api_accounts import (
    AccountsShape,
    JobShape,
    JobsShape,
    PlatformWord,
    QuotasShape,
    StatusWord,
)

JOBS_MAX = 500
PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": ProblemShape, "description": "No such job or account."},
    409: {"model": ProblemShape, "description": "The job is not in a state for that."},
    422: {"model": ProblemShape, "description": "Malformed; the detail names the field."},
    503: {"model": ProblemShape, "description": "The database is down."},
}
Limit = Annotated[int, Query(ge=1, le=JOBS_MAX)]


def router(app: App) -> APIRouter:
    """Make the routes of one application."""
    routes = APIRouter(route_class=ApiRoute, tags=["accounts"])
    _add_reads(routes, app)
    _add_verbs(routes, app)
    return routes


def _add_reads(routes: APIRouter, app: App) -> None:
    lane = app.lane

    @routes.get("/api/accounts", responses=_said(422, 503))
    def accounts(
        _: ReadDesk, seller: Whose, platform: PlatformWord | None = None, limit: Limit = 100
    ) -> AccountsShape:
        """List accounts, those that need a person first."""
        now = app.clock.now()
        found = lane.accounts(user_id=seller, platform=_platform(platform), limit=limit)
        sellers = lane.sellers(now, {each.user_id for each in found})
        return AccountsShape.model_validate({"now": now, "accounts": found, "sellers": sellers})

    @routes.get("/api/accounts/{account_id}/jobs", responses=_said(404, 503))
    def account_jobs(_: ReadDesk, caller: Caller, account_id: str) -> JobsShape:
        """List the jobs of one account."""
        now = app.clock.now()
        found = lane.of_account(now, account_id, user_id=caller.seller)
        if found is None:
            raise NotFoundError("there is no such account; see /api/accounts")
        return JobsShape.model_validate({"now": now, "jobs": found})

    @routes.get("/api/jobs", responses=_said(422, 503))
    def jobs(
        _: ReadDesk,
        seller: Whose,
        status: StatusWord | None = None,
        platform: PlatformWord | None = None,
        limit: Limit = 50,
    ) -> JobsShape:
        """List jobs in the order in which they run, each with what blocks it."""
        now = app.clock.now()
        found = lane.jobs(
            now,
            user_id=seller,
            platform=_platform(platform),
            status=None if status is None else JobStatus(status),
            limit=limit,
        )
        return JobsShape.model_validate({"now": now, "jobs": found})

    @routes.get("/api/jobs/{job_id}", responses=_said(404, 503))
    def job(_: ReadDesk, caller: Caller, job_id: str) -> JobShape:
        """Explain one job, by its id."""
        return JobShape.model_validate(_found(app, job_id, caller))

    @routes.get("/api/quotas", responses=_said(503))
    def quotas(_: OverseeDesk) -> QuotasShape:
        """Show what is used of each platform's day, and what the next one will bring."""
        now = app.clock.now()
        return QuotasShape.model_validate({"now": now, "quotas": lane.budgets(now)})


def _add_verbs(routes: APIRouter, app: App) -> None:
    @routes.post("/api/jobs/{job_id}/revive", responses=_said(404, 409, 503))
    def revive(_: WriteDesk, caller: Caller, job_id: str) -> JobShape:
        """Queue a dead job again; what failed before is forgiven."""
        found = _found(app, job_id, caller)
        if not _rows(app, caller).revive(found.id, now=app.clock.now()):
            raise ConflictError(f"{found.name} is not dead: {found.reason}")
        return JobShape.model_validate(_found(app, found.id, caller))

    @routes.post("/api/jobs/{job_id}/run", responses=_said(404, 409, 503))
    def run(_: WriteDesk, caller: Caller, job_id: str) -> JobShape:
        """Make a job due now; it still waits for its turn, its budget and its shop."""
        found = _found(app, job_id, caller)
        if not _rows(app, caller).hurry([found.id], now=app.clock.now()):
            raise ConflictError(f"{found.name} cannot be made due: {found.reason}")
        return JobShape.model_validate(_found(app, found.id, caller))


def _rows(app: App, caller: Principal) -> JobRows:
    return JobRows(app.behind(actor=caller.name, seller=caller.seller).pool)


def _found(app: App, job_id: str, caller: Principal) -> JobView:
    """Return a job, its place counted among everybody's; raises NotFoundError for another's."""
    found = app.lane.job(app.clock.now(), job_id) if is_job_name(job_id) else None
    if found is None or caller.seller not in {None, found.user_id}:
        raise NotFoundError("there is no such job; see /api/jobs")
    return found


def _platform(word: PlatformWord | None) -> PlatformName | None:
    return None if word is None else PlatformName(word)


def _said(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: PROBLEMS[status] for status in statuses}
