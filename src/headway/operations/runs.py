"""Simulations and plans that a server works out in the background; they belong to no seller."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from headway.clock import fresh_id
from headway.config.declarations import PolicyName
from headway.core.access import Need
from headway.core.runs import (
    DAYS_MAX,
    PRODUCTS_MAX,
    SELLERS_MAX,
    Run,
    RunKind,
    assert_sane,
)
from headway.errors import InvalidError
from headway.operations.callers import REAL_TIME, OperatorCaller
from headway.operations.inputs import PLAIN, Cursor, Limit, NamePath, RequestBody, example
from headway.operations.operation import operation
from headway.store.runs import Runs, cursor_of

TAG = "runs"
NONE_LISTED = "the database lists no part; say how many there will be: --products 5000"
FAULTS_MAX, FAULT_CHARS_MAX, SEED_MAX, WORKERS_MAX = 20, 100, 2**31 - 1, 8
PLAN_PRODUCTS_MAX, CALLS_MAX = 10_000_000, 1000
FaultText = Annotated[
    str, Field(min_length=1, max_length=FAULT_CHARS_MAX, pattern=PLAIN, examples=["crash:1/h"])
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Runs without their results, the newest first, and where to go on."""

    items: tuple[Run, ...]
    next_cursor: str | None


class SimulationBody(RequestBody):
    """What `headway simulate` takes; what is left out is as it is there."""

    model_config = example({"kind": "simulate", "policy": "rolling", "products": 500, "days": 1})
    kind: Literal["simulate"]
    """Always `simulate`."""
    lane: Literal["catalog", "account"] | None = None
    """The lane to simulate. Example: `catalog`"""
    policy: PolicyName | Literal["all"] | None = None
    """The policy; `all` compares them. Example: `adaptive`"""
    products: Annotated[int, Field(ge=1, le=PRODUCTS_MAX, examples=[500])] | None = None
    """How many listings. Example: `500`"""
    days: Annotated[float, Field(ge=0.01, le=DAYS_MAX, examples=[1])] | None = None
    """How many days. Example: `1`"""
    seed: Annotated[int, Field(ge=0, le=SEED_MAX, examples=[1])] | None = None
    """The seed; the same seed gives the same result. Example: `1`"""
    world: Annotated[str, Field(min_length=1, max_length=50, pattern=r"^[a-z-]+$")] | None = None
    """The world that the simulation runs in. Example: `ordinary`"""
    faults: Annotated[list[FaultText], Field(max_length=FAULTS_MAX)] | None = None
    """Faults to inject. Example: `["outage@6h+30m"]`"""
    sellers: Annotated[int, Field(ge=1, le=SELLERS_MAX, examples=[1])] | None = None
    """How many sellers. Example: `1`"""
    workers: Annotated[int, Field(ge=1, le=WORKERS_MAX, examples=[1])] | None = None
    """How many workers. Example: `1`"""
    watch: bool | None = None
    """True to judge the alert rules, too."""


class PlanBody(RequestBody):
    """What `headway plan` takes; without `products` it is about those that are listed."""

    kind: Literal["plan"]
    """Always `plan`."""
    products: Annotated[int, Field(ge=1, le=PLAN_PRODUCTS_MAX, examples=[5000])] | None = None
    """How many listings; those that exist if it is left out. Example: `5000`"""
    add: Annotated[int, Field(ge=0, le=PLAN_PRODUCTS_MAX, examples=[100])] | None = None
    """How many listings more. Example: `100`"""
    policy: PolicyName | None = None
    """The policy. Example: `adaptive`"""
    limit: Annotated[float, Field(ge=0.1, le=CALLS_MAX, examples=[2])] | None = None
    """Calls a minute. Example: `2`"""


RunBody = Annotated[SimulationBody | PlanBody, Field(discriminator="kind")]


@operation("GET", "/api/runs", need=Need.OVERSEE, tag=TAG, errors=(422,), name="list_runs")
def runs(caller: OperatorCaller, *, cursor: Cursor = None, limit: Limit = 50) -> RunPage:
    """List runs, the newest first."""
    rows = Runs(caller.app.pool).newest(limit=limit + 1, cursor=cursor)
    next_cursor = cursor_of(rows[limit - 1]) if len(rows) > limit else None
    return RunPage(items=tuple(rows[:limit]), next_cursor=next_cursor)


@operation("POST", "/api/runs", need=Need.OPERATE, tag=TAG, status=202)
def start_run(caller: OperatorCaller, body: RunBody) -> Run:
    """Begin a simulation or a plan; ask at its address how far it is."""
    request = body.model_dump(exclude={"kind"}, exclude_none=True)
    kind = RunKind(body.kind)
    if kind is RunKind.PLAN and "products" not in request:
        listed = caller.app.listings.count_skus()
        if not listed:
            raise InvalidError(NONE_LISTED)
        request = {"products": listed, **request}
    assert_sane(kind, request)
    # A run is a process, and takes real time, whatever clock the engine runs on.
    now = REAL_TIME.now()
    return Runs(caller.app.pool).add(fresh_id(), kind, request, actor=caller.actor, now=now)


@operation(
    "GET", "/api/runs/{run_id}", need=Need.OVERSEE, tag=TAG, errors=(404, 422), name="get_run"
)
def run(caller: OperatorCaller, run_id: NamePath) -> Run:
    """Show a run, and what it came to."""
    return Runs(caller.app.pool).find(run_id)


@operation("DELETE", "/api/runs/{run_id}", need=Need.OPERATE, tag=TAG, errors=(404,))
def cancel_run(caller: OperatorCaller, run_id: NamePath) -> Run:
    """Stop a run."""
    return Runs(caller.app.pool).cancel(run_id, now=REAL_TIME.now())
