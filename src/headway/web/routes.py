"""The API of a site: a route for every operation, its errors, and the OpenAPI document."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException

from headway.app import App
from headway.core.catalog.listings import MAIN
from headway.core.runs import Run
from headway.errors import StoreError
from headway.operations import deployment, history, people, runs, shop_links
from headway.operations.callers import Caller
from headway.operations.deployment import SupplierQuery
from headway.operations.operation import ApiOperation
from headway.operations.registry import OPERATIONS
from headway.runners.background import BackgroundRuns
from headway.store.runs import Runs
from headway.store.status import Overview
from headway.web import audit, health
from headway.web.access import ApiRoute, Requirement
from headway.web.error_responses import error_responses
from headway.web.idempotency import keep_instead
from headway.web.live import Snapshot
from headway.web.openapi import document
from headway.web.problems import problem

AnyOperation = ApiOperation[Any, Any, Any]
REQUEST, REPLY = "request", "reply"


def include(site: FastAPI, app: App) -> None:
    """Add everything to a site."""
    site.state.background = BackgroundRuns(Runs(app.pool))
    site.add_middleware(health.Counted, app=app)
    site.include_router(health.router(app))
    site.include_router(router())
    site.add_exception_handler(HTTPException, _unknown)

    def openapi() -> dict[str, Any]:
        return document(site)

    # FastAPI's own way to give a site another document.
    site.openapi = openapi  # type: ignore[method-assign]


def router() -> APIRouter:
    """Make a route of every operation."""
    routes = APIRouter(route_class=ApiRoute)
    for declared in OPERATIONS:
        is_export = declared is history.audit
        options: dict[str, Any] = {"response_class": StreamingResponse} if is_export else {}
        routes.add_api_route(
            declared.path,
            _endpoint(declared),
            methods=[declared.method],
            status_code=declared.status,
            tags=[declared.tag],
            response_model=None if is_export else declared.signature.return_annotation,
            responses=error_responses(*declared.errors) | (audit.REPLIES if is_export else {}),
            **options,
        )
    return routes


def _endpoint(declared: AnyOperation) -> Callable[..., Any]:
    """Return the function that FastAPI routes: the operation with its caller from the request."""
    function = INSTEAD.get(declared, declared.function)
    after = AFTER.get(declared)

    caller, *others = inspect.signature(function).parameters.values()
    takes_request = any(parameter.name == REQUEST for parameter in others)

    @wraps(declared.function)
    def endpoint(**arguments: Any) -> Any:  # noqa: ANN401 - FastAPI passes what the signature says
        request, reply = arguments[REQUEST], arguments.pop(REPLY)
        if not takes_request:
            del arguments[REQUEST]
        answer = function(**arguments)
        _link_next(request, reply, getattr(answer, "next_cursor", None))
        if after is not None:
            after(request, reply, answer)
        return answer

    admitted = Depends(Requirement(declared.need))
    own = [
        inspect.Parameter(REQUEST, inspect.Parameter.KEYWORD_ONLY, annotation=Request),
        inspect.Parameter(REPLY, inspect.Parameter.KEYWORD_ONLY, annotation=Response),
        caller.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=admitted),
    ]
    others = [parameter for parameter in others if parameter.name != REQUEST]
    others = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in others]
    endpoint.__signature__ = inspect.Signature([*own, *others])  # type: ignore[attr-defined]
    return endpoint


def _status(caller: Caller, request: Request, supplier: SupplierQuery = None) -> Overview:
    if caller.seller is not None or supplier not in {None, MAIN}:
        return deployment.status(caller, supplier)
    # Data that all callers see is read once for all requests.
    snapshot: Snapshot = request.app.state.feed.newest()
    if snapshot.overview is None or snapshot.error:
        raise StoreError(snapshot.error)
    return snapshot.overview


def _started(request: Request, reply: Response, run: Run) -> None:
    reply.headers["Location"] = f"/api/runs/{run.id}"
    _wake(request, reply, run)


def _wake(request: Request, _reply: Response, _run: Run) -> None:
    background: BackgroundRuns = request.app.state.background
    background.ring()


def _forget_key(request: Request, _reply: Response, made: people.NewKey) -> None:
    _keep(request, replace(made, key=None))


def _forget_link(
    request: Request, _reply: Response, made: shop_links.ConnectLink | people.LoginLink
) -> None:
    _keep(request, replace(made, link=None))


def _keep(request: Request, answer: object) -> None:
    """Keep this for a replay, instead of the reply with its secret."""
    keep_instead(request, TypeAdapter(type(answer)).dump_json(answer, by_alias=True))


# Operations with another reply over HTTP, and their side effects there.
INSTEAD: Mapping[AnyOperation, Callable[..., Any]] = {
    deployment.status: _status,
    history.audit: audit.export,
}
AFTER: Mapping[AnyOperation, Callable[[Request, Response, Any], None]] = {
    runs.start_run: _started,
    runs.cancel_run: _wake,
    people.create_key: _forget_key,
    people.create_link: _forget_link,
    shop_links.connect_link: _forget_link,
}


def _link_next(request: Request, reply: Response, cursor: str | None) -> None:
    """Write into a header, too, where the list goes on."""
    if cursor is None:
        return
    pairs = [pair for pair in request.query_params.multi_items() if pair[0] != "cursor"]
    query = urlencode([*pairs, ("cursor", cursor)])
    reply.headers["Link"] = f'<{quote(request.url.path)}?{query}>; rel="next"'


async def _unknown(_request: Request, error: Exception) -> Response:
    """Answer a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    details = {404: "there is nothing here; see /openapi.json", 405: "this path has other methods"}
    detail = details.get(error.status_code, str(error.detail))
    return problem(error.status_code, detail, headers=error.headers)
