"""`/api/me` and `/api/keys`: who asks, and who else may. A key is shown once, when it is made."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, StringConstraints

from headway.core.access import AccessGrant, Need, Role
from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError
from headway.store.access.keys import ApiKey
from headway.web.access import ApiRoute, Caller, OperateOperations, ReadOperations
from headway.web.error_responses import said
from headway.web.idempotency import keep_instead
from headway.web.inputs import Instant, NamePath, SellerText
from headway.web.response_model import Shape

RoleWord = Literal["operator", "seller", "reader"]
NeedWord = Literal["read", "write", "oversee", "operate"]
Name = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=100,
        pattern=r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$",
    ),
]
KEY_EXAMPLE: dict[str, Any] = {
    "id": "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11",
    "name": "acme-app",
    "prefix": "hw_1f0c9a2b",
    "role": "seller",
    "seller": "acme",
    "created_at": "2026-03-04T12:00:00Z",
    "expires_at": None,
    "last_used_at": None,
    "revoked_at": None,
}


class MeShape(Shape):
    """Who asks, and what they may."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "ops", "role": "operator", "seller": None, "may": ["read", "write"]}
            ]
        }
    )
    name: str
    role: RoleWord
    seller: str | None
    may: list[NeedWord]


class NewKey(Shape):
    """A key to be made: a seller's needs a seller, an operator's has none."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "acme-app", "role": "seller", "seller": "acme"}]},
    )
    name: Name
    role: RoleWord
    seller: SellerText | None = None
    expires_at: Instant | None = None


class KeyShape(Shape):
    """A key as people see it: never the key itself."""

    model_config = ConfigDict(json_schema_extra={"examples": [KEY_EXAMPLE]})
    id: str
    name: str
    prefix: str
    role: RoleWord
    seller: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class MadeKeyShape(KeyShape):
    """A key that was made; `key` is shown this once, and null when the reply is replayed."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**KEY_EXAMPLE, "key": "hw_1f0c9a2b..."}]}
    )
    key: str | None = Field(repr=False)


class KeysShape(Shape):
    """All keys, those that were revoked last."""

    keys: list[KeyShape]


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["access"])
    routes.add_api_route("/api/me", _me, methods=["GET"])
    routes.add_api_route("/api/keys", _keys, methods=["GET"])
    routes.add_api_route("/api/keys", _create, methods=["POST"], status_code=201)
    routes.add_api_route("/api/keys/{key_id}", _revoke, methods=["DELETE"], responses=said(404))
    return routes


def _me(_: ReadOperations, caller: Caller) -> MeShape:
    """Say who asks, and what they may."""
    may: list[NeedWord] = [need.value for need in Need if caller.may(need)]
    return MeShape(name=caller.name, role=caller.role.value, seller=caller.seller, may=may)


def _keys(operations: OperateOperations) -> KeysShape:
    """List keys, and when each was last used."""
    return KeysShape(keys=[KeyShape(**_told(each)) for each in operations.access.all_keys()])


def _create(request: Request, operations: OperateOperations, wanted: NewKey) -> MadeKeyShape:
    """Make a key; it is shown in this reply, and never again."""
    if (wanted.role == "seller") > (wanted.seller is not None):
        raise InvalidError("seller: a seller's key says whose it is")
    if wanted.role == "operator" and wanted.seller is not None:
        raise InvalidError("seller: an operator sees everybody's data; leave it out")
    grant = AccessGrant(
        name=wanted.name,
        role=Role(wanted.role),
        seller=None if wanted.seller is None else SellerId(wanted.seller),
        expires_at=wanted.expires_at,
    )
    key, secret = operations.access.create_key(grant)
    keep_instead(request, MadeKeyShape(**_told(key), key=None).model_dump_json().encode())
    return MadeKeyShape(**_told(key), key=secret)


def _revoke(operations: OperateOperations, key_id: NamePath) -> KeyShape:
    """Let a key, by its id, name or beginning, open nothing from now on, nor its sessions."""
    return KeyShape(**_told(operations.access.revoke_key(key_id)))


def _told(key: ApiKey) -> dict[str, Any]:
    told = {name: getattr(key, name) for name in ApiKey.__dataclass_fields__}
    seller = told.pop("user_id")
    return {**told, "role": key.role.value, "seller": seller}
