"""Read Printify's replies into warehouse records; a malformed row is set aside.

Money is whole cents, of US dollars unless an order names its currency; an amount that is missing or
has parts of a cent is unknown. An order's total and the prices of its lines are retail, what the
buyer was asked; shipping and tax are what Printify charges the seller. Lines and shipments have no
ids of their own, nor have buyers: see `_line_items`, `_shipments` and `_customer`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AliasPath, Field, PlainValidator, TypeAdapter

from headway.core.accounts.pagination import Page
from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Records,
    Shipment,
    ShopListing,
)
from headway.providers.excerpt import excerpt
from headway.providers.reply_fields import (
    Count,
    Identifier,
    Label,
    LenientInstant,
    OptionalCents,
    ReplyModel,
    UtcInstant,
)
from headway.providers.reply_rows import (
    digest,
    find_field,
    load,
    read_model,
    read_rows,
    unreadable,
)

PROVIDER = "printify"
# Printify bills in US dollars; an order that names another currency is believed.
CURRENCY = "USD"
CURRENCY_CODE = re.compile(r"[A-Z]{3}")
# Nothing happens to these any more. A fulfilled order is closed once all its shipments are
# delivered, or DELIVERY_DAYS after it was fulfilled: not every carrier reports. Any other status
# is open.
CANCELED, SPELLINGS = "canceled", {"cancelled": "canceled"}
CLOSED = frozenset({CANCELED, "unfulfillable"})
FULFILLED = "fulfilled"
DELIVERY_DAYS = timedelta(days=30)

IDENTIFIER = TypeAdapter(Identifier)
INSTANT = TypeAdapter(LenientInstant)
N = TypeVar("N", Customer, ShopListing)


def _one_spelling(status: str) -> str:
    return SPELLINGS.get(status, status)


def _currency(value: object) -> str:
    is_code = isinstance(value, str) and CURRENCY_CODE.fullmatch(value)
    return str(value) if is_code else CURRENCY


def _at(part: str, name: str, default: str | None = "") -> Any:  # noqa: ANN401 - a field
    """Return the field of this name in a part of a row; that part may be missing."""
    return Field(default, validation_alias=AliasPath(part, name))


class PrintifyLine(ReplyModel):
    """A position of an order; one without a product is no longer in the catalog."""

    product_id: Identifier | None = None
    variant_id: Count | None = None
    quantity: Count
    cost: OptionalCents = None
    price: OptionalCents = _at("metadata", "price", default=None)
    title: Label = _at("metadata", "title")
    sku: Label = _at("metadata", "sku")


class PrintifyShipment(ReplyModel):
    """A shipment of an order."""

    carrier: Label = ""
    number: Label = ""
    shipped_at: LenientInstant = None
    delivered_at: LenientInstant = None


class PrintifyOrder(ReplyModel):
    """A row of the list of orders."""

    id: Identifier
    status: Annotated[Label, AfterValidator(_one_spelling)] = ""
    created_at: UtcInstant
    fulfilled_at: LenientInstant = None
    currency: Annotated[str, PlainValidator(_currency)] = CURRENCY
    total_price: OptionalCents = None
    total_shipping: OptionalCents = None
    total_tax: OptionalCents = None
    line_items: list[PrintifyLine]
    shipments: list[PrintifyShipment] | None = None
    shop_order_id: Label = _at("metadata", "shop_order_id")
    shop_order_label: Label = _at("metadata", "shop_order_label")
    first_name: Label = _at("address_to", "first_name")
    last_name: Label = _at("address_to", "last_name")
    email: Label = _at("address_to", "email")
    country: Label = _at("address_to", "country")
    zip: Label = _at("address_to", "zip")
    city: Label = _at("address_to", "city")
    address1: Label = _at("address_to", "address1")


class PrintifyVariant(ReplyModel):
    """A variant of a product that is on offer."""

    id: Count
    sku: Label = ""
    title: Label = ""
    price: OptionalCents = None
    is_available: Any = None


class PrintifyProduct(ReplyModel):
    """A row of the list of products; any value may stand for true or false."""

    id: Identifier
    title: Label = ""
    visible: Any = None
    is_locked: Any = None
    updated_at: LenientInstant = None
    variants: list[dict[str, Any]]


class PrintifyEnvelope(ReplyModel):
    """The outer layer of a page; what it leaves out is derived from the rows."""

    total: Count | None = None
    current_page: Count | None = None
    last_page: Count | None = None
    per_page: Any = None
    data: list[Any]

    def next_page(self, limit: int) -> str | None:
        """Return the number of the next page, if there is one; a page that is full may not be last.

        The walk counts pages itself: the number only says that there is one.
        """
        if self.current_page is None or self.last_page is None:
            is_last = len(self.data) < limit
        else:
            is_last = self.current_page >= self.last_page or not self.data
        return None if is_last else str((self.current_page or 0) + 1)


class PrintifyShopRow(ReplyModel):
    """A row of the list of shops."""

    id: Count
    title: Label = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintifyShop:
    """A shop of the account that a token belongs to; `owner_id` is its smallest shop id."""

    id: str
    title: str
    owner_id: str


def read_orders(body: bytes, *, limit: int, now: datetime) -> Page:
    """Read a page of orders, newest first."""
    envelope = _read_envelope(body, limit)
    stamps = [find_instant(row, "created_at") for row in envelope.data]
    return Page(
        records=_order_records(envelope.data, now),
        ids=_ids(envelope.data),
        stamps=tuple(stamp for stamp in stamps if stamp is not None),
        total=envelope.total,
        next=envelope.next_page(limit),
    )


def read_order(body: bytes, *, now: datetime) -> Page:
    """Read one order that was requested by its id."""
    row = load(body, PROVIDER)
    if not isinstance(row, dict) or "id" not in row:
        unreadable(PROVIDER, f"no order: {excerpt(body)}")
    return Page(records=_order_records([row], now), ids=_ids([row]))


def read_products(body: bytes, *, limit: int) -> Page:
    """Read a page of products: a listing for each variant that is on offer."""
    envelope = _read_envelope(body, limit)
    products, bad = read_rows("listings", envelope.data[::-1], _name, _listings)
    listings = [listing for product in products.values() for listing in product[::-1]]
    return Page(
        records=Records(listings=_first_of_each(listings), unreadable=bad),
        ids=_ids(envelope.data),
        total=envelope.total,
        next=envelope.next_page(limit),
    )


def read_shops(body: bytes) -> tuple[PrintifyShop, ...]:
    """Read the shops of an account; it has no id, so its smallest shop id is used."""
    rows = load(body, PROVIDER)
    if not isinstance(rows, list):
        unreadable(PROVIDER, f"no list of shops: {excerpt(body)}")
    # Without one of the shops the owner's id could be wrong, so none is read.
    parsed = [read_model(PROVIDER, PrintifyShopRow, row) for row in rows]
    shops = {shop.id: shop.title for shop in parsed}
    owner_id = str(min(shops, default=0))
    return tuple(
        PrintifyShop(id=str(number), title=title, owner_id=owner_id)
        for number, title in sorted(shops.items())
    )


def read_message(body: bytes) -> str:
    """Return the message of an error reply, in one line."""
    try:
        fields = json.loads(body)
        errors = fields.get("errors") if isinstance(fields.get("errors"), dict) else {}
        messages = [str(part) for part in (fields.get("message"), errors.get("reason")) if part]
    except (ValueError, RecursionError, AttributeError):
        return excerpt(body)
    return excerpt(": ".join(messages).encode(errors="replace")) or excerpt(body)


def find_instant(row: object, name: str) -> datetime | None:
    """Return the instant of this name, in UTC; None if there is none."""
    return INSTANT.validate_python(row.get(name)) if isinstance(row, dict) else None


def _order_records(rows: Sequence[Any], now: datetime) -> Records:
    """Read orders and their buyers; the first of two rows with the same id is the newest."""
    orders, bad = read_rows("orders", rows[::-1], _name, lambda row: _order(row, now))
    customers = [customer for _, customer in orders.values() if customer is not None]
    return Records(
        orders=tuple(order for order, _ in orders.values())[::-1],
        customers=_first_of_each(customers),
        unreadable=bad[::-1],
    )


def _order(fields: Any, now: datetime) -> tuple[Order, Customer | None]:  # noqa: ANN401 - JSON
    row = PrintifyOrder.model_validate(fields)
    shipments, customer = _shipments(row.shipments or ()), _customer(row)
    order = Order(
        external_id=row.id,
        number=row.shop_order_label or row.shop_order_id,
        status=row.status,
        is_open=_is_open(row, shipments, now),
        currency=row.currency,
        total=row.total_price,
        shipping=row.total_shipping,
        tax=row.total_tax,
        customer_id=customer.external_id if customer else None,
        placed_at=row.created_at,
        line_items=_line_items(row.line_items, row.currency),
        shipments=shipments,
    )
    return order, customer


def _listings(fields: Any) -> tuple[ShopListing, ...]:  # noqa: ANN401 - JSON
    """Read the variants of a product that are on offer.

    State is `unavailable` if the print provider does not have the variant now, else `visible`, or
    `locked` while the product is being published, or `hidden`. A visible one may be locked as well.
    """
    product = PrintifyProduct.model_validate(fields)
    state = "visible" if product.visible else "locked" if product.is_locked else "hidden"
    variants = [row for row in product.variants if row.get("is_enabled")]
    return tuple(
        ShopListing(
            external_id=f"{product.id}:{variant.id}",
            state="unavailable" if variant.is_available is False else state,
            sku=variant.sku,
            title=" - ".join(part for part in (product.title, variant.title) if part),
            price=variant.price,
            currency=CURRENCY,
            modified_at=product.updated_at,
        )
        for variant in map(PrintifyVariant.model_validate, variants)
    )


def _line_items(rows: Sequence[PrintifyLine], currency: str) -> tuple[LineItem, ...]:
    """Name a line by product and variant, and the second of the same kind by its number too."""
    lines: dict[str, LineItem] = {}
    for row in rows:
        ids = (row.product_id, row.variant_id)
        name = ":".join("" if part is None else str(part) for part in ids)
        external_id = _free_name(name, lines)
        lines[external_id] = LineItem(
            external_id=external_id,
            quantity=row.quantity,
            price=row.cost if row.price is None else row.price,
            currency=currency,
            sku=row.sku,
            title=row.title,
            listing_id=None if None in ids else name,
        )
    return tuple(lines.values())


def _shipments(rows: Sequence[PrintifyShipment]) -> tuple[Shipment, ...]:
    """Name a shipment by carrier and number; one without a number by the carrier alone."""
    shipments: dict[str, Shipment] = {}
    for row in rows:
        external_id = _free_name(f"{row.carrier}:{row.number}", shipments)
        shipments[external_id] = Shipment(
            external_id=external_id,
            status="delivered" if row.delivered_at else "shipped",
            carrier=row.carrier,
            tracking=row.number,
            shipped_at=row.shipped_at,
            delivered_at=row.delivered_at,
        )
    return tuple(shipments.values())


def _customer(row: PrintifyOrder) -> Customer | None:
    """Return the buyer, identified by email, or without one by name and row."""
    name = " ".join(part for part in (row.first_name, row.last_name) if part)
    place = (row.country, row.zip, row.city, row.address1)
    identity = row.email or "\n".join((name, *place))
    if not identity.strip():
        return None
    key = hashlib.sha256(identity.strip().casefold().encode()).hexdigest()
    return Customer(
        external_id=f"{'email' if row.email else 'address'}:{key[:32]}",
        name=name,
        email=row.email,
        country=row.country,
        modified_at=row.created_at,
    )


def _is_open(row: PrintifyOrder, shipments: Sequence[Shipment], now: datetime) -> bool:
    if row.status != FULFILLED:
        return row.status not in CLOSED
    is_delivered = bool(shipments) and all(shipment.delivered_at for shipment in shipments)
    fulfilled_at = row.fulfilled_at
    return not is_delivered and fulfilled_at is not None and now < fulfilled_at + DELIVERY_DAYS


def _read_envelope(body: bytes, limit: int) -> PrintifyEnvelope:
    envelope = read_model(PROVIDER, PrintifyEnvelope, load(body, PROVIDER))
    if len(envelope.data) > limit or envelope.per_page not in {None, limit, str(limit)}:
        unreadable(PROVIDER, f"a page of another size than the {limit} asked for")
    return envelope


def _ids(rows: Sequence[Any]) -> tuple[str, ...]:
    ids = (find_field(row, "id", IDENTIFIER) for row in rows)
    return tuple(external_id for external_id in ids if external_id)


def _name(row: Any) -> str:  # noqa: ANN401 - a row, perhaps a bad one
    return find_field(row, "id", IDENTIFIER) or digest(row)


def _first_of_each(records: Sequence[N]) -> tuple[N, ...]:
    """Return records that were read from the last to the first, the first of each id."""
    return tuple({record.external_id: record for record in records}.values())[::-1]


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name}:{number}"
    return free
