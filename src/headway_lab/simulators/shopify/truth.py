"""The expected rows of a simulated shop in our tables' columns.

Written from the shop's own records, independent of the API.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from headway_lab.simulators.shopify.order_replies import Trade
from headway_lab.simulators.shopify.orders import Move, SoldOrder
from headway_lab.simulators.shopify.shop import number

Row = dict[str, Any]
Truth = dict[str, dict[Any, Row]]
METRICS = {"SALE": 1, "CAPTURE": 1, "REFUND": -1}


def truth(trade: Trade, *, since: datetime | None = None) -> Truth:
    """Return table to key to row: orders made since then, all listings and customers.

    What belongs to an order is keyed by the order's id and its own.
    """
    tables: Truth = {name: {} for name in ("orders", "line_items", "shipments", "refunds")}
    tables |= {"payments": {}, "listings": _listings(trade), "customers": _customers(trade)}
    currency = trade.shop.setup.currency
    for order in trade.orders.rows.values():
        if since is not None and order.at < since:
            continue
        own = str(order.number)
        tables["orders"][own] = _order(order, currency)
        for table, rows in _parts(order, currency).items():
            tables[table] |= {(own, key): row for key, row in rows.items()}
        for move in order.moves:
            tables["payments"][str(move.number)] = _payment(order, move, currency)
    return tables


def _order(order: SoldOrder, currency: str) -> Row:
    status = "closed" if order.closed_at else "open"
    return {
        "number": order.name,
        "status": "cancelled" if order.cancelled_at else status,
        "payment_status": order.financial.lower(),
        "fulfillment_status": order.fulfillment.lower(),
        "is_open": False,
        "currency": currency,
        "total": order.total,
        "current_total": order.current_total,
        "subtotal": order.subtotal,
        "shipping": order.shipping,
        "tax": order.tax,
        "discount": order.discount,
        "customer_id": None if order.customer is None else str(order.customer),
        "placed_at": order.at,
        "modified_at": order.updated_at,
        "cancelled_at": order.cancelled_at,
    }


def _parts(order: SoldOrder, currency: str) -> Mapping[str, dict[str, Row]]:
    lines = {
        str(line.number): {
            "listing_id": line.variant,
            "sku": line.sku,
            "title": line.title,
            "quantity": line.quantity,
            "current_quantity": line.current,
            "price": line.price,
            "currency": currency,
        }
        for line in order.lines
    }
    shipments = {
        str(shipment.number): {
            "status": shipment.status.lower(),
            "carrier": shipment.company,
            "tracking": ", ".join(shipment.trackings),
            "shipped_at": shipment.at,
            "delivered_at": shipment.delivered_at,
        }
        for shipment in order.shipments
    }
    refunds = {
        str(refund.number): {
            "status": "",
            "amount": refund.amount,
            "currency": currency,
            "reason": refund.note,
            "refunded_at": refund.at,
        }
        for refund in order.refunds
    }
    return {"line_items": lines, "shipments": shipments, "refunds": refunds}


def _payment(order: SoldOrder, move: Move, currency: str) -> Row:
    sign = METRICS.get(move.kind, 0) if move.status == "SUCCESS" else 0
    return {
        "order_id": str(order.number),
        "kind": move.kind.lower(),
        "status": move.status.lower(),
        "amount": move.amount * sign if sign else Decimal(0),
        "currency": currency,
        "paid_at": move.at,
        "line_item_id": None,
        "reference_type": "",
        "reference_id": None,
        "is_transfer": False,
    }


def _listings(trade: Trade) -> dict[Any, Row]:
    shop = trade.shop
    listings = {}
    for variant in shop.variants.values():
        product = shop.products[variant.product]
        option = " / ".join(value for _, value in variant.options)
        is_plain = option == "Default Title"
        listings[str(number(variant.id))] = {
            "sku": variant.sku,
            "title": product.title if is_plain else f"{product.title} - {option}",
            "state": product.status.lower(),
            "price": variant.price,
            "currency": shop.setup.currency,
            "quantity": sum(
                level.quantity for level in shop.levels(variant.item) if level.is_active
            ),
            "modified_at": shop.changed_at(product.id),
        }
    return listings


def _customers(trade: Trade) -> dict[Any, Row]:
    return {
        str(row.number): {
            "name": row.name,
            "email": row.email,
            "country": row.country,
            "modified_at": row.updated_at,
        }
        for row in trade.customers.rows.values()
    }
