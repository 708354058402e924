"""`/api/runs`: simulations and plans that this server works out in the background."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field

from headway.core.runs import DAYS_MAX, PRODUCTS_MAX, SELLERS_MAX, RunKind
from headway.runners.background import BackgroundRuns
from headway.store.runs import cursor_of
from headway.web.access import ApiRoute, OperateOperations, OverseeOperations
from headway.web.error_responses import said
from headway.web.inputs import PLAIN, Cursor, Limit, NamePath
from headway.web.listings import link_next
from headway.web.response_model import Shape

FAULTS_MAX, FAULT_CHARS_MAX, SEED_MAX, WORKERS_MAX = 20, 100, 2**31 - 1, 8
PLAN_PRODUCTS_MAX, CALLS_MAX = 10_000_000, 1000
PolicyWord = Literal["packed", "split", "anchored", "rolling", "adaptive"]
FaultText = Annotated[
    str, Field(min_length=1, max_length=FAULT_CHARS_MAX, pattern=PLAIN, examples=["crash:1/h"])
]


class Simulating(Shape):
    """What `headway simulate` takes; what is left out is as it is there."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"kind": "simulate", "policy": "rolling", "products": 500, "days": 1}]
        }
    )
    kind: Literal["simulate"]
    lane: Literal["catalog", "account"] | None = None
    policy: PolicyWord | Literal["all"] | None = None
    products: Annotated[int, Field(ge=1, le=PRODUCTS_MAX, examples=[500])] | None = None
    days: Annotated[float, Field(ge=0.01, le=DAYS_MAX, examples=[1])] | None = None
    seed: Annotated[int, Field(ge=0, le=SEED_MAX, examples=[1])] | None = None
    world: Annotated[str, Field(min_length=1, max_length=50, pattern=r"^[a-z-]+$")] | None = None
    faults: Annotated[list[FaultText], Field(max_length=FAULTS_MAX)] | None = None
    sellers: Annotated[int, Field(ge=1, le=SELLERS_MAX, examples=[1])] | None = None
    workers: Annotated[int, Field(ge=1, le=WORKERS_MAX, examples=[1])] | None = None
    watch: bool | None = None


class Planning(Shape):
    """What `headway plan` takes; without `products` it is about those that are listed."""

    kind: Literal["plan"]
    products: Annotated[int, Field(ge=1, le=PLAN_PRODUCTS_MAX, examples=[5000])] | None = None
    add: Annotated[int, Field(ge=0, le=PLAN_PRODUCTS_MAX, examples=[100])] | None = None
    policy: PolicyWord | None = None
    limit: Annotated[float, Field(ge=0.1, le=CALLS_MAX, examples=[2])] | None = None


class RunShape(Shape):
    """A run: how far it is, and what it came to, which is what the command prints as JSON.

    `said` is what it says beside it, such as which laws broke, and `exit_code` the command's.
    """

    id: str
    kind: Literal["simulate", "plan"]
    request: dict[str, Any]
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float
    result: dict[str, Any] | list[dict[str, Any]] | None
    error: str
    said: str
    exit_code: int | None
    actor: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RunsShape(Shape):
    """Runs without their results, the newest first, and where to go on."""

    items: list[RunShape]
    next_cursor: str | None


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["runs"])
    routes.get("/api/runs", responses=said(422))(runs)
    routes.post("/api/runs", status_code=202)(start)
    routes.get("/api/runs/{run_id}", responses=said(404, 422))(run)
    routes.delete("/api/runs/{run_id}", responses=said(404))(cancel)
    return routes


def runs(
    request: Request,
    reply: Response,
    operations: OverseeOperations,
    *,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> RunsShape:
    """List runs, the newest first."""
    found = operations.runs.newest(limit=limit + 1, cursor=cursor)
    next_cursor = cursor_of(found[limit - 1]) if len(found) > limit else None
    link_next(request, reply, next_cursor)
    return RunsShape.model_validate({"items": found[:limit], "next_cursor": next_cursor})


def start(
    request: Request,
    reply: Response,
    operations: OperateOperations,
    wish: Annotated[Simulating | Planning, Field(discriminator="kind")],
) -> RunShape:
    """Begin a simulation or a plan; ask at its address how far it is."""
    told = wish.model_dump(exclude={"kind"}, exclude_none=True)
    begun = operations.runs.start(RunKind(wish.kind), told)
    reply.headers["Location"] = f"/api/runs/{begun.id}"
    _ring(request)
    return RunShape.model_validate(begun)


def run(operations: OverseeOperations, run_id: NamePath) -> RunShape:
    """Show a run, and what it came to."""
    return RunShape.model_validate(operations.runs.find(run_id))


def cancel(request: Request, operations: OperateOperations, run_id: NamePath) -> RunShape:
    """Stop a run."""
    cancelled = operations.runs.cancel(run_id)
    _ring(request)
    return RunShape.model_validate(cancelled)


def _ring(request: Request) -> None:
    background: BackgroundRuns = request.app.state.background
    background.ring()
