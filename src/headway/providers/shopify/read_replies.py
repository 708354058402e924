"""Read a shop's pages of orders, listings and customers as records; prepared for any bytes.

A malformed row is kept as received; a malformed page raises UnreadableError. Ids are
the numbers at the end of the platform's long ones. An order's `total` is before returns, and a
position's quantity and price are as it was ordered: refunds stand apart, so nothing counts twice.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from headway.core.accounts.pagination import Page, PageRequest
from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Payment,
    Records,
    Refund,
    Shipment,
    ShopListing,
    Unreadable,
)
from headway.errors import PermanentError, UnreadableError
from headway.providers.shopify.fields import amount, get, is_cut, nodes, part, text, whole
from headway.providers.shopify.pagination import STALE
from headway.providers.shopify.read_queries import MOVES, REFUNDS, SHIPMENTS
from headway.providers.shopify.replies import PROVIDER, ShopReply, unreadable

GID = re.compile(r"gid://shopify/\w+/([0-9]{1,20})")
SCOPE = re.compile(r"\b(?:read|write)_[a-z_]+")
OLD_CURSOR = re.compile(r"cursor", re.IGNORECASE)
# What the seller gets; a hold, its end, and what failed move nothing, and are kept with nothing.
METRICS = {"SALE": 1, "CAPTURE": 1, "REFUND": -1, "CHANGE": -1}
PLAIN_VARIANT = "Default Title"
STAMPS = {"updated_at": "updatedAt", "created_at": "createdAt"}
Row = TypeVar("Row")


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
    """Raise PermanentError that names the scope, if one is missing."""
    for fault in reply.faults:
        if fault.code == "ACCESS_DENIED":
            missing = ", ".join(dict.fromkeys(SCOPE.findall(fault.message))) or "its scopes"
            raise PermanentError(
                f"the shop denies access; grant the app {missing}, then connect the shop again"
                f" (it says: {fault.message})",
                provider=PROVIDER,
            )


def read_page(ask: PageRequest, reply: ShopReply) -> Page:
    """Read the reply to a request; raises UnreadableError."""
    if ask.values.get("after") and any(OLD_CURSOR.search(node.message) for node in reply.faults):
        return Page(next=STALE)
    return READERS[ask.what](ask.values, reply)


def _scopes(_: Mapping[str, Any], reply: ShopReply) -> Page:
    granted = get(reply.whole("currentAppInstallation"), "accessScopes")
    if not isinstance(granted, list):
        unreadable("no list of scopes")
    return Page(ids=tuple(text(node, "handle") for node in granted))


def _orders(values: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = reply.whole("orders")
    stamp = STAMPS[values["field"]]
    return replace(_order_rows(nodes(listed), stamp), next=_next(listed))


def _orders_by_id(values: Mapping[str, Any], reply: ShopReply) -> Page:
    there, missing = _named(values["ids"], reply.whole("nodes"))
    return replace(_order_rows(there, "updatedAt"), missing=missing)


def _order_rows(rows: Sequence[Any], stamp: str) -> Page:
    fits = [row for row in rows if not _is_too_long(row)]
    parsed, odd = _read_rows("orders", fits, _order)
    return Page(
        records=Records(
            orders=tuple(order for order, _ in parsed),
            payments=tuple(node for _, payments in parsed for node in payments),
            unreadable=odd,
        ),
        ids=_ids(rows),
        stamps=_stamps(rows, stamp),
        cut=_ids([row for row in rows if _is_too_long(row)]),
    )


def _one_order(values: Mapping[str, Any], reply: ShopReply) -> Page:
    """Read a page of one order's positions; with the last one the order is whole."""
    reply.check_read("order")
    row, own = reply.data.get("order"), values["id"]
    if row is None:
        return Page(missing=(own,))
    try:
        return _order_part(row, own, read_part(values["next"]))
    except UnreadableError as error:
        return Page(records=Records(unreadable=(_odd("orders", row, error),)), ids=(own,))


def _order_part(row: Any, own: str, former: RecordPart | None) -> Page:  # noqa: ANN401 - JSON
    stamp = text(row, "updatedAt")
    if former is not None and former.stamp != stamp:
        return Page(ids=(own,), cut=(own,))  # it changed meanwhile, and its pages do not fit
    listed = part(row, "lineItems")
    lines = [*(former.lines if former else ()), *nodes(listed)]
    if (after := _next(listed)) is not None:
        left = json.dumps({"after": after, "stamp": stamp, "lines": lines})
        return Page(ids=(own,), next=left)
    whole_row = {**row, "lineItems": {**listed, "nodes": lines}}
    parsed, odd = _read_rows("orders", [whole_row], _order)
    orders = tuple(order for order, _ in parsed)
    payments = tuple(node for _, moved in parsed for node in moved)
    return Page(records=Records(orders=orders, payments=payments, unreadable=odd), ids=(own,))


def _is_too_long(row: object) -> bool:
    """Return True if a row of a page may lack some of its parts; a list without pages does not say.

    What makes no sense is not too long: it is unreadable.
    """
    listed = get(get(row, "lineItems"), "pageInfo")
    if get(listed, "hasNextPage") is True:
        return True
    limits = {"fulfillments": SHIPMENTS, "refunds": REFUNDS, "transactions": MOVES}
    return any(
        isinstance(parsed := get(row, name), list) and len(parsed) >= limit
        for name, limit in limits.items()
    )


def _order(row: object) -> tuple[Order, list[Payment]]:
    own, cancelled_at, closed_at = _number(row), _time(row, "cancelledAt"), _time(row, "closedAt")
    total, currency = _sum(row, "totalPriceSet")
    status = "closed" if closed_at else "open"
    customer = get(row, "customer")
    order = Order(
        external_id=own,
        number=text(row, "name"),
        status="cancelled" if cancelled_at else status,
        payment_status=_word(row, "displayFinancialStatus"),
        fulfillment_status=_word(row, "displayFulfillmentStatus"),
        # Whatever happens to it moves its stamp, so it is met again.
        is_open=False,
        currency=currency,
        total=total,
        subtotal=_sum_if_any(row, "subtotalPriceSet"),
        shipping=_sum_if_any(row, "totalShippingPriceSet"),
        tax=_sum_if_any(row, "totalTaxSet"),
        discount=_sum_if_any(row, "totalDiscountsSet"),
        customer_id=None if customer is None else _number(customer),
        placed_at=_instant(row, "processedAt"),
        modified_at=_instant(row, "updatedAt"),
        cancelled_at=cancelled_at,
        line_items=tuple(_line(node) for node in nodes(part(row, "lineItems"))),
        shipments=tuple(_shipment(node) for node in _list(row, "fulfillments")),
        refunds=tuple(_refund(node) for node in _list(row, "refunds")),
    )
    return order, [_payment(node, own) for node in _list(row, "transactions")]


def _line(row: object) -> LineItem:
    price, currency = _sum(row, "originalUnitPriceSet")
    variant = get(row, "variant")
    return LineItem(
        external_id=_number(row),
        quantity=whole(row, "quantity"),
        price=price,
        currency=currency,
        sku=_text_or_none(row, "sku"),
        title=text(row, "title"),
        listing_id=None if variant is None else _number(variant),
    )


def _shipment(row: object) -> Shipment:
    tracked = _list(row, "trackingInfo")
    carriers = dict.fromkeys(_text_or_none(node, "company") for node in tracked)
    numbers = [_text_or_none(node, "number") for node in tracked]
    return Shipment(
        external_id=_number(row),
        status=_word(row, "status"),
        carrier=", ".join(filter(None, carriers)),
        tracking=", ".join(filter(None, numbers)),
        shipped_at=_instant(row, "createdAt"),
        delivered_at=_time(row, "deliveredAt"),
    )


def _refund(row: object) -> Refund:
    value, currency = _sum(row, "totalRefundedSet")
    return Refund(
        external_id=_number(row),
        amount=value,
        currency=currency,
        reason=_text_or_none(row, "note"),
        refunded_at=_time(row, "createdAt"),
    )


def _payment(row: object, order_id: str) -> Payment:
    moved, currency = _sum(row, "amountSet")
    kind, status = text(row, "kind"), text(row, "status")
    sign = METRICS.get(kind, 0) if status == "SUCCESS" else 0
    return Payment(
        external_id=_number(row),
        kind=kind.lower(),
        amount=moved * sign if sign else Decimal(0),
        currency=currency,
        paid_at=_time(row, "processedAt") or _instant(row, "createdAt"),
        status=status.lower(),
        order_id=order_id,
    )


def _products(_: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = reply.whole("products")
    return replace(_product_rows(nodes(listed), reply), next=_next(listed))


def _products_by_id(values: Mapping[str, Any], reply: ShopReply) -> Page:
    there, missing = _named(values["ids"], reply.whole("nodes"))
    return replace(_product_rows(there, reply), missing=missing)


def _one_product(values: Mapping[str, Any], reply: ShopReply) -> Page:
    """Read a page of one product's variants: each is whole by itself."""
    there, missing = _named([values["id"]], reply.whole("nodes"))
    if missing:
        return Page(missing=missing)
    after = _next(part(there[0], "variants"))
    left = None if after is None else json.dumps({"after": after})
    return replace(_product_rows(there, reply), next=left, cut=())


def _product_rows(rows: Sequence[Any], reply: ShopReply) -> Page:
    currency = _currency(reply)
    products, odd = _read_rows("listings", rows, _variants_of)
    variants = [node for parsed, _ in products for node in parsed]
    listings, odd_ones = _read_rows("listings", variants, lambda node: _listing(node, currency))
    return Page(
        records=Records(listings=tuple(listings), unreadable=(*odd, *odd_ones)),
        ids=_ids(rows),
        stamps=_stamps(rows, "updatedAt"),
        cut=tuple(own for _, own in products if own is not None),
    )


def _variants_of(row: object) -> tuple[list[dict[str, Any]], str | None]:
    """Return a product's variants, each with it, and its id if there are more than these."""
    listed = part(row, "variants")
    own = _number(row) if is_cut(listed) else None
    variants = [node if isinstance(node, dict) else {} for node in nodes(listed)]
    return [{**node, "product": row} for node in variants], own


def _all_variants(_: Mapping[str, Any], reply: ShopReply) -> Page:
    listed, currency = reply.whole("productVariants"), _currency(reply)
    rows = nodes(listed)
    parsed, odd = _read_rows("listings", rows, lambda node: _listing(node, currency))
    records = Records(listings=tuple(parsed), unreadable=odd)
    return Page(records=records, ids=_ids(rows), next=_last_id(listed))


def _listing(row: object, currency: str) -> ShopListing:
    product, option = part(row, "product"), text(row, "title")
    title = text(product, "title")
    return ShopListing(
        external_id=_number(row),
        state=_word(product, "status"),
        sku=_text_or_none(row, "sku"),
        title=title if option == PLAIN_VARIANT else f"{title} - {option}",
        price=amount(row, "price"),
        currency=currency,
        quantity=None if get(row, "inventoryQuantity") is None else whole(row, "inventoryQuantity"),
        modified_at=_instant(product, "updatedAt"),
    )


def _customers(_: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = reply.whole("customers")
    return replace(_customer_rows(nodes(listed)), next=_next(listed))


def _all_customers(_: Mapping[str, Any], reply: ShopReply) -> Page:
    listed = reply.whole("customers")
    return replace(_customer_rows(nodes(listed)), next=_last_id(listed))


def _customers_by_id(values: Mapping[str, Any], reply: ShopReply) -> Page:
    there, missing = _named(values["ids"], reply.whole("nodes"))
    return replace(_customer_rows(there), missing=missing)


def _customer_rows(rows: Sequence[Any]) -> Page:
    parsed, odd = _read_rows("customers", rows, _customer)
    records = Records(customers=tuple(parsed), unreadable=odd)
    return Page(records=records, ids=_ids(rows), stamps=_stamps(rows, "updatedAt"))


def _customer(row: object) -> Customer:
    return Customer(
        external_id=_number(row),
        name=text(row, "displayName"),
        email=_text_or_none(get(row, "defaultEmailAddress"), "emailAddress"),
        country=_text_or_none(get(row, "defaultAddress"), "countryCodeV2"),
        modified_at=_instant(row, "updatedAt"),
    )


def _read_rows(
    kind: str, rows: Sequence[Any], read: Callable[[Any], Row]
) -> tuple[list[Row], tuple[Unreadable, ...]]:
    """Read each row by itself; those that make no sense are kept as they came."""
    parsed: list[Row] = []
    odd: list[Unreadable] = []
    for row in rows:
        try:
            parsed.append(read(row))
        except UnreadableError as error:
            odd.append(_odd(kind, row, error))
    return parsed, tuple(odd)


def _odd(kind: str, row: object, error: UnreadableError) -> Unreadable:
    raw = row if isinstance(row, dict) else {"row": row}
    own = _find_number(row) or f"unknown-{_digest(raw)}"
    return Unreadable(kind=kind, external_id=own, reason=str(error), raw=raw)


def _named(requested: Sequence[str], parsed: object) -> tuple[list[Any], tuple[str, ...]]:
    """Return the rows that were requested by id, and the ids of those that are not there."""
    if not isinstance(parsed, list) or len(parsed) != len(requested):
        unreadable("another number of nodes than was asked for")
    there = [row for row in parsed if row not in (None, {})]
    missing = [own for own, row in zip(requested, parsed, strict=True) if row in (None, {})]
    if set(_ids(there)) - set(requested):
        unreadable("a row that was not asked for")
    return there, tuple(missing)


def _next(listed: object) -> str | None:
    """Return the way to the next page, if there is one."""
    if not is_cut(listed):
        return None
    cursor = text(part(listed, "pageInfo"), "endCursor")
    return cursor if cursor and nodes(listed) else unreadable("a page that leads nowhere")


def _last_id(listed: object) -> str | None:
    """Return the last id of a page that goes on: there the next one begins."""
    rows = nodes(listed)
    if not is_cut(listed):
        return None
    return _number(rows[-1]) if rows else unreadable("an empty page that goes on")


def _ids(rows: Sequence[Any]) -> tuple[str, ...]:
    return tuple(filter(None, (_find_number(row) for row in rows)))


def _stamps(rows: Sequence[Any], name: str) -> tuple[datetime, ...]:
    return tuple(filter(None, (_find_time(get(row, name)) for row in rows)))


def _find_number(row: object) -> str | None:
    parsed = get(row, "id")
    match = GID.fullmatch(parsed) if isinstance(parsed, str) else None
    return match[1] if match else None


def _number(row: object) -> str:
    return _find_number(row) or unreadable("no usable id")


def _find_time(value: object) -> datetime | None:
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return instant if instant is not None and instant.tzinfo else None


def _instant(row: object, name: str) -> datetime:
    return _find_time(get(row, name)) or unreadable(f"no usable {name}")


def _time(row: object, name: str) -> datetime | None:
    return None if get(row, name) is None else _instant(row, name)


def _list(row: object, name: str) -> list[Any]:
    parsed = get(row, name)
    return parsed if isinstance(parsed, list) else unreadable(f"no list of {name}")


def _word(row: object, name: str) -> str:
    return _text_or_none(row, name).lower()


def _text_or_none(row: object, name: str) -> str:
    return "" if get(row, name) is None else text(row, name)


def _sum(row: object, name: str) -> tuple[Decimal, str]:
    money = part(part(row, name), "shopMoney")
    return amount(money, "amount"), text(money, "currencyCode")


def _sum_if_any(row: object, name: str) -> Decimal | None:
    return None if get(row, name) is None else _sum(row, name)[0]


def _currency(reply: ShopReply) -> str:
    return text(reply.data.get("shop"), "currencyCode")


def _digest(raw: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()[:16]


READERS: Mapping[str, Callable[[Mapping[str, Any], ShopReply], Page]] = {
    "scopes": _scopes,
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
