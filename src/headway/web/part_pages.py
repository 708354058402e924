"""The pages of parts: a list to search and filter, and each part on a page of its own."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from headway.app import App
from headway.core.access import Need
from headway.core.catalog.listings import ProductState, SellerId, Sku
from headway.errors import RequestError, StoreError
from headway.operations.callers import seller_or_operator
from headway.operations.listings import products
from headway.store.catalog.product_list import ProductPage
from headway.store.timetable.positions import ListingPositions
from headway.web.live import PanelKey
from headway.web.login import PageRoute
from headway.web.pages import NO_STORE, principal_of, show
from headway.web.sections import ACTOR, part_subject

ROWS_SHOWN = 50
SUGGESTED = 6
NOTHING_TO_SAY = 204
NOTHING = ProductPage(items=(), next_cursor=None)


def router(app: App, pages: Environment) -> APIRouter:
    """Make the routes of an application's parts."""
    routes = APIRouter(include_in_schema=False, route_class=PageRoute)

    @routes.get("/parts", response_class=HTMLResponse)
    def parts(
        request: Request, q: str = "", state: str = "", seller: str = "", cursor: str = ""
    ) -> HTMLResponse:
        """List parts, found by a piece of text, a state, a seller."""
        own = principal_of(request).seller
        caller = seller_or_operator(app, ACTOR, own)
        results, trouble = NOTHING, ""
        if request.state.visitor is None:
            return show(request, PanelKey(view="parts", seller=own))
        try:
            results = products(
                caller,
                q=q.strip(),
                state=ProductState(state) if state in set(ProductState) else None,
                seller=SellerId(seller) if seller and own is None else None,
                cursor=cursor or None,
                limit=ROWS_SHOWN,
            )
        except (RequestError, StoreError) as error:
            trouble = str(error)
        similar = []
        if q and not results.items and not trouble:
            similar = ListingPositions(app.pool).similar(Sku(q.strip()), seller=own)
        still = pages.get_template("parts_list.html").render(
            found=results,
            trouble=trouble,
            similar=similar,
            q=q,
            state=state,
            states=list(ProductState),
            seller=seller,
            cursor=cursor,
            is_one_seller=own is not None,
            can_write=principal_of(request).may(Need.WRITE),
            can_operate=principal_of(request).may(Need.OPERATE),
            now=app.clock.now(),
        )
        return show(request, PanelKey(view="parts", seller=own), still=still)

    # Not a page of its own: without a login it returns an error instead of a redirect.
    @routes.get("/find", response_class=Response)
    def find(request: Request, q: str = "") -> Response:
        """Suggest the first few parts that match what the user types."""
        own = principal_of(request).seller
        try:
            caller = seller_or_operator(app, ACTOR, own)
            results = products(caller, q=q.strip(), limit=SUGGESTED)
        except (RequestError, StoreError):
            return Response(status_code=NOTHING_TO_SAY)
        html = pages.get_template("suggestions.html").render(
            found=results, q=q.strip(), is_one_seller=own is not None
        )
        return Response(html, media_type="text/html", headers=NO_STORE)

    @routes.get("/parts/{name:path}", response_class=HTMLResponse)
    def part(request: Request, name: str, sku: str = "", seller: str = "") -> HTMLResponse:
        """Show one part: why it waits, its prices over time, what happened to it."""
        subject = part_subject(name or sku, seller)
        key = PanelKey(view="part", seller=principal_of(request).seller, subject=subject)
        return show(request, key, title=name or sku)

    return routes
