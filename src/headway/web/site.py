"""The page, its live stream and the API, over one application; everything comes from this host."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway import __version__
from headway.app import App
from headway.clock import Clock, SystemClock
from headway.web import (
    api_pages,
    form_pages,
    login,
    oauth,
    pages,
    part_pages,
    rehearsal_pages,
    routes,
    runbook,
    webhooks,
)
from headway.web.authentication import AuthenticationGate
from headway.web.body_limits import BODY_WAIT_S
from headway.web.live import Feed
from headway.web.live_panels import Panels
from headway.web.problems import problem
from headway.web.sections import more, scene

HERE = Path(__file__).parent
STREAM_LIFE_S = 600.0
QUERY_FIELDS_MAX = 50
BUG = "This is a bug in Headway. Please report it with the traceback in the server's log."
# A stream ends within so many seconds after its key was revoked or its session ended.
ASK_AGAIN_S = 10.0
# Pico draws its arrows and ticks from data: addresses; nothing else may come from elsewhere.
CSP = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'"
)
# With no-referrer a browser sends its own forms without an origin, too, and authentication would
# refuse every login.
HEADERS = {
    b"content-security-policy": CSP.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
HSTS = (b"strict-transport-security", b"max-age=31536000")
NO_STORE = (b"cache-control", b"no-store")


def create(
    app: App,
    *,
    refresh_s: float = 1.0,
    stream_life_s: float = STREAM_LIFE_S,
    ask_again_s: float = ASK_AGAIN_S,
    body_wait_s: float = BODY_WAIT_S,
    real_time: Clock | None = None,
) -> FastAPI:
    """Return the site of one application."""
    drawn = pages.templates(app)
    feed = Feed(
        app,
        look=lambda seller: scene(app, seller),
        more=more(app),
        draw=pages.drawer(drawn),
        refresh_s=refresh_s,
    )

    @asynccontextmanager
    async def lifespan(site: FastAPI) -> AsyncIterator[None]:
        site.state.loop = asyncio.get_running_loop()
        site.state.closing = asyncio.Event()
        site.state.panels = Panels(feed, closing=site.state.closing)
        site.state.background.start()
        yield
        await run_in_threadpool(site.state.background.stop)

    site = FastAPI(
        title="Headway", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    site.add_middleware(Shield, is_https=app.settings.public_url.startswith("https:"))
    site.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    site.state.pages, site.state.feed = drawn, feed
    site.state.gate = AuthenticationGate(app, real_time=real_time or SystemClock())
    site.state.clock, site.state.stream_life_s = app.clock, stream_life_s
    site.state.ask_again_s, site.state.watching = ask_again_s, Counter()
    site.include_router(login.router(site.state.gate, drawn))
    site.include_router(pages.router())
    site.include_router(part_pages.router(app, drawn))
    site.include_router(rehearsal_pages.router(app, drawn))
    site.include_router(form_pages.router(app, drawn))
    site.include_router(oauth.router(app, drawn))
    site.include_router(webhooks.router(app, body_wait_s=body_wait_s))
    site.include_router(runbook.router())
    site.include_router(api_pages.router(drawn))
    routes.include(site, app)
    return site


def end_streams(site: FastAPI) -> None:
    """Let every open stream end, so that the server can; callable from any thread."""
    loop: asyncio.AbstractEventLoop = site.state.loop
    loop.call_soon_threadsafe(site.state.closing.set)
    loop.call_soon_threadsafe(site.state.panels.wake)


class Shield:
    """Adds the security headers to every reply; only assets may be cached."""

    def __init__(self, inner: ASGIApp, *, is_https: bool) -> None:
        self._inner = inner
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with headers."""
        more = [*HEADERS.items()]
        if self._is_https or scope.get("scheme") == "https":
            more.append(HSTS)
        is_asset = scope.get("path", "").startswith("/static/")
        has_begun = False

        async def shielded(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            if message["type"] == "http.response.start":
                headers = message.get("headers", [])
                has_caching = any(name.lower() == NO_STORE[0] for name, _ in headers)
                caching = [] if is_asset or has_caching else [NO_STORE]
                message["headers"] = [*headers, *more, *caching]
            await send(message)

        if scope["type"] == "http" and _has_many_fields(scope):
            detail = f"the address may have {QUERY_FIELDS_MAX} fields (name=value)"
            refusal = problem(400, detail, title="the address is too long")
            await refusal(scope, receive, shielded)
            return
        try:
            await self._inner(scope, receive, shielded)
        except Exception:
            if scope["type"] == "http" and not has_begun:
                await problem(500, BUG, title="internal error")(scope, receive, shielded)
            raise


def _has_many_fields(scope: Scope) -> bool:
    """Return True if an address has more fields than any page reads."""
    is_page = not scope["path"].startswith("/api/")
    return is_page and scope["query_string"].count(b"&") >= QUERY_FIELDS_MAX
