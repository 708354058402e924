"""`/api/limits`, `/api/alerts`, `/api/sync/freshness`: what is wrong, and what all share."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from headway.app.limits import SUPPLIER
from headway.web.access import ApiRoute, OverseeDesk, ReadDesk
from headway.web.inputs import NAME_CHARS_MAX, PLAIN, Cursor, Limit, Since, Until
from headway.web.listings import cut, link_next
from headway.web.said import said
from headway.web.shape import Shape

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
    """One thing that is wrong; `link` is the page where something can be done about it."""

    name: str
    severity: Literal["critical", "warning", "notice"]
    sentence: str
    since: datetime | None
    count: int
    seller: str | None
    link: str


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
    """Limits in the order of their names; go on `after` the last one."""

    now: datetime
    limits: list[LimitShape]


class LedgerLineShape(Shape):
    """One call that was permitted, and what became of it; `skus` are its seats."""

    ticket_id: str
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

    items: list[LedgerLineShape]
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
    return routes


def alerts(desk: ReadDesk) -> AlertsShape:
    """Tell what is wrong now and needs a person, the worst first; a seller hears of the own."""
    return AlertsShape.model_validate({"now": desk.now, "alerts": desk.alerts()})


def limits(desk: OverseeDesk, after: LimitName | None = None, limit: Limit = 50) -> LimitsShape:
    """Show what is used of each limit, reserved, and when the next call may leave."""
    found = desk.limits(limit=limit, after=after)
    return LimitsShape.model_validate({"now": desk.now, "limits": found})


def ledger(
    request: Request,
    reply: Response,
    desk: OverseeDesk,
    *,
    name: LimitName = SUPPLIER,
    since: Since = None,
    until: Until = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> LedgerShape:
    """List the calls that a limit permitted, the newest first."""
    found = desk.ledger(name, since=since, until=until, limit=limit + 1, cursor=cursor)
    shown, next_cursor = cut(found, limit)
    link_next(request, reply, next_cursor)
    return LedgerShape.model_validate({"items": shown, "next_cursor": next_cursor})


def freshness(
    desk: OverseeDesk,
    days: Annotated[float, Query(gt=0, le=366, description="How far back.")] = DAYS_SHOWN,
) -> FreshnessSeriesShape:
    """Show how fresh listings were over time, and whether each tier's promise was kept."""
    samples = desk.freshness(desk.now - timedelta(days=days))
    return FreshnessSeriesShape.model_validate({"now": desk.now, "samples": samples})
