"""Removals of listings that are held until pulls agree, or until a person decides."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from headway.core.access import Need
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.operations.callers import Caller
from headway.operations.inputs import (
    Cursor,
    Limit,
    PlatformText,
    ReasonText,
    RequestBody,
    SellerQuery,
    SellerText,
    example,
)
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.providers.registry import BUILT_IN_PLATFORMS, known_platform
from headway.store.accounts.removals import HeldRemoval, Removals

TAG = "accounts"
ERRORS = (404, 409)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRemovalPage:
    """Held removals by seller, and where to go on."""

    items: tuple[HeldRemoval, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRuling:
    """What was decided about a held removal, and how many listings were removed."""

    removal: HeldRemoval
    """The held removal as it was."""
    removed: int
    """Listings that were removed."""
    message: str
    """What was done. Example: `15 listings are removed`"""


class RemovalBody(RequestBody):
    """Which hold is decided: `missing` is the number that the caller has seen.

    It is refused if another number is missing now. A seller's own key may leave out the seller.
    """

    model_config = example({"seller": "acme", "platform": BUILT_IN_PLATFORMS[0], "missing": 15})
    seller: SellerText | None = None
    """Whose account; it may be left out with a seller's key. Example: `acme`"""
    platform: PlatformText
    missing: Annotated[int, Field(ge=1)]
    """The number of missing listings that you were shown. Example: `15`"""
    reason: ReasonText = ""
    """Why, for the history. Example: `the section was closed`"""


@operation(
    "GET", "/api/removals", need=Need.READ, tag=TAG, errors=(404, 422), name="list_held_removals"
)
def removals(
    caller: Caller, *, seller: SellerQuery = None, cursor: Cursor = None, limit: Limit = 50
) -> HeldRemovalPage:
    """List accounts most of whose listings are missing, so that their removal is held."""
    store = Removals(caller.own.pool)
    rows = store.some(caller.known(seller), cursor=cursor, limit=limit + 1)
    shown, next_cursor = cut(rows, limit)
    return HeldRemovalPage(items=shown, next_cursor=next_cursor)


@operation("POST", "/api/removals/confirm", need=Need.WRITE, tag=TAG, errors=ERRORS)
def confirm_removal(caller: Caller, body: RemovalBody) -> RemovalRuling:
    """Remove the missing listings now: somebody looked, and they are gone from the platform."""
    hold, removed = _decide(caller, body, is_confirmed=True)
    message = f"{removed:,} listings of {hold.shop} are removed"
    return RemovalRuling(removal=hold, removed=removed, message=message)


@operation("POST", "/api/removals/dismiss", need=Need.WRITE, tag=TAG, errors=ERRORS)
def dismiss_removal(caller: Caller, body: RemovalBody) -> RemovalRuling:
    """Keep the missing listings: they are still on the platform. Pulls are counted from zero."""
    hold, _ = _decide(caller, body, is_confirmed=False)
    message = f"the listings of {hold.shop} are kept; pulls are counted from zero"
    return RemovalRuling(removal=hold, removed=0, message=message)


def _decide(caller: Caller, body: RemovalBody, *, is_confirmed: bool) -> tuple[HeldRemoval, int]:
    """Decide about a hold; raises InvalidError, NotFoundError or ConflictError."""
    seller, platform = caller.known(body.seller), known_platform(body.platform)
    if seller is None:
        raise InvalidError("seller: name the seller whose listings are missing")
    hold, removed = Removals(caller.own.pool).decide(
        seller,
        platform,
        missing=body.missing,
        is_confirmed=is_confirmed,
        reason=body.reason,
        now=caller.now,
    )
    if hold is None:
        raise NotFoundError(
            f"no removal of {seller} is held on {platform}; see: headway removals, or /api/removals"
        )
    if hold.missing != body.missing:
        raise ConflictError(
            f"missing: {hold.missing} listings of {hold.shop} are missing now, not"
            f" {body.missing}; look at the shop again"
        )
    return hold, removed
