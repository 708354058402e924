"""Rehearsal: what push would write to a shop, listing by listing, before anything is written.

The plan is push's own: its planner runs on each listing, and every write is taken as done, until
nothing is left to write. A fingerprint of all plans says which report a person has confirmed.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from headway.core.catalog.change_detection import money
from headway.core.catalog.listings import Sku
from headway.core.catalog.push_planning import find_misplaced, next_push_batch
from headway.core.catalog.push_results import after_write
from headway.core.catalog.storefront import (
    Change,
    Creation,
    Gid,
    Ids,
    InventoryPolicy,
    PriceWrite,
    ProductStatus,
    PublishWrite,
    PushLease,
    Shop,
    Shown,
    StatusWrite,
    StockWrite,
    Write,
    WriteResult,
    WriteVerdict,
)
from headway.errors import InvalidError

# More calls than any listing needs.
CALLS_MAX = 50
LARGEST_SHOWN = 10
FINGERPRINT_CHARS = 12
STAMP = "%Y%m%dT%H%M%S"


class RehearsedOutcome(StrEnum):
    """What would happen to a listing, or why that is not known."""

    WRITE = "write"
    CREATE = "create"
    SAME = "same"
    HELD = "held"
    UNMATCHED = "unmatched"
    READING = "reading"  # the shop is being read
    UNREAD = "unread"  # the supplier was not asked yet
    FAILING = "failing"  # the supplier gives no usable answer
    OFF = "off"  # parked, switched off or paused


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One field of a listing that would be written; the old value is None if there is none."""

    field: str
    """The field. Example: `price`"""
    old: str | None
    """The value before; null if there is none. Example: `118.00`"""
    new: str | None
    """The value after; null if it would be cleared. Example: `129.90`"""
    location: str | None = None
    """The stock location; null unless it is about stock. Example: `Main warehouse`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingOnStage:
    """A listing as it is stored; without a desired state there is no `change`."""

    sku: Sku
    shop_sku: str
    title: str = ""
    change: Change | None = None
    held_reason: str | None = None
    proposed_price: Decimal | None = None
    error: str = ""
    is_due: bool = False
    was_asked: bool = False
    is_off: bool = False
    is_paused: bool = False
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedListing:
    """What would be written to one listing, and what of the merchant's own that touches.

    `concerns` name what sells without stock, or what a person may not expect.
    """

    sku: Sku
    shop_sku: str
    """The SKU in the shop. Example: `WF338109`"""
    title: str
    """The product's title. Example: `Washer, flat`"""
    outcome: RehearsedOutcome
    """What would happen to it."""
    reason: str = ""
    """Why; empty if it is plain. Example: `the price would rise by 127 %`"""
    price_old: Decimal | None = None
    price_new: Decimal | None = None
    stock_old: int | None = None
    stock_new: int | None = None
    writes: tuple[PlannedWrite, ...] = ()
    """The fields that would be written."""
    concerns: tuple[str, ...] = ()
    """What of the merchant's own data the writes touch. Example: `["the compare-at price"]`"""
    changed_at: datetime | None = None
    """When the shop's product last changed; null if it is unknown."""

    @property
    def move(self) -> Decimal | None:
        """The share by which the price would move; None if it stays, or there is none."""
        if not self.price_old or self.price_new is None or self.price_old == self.price_new:
            return None
        return (self.price_new - self.price_old) / self.price_old

    @property
    def is_zeroed(self) -> bool:
        """True if the last stock would be taken from it."""
        return bool(self.stock_old) and self.stock_new == 0

    def effects(self) -> list[tuple[str, str | None]]:
        """Return what a person confirms: all but the numbers of stock, which change by the hour."""
        effects = [(write.field, write.new) for write in self.writes if write.field != "stock"]
        return [*effects, ("stock", "0")] if self.is_zeroed else effects


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalSummary:
    """Counts of a report, sums of the prices that would be written, and the largest moves."""

    listings: int
    """Listings in the report."""
    outcomes: Mapping[str, int]
    """Listings by outcome. Example: `{"write": 12, "same": 480}`"""
    prices_up: int
    """Prices that would rise."""
    prices_down: int
    """Prices that would fall."""
    prices_sum_old: Decimal
    """Sum of the prices before. Example: `11800.00`"""
    prices_sum_new: Decimal
    """Sum of the prices after. Example: `12990.00`"""
    zeroed: int
    """Listings whose stock would fall to zero."""
    stock_old: int
    """Sum of the stock before."""
    stock_new: int
    """Sum of the stock after."""
    fields: Mapping[str, int] = field(default_factory=dict)
    """Listings by field that would be written. Example: `{"price": 12, "quantity": 4}`"""
    concerns: int = 0
    """Listings that touch what the merchant entered."""
    largest: tuple[RehearsedListing, ...] = ()
    """Listings with the largest price moves."""

    @property
    def unready(self) -> int:
        """Listings whose plan is not known yet."""
        return self.outcomes.get(RehearsedOutcome.READING, 0) + self.outcomes.get(
            RehearsedOutcome.UNREAD, 0
        )


def rehearse(
    listing: ListingOnStage, shop: Shop, *, handle: Callable[[str], str], now: datetime
) -> RehearsedListing:
    """Return what push would do to a listing."""
    change = listing.change
    outcome, reason = _unplanned(listing)
    if outcome is None and change is not None and (misplaced := find_misplaced(change, shop)):
        outcome, reason = RehearsedOutcome.UNMATCHED, misplaced
    about = RehearsedListing(
        sku=listing.sku,
        shop_sku=listing.shop_sku,
        title=listing.title,
        outcome=outcome or RehearsedOutcome.SAME,
        reason=reason,
        changed_at=listing.changed_at,
    )
    if change is None or outcome not in {None, RehearsedOutcome.HELD}:
        return about
    writes = tuple(planned_writes(change, shop, handle=handle, now=now))
    is_created = any(write.field == "create" for write in writes)
    if outcome is None and writes:
        outcome = RehearsedOutcome.CREATE if is_created else RehearsedOutcome.WRITE
    shown = None if is_created else change.shown or change.applied or {}
    price_old = None if shown is None else money(shown, "price")
    stock_old, stock_new = _stock(change, shop, writes, is_new=is_created)
    return replace(
        about,
        outcome=outcome or RehearsedOutcome.SAME,
        price_old=price_old,
        price_new=_new_price(writes, price_old),
        stock_old=stock_old,
        stock_new=stock_new,
        writes=writes,
        concerns=tuple(_concerns(change, shop, writes)),
    )


def planned_writes(
    change: Change, shop: Shop, *, handle: Callable[[str], str], now: datetime
) -> Iterator[PlannedWrite]:
    """Yield the fields that push would write, by its own plan, as if every write succeeded."""
    # Channels that were not read yet keep no other write from being planned.
    stage = replace(shop, is_in_rehearsal=False, guard_move=None, channels=shop.channels or {})
    names = {gid: name for name, gid in (shop.locations or {}).items()}
    channels = {gid: name for name, gid in (shop.channels or {}).items()}
    shown = dict(change.shown or change.applied or {})
    for _ in range(CALLS_MAX):
        batch = next_push_batch(PushLease(shop=stage, fence=0, changes=[change]), handle=handle)
        if batch is None or not batch.writes:
            return
        results = [_done(write) for write in batch.writes]
        for write in batch.writes:
            yield from _fields(write, shown, names, channels)
        [pushed] = after_write(batch, results, stage, now)
        created = pushed.ids is not None and change.ids is None
        change = replace(
            change,
            applied=pushed.applied,
            ids=pushed.ids or change.ids,
            draft=None if created else change.draft,
        )
        shown |= change.applied or {}


def summarize(listings: Sequence[RehearsedListing]) -> RehearsalSummary:
    """Return the counts and sums of a report."""
    moved = [listing for listing in listings if listing.move is not None]
    written = [listing for listing in listings if listing.writes]
    largest = sorted(moved, key=lambda listing: (-abs(listing.move or Decimal(0)), listing.sku))
    return RehearsalSummary(
        listings=len(listings),
        outcomes=dict(sorted(Counter(listing.outcome.value for listing in listings).items())),
        prices_up=sum((listing.move or 0) > 0 for listing in moved),
        prices_down=sum((listing.move or 0) < 0 for listing in moved),
        prices_sum_old=sum((listing.price_old or Decimal(0) for listing in moved), Decimal(0)),
        prices_sum_new=sum((listing.price_new or Decimal(0) for listing in moved), Decimal(0)),
        zeroed=sum(listing.is_zeroed for listing in written),
        stock_old=sum(listing.stock_old or 0 for listing in written),
        stock_new=sum(listing.stock_new or 0 for listing in written),
        fields=dict(sorted(Counter(name for row in written for name in _names(row)).items())),
        concerns=sum(bool(listing.concerns) for listing in listings),
        largest=tuple(largest[:LARGEST_SHOWN]),
    )


def version_of(listings: Sequence[RehearsedListing], made_at: datetime) -> str:
    """Return the name of a report: when it was made, and a hash of what it says will be written."""
    effects = sorted((listing.sku, listing.effects()) for listing in listings if listing.writes)
    digest = hashlib.sha256(json.dumps(effects).encode()).hexdigest()
    return f"{made_at.astimezone(UTC):{STAMP}}-{digest[:FINGERPRINT_CHARS]}"


def split_version(version: str) -> tuple[datetime, str]:
    """Return when a report was made, and its hash; raises InvalidError."""
    stamp, _, digest = version.partition("-")
    try:
        made_at = datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)
    except ValueError:
        made_at = None
    if made_at is None or len(digest) != FINGERPRINT_CHARS:
        raise InvalidError(
            f"{version!r} is no version of a report; copy it from the end of: headway rehearse"
        )
    return made_at, digest


def changed_since(
    listings: Sequence[RehearsedListing], made_at: datetime
) -> list[RehearsedListing]:
    """Return the listings whose desired state or shop changed since a report was made."""
    return [
        listing
        for listing in listings
        if listing.changed_at is not None and listing.changed_at >= made_at
    ]


def _unplanned(listing: ListingOnStage) -> tuple[RehearsedOutcome | None, str]:
    """Return why nothing, or not all, would be written to a listing; None if there is a plan."""
    change = listing.change
    if listing.is_paused or (change is None and listing.is_off):
        return RehearsedOutcome.OFF, "paused" if listing.is_paused else listing.error
    if listing.held_reason is not None:
        return RehearsedOutcome.HELD, listing.held_reason
    if change is None:
        asked = RehearsedOutcome.FAILING if listing.was_asked else RehearsedOutcome.UNREAD
        return asked, listing.error
    if change.error and change.failures:
        return RehearsedOutcome.UNMATCHED, change.error
    if change.applied is None or listing.is_due:
        return RehearsedOutcome.READING, ""
    return None, ""


def _done(write: Write) -> WriteResult:
    if not isinstance(write, Creation):
        return WriteResult(verdict=WriteVerdict.DONE)
    ids = Ids(product=Gid("new"), variant=Gid("new"), item=Gid("new"))
    shown = Shown(
        ids=ids,
        sku=write.shop_sku,
        price=write.price,
        compare_at=write.compare_at,
        cost=write.cost,
        tracked=True,
        status=ProductStatus.ACTIVE,
        variants_count=1,
        quantities=write.quantities,
        handle=write.handle,
        channels=frozenset(),  # a new product is on none
    )
    return WriteResult(verdict=WriteVerdict.DONE, shown=shown)


def _fields(
    write: Write, shown: Mapping[str, Any], names: Mapping[Gid, str], channels: Mapping[Gid, str]
) -> Iterator[PlannedWrite]:
    """Yield the fields that one write changes."""
    stock = shown.get("quantities") or {}
    if isinstance(write, StockWrite):
        name = names[write.location]
        old = stock.get(name)
        yield _field("stock", old, write.quantity, location=name)
    elif isinstance(write, StatusWrite):
        yield _field("status", shown.get("status"), write.status.value)
    elif isinstance(write, PriceWrite):
        yield from _prices(write, shown)
        if write.stops_overselling:
            yield from _sales_stops(shown)
    elif isinstance(write, PublishWrite):
        for gid in write.channels:
            yield _field("publish", None, channels.get(gid, gid))
    else:
        yield _field("create", None, write.title)
        yield from _prices(write, {})
        for gid, quantity in write.quantities.items():
            yield _field("stock", None, quantity, location=names[gid])
        for name, text in write.details.named():
            yield _field(name, None, text)


def _sales_stops(shown: Mapping[str, Any]) -> Iterator[PlannedWrite]:
    """Yield what a price write changes so that nothing is sold without stock."""
    if shown.get("tracked") is False:
        yield _field("tracked", "no", "yes")
    if shown.get("inventory_policy") == InventoryPolicy.CONTINUE:
        yield _field("policy", InventoryPolicy.CONTINUE.value, InventoryPolicy.DENY.value)


def _prices(write: PriceWrite | Creation, shown: Mapping[str, Any]) -> Iterator[PlannedWrite]:
    keeps = isinstance(write, PriceWrite) and write.keeps_compare_at
    for name in ("price", "cost") if keeps else ("price", "compare_at", "cost"):
        old, new = money(shown, name), getattr(write, name)
        if old != new:
            yield _field(name, old, new)


def _field(
    name: str,
    old: Decimal | int | str | None,
    new: Decimal | int | str | None,
    *,
    location: str | None = None,
) -> PlannedWrite:
    return PlannedWrite(
        field=name,
        old=None if old is None else str(old),
        new=None if new is None else str(new),
        location=location,
    )


def _new_price(writes: Sequence[PlannedWrite], old: Decimal | None) -> Decimal | None:
    new = [write.new for write in writes if write.field == "price"]
    return Decimal(new[-1]) if new and new[-1] is not None else old


def _stock(
    change: Change, shop: Shop, writes: Sequence[PlannedWrite], *, is_new: bool
) -> tuple[int | None, int]:
    """Return the stock at the shop's mapped locations before and after."""
    places = [name for name in change.desired["quantities"] if name in (shop.locations or {})]
    shown = {} if is_new else (change.shown or change.applied or {}).get("quantities") or {}
    after = {name: shown.get(name, 0) for name in places}
    after |= {write.location: int(write.new or 0) for write in writes if write.location}
    old = None if is_new else sum(shown.get(name, 0) for name in places)
    return old, sum(after.values())


def _names(listing: RehearsedListing) -> set[str]:
    return {write.field for write in listing.writes}


def _concerns(change: Change, shop: Shop, writes: Sequence[PlannedWrite]) -> Iterator[str]:
    """Yield what a person should know before the first write."""
    shown = change.shown or {}
    fields = {write.field: write for write in writes}
    if "tracked" in fields:
        yield "its stock is not tracked, so the shop sells it without stock; tracking is turned on"
    elif shown.get("tracked") is False:
        yield "its stock is not tracked, so the shop sells it without stock"
    if shown.get("inventory_policy") == InventoryPolicy.CONTINUE:
        yield "the shop sells it when there is none left (continue selling when out of stock)"
    if (lost := fields.get("compare_at")) is not None and lost.old is not None:
        yield f"its own crossed-out price {lost.old} is replaced"
    unsold = [
        f"{quantity} at {name}"
        for name, quantity in change.desired["quantities"].items()
        if quantity > 0 and name not in (shop.locations or {})
    ]
    if unsold:
        yield f"the shop has no such location, so this stock is not sold: {', '.join(unsold)}"
    if "create" in fields and change.draft is not None and change.draft.details.left_out:
        yield f"left out of the new product: {'; '.join(change.draft.details.left_out)}"
    if shown.get("variants_count", 1) > 1 and "status" in change.desired:
        yield "its product has other variants, so its status stays"
