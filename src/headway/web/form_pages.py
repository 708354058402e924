"""The pages with forms: import parts, and connect a shop. What they send is the API's."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from headway.app import App
from headway.core.catalog.intake import COLUMNS
from headway.core.catalog.listings import SellerId
from headway.core.dispatch import STOREFRONT
from headway.errors import StoreError
from headway.providers.provider import Provider
from headway.providers.registry import find, platforms
from headway.web.live import PanelKey
from headway.web.login import PageRoute
from headway.web.pages import principal_of, show

# More names than that are no help in a list.
SELLERS_SHOWN = 200
ADDRESS = "Its address at the platform, not the domain that customers see."


def router(app: App, pages: Environment) -> APIRouter:
    """Make the routes; each form is rendered once, so that nothing redraws what was typed."""
    routes = APIRouter(include_in_schema=False, route_class=PageRoute)
    pages.filters["about"] = _about

    @routes.get("/import", response_class=HTMLResponse)
    def import_parts(request: Request, seller: str = "") -> HTMLResponse:
        """Show the form that imports parts."""
        return _form(request, "import", seller=seller, columns=COLUMNS)

    @routes.get("/connect", response_class=HTMLResponse)
    def connect(request: Request, seller: str = "") -> HTMLResponse:
        """Show the form that connects a shop; the storefront is the first platform."""
        names = sorted(platforms(), key=lambda name: (name != STOREFRONT, name))
        return _form(request, "connect", seller=seller, platforms=[find(name) for name in names])

    def _form(request: Request, name: str, **values: object) -> HTMLResponse:
        key = PanelKey(view=name, seller=principal_of(request).seller)
        if request.state.visitor is None:
            return show(request, key)
        template = pages.get_template(f"{name}_form.html")
        return show(request, key, still=template.render(sellers=_sellers(app), **values))

    return routes


def _sellers(app: App) -> list[SellerId]:
    """Return names to choose from; none while the database does not answer."""
    try:
        return app.sellers.names()[:SELLERS_SHOWN]
    except StoreError:
        return []


def _about(provider: Provider) -> Mapping[str, Any]:
    """Return what the form needs to know of a platform."""
    role = provider.platform
    assert role is not None, "it is one of the platforms"
    ways = {
        "client": role.tokens.takes_client,
        "token": True,
        "link": role.consent is not None,
    }
    return {
        "ways": [way for way, is_there in ways.items() if is_there],
        "asks_for_shop": role.consent is not None and role.consent.asks_for_shop,
        "shop": ADDRESS if provider.name == STOREFRONT else "Its id at the platform.",
        "refresh_required": role.tokens.refresh_required,
        "refresh_refused": role.tokens.refresh_refused,
        "note": role.tokens.lifetime_note,
        "has_owners": role.has_owners,
    }
