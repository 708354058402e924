"""Read a shop's pages of orders, listings and customers as records; prepared for any bytes.

A malformed row is set aside; a malformed page raises UnreadableError. Ids are the numbers at the
end of the platform's long ones.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from pydantic import TypeAdapter

from headway.core.accounts.pagination import Page, PageRequest
from headway.core.accounts.warehouse import Order, Payment, Records
from headway.errors import RequestRefusedError, TooLargeError
from headway.providers.access_scopes import list_scopes
from headway.providers.reply_fields import Instant
from headway.providers.reply_rows import (
    digest,
    find_field,
    read_model,
    read_rows,
    set_aside,
    storable,
)
from headway.providers.shopify.access_scopes import GRANT, denied_scopes
from headway.providers.shopify.pagination import STALE
from headway.providers.shopify.read_queries import MOVES, REFUNDS, SHIPMENTS
from headway.providers.shopify.replies import PROVIDER, ShopReply, unreadable
from headway.providers.shopify.reply_models import (
    NUMBER,
    ShopifyCursorList,
    ShopifyCustomer,
    ShopifyEdges,
    ShopifyInstallation,
    ShopifyList,
    ShopifyListing,
    ShopifyOrder,
    ShopifyOrderPart,
    ShopifyProduct,
    ShopifyShop,
)

OLD_CURSOR = re.compile(r"cursor", re.IGNORECASE)
STAMPS = {"updated_at": "updatedAt", "created_at": "createdAt"}
INSTANT = TypeAdapter(Instant)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPart:
    """How far an order or a product was read: where it goes on, its stamp, and what was read."""

    after: str
    stamp: str = ""
    lines: Sequence[Any] = ()


def read_part(value: str | None) -> RecordPart | None:
    """Read the part that an earlier page of the same row left in its `next`."""
    return None if value is None else RecordPart(**json.loads(value))


def check_access(reply: ShopReply) -> None:
    """Raise RequestRefusedError that names the scope, if one is missing for more than a field."""
    has_data = any(reply.data.values())
    for fault in reply.faults:
        if fault.code == "ACCESS_DENIED" and not (has_data and fault.is_denied_field):
            missing = list_scopes(denied_scopes(fault.message)) or "its scopes"
            raise RequestRefusedError(
                f"the shop denies access; the app needs {missing}; {GRANT}"
                f" (it says: {fault.message})",
                provider=PROVIDER,
            )


def check_size(reply: ShopReply) -> None:
    """Raise TooLargeError if the request costs more than a call may: fewer rows cost less."""
    for fault in reply.faults:
        if fault.code == "MAX_COST_EXCEEDED":
            text = f"too much for one call: {fault.message}"
            raise TooLargeError(text, provider=PROVIDER)


def read_page(ask: PageRequest, reply: ShopReply) -> Page:
    """Read the reply to a request; raises UnreadableError."""
    if ask.values.get("after") and any(OLD_CURSOR.search(node.message) for node in reply.faults):
        return Page(next=STALE)
    return READERS[ask.what](ask.values, reply)


def _scopes(_: Mapping[str, Any], reply: ShopReply) -> Page:
    installation = read_model(PROVIDER, ShopifyInstallation, reply.whole("currentAppInstallation"))
    return Page(ids=tuple(scope.handle for scope in installation.access_scopes))


def _peek(_: Mapping[str, Any], reply: ShopReply) -> Page:
    """Read ids and cursors of rows; an id is empty if it was not asked for."""
    listed = read_model(PROVIDER, ShopifyEdges, reply.whole("rows"))
    pairs = [(find_field(edge.node, "id", NUMBER) or "", edge.cursor) for edge in listed.edges]
    return Page(next=json.dumps(pairs))


def _orders(values: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = read_model(PROVIDER, ShopifyCursorList, reply.whole("orders"))
    return replace(_order_rows(listed.nodes, STAMPS[values["field"]]), next=listed.next)


def _orders_by_id(values: Mapping[str, Any], reply: ShopReply) -> Page:
    rows, missing = _named(values["ids"], reply.whole("nodes"))
    return replace(_order_rows(rows, "updatedAt"), missing=missing)


def _order_rows(rows: Sequence[Any], stamp: str) -> Page:
    return Page(
        records=_order_records([row for row in rows if not _is_too_long(row)]),
        ids=_ids(rows),
        stamps=_stamps(rows, stamp),
        cut=_ids([row for row in rows if _is_too_long(row)]),
    )


def _order_records(rows: Sequence[Any]) -> Records:
    orders, bad = read_rows("orders", rows, _name, _order)
    return Records(
        orders=tuple(order for order, _ in orders.values()),
        payments=tuple(payment for _, payments in orders.values() for payment in payments),
        unreadable=bad,
    )


def _order(row: object) -> tuple[Order, list[Payment]]:
    order = ShopifyOrder.model_validate(row)
    return order.record, [payment.record(order.external_id) for payment in order.transactions]


def _one_order(values: Mapping[str, Any], reply: ShopReply) -> Page:
    """Read a page of one order's positions; with the last one the order is whole."""
    reply.check_read("order")
    row, own = reply.data.get("order"), values["id"]
    if row is None:
        return Page(missing=(own,))
    try:
        part, former = ShopifyOrderPart.model_validate(row), read_part(values["next"])
    except ValueError as error:
        return Page(records=Records(unreadable=(set_aside("orders", own, row, error),)), ids=(own,))
    if former is not None and former.stamp != part.updated_at:
        return Page(ids=(own,), cut=(own,))  # it changed meanwhile, and its pages do not fit
    lines = [*(former.lines if former else ()), *part.line_items.nodes]
    if (after := part.line_items.next) is not None:
        left = {"after": after, "stamp": part.updated_at, "lines": storable(lines)}
        return Page(ids=(own,), next=json.dumps(left))
    return Page(records=_order_records([{**row, "lineItems": {"nodes": lines}}]), ids=(own,))


def _is_too_long(row: object) -> bool:
    """Return True if a row of a page may lack some of its parts; a list without pages does not say.

    A malformed row is not too long: it is unreadable.
    """
    if _get(_get(_get(row, "lineItems"), "pageInfo"), "hasNextPage") is True:
        return True
    limits = {"fulfillments": SHIPMENTS, "refunds": REFUNDS, "transactions": MOVES}
    return any(
        isinstance(parts := _get(row, name), list) and len(parts) >= limit
        for name, limit in limits.items()
    )


def _products(_: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = read_model(PROVIDER, ShopifyCursorList, reply.whole("products"))
    return replace(_product_rows(listed.nodes, reply), next=listed.next)


def _products_by_id(values: Mapping[str, Any], reply: ShopReply) -> Page:
    rows, missing = _named(values["ids"], reply.whole("nodes"))
    return replace(_product_rows(rows, reply), missing=missing)


def _one_product(values: Mapping[str, Any], reply: ShopReply) -> Page:
    """Read a page of one product's variants: each is whole by itself."""
    rows, missing = _named([values["id"]], reply.whole("nodes"))
    if missing:
        return Page(missing=missing)
    products, _ = read_rows("listings", rows, _name, ShopifyProduct.model_validate)
    cursors = [product.variants.next for product in products.values()]
    left = [json.dumps({"after": cursor}) for cursor in cursors if cursor is not None]
    return replace(_product_rows(rows, reply), next=left[0] if left else None, cut=())


def _product_rows(rows: Sequence[Any], reply: ShopReply) -> Page:
    products, bad = read_rows("listings", rows, _name, ShopifyProduct.model_validate)
    by_name = {_name(row): row for row in rows}
    variants = [
        {**(variant if isinstance(variant, dict) else {}), "product": by_name[name]}
        for name, product in products.items()
        for variant in product.variants.nodes
    ]
    records = _listings(variants, reply)
    return Page(
        records=replace(records, unreadable=(*bad, *records.unreadable)),
        ids=_ids(rows),
        stamps=_stamps(rows, "updatedAt"),
        cut=tuple(
            product.id for product in products.values() if product.variants.page_info.has_next_page
        ),
    )


def _all_variants(values: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = read_model(PROVIDER, ShopifyList, reply.whole("productVariants"))
    _check_above(values["above"], listed)
    return Page(
        records=_listings(listed.nodes, reply), ids=_ids(listed.nodes), next=_last_id(listed)
    )


def _listings(rows: Sequence[Any], reply: ShopReply) -> Records:
    currency = read_model(PROVIDER, ShopifyShop, reply.data.get("shop")).currency_code
    listings, bad = read_rows(
        "listings",
        rows,
        _name,
        lambda row: ShopifyListing.model_validate(row).record(currency),
    )
    return Records(listings=tuple(listings.values()), unreadable=bad)


def _customers(_: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = read_model(PROVIDER, ShopifyCursorList, reply.whole("customers"))
    return replace(_customer_rows(listed.nodes), next=listed.next)


def _all_customers(values: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = read_model(PROVIDER, ShopifyList, reply.whole("customers"))
    _check_above(values["above"], listed)
    return replace(_customer_rows(listed.nodes), next=_last_id(listed))


def _customers_by_id(values: Mapping[str, Any], reply: ShopReply) -> Page:
    rows, missing = _named(values["ids"], reply.whole("nodes"))
    return replace(_customer_rows(rows), missing=missing)


def _customer_rows(rows: Sequence[Any]) -> Page:
    customers, bad = read_rows(
        "customers", rows, _name, lambda row: ShopifyCustomer.model_validate(row).record
    )
    records = Records(customers=tuple(customers.values()), unreadable=bad)
    return Page(records=records, ids=_ids(rows), stamps=_stamps(rows, "updatedAt"))


def _named(requested: Sequence[str], nodes: object) -> tuple[list[Any], tuple[str, ...]]:
    """Return the rows that were requested by id, and the ids of those that are not there."""
    if not isinstance(nodes, list) or len(nodes) != len(requested):
        unreadable("another number of nodes than was asked for")
    rows = [row for row in nodes if row not in (None, {})]
    missing = [own for own, row in zip(requested, nodes, strict=True) if row in (None, {})]
    if set(_ids(rows)) - set(requested):
        unreadable("a row that was not asked for")
    return rows, tuple(missing)


def _get(value: object, name: str) -> Any:  # noqa: ANN401 - JSON, of whatever shape
    return value.get(name) if isinstance(value, dict) else None


def _last_id(listed: ShopifyList) -> str | None:
    """Return the last readable id of a list that goes on: there the next page begins."""
    if not listed.page_info.has_next_page:
        return None
    ids = _ids(listed.nodes)
    return ids[-1] if ids else unreadable("a page without an id that goes on")


def _check_above(above: str, listed: ShopifyList) -> None:
    """Raise if the rows are not those above an id in order: the walk would never end."""
    numbers = [int(above), *map(int, _ids(listed.nodes))]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        text = f"the shop did not list the ids above {above} in order; report it to Shopify"
        raise RequestRefusedError(text, provider=PROVIDER)


def _ids(rows: Sequence[Any]) -> tuple[str, ...]:
    return tuple(filter(None, (find_field(row, "id", NUMBER) for row in rows)))


def _stamps(rows: Sequence[Any], name: str) -> tuple[datetime, ...]:
    return tuple(filter(None, (find_field(row, name, INSTANT) for row in rows)))


def _name(row: object) -> str:
    return find_field(row, "id", NUMBER) or digest(row)


READERS: Mapping[str, Callable[[Mapping[str, Any], ShopReply], Page]] = {
    "scopes": _scopes,
    "peek": _peek,
    "orders": _orders,
    "orders_by_id": _orders_by_id,
    "order": _one_order,
    "products": _products,
    "products_by_id": _products_by_id,
    "product": _one_product,
    "variants": _all_variants,
    "customers": _customers,
    "customers_by_id": _customers_by_id,
    "all_customers": _all_customers,
}
