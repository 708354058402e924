"""What a platform holds of a seller's business, in one shape for all platforms.

Orders and what belongs to them, listings, customers, payments. Ids are the platform's own; money is
exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LineItem:
    """One position of an order; `current_quantity` is what edits and returns left, if known."""

    external_id: str
    quantity: int
    price: Decimal | None
    currency: str
    current_quantity: int | None = None
    sku: str = ""
    title: str = ""
    listing_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """A shipment, or fulfillment, of an order."""

    external_id: str
    status: str = ""
    carrier: str = ""
    tracking: str = ""
    shipped_at: datetime | None = None
    delivered_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund:
    """Money given back on an order."""

    external_id: str
    amount: Decimal
    currency: str
    status: str = ""
    reason: str = ""
    refunded_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The complete current state of an order: line items not in it are removed.

    `is_open` while the platform may still change it without notifying us. `total` is as ordered;
    `current_total` is what edits and returns left of it, if the platform reports that. An amount
    that the platform does not report is None.
    """

    external_id: str
    status: str
    is_open: bool
    currency: str
    total: Decimal | None
    placed_at: datetime
    number: str = ""
    payment_status: str = ""
    fulfillment_status: str = ""
    current_total: Decimal | None = None
    subtotal: Decimal | None = None
    shipping: Decimal | None = None
    tax: Decimal | None = None
    discount: Decimal | None = None
    customer_id: str | None = None
    modified_at: datetime | None = None
    cancelled_at: datetime | None = None
    line_items: tuple[LineItem, ...] = ()
    shipments: tuple[Shipment, ...] = ()
    refunds: tuple[Refund, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopListing:
    """What is on offer in a seller's shop (table `listings`)."""

    external_id: str
    state: str
    sku: str = ""
    title: str = ""
    price: Decimal | None = None
    currency: str = ""
    quantity: int | None = None
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    """A buyer."""

    external_id: str
    name: str = ""
    email: str = ""
    country: str = ""
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A movement of money; what the seller gets is positive, what is taken is negative.

    `reference_type` and `reference_id` are what it is about, in the platform's words. One that is
    about a line of an order has its `line_item_id`; the order is found by it. A transfer to or from
    the seller's bank (a payout) is no income: sums of payments leave it out.
    """

    external_id: str
    kind: str
    amount: Decimal
    currency: str
    paid_at: datetime
    status: str = ""
    order_id: str | None = None
    line_item_id: str | None = None
    reference_type: str = ""
    reference_id: str | None = None
    is_transfer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentOrder:
    """The order of a payment that was read before, as it turned out later."""

    external_id: str
    order_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A row that made no sense, in the platform's own words."""

    kind: str
    external_id: str
    reason: str
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What one page brought, by kind; an order's customer may come with it."""

    orders: tuple[Order, ...] = ()
    listings: tuple[ShopListing, ...] = ()
    customers: tuple[Customer, ...] = ()
    payments: tuple[Payment, ...] = ()
    payment_orders: tuple[PaymentOrder, ...] = ()
    unreadable: tuple[Unreadable, ...] = field(default=())
