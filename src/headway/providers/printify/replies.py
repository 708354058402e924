"""Read Printify's replies into warehouse records; a malformed row is set aside.

Money is whole US cents. An order's total and the prices of its lines are retail, what the buyer was
asked; shipping and tax are what Printify charges the seller. Lines and parcels have no ids of their
own, nor have buyers: see `_line_items`, `_shipments` and `_customer`.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

from headway.core.accounts.pagination import Page
from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Records,
    Shipment,
    ShopListing,
    Unreadable,
)
from headway.errors import UnreadableError
from headway.providers.excerpt import excerpt

PROVIDER = "printify"
CURRENCY = "USD"
CENTS_MAX, COUNT_MAX, TEXT_CHARS_MAX = 10**12, 10**9, 2000
# Nothing happens to these any more. A fulfilled order is closed once all its parcels are delivered,
# or DELIVERY_DAYS after it was fulfilled: not every carrier reports. Any other status is open.
CLOSED = frozenset({"canceled", "unfulfillable"})
FULFILLED = "fulfilled"
DELIVERY_DAYS = timedelta(days=30)

T = TypeVar("T")
N = TypeVar("N", Order, Customer, ShopListing)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintifyShop:
    """A shop of the account that a token belongs to; `owner_id` is its smallest shop id."""

    id: str
    title: str
    owner_id: str


def unreadable(why: str) -> NoReturn:
    """Raise UnreadableError in one line."""
    raise UnreadableError(f"{PROVIDER}'s reply has {why}"[:250], provider=PROVIDER)


def read_orders(body: bytes, *, limit: int, now: datetime) -> Page:
    """Read a page of orders, newest first."""
    envelope, rows = _read_list(body, limit)
    stamps = [read_instant(row, "created_at") for row in rows]
    return Page(
        records=_order_records(rows, now),
        ids=_ids(rows),
        stamps=tuple(stamp for stamp in stamps if stamp is not None),
        total=envelope["total"],
        next=_next(envelope, rows),
    )


def read_order(body: bytes, *, now: datetime) -> Page:
    """Read one order that was requested by its id."""
    row = _load(body)
    if not isinstance(row, dict) or "id" not in row:
        unreadable(f"no order: {excerpt(body)}")
    return Page(records=_order_records([row], now), ids=_ids([row]))


def read_products(body: bytes, *, limit: int) -> Page:
    """Read a page of products: a listing for each variant that is on offer."""
    envelope, rows = _read_list(body, limit)
    products, bad = _sort("listings", rows, _listings)
    listings = _once([listing for product in products for listing in product])
    return Page(
        records=Records(listings=listings, unreadable=bad),
        ids=_ids(rows),
        total=envelope["total"],
        next=_next(envelope, rows),
    )


def read_shops(body: bytes) -> tuple[PrintifyShop, ...]:
    """Read the shops of an account; it has no id, so its smallest shop id is used."""
    rows = _load(body)
    if not isinstance(rows, list):
        unreadable(f"no list of shops: {excerpt(body)}")
    try:
        parsed = {_whole(row, "id"): _text(row, "title") for row in rows}
    except (ValueError, AttributeError) as error:
        unreadable(f"an odd shop: {error}")
    owner_id = str(min(parsed, default=0))
    return tuple(
        PrintifyShop(id=str(number), title=title, owner_id=owner_id)
        for number, title in sorted(parsed.items())
    )


def read_said(body: bytes) -> str:
    """Return the message of an error reply, in one line."""
    try:
        fields = json.loads(body)
        errors = fields.get("errors") if isinstance(fields.get("errors"), dict) else {}
        messages = [str(part) for part in (fields.get("message"), errors.get("reason")) if part]
    except (ValueError, RecursionError, AttributeError):
        return excerpt(body)
    return excerpt(": ".join(messages).encode(errors="replace")) or excerpt(body)


def _order_records(rows: Sequence[Any], now: datetime) -> Records:
    read, bad = _sort("orders", rows, lambda row: (_order(row, now), _customer(row)))
    return Records(
        orders=_once([order for order, _ in read]),
        customers=_once([customer for _, customer in read if customer is not None]),
        unreadable=bad,
    )


def _order(row: Row, now: datetime) -> Order:
    """Read one order; raises ValueError."""
    status, shipments = _text(row, "status", is_needed=True), _shipments(row)
    metadata = _part(row, "metadata")
    return Order(
        external_id=_text(row, "id", is_needed=True),
        number=_text(metadata, "shop_order_label") or _text(metadata, "shop_order_id"),
        status=status,
        is_open=_is_open(status, shipments, read_instant(row, "fulfilled_at"), now),
        currency=CURRENCY,
        total=_money(row, "total_price"),
        shipping=_money(row, "total_shipping"),
        tax=_money(row, "total_tax"),
        customer_id=customer.external_id if (customer := _customer(row)) else None,
        placed_at=_instant(row, "created_at"),
        line_items=_line_items(row),
        shipments=shipments,
    )


def _listings(row: Row) -> tuple[ShopListing, ...]:
    """Read the variants of a product that are on offer; raises ValueError.

    State is `locked` while the product is being published, else `visible` or `hidden`.
    """
    product_id, title = _text(row, "id", is_needed=True), _text(row, "title")
    shown = "visible" if row.get("visible") else "hidden"
    state = "locked" if row.get("is_locked") else shown
    return tuple(
        ShopListing(
            external_id=f"{product_id}:{_whole(variant, 'id')}",
            state=state,
            sku=_text(variant, "sku"),
            title=" - ".join(part for part in (title, _text(variant, "title")) if part),
            price=_money(variant, "price"),
            currency=CURRENCY,
            modified_at=read_instant(row, "updated_at"),
        )
        for variant in _rows(row, "variants")
        if variant.get("is_enabled")
    )


def _line_items(row: Row) -> tuple[LineItem, ...]:
    """Name a line by product and variant, and the second of the same kind by its number too."""
    lines: dict[str, LineItem] = {}
    for line in _rows(row, "line_items"):
        listing_id = f"{_text(line, 'product_id', is_needed=True)}:{_whole(line, 'variant_id')}"
        metadata = _part(line, "metadata")
        external_id = _free_name(listing_id, lines)
        has_price = metadata.get("price") is not None
        lines[external_id] = LineItem(
            external_id=external_id,
            quantity=_whole(line, "quantity"),
            price=_money(metadata, "price") if has_price else _money(line, "cost"),
            currency=CURRENCY,
            sku=_text(metadata, "sku"),
            title=_text(metadata, "title"),
            listing_id=listing_id,
        )
    return tuple(lines.values())


def _shipments(row: Row) -> tuple[Shipment, ...]:
    """Name a parcel by carrier and number; one without a number by the carrier alone."""
    shipments: dict[str, Shipment] = {}
    for shipment in _rows(row, "shipments") if row.get("shipments") else ():
        carrier, number = _text(shipment, "carrier"), _text(shipment, "number")
        delivered_at = read_instant(shipment, "delivered_at")
        external_id = _free_name(f"{carrier}:{number}", shipments)
        shipments[external_id] = Shipment(
            external_id=external_id,
            status="delivered" if delivered_at else "shipped",
            carrier=carrier,
            tracking=number,
            shipped_at=read_instant(shipment, "shipped_at"),
            delivered_at=delivered_at,
        )
    return tuple(shipments.values())


def _customer(row: Row) -> Customer | None:
    """Return the buyer, identified by email, or without one by name and address."""
    fields = row.get("address_to")
    if not isinstance(fields, dict):
        return None
    email = _text(fields, "email")
    name = " ".join(
        part for part in (_text(fields, "first_name"), _text(fields, "last_name")) if part
    )
    parts = [name, *(_text(fields, part) for part in ("country", "zip", "city", "address1"))]
    known_by = email or "\n".join(parts)
    if not known_by.strip():
        return None
    digest = hashlib.sha256(known_by.strip().casefold().encode()).hexdigest()
    return Customer(
        external_id=f"{'email' if email else 'address'}:{digest[:32]}",
        name=name,
        email=email,
        country=_text(fields, "country"),
        modified_at=read_instant(row, "created_at"),
    )


def _is_open(
    status: str, shipments: Sequence[Shipment], fulfilled_at: datetime | None, now: datetime
) -> bool:
    if status != FULFILLED:
        return status not in CLOSED
    is_delivered = bool(shipments) and all(shipment.delivered_at for shipment in shipments)
    return not is_delivered and fulfilled_at is not None and now < fulfilled_at + DELIVERY_DAYS


def _sort(
    kind: str, rows: Sequence[Any], read: Callable[[Row], T]
) -> tuple[list[T], tuple[Unreadable, ...]]:
    """Part the rows that make sense from those that do not."""
    good: list[T] = []
    bad: dict[str, Unreadable] = {}
    for row in rows:
        is_kept = isinstance(row, dict) and _is_storable(row)
        try:
            if not is_kept:
                raise ValueError("no object that can be stored")  # noqa: TRY301 - as if it were read
            good.append(read(row))
        except ValueError as error:
            text = json.dumps(row)
            name = _name(row) or hashlib.sha256(text.encode()).hexdigest()[:32]
            raw = row if is_kept else {"text": text}
            bad[name] = Unreadable(kind=kind, external_id=name, reason=str(error), raw=raw)
    return good, tuple(bad.values())


def _is_storable(row: Any) -> bool:  # noqa: ANN401 - JSON, of whatever shape
    """Return True if a table takes it: no NUL, no half of a character, no number without end."""
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
        return b"\\u0000" not in text.encode().replace(b"\\\\", b"")
    except (ValueError, RecursionError):
        return False


def _load(body: bytes) -> Any:  # noqa: ANN401 - JSON, of whatever shape
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        unreadable(f"no JSON: {excerpt(body) or 'an empty body'}")


def _read_list(body: bytes, limit: int) -> tuple[Row, list[Any]]:
    """Read the outer layer of a page; the walk relies on its numbers."""
    envelope = _load(body)
    if not isinstance(envelope, dict) or not isinstance(envelope.get("data"), list):
        unreadable(f"no page: {excerpt(body)}")
    try:
        for name in ("total", "current_page", "last_page"):
            _whole(envelope, name)
    except ValueError as error:
        unreadable(f"no page: {error}")
    rows = envelope["data"]
    if len(rows) > limit or envelope.get("per_page", limit) not in {limit, str(limit)}:
        unreadable(f"a page of another size than the {limit} asked for")
    return envelope, rows


def _next(envelope: Row, rows: Sequence[Any]) -> str | None:
    is_last = envelope["current_page"] >= envelope["last_page"] or not rows
    return None if is_last else str(envelope["current_page"] + 1)


def _ids(rows: Sequence[Any]) -> tuple[str, ...]:
    return tuple(name for row in rows if (name := _name(row)))


def _name(row: Any) -> str:  # noqa: ANN401 - a row, perhaps a bad one
    """Return the id of a row, if it has one that can be stored."""
    try:
        return _text(row, "id", is_needed=True) if _is_storable(row) else ""
    except (ValueError, AttributeError):
        return ""


def _once(records: Sequence[N]) -> tuple[N, ...]:
    """Return the records without repeated ids; the first of several is the newest."""
    return tuple({record.external_id: record for record in reversed(records)}.values())[::-1]


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name}:{number}"
    return free


def _part(row: Row, name: str) -> Row:
    part = row.get(name)
    return part if isinstance(part, dict) else {}


def _rows(row: Row, name: str) -> list[Row]:
    rows = row.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"no list {name}")
    return rows


def _text(row: Row, name: str, *, is_needed: bool = False) -> str:
    value = row.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None and not is_needed:
        return ""
    if not isinstance(value, str) or (is_needed and not value.strip()):
        raise ValueError(f"no {name}")
    return value.strip()[:TEXT_CHARS_MAX]


def _whole(row: Row, name: str, *, at_most: int = COUNT_MAX) -> int:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= at_most:
        raise ValueError(f"no usable {name}")
    return value


def _money(row: Row, name: str) -> Decimal:
    return Decimal(_whole(row, name, at_most=CENTS_MAX)).scaleb(-2)


def _instant(row: Row, name: str) -> datetime:
    parsed = read_instant(row, name)
    if parsed is None:
        raise ValueError(f"no usable {name}")
    return parsed


def read_instant(row: Any, name: str) -> datetime | None:  # noqa: ANN401 - JSON
    """Return the instant of this name, in UTC; None if there is none."""
    value = row.get(name) if isinstance(row, dict) else None
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
        return parsed and (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
