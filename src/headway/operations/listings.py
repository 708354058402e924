"""Listings as a person looks for them, and what a person may do with their place in the queue."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field, model_validator

from headway.app import App
from headway.app.providers import has_main_login
from headway.app.supplier_queue import queue_ahead
from headway.core.access import Need
from headway.core.catalog.listings import MAIN, Priority, ProductState, SellerId, Sku
from headway.core.catalog.price_history import SeriesPoint
from headway.core.reasons import Explanation, ListingPosition
from headway.core.timetable.policies.policy import PRIORITY_MAX
from headway.core.timetable.slots import RequestedSlot
from headway.engine.explain import in_shop, reasons
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.changes import Rulings, ruled
from headway.operations.inputs import (
    PLAIN,
    Cursor,
    Days,
    Limit,
    ReasonText,
    RequestBody,
    SellerQuery,
    SellerText,
    SkuPath,
    Skus,
    example,
)
from headway.operations.listing_search import for_each_listing, raise_not_listed
from headway.operations.operation import operation
from headway.store import cursors
from headway.store.catalog.history import HistoryQueries
from headway.store.catalog.product_list import (
    ProductPage,
    ProductQueries,
    ProductView,
)
from headway.store.catalog.products import Products
from headway.store.catalog.suppliers import Suppliers
from headway.store.status import RecentCall
from headway.store.timetable.positions import ListingPositions
from headway.store.timetable.slots import MovedSlot
from headway.store.timetable.triggers import Triggers

TAG = "products"
ERRORS = (404, 422)
TEXT_CHARS_MAX = 100
DAYS_SHOWN = 30.0
# The series of a part that many sellers list are cut; naming a seller shows that seller's.
SERIES_MAX = 10
BACKFILL_CHUNK = 10_000
TextQuery = Annotated[
    str,
    Field(
        max_length=TEXT_CHARS_MAX,
        pattern=PLAIN,
        description="A piece of the part number, the shop's SKU or the title.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingExplanation:
    """Why one seller's listing waits, until when, and how it stands in its shop."""

    seller: SellerId
    sku: Sku
    priority: Priority
    due_at: datetime
    last_good_read_at: datetime | None
    """When the supplier last quoted it; null if it never has."""
    failures: int
    last_error: str | None
    """Why the last read failed; null if it did not. Example: `404: no such part`"""
    explanation: Explanation
    """Why it waits, and until when."""
    policy: str
    """The policy that decides when it is due. Example: `adaptive`"""
    timetable: str
    """How the policy placed it, in a sentence.
    Example: `Read when it reduces staleness most, at least every 24 h.`
    """
    in_shop: str
    """How it stands in its shop, in a sentence. Example: `Updated in shop after 1.5 s`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSeries:
    """Price and stock of one listing over time, at the supplier and in the shop, oldest first.

    Each point holds what was known from its instant on.
    """

    seller: SellerId
    points: tuple[SeriesPoint, ...]
    """What was known from each instant on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingsOfPart:
    """A part, as each seller lists it."""

    now: datetime
    sku: Sku
    currency: str
    listings: tuple[ProductView, ...]
    """The part as each seller lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPart:
    """A part, explained for each seller who lists it."""

    now: datetime
    sku: Sku
    listings: tuple[ListingExplanation, ...]
    """The explanation for each seller who lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesOfPart:
    """Price and stock of a part over time, as each of its sellers lists it, ten at most."""

    now: datetime
    sku: Sku
    currency: str
    listings: tuple[PriceSeries, ...]
    """The series of each seller who lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsOfPart:
    """The latest calls that carried a part, the newest first, ten at most."""

    now: datetime
    sku: Sku
    calls: tuple[RecentCall, ...]
    """The calls, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """How many of the products that were read got a slot; `count` is of all, at the first call."""

    added: int
    """Products that got a slot."""
    read: int
    """Products that were looked at."""
    count: int | None
    """All products without a slot; null except in the first answer."""
    next_cursor: str | None


class BackfillBody(RequestBody):
    """Whose products, all if none is named, and where to go on."""

    model_config = example({"seller": "acme"})
    seller: SellerText | None = None
    """Whose products; all sellers' if it is left out. Example: `acme`"""
    cursor: (
        Annotated[str, Field(max_length=cursors.CHARS_MAX, examples=["WyJhY21lIiwgIldGIl0"])] | None
    ) = None
    """`next_cursor` of the request before; leave it out in the first. Example: `null`"""


class TriggerBody(RequestBody):
    """Parts to read now, whose they are if several sellers list one, and why."""

    model_config = example({"skus": ["WF338109=K3"], "seller": "acme", "reason": "a customer asks"})
    skus: Skus
    """The parts. Example: `["WF338109=K3"]`"""
    seller: SellerText | None = None
    """Whose parts, if several sellers list them. Example: `acme`"""
    reason: ReasonText = ""
    """Why, for the history. Example: `a customer asks`"""


class SlotBody(RequestBody):
    """When in a day a part is read; `auto` lets the policy choose again."""

    model_config = example({"hour": 6, "minute": 30, "priority": 5}, {"auto": True})
    hour: Annotated[int, Field(ge=0, le=23)] | None = None
    """The hour of the day, UTC. Example: `6`"""
    minute: Annotated[int, Field(ge=0, le=59)] | None = None
    """The minute of that hour. Example: `30`"""
    priority: Annotated[int, Field(ge=0, le=PRIORITY_MAX)] | None = None
    """The place within the slot; higher goes first. Example: `5`"""
    auto: bool = False
    """True to let the policy choose the slot again."""
    seller: SellerText | None = None
    """Whose listing, if several sellers list the part. Example: `acme`"""

    @model_validator(mode="after")
    def _sense(self) -> "SlotBody":
        if self.hour is None and self.minute is not None:
            raise ValueError("minute needs hour: it is the minute of that hour")
        if self.hour is not None and self.auto:
            raise ValueError("say hour, or auto to let the policy choose; not both")
        if self.hour is None and self.priority is None and not self.auto:
            raise ValueError("say where to: hour, priority or auto")
        return self


@operation(
    "GET", "/api/sync/products", need=Need.READ, tag=TAG, errors=ERRORS, name="list_products"
)
def products(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    q: TextQuery = "",
    state: ProductState | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> ProductPage:
    """List listings, by state, seller or text, page by page."""
    page = ProductQueries(caller.own.pool).page(
        caller.now, q=q, state=state, seller=caller.known(seller), cursor=cursor, limit=limit
    )
    sellers = {item.seller for item in page.items}
    return replace(page, currency=caller.shared.sellers.currency(sellers))


@operation(
    "GET",
    "/api/sync/products/{sku:path}",
    need=Need.READ,
    tag=TAG,
    errors=ERRORS,
    name="get_product",
)
def product(caller: Caller, sku: SkuPath, *, seller: SellerQuery = None) -> ListingsOfPart:
    """Show a part as each seller lists it."""
    listings = _listed(caller, sku, seller)
    currency = caller.shared.sellers.currency({listing.seller for listing in listings})
    return ListingsOfPart(now=caller.now, sku=sku, currency=currency, listings=listings)


@operation(
    "PUT",
    "/api/sync/products/{sku:path}/slot",
    need=Need.WRITE,
    tag=TAG,
    errors=ERRORS,
    name="move_slot",
)
def move(caller: Caller, sku: SkuPath, body: SlotBody) -> MovedSlot:
    """Give a part another slot of the day, or a priority in its own."""
    slot = RequestedSlot(
        hour_bucket=body.hour,
        minute_offset=body.minute or 0,
        sync_priority=body.priority,
        is_auto=body.auto,
    )
    app, now = caller.shared, caller.now  # which slots are full depends on everybody's listings

    def verb(user_id: SellerId, skus: list[Sku]) -> list[MovedSlot]:
        return [
            app.timetable.move(user_id, part, slot, policy=app.policy, now=now) for part in skus
        ]

    (moved,) = for_each_listing(caller, [sku], body.seller, verb)
    return moved


@operation(
    "GET",
    "/api/sync/explain/{sku:path}",
    need=Need.READ,
    tag=TAG,
    errors=ERRORS,
    name="explain_product",
)
def explain(caller: Caller, sku: SkuPath, *, seller: SellerQuery = None) -> ExplainedPart:
    """Say why a part waits, until when, and its place."""
    named, now = caller.named(seller), caller.now
    # A place counts everybody's listings; the rows are the seller's own.
    positions = ListingPositions(caller.shared.pool).of_sku(sku, now, seller=named)
    if not positions:
        raise_not_listed(caller, sku, named)
    explained = _explained(caller.shared, positions, now)
    return ExplainedPart(now=now, sku=sku, listings=tuple(explained))


@operation(
    "GET",
    "/api/sync/series/{sku:path}",
    need=Need.READ,
    tag=TAG,
    errors=ERRORS,
    name="get_price_series",
)
def series(
    caller: Caller, sku: SkuPath, *, seller: SellerQuery = None, days: Days = DAYS_SHOWN
) -> SeriesOfPart:
    """Show what a part cost over time, and how much there was, at the supplier and in the shop."""
    now, queries = caller.now, HistoryQueries(caller.own.pool)
    since = now - timedelta(days=days)
    listings = _listed(caller, sku, seller)[:SERIES_MAX]
    price_series = tuple(
        PriceSeries(seller=listing.seller, points=queries.series(sku, listing.seller, since))
        for listing in listings
    )
    currency = caller.shared.sellers.currency({listing.seller for listing in listings})
    return SeriesOfPart(now=now, sku=sku, currency=currency, listings=price_series)


@operation(
    "GET",
    "/api/sync/calls/{sku:path}",
    need=Need.READ,
    tag=TAG,
    errors=ERRORS,
    name="list_product_calls",
)
def calls(caller: Caller, sku: SkuPath, *, seller: SellerQuery = None) -> CallsOfPart:
    """List the supplier's latest calls that carried a part, of two days; to a seller none."""
    listings, app, now = _listed(caller, sku, seller), caller.shared, caller.now
    if caller.seller is not None:  # sellers share the calls
        return CallsOfPart(now=now, sku=sku, calls=())
    names = Suppliers(app.pool).of_sellers({listing.seller for listing in listings}).values()
    keys = [app.for_supplier(name).limit_key for name in sorted(set(names))]
    latest = HistoryQueries(app.pool).latest_reads(sku, keys=keys, now=now)
    return CallsOfPart(now=now, sku=sku, calls=latest)


@operation(
    "POST", "/api/sync/backfill", need=Need.OPERATE, tag=TAG, errors=(422,), name="backfill_slots"
)
def backfill(caller: OperatorCaller, body: BackfillBody) -> BackfillResult:
    """Give products that lack a slot theirs, some thousands at a time; go on with the cursor."""
    app, queries = caller.app, Products(caller.app.pool)
    after = ("", "") if body.cursor is None else cursors.decode(body.cursor, str, str)
    count = queries.unscheduled_count(seller=body.seller) if body.cursor is None else None
    keys = queries.unscheduled(seller=body.seller, after=after, limit=BACKFILL_CHUNK)
    added = app.listings.add(keys, policy=app.policy, now=caller.now) if keys else 0
    is_last = len(keys) < BACKFILL_CHUNK
    if is_last:
        app.sellers.count_catalogs(caller.now, None if body.seller is None else [body.seller])
    return BackfillResult(
        added=added,
        read=len(keys),
        count=count,
        next_cursor=None if is_last else cursors.encode(*keys[-1]),
    )


@operation(
    "POST", "/api/sync/trigger", need=Need.WRITE, tag=TAG, errors=(404,), name="read_products_now"
)
def trigger(caller: Caller, body: TriggerBody) -> Rulings:
    """Read parts in the next call, before all others."""
    now, triggers = caller.now, Triggers(caller.own.pool)
    return ruled(
        for_each_listing(
            caller,
            body.skus,
            body.seller,
            lambda *key: triggers.trigger(*key, reason=body.reason, now=now),
        )
    )


def _listed(caller: Caller, sku: Sku, seller: SellerId | None) -> tuple[ProductView, ...]:
    named = caller.named(seller)
    listings = ProductQueries(caller.own.pool).of_sku(caller.now, sku, seller=named)
    if not listings:
        raise_not_listed(caller, sku, named)
    return listings


def _explained(
    app: App, positions: Sequence[ListingPosition], now: datetime
) -> list[ListingExplanation]:
    """Explain each of these listings, each in the queue of its supplier."""
    suppliers = Suppliers(app.pool).of_sellers({position.user_id for position in positions})
    explained = [
        answer
        for name in sorted(set(suppliers.values()))
        for answer in _explained_in_queue(
            app.for_supplier(name),
            [position for position in positions if suppliers[position.user_id] == name],
            now,
        )
    ]
    return sorted(explained, key=lambda answer: (answer.sku, answer.seller))


def _explained_in_queue(
    app: App, positions: Sequence[ListingPosition], now: datetime
) -> list[ListingExplanation]:
    queue = queue_ahead(app, now, {position.sku for position in positions if position.is_active})
    lacks_login = app.supplier == MAIN and not has_main_login(app.settings)
    return [
        ListingExplanation(
            seller=position.user_id,
            sku=position.sku,
            priority=position.priority,
            due_at=position.next_sync_at,
            last_good_read_at=position.last_successful_sync,
            failures=position.consecutive_failures,
            last_error=position.last_error,
            explanation=reasons(position, queue, now, lacks_login=lacks_login),
            policy=app.policy.name,
            timetable=app.policy_reason(position, now),
            in_shop=in_shop(position, now),
        )
        for position in positions
    ]
