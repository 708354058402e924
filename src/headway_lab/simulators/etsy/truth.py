"""The rows that a warehouse must hold of a simulated Etsy shop, from the shop's own records.

Rows are in the warehouse's tables and columns, by the keys that they have within an account. What
depends on the time of the pull (`is_open`, `checked_at`) is not here, nor are removed listings.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from headway_lab.simulators.etsy.records import Entry, EtsyListing, Owner, Receipt, instant

Rows = dict[Any, dict[str, Any]]


def tables(
    owner: Owner,
    receipts: Iterable[Receipt],
    listings: Iterable[EtsyListing],
    ledger: Iterable[Entry],
) -> dict[str, Rows]:
    """Return every row, by table and key."""
    orders: Rows = {}
    customers: Rows = {}
    parts: dict[str, Rows] = {"line_items": {}, "shipments": {}, "refunds": {}}
    for receipt in sorted(receipts, key=lambda receipt: (receipt.created_s, receipt.id)):
        orders[str(receipt.id)] = _order(receipt, owner)
        # A buyer who buys again is known by the newest order.
        customers[str(receipt.buyer.id)] = _customer(receipt)
        parts["line_items"] |= _line_items(receipt, owner)
        parts["shipments"] |= _shipments(receipt)
        parts["refunds"] |= _refunds(receipt, owner)
    return {
        "orders": orders,
        **parts,
        "customers": customers,
        "listings": {str(listing.id): _listing(listing, owner) for listing in listings},
        "payments": {str(entry.id): _payment(entry, owner) for entry in ledger},
    }


def _order(receipt: Receipt, owner: Owner) -> dict[str, Any]:
    return {
        "number": str(receipt.id),
        "status": receipt.status,
        "payment_status": "paid" if receipt.is_paid else "unpaid",
        "fulfillment_status": "shipped" if receipt.shipments else "unshipped",
        "currency": owner.currency,
        "total": owner.exact(receipt.total),
        "subtotal": owner.exact(receipt.price - receipt.discount),
        "current_total": None,
        "shipping": owner.exact(receipt.shipping),
        "tax": owner.exact(receipt.tax + receipt.vat),
        "discount": owner.exact(receipt.discount),
        "customer_id": str(receipt.buyer.id),
        "placed_at": instant(receipt.created_s),
        "modified_at": instant(receipt.updated_s),
        "cancelled_at": None,
    }


def _customer(receipt: Receipt) -> dict[str, Any]:
    buyer = receipt.buyer
    return {
        "name": buyer.name,
        "email": buyer.email or "",
        "country": buyer.country,
        "modified_at": instant(receipt.created_s),
    }


def _line_items(receipt: Receipt, owner: Owner) -> Rows:
    return {
        (str(receipt.id), str(position.id)): {
            "listing_id": str(position.listing_id),
            "sku": position.sku,
            "title": position.title,
            "quantity": position.quantity,
            "current_quantity": None,
            "price": owner.exact(position.price),
            "currency": owner.currency,
        }
        for position in receipt.positions
    }


def _shipments(receipt: Receipt) -> Rows:
    return {
        (str(receipt.id), str(shipment.id)): {
            "status": "shipped",
            "carrier": shipment.carrier,
            "tracking": shipment.tracking,
            "shipped_at": instant(shipment.sent_s),
            "delivered_at": None,
        }
        for shipment in receipt.shipments
    }


def _refunds(receipt: Receipt, owner: Owner) -> Rows:
    rows: Rows = {}
    places: Counter[int] = Counter()
    for repayment in receipt.repayments:
        places[repayment.at_s] += 1
        place = places[repayment.at_s]
        name = str(repayment.at_s) if place == 1 else f"{repayment.at_s}-{place}"
        rows[(str(receipt.id), name)] = {
            "status": "success",
            "amount": owner.exact(repayment.amount),
            "currency": owner.currency,
            "reason": repayment.reason,
            "refunded_at": instant(repayment.at_s),
        }
    return rows


def _listing(listing: EtsyListing, owner: Owner) -> dict[str, Any]:
    return {
        "sku": listing.sku,
        "title": listing.title,
        "state": listing.state,
        "price": owner.exact(listing.price),
        "currency": owner.currency,
        "quantity": listing.quantity,
        "modified_at": instant(listing.updated_s),
    }


def _payment(entry: Entry, owner: Owner) -> dict[str, Any]:
    return {
        "order_id": str(entry.receipt_id) if entry.receipt_id else None,
        "kind": entry.kind,
        "status": "",
        "amount": owner.exact(entry.amount),
        "currency": owner.currency,
        "paid_at": instant(entry.at_s),
        "reference_type": entry.reference[0],
        "reference_id": str(entry.reference[1]),
        "is_transfer": entry.kind.startswith("DISBURSE"),
    }
