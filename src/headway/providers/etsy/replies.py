"""Read Etsy's replies into warehouse records; a malformed row is set aside.

Money comes as an amount and a divisor, or in a ledger as minor units, and is kept exact. Etsy
reports neither when an order was canceled nor when a shipment arrived. A refund has no id: its
second, and its place among those of that second, identify it. A buyer's data is from the newest
order.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    TypeAdapter,
    model_validator,
)

from headway.core.accounts.pagination import Page
from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Payment,
    PaymentOrder,
    Records,
    Refund,
    Shipment,
    ShopListing,
)
from headway.providers.excerpt import excerpt
from headway.providers.reply_fields import (
    Count,
    Currency,
    Flag,
    LenientText,
    NumberId,
    OptionalNumberId,
    OptionalText,
    ReplyModel,
    Second,
    Text,
    number_as_text,
)
from headway.providers.reply_rows import (
    digest,
    find_field,
    load,
    read_model,
    read_rows,
    unreadable,
)

PROVIDER = "etsy"
AMOUNT_MAX = 10**15
# Currencies whose minor unit is not a hundredth.
EXPONENTS = {"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "KWD": 3, "BHD": 3, "TND": 3}
# Nothing more happens to these. A shipment may be lost or refunded for a while after it was sent;
# an order that nobody ships in half a year never will be.
CLOSED = frozenset({"canceled", "fully refunded"})
SHIPPED_OPEN, UNSHIPPED_OPEN = timedelta(days=30), timedelta(days=180)
CREATED = AliasChoices("created_timestamp", "create_timestamp")
UPDATED = AliasChoices("updated_timestamp", "update_timestamp", "last_modified_timestamp")
ENTERED = AliasChoices("created_timestamp", "create_date")
SORTED_BY = {"created": CREATED, "updated": UPDATED}
NUMBER_ID = TypeAdapter(NumberId)
NUMBER_ID_TEXT = re.compile(r"[1-9][0-9]{0,19}")
# Kinds of entries that move money to the seller's bank, or back: DISBURSE, DISBURSE2, ...
TRANSFER = "DISBURSE"
SECOND = TypeAdapter(Second)
# Etsy writes texts with HTML entities, such as O&#39;Connell.
EtsyText = Annotated[OptionalText, AfterValidator(unescape)]
EtsyLenientText = Annotated[LenientText, AfterValidator(unescape)]
MinorUnits = Annotated[int, Field(strict=True, ge=-AMOUNT_MAX, le=AMOUNT_MAX)]
Part = TypeVar("Part", LineItem, Shipment)


def _first(values: object) -> object:
    return values[0] if isinstance(values, list) and values else ""


class EtsyMoney(ReplyModel):
    """An amount with its divisor and currency."""

    amount: MinorUnits
    divisor: Annotated[int, Field(strict=True, ge=1, le=10**6)]
    currency_code: Currency

    @property
    def exact(self) -> Decimal:
        """The amount in the currency's main unit."""
        return Decimal(self.amount) / self.divisor

    @model_validator(mode="after")
    def _check_exact(self) -> Self:
        if self.exact * self.divisor != self.amount:
            raise ValueError("no exact amount")
        return self


class EtsyTransaction(ReplyModel):
    """A position of a receipt."""

    transaction_id: NumberId
    quantity: Count
    price: EtsyMoney
    sku: EtsyText = ""
    title: EtsyText = ""
    listing_id: OptionalNumberId = None


class EtsyShipment(ReplyModel):
    """A shipment of a receipt; it may not have an id yet."""

    receipt_shipping_id: OptionalNumberId = None
    carrier_name: EtsyText = ""
    tracking_code: EtsyText = ""
    shipment_notification_timestamp: Second | None = None


class EtsyRefund(ReplyModel):
    """Money given back on a receipt."""

    amount: EtsyMoney
    created_timestamp: Second
    status: OptionalText = ""
    reason: EtsyText = ""


class EtsyReceipt(ReplyModel):
    """A row of the list of receipts."""

    receipt_id: NumberId
    status: Text
    is_paid: Flag
    is_shipped: Flag
    placed_at: Second = Field(validation_alias=CREATED)
    updated_at: Second = Field(validation_alias=UPDATED)
    grandtotal: EtsyMoney
    subtotal: EtsyMoney | None = None
    total_shipping_cost: EtsyMoney | None = None
    total_tax_cost: EtsyMoney | None = None
    total_vat_cost: EtsyMoney | None = None
    discount_amt: EtsyMoney | None = None
    buyer_user_id: OptionalNumberId = None
    name: EtsyLenientText = ""
    buyer_email: EtsyLenientText = ""
    country_iso: LenientText = ""
    transactions: list[EtsyTransaction] | None = None
    shipments: list[EtsyShipment] | None = None
    refunds: list[EtsyRefund] | None = None

    def part_of_total(self, name: str) -> Decimal | None:
        """Return a part of the total, which must be in the same currency."""
        money: EtsyMoney | None = getattr(self, name)
        if money is not None and money.currency_code != self.grandtotal.currency_code:
            raise ValueError(f"{name} is in {money.currency_code}, the total is not")
        return None if money is None else money.exact


class EtsyListing(ReplyModel):
    """A row of the list of listings."""

    listing_id: NumberId
    state: Text
    title: EtsyText = ""
    # A listing with variations has several; the table has room for one.
    sku: Annotated[EtsyText, BeforeValidator(_first)] = Field("", validation_alias="skus")
    price: EtsyMoney | None = None
    quantity: Count
    updated_at: Second = Field(validation_alias=UPDATED)


class EtsyLedgerEntry(ReplyModel):
    """A row of the ledger; its amount is in minor units of the currency."""

    entry_id: NumberId
    amount: MinorUnits
    currency: Currency
    ledger_type: OptionalText = ""
    description: OptionalText = ""
    reference_type: LenientText = ""
    reference_id: Annotated[LenientText, BeforeValidator(number_as_text)] = ""
    payment_adjustments: Any = None
    entered_at: Second = Field(validation_alias=ENTERED)

    @property
    def payment_id(self) -> str | None:
        """The payment that must be asked for to know the order."""
        if self.reference_type == "shop_payment":
            return self.named(self.reference_type)
        rows = self.payment_adjustments if isinstance(self.payment_adjustments, list) else []
        ids = {find_field(row, "payment_id", NUMBER_ID) for row in rows} - {None}
        return ids.pop() if len(ids) == 1 else None

    def named(self, reference_type: str) -> str | None:
        """Return the id that it refers to, if it is of this type."""
        is_id = NUMBER_ID_TEXT.fullmatch(self.reference_id)
        return self.reference_id if is_id and self.reference_type == reference_type else None


class EtsyPayment(ReplyModel):
    """A payment of a receipt."""

    payment_id: NumberId
    receipt_id: NumberId


class EtsyUser(ReplyModel):
    """The owner of a token."""

    user_id: NumberId
    shop_id: OptionalNumberId = None


class EtsyShop(ReplyModel):
    """A shop, by its name."""

    shop_name: EtsyLenientText = ""


def read_receipts(body: bytes, *, sort_on: str, now: datetime) -> Page:
    """Read a page of receipts, sorted by when they were created or updated."""
    rows, total = _list(body)
    return _receipts(rows, total, sort_on=sort_on, now=now)


def read_receipt(body: bytes, *, now: datetime) -> Page:
    """Read one receipt that was requested by its id."""
    row = _object(body)
    if "receipt_id" not in row:
        unreadable(PROVIDER, f"no receipt: {excerpt(body)}")
    return _receipts([row], None, sort_on="updated", now=now)


def read_listings(body: bytes) -> Page:
    """Read a page of listings of one state."""
    rows, total = _list(body)
    listings, bad = read_rows("listings", rows, _name("listing_id"), _listing)
    records = Records(listings=tuple(listings.values()), unreadable=bad)
    return _page(rows, "listing_id", UPDATED, records, total)


def read_ledger(body: bytes) -> Page:
    """Read a page of entries of the ledger."""
    rows, total = _list(body)
    payments, bad = read_rows("payments", rows, _name("entry_id"), _payment)
    records = Records(payments=tuple(row for row, _ in payments.values()), unreadable=bad)
    links = [(row.external_id, link) for row, link in payments.values() if link is not None]
    return replace(_page(rows, "entry_id", ENTERED, records, total), links=tuple(links))


def read_payments(body: bytes, links: Iterable[Sequence[str]]) -> Page:
    """Read the payments that entries of the ledger refer to: they name the orders."""
    rows, _ = _list(body)
    payments, _ = read_rows("payments", rows, _name("payment_id"), EtsyPayment.model_validate)
    found = [(entry_id, payments.get(payment_id)) for entry_id, payment_id in links]
    orders = tuple(
        PaymentOrder(external_id=entry_id, order_id=payment.receipt_id)
        for entry_id, payment in found
        if payment is not None
    )
    return Page(records=Records(payment_orders=orders))


def read_creation(body: bytes) -> Page:
    """Read when a shop was created, as the stamp of an empty page; without it if Etsy omits it."""
    created_at = _find_stamp(_object(body), ENTERED)
    return Page() if created_at is None else Page(stamps=(created_at,))


def read_self(body: bytes) -> tuple[str, str | None]:
    """Return the owner of the token, and that person's shop if there is one."""
    user = read_model(PROVIDER, EtsyUser, _object(body))
    return user.user_id, user.shop_id


def read_title(body: bytes) -> str:
    """Return the name of a shop."""
    return EtsyShop.model_validate(_object(body)).shop_name


def find_error(body: bytes) -> str:
    """Return the message of an error's body, as one plain line; empty if it is no JSON."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    texts = [document.get("error"), document.get("error_description")]
    return excerpt(
        " ".join(text for text in texts if isinstance(text, str)).encode(errors="replace")
    )


def read_scopes(body: bytes) -> Sequence[str]:
    """Return the scopes in a reply; raises UnreadableError."""
    document = load(body, PROVIDER)
    scopes = document.get("scopes") if isinstance(document, dict) else document
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        unreadable(PROVIDER, "no list of scopes")
    return scopes


def _receipts(rows: Sequence[Any], total: int | None, *, sort_on: str, now: datetime) -> Page:
    orders, bad = read_rows("orders", rows, _name("receipt_id"), lambda row: _order(row, now))
    customers: dict[str, Customer] = {}
    for order, customer in orders.values():
        if customer is None:
            continue
        known = customers.get(customer.external_id)
        if known is None or known.modified_at is None or known.modified_at <= order.placed_at:
            customers[customer.external_id] = customer
    records = Records(
        orders=tuple(order for order, _ in orders.values()),
        customers=tuple(customers.values()),
        unreadable=bad,
    )
    return _page(rows, "receipt_id", SORTED_BY[sort_on], records, total)


def _order(fields: Any, now: datetime) -> tuple[Order, Customer | None]:  # noqa: ANN401 - JSON
    row = EtsyReceipt.model_validate(fields)
    status = row.status.lower()
    taxes = [row.part_of_total(name) for name in ("total_tax_cost", "total_vat_cost")]
    amounts = [tax for tax in taxes if tax is not None]
    open_for = SHIPPED_OPEN if row.is_shipped else UNSHIPPED_OPEN
    order = Order(
        external_id=row.receipt_id,
        number=row.receipt_id,
        status=status,
        is_open=status not in CLOSED and now - row.placed_at < open_for,
        payment_status="paid" if row.is_paid else "unpaid",
        fulfillment_status="shipped" if row.is_shipped else "unshipped",
        currency=row.grandtotal.currency_code,
        total=row.grandtotal.exact,
        subtotal=row.part_of_total("subtotal"),
        shipping=row.part_of_total("total_shipping_cost"),
        tax=sum(amounts, Decimal(0)) if amounts else None,
        discount=row.part_of_total("discount_amt"),
        customer_id=row.buyer_user_id,
        placed_at=row.placed_at,
        modified_at=row.updated_at,
        line_items=_last_of_each(map(_line_item, row.transactions or ())),
        shipments=_last_of_each(
            _shipment(shipment, place) for place, shipment in enumerate(row.shipments or (), 1)
        ),
        refunds=_refunds(row.refunds or ()),
    )
    return order, _customer(row)


def _customer(row: EtsyReceipt) -> Customer | None:
    if row.buyer_user_id is None:
        return None
    return Customer(
        external_id=row.buyer_user_id,
        name=row.name,
        email=row.buyer_email,
        country=row.country_iso,
        modified_at=row.placed_at,
    )


def _line_item(row: EtsyTransaction) -> LineItem:
    return LineItem(
        external_id=row.transaction_id,
        quantity=row.quantity,
        price=row.price.exact,
        currency=row.price.currency_code,
        sku=row.sku,
        title=row.title,
        listing_id=row.listing_id,
    )


def _shipment(row: EtsyShipment, place: int) -> Shipment:
    """Return a shipment; one that has no id yet is named by its place."""
    return Shipment(
        external_id=row.receipt_shipping_id or f"n{place}",
        status="shipped",
        carrier=row.carrier_name,
        tracking=row.tracking_code,
        shipped_at=row.shipment_notification_timestamp,
    )


def _refunds(rows: Sequence[EtsyRefund]) -> tuple[Refund, ...]:
    places: Counter[datetime] = Counter()
    refunds = []
    for row in rows:
        refunded_at = row.created_timestamp
        places[refunded_at] += 1
        second, place = int(refunded_at.timestamp()), places[refunded_at]
        refunds.append(
            Refund(
                external_id=str(second) if place == 1 else f"{second}-{place}",
                amount=row.amount.exact,
                currency=row.amount.currency_code,
                status=row.status,
                reason=row.reason,
                refunded_at=refunded_at,
            )
        )
    return tuple(refunds)


def _listing(fields: Any) -> ShopListing:  # noqa: ANN401 - JSON
    row = EtsyListing.model_validate(fields)
    return ShopListing(
        external_id=row.listing_id,
        state=row.state,
        sku=row.sku,
        title=row.title,
        price=row.price.exact if row.price else None,
        currency=row.price.currency_code if row.price else "",
        quantity=row.quantity,
        modified_at=row.updated_at,
    )


def _payment(fields: Any) -> tuple[Payment, str | None]:  # noqa: ANN401 - JSON
    """Read an entry of the ledger, and the payment that must be asked for to know its order."""
    row = EtsyLedgerEntry.model_validate(fields)
    kind = row.ledger_type or row.description or "entry"
    payment = Payment(
        external_id=row.entry_id,
        kind=kind,
        amount=Decimal(row.amount).scaleb(-EXPONENTS.get(row.currency, 2)),
        currency=row.currency,
        paid_at=row.entered_at,
        order_id=row.named("receipt"),
        line_item_id=row.named("transaction"),
        reference_type=row.reference_type,
        reference_id=row.reference_id or None,
        is_transfer=kind.upper().startswith(TRANSFER) or row.reference_type == "disbursement",
    )
    return payment, row.payment_id


def _object(body: bytes) -> dict[str, Any]:
    document = load(body, PROVIDER)
    if not isinstance(document, dict):
        unreadable(PROVIDER, f"no JSON object: {excerpt(body)}")
    return document


def _list(body: bytes) -> tuple[list[Any], int | None]:
    document = _object(body)
    rows, total = document.get("results"), document.get("count")
    if not isinstance(rows, list):
        unreadable(PROVIDER, f"no results: {excerpt(body)}")
    return rows, total if type(total) is int and total >= 0 else None


def _page(
    rows: Sequence[Any], id_name: str, stamp: AliasChoices, records: Records, total: int | None
) -> Page:
    """Return the page of these rows; a row without a stamp takes that of its neighbor."""
    values = [_find_stamp(row, stamp) for row in rows]
    last = next((value for value in values if value is not None), None)
    filled = [last := value or last for value in values]
    return Page(
        records=records,
        ids=tuple(map(_name(id_name), rows)),
        stamps=tuple(value for value in filled if value is not None),
        total=total,
    )


def _find_stamp(row: Any, stamp: AliasChoices) -> datetime | None:  # noqa: ANN401 - JSON
    names = [str(name) for name in stamp.choices if isinstance(row, dict) and name in row]
    return find_field(row, names[0], SECOND) if names else None


def _name(id_name: str) -> Callable[[Any], str]:
    """Return how a row is named: by its id, or by a digest if that is unusable."""
    return lambda row: find_field(row, id_name, NUMBER_ID) or digest(row)


def _last_of_each(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts of an order, the last of two with the same id."""
    return tuple({part.external_id: part for part in parts}.values())
