"""`/api/limits`, `/api/alerts`, freshness and the timetable: what is wrong, and what all share."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from headway.operations.limits import MAIN_LIMIT
from headway.web.access import ApiRoute, OverseeOperations, ReadOperations
from headway.web.error_responses import said
from headway.web.inputs import NAME_CHARS_MAX, PLAIN, Cursor, Limit, Since, Until
from headway.web.listings import cut, link_next
from headway.web.response_model import Shape

DAYS_SHOWN = 7.0
LimitName = Annotated[
    str,
    Query(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="A name from /api/limits.",
        examples=["boeing"],
    ),
]


class AlertShape(Shape):
    """One thing that is wrong; `link` is the page where something can be done about it.

    `runbook` says what to do, `subject` tells apart what is wrong with several at once.
    """

    name: str
    severity: Literal["critical", "warning", "notice"]
    sentence: str
    since: datetime | None
    count: int
    seller: str | None
    link: str
    subject: str
    runbook: str


class AlertsShape(Shape):
    """What is wrong now, the worst first."""

    now: datetime
    alerts: list[AlertShape]


class GaugeShape(Shape):
    """One rule of a limit: what is used and reserved of it."""

    rule: str
    used: float
    reserved: float
    limit: float


class LimitShape(Shape):
    """One limit: what is used of it, who waits, and when the next call may leave."""

    name: str
    gauges: list[GaugeShape]
    in_flight: int
    waiting: int
    next_free_at: datetime
    paused_until: datetime | None
    pause_reason: str


class LimitsShape(Shape):
    """Limits in the order of their names, and where to go on."""

    now: datetime
    items: list[LimitShape]
    next_cursor: str | None


class LedgerEntryShape(Shape):
    """One call that was permitted, and what became of it; `skus` are its seats."""

    permit_id: str
    purpose: str
    owner: str
    cost: float
    begun_at: datetime
    finished_at: datetime | None
    arrived_by: datetime | None
    status: Literal["begun", "sent", "unsent", "lost"]
    result: str
    http_status: int | None
    seats_paid: int | None
    skus: list[str]


class LedgerShape(Shape):
    """The calls of one limit, the newest first, and where to go on."""

    items: list[LedgerEntryShape]
    next_cursor: str | None


class TierFreshnessShape(Shape):
    """How fresh the listings of one tier's sellers were; `kept` were younger than promised."""

    tier: Literal["free", "starter", "growth", "pro"]
    total: int
    parked: int
    paused: int
    fresh: int
    stale: int
    unread: int
    kept: int
    promise_min: float
    oldest_read_at: datetime | None
    kept_share: float | None
    holds: bool


class FreshnessShape(Shape):
    """How fresh all listings were at one instant."""

    at: datetime
    tiers: list[TierFreshnessShape]


class PlannedHourShape(Shape):
    """An hour ahead: listings that come due in it, and the calls that will be made in it."""

    at: datetime
    due: int
    calls: int


class MadeHourShape(Shape):
    """An hour behind: calls made in it, how many were answered well, and the seats they used."""

    at: datetime
    calls: int
    good: int
    seats: int


class RetryWindowShape(Shape):
    """A span in which retries board, and how many seats it has for them."""

    opens_at: datetime
    closes_at: datetime
    seats_max: int


class TimetableShape(Shape):
    """A day behind and a day ahead; the hour that has begun is in both.

    `slots` counts the listings of each hour of the day, where the policy gives slots. `backlog` is
    what is still due after the last hour.
    """

    now: datetime
    planned: list[PlannedHourShape]
    made: list[MadeHourShape]
    windows: list[RetryWindowShape]
    slots: list[int]
    backlog: int
    is_estimate: bool


class FreshnessSeriesShape(Shape):
    """How fresh all listings were over time, the oldest first."""

    now: datetime
    samples: list[FreshnessShape]


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["overseeing"])
    routes.get("/api/alerts")(alerts)
    routes.get("/api/limits", responses=said(404, 422))(limits)
    routes.get("/api/limits/ledger", responses=said(404, 422))(ledger)
    routes.get("/api/sync/freshness", responses=said(422))(freshness)
    routes.get("/api/sync/timetable")(timetable)
    return routes


def alerts(operations: ReadOperations) -> AlertsShape:
    """Tell what is wrong now and needs a person, the worst first; a seller hears of the own."""
    return AlertsShape.model_validate({"now": operations.now, "alerts": operations.alerts()})


def limits(
    request: Request,
    reply: Response,
    operations: OverseeOperations,
    *,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> LimitsShape:
    """Show what is used of each limit, reserved, and when the next call may leave."""
    items, next_cursor = cut(operations.limits(limit=limit + 1, cursor=cursor), limit)
    link_next(request, reply, next_cursor)
    told = {"now": operations.now, "items": items, "next_cursor": next_cursor}
    return LimitsShape.model_validate(told)


def ledger(
    request: Request,
    reply: Response,
    operations: OverseeOperations,
    *,
    name: LimitName = MAIN_LIMIT,
    since: Since = None,
    until: Until = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> LedgerShape:
    """List the calls that a limit permitted, the newest first."""
    found = operations.ledger(name, since=since, until=until, limit=limit + 1, cursor=cursor)
    shown, next_cursor = cut(found, limit)
    link_next(request, reply, next_cursor)
    return LedgerShape.model_validate({"items": shown, "next_cursor": next_cursor})


def freshness(
    operations: OverseeOperations,
    days: Annotated[float, Query(gt=0, le=366, description="How far back.")] = DAYS_SHOWN,
) -> FreshnessSeriesShape:
    """Show how fresh listings were over time, and whether each tier's promise was kept."""
    samples = operations.freshness(operations.now - timedelta(days=days))
    return FreshnessSeriesShape.model_validate({"now": operations.now, "samples": samples})


def timetable(operations: OverseeOperations) -> TimetableShape:
    """Show calls planned for the next 24 hours, those made in the last, and retry windows."""
    return TimetableShape.model_validate(operations.timetable())
