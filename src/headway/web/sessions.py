"""`/api/sessions`: browsers that are logged in, and how an operator shows them out."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import ConfigDict

from headway.store.access.sessions import BrowserSession
from headway.web.access import ApiRoute, OperateOperations
from headway.web.error_responses import said
from headway.web.inputs import NAME_CHARS_MAX, PLAIN, NamePath
from headway.web.keys import RoleWord
from headway.web.response_model import Shape

EXAMPLE: dict[str, Any] = {
    "id": "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11",
    "name": "acme-app",
    "role": "seller",
    "seller": "acme",
    "prefix": "hw_1f0c9a2b",
    "address": "192.0.2.7",
    "created_at": "2026-03-04T12:00:00Z",
    "last_seen_at": "2026-03-04T12:30:00Z",
    "expires_at": "2026-03-07T12:00:00Z",
}
Name = Annotated[
    str,
    Query(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="Whose: a key's name, or the role of whoever came by a link.",
        examples=["acme-app"],
    ),
]


class SessionShape(Shape):
    """A browser that is logged in; `prefix` is its key's beginning, null if it came by a link."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})
    id: str
    name: str
    role: RoleWord
    seller: str | None
    prefix: str | None
    address: str
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime


class SessionsShape(Shape):
    """Sessions, those seen last first."""

    sessions: list[SessionShape]


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["access"])
    routes.get("/api/sessions")(sessions)
    routes.delete("/api/sessions", responses=said(404))(end_all)
    routes.delete("/api/sessions/{session_id}", responses=said(404))(end)
    return routes


def sessions(operations: OperateOperations) -> SessionsShape:
    """List browsers that are logged in: who, since when, last seen, from where."""
    return SessionsShape(sessions=[_shape(each) for each in operations.access.sessions()])


def end_all(operations: OperateOperations, name: Name) -> SessionsShape:
    """End all sessions of somebody, by the name that the audit shows."""
    return SessionsShape(sessions=[_shape(each) for each in operations.access.end_sessions(name)])


def end(operations: OperateOperations, session_id: NamePath) -> SessionShape:
    """End a session; its browser must log in again."""
    return _shape(operations.access.end_session(session_id))


def _shape(session: BrowserSession) -> SessionShape:
    told = {name: getattr(session, name) for name in BrowserSession.__dataclass_fields__}
    seller = told.pop("user_id")
    return SessionShape(**{**told, "role": session.role.value, "seller": seller})
