"""`/api/suppliers`: who they are, who buys there, how it goes. Secrets only ever come in."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field, SecretStr

from headway.core.catalog.intake import supplier_named
from headway.core.catalog.listings import SellerId, SupplierName
from headway.providers.provider import SupplierSetup
from headway.web.access import ApiRoute, OperateOperations, OverseeOperations
from headway.web.error_responses import said
from headway.web.inputs import NAME_CHARS_MAX, PLAIN, Cursor, Limit, SellerText, checked
from headway.web.listings import cut, link_next
from headway.web.response_model import Shape
from headway.web.status_models import BreakerShape

# Long enough for any key that somebody may be given, and short enough to be one.
SECRET_CHARS_MAX = 4000
Word = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=PLAIN)]
Secret = Annotated[SecretStr, Field(min_length=1, max_length=SECRET_CHARS_MAX)]
SECRETS = ("client_secret", "password", "token")
NewName = Annotated[str, checked(supplier_named), Field(examples=["east"])]
NamePath = Annotated[
    str,
    Path(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The supplier's name; `main` is the one of the settings.",
        examples=["east"],
    ),
]
EXAMPLE: dict[str, Any] = {
    "name": "east",
    "client_id": "7f3a-east",
    "username": "parts@acme.example",
    "url": "https://api.example.com",
    "kind": "boeing",
}
VIEW_EXAMPLE: dict[str, Any] = {
    **EXAMPLE,
    "sellers": 3,
    "listings": 12_000,
    "calls": 1440,
    "breaker": {
        "is_open": False,
        "opened_at": None,
        "open_until": None,
        "failures": 0,
        "trips": 0,
        "reason": "",
    },
    "oldest_read_at": "2026-03-04T12:00:00Z",
}


class SupplierShape(Shape):
    """A supplier: its credential, its address, and the provider that serves it."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})
    name: str
    client_id: str
    username: str
    url: str
    kind: str


class SupplierViewShape(SupplierShape):
    """A supplier, whom it serves and how it goes; calls are those of the last 24 hours."""

    model_config = ConfigDict(json_schema_extra={"examples": [VIEW_EXAMPLE]})
    sellers: int
    listings: int
    calls: int
    breaker: BreakerShape
    oldest_read_at: datetime | None


class SuppliersShape(Shape):
    """Suppliers by name, the one of the settings first, and where to go on."""

    items: list[SupplierViewShape]
    next_cursor: str | None


class NewSupplier(Shape):
    """A supplier to be kept, and what we sign in with there; without a url, where `main` is."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{**EXAMPLE, "client_secret": "...", "password": "..."}]},
    )
    name: NewName
    kind: Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)] = ""
    client_id: Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)] = ""
    client_secret: Secret | None = None
    username: Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)] = ""
    password: Secret | None = None
    token: Secret | None = None
    url: Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)] = ""
    options: dict[str, Any] = Field(default_factory=dict)


class AddedSupplierShape(SupplierShape):
    """A supplier as it is kept; it is not new where it only has another credential now."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**EXAMPLE, "options": {}, "is_new": True}]}
    )
    options: dict[str, Any]
    is_new: bool


class AcceptedListShape(Shape):
    """A held price list that an operator accepted, and what happens next."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"supplier": "east", "message": "accepted 900 rows"}]}
    )
    supplier: str
    message: str


class SupplierAssignment(Shape):
    """The seller who is to buy there."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"seller": "acme"}]})
    seller: SellerText


class AssignedSellerShape(Shape):
    """Whom a seller buys from now, and how many listings that moved."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"supplier": "east", "seller": "acme", "moved": 1200}]}
    )
    supplier: str
    seller: str
    moved: int


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["suppliers"])
    routes.get("/api/suppliers", responses=said(422))(suppliers)
    routes.post("/api/suppliers", status_code=201)(add)
    routes.delete("/api/suppliers/{name}", responses=said(404))(remove)
    routes.post("/api/suppliers/{name}/sellers", responses=said(404))(give)
    routes.post("/api/suppliers/{name}/accept", responses=said(404))(accept)
    return routes


def suppliers(
    request: Request,
    reply: Response,
    operations: OverseeOperations,
    *,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> SuppliersShape:
    """List suppliers: who buys there, calls of the last 24 hours, whether they answer."""
    found = operations.suppliers.some(limit=limit + 1, cursor=cursor)
    items, next_cursor = cut(found, limit)
    link_next(request, reply, next_cursor)
    return SuppliersShape.model_validate({"items": items, "next_cursor": next_cursor})


def add(operations: OperateOperations, wanted: NewSupplier) -> AddedSupplierShape:
    """Keep a supplier and, encrypted, its secrets; one that is there gets new secrets."""
    secrets = {name: getattr(wanted, name) for name in SECRETS}
    setup = SupplierSetup(
        kind=wanted.kind,
        client_id=wanted.client_id,
        username=wanted.username,
        url=wanted.url,
        options=wanted.options,
        secrets={name: secret.get_secret_value() for name, secret in secrets.items() if secret},
    )
    added = operations.suppliers.add(SupplierName(wanted.name), setup)
    return AddedSupplierShape.model_validate(added)


def remove(operations: OperateOperations, name: NamePath) -> SupplierShape:
    """Forget a supplier and its secrets; refused while a seller buys there."""
    return SupplierShape.model_validate(operations.suppliers.remove(SupplierName(name)))


def accept(operations: OperateOperations, name: NamePath) -> AcceptedListShape:
    """Accept the price list that is held for this supplier; refused if none is held."""
    return AcceptedListShape.model_validate(operations.suppliers.accept(SupplierName(name)))


def give(
    operations: OperateOperations, name: NamePath, buyer: SupplierAssignment
) -> AssignedSellerShape:
    """Let a seller buy from this supplier from now on; its listings keep their due times."""
    given = operations.suppliers.give(SupplierName(name), SellerId(buyer.seller))
    return AssignedSellerShape.model_validate(given)
