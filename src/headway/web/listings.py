"""`/api/sync`: listings as a person looks for them, one at a time or page by page."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from headway.core.catalog.listings import MAIN, SellerId, Sku, SupplierName
from headway.errors import StoreError
from headway.store.catalog.product_list import ProductState
from headway.store.timetable.slots import RequestedSlot
from headway.web.access import ApiRoute, Caller, ReadOperations, Whose, WriteOperations
from headway.web.error_responses import said
from headway.web.inputs import PLAIN, Cursor, Limit, SkuPath
from headway.web.listing_models import (
    CallsShape,
    ExplainShape,
    HistoryShape,
    MovedShape,
    ProductOfSkuShape,
    ProductsShape,
    SeriesShape,
    SlotBody,
    StateWord,
)
from headway.web.live import Snapshot
from headway.web.status_models import StatusShape

TEXT_CHARS_MAX = 100
KIND_CHARS_MAX = 50
DAYS_SHOWN = 30.0


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["sync"])
    routes.get("/api/sync/status", responses=said(404, 503))(status)
    routes.get("/api/sync/products", responses=said(404, 422))(products)
    routes.get("/api/sync/products/{sku:path}", responses=said(404, 422))(product)
    routes.put("/api/sync/products/{sku:path}/slot", responses=said(404, 422))(move)
    routes.get("/api/sync/history/{sku:path}", responses=said(404, 422))(history)
    routes.get("/api/sync/explain/{sku:path}", responses=said(404, 422))(explain)
    routes.get("/api/sync/series/{sku:path}", responses=said(404, 422))(series)
    routes.get("/api/sync/calls/{sku:path}", responses=said(404, 422))(calls)
    return routes


def status(
    request: Request,
    operations: ReadOperations,
    caller: Caller,
    supplier: Annotated[
        str | None, Query(description="Whose line; a seller sees the seller's own.")
    ] = None,
) -> StatusShape:
    """Return everything the first screen shows; a seller sees that of the seller's own."""
    if caller.seller is not None or supplier not in {None, MAIN}:
        named = None if supplier is None else SupplierName(supplier)
        return StatusShape.model_validate(operations.status(named))
    # What everybody sees is read once for all who ask.
    snapshot: Snapshot = request.app.state.feed.newest()
    if snapshot.overview is None or snapshot.error:
        raise StoreError(snapshot.error)
    return StatusShape.model_validate(snapshot.overview)


def products(
    request: Request,
    reply: Response,
    operations: ReadOperations,
    *,
    seller: Whose,
    q: Annotated[
        str,
        Query(
            max_length=TEXT_CHARS_MAX,
            pattern=PLAIN,
            description="A piece of the part number, the shop's SKU or the title.",
        ),
    ] = "",
    state: StateWord | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> ProductsShape:
    """List listings, by state, seller or text, page by page."""
    page = operations.products(
        q=q,
        state=None if state is None else ProductState(state),
        seller=seller,
        cursor=cursor,
        limit=limit,
    )
    link_next(request, reply, page.next_cursor)
    return ProductsShape.model_validate(page)


def product(operations: ReadOperations, sku: SkuPath, seller: Whose) -> ProductOfSkuShape:
    """Show a part as each seller lists it."""
    found = operations.product(Sku(sku), seller=seller)
    return ProductOfSkuShape.model_validate({"now": operations.now, "sku": sku, "listings": found})


def history(
    request: Request,
    reply: Response,
    operations: ReadOperations,
    *,
    sku: SkuPath,
    seller: Whose,
    kind: Annotated[
        list[Annotated[str, Query(max_length=KIND_CHARS_MAX, pattern=PLAIN)]] | None,
        Query(max_length=50, description="Only events of these kinds."),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> HistoryShape:
    """Tell what happened to a part, the newest first."""
    page = operations.history(Sku(sku), seller=seller, kinds=kind or (), cursor=cursor, limit=limit)
    link_next(request, reply, page.next_cursor)
    return HistoryShape.model_validate(page)


def explain(operations: ReadOperations, sku: SkuPath, seller: Whose) -> ExplainShape:
    """Say why a part waits, until when, and its place."""
    found = operations.explain(Sku(sku), seller=seller)
    return ExplainShape.model_validate({"now": operations.now, "sku": sku, "listings": found})


def series(
    operations: ReadOperations,
    sku: SkuPath,
    seller: Whose,
    days: Annotated[float, Query(gt=0, le=366, description="How far back.")] = DAYS_SHOWN,
) -> SeriesShape:
    """Show what a part cost over time, and how much there was, at the supplier and in the shop."""
    now = operations.now
    found = operations.series(Sku(sku), seller=seller, since=now - timedelta(days=days))
    return SeriesShape.model_validate({"now": now, "sku": sku, "listings": found})


def move(operations: WriteOperations, caller: Caller, sku: SkuPath, body: SlotBody) -> MovedShape:
    """Give a part another slot of the day, or a priority in its own."""
    told = RequestedSlot(
        hour_bucket=body.hour,
        minute_offset=body.minute or 0,
        sync_priority=body.priority,
        is_auto=body.auto,
    )
    seller = caller.whose(None if body.seller is None else SellerId(body.seller))
    (moved,) = operations.move([Sku(sku)], told, seller=seller)
    return MovedShape.model_validate(moved)


class Placed(Protocol):
    """A row that says where its list goes on after it."""

    @property
    def cursor(self) -> str:
        """Where."""
        ...


Row = TypeVar("Row", bound=Placed)


def cut(found: Sequence[Row], limit: int) -> tuple[Sequence[Row], str | None]:
    """Return so many rows, of which one more was asked for, and where to go on."""
    return found[:limit], found[limit - 1].cursor if len(found) > limit else None


def link_next(request: Request, reply: Response, cursor: str | None) -> None:
    """Say in a header, too, where the list goes on."""
    if cursor is None:
        return
    asked: list[tuple[str, Any]] = [
        pair for pair in request.query_params.multi_items() if pair[0] != "cursor"
    ]
    query = urlencode([*asked, ("cursor", cursor)])
    reply.headers["Link"] = f'<{quote(request.url.path)}?{query}>; rel="next"'


def calls(operations: ReadOperations, sku: SkuPath, seller: Whose) -> CallsShape:
    """List the supplier's latest calls that carried a part, of two days; to a seller none."""
    found = operations.calls(Sku(sku), seller=seller)
    return CallsShape.model_validate({"now": operations.now, "sku": sku, "calls": found})
