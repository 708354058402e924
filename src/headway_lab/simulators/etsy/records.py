"""The records of a simulated Etsy shop: receipts, listings and ledger entries, with their money.

Amounts are whole minor units of the shop's currency. A record has its own JSON, made once for every
change, with every field that Etsy's documents name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

Json = dict[str, Any]
# Money of these currencies has no cents.
WHOLE = frozenset({"JPY", "KRW"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EtsyBuyer:
    """A buyer; the same in every shop."""

    id: int
    name: str
    email: str | None
    country: str


@dataclass(slots=True, kw_only=True)
class EtsyListing:
    """Something on offer."""

    id: int
    title: str
    sku: str
    price: int
    quantity: int
    state: str
    created_s: int
    updated_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One position of a receipt (Etsy: transaction)."""

    id: int
    listing_id: int
    title: str
    sku: str
    quantity: int
    price: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EtsyShipment:
    """A shipment."""

    id: int
    carrier: str
    tracking: str
    sent_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repayment:
    """A refund; Etsy gives it no id, so second and place among those of that second identify it."""

    amount: int
    at_s: int
    reason: str


@dataclass(slots=True, kw_only=True)
class Receipt:
    """An order."""

    id: int
    buyer: EtsyBuyer
    positions: tuple[Position, ...]
    shipping: int
    tax: int
    vat: int
    discount: int
    created_s: int
    updated_s: int
    is_paid: bool = True
    is_canceled: bool = False
    is_delivered: bool = False
    shipments: list[EtsyShipment] = field(default_factory=list)
    repayments: list[Repayment] = field(default_factory=list)

    @property
    def price(self) -> int:
        """What the goods cost."""
        return sum(position.price * position.quantity for position in self.positions)

    @property
    def total(self) -> int:
        """What the buyer pays."""
        return self.price - self.discount + self.shipping + self.tax + self.vat

    @property
    def status(self) -> str:
        """Etsy's word for where it stands."""
        repaid = sum(repayment.amount for repayment in self.repayments)
        if self.is_canceled:
            return "canceled"
        if repaid:
            return "fully refunded" if repaid >= self.total else "partially refunded"
        if self.shipments:
            return "completed"
        return "paid" if self.is_paid else "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A movement of money in the ledger."""

    id: int
    kind: str
    amount: int
    balance: int
    at_s: int
    receipt_id: int | None
    # What the entry names: a payment, one of its adjustments, a transaction, a listing, ...
    reference: tuple[str, int]
    payment_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of these records."""

    shop_id: int
    user_id: int
    name: str
    currency: str

    def money(self, amount: int) -> Json:
        """Return Etsy's way to write an amount."""
        divisor = 1 if self.currency in WHOLE else 100
        return {"amount": amount, "divisor": divisor, "currency_code": self.currency}

    def exact(self, amount: int) -> Decimal:
        """Return an amount as a number of whole units."""
        return Decimal(amount).scaleb(0 if self.currency in WHOLE else -2)


def instant(second: int) -> datetime:
    """Return that second in UTC."""
    return datetime.fromtimestamp(second, tz=UTC)


def pack(record: Mapping[str, Any]) -> bytes:
    """Write a record as JSON."""
    return json.dumps(record, separators=(",", ":")).encode()


def shown(text: str) -> str:
    """Return a text as Etsy's replies show it: with HTML entities."""
    entities = {"&": "&amp;", "'": "&#39;", '"': "&quot;"}
    return "".join(entities.get(char, char) for char in text)


def receipt_json(receipt: Receipt, owner: Owner) -> Json:
    """Return a receipt as Etsy shows it."""
    buyer, money = receipt.buyer, owner.money
    stamps = {
        "create_timestamp": receipt.created_s,
        "created_timestamp": receipt.created_s,
        "update_timestamp": receipt.updated_s,
        "updated_timestamp": receipt.updated_s,
    }
    sums = {
        "grandtotal": money(receipt.total),
        "subtotal": money(receipt.price - receipt.discount),
        "total_price": money(receipt.price),
        "total_shipping_cost": money(receipt.shipping),
        "total_tax_cost": money(receipt.tax),
        "total_vat_cost": money(receipt.vat),
        "discount_amt": money(receipt.discount),
        "gift_wrap_price": money(0),
    }
    address = {
        "name": buyer.name,
        "first_line": "1 Main Street",
        "second_line": None,
        "city": "Springfield",
        "state": None,
        "zip": "12345",
        "formatted_address": f"{buyer.name}\n1 Main Street\nSpringfield 12345",
        "country_iso": buyer.country,
    }
    messages = {"seller": None, "buyer": "With care, please", "payment": None}
    return {
        "receipt_id": receipt.id,
        "receipt_type": 0,
        "seller_user_id": owner.user_id,
        "seller_email": f"shop{owner.shop_id}@example.com",
        "buyer_user_id": buyer.id,
        "buyer_email": buyer.email,
        **address,
        "status": receipt.status,
        "payment_method": "cc",
        "payment_email": None,
        **{f"message_from_{sender}": text for sender, text in messages.items()},
        "is_paid": receipt.is_paid,
        "is_shipped": bool(receipt.shipments),
        **stamps,
        "is_gift": False,
        "gift_message": "",
        "gift_sender": "",
        **sums,
        "shipments": [_shipment_json(shipment) for shipment in receipt.shipments],
        "transactions": [
            _position_json(position, receipt, owner) for position in receipt.positions
        ],
        "refunds": [_repayment_json(repayment, owner) for repayment in receipt.repayments],
    }


def _shipment_json(shipment: EtsyShipment) -> Json:
    return {
        "receipt_shipping_id": shipment.id,
        "shipment_notification_timestamp": shipment.sent_s,
        "carrier_name": shipment.carrier,
        "tracking_code": shipment.tracking,
    }


def _repayment_json(repayment: Repayment, owner: Owner) -> Json:
    return {
        "amount": owner.money(repayment.amount),
        "created_timestamp": repayment.at_s,
        "reason": repayment.reason or None,
        "note_from_issuer": None,
        "status": "success",
    }


def _position_json(position: Position, receipt: Receipt, owner: Owner) -> Json:
    sent_s = receipt.shipments[0].sent_s if receipt.shipments else None
    size = {"property_id": 100, "value_id": 7, "question_id": None}
    return {
        "transaction_id": position.id,
        "title": shown(position.title),
        "description": f"{shown(position.title)}, made by hand",
        "seller_user_id": owner.user_id,
        "buyer_user_id": receipt.buyer.id,
        "create_timestamp": receipt.created_s,
        "created_timestamp": receipt.created_s,
        "paid_timestamp": receipt.created_s if receipt.is_paid else None,
        "shipped_timestamp": sent_s,
        "quantity": position.quantity,
        "listing_image_id": None,
        "receipt_id": receipt.id,
        "is_digital": False,
        "file_data": "",
        "listing_id": position.listing_id,
        "transaction_type": "listing",
        "product_id": position.listing_id * 10 + 1,
        "sku": position.sku or None,
        "price": owner.money(position.price),
        "shipping_cost": owner.money(0),
        "variations": [{**size, "formatted_name": "Size", "formatted_value": "Large"}],
        "product_data": [],
        "shipping_profile_id": None,
        "min_processing_days": 1,
        "max_processing_days": 3,
        "shipping_method": None,
        "shipping_upgrade": None,
        "expected_ship_date": receipt.created_s + 3 * 86_400,
        "buyer_coupon": 0,
        "shop_coupon": 0,
    }


def listing_json(listing: EtsyListing, owner: Owner) -> Json:
    """Return a listing as Etsy shows it, without its associations."""
    stamps = {
        "creation_timestamp": listing.created_s,
        "created_timestamp": listing.created_s,
        "ending_timestamp": listing.created_s + 120 * 86_400,
        "original_creation_timestamp": listing.created_s,
        "last_modified_timestamp": listing.updated_s,
        "updated_timestamp": listing.updated_s,
        "state_timestamp": listing.updated_s,
    }
    unset = (
        "rich_description shop_section_id shipping_profile_id return_policy_id processing_min"
        " processing_max item_weight item_weight_unit item_length item_width item_height"
        " item_dimensions_unit file_data converted_price taxonomy_id readiness_state_id"
        " suggested_title shipping_profile user shop inventory translations personalization"
        " buyer_price"
    )
    flags = {"non_taxable": False, "is_taxable": True, "is_customizable": False}
    more = {"is_personalizable": False, "is_supply": False, "is_private": False}
    return {
        "listing_id": listing.id,
        "user_id": owner.user_id,
        "shop_id": owner.shop_id,
        "title": shown(listing.title),
        "description": f"{shown(listing.title)}, made by hand",
        "state": listing.state,
        **stamps,
        "quantity": listing.quantity,
        "featured_rank": -1,
        "url": f"https://www.etsy.com/listing/{listing.id}",
        "num_favorers": 0,
        **flags,
        **more,
        "has_variations": False,
        "should_auto_renew": True,
        "listing_type": "physical",
        **{name: [] for name in ("tags", "materials", "style", "images", "videos")},
        "who_made": "i_did",
        "when_made": "made_to_order",
        "language": "en-US",
        "price": owner.money(listing.price),
        "production_partners": [],
        "skus": [listing.sku] if listing.sku else [],
        "views": 0,
        **dict.fromkeys(unset.split()),
    }


def entry_json(entry: Entry, owner: Owner) -> Json:
    """Return an entry of the ledger as Etsy shows it."""
    return {
        "entry_id": entry.id,
        "ledger_id": owner.shop_id,
        "sequence_number": entry.id,
        "amount": entry.amount,
        "currency": owner.currency,
        "description": entry.kind,
        "balance": entry.balance,
        "create_date": entry.at_s,
        "created_timestamp": entry.at_s,
        "ledger_type": entry.kind,
        "reference_type": entry.reference[0],
        "reference_id": str(entry.reference[1]),
        "parent_entry_id": 0,
        "payment_adjustments": _adjustments_json(entry),
    }


def payment_json(receipt: Receipt, owner: Owner) -> Json:
    """Return the payment of a receipt as Etsy shows it."""
    sums = ("amount", "posted", "adjusted")
    return {
        "payment_id": payment_id(receipt),
        "buyer_user_id": receipt.buyer.id,
        "shop_id": owner.shop_id,
        "receipt_id": receipt.id,
        **{
            f"{name}_{part}": owner.money(receipt.total)
            for name in sums
            for part in ("gross", "net")
        },
        **{f"{name}_fees": owner.money(0) for name in sums},
        "currency": owner.currency,
        "shop_currency": owner.currency,
        "buyer_currency": owner.currency,
        "status": "settled",
        **{f"{name}_timestamp": receipt.created_s for name in ("create", "created")},
        **{f"{name}_timestamp": receipt.updated_s for name in ("update", "updated")},
        **dict.fromkeys(("shipping_user_id", "shipped_timestamp")),
        **dict.fromkeys(("shipping_address_id", "billing_address_id"), receipt.buyer.id),
        "payment_adjustments": [],
    }


def payment_id(receipt: Receipt) -> int:
    """Return the id of the payment of a receipt, which is none of the receipt's numbers."""
    return receipt.id + 700_000_000


def _adjustments_json(entry: Entry) -> list[Json]:
    name, number = entry.reference
    if name != "payment_adjustment" or entry.payment_id is None:
        return []
    stamps = {f"{name}_timestamp": entry.at_s for name in ("create", "created")}
    return [
        {
            "payment_adjustment_id": number,
            "payment_id": entry.payment_id,
            "status": "success",
            "is_success": True,
            "user_id": 1,
            "reason_code": "other",
            "total_adjustment_amount": -entry.amount,
            "shop_total_adjustment_amount": -entry.amount,
            "buyer_total_adjustment_amount": -entry.amount,
            "total_fee_adjustment_amount": 0,
            **stamps,
            "update_timestamp": entry.at_s,
            "updated_timestamp": entry.at_s,
            "payment_adjustment_items": [],
        }
    ]
