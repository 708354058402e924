"""Suppliers: their credentials, who buys there, and how they answer. Secrets only ever come in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from headway.app import App
from headway.app.providers import context_of, kind_of, main_entry, role_of, supplier_key
from headway.app.supplier_queue import supplier_queue
from headway.app.suppliers import add_supplier as keep_supplier
from headway.app.suppliers import remove_supplier as forget_supplier
from headway.core.access import Need
from headway.core.catalog.intake import supplier_named
from headway.core.catalog.listings import MAIN, LimitKey, SellerId, SupplierName
from headway.core.dispatch import SUPPLIER
from headway.core.pauses import Pause, longest
from headway.core.timetable.next_call import next_call
from headway.errors import ConflictError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    Cursor,
    Limit,
    RequestBody,
    Secret,
    SellerText,
    checked,
    example,
)
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.providers.provider import SupplierSetup
from headway.store import cursors
from headway.store.catalog.supplier_list import SupplierQueries, SupplierView
from headway.store.catalog.suppliers import SupplierRow, Suppliers
from headway.store.pauses import Pauses
from headway.store.pool import Lent, guarded

TAG = "suppliers"
Word = Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)]
SECRETS = ("client_secret", "password", "token")
SupplierPath = Annotated[
    SupplierName,
    Field(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The supplier's name; `main` is the one of the settings.",
        examples=["east"],
    ),
]
EXAMPLE = {
    "name": "east",
    "client_id": "7f3a-east",
    "username": "parts@acme.example",
    "url": "https://api.example.com",
    "kind": SUPPLIER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSupplier:
    """A stored supplier; it is not new where it only got another credential."""

    name: SupplierName
    """The supplier's name. Example: `east`"""
    client_id: str
    username: str
    url: str
    kind: str
    """The kind of supplier, as `headway providers` lists it; empty for the usual one.
    Example: `feed`
    """
    options: Mapping[str, Any]
    is_new: bool
    """False if only the credential changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedList:
    """A held price list that an operator accepted, and what happens next."""

    supplier: SupplierName
    message: str
    """What happens next. Example: `the list is read at the next call`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedSeller:
    """The supplier that a seller buys from now, and how many listings that moved."""

    supplier: SupplierName
    seller: SellerId
    moved: int
    """Listings that moved to the supplier's queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierPage:
    """Suppliers by name, the one of the settings first, and where to go on."""

    items: tuple[SupplierView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierStatus:
    """A supplier and its queue: the pause that stops it, or when its next call leaves."""

    view: SupplierView
    pause: Pause | None
    leaves_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierStatuses:
    """The suppliers that a person should see first, and how many there are."""

    first: tuple[SupplierStatus, ...]
    count: int


class SupplierBody(RequestBody):
    """A supplier to be kept, and what we sign in with there; without a url, where `main` is."""

    model_config = example({**EXAMPLE, "client_secret": "...", "password": "..."})
    name: Annotated[SupplierName, checked(supplier_named), Field(examples=["east"])]
    """The supplier's name. Example: `east`"""
    kind: Word = ""
    """The kind of supplier, as `headway providers` lists it; empty for the usual one.
    Example: `feed`
    """
    client_id: Word = ""
    client_secret: Secret | None = None
    """The secret of the credential. Example: `0123456789abcdef`"""
    username: Word = ""
    password: Secret | None = None
    """The password, where the supplier wants one. Example: `correct horse battery staple`"""
    token: Secret | None = None
    """The token, where the supplier wants one. Example: `0123456789abcdef`"""
    url: Word = ""
    options: dict[str, Any] = Field(default_factory=dict)


class AssignmentBody(RequestBody):
    """The seller who is to buy there."""

    model_config = example({"seller": "acme"})
    seller: SellerText
    """The seller who is to buy there. Example: `acme`"""


@operation(
    "GET", "/api/suppliers", need=Need.OVERSEE, tag=TAG, errors=(422,), name="list_suppliers"
)
def suppliers(caller: OperatorCaller, *, cursor: Cursor = None, limit: Limit = 50) -> SupplierPage:
    """List suppliers: who buys there, calls of the last 24 hours, whether they answer."""
    app, now, queries = caller.app, caller.now, SupplierQueries(caller.app.pool)
    if cursor is None:
        rows = [_main(app), *queries.rows(limit=limit)]
    else:
        (after,) = cursors.decode(cursor, str)
        rows = queries.rows(limit=limit + 1, after="" if after == MAIN else after)
    items, next_cursor = cut(queries.views(_by_limit_key(app, rows), now), limit)
    return SupplierPage(items=items, next_cursor=next_cursor)


@operation("POST", "/api/suppliers", need=Need.OPERATE, tag=TAG, status=201)
def add_supplier(caller: OperatorCaller, body: SupplierBody) -> AddedSupplier:
    """Keep a supplier and, encrypted, its secrets; one that is there gets new secrets."""
    secrets = {name: getattr(body, name) for name in SECRETS}
    setup = SupplierSetup(
        kind=body.kind,
        client_id=body.client_id,
        username=body.username,
        url=body.url,
        options=body.options,
        secrets={name: secret.get_secret_value() for name, secret in secrets.items() if secret},
    )
    is_new = keep_supplier(caller.app, body.name, setup)
    row = _with_url(caller.app, Suppliers(caller.app.pool).find(body.name))
    return AddedSupplier(**asdict(row), is_new=is_new)


@operation("DELETE", "/api/suppliers/{name}", need=Need.OPERATE, tag=TAG, errors=(404,))
def remove_supplier(caller: OperatorCaller, name: SupplierPath) -> SupplierRow:
    """Forget a supplier and its secrets; refused while a seller buys there."""
    if name == MAIN:
        raise ConflictError(f"{MAIN} is the supplier of the settings, and stays")
    row = Suppliers(caller.app.pool).find(name)
    forget_supplier(caller.app, name)
    return _with_url(caller.app, row)


@operation("POST", "/api/suppliers/{name}/sellers", need=Need.OPERATE, tag=TAG, errors=(404,))
def assign_seller(
    caller: OperatorCaller, name: SupplierPath, body: AssignmentBody
) -> AssignedSeller:
    """Let a seller buy from this supplier from now on; its listings keep their due times."""
    caller.known(body.seller)
    moved = Suppliers(caller.app.pool).give(name, body.seller, now=caller.now)
    return AssignedSeller(supplier=name, seller=body.seller, moved=moved)


@operation(
    "POST",
    "/api/suppliers/{name}/accept",
    need=Need.OPERATE,
    tag=TAG,
    errors=(404,),
    name="accept_price_list",
)
def accept_list(caller: OperatorCaller, name: SupplierPath) -> AcceptedList:
    """Accept the price list that is held for this supplier; refused if none is held."""
    app = caller.app
    row = Suppliers(app.pool).find(name)
    accept = role_of(row).accept
    if accept is None:
        raise ConflictError(f"{name} has no price list that could be held")
    context = context_of(app.settings, app.clock, app.pool, None)
    return AcceptedList(supplier=name, message=accept(context, row))


def worst_suppliers(caller: OperatorCaller, *, limit: int) -> SupplierStatuses:
    """Return the suppliers that do not answer, longest first, then those with the oldest reads.

    Without a supplier beside the settings' there is nothing to choose from, and none is returned.
    """
    app, now = caller.app, caller.now
    with guarded(), app.pool.connection() as connection:
        lent = Lent(connection)
        others, queries = Suppliers(lent).all(), SupplierQueries(lent)
        if not others:
            return SupplierStatuses(first=(), count=1)
        every = _by_limit_key(app, [_main(app), *others])
        names = queries.worst(every, limit=limit)
        chosen = {limit_key: row for limit_key, row in every.items() if row.name in names}
        views = queries.views(chosen, now)
        pauses = Pauses(lent).active(now)
    # Only now: waiting for a second connection while others do the same could deadlock.
    statuses = [_status(app, view, pauses) for view in views]
    statuses.sort(key=lambda status: names.index(status.view.name))
    return SupplierStatuses(first=tuple(statuses), count=len(every))


def _status(app: App, view: SupplierView, pauses: Sequence[Pause]) -> SupplierStatus:
    pause = longest(pause for pause in pauses if pause.stops_queue(view.name))
    if pause is not None:
        return SupplierStatus(view=view, pause=pause, leaves_at=None)
    now = app.clock.now()
    queue = supplier_queue(app.for_supplier(view.name), now)
    return SupplierStatus(view=view, pause=None, leaves_at=next_call(queue, now).leaves_at)


def _main(app: App) -> SupplierRow:
    entry, _ = main_entry(app.settings)
    return SupplierRow(name=MAIN, client_id=entry.client_id, username=entry.username)


def _by_limit_key(app: App, rows: Iterable[SupplierRow]) -> dict[LimitKey, SupplierRow]:
    return {supplier_key(row): _with_url(app, row) for row in rows}


def _with_url(app: App, row: SupplierRow) -> SupplierRow:
    """Return the supplier with its address and kind filled in."""
    url = row.url or role_of(row).default_url(app.settings)
    return replace(row, url=url, kind=kind_of(row.kind))
