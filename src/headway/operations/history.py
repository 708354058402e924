"""What happened: to one part, to everything, and what the supplier changed."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from headway.core.access import Need
from headway.core.catalog.listings import Sku
from headway.operations.callers import Caller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    Cursor,
    Limit,
    SellerQuery,
    Since,
    SkuPath,
    Until,
)
from headway.operations.listing_search import raise_not_listed
from headway.operations.operation import operation
from headway.store.catalog.change_list import ChangePage, ChangeQueries
from headway.store.catalog.history import HistoryEvent, HistoryPage, HistoryQueries
from headway.store.catalog.shop_waits import shop_waits
from headway.store.pool import guarded

KIND_CHARS_MAX = 50
KindQuery = Annotated[
    list[Annotated[str, Field(max_length=KIND_CHARS_MAX, pattern=PLAIN)]] | None,
    Field(max_length=50, description="Only events of these kinds."),
]
SkuQuery = Annotated[Sku | None, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=PLAIN)]


@operation(
    "GET",
    "/api/sync/history/{sku:path}",
    need=Need.READ,
    tag="events",
    errors=(404, 422),
    name="list_product_events",
)
def history(
    caller: Caller,
    sku: SkuPath,
    *,
    seller: SellerQuery = None,
    kind: KindQuery = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> HistoryPage:
    """List what happened to a part, the newest first."""
    named, queries = caller.named(seller), HistoryQueries(caller.own.pool)
    page = queries.page(sku, seller=named, kinds=kind or (), cursor=cursor, limit=limit)
    if not page.items and cursor is None:
        raise_not_listed(caller, sku, named)
    return page


@operation(
    "GET", "/api/audit", need=Need.READ, tag="events", errors=(404, 422), name="export_events"
)
def audit(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    since: Since = None,
    until: Until = None,
    sku: SkuQuery = None,
    kind: Annotated[list[str] | None, Field(max_length=50)] = None,
) -> Iterator[HistoryEvent]:
    """Export events, the oldest first; `kind` may be given several times.

    In CSV a cell that a spreadsheet would take for a formula begins with an apostrophe. If the
    database goes away under way, the last line is of the kind `export_stopped` and says why.
    """
    return HistoryQueries(caller.own.pool).export(
        since=since, until=until, seller=caller.known(seller), sku=sku, kinds=kind or ()
    )


def observed_changes(caller: Caller, *, cursor: str | None, limit: int) -> ChangePage:
    """Return the supplier's changes, the newest first, with their results."""
    seller, now = caller.seller, caller.now
    with guarded(), caller.shared.pool.connection() as connection:
        waits = shop_waits(connection, now, seller=seller)
    queries = ChangeQueries(caller.own.pool)
    return queries.page(now, waits=waits, seller=seller, cursor=cursor, limit=limit)
