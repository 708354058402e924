"""The API of a site: a route for every operation, its errors, and the OpenAPI document."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, cast, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headway.app import App
from headway.core.catalog.listings import MAIN
from headway.core.runs import Run
from headway.errors import StoreError
from headway.operations import deployment, history
from headway.operations.callers import Caller
from headway.operations.deployment import SupplierQuery
from headway.operations.operation import ApiOperation
from headway.operations.registry import OPERATIONS
from headway.runners.background import BackgroundRuns
from headway.store.runs import Runs
from headway.store.status import Overview
from headway.web import audit, health
from headway.web.access import ApiRoute, Requirement
from headway.web.audit import LINES
from headway.web.idempotency import keep_instead
from headway.web.live import Snapshot
from headway.web.openapi import document
from headway.web.problems import error_responses, problem

METHOD_NOT_ALLOWED = 405
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
AnyOperation = ApiOperation[Any, Any, Any]


def include(site: FastAPI, app: App) -> None:
    """Add everything to a site."""
    site.state.background = BackgroundRuns(Runs(app.pool))
    site.add_middleware(health.Counted, app=app)
    site.include_router(health.router(app))
    # Not `include_router`, which would build every route again for each site.
    site.router.routes.extend(router().routes)
    site.add_exception_handler(HTTPException, _unknown)

    def openapi() -> dict[str, Any]:
        return document(site)

    # FastAPI's own way to give a site another document.
    site.openapi = openapi  # type: ignore[method-assign]


@cache
def router() -> APIRouter:
    """Make a route of every operation; a site has no part in them."""
    routes = APIRouter(route_class=ApiRoute)
    for declared in OPERATIONS:
        routes.add_api_route(
            declared.path,
            _routed(HTTP_ONLY.get(declared) or _endpoint(declared), declared.path),
            methods=[declared.method],
            name=declared.name,
            operation_id=declared.name,
            description=inspect.getdoc(declared.function),
            status_code=declared.status,
            tags=[declared.tag],
            responses=error_responses(*declared.errors) | _replies(declared),
            response_class=StreamingResponse if declared.streams else JSONResponse,
            response_model=None if declared.streams else declared.signature.return_annotation,
        )
    return routes


def _endpoint(declared: AnyOperation) -> Callable[..., Any]:
    """Return the function that FastAPI routes: the operation with its caller from the request."""
    function: Callable[..., Any] = declared.function

    def endpoint(request: Request, reply: Response, **arguments: Any) -> Any:  # noqa: ANN401 - see below
        answer = function(**arguments)
        _link_next(request, reply, getattr(answer, "next_cursor", None))
        if declared.shown_once:
            shown = replace(answer, **{declared.shown_once: None})
            keep_instead(request, TypeAdapter(type(shown)).dump_json(shown, by_alias=True))
        if isinstance(answer, Run) and declared.method != "GET":
            reply.headers["Location"] = f"/api/runs/{answer.id}"
            request.app.state.background.ring()
        return answer

    def stream(request: Request, reply: Response, **arguments: Any) -> StreamingResponse:  # noqa: ARG001, ANN401
        return StreamingResponse(_lines(declared, function(**arguments)), media_type=LINES)

    routed: Any = stream if declared.streams else endpoint
    routed.body_bytes = declared.body_bytes
    request, reply, _ = inspect.signature(routed).parameters.values()
    caller, *others = inspect.signature(function).parameters.values()
    caller = caller.replace(default=Depends(Requirement(declared.need)))
    named = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in (caller, *others)]
    routed.__signature__ = inspect.Signature(
        [request, reply, *named], return_annotation=declared.signature.return_annotation
    )
    return cast("Callable[..., Any]", routed)


def _lines(declared: AnyOperation, items: Iterator[Any]) -> Iterator[bytes]:
    """Write each item of a result as a line of JSON, as it comes."""
    (kind,) = get_args(declared.signature.return_annotation)
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    return (adapter.dump_json(item) + b"\n" for item in items)


def _replies(declared: AnyOperation) -> dict[int | str, dict[str, Any]]:
    """Return what FastAPI cannot find out of the type of a result that comes item by item."""
    if not declared.streams or declared in REPLIES:
        return REPLIES.get(declared, {})
    (kind,) = get_args(declared.signature.return_annotation)
    text = f"A line of JSON for each, as it is done. {inspect.getdoc(kind)}"
    return {200: {"description": text, "content": {LINES: {"schema": {"type": "string"}}}}}


def _routed(endpoint: Callable[..., Any], path: str) -> Callable[..., Any]:
    """Return the function with the `Field` of each parameter as a `Path` or a `Query`."""
    signature = inspect.signature(endpoint)
    parameters = [_located(parameter, path) for parameter in signature.parameters.values()]
    endpoint.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return endpoint


def _located(parameter: inspect.Parameter, path: str) -> inspect.Parameter:
    kind, *metadata = get_args(parameter.annotation) or (parameter.annotation,)
    field = next((item for item in metadata if type(item) is FieldInfo), None)
    if field is None or parameter.name == "body":
        return parameter
    location = Path if re.search(rf"{{{parameter.name}[:}}]", path) else Query
    others = [item for item in metadata if item is not field]
    described = location(description=field.description, examples=field.examples)
    return parameter.replace(annotation=Annotated[kind, *others, *field.metadata, described])


def _status(
    request: Request,
    caller: Annotated[Caller, Depends(Requirement(deployment.status.need))],
    supplier: SupplierQuery = None,
) -> Overview:
    if caller.seller is not None or supplier not in {None, MAIN}:
        return deployment.status(caller, supplier)
    # Data that all callers see is read once for all requests.
    snapshot: Snapshot = request.app.state.feed.newest()
    if snapshot.overview is None or snapshot.error:
        raise StoreError(snapshot.error)
    return snapshot.overview


# Operations with an endpoint of their own, since their reply over HTTP is another one.
HTTP_ONLY: Mapping[AnyOperation, Callable[..., Any]] = {
    deployment.status: _status,
    history.audit: audit.export,
}
REPLIES: Mapping[AnyOperation, dict[int | str, dict[str, Any]]] = {history.audit: audit.REPLIES}


def _link_next(request: Request, reply: Response, cursor: str | None) -> None:
    """Write into a header, too, where the list goes on."""
    if cursor is None:
        return
    pairs = [pair for pair in request.query_params.multi_items() if pair[0] != "cursor"]
    query = urlencode([*pairs, ("cursor", cursor)])
    reply.headers["Link"] = f'<{quote(request.url.path)}?{query}>; rel="next"'


async def _unknown(request: Request, error: Exception) -> Response:
    """Answer a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    if error.status_code == METHOD_NOT_ALLOWED:
        allowed = ", ".join(_methods_of(request))
        detail = f"this path takes {allowed}"
        return problem(error.status_code, detail, headers={"Allow": allowed})
    details = {404: "there is nothing here; see /openapi.json"}
    detail = details.get(error.status_code, str(error.detail))
    return problem(error.status_code, detail, headers=error.headers)


def _methods_of(request: Request) -> list[str]:
    """Return the methods that some route has for the path of a request."""

    def has_route(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)

    return [method for method in METHODS if has_route(method)]
