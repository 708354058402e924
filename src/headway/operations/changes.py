"""Changes that are held for a person, and what the person decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import model_validator

from headway.core.access import Need
from headway.core.catalog.review import Ruling
from headway.errors import InvalidError
from headway.operations.callers import Caller
from headway.operations.inputs import (
    Cursor,
    Instant,
    Limit,
    ReasonText,
    RequestBody,
    SellerQuery,
    SellerText,
    Skus,
    example,
)
from headway.operations.listing_search import for_each_listing
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.store.catalog.review import HeldChange, Review

TAG = "deciding"
ERRORS = (404,)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPage:
    """Held changes, the oldest first, and where to go on."""

    items: tuple[HeldChange, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulings:
    """An answer for each listing, and how many were done."""

    listings: tuple[Ruling, ...]
    done: int
    left: int


class Decision(RequestBody):
    """Parts, whose they are if several sellers list one, and why."""

    skus: Skus
    seller: SellerText | None = None
    reason: ReasonText = ""


class Approval(RequestBody):
    """Parts, or everything that can be approved, which needs a reason."""

    model_config = example(
        {"skus": ["WF338109=K3"], "seller": "acme"}, {"all": True, "reason": "yearly price list"}
    )
    skus: Skus | None = None
    all: bool = False
    seller: SellerText | None = None
    reason: ReasonText = ""

    @model_validator(mode="after")
    def _either(self) -> "Approval":
        if (self.skus is None) != self.all:
            raise ValueError("name skus, or say all; not both")
        return self


class Rollback(RequestBody):
    """Parts, or all of a seller's that changed since an instant, and the moment to return to."""

    model_config = example(
        {"skus": ["WF338109=K3"], "to": "2026-03-04T09:00:00Z", "dry_run": True},
        {"since": "2026-03-04T09:00:00Z", "to": "2026-03-04T08:59:00Z", "seller": "acme"},
    )
    skus: Skus | None = None
    since: Instant | None = None
    to: Instant
    seller: SellerText | None = None
    reason: ReasonText = ""
    dry_run: bool = False

    @model_validator(mode="after")
    def _either(self) -> "Rollback":
        if (self.skus is None) == (self.since is None):
            raise ValueError("name skus, or since with a seller; not both")
        return self


class Revival(RequestBody):
    """Parts, or everything that is parked."""

    model_config = example({"skus": ["WF338109=K3"]}, {"all": True})
    skus: Skus | None = None
    all: bool = False
    seller: SellerText | None = None

    @model_validator(mode="after")
    def _either(self) -> "Revival":
        if (self.skus is None) != self.all:
            raise ValueError("name skus, or say all; not both")
        return self


@operation("GET", "/api/sync/held", need=Need.READ, tag=TAG, errors=(404, 422))
def held(
    caller: Caller, *, seller: SellerQuery = None, cursor: Cursor = None, limit: Limit = 50
) -> HeldPage:
    """List the changes that are held for a person, the oldest first."""
    review = Review(caller.own.pool)
    rows = review.held(caller.known(seller), limit=limit + 1, cursor=cursor)
    items, next_cursor = cut(rows, limit)
    return HeldPage(items=items, next_cursor=next_cursor)


@operation("POST", "/api/sync/approve", need=Need.WRITE, tag=TAG, errors=ERRORS)
def approve(caller: Caller, body: Approval) -> Rulings:
    """Let held changes reach the shop; `all` also lifts the guard against mass changes for 24 h."""
    review, now, reason = Review(caller.own.pool), caller.now, body.reason
    if body.skus is None:
        return ruled(review.approve_all(caller.known(body.seller), reason=reason, now=now))
    return ruled(
        for_each_listing(
            caller,
            body.skus,
            body.seller,
            lambda *key: review.approve(*key, reason=reason, now=now),
        )
    )


@operation("POST", "/api/sync/reject", need=Need.WRITE, tag=TAG, errors=ERRORS)
def reject(caller: Caller, body: Decision) -> Rulings:
    """Keep the shop's price; the same quote is not held again."""
    review, now = Review(caller.own.pool), caller.now
    return ruled(
        for_each_listing(
            caller,
            body.skus,
            body.seller,
            lambda *key: review.reject(*key, reason=body.reason, now=now),
        )
    )


@operation("POST", "/api/sync/rollback", need=Need.WRITE, tag=TAG, errors=ERRORS)
def rollback(caller: Caller, body: Rollback) -> Rulings:
    """Give parts the price that the shop showed at another time; stock stays as it is."""
    review, to, reason, dry_run = Review(caller.own.pool), body.to, body.reason, body.dry_run
    now = _require_past(caller.now, *filter(None, (body.since, to)))
    if body.skus is not None:
        return ruled(
            for_each_listing(
                caller,
                body.skus,
                body.seller,
                lambda *key: review.rollback(*key, to=to, reason=reason, now=now, dry_run=dry_run),
            )
        )
    seller = caller.known(body.seller)
    if seller is None:
        raise InvalidError("since needs a seller: a batch is rolled back for one seller")
    return ruled(
        review.rollback(seller, since=body.since, to=to, reason=reason, now=now, dry_run=dry_run)
    )


@operation("POST", "/api/sync/revive", need=Need.WRITE, tag=TAG, errors=ERRORS)
def revive(caller: Caller, body: Revival) -> Rulings:
    """Restart parked parts; they are in the next call. Jobs are revived at /api/jobs."""
    review, now = Review(caller.own.pool), caller.now
    if body.skus is None:
        return ruled(review.revive_all(caller.known(body.seller), now=now))
    return ruled(
        for_each_listing(caller, body.skus, body.seller, lambda *key: review.revive(*key, now=now))
    )


def ruled(rulings: Sequence[Ruling]) -> Rulings:
    """Return the answer for each listing, and how many were done."""
    done = sum(ruling.is_done for ruling in rulings)
    return Rulings(listings=tuple(rulings), done=done, left=len(rulings) - done)


def _require_past(now: datetime, *instants: datetime) -> datetime:
    """Return now; raises InvalidError for an instant that is still to come."""
    for at in instants:
        if at > now:
            raise InvalidError(
                f"{at:%Y-%m-%d %H:%M} UTC has not come yet; it is {now:%Y-%m-%d %H:%M}"
            )
    return now
