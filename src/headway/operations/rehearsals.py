"""Rehearsals: what Headway would write to a shop, another read of it, and the start of writing."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from headway.core.access import Need
from headway.core.catalog.intake import handle_of
from headway.core.catalog.listings import SellerId
from headway.core.catalog.rehearsal import (
    RehearsalSummary,
    RehearsedListing,
    RehearsedOutcome,
    changed_since,
    rehearse,
    split_version,
    summarize,
    version_of,
)
from headway.core.dispatch import STOREFRONT
from headway.errors import ConflictError, InvalidError
from headway.operations.callers import Caller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    Cursor,
    Limit,
    ReasonText,
    RequestBody,
    example,
)
from headway.operations.operation import operation
from headway.operations.shops import scope_advice
from headway.providers.registry import main_storefront, platform_role
from headway.store import cursors
from headway.store.accounts.connections import ConnectedShop, ConnectedShops
from headway.store.catalog.rehearsals import Rehearsals

TAG = "shops"
PATH = "/api/shops/{shop:path}/rehearsal"
ERRORS = (404, 409, 422)
NAMED_MAX = 5
ShopPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The shop's address, or the name of its seller.",
        examples=["acme.myshopify.com"],
    ),
]
VersionText = Annotated[
    str,
    Field(
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="`version` of the report that you have read.",
        examples=["20261118T045512-9f3a1c2b7d04"],
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedLocation:
    """A stock location: in the shop or not, and whether the supplier's stock is mapped to it."""

    name: str
    """The location's name. Example: `Main warehouse`"""
    is_in_shop: bool
    """True if the shop has it."""
    is_mapped: bool
    """True if stock of the supplier is mapped to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedScope:
    """An access scope, what it is for, and whether the shop granted it."""

    name: str
    """The scope's name at the platform. Example: `write_products`"""
    purpose: str
    """What Headway needs it for. Example: `write prices`"""
    is_granted: bool
    """True if the shop granted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalReport:
    """What would be written to a shop, and what stands in the way of starting it.

    `items` is a page of the listings, by SKU. `warnings` do not stop the start, `blocks` do.
    """

    seller: SellerId
    shop: str
    is_in_rehearsal: bool
    started_at: datetime | None
    """When a person started the shop; null while it is in rehearsal."""
    made_at: datetime
    """When the report was made."""
    version: str
    """The report's version; confirm it to start the shop. Example: `5f0c1e2ab94d7733`"""
    api_version: str
    """The version of the shop's API that Headway uses. Example: `2026-04`"""
    scopes: tuple[RehearsedScope, ...] | None
    """Access scopes; null if the shop does not say."""
    locations: tuple[RehearsedLocation, ...] | None
    """Stock locations; null until they were read."""
    warnings: tuple[str, ...]
    """What you should know before you start the shop.
    Example: `["3 parts are sold at zero stock"]`
    """
    blocks: tuple[str, ...]
    """What has to be done before the shop can be started.
    Example: `["grant the scope write_products"]`
    """
    currency: str
    summary: RehearsalSummary
    """Counts and sums over all listings."""
    items: tuple[RehearsedListing, ...]
    """The listings of this page."""
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedShop:
    """A shop that is written from now on, and the report that a person confirmed."""

    seller: SellerId
    shop: str
    started_at: datetime
    """When the shop was started."""
    version: str
    """The version of the report that was confirmed. Example: `5f0c1e2ab94d7733`"""
    currency: str
    summary: RehearsalSummary
    """The summary of that report."""
    message: str
    """What happens next. Example: `the shop is written from now on`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRead:
    """How many listings of a shop are read again for a new report."""

    seller: SellerId
    listings: int
    """Listings that are read again."""
    message: str
    """What happens next. Example: `12 listings are read again`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalProgress:
    """How many listings of a shop are still to be read, at the supplier and in the shop."""

    shop: str
    started_at: datetime | None
    listings: int
    unread: int
    reading: int


class StartBody(RequestBody):
    """The report that you have read, and why you start the shop, for the record."""

    model_config = example({"version": "20261118T045512-9f3a1c2b7d04", "reason": "checked"})
    version: VersionText
    """The `version` of the report that you read. Example: `5f0c1e2ab94d7733`"""
    reason: ReasonText = ""
    """Why, for the history. Example: `prices checked with the merchant`"""


@operation("GET", PATH, need=Need.READ, tag=TAG, errors=ERRORS, name="get_rehearsal")
def rehearsal(
    caller: Caller, shop: ShopPath, *, cursor: Cursor = None, limit: Limit = 50
) -> RehearsalReport:
    """Show what would be written to a shop, as it was last read; asks the shop nothing."""
    account, listings, now = *_listings(caller, shop), caller.now
    after = None if cursor is None else cursors.decode(cursor, str)[0]
    rest = [row for row in listings if after is None or row.sku > after]
    summary = summarize(listings)
    return RehearsalReport(
        seller=account.seller,
        shop=account.shop,
        is_in_rehearsal=account.is_in_rehearsal,
        started_at=account.started_at,
        made_at=now,
        currency=caller.shared.sellers.currency({account.seller}),
        version=version_of(listings, now),
        api_version=main_storefront()[1].api_version(caller.shared.settings),
        scopes=_scopes(caller, account),
        locations=_locations(caller, account),
        warnings=tuple(_warnings(caller, account)),
        blocks=tuple(_blocks(caller, account, summary)),
        summary=summary,
        items=tuple(rest[:limit]),
        next_cursor=cursors.encode(rest[limit - 1].sku) if len(rest) > limit else None,
    )


def rehearsal_progress(caller: Caller, shop: str) -> RehearsalProgress:
    """Return how far the reading of a shop is, without what would be written; for the page."""
    account = _account(caller, shop)
    counts = Rehearsals(caller.own.pool).progress(account.seller, now=caller.now)
    listings, unread, reading = counts
    return RehearsalProgress(
        shop=account.shop,
        started_at=account.started_at,
        listings=listings,
        unread=unread,
        reading=reading,
    )


@operation("POST", PATH, need=Need.WRITE, tag=TAG, errors=ERRORS, name="repeat_rehearsal")
def read_again(caller: Caller, shop: ShopPath) -> RehearsalRead:
    """Read a shop in rehearsal again, for a new report; a running Headway does it."""
    account = _account(caller, shop)
    count = Rehearsals(caller.own.pool).read_again(account.seller, now=caller.now)
    message = f"{count:,} listings are being read again" if count else "it was started"
    return RehearsalRead(seller=account.seller, listings=count, message=message)


@operation("POST", PATH + "/start", need=Need.WRITE, tag=TAG, errors=ERRORS, name="start_shop")
def start(caller: Caller, shop: ShopPath, body: StartBody) -> StartedShop:
    """Let Headway write to a shop, as in the report; refused if that has changed since."""
    made_at, digest = split_version(body.version)
    account, listings, now = *_listings(caller, shop), caller.now
    if not account.is_in_rehearsal:
        raise ConflictError(f"{account.shop} was started at {account.started_at:%Y-%m-%d %H:%M}")
    summary = summarize(listings)
    if blocks := list(_blocks(caller, account, summary)):
        raise ConflictError("; ".join(blocks))
    version = version_of(listings, now)
    if split_version(version)[1] != digest:
        raise ConflictError(_what_changed(changed_since(listings, made_at), made_at, account))
    counts = {name: count for name, count in asdict(summary).items() if name != "largest"}
    report = {
        "shop": account.shop,
        "version": body.version,
        **{name: count if isinstance(count, int | dict) else str(count)
           for name, count in counts.items()},
    }  # fmt: skip
    store = Rehearsals(caller.own.pool)
    if not store.start(account.seller, report, reason=body.reason, now=now):
        raise ConflictError(f"{account.shop} was started a moment ago")
    return StartedShop(
        seller=account.seller,
        shop=account.shop,
        started_at=now,
        version=body.version,
        currency=caller.shared.sellers.currency({account.seller}),
        summary=summary,
        message=f"{account.shop} is started: what the report says is written from now on",
    )


def _account(caller: Caller, name: str) -> ConnectedShop:
    """Return the shop of that address or seller; raises NotFoundError."""
    try:
        address = platform_role(STOREFRONT).shop_name(name)
    except InvalidError:
        address = name
    return ConnectedShops(caller.own.pool).named(name, address)


def _listings(caller: Caller, name: str) -> tuple[ConnectedShop, Sequence[RehearsedListing]]:
    """Return a shop, and what would be written to each of its listings."""
    account, now = _account(caller, name), caller.now
    shop = caller.shared.pushes.shop(account.id, now=now)
    assert shop is not None, "the account was read a moment ago"
    shop = replace(shop, locations=shop.locations or {}, channels=shop.channels or {})
    staged = Rehearsals(caller.own.pool).listings(shop, now=now)
    return account, [rehearse(listing, shop, handle=handle_of, now=now) for listing in staged]


def _scopes(caller: Caller, account: ConnectedShop) -> tuple[RehearsedScope, ...] | None:
    """Return the scopes that we ask for; None if the shop did not list those that it granted."""
    if account.scopes is None:
        return None
    role, settings = platform_role(account.platform), caller.shared.settings
    missing = {scope.name for scope in role.missing_scopes(settings, account.scopes)}
    return tuple(
        RehearsedScope(name=scope.name, purpose=scope.purpose, is_granted=scope.name not in missing)
        for scope in role.missing_scopes(settings, ())
    )


def _locations(caller: Caller, account: ConnectedShop) -> tuple[RehearsedLocation, ...] | None:
    if account.locations is None:
        return None
    sellers, seller = caller.shared.sellers, account.seller
    mapped = set(sellers.settings({seller}, caller.now)[seller].terms.locations.values())
    return tuple(
        RehearsedLocation(name=name, is_in_shop=name in account.locations, is_mapped=name in mapped)
        for name in sorted({*account.locations, *mapped})
    )


def _warnings(caller: Caller, account: ConnectedShop) -> Iterator[str]:
    """Yield what is wrong with the shop as a whole."""
    denied = [scope.name for scope in _scopes(caller, account) or () if not scope.is_granted]
    if denied:
        yield (
            f"the shop has not granted {', '.join(denied)}; {scope_advice(caller.shared, account)}"
        )
    locations = _locations(caller, account) or ()
    missing = [place.name for place in locations if place.is_mapped and not place.is_in_shop]
    if missing:
        yield (
            f"the shop has no location {', '.join(missing)}: stock there is not sold; rename the"
            " location in the shop, or change HEADWAY_LOCATIONS"
        )


def _blocks(caller: Caller, account: ConnectedShop, summary: RehearsalSummary) -> Iterator[str]:
    """Yield what must end before the shop can be started."""
    if account.status != "connected":
        yield f"the shop is disconnected: {account.reason}"
    if account.locations is None:
        yield "the shop was not read yet; a running Headway reads it"
    locations = _locations(caller, account)
    if locations and not any(place.is_mapped and place.is_in_shop for place in locations):
        yield "the shop has none of the locations in HEADWAY_LOCATIONS, so no stock would be sold"
    if not summary.listings:
        yield "there is nothing to rehearse; import or publish parts first"
    if unread := summary.outcomes.get(RehearsedOutcome.UNREAD):
        yield f"{_parts(unread)} not read at the supplier yet; wait for it"
    if reading := summary.outcomes.get(RehearsedOutcome.READING):
        yield f"{_parts(reading)} not read in the shop yet; wait for it"


def _parts(count: int) -> str:
    return "1 part was" if count == 1 else f"{count:,} parts were"


def _what_changed(
    changed: Sequence[RehearsedListing], made_at: datetime, account: ConnectedShop
) -> str:
    """Return the reason why an old report does not start a shop."""
    rows = [
        f"{row.sku}: " + (", ".join(f"{name} {new}" for name, new in row.effects()) or row.outcome)
        for row in changed[:NAMED_MAX]
    ]
    more = f" and {len(changed) - NAMED_MAX:,} more" if len(changed) > NAMED_MAX else ""
    what = "; ".join(rows) + more if rows else "settings, or the shop's locations"
    return (
        f"what would be written has changed since that report of {made_at:%H:%M:%S} UTC ({what});"
        f" read the new one with: headway rehearse {account.shop}"
    )
