"""`/healthz`, `/readyz`, `/metrics`: whether the process lives, can work, and how it does."""

from datetime import timedelta
from ipaddress import ip_address
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway import __version__
from headway.app import App
from headway.core.access import Need
from headway.core.monitoring.housekeeping_rules import TICK_AGE_MAX_MIN
from headway.core.monitoring.rules import current_alerts
from headway.core.reasons import format_time
from headway.errors import HeadwayError, StoreError
from headway.observe.metrics import CONTENT_TYPE
from headway.operations.alerts import alert_metrics
from headway.operations.callers import operator
from headway.operations.deployment import status
from headway.operations.metrics import metric_values
from headway.store.migrate import require_current
from headway.store.monitoring.housekeeping import Housekeeping
from headway.web.access import NEED, REFUSALS
from headway.web.authentication import AuthenticationGate
from headway.web.problems import ProblemRoute, Shape

METRICS_EXAMPLE = "headway_database_up 1.0\nheadway_fill_ratio 0.98\n"
ACTOR = "metrics"
TICK_AGE_MAX = timedelta(minutes=TICK_AGE_MAX_MIN)


class Health(Shape):
    """The process is alive."""

    status: Literal["ok"]
    """Always `ok`."""
    version: str
    """The version of Headway. Example: `0.1.0`"""


class Readiness(Shape):
    """Whether this server can work; the reasons if it cannot."""

    is_ready: bool
    """True if this server can work."""
    reasons: list[str]
    """Why it cannot; empty if it can. Example: `["the database is down"]`"""


def router(app: App) -> APIRouter:
    """Make the routes of one application."""
    routes = APIRouter(route_class=ProblemRoute, tags=["health"])

    @routes.get("/healthz", name="get_health", operation_id="get_health")
    async def healthz() -> Health:
        """Answer if the process is alive; `/readyz` says whether it can work."""
        return Health(status="ok", version=__version__)

    @routes.get(
        "/readyz",
        name="get_readiness",
        operation_id="get_readiness",
        response_model=Readiness,
        responses={503: {"model": Readiness, "description": "Not ready."}},
    )
    def readyz() -> Response:
        """Return whether database, schema and limiter can be used, and somebody ticks."""
        reasons = _reasons(app)
        readiness = Readiness(is_ready=not reasons, reasons=reasons)
        return JSONResponse(readiness.model_dump(), status_code=503 if reasons else 200)

    content = {"text/plain": {"schema": {"type": "string"}, "example": METRICS_EXAMPLE}}
    needed: dict[int | str, dict[str, Any]] = {
        status: REFUSALS[status] for status in (401, 403, 429, 503)
    }

    @routes.get(
        "/metrics",
        name="get_metrics",
        operation_id="get_metrics",
        response_class=Response,
        responses={200: {"description": "Prometheus text.", "content": content}, **needed},
        openapi_extra={NEED: Need.OVERSEE.value},
    )
    def scrape(request: Request) -> Response:
        """Write metrics for Prometheus; needs `oversee`, unless HEADWAY_METRICS_OPEN is set."""
        if not (app.settings.metrics_open and _is_here(request)):
            gate: AuthenticationGate = request.app.state.gate
            gate.admit(request).principal.require(Need.OVERSEE)
        try:
            caller = operator(app, ACTOR)
            overview = status(caller)
            metrics = alert_metrics(caller, overview)
            alerts = current_alerts(metrics, app.settings.alert_thresholds)
            figures = metric_values(overview, metrics, alerts, app.freshness.latest())
        except StoreError:
            figures = None
        return Response(app.process_metrics.metrics.render(figures), media_type=CONTENT_TYPE)

    return routes


def _reasons(app: App) -> list[str]:
    """Return why this server cannot work; nothing if it can."""
    try:
        require_current(app.pool, "the database")
        app.limiter.status(app.limit_key)
        ticked_at = Housekeeping(app.pool).last_round()
    except HeadwayError as error:
        return [str(error)]
    now = app.clock.now()
    if ticked_at is not None and now - ticked_at > TICK_AGE_MAX:
        return [f"no housekeeping since {format_time(ticked_at, now)}; start a worker"]
    return []


def _is_here(request: Request) -> bool:
    """Return True if a request comes from this host itself, through no proxy."""
    is_passed_on = {"forwarded", "x-forwarded-for"} & set(request.headers)
    try:
        host = ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    return host.is_loopback and not is_passed_on


class Counted:
    """Counts every request by the pattern of its route and its status."""

    def __init__(self, inner: ASGIApp, *, app: App) -> None:
        self._inner = inner
        self._watch, self._clock = app.process_metrics, app.clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count its reply; a stream goes on after that."""
        began_at, began_s = self._clock.now(), self._clock.monotonic()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", None)
                self._watch.answered(
                    route,
                    scope["method"],
                    message["status"],
                    began_at=began_at,
                    took_s=self._clock.monotonic() - began_s,
                )
            await send(message)

        await self._inner(scope, receive, counted if scope["type"] == "http" else send)
