"""Which seller's listing a part number means, and a verb done for each listing."""

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from headway.core.catalog.listings import SellerId, Sku
from headway.errors import InvalidError, NotFoundError
from headway.operations.callers import Caller
from headway.store.catalog.review import Review
from headway.store.timetable.positions import ListingPositions

Answer = TypeVar("Answer")
NAMED_MAX = 5


def for_each_listing(
    caller: Caller,
    skus: Sequence[Sku],
    seller: SellerId | None,
    verb: Callable[[SellerId, list[Sku]], list[Answer]],
) -> list[Answer]:
    """Do a verb for the one seller of each part; raises RequestError before anything is done."""
    named = caller.named(seller)
    if not skus:
        raise InvalidError("name at least one part")
    sellers = Review(caller.own.pool).sellers_of(skus)
    chosen: dict[SellerId, list[Sku]] = {}
    for sku in dict.fromkeys(skus):
        listed_by = sellers.get(sku, [])
        chosen.setdefault(_seller_of(caller, sku, listed_by, named), []).append(sku)
    return [answer for user_id, own in chosen.items() for answer in verb(user_id, own)]


def raise_not_listed(caller: Caller, sku: Sku, seller: SellerId | None) -> None:
    """Raise NotFoundError unless the seller, or any seller if none is named, lists the part."""
    listed_by = Review(caller.own.pool).sellers_of([sku]).get(sku, [])
    if not listed_by or seller not in {None, *listed_by}:
        _refuse(caller, sku, listed_by, seller)


def _seller_of(
    caller: Caller, sku: Sku, listed_by: Sequence[SellerId], seller: SellerId | None
) -> SellerId:
    if seller is not None and seller in listed_by:
        return seller
    if seller is not None or not listed_by:
        _refuse(caller, sku, listed_by, seller)
    if len(listed_by) > 1:
        names = _names(listed_by)
        raise InvalidError(f"{sku} is listed by {names}; say whose: name the seller (--seller)")
    return listed_by[0]


def _refuse(
    caller: Caller, sku: Sku, listed_by: Sequence[SellerId], seller: SellerId | None
) -> NoReturn:
    """Raise NotFoundError; a seller never learns which other sellers list the part."""
    if caller.seller is None and listed_by:
        raise NotFoundError(f"{seller} does not list {sku}; it is listed by {_names(listed_by)}")
    similar = ListingPositions(caller.own.pool).similar(sku, seller=caller.seller)
    hint = f"did you mean {' or '.join(similar)}?" if similar else "check how it is spelled"
    raise NotFoundError(f"no listing has the part number {sku}; {hint}")


def _names(sellers: Sequence[SellerId]) -> str:
    more = ", ..." if len(sellers) > NAMED_MAX else ""
    return ", ".join(sellers[:NAMED_MAX]) + more
