"""What a person stops, and lets go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headway.core.access import Need
from headway.core.catalog.listings import MAIN, SellerId, Sku
from headway.core.pauses import Pause, PauseKind, ResumeResult
from headway.errors import ForbiddenError, InvalidError
from headway.operations.callers import Caller
from headway.operations.inputs import (
    Instant,
    ReasonText,
    RequestBody,
    SellerQuery,
    SellerText,
    Skus,
    SupplierText,
    example,
)
from headway.operations.listing_search import for_each_listing
from headway.operations.operation import operation
from headway.store.catalog.suppliers import Suppliers
from headway.store.pauses import Pauses

TAG = "pauses"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseList:
    """What is paused; of one seller, whatever stops that seller."""

    now: datetime
    pauses: tuple[Pause, ...]
    """What is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedList:
    """An answer for each pause that was to end."""

    resumed: tuple[ResumeResult, ...]
    """The answer for each pause."""
    done: int
    """Pauses that ended."""
    left: int
    """Pauses that did not end."""


class ResumeBody(RequestBody):
    """What is to go on: everything, suppliers (all, or the one named), a seller, or parts.

    Without a body it is everything.
    """

    model_config = example({"kind": "listing", "skus": ["WF338109=K3"]})
    kind: PauseKind = PauseKind.ALL
    """What is meant: everything, suppliers, a seller or parts."""
    skus: Skus | None = None
    """The parts, with the kind `listing`. Example: `["WF338109=K3"]`"""
    seller: SellerText | None = None
    """The seller, with the kind `seller` or `listing`. Example: `acme`"""
    supplier: SupplierText | None = None
    """The supplier, with the kind `supplier`; all suppliers without it. Example: `east`"""
    reason: ReasonText = ""
    """Why, for the history. Example: `recalled`"""


class PauseBody(ResumeBody):
    """What is to stop, and until when. Without a body, everything stops until it is resumed.

    A pause that stands and ends later is kept, and the request refused, unless `replace` is true.
    """

    model_config = example(
        {"kind": "listing", "skus": ["WF338109=K3"], "reason": "recalled"},
        {"kind": "supplier", "supplier": "east", "reason": "its price list is wrong"},
        {"kind": "seller", "seller": "acme", "until": "2036-03-04T09:00:00Z"},
    )
    until: Instant | None = None
    """When the pause ends; without it, when somebody resumes it. Example: `2036-03-04T09:00:00Z`"""
    replace: bool = False
    """True to replace a pause that ends later."""


# What a request without a body means.
STOP_ALL, RESUME_ALL = PauseBody(), ResumeBody()


@operation(
    "GET", "/api/sync/pauses", need=Need.READ, tag=TAG, errors=(404, 422), name="list_pauses"
)
def pauses(caller: Caller, *, seller: SellerQuery = None) -> PauseList:
    """List what is paused."""
    now = caller.now
    active = Pauses(caller.own.pool).active(now, seller=caller.known(seller))
    return PauseList(now=now, pauses=tuple(active))


@operation(
    "POST", "/api/sync/pause", need=Need.WRITE, tag=TAG, errors=(404, 409), name="pause_sync"
)
def pause(caller: Caller, body: PauseBody = STOP_ALL) -> PauseList:
    """Stop everything, suppliers, a seller, or parts; it acts at once."""
    now = caller.now
    if body.until is not None and body.until <= now:
        raise InvalidError(f"a pause ends later than now, {now:%Y-%m-%d %H:%M} UTC")
    made = [
        Pause(
            kind=body.kind,
            seller=user_id,
            sku=sku,
            supplier=body.supplier,
            until=body.until,
            reason=body.reason,
            actor=caller.actor,
            since=now,
        )
        for user_id, sku in _things(caller, body)
    ]
    Pauses(caller.own.pool).pause_each(made, now, replaces=body.replace)
    return PauseList(now=now, pauses=tuple(made))


@operation("POST", "/api/sync/resume", need=Need.WRITE, tag=TAG, errors=(404,), name="resume_sync")
def resume(caller: Caller, body: ResumeBody = RESUME_ALL) -> ResumedList:
    """Let it go on; the answer says so where another pause still stops it."""
    resumed = Pauses(caller.own.pool).resume_each(
        body.kind,
        _things(caller, body),
        supplier=body.supplier,
        reason=body.reason,
        now=caller.now,
    )
    done = sum(thing.is_done for thing in resumed)
    return ResumedList(resumed=tuple(resumed), done=done, left=len(resumed) - done)


def _things(caller: Caller, body: ResumeBody) -> Sequence[tuple[SellerId | None, Sku | None]]:
    """Return what is to be paused or resumed; raises RequestError before it is done."""
    kind, supplier = body.kind, body.supplier
    if supplier is not None and kind is not PauseKind.SUPPLIER:
        raise InvalidError("supplier: name it to pause or resume a supplier, and nothing else")
    if bool(body.skus) != (kind is PauseKind.LISTING):
        raise InvalidError("name parts to pause or resume parts, and nothing else with them")
    if kind is PauseKind.LISTING:
        return for_each_listing(
            caller,
            body.skus or (),
            body.seller,
            lambda user_id, skus: [(user_id, sku) for sku in skus],
        )
    if kind is PauseKind.SELLER:
        seller = caller.known(body.seller)
        if seller is None:
            raise InvalidError("name the seller who is to be paused or resumed")
        return [(seller, None)]
    if caller.seller is not None:
        raise ForbiddenError(f"{caller.seller} may pause its own things only, not {kind}")
    if body.seller is not None:
        raise InvalidError(f"{kind} is nobody's alone; leave the seller out")
    if supplier is not None and supplier != MAIN:
        Suppliers(caller.shared.pool).find(supplier)  # raises NotFoundError
    return [(None, None)]
