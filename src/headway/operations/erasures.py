"""Erase a seller, an account or a customer, and prove it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from headway.app.erasure import for_seconds
from headway.core.access import Need
from headway.core.accounts.erasure import (
    PERSON,
    Erasure,
    ErasureKind,
    ErasureProof,
    ErasureStatus,
    ErasureSubject,
)
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.operations.callers import Caller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    Cursor,
    Limit,
    PlatformText,
    RequestBody,
    SellerQuery,
    SellerText,
    example,
)
from headway.operations.operation import operation
from headway.providers.registry import BUILT_IN_PLATFORMS, known_platform
from headway.store import cursors
from headway.store.accounts.erasures import Erasures

TAG = "privacy"
ErasureId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The erasure's id.",
        examples=["6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"],
    ),
]
NameText = Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)]


class ErasureBody(RequestBody):
    """What to erase: a seller with everything, one shop of a seller, or one customer.

    A seller's own key may erase customers only, and leave out the seller.
    """

    model_config = example(
        {"kind": "customer", "seller": "acme", "platform": BUILT_IN_PLATFORMS[0], "email": "a@b.c"},
        {"kind": "account", "seller": "acme", "platform": BUILT_IN_PLATFORMS[0]},
    )
    kind: ErasureKind
    """What to erase."""
    seller: SellerText | None = None
    """Whose data; it may be left out with a seller's key. Example: `acme`"""
    platform: PlatformText | None = None
    """The platform of the account, or the only one where a customer is erased."""
    shop: NameText = ""
    """The shop, if the seller has several on that platform. Example: `acme.myshopify.com`"""
    customer_id: NameText = ""
    """The customer's id on the platform. Example: `7001`"""
    email: NameText = ""
    """The customer's address; all customers with it are erased. Example: `ann@example.com`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePreview:
    """Rows that an erasure would delete or empty."""

    kind: ErasureKind
    """What would be erased."""
    seller: SellerId
    accounts: tuple[str, ...]
    """The shops concerned. Example: `["shopify acme.myshopify.com"]`"""
    counts: Mapping[str, int]
    """Rows by table. Example: `{"orders": 130}`"""
    total: int
    """All rows together. Example: `512`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePage:
    """Erasures, the newest first, and where to go on."""

    items: tuple[Erasure, ...]
    next_cursor: str | None


@operation("POST", "/api/erasures/preview", need=Need.WRITE, tag=TAG, errors=(404, 422))
def preview_erasure(caller: Caller, body: ErasureBody) -> ErasurePreview:
    """Count the rows that an erasure would delete; nothing is deleted.

    It is no GET: a customer's address does not belong in the log of a proxy.
    """
    subject = _subject(caller, body)
    counts = Erasures(caller.shared.pool).preview(subject, now=caller.now)
    return ErasurePreview(
        kind=subject.kind,
        seller=subject.user_id,
        accounts=tuple(f"{account.platform} {account.shop}" for account in subject.accounts),
        counts=counts,
        total=sum(counts.values()),
    )


@operation(
    "POST",
    "/api/erasures",
    need=Need.WRITE,
    tag=TAG,
    errors=(404, 409, 422),
    name="create_erasure",
)
def erase(caller: Caller, body: ErasureBody) -> Erasure:
    """Erase for good. It begins at once, and goes on in the background if much is stored.

    Pulls, webhooks and imports do not bring the data back. A seller or an account can be connected
    again on purpose, once the erasure is done. There is no way to undo it.
    """
    store = Erasures(caller.shared.pool)
    subject = _subject(caller, body)
    erasure = store.request(subject, cause=PERSON, actor=caller.actor, now=caller.now)
    goes_on = for_seconds(caller.shared.clock)
    return store.run(erasure.id, now=caller.now, goes_on=goes_on)


@operation("POST", "/api/erasures/{erasure_id}/continue", need=Need.WRITE, tag=TAG, errors=(404,))
def continue_erasure(caller: Caller, erasure_id: ErasureId) -> Erasure:
    """Continue an erasure for a few seconds; a running Headway does that by itself."""
    found = _found(caller, erasure_id)
    goes_on = for_seconds(caller.shared.clock)
    return Erasures(caller.shared.pool).run(found.id, now=caller.now, goes_on=goes_on)


@operation("GET", "/api/erasures", need=Need.READ, tag=TAG, errors=(404, 422), name="list_erasures")
def erasures(
    caller: Caller, *, seller: SellerQuery = None, cursor: Cursor = None, limit: Limit = 50
) -> ErasurePage:
    """List erasures, the newest first. One of a whole seller names nobody."""
    whose = caller.named(seller)
    rows = Erasures(caller.own.pool).some(whose, cursor=cursor, limit=limit + 1)
    last = rows[limit - 1] if len(rows) > limit else None
    next_cursor = None if last is None else cursors.encode(last.requested_at, last.id)
    return ErasurePage(items=tuple(rows[:limit]), next_cursor=next_cursor)


@operation(
    "GET",
    "/api/erasures/{erasure_id}/proof",
    need=Need.READ,
    tag=TAG,
    errors=(404, 409),
    name="get_erasure_proof",
)
def erasure_proof(caller: Caller, erasure_id: ErasureId) -> ErasureProof:
    """Return the proof of an erasure: what, when, and who asked, without personal data."""
    found = _found(caller, erasure_id)
    if found.status is ErasureStatus.RUNNING:
        raise ConflictError("rows are still being deleted; ask again in a moment")
    return Erasures(caller.shared.pool).proof(found)


def _found(caller: Caller, erasure_id: str) -> Erasure:
    """Return an erasure that the caller may see; or raise NotFoundError."""
    found = Erasures(caller.own.pool).find(erasure_id, user_id=caller.seller)
    if found is None:
        raise NotFoundError("there is no such erasure; see: headway erase list, or /api/erasures")
    return found


def _subject(caller: Caller, body: ErasureBody) -> ErasureSubject:
    """Return what to erase; raises InvalidError, ForbiddenError or NotFoundError."""
    if body.kind is not ErasureKind.CUSTOMER:
        caller.principal.require(Need.OPERATE)
    seller = caller.known(body.seller)
    if seller is None:
        raise InvalidError("seller: name the seller")
    is_customer = bool(body.customer_id or body.email)
    if is_customer != (body.kind is ErasureKind.CUSTOMER):
        raise InvalidError(
            "customer_id, email: name one of them to erase a customer, and only then"
        )
    store = Erasures(caller.shared.pool)
    whole = store.whole(seller)
    if body.kind is ErasureKind.SELLER:
        if body.platform is not None or body.shop:
            raise InvalidError("platform, shop: a seller is erased with all shops")
        return whole
    platform = None if body.platform is None else known_platform(body.platform)
    accounts = [
        account
        for account in whole.accounts
        if platform in {None, account.platform} and body.shop in {"", account.shop}
    ]
    if not accounts:
        raise NotFoundError(f"{seller} has no such shop; see: headway shops {seller}")
    if body.kind is ErasureKind.ACCOUNT:
        if len(accounts) > 1:
            names = ", ".join(f"{account.platform} {account.shop}" for account in accounts)
            raise InvalidError(f"platform, shop: {seller} has {names}; name one of them")
        return store.whole(seller, accounts[0].id)
    subject = store.customer(seller, accounts, customer_id=body.customer_id, email=body.email)
    if not subject.is_stored:
        raise NotFoundError(f"nothing is stored of this customer of {seller}")
    return subject
