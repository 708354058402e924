"""The page: one address for each section, and one live stream that updates it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from headway import __version__
from headway.app import App
from headway.clock import ScaledClock, SystemClock
from headway.core.access import Need, Principal, Role
from headway.core.catalog.listings import SellerId
from headway.core.dispatch import STOREFRONT
from headway.errors import StoreError
from headway.providers.registry import main_storefront
from headway.web.authentication import AuthenticationGate, Visitor
from headway.web.formatting import FILTERS, money, number
from headway.web.live import Draw, Drawing, PanelKey, Snapshot, ViewerRights
from headway.web.live_panels import Panels
from headway.web.login import PageRoute, csrf_of_page
from headway.web.problems import problem
from headway.web.section_lists import subject_of
from headway.web.sections import MENU, SECTIONS, Section

HERE = Path(__file__).parent
# Sections that are live as a whole; the others have routes of their own.
WHOLE = ("now", "freshness", "timetable", "changes", "trouble", "accounts", "keys")
NOBODY = Principal(id="", name="nobody", role=Role.READER, seller=SellerId(""))
FORBIDDEN = 403
# Each may render another part every second: as many as a session may request otherwise.
STREAMS_MAX = 50
REAL_TIME = SystemClock()
NO_STORE = {"Cache-Control": "no-store"}
STREAM = {**NO_STORE, "X-Accel-Buffering": "no"}


def router() -> APIRouter:
    """Make the routes of the page."""
    routes = APIRouter(include_in_schema=False, route_class=PageRoute)
    for name in WHOLE:
        routes.add_api_route(SECTIONS[name].path, _page(name), response_class=HTMLResponse)
    routes.add_api_route("/shops", _all_shops, response_class=HTMLResponse)
    routes.add_api_route("/live", _live)
    return routes


def _page(name: str) -> Callable[[Request], HTMLResponse]:
    def page(request: Request) -> HTMLResponse:
        return show(request, _key(principal_of(request), name, request.url.query))

    return page


def _all_shops(request: Request) -> HTMLResponse:
    return show(request, _key(principal_of(request), "shops", ""))


def _key(who: Principal, view: str, subject: str) -> PanelKey:
    """Return the key of a panel; all shops are those of the person's own seller."""
    if view == "shops":
        subject = who.main or ""
    elif view not in {"part", "rehearsal"}:
        subject = subject_of(view, subject)
    return PanelKey(view=view, seller=who.seller, subject=subject)


def show(request: Request, key: PanelKey, *, title: str = "", still: str = "") -> HTMLResponse:
    """Render a section; without a database the page reports that, and recovers by itself.

    `still` is rendered once, below the live panel.
    """
    visitor: Visitor | None = request.state.visitor
    site, section = request.app.state, SECTIONS[key.view]
    who = principal_of(request)
    rights = _rights(who)
    if visitor and not _may(who, section):
        status, panel = FORBIDDEN, site.pages.get_template("denied.html").render(section=section)
        still = ""
    else:
        # Without a database no user can be authenticated, so no earlier data is shown.
        drawing: Drawing = site.feed.drawing(key, rights) if visitor else site.feed.nothing(key)
        status, panel = 503 if drawing.is_down else 200, drawing.html
    html = site.pages.get_template("layout.html").render(
        panel=panel,
        still=still,
        section=section,
        title=title or section.title,
        live="" if status == FORBIDDEN else _stream(key),
        principal=who,
        rights=rights,
        csrf=csrf_of_page(visitor),
        own_shops=_own_shops(request, who),
        now=site.clock.now(),
    )
    return HTMLResponse(html, status_code=status, headers=NO_STORE)


def _own_shops(request: Request, who: Principal) -> list[SellerId]:
    """Return the shops that a person may choose from; none for those who see all, or one only."""
    gate: AuthenticationGate = request.app.state.gate
    try:
        return gate.shop_groups.shops_of(who.main) if who.main else []
    except StoreError:
        return []


def _stream(key: PanelKey) -> str:
    return f"/live?{urlencode({'view': key.view, 'subject': key.subject})}"


async def _live(request: Request, view: str = "now", subject: str = "") -> Response:
    """Stream the updates of a section for ten minutes; the page then connects again."""
    who = principal_of(request)
    if view not in SECTIONS:
        return problem(404, "there is no such view")
    if not _may(who, SECTIONS[view]):
        return problem(403, "this view is for those who see everybody's data")
    watching: Counter[str] = request.app.state.watching
    if watching[who.holder] >= STREAMS_MAX:
        return problem(
            429, f"more than {STREAMS_MAX} streams at once", headers={"Retry-After": "60"}
        )
    key = _key(who, view, subject)
    return _Stream(_events(request, key, who), watching=watching, who=who.holder)


class _Stream(StreamingResponse):
    """A stream that is counted for as long as it is open, however it ends."""

    def __init__(self, events: AsyncIterator[str], *, watching: Counter[str], who: str) -> None:
        super().__init__(events, media_type="text/event-stream", headers=STREAM)
        self._watching = watching
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        self._watching[self._who] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watching[self._who] -= 1
            if not self._watching[self._who]:
                del self._watching[self._who]


async def _events(request: Request, key: PanelKey, who: Principal) -> AsyncIterator[str]:
    site, rights = request.app.state, _rights(who)
    closing: asyncio.Event = site.closing
    panels: Panels = site.panels
    end_by_s = REAL_TIME.monotonic() + site.stream_life_s
    ask_at_s = REAL_TIME.monotonic() + site.ask_again_s
    yield "retry: 1000\n\n"
    async with panels.watch(key, rights) as panel:
        last_count = panel.refreshes.count
        sent = await run_in_threadpool(site.feed.drawing, key, rights)
        yield sent.event
        while REAL_TIME.monotonic() < end_by_s and not closing.is_set():
            if REAL_TIME.monotonic() >= ask_at_s:
                if not await run_in_threadpool(_is_still, request, who):
                    return
                ask_at_s = REAL_TIME.monotonic() + site.ask_again_s
            try:
                async with asyncio.timeout(min(ask_at_s, end_by_s) - REAL_TIME.monotonic()):
                    last_count = await panel.after(last_count)
            except TimeoutError:
                continue
            drawing = panel.drawings.get(rights, sent)
            if drawing is not sent:
                sent = drawing
                yield drawing.event


def _is_still(request: Request, who: Principal) -> bool:
    """Return True if the key or session of an open stream is still valid."""
    gate: AuthenticationGate = request.app.state.gate
    try:
        visitor = gate.visitor(request)
    except StoreError:
        return True  # the stream itself reports that there is no database
    return visitor is not None and visitor.principal == who


def principal_of(request: Request) -> Principal:
    """Return who sends the request; without a database, a principal without any rights."""
    visitor: Visitor | None = request.state.visitor
    return NOBODY if visitor is None else visitor.principal


def _may(who: Principal, section: Section) -> bool:
    return section.need is None or who.may(section.need)


def _rights(who: Principal) -> ViewerRights:
    return ViewerRights(can_write=who.may(Need.WRITE), can_operate=who.may(Need.OPERATE))


def templates(app: App) -> Environment:
    """Make the templates of an application."""
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
        has_slots=not app.policy.is_eager,
        sections=MENU,
        storefront=STOREFRONT,
        money=money,
        number=number,
        shop_address=partial(main_storefront()[1].address, app.settings),
    )
    return pages


def drawer(pages: Environment) -> Draw:
    """Return the function that renders the panel of a section."""

    def draw(key: PanelKey, snapshot: Snapshot, rights: ViewerRights) -> str:
        values: dict[str, Any] = {
            "section": SECTIONS[key.view],
            "key": key,
            "overview": None if snapshot.scene is None else snapshot.scene.overview,
            "scene": snapshot.scene,
            "more": snapshot.more,
            "error": snapshot.error,
            "since": snapshot.since,
            "rights": rights,
            # Keys live in the time of people, whatever clock the engine runs on.
            "real_now": REAL_TIME.now(),
        }
        name = "down.html" if snapshot.scene is None else SECTIONS[key.view].template
        return pages.get_template(name).render(values)

    return draw
