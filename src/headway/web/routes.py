"""The API of a site: its routes, how it tells trouble, and the document that describes it."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from headway.app import App
from headway.runners.background import BackgroundRuns
from headway.store.runs import Runs
from headway.web import (
    accounts,
    audit,
    health,
    held_changes,
    keys,
    listings,
    monitoring,
    pauses,
    publishing,
    runs,
    sessions,
    shops,
    suppliers,
)
from headway.web.openapi import document
from headway.web.problems import problem

ROUTERS: tuple[Callable[[], APIRouter], ...] = (
    listings.router,
    held_changes.router,
    pauses.router,
    publishing.router,
    accounts.router,
    shops.router,
    suppliers.router,
    monitoring.router,
    audit.router,
    runs.router,
    keys.router,
    sessions.router,
)


def include(site: FastAPI, app: App) -> None:
    """Add everything to a site."""
    site.state.background = BackgroundRuns(Runs(app.pool))
    site.add_middleware(health.Counted, app=app)
    site.include_router(health.router(app))
    for each in ROUTERS:
        site.include_router(each())
    site.add_exception_handler(HTTPException, _unknown)

    def openapi() -> dict[str, Any]:
        return document(site)

    # FastAPI's own way to give a site another document.
    site.openapi = openapi  # type: ignore[method-assign]


async def _unknown(_request: Request, error: Exception) -> Response:
    """Tell of a path or a method that is not there."""
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing here; see /openapi.json", 405: "this path has other methods"}
    told = said.get(error.status_code, str(error.detail))
    return problem(error.status_code, told, headers=error.headers)
