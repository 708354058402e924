"""The access that a route requires: it is an `ApiRoute`, and takes one caller, as in this line.

    def held(caller: Annotated[Caller, Depends(Requirement(Need.READ))], ...) -> HeldPage: ...

The need also goes into the OpenAPI document; a route without one does not start. Errors are problem
details, and a POST may carry an Idempotency-Key.
"""

from typing import Annotated, Any

from fastapi import Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.concurrency import run_in_threadpool

from headway.core.access import Need
from headway.errors import InvariantError
from headway.operations.callers import Caller
from headway.web.authentication import COOKIE, CSRF_HEADER, SAFE, AuthenticationGate, Visitor
from headway.web.body_limits import BODY_BYTES_MAX, read_body, with_body
from headway.web.idempotency import HEADER, KEY_CHARS_MAX, once
from headway.web.problems import Handle, answering, error_responses
from headway.web.request_text import require_readable_body, require_readable_query

NEED = "x-headway-need"
KEY_SCHEME = HTTPBearer(
    scheme_name="key", description="A key: headway key create NAME --role ROLE.", auto_error=False
)
SESSION_SCHEME = APIKeyCookie(
    name=COOKIE,
    scheme_name="session",
    description=f"A browser's session; what it writes shows its token in {CSRF_HEADER}.",
    auto_error=False,
)
REFUSALS = error_responses(401, 403, 422, 429, 503)
WRITE_REFUSALS = error_responses(408, 409, 413)
KEY_PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "The same request under the same key is done once, and answered as it was.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX},
}


class Requirement:
    """A dependency that returns the caller, if the caller may do what the route does."""

    def __init__(self, need: Need) -> None:
        self.need = need

    async def __call__(
        self,
        request: Request,
        _key: Annotated[object, Security(KEY_SCHEME)],
        _session: Annotated[object, Security(SESSION_SCHEME)],
    ) -> Caller:
        """Return the caller; raises ForbiddenError."""
        visitor: Visitor = request.state.visitor
        visitor.principal.require(self.need)
        gate: AuthenticationGate = request.app.state.gate
        return gate.caller(visitor)


class ApiRoute(APIRoute):
    """A route that admits only those it is for, and answers errors as problem details."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:  # noqa: ANN401 - as FastAPI's own
        is_write = not set(options.get("methods") or ["GET"]) <= SAFE
        refusals = REFUSALS | WRITE_REFUSALS if is_write else REFUSALS
        options["responses"] = {**refusals, **(options.get("responses") or {})}
        super().__init__(path, endpoint, **options)
        needs = [
            dependency.call
            for dependency in self.dependant.dependencies
            if isinstance(dependency.call, Requirement)
        ]
        if len(needs) != 1:
            raise InvariantError(f"{path} must take one caller, which says what it needs")
        extra: dict[str, Any] = {NEED: needs[0].need.value}
        if "POST" in (self.methods or ()):
            extra["parameters"] = [KEY_PARAMETER]
        self.openapi_extra = {**extra, **(self.openapi_extra or {})}

    def get_route_handler(self) -> Handle:
        """Wrap the handler: authenticate first, then handle the request."""
        handle = answering(super().get_route_handler())
        bytes_max = getattr(self.endpoint, "body_bytes", 0) or BODY_BYTES_MAX

        async def guarded(request: Request) -> Response:
            gate: AuthenticationGate = request.app.state.gate
            visitor = await run_in_threadpool(gate.admit, request)
            require_readable_query(request)
            if request.method in SAFE:
                request.state.visitor = visitor
                return gate.sign(await handle(request))
            body = await read_body(request, bytes_max=bytes_max)
            if isinstance(body, Response):
                return body
            require_readable_body(body)
            request = with_body(request, body)
            request.state.visitor = visitor
            if request.method != "POST":
                return gate.sign(await handle(request))
            who, now = visitor.principal, gate.now
            reply = await once(gate.idempotency, request, body, who=who, now=now, handle=handle)
            return gate.sign(reply)

        return answering(guarded)
