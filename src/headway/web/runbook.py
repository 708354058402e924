"""`/runbook/…`: what to do about each alert, from the docs; readable without a login."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from headway.core.monitoring.rules import BY_NAME
from headway.web.problems import problem

HERE = Path(__file__).parent
# A wheel brings the pages along; a checkout has them among its docs.
FOLDERS = (HERE / "runbook", HERE.parents[2] / "docs" / "runbook")


def router() -> APIRouter:
    """Make the route."""
    routes = APIRouter()
    routes.get("/runbook/{name}", include_in_schema=False, response_model=None)(page)
    return routes


def page(name: str) -> Response:
    """Show the page of an alert as the text that it is."""
    if name in BY_NAME:
        for folder in FOLDERS:
            path = folder / f"{name}.md"
            if path.is_file():
                return PlainTextResponse(path.read_text(encoding="utf-8"))
    return problem(404, "there is no such alert")
