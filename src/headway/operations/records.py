"""Records that were pulled from the platforms, for programs that keep a copy of them.

A list is read by its cursor: each page holds what changed after it, deletions too, and gives the
next cursor, which stays good when nothing is left; ask again later. The fields are those of schema
`SCHEMA`: fields may be added to it, and never change their meaning or go.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import Field

from headway.core.access import Need
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId
from headway.operations.callers import Caller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    Cursor,
    Instant,
    PlatformText,
    SellerQuery,
)
from headway.operations.operation import ApiOperation, operation
from headway.operations.record_fields import (
    SCHEMA,
    CustomerPage,
    CustomerRecord,
    LineItemPage,
    LineItemRecord,
    ListingPage,
    ListingRecord,
    OrderPage,
    OrderRecord,
    PaymentPage,
    PaymentRecord,
    RecordHead,
    RefundPage,
    RefundRecord,
    ShipmentPage,
    ShipmentRecord,
)
from headway.providers.registry import known_platform
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.records import RecordChanges, RecordFilter

TAG = "records"
LIMIT_MAX = 1000
AccountQuery = Annotated[
    str | None,
    Field(
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="Only of this account, by its id.",
        examples=["6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"],
    ),
]
SinceQuery = Annotated[
    Instant | None,
    Field(
        description="Only records of this instant or later, by their own time: orders by when they"
        " were placed, payments by when they were paid. Deletions have none, and are all listed."
    ),
]
ChangedQuery = Annotated[
    Instant | None, Field(description="Only what changed at this instant or later.")
]
RecordLimit = Annotated[int, Field(ge=1, le=LIMIT_MAX, description="How many at most.")]
T = TypeVar("T", bound="RecordHead")


@operation(
    "GET",
    "/api/records/orders",
    need=Need.READ,
    tag=TAG,
    errors=(404, 409, 422),
    name="list_orders",
)
def orders(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    account: AccountQuery = None,
    platform: PlatformText | None = None,
    since: SinceQuery = None,
    changed_since: ChangedQuery = None,
    cursor: Cursor = None,
    limit: RecordLimit = 100,
) -> OrderPage:
    """List orders that changed after a cursor, deleted ones too."""
    chosen = _filter(caller, seller, account, platform, since=since, changed_since=changed_since)
    page = _page(caller, "orders", OrderRecord, chosen, cursor=cursor, limit=limit)
    return OrderPage(**page)


@operation(
    "GET",
    "/api/records/line_items",
    need=Need.READ,
    tag=TAG,
    errors=(404, 409, 422),
    name="list_line_items",
)
def line_items(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    account: AccountQuery = None,
    platform: PlatformText | None = None,
    since: SinceQuery = None,
    changed_since: ChangedQuery = None,
    cursor: Cursor = None,
    limit: RecordLimit = 100,
) -> LineItemPage:
    """List lines of orders that changed after a cursor, deleted ones too."""
    chosen = _filter(caller, seller, account, platform, since=since, changed_since=changed_since)
    page = _page(caller, "line_items", LineItemRecord, chosen, cursor=cursor, limit=limit)
    return LineItemPage(**page)


@operation(
    "GET",
    "/api/records/listings",
    need=Need.READ,
    tag=TAG,
    errors=(404, 409, 422),
    name="list_listings",
)
def listings(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    account: AccountQuery = None,
    platform: PlatformText | None = None,
    since: SinceQuery = None,
    changed_since: ChangedQuery = None,
    cursor: Cursor = None,
    limit: RecordLimit = 100,
) -> ListingPage:
    """List listings that changed after a cursor, deleted ones too."""
    chosen = _filter(caller, seller, account, platform, since=since, changed_since=changed_since)
    page = _page(caller, "listings", ListingRecord, chosen, cursor=cursor, limit=limit)
    return ListingPage(**page)


@operation(
    "GET",
    "/api/records/customers",
    need=Need.READ,
    tag=TAG,
    errors=(404, 409, 422),
    name="list_customers",
)
def customers(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    account: AccountQuery = None,
    platform: PlatformText | None = None,
    since: SinceQuery = None,
    changed_since: ChangedQuery = None,
    cursor: Cursor = None,
    limit: RecordLimit = 100,
) -> CustomerPage:
    """List buyers that changed after a cursor, deleted ones too."""
    chosen = _filter(caller, seller, account, platform, since=since, changed_since=changed_since)
    page = _page(caller, "customers", CustomerRecord, chosen, cursor=cursor, limit=limit)
    return CustomerPage(**page)


@operation(
    "GET",
    "/api/records/payments",
    need=Need.READ,
    tag=TAG,
    errors=(404, 409, 422),
    name="list_payments",
)
def payments(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    account: AccountQuery = None,
    platform: PlatformText | None = None,
    since: SinceQuery = None,
    changed_since: ChangedQuery = None,
    cursor: Cursor = None,
    limit: RecordLimit = 100,
) -> PaymentPage:
    """List entries of the platforms' ledgers that changed after a cursor, deleted ones too."""
    chosen = _filter(caller, seller, account, platform, since=since, changed_since=changed_since)
    page = _page(caller, "payments", PaymentRecord, chosen, cursor=cursor, limit=limit)
    return PaymentPage(**page)


@operation(
    "GET",
    "/api/records/shipments",
    need=Need.READ,
    tag=TAG,
    errors=(404, 409, 422),
    name="list_shipments",
)
def shipments(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    account: AccountQuery = None,
    platform: PlatformText | None = None,
    since: SinceQuery = None,
    changed_since: ChangedQuery = None,
    cursor: Cursor = None,
    limit: RecordLimit = 100,
) -> ShipmentPage:
    """List shipments that changed after a cursor, deleted ones too."""
    chosen = _filter(caller, seller, account, platform, since=since, changed_since=changed_since)
    page = _page(caller, "shipments", ShipmentRecord, chosen, cursor=cursor, limit=limit)
    return ShipmentPage(**page)


@operation(
    "GET",
    "/api/records/refunds",
    need=Need.READ,
    tag=TAG,
    errors=(404, 409, 422),
    name="list_refunds",
)
def refunds(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    account: AccountQuery = None,
    platform: PlatformText | None = None,
    since: SinceQuery = None,
    changed_since: ChangedQuery = None,
    cursor: Cursor = None,
    limit: RecordLimit = 100,
) -> RefundPage:
    """List refunds that changed after a cursor, deleted ones too."""
    chosen = _filter(caller, seller, account, platform, since=since, changed_since=changed_since)
    page = _page(caller, "refunds", RefundRecord, chosen, cursor=cursor, limit=limit)
    return RefundPage(**page)


# Table → its operation.
LISTS: Mapping[str, ApiOperation[Any, Any, Any]] = {
    listed.path.rpartition("/")[2]: listed
    for listed in (orders, line_items, listings, customers, payments, shipments, refunds)
}
RECORDS: Mapping[str, type[RecordHead]] = {
    "orders": OrderRecord,
    "line_items": LineItemRecord,
    "listings": ListingRecord,
    "customers": CustomerRecord,
    "payments": PaymentRecord,
    "shipments": ShipmentRecord,
    "refunds": RefundRecord,
}


def _filter(
    caller: Caller,
    seller: SellerId | None,
    account: str | None,
    platform: PlatformName | None,
    **since: datetime | None,
) -> RecordFilter:
    """Return what to list; a seller may name only what is the seller's own."""
    owner = caller.known(seller)
    if account is not None:
        owner = ConnectedShops(caller.own.pool).find(account, owner).seller
    name = None if platform is None else known_platform(platform)
    return RecordFilter(seller=owner, account_id=account, platform=name, **since)


def _page(
    caller: Caller,
    name: str,
    record: Callable[..., T],
    filters: RecordFilter,
    *,
    cursor: str | None,
    limit: int,
) -> dict[str, Any]:
    page = RecordChanges(caller.own.pool).page(
        name, filters, cursor=cursor, limit=limit, now=caller.now
    )
    hidden = ("change_xid", "key_order", "rank")
    items = [
        record(**{column: value for column, value in row.items() if column not in hidden})
        for row in page.rows
    ]
    return {
        "schema_version": SCHEMA,
        "items": tuple(items),
        "next_cursor": page.cursor,
        "has_more": page.has_more,
    }
