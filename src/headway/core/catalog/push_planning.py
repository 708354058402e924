"""Plan of the next call to a shop.

A push is planned from stored state alone, one call at a time: first reads of unknown results, then
reads needed before writing, then writes. If a worker dies at any point, the next one continues.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any

from headway.core.catalog.change_detection import THEIRS, money, plain, smallest_unit
from headway.core.catalog.channels import channel_id, lacked
from headway.core.catalog.storefront import (
    Change,
    Creation,
    Gid,
    Intent,
    PriceWrite,
    ProductStatus,
    PublishWrite,
    PushLease,
    Shop,
    Shown,
    StatusWrite,
    StockWrite,
    Write,
    WriteKind,
)

# The number of changes read in one push.
CHANGES_MAX = 300
STOCK_MAX = 250
PRICES_MAX = 10
STATUSES_MAX = 10
PUBLISH_MAX = 10
FIND_MAX = 10
# A read costs points by what it may return; any call reserves this many points.
CALL_POINTS = 450
READ_POINTS, LEVEL_POINTS = 8, 3
# How the reason begins where a shop has none of a listing's locations.
MISPLACED = "nothing was written: the shop has no location "
PRICE_FACTS = ("price", "compare_at", "cost", "currency")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushBatch:
    """One call: its listings and, if it writes, the writes; a drift check only reads."""

    kind: WriteKind
    changes: Sequence[Change] = ()
    writes: Sequence[Write] = ()
    is_drift_check: bool = False

    def intent(self, id_: str) -> Intent:
        """Write down what is about to be sent."""
        return Intent(
            id=id_,
            kind=self.kind,
            skus=[change.sku for change in self.changes],
            writes=[_plain(asdict(write)) for write in self.writes],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PushNeeds:
    """Differences between what a shop shows and what it should show."""

    price: bool = False
    status: bool = False
    stock: Mapping[str, int] = field(default_factory=dict)
    unstocked: Mapping[str, int] = field(default_factory=dict)
    channels: Sequence[Gid] = ()

    @property
    def is_only_visibility(self) -> bool:
        """True if nothing is left to write but its publication."""
        return bool(self.channels) and not replace(self, channels=())

    def __bool__(self) -> bool:
        """Return True if anything must be written."""
        has_stock = bool(self.stock or self.unstocked)
        return self.price or self.status or has_stock or bool(self.channels)


def next_push_batch(push_lease: PushLease, *, handle: Callable[[str], str]) -> PushBatch | None:
    """Return the next call of this push; None if there is nothing to read or write.

    In rehearsal all that is due is read, and nothing is written.
    """
    shop = push_lease.shop
    in_bulk = push_lease.bulk.skus if push_lease.bulk else frozenset()
    if push_lease.open:
        return _look(push_lease.changes, shop)
    if shop.locations is None:
        return PushBatch(kind=WriteKind.LOCATIONS)
    placed = [change for change in push_lease.changes if not find_misplaced(change, shop)]
    if shop.is_in_rehearsal:
        seen = _look([change for change in push_lease.changes if change.rival is None], shop)
        return next(_channels(shop), None) or seen or _drift_check(push_lease)
    steps: list[Iterator[PushBatch]] = [
        _unseen(placed, shop),
        _statuses(placed, shop),
        # A stock call holds so much that it pays to gather; and a rise must wait for its price.
        _stock(placed, shop, least=STOCK_MAX // 2),
        _prices([change for change in placed if change.sku not in in_bulk], shop),
        _activations(placed, shop),
        _stock(placed, shop),
        _channels(shop),
        _publications(placed, shop, least=PUBLISH_MAX),
        _creations(placed, shop, handle),
        _publications(placed, shop),
    ]
    for step in steps:
        for push_batch in step:
            return push_batch
    return _drift_check(push_lease)


def find_misplaced(change: Change, shop: Shop) -> str | None:
    """Return why nothing may be written for a listing: its shop has none of its locations.

    Written all the same, it would be for sale at the right price with no stock at all.
    """
    places = change.desired["quantities"]
    if shop.locations is None or not places or any(name in shop.locations for name in places):
        return None
    has = ", ".join(sorted(shop.locations)) or "none"
    return (
        f"{MISPLACED}{', '.join(sorted(places))} (it has: {has}); rename"
        " it there, or change HEADWAY_LOCATIONS"
    )


def _drift_check(push_lease: PushLease) -> PushBatch | None:
    drift_check = _look(push_lease.drift_check, push_lease.shop)
    return None if drift_check is None else replace(drift_check, is_drift_check=True)


def needs(change: Change, shop: Shop) -> PushNeeds:
    """Compare what is desired with what the shop confirmed; a place the shop lacks is not sold."""
    applied, desired = change.applied or {}, change.desired
    shown = applied.get("quantities") or {}
    stock, unstocked = {}, {}
    counts = change.tracked is not False or shop.stops_overselling
    for name, quantity in desired["quantities"].items():
        if name not in (shop.locations or {}) or not counts:
            continue
        if name in shown and shown[name] != quantity:
            stock[name] = quantity
        elif name not in shown and quantity > 0:
            unstocked[name] = quantity
    return PushNeeds(
        # A price of zero may stay in the shop until a person decides, but is never written.
        price=(money(desired, "price") or 0) > 0
        and any(money(applied, fact) != money(desired, fact) for fact in owned_facts(desired)),
        status="status" in desired
        and applied.get("status") != desired["status"]
        and not _shares_product(change),
        stock=stock,
        unstocked=unstocked,
        channels=() if shop.missing_scopes else _lacked_ids(change, shop),
    )


def owned_facts(desired: Mapping[str, Any]) -> list[str]:
    """Return the price facts that are ours: not what is the merchant's own.

    That is a crossed-out price, and every price of a part whose first price from us is held.
    """
    if desired.get(THEIRS):
        return []
    return [fact for fact in PRICE_FACTS[:3] if fact in desired]


def _lacked_ids(change: Change, shop: Shop) -> list[Gid]:
    ids = [channel_id(shop, name) for name in lacked(change.desired, change.applied or {})]
    return [gid for gid in ids if gid is not None]


def confirmed(change: Change, applied: Mapping[str, Any], shop: Shop) -> Mapping[str, Any]:
    """Return the state to store as applied: the desired one itself if nothing is left to write."""
    is_left = needs(replace(change, applied=applied), shop) or lacked(change.desired, applied)
    return applied if is_left else change.desired


def as_applied(shown: Shown, change: Change, shop: Shop) -> dict[str, Any]:
    """Return what a shop shows in the form of a desired state.

    A variant that sells at zero stock, where that is to be stopped, counts as having no price yet:
    the price write stops it. What is not ours is left out, and so is what was not read.
    """
    names = {gid: name for name, gid in (shop.locations or {}).items()}
    step = smallest_unit(change.desired["currency"])
    applied: dict[str, Any] = {
        "price": str(shown.price.quantize(step)),
        "cost": plain(shown.cost),
        "currency": change.desired["currency"],
        "quantities": {
            names[gid]: quantity for gid, quantity in shown.quantities.items() if gid in names
        },
    }
    if shop.stops_overselling and shown.sells_at_zero:
        applied["price"] = None
    if "compare_at" in change.desired:
        crossed_out = shown.compare_at
        applied["compare_at"] = None if crossed_out is None else str(crossed_out.quantize(step))
    if "status" in change.desired:
        applied["status"] = shown.status.value
    if "channels" in change.desired and (visible := _visible(shown, change, shop)) is not None:
        applied["channels"] = visible
    return applied


def _visible(shown: Shown, change: Change, shop: Shop) -> list[str] | None:
    """Return the desired channels on which a product is visible; None if that was not read.

    One that is not active is visible nowhere, as its merchant or a parking wanted: none is missing.
    """
    names: list[str] = change.desired["channels"]
    if shown.status is not ProductStatus.ACTIVE:
        return names
    if shown.channels is None:
        return None
    return [name for name in names if channel_id(shop, name) in shown.channels]


def _look(changes: Sequence[Change], shop: Shop) -> PushBatch | None:
    """Read back what has ids, else find it; as many as one call may cost."""
    if not changes:
        return None
    if shop.locations is None:
        return PushBatch(kind=WriteKind.LOCATIONS)
    known = [change for change in changes if change.ids is not None]
    if known:
        most = max(1, CALL_POINTS // (READ_POINTS + LEVEL_POINTS * max(1, len(shop.locations))))
        return PushBatch(kind=WriteKind.READ, changes=_in_one_call(WriteKind.READ, known, most))
    return _search(changes, shop)


def _search(changes: Sequence[Change], shop: Shop) -> PushBatch:
    per_variant = READ_POINTS + LEVEL_POINTS * max(1, len(shop.locations or {}))
    # A search may show two variants for each SKU that is looked for.
    most = max(1, min(FIND_MAX, CALL_POINTS // (2 * per_variant)))
    return PushBatch(kind=WriteKind.FIND, changes=_in_one_call(WriteKind.FIND, changes, most))


def _unseen(changes: Sequence[Change], shop: Shop) -> Iterator[PushBatch]:
    """Read before writing: listings without ids, never read, or to be taken off sale."""
    lost = [
        change
        for change in changes
        if change.ids is None
        and change.rival is None
        and (change.applied is None or change.draft is None)
    ]
    if lost:
        yield _search(lost, shop)
    blind = [
        change
        for change in changes
        if change.ids is not None
        and (
            change.applied is None
            or ("status" in change.desired and "status" not in change.applied)
            or (
                bool(shop.channels)
                and "channels" in change.desired
                and "channels" not in change.applied
            )
        )
    ]
    push_batch = _look(blind, shop)
    if push_batch is not None:
        yield push_batch


def _statuses(changes: Sequence[Change], shop: Shop) -> Iterator[PushBatch]:
    due = [change for change in changes if change.ids and needs(change, shop).status]
    due = _in_one_call(WriteKind.STATUS, due, STATUSES_MAX)
    writes = [
        StatusWrite(
            sku=change.sku,
            product=change.ids.product,
            status=ProductStatus(change.desired["status"]),
        )
        for change in due
        if change.ids
    ]
    if writes:
        yield PushBatch(kind=WriteKind.STATUS, changes=due, writes=writes)


def _activations(changes: Sequence[Change], shop: Shop) -> Iterator[PushBatch]:
    """Stock an item where it was not; one at a time, for it is rare."""
    for change in changes:
        need = needs(change, shop)
        if change.ids is None or waits_for_price(change, need):
            continue
        for name, quantity in need.unstocked.items():
            write = _quantity(change, shop, name, quantity)
            yield PushBatch(kind=WriteKind.ACTIVATE, changes=[change], writes=[write])


def _stock(changes: Sequence[Change], shop: Shop, *, least: int = 1) -> Iterator[PushBatch]:
    """Pack quantities across products, if there are enough; a rise waits for its price."""
    chosen: list[Change] = []
    writes: list[StockWrite] = []
    needed = {change.sku: needs(change, shop) for change in changes if change.ids}
    ready = [
        change
        for change in changes
        if change.ids and not waits_for_price(change, needed[change.sku])
    ]
    stocked = [change for change in ready if needed[change.sku].stock]
    for change in _in_one_call(WriteKind.STOCK, stocked, STOCK_MAX):
        stock = needed[change.sku].stock
        if writes and len(writes) + len(stock) > STOCK_MAX >> change.failures:
            break
        chosen.append(change)
        writes += [_quantity(change, shop, name, quantity) for name, quantity in stock.items()]
    if len(writes) >= least:
        yield PushBatch(kind=WriteKind.STOCK, changes=chosen, writes=writes)


def _channels(shop: Shop) -> Iterator[PushBatch]:
    """Read the sales channels once a day, after prices and stock: they never wait for it."""
    if shop.channels is None:
        yield PushBatch(kind=WriteKind.CHANNELS)


def _publications(changes: Sequence[Change], shop: Shop, *, least: int = 1) -> Iterator[PushBatch]:
    """Publish products whose price and stock are right, if there are enough."""
    needed = {change.sku: needs(change, shop) for change in changes if change.ids}
    due = [change for change in changes if change.ids and needed[change.sku].is_only_visibility]
    due = _in_one_call(WriteKind.PUBLISH, due, PUBLISH_MAX)
    writes = [
        PublishWrite(
            sku=change.sku, product=change.ids.product, channels=needed[change.sku].channels
        )
        for change in due
        if change.ids
    ]
    if writes and len(writes) >= least:
        yield PushBatch(kind=WriteKind.PUBLISH, changes=due, writes=writes)


def _prices(changes: Sequence[Change], shop: Shop) -> Iterator[PushBatch]:
    due = [change for change in changes if change.ids and needs(change, shop).price]
    due = _in_one_call(WriteKind.PRICE, due, PRICES_MAX)
    if due:
        yield PushBatch(
            kind=WriteKind.PRICE, changes=due, writes=[price_write(change, shop) for change in due]
        )


def price_write(change: Change, shop: Shop) -> PriceWrite:
    """Return the price, compare-at price and cost that a listing should have."""
    assert change.ids is not None
    return PriceWrite(
        sku=change.sku,
        product=change.ids.product,
        variant=change.ids.variant,
        price=Decimal(change.desired["price"]),
        compare_at=money(change.desired, "compare_at"),
        cost=Decimal(change.desired["cost"]),
        keeps_compare_at="compare_at" not in change.desired,
        stops_overselling=shop.stops_overselling,
    )


def _creations(
    changes: Sequence[Change], shop: Shop, handle: Callable[[str], str]
) -> Iterator[PushBatch]:
    """Create products the shop does not have; an empty applied state marks them."""
    for change in changes:
        if change.ids or change.rival or change.draft is None or change.applied is None:
            continue
        locations, desired = shop.locations or {}, change.desired
        creation = Creation(
            sku=change.sku,
            shop_sku=change.shop_sku,
            handle=handle(change.shop_sku),
            title=change.draft.title,
            description_html=change.draft.description_html,
            vendor=change.draft.vendor,
            price=Decimal(desired["price"]),
            compare_at=money(desired, "compare_at"),
            cost=Decimal(desired["cost"]),
            quantities={
                locations[name]: quantity
                for name, quantity in desired["quantities"].items()
                if name in locations
            },
            details=change.draft.details,
            channels=tuple((shop.channels or {}).values()),
        )
        yield PushBatch(kind=WriteKind.CREATE, changes=[change], writes=[creation])


def _in_one_call(kind: WriteKind, changes: Sequence[Change], most: int) -> list[Change]:
    """Return the changes for one call: those with the fewest failures and the least suspicion.

    A call holds half as many with each failure of theirs, and no more than a call of this kind that
    failed as a whole has left together: so the faulty one ends alone, and the others go first.
    """

    def rank(change: Change) -> tuple[int, int]:
        return change.failures, -change.suspicion.get(kind, most)

    if not changes:
        return []
    failures, minus_size = least = min(rank(change) for change in changes)
    size = max(1, min(most >> failures, -minus_size))
    return [change for change in changes if rank(change) == least][:size]


def _quantity(change: Change, shop: Shop, name: str, quantity: int) -> StockWrite:
    assert change.ids is not None
    assert shop.locations is not None
    applied = (change.applied or {}).get("quantities") or {}
    return StockWrite(
        sku=change.sku,
        item=change.ids.item,
        location=Gid(shop.locations[name]),
        quantity=quantity,
        change_from=applied.get(name),
    )


def waits_for_price(change: Change, need: PushNeeds) -> bool:
    """Return True if stock may not be written yet: more of it, or any, at a price that is wrong."""
    applied = change.applied or {}
    shown = applied.get("quantities") or {}
    rises = bool(need.unstocked) or any(
        quantity > shown.get(name, 0) for name, quantity in need.stock.items()
    )
    return need.price and (rises or applied.get("price") is None)


def _shares_product(change: Change) -> bool:
    return (change.variants_count or 1) > 1


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return str(value) if isinstance(value, Decimal) else value
