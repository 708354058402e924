"""The page, its live stream and the API, over one application; everything comes from this host."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway import __version__
from headway.app import App
from headway.clock import Clock, ScaledClock, SystemClock
from headway.store.views import Overview
from headway.web import connect, hooks, login, routes
from headway.web.bodies import BODY_WAIT_S
from headway.web.feed import Feed, Sight
from headway.web.gate import Gate
from headway.web.login import PageRoute, csrf_of_page
from headway.web.words import FILTERS, money, number

HERE = Path(__file__).parent
STREAM_LIFE_S = 600.0
# Pico draws its arrows and ticks from data: addresses; nothing else may come from elsewhere.
CSP = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": CSP.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
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
    body_wait_s: float = BODY_WAIT_S,
    wall: Clock | None = None,
) -> FastAPI:
    """Make the site of one application."""
    pages = _templates(app)
    feed = Feed(app, _draw(pages), refresh_s=refresh_s)

    @asynccontextmanager
    async def lifespan(site: FastAPI) -> AsyncIterator[None]:
        site.state.loop = asyncio.get_running_loop()
        site.state.closing = asyncio.Event()
        site.state.background.start()
        yield
        await run_in_threadpool(site.state.background.stop)

    site = FastAPI(
        title="Headway", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    site.add_middleware(Shield, is_https=app.settings.public_url.startswith("https:"))
    site.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    site.state.pages, site.state.feed = pages, feed
    site.state.gate = Gate(app, wall=wall or SystemClock())
    site.state.clock, site.state.stream_life_s = app.clock, stream_life_s
    site.include_router(login.router(site.state.gate, pages))
    site.include_router(_page_routes())
    site.include_router(connect.router(app, pages))
    site.include_router(hooks.router(app, body_wait_s=body_wait_s))
    routes.include(site, app)
    return site


def end_streams(site: FastAPI) -> None:
    """Let every open stream end, so that the server can; callable from any thread."""
    loop: asyncio.AbstractEventLoop = site.state.loop
    loop.call_soon_threadsafe(site.state.closing.set)


class Shield:
    """Adds the security headers to every reply; nothing but assets may be kept by anybody."""

    def __init__(self, inner: ASGIApp, *, is_https: bool) -> None:
        self._inner = inner
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with headers."""
        more = [*HEADERS.items()]
        if self._is_https or scope.get("scheme") == "https":
            more.append(HSTS)
        is_asset = scope.get("path", "").startswith("/static/")

        async def shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = message.get("headers", [])
                is_said = any(name.lower() == NO_STORE[0] for name, _ in told)
                kept = [] if is_asset or is_said else [NO_STORE]
                message["headers"] = [*told, *more, *kept]
            await send(message)

        await self._inner(scope, receive, shielded)


def _page_routes() -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)
    routes.add_api_route("/", _page, response_class=HTMLResponse)
    routes.add_api_route("/live", _live)
    return routes


def _page(request: Request) -> HTMLResponse:
    """Show the page; without a database it still comes, says so, and recovers by itself."""
    site, visitor = request.app, request.state.visitor
    sight: Sight = site.state.feed.newest() if visitor else Sight.without(_draw(site.state.pages))
    html = site.state.pages.get_template("page.html").render(
        board=sight.html, now=site.state.clock.now(), csrf=csrf_of_page(visitor)
    )
    return HTMLResponse(html, status_code=200 if sight.overview else 503)


async def _live(request: Request) -> StreamingResponse:
    """Stream the board, drawn anew, for ten minutes; the page then connects again."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(request.app), media_type="text/event-stream", headers=headers)


async def _events(site: FastAPI) -> AsyncIterator[str]:
    feed: Feed = site.state.feed
    closing: asyncio.Event = site.state.closing
    wall = SystemClock()
    end_by_s = wall.monotonic() + site.state.stream_life_s
    sent: Sight | None = None
    yield "retry: 1000\n\n"
    while wall.monotonic() < end_by_s and not closing.is_set():
        sight = feed.recent()
        if sight is None:
            sight = await run_in_threadpool(feed.newest)
        if sight is not sent:
            sent = sight
            yield as_event(sight.html)
        try:
            await asyncio.wait_for(closing.wait(), feed.refresh_s)
        except TimeoutError:
            continue


def as_event(html: str) -> str:
    """Write text as one server-sent event."""
    lines = (line.strip() for line in html.splitlines())
    return "".join(f"data: {line}\n" for line in lines if line) + "\n"


def _templates(app: App) -> Environment:
    pages = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters.update(FILTERS)
    clock = app.clock
    pages.globals.update(
        version=__version__,
        speed=clock.speed if isinstance(clock, ScaledClock) else 1,
        policy=app.policy.name,
        money=money,
        number=number,
    )
    return pages


def _draw(pages: Environment) -> Any:  # noqa: ANN401
    def draw(seen: Overview | None, error: str) -> str:
        name = "board.html" if seen is not None else "down.html"
        return pages.get_template(name).render(seen=seen, error=error)

    return draw
