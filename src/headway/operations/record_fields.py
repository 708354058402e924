"""The fields of records as programs read them: schema 1, to which fields may be added.

No field is renamed, removed or given another meaning within a schema.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHead:
    """What every record has. A deleted one has nothing else: its other fields are null."""

    id: str
    """The platform's id of the record. Example: `5512345678`"""
    account_id: str
    """The account that it was pulled from. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    seller: SellerId
    platform: PlatformName
    changed_at: datetime
    """When Headway saw the change."""
    is_deleted: bool
    """True if the record is gone; delete it from your copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRecord(RecordHead):
    """An order."""

    number: str | None
    """The order number as the buyer sees it. Example: `#1001`"""
    status: str | None
    """The order's status, in the platform's words. Example: `open`"""
    payment_status: str | None
    """Whether it is paid, in the platform's words. Example: `paid`"""
    fulfillment_status: str | None
    """Whether it is shipped, in the platform's words. Example: `fulfilled`"""
    is_open: bool | None
    """True if the order may still change."""
    currency: str | None
    """The currency of the amounts, as an ISO 4217 code. Example: `USD`"""
    total: Decimal | None
    """The amount as ordered; null if the platform did not report it. Example: `129.90`"""
    current_total: Decimal | None
    """The amount after edits and returns, where the platform reports it. Example: `129.90`"""
    subtotal: Decimal | None
    """The amount of the lines. Example: `129.90`"""
    shipping: Decimal | None
    """What the buyer pays for shipping. Example: `129.90`"""
    tax: Decimal | None
    """Taxes. Example: `129.90`"""
    discount: Decimal | None
    """What was taken off. Example: `129.90`"""
    customer_id: str | None
    """The buyer, a record of `customers`. Example: `7012345678`"""
    placed_at: datetime | None
    """When it was placed."""
    modified_at: datetime | None
    """When it last changed, according to the platform."""
    cancelled_at: datetime | None
    """When it was cancelled; null if it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineItemRecord(RecordHead):
    """A line of an order."""

    order_id: str | None
    """The order that it is a part of. Example: `5512345678`"""
    listing_id: str | None
    """What was bought, a record of `listings`. Example: `3312345678`"""
    sku: str | None
    """The seller's own number; the first, if the platform shows several. Example: `HS-01`"""
    title: str | None
    """What was bought, as the platform shows it. Example: `Hangar sign`"""
    quantity: int | None
    """Pieces as ordered."""
    current_quantity: int | None
    """Pieces after edits and returns, where the platform reports it."""
    price: Decimal | None
    """The price of one piece; null if the platform did not report it. Example: `129.90`"""
    currency: str | None
    """The currency of the amounts, as an ISO 4217 code. Example: `USD`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRecord(RecordHead):
    """What a seller offers on a platform."""

    sku: str | None
    """The seller's own number; the first, if the platform shows several. Example: `HS-01`"""
    title: str | None
    """The listing's title. Example: `Hangar sign`"""
    state: str | None
    """The platform's word, or `removed` if it is gone. Example: `active`"""
    price: Decimal | None
    """The asking price; null if the platform did not report it. Example: `129.90`"""
    currency: str | None
    """The currency of the amounts, as an ISO 4217 code. Example: `USD`"""
    quantity: int | None
    """Pieces in stock; null if the platform did not report it."""
    modified_at: datetime | None
    """When it last changed, according to the platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerRecord(RecordHead):
    """A buyer."""

    name: str | None
    """The buyer's name; empty once it was erased. Example: `Ada Byron`"""
    email: str | None
    """The buyer's mail address; empty once it was erased. Example: `ada@example.com`"""
    country: str | None
    """The buyer's country, as an ISO 3166 code. Example: `US`"""
    modified_at: datetime | None
    """When it last changed, according to the platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentRecord(RecordHead):
    """An entry of a platform's ledger."""

    order_id: str | None
    """The order that it is about, if that is known. Example: `5512345678`"""
    line_item_id: str | None
    """The line of an order that it is about. Example: `9912345678`"""
    kind: str | None
    """What it is, in the platform's words. Example: `transaction`"""
    status: str | None
    """Its status, in the platform's words. Example: `settled`"""
    reference_type: str | None
    """What it refers to, in the platform's words. Example: `shop_payment`"""
    reference_id: str | None
    """The id of that. Example: `4412345678`"""
    is_transfer: bool | None
    """True for a payout to the bank: leave it out of sums of income and fees."""
    amount: Decimal | None
    """Positive if the seller receives it, negative if it is taken. Example: `129.90`"""
    currency: str | None
    """The currency of the amounts, as an ISO 4217 code. Example: `USD`"""
    paid_at: datetime | None
    """When it was paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentRecord(RecordHead):
    """A shipment of an order."""

    order_id: str | None
    """The order that it is a part of. Example: `5512345678`"""
    status: str | None
    """Its status, in the platform's words. Example: `shipped`"""
    carrier: str | None
    """Who carries it. Example: `USPS`"""
    tracking: str | None
    """The tracking number. Example: `9400111899223100000000`"""
    shipped_at: datetime | None
    """When it was shipped."""
    delivered_at: datetime | None
    """When it was delivered; null if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundRecord(RecordHead):
    """A refund of an order."""

    order_id: str | None
    """The order that it is a part of. Example: `5512345678`"""
    status: str | None
    """Its status, in the platform's words. Example: `completed`"""
    amount: Decimal | None
    """What the buyer gets back. Example: `129.90`"""
    currency: str | None
    """The currency of the amounts, as an ISO 4217 code. Example: `USD`"""
    reason: str | None
    """Why, as the platform tells it. Example: `damaged`"""
    refunded_at: datetime | None
    """When it was refunded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPage:
    """Changed orders, the longest ago first, and where to go on."""

    schema_version: int
    """The version of these fields. Example: `1`"""
    items: tuple[OrderRecord, ...]
    next_cursor: str
    """Keep it with your copy: the next page, now or later, begins behind it."""
    has_more: bool
    """True if there is more by now; else ask again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineItemPage:
    """Changed lines of orders, the longest ago first, and where to go on."""

    schema_version: int
    """The version of these fields. Example: `1`"""
    items: tuple[LineItemRecord, ...]
    next_cursor: str
    """Keep it with your copy: the next page, now or later, begins behind it."""
    has_more: bool
    """True if there is more by now; else ask again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPage:
    """Changed listings, the longest ago first, and where to go on."""

    schema_version: int
    """The version of these fields. Example: `1`"""
    items: tuple[ListingRecord, ...]
    next_cursor: str
    """Keep it with your copy: the next page, now or later, begins behind it."""
    has_more: bool
    """True if there is more by now; else ask again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerPage:
    """Changed buyers, the longest ago first, and where to go on."""

    schema_version: int
    """The version of these fields. Example: `1`"""
    items: tuple[CustomerRecord, ...]
    next_cursor: str
    """Keep it with your copy: the next page, now or later, begins behind it."""
    has_more: bool
    """True if there is more by now; else ask again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentPage:
    """Changed entries of the platforms' ledgers, the longest ago first, and where to go on."""

    schema_version: int
    """The version of these fields. Example: `1`"""
    items: tuple[PaymentRecord, ...]
    next_cursor: str
    """Keep it with your copy: the next page, now or later, begins behind it."""
    has_more: bool
    """True if there is more by now; else ask again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentPage:
    """Changed shipments, the longest ago first, and where to go on."""

    schema_version: int
    """The version of these fields. Example: `1`"""
    items: tuple[ShipmentRecord, ...]
    next_cursor: str
    """Keep it with your copy: the next page, now or later, begins behind it."""
    has_more: bool
    """True if there is more by now; else ask again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundPage:
    """Changed refunds, the longest ago first, and where to go on."""

    schema_version: int
    """The version of these fields. Example: `1`"""
    items: tuple[RefundRecord, ...]
    next_cursor: str
    """Keep it with your copy: the next page, now or later, begins behind it."""
    has_more: bool
    """True if there is more by now; else ask again later."""
