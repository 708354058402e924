"""The page of a rehearsal: what would be written to a shop, and the button that starts it.

The report is rendered once, and the button carries its version: a person confirms what they saw.
"""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from headway.app import App
from headway.core.access import Need
from headway.core.catalog.rehearsal import RehearsedOutcome
from headway.errors import RequestError, StoreError
from headway.operations.callers import seller_or_operator
from headway.operations.rehearsals import RehearsalReport, rehearsal
from headway.web.live import PanelKey
from headway.web.login import PageRoute
from headway.web.pages import principal_of, show
from headway.web.sections import ACTOR

ROWS_SHOWN = 100


def router(app: App, pages: Environment) -> APIRouter:
    """Make the route of an application's rehearsals."""
    routes = APIRouter(include_in_schema=False, route_class=PageRoute)

    @routes.get("/rehearsal", response_class=HTMLResponse)
    def page(request: Request, shop: str = "", cursor: str = "") -> HTMLResponse:
        """Show what would be written to a shop."""
        who = principal_of(request)
        key = PanelKey(view="rehearsal", seller=who.seller, subject=shop)
        if request.state.visitor is None:
            return show(request, key)
        report: RehearsalReport | None = None
        trouble = ""
        try:
            caller = seller_or_operator(app, ACTOR, who.seller)
            report = rehearsal(caller, shop, cursor=cursor or None, limit=ROWS_SHOWN)
        except (RequestError, StoreError) as error:
            trouble = str(error)
        still = pages.get_template("rehearsal_report.html").render(
            report=report,
            trouble=trouble,
            shop=shop,
            cursor=cursor,
            outcomes=RehearsedOutcome,
            can_write=who.may(Need.WRITE),
            now=app.clock.now(),
        )
        title = f"Rehearsal of {report.shop}" if report else "Rehearsal"
        return show(request, key, title=title, still=still)

    return routes
