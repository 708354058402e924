"""Errors over HTTP: problem details (RFC 9457) that never contain the caller's input."""

import math
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from headway.errors import (
    ConfigError,
    RequestError,
    StoreError,
    TooManyError,
    UnauthenticatedError,
)
from headway.operations.inputs import field_errors

# Pydantic's errors for a body that is not JSON; with another header it is unparsed text.
NO_OBJECT = {"json_invalid", "model_attributes_type"}
NO_BODY = {"missing", "model_type", "dict_type"}
NO_OBJECT_ADVICE = "body: send a JSON object, with the header content-type: application/json"
# What FastAPI answers for a body that it cannot read, such as one nested too deeply.
FASTAPIS_UNREADABLE = 400
TITLES = {
    400: "the request is malformed",
    401: "not authenticated",
    403: "not allowed",
    404: "not found",
    405: "method not allowed",
    408: "the body did not arrive in time",
    409: "conflict",
    413: "the body is too large",
    422: "the request is malformed",
    429: "too many requests",
}
DESCRIPTIONS: dict[int, str] = {
    401: "The API key or session is missing, invalid or expired.",
    403: "The role of the key or session does not allow this.",
    404: "It does not exist, or it belongs to another seller.",
    408: "The body did not arrive in time.",
    409: "It is not as you saw it, or the same request is in progress; `detail` says why.",
    413: "The body is too large.",
    422: "The request is malformed; `detail` names the field.",
    429: "Too many requests; `Retry-After` says how long to wait.",
    503: "The database does not answer.",
}
HEADERS = {
    429: {
        "Retry-After": {
            "description": "How many seconds to wait.",
            "schema": {"type": "integer", "minimum": 0, "examples": [30]},
        }
    }
}
Handle = Callable[[Request], Coroutine[Any, Any, Response]]


class Shape(BaseModel):
    """A reply's shape, filled from a dataclass of the same names."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", frozen=True)


class Problem(Shape):
    """An error, as RFC 9457 writes it; its type is about:blank, so the status says what it is."""

    title: str
    """What kind of error it is. Example: `not found`"""
    status: int
    """The HTTP status. Example: `404`"""
    detail: str
    """What is wrong and what to do; it names the field. Example: `no such job; see /api/jobs`"""


class ProblemRoute(APIRoute):
    """A route that returns expected errors as problem details (RFC 9457), without raw input."""

    def get_route_handler(self) -> Handle:
        """Wrap the handler."""
        return answering(super().get_route_handler())


def answering(handle: Handle) -> Handle:
    """Return a handler that answers with problem details where this one raises a HeadwayError."""

    async def handled(request: Request) -> Response:
        try:
            return await handle(request)
        except RequestValidationError as error:
            return problem(422, _fields(error))
        except HTTPException as error:
            if error.status_code != FASTAPIS_UNREADABLE:
                raise
            return problem(422, NO_OBJECT_ADVICE)
        except RequestError as error:
            return problem(error.status_code, str(error), headers=_headers(error))
        except StoreError as error:
            return problem(503, str(error), title="the database is down")
        except ConfigError as error:
            return problem(503, str(error), title="this server is not set up for that")

    return handled


def _headers(error: RequestError) -> Mapping[str, str]:
    """Return the headers that HTTP requires for this error."""
    if isinstance(error, UnauthenticatedError):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooManyError):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    return {}


def _fields(error: RequestValidationError) -> str:
    """Return each invalid field with its reason."""
    if any(
        fault["type"] in NO_OBJECT or (fault["loc"] == ("body",) and fault["type"] in NO_BODY)
        for fault in error.errors()
    ):
        return NO_OBJECT_ADVICE
    return field_errors(error.errors(), skip=1)


def problem(
    status: int,
    detail: str,
    *,
    title: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return an error reply with problem details."""
    content = {"title": title or TITLES.get(status, "refused"), "status": status, "detail": detail}
    return JSONResponse(
        content, status_code=status, media_type="application/problem+json", headers=headers
    )


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the declaration of these statuses."""
    return {
        status: {
            "model": Problem,
            "description": DESCRIPTIONS[status],
            **({"headers": HEADERS[status]} if status in HEADERS else {}),
        }
        for status in statuses
    }
