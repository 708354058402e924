"""`/webhooks/{platform}`: deliveries of platforms, verified on the raw body before parsing.

A sender without a valid signature learns nothing else. The platform gets a success status for every
delivery, also for unknown shops and unused topics, since platforms stop sending after errors. All
work except one short transaction is left to a job.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from headway.app import App
from headway.app.providers import own_app_secret
from headway.core.accounts.jobs import PlatformName
from headway.core.accounts.webhooks import WebhookEffect
from headway.providers.provider import WebhookRole
from headway.providers.registry import platforms
from headway.store.accounts.webhooks import DeliveryResult
from headway.web.body_limits import read_body
from headway.web.problems import Problem, ProblemRoute, Shape, problem

LOG = logging.getLogger(__name__)
BODY = {
    "description": "The delivery, as the platform sends and signs it.",
    "required": True,
    "content": {"application/json": {"schema": {"type": "object"}, "example": {"id": 8123456789}}},
}


class WebhookReply(Shape):
    """What became of a delivery."""

    fate: str
    """What became of it. Example: `taken`"""


PROBLEMS: dict[int | str, dict[str, Any]] = {
    202: {
        "model": WebhookReply,
        "description": "Verified, but no such shop is connected: nothing was done.",
    },
    400: {"model": Problem, "description": "Verified, but malformed."},
    401: {"model": Problem, "description": "Not signed by the platform; nothing was read."},
    408: {"model": Problem, "description": "The body did not come in time."},
    413: {"model": Problem, "description": "Larger than a webhook may be."},
    503: {"model": Problem, "description": "No secret is set, or the database is down."},
}


def router(app: App, *, body_wait_s: float) -> APIRouter:
    """Make the routes of one application."""
    routes = APIRouter(route_class=ProblemRoute, tags=["webhooks"])
    for platform, platform_role in platforms().items():
        role = platform_role.webhooks
        if role is None:
            continue
        routes.add_api_route(
            f"/webhooks/{platform}",
            _endpoint(app, platform, role, body_wait_s),
            methods=["POST"],
            name=f"receive_{platform}_webhook",
            operation_id=f"receive_{platform}_webhook",
            response_model=WebhookReply,
            responses=PROBLEMS,
            openapi_extra={"requestBody": BODY},
        )
    return routes


def _endpoint(
    app: App, platform: PlatformName, role: WebhookRole, body_wait_s: float
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def receive(request: Request) -> Response:
        """Take a delivery. The same one is taken once, and many of them wake one job."""
        secret = role.secret(app.settings)
        if role.shop_of is None:
            role.check_secret(secret)
        body = await read_body(request, wait_s=body_wait_s)
        if isinstance(body, Response):
            return body
        headers = {name.lower(): value for name, value in request.headers.items()}
        if not await run_in_threadpool(_is_signed, app, platform, role, headers, body):
            role.check_secret(secret)
            return problem(
                401,
                f"{platform} did not sign this body with the secret that is set",
                title="the signature is wrong",
            )
        hook = role.read(platform, headers, body)
        if hook.effect is WebhookEffect.NOTHING:
            return _reply("not used", status=200)
        fate = await run_in_threadpool(app.webhooks.take, hook, now=app.clock.now())
        if fate is DeliveryResult.UNKNOWN_SHOP:
            LOG.warning("a webhook of %s shop %s, which is not connected", platform, hook.shop)
            return _reply(fate, status=202)
        return _reply(fate, status=200)

    return receive


def _is_signed(
    app: App, platform: PlatformName, role: WebhookRole, headers: Mapping[str, str], body: bytes
) -> bool:
    """Return True if the app of the settings signed a body, or the own app of the shop it names."""
    now, secret = app.clock.now(), role.secret(app.settings)
    if secret and role.verify(secret, headers, body, now):
        return True
    shop = "" if role.shop_of is None else role.shop_of(headers)
    if not shop:
        return False
    own = own_app_secret(app.settings, app.clock, app.pool, platform, shop)
    return bool(own) and role.verify(own, headers, body, now)


def _reply(fate: str, *, status: int) -> Response:
    return JSONResponse({"fate": fate}, status_code=status)
