"""Changes that are held for a person, and what the person decides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, TypedDict

from pydantic import Field, model_validator

from headway.core.access import Need
from headway.core.catalog.listings import Sku
from headway.core.catalog.review import Ruling, ShownVersions, total_version
from headway.errors import InvalidError
from headway.operations.callers import Caller
from headway.operations.inputs import (
    SKUS_MAX,
    Cursor,
    Instant,
    Limit,
    ReasonText,
    RequestBody,
    SellerQuery,
    SellerText,
    SkuQuery,
    Skus,
    SkuText,
    example,
)
from headway.operations.listing_search import for_each_listing
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.store.catalog.review import HeldChange, Review, require_reason

TAG = "changes"
ERRORS = (404,)
CHANGED = (*ERRORS, 409)
VERSION_CHARS_MAX = 64
NAMED_MAX = 5

Version = Annotated[str, Field(max_length=VERSION_CHARS_MAX, examples=["5f0c1e2ab94d7733"])]
Versions = Annotated[
    dict[SkuText, Version],
    Field(
        max_length=SKUS_MAX,
        examples=[{"WF338109=K3": "5f0c1e2ab94d7733"}],
        description="The version of each part's change as it was shown: `version` of the held"
        " change, or of a dry run of the same request. Needed for each part about which there is"
        " something to decide. A part whose change is another one by now is left as it is, and its"
        " answer says what it is now.",
    ),
]
BatchVersion = Annotated[
    Version | None,
    Field(
        description="`version` of a dry run of the same request; needed with `all` and `since`. If"
        " the result would be another one by now, nothing is done (409)."
    ),
]
DryRun = Annotated[bool, Field(description="Only answer what would be done.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPage:
    """Held changes, the oldest first, and where to go on."""

    items: tuple[HeldChange, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulings:
    """An answer for each listing, how many were done, and one version of all of them."""

    listings: tuple[Ruling, ...]
    """The answer for each listing."""
    done: int
    """Listings for which it was done."""
    left: int
    """Listings that are left as they are."""
    version: str
    """The version of all these changes together; pass it as `version` to do exactly this.
    Example: `5f0c1e2ab94d7733`
    """


class DecisionArguments(TypedDict):
    """What every decision says beside its listings."""

    reason: str
    now: datetime
    shown: ShownVersions
    dry_run: bool


Rule = Callable[[DecisionArguments], Sequence[Ruling]]


class ShownChanges(RequestBody):
    """Which changes the caller was shown: what differs from them is not decided."""

    versions: Versions = Field(default_factory=dict)
    version: BatchVersion = None
    dry_run: DryRun = False

    @model_validator(mode="after")
    def _of_one_kind(self) -> "ShownChanges":
        is_batch = getattr(self, "skus", None) is None
        if self.versions if is_batch else self.version:
            raise ValueError("versions go with skus, and version with all or since")
        return self


class Decision(ShownChanges):
    """Parts, whose they are if several sellers list one, and why."""

    model_config = example(
        {
            "skus": ["WF338109=K3"],
            "versions": {"WF338109=K3": "5f0c1e2ab94d7733"},
            "seller": "acme",
            "reason": "a typing error",
        }
    )
    skus: Skus
    """The parts. Example: `["WF338109=K3"]`"""
    seller: SellerText | None = None
    """Whose parts, if several sellers list them. Example: `acme`"""
    reason: ReasonText = ""
    """Why, for the history. Example: `a typing error`"""


class Approval(ShownChanges):
    """Parts, or everything that can be approved, which needs a reason."""

    model_config = example(
        {
            "skus": ["WF338109=K3"],
            "versions": {"WF338109=K3": "5f0c1e2ab94d7733"},
            "seller": "acme",
        },
        {"all": True, "reason": "yearly price list", "version": "5f0c1e2ab94d7733"},
    )
    skus: Skus | None = None
    """The parts; leave it out with `all`. Example: `["WF338109=K3"]`"""
    all: bool = False
    """True for everything that can be approved; it needs a reason."""
    seller: SellerText | None = None
    """Whose parts; with `all`, whose changes. Example: `acme`"""
    reason: ReasonText = ""
    """Why, for the history. Example: `yearly price list`"""

    @model_validator(mode="after")
    def _either(self) -> "Approval":
        if (self.skus is None) != self.all:
            raise ValueError("name skus, or say all; not both")
        return self


class Rollback(ShownChanges):
    """Parts, or all of a seller's that changed since an instant, and the moment to return to."""

    model_config = example(
        {"skus": ["WF338109=K3"], "to": "2026-03-04T09:00:00Z", "dry_run": True},
        {"since": "2026-03-04T09:00:00Z", "to": "2026-03-04T08:59:00Z", "seller": "acme"},
    )
    skus: Skus | None = None
    """The parts; leave it out with `since`. Example: `["WF338109=K3"]`"""
    since: Instant | None = None
    """Roll back every part of the seller that changed since then.
    Example: `2026-03-04T09:00:00Z`
    """
    to: Instant
    """The instant whose price the shop gets again."""
    seller: SellerText | None = None
    """Whose parts; `since` needs it. Example: `acme`"""
    reason: ReasonText = ""
    """Why, for the history. Example: `a wrong price list`"""

    @model_validator(mode="after")
    def _either(self) -> "Rollback":
        if (self.skus is None) == (self.since is None):
            raise ValueError("name skus, or since with a seller; not both")
        return self


class Revival(RequestBody):
    """Parts, or everything that is parked."""

    model_config = example({"skus": ["WF338109=K3"]}, {"all": True})
    skus: Skus | None = None
    """The parts; leave it out with `all`. Example: `["WF338109=K3"]`"""
    all: bool = False
    """True for everything that is parked."""
    seller: SellerText | None = None
    """Whose parts. Example: `acme`"""

    @model_validator(mode="after")
    def _either(self) -> "Revival":
        if (self.skus is None) != self.all:
            raise ValueError("name skus, or say all; not both")
        return self


@operation(
    "GET", "/api/sync/held", need=Need.READ, tag=TAG, errors=(404, 422), name="list_held_changes"
)
def held(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    sku: SkuQuery = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> HeldPage:
    """List the changes that are held for a person, the oldest first."""
    review = Review(caller.own.pool)
    rows = review.held(caller.known(seller), sku=sku, limit=limit + 1, cursor=cursor)
    items, next_cursor = cut(rows, limit)
    return HeldPage(items=items, next_cursor=next_cursor)


@operation(
    "POST", "/api/sync/approve", need=Need.WRITE, tag=TAG, errors=CHANGED, name="approve_changes"
)
def approve(caller: Caller, body: Approval) -> Rulings:
    """Let held changes reach the shop; `all` also lifts the guard against mass changes for 24 h."""
    review = Review(caller.own.pool)
    if body.skus is None:
        require_reason(body.reason, dry_run=body.dry_run)
        seller = caller.known(body.seller)
        return _decide(caller, body, lambda how: review.approve_all(seller, **how))
    return _decide(caller, body, _each(caller, body, review.approve))


@operation(
    "POST", "/api/sync/reject", need=Need.WRITE, tag=TAG, errors=CHANGED, name="reject_changes"
)
def reject(caller: Caller, body: Decision) -> Rulings:
    """Keep the shop's price; the same quote is not held again."""
    return _decide(caller, body, _each(caller, body, Review(caller.own.pool).reject))


@operation(
    "POST", "/api/sync/rollback", need=Need.WRITE, tag=TAG, errors=CHANGED, name="roll_back_prices"
)
def rollback(caller: Caller, body: Rollback) -> Rulings:
    """Give parts the price that the shop showed at another time; stock stays as it is."""
    review, to, since = Review(caller.own.pool), body.to, body.since
    _require_past(caller.now, *filter(None, (since, to)))
    if body.skus is not None:
        return _decide(caller, body, _each(caller, body, partial(review.rollback, to=to)))
    seller = caller.known(body.seller)
    if seller is None:
        raise InvalidError("since needs a seller: a batch is rolled back for one seller")
    return _decide(caller, body, lambda how: review.rollback(seller, since=since, to=to, **how))


@operation(
    "POST", "/api/sync/revive", need=Need.WRITE, tag=TAG, errors=ERRORS, name="revive_products"
)
def revive(caller: Caller, body: Revival) -> Rulings:
    """Restart parked or removed parts; they are in the next call. Jobs are revived at /api/jobs."""
    review, now = Review(caller.own.pool), caller.now
    if body.skus is None:
        return ruled(review.revive_all(caller.known(body.seller), now=now))
    return ruled(
        for_each_listing(caller, body.skus, body.seller, lambda *key: review.revive(*key, now=now))
    )


def ruled(rulings: Sequence[Ruling]) -> Rulings:
    """Return the answer for each listing, and how many were done."""
    done = sum(ruling.is_done for ruling in rulings)
    return Rulings(
        listings=tuple(rulings),
        done=done,
        left=len(rulings) - done,
        version=total_version(rulings),
    )


def _each(
    caller: Caller, body: Decision | Approval | Rollback, verb: Callable[..., list[Ruling]]
) -> Rule:
    """Return the rule that decides about each part of a request, seller by seller."""
    return lambda how: for_each_listing(
        caller, body.skus or (), body.seller, lambda *key: verb(*key, **how)
    )


def _decide(caller: Caller, body: Decision | Approval | Rollback, rule: Rule) -> Rulings:
    """Decide about what the caller was shown; raise InvalidError for what was not shown."""
    by_sku = {Sku(sku): version for sku, version in body.versions.items()}
    how: DecisionArguments = {
        "reason": body.reason,
        "now": caller.now,
        "shown": ShownVersions(by_sku=by_sku, total=body.version),
        "dry_run": body.dry_run,
    }
    if body.dry_run or body.version is not None:
        return ruled(rule(how))
    trial = rule({**how, "dry_run": True})
    unseen = [one.sku for one in trial if one.is_done and one.sku not in by_sku]
    if unseen:
        field, of = "version", "these changes"
        if body.skus is not None:
            field, of = "versions", f"the change of {', '.join(unseen[:NAMED_MAX])}"
        raise InvalidError(
            f"{field}: send the version of {of} that you were shown; it is `version` in the answer"
            " to the same request with dry_run, and of a held change in GET /api/sync/held"
        )
    # What is there to decide since then was not shown either.
    nothing_shown = {**dict.fromkeys(body.skus or (), ""), **by_sku}
    total = total_version(trial) if body.skus is None else None
    return ruled(rule({**how, "shown": ShownVersions(by_sku=nothing_shown, total=total)}))


def _require_past(now: datetime, *instants: datetime) -> None:
    """Raise InvalidError for an instant that is still to come."""
    for at in instants:
        if at > now:
            raise InvalidError(
                f"{at:%Y-%m-%d %H:%M} UTC has not come yet; it is {now:%Y-%m-%d %H:%M}"
            )
