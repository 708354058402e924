"""A simulated Printify shop: its products and orders, their events, and the expected rows.

The expected rows are in the warehouse's tables and columns, written from these records alone.
Printify gives no ids to buyers, lines and packages; they are named as the warehouse is documented
to.
"""

import hashlib
import json
from bisect import insort
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from headway.clock import Rng
from headway_lab.simulators.printify.records import (
    PrintBuyer,
    PrintLine,
    PrintOrder,
    PrintProduct,
    PrintShipment,
    PrintVariant,
)

Truth = dict[str, dict[Any, dict[str, Any]]]
FIRST, LAST = ("Ada", "Ben", "Cleo", "Dan", "Eve"), ("Ash", "Birch", "Cedar", "Dogwood", "Elm")
GARMENTS = ("Tee", "Mug", "Poster", "Hoodie", "Tote")
SIZES = ("S", "M", "L")
CARRIERS = ("USPS", "DHL", "UPS")
PATH = ("pending", "sending-to-production", "in-production", "partially-fulfilled", "fulfilled")
CANCELABLE = frozenset({"pending", "on-hold", "payment-not-received"})


class SimulatedPrintifyShop:
    """One shop; every change happens at the given time."""

    def __init__(self, shop_id: int, title: str, generator: Rng) -> None:
        self.id = shop_id
        self.title = title
        self._generator = generator
        self._orders: list[PrintOrder] = []
        self._products: list[PrintProduct] = []
        self._orders_by_id: dict[str, PrintOrder] = {}
        # The JSON of each record until it changes: most of a call's time would go into this.
        self._texts: dict[str, str] = {}
        # Lists that are served empty, whatever is in them.
        self.empty_lists: set[str] = set()

    def order_text(self, order_id: str) -> str | None:
        """Return an order of this shop, in JSON."""
        order = self._orders_by_id.get(order_id)
        return None if order is None else self._text(order)

    def page_texts(self, kind: str, page: int, limit: int) -> tuple[list[str], int]:
        """Return the rows of a page in JSON, the newest first, and how long the list is."""
        rows = [] if kind in self.empty_lists else self._rows(kind)
        end = max(0, len(rows) - (page - 1) * limit)
        chosen = rows[max(0, end - limit) : end]
        return [self._text(row) for row in reversed(chosen)], len(rows)

    def add_product(self, at: datetime, **fields: Any) -> str:  # noqa: ANN401 - any part of a product
        """Add a product, with defaults for missing fields; return its id."""
        product_id = self._fresh_id()
        title = f"{self._generator.choice(GARMENTS)} {len(self._products) + 1}"
        made = PrintProduct(
            **{
                "id": product_id,
                "shop_id": self.id,
                "title": title,
                "variants": self._make_variants(product_id),
                "created_at": at,
                "updated_at": at,
                **fields,
            }
        )
        self._products.append(made)
        return made.id

    def edit_product(self, product_id: str, at: datetime, **changes: Any) -> None:  # noqa: ANN401
        """Change parts of a product; without any, one variant's price."""
        product = self._product(product_id)
        if not changes:
            first, *others = product.variants
            changes = {"variants": (replace(first, price=first.price + 100), *others)}
        for name, value in changes.items():
            setattr(product, name, value)
        product.updated_at = at

    def remove_product(self, product_id: str) -> None:
        """Take a product away; orders keep what was sold."""
        self._products.remove(self._product(product_id))

    def place_order(self, at: datetime, **fields: Any) -> str:  # noqa: ANN401 - any part of an order
        """Place an order, with defaults for missing fields; return its id."""
        generator = self._generator
        order = PrintOrder(
            **{
                "id": self._fresh_id(),
                "shop_id": self.id,
                "number": 1000 + len(self._orders),
                "created_at": at,
                "status": PATH[0],
                "buyer": self._make_buyer(),
                "lines": self._make_lines(at),
                "shipping": generator.randrange(300, 900),
                "tax": generator.randrange(0, 200),
                **fields,
            }
        )
        # An order from the past takes its place in the past; of one second, the later is newer.
        insort(self._orders, order, key=lambda order: order.created_at)
        self._orders_by_id[order.id] = order
        return order.id

    def advance(self, order_id: str, at: datetime) -> str:
        """Move an order one step forward; return its status. At the end a package is shipped."""
        order = self._order(order_id)
        if order.status not in PATH[:-1]:
            return order.status
        order.status = PATH[PATH.index(order.status) + 1]
        if order.status == "partially-fulfilled" and len(order.lines) == 1:
            order.status = PATH[-1]
        if order.status == "in-production":
            order.sent_to_production_at = at
        if order.status in PATH[-2:]:
            order.shipments.append(self._make_shipment())
        if order.status == PATH[-1]:
            order.fulfilled_at = at
        return order.status

    def cancel(self, order_id: str) -> bool:
        """Cancel an order, if it is not yet being made."""
        order = self._order(order_id)
        if order.status not in CANCELABLE:
            return False
        order.status = "canceled"
        return True

    def deliver(self, order_id: str, at: datetime) -> bool:
        """Deliver the packages that are on their way; return True if there were any."""
        shipments = [
            shipment for shipment in self._order(order_id).shipments if not shipment.delivered_at
        ]
        for shipment in shipments:
            shipment.delivered_at = at
        return bool(shipments)

    def open_orders(self) -> list[str]:
        """Return the orders to which something may still happen."""
        return [
            order.id
            for order in self._orders
            if order.status in PATH[:-1]
            or any(not shipment.delivered_at for shipment in order.shipments)
        ]

    def products(self) -> list[str]:
        """Return the products, oldest first."""
        return [product.id for product in self._products]

    def truth(self) -> Truth:
        """Return what the warehouse should hold, by table and key; listings that are there."""
        truth: Truth = {
            name: {} for name in ("orders", "line_items", "shipments", "listings", "customers")
        }
        for order in self._orders:
            truth["orders"][order.id] = _order_truth(order)
            truth["line_items"] |= _line_truth(order)
            truth["shipments"] |= _shipment_truth(order)
            truth["customers"][_buyer_id(order.buyer)] = _buyer_truth(order)
        for product in self._products:
            truth["listings"] |= _listing_truth(product)
        return truth

    def _rows(self, kind: str) -> Sequence[PrintOrder | PrintProduct]:
        return self._orders if kind == "orders" else self._products

    def _text(self, row: PrintOrder | PrintProduct) -> str:
        if row.id not in self._texts:
            self._texts[row.id] = json.dumps(row.shown(), separators=(",", ":"))
        return self._texts[row.id]

    def _order(self, order_id: str) -> PrintOrder:
        """Return an order that is about to change."""
        self._texts.pop(order_id, None)
        return self._orders_by_id[order_id]

    def _product(self, product_id: str) -> PrintProduct:
        """Return a product that is about to change."""
        self._texts.pop(product_id, None)
        return next(product for product in self._products if product.id == product_id)

    def _fresh_id(self) -> str:
        return f"{self._generator.getrandbits(96):024x}"

    def _make_variants(self, product_id: str) -> tuple[PrintVariant, ...]:
        price = self._generator.randrange(1200, 4000)
        return tuple(
            PrintVariant(
                id=17000 + place,
                sku=f"{product_id[:6]}-{size}",
                title=size,
                price=price + 100 * place,
                cost=price // 2,
                is_enabled=place == 0 or self._generator.random() < 0.8,  # noqa: PLR2004 - most are
                is_available=place != 1 or price % 3 != 0,
            )
            for place, size in enumerate(SIZES)
        )

    def _make_buyer(self) -> PrintBuyer:
        number = self._generator.randrange(200)
        first, last = FIRST[number % len(FIRST)], LAST[number // len(FIRST) % len(LAST)]
        has_email = number % 10 != 0
        return PrintBuyer(
            first_name=first,
            last_name=last,
            email=f"{first}.{last}.{number}@example.com" if has_email else "",
            street=f"{number} Main Street",
        )

    def _make_lines(self, at: datetime) -> tuple[PrintLine, ...]:
        if not self._products:
            self.add_product(at)
        chosen = [
            self._generator.choice(self._products) for _ in range(self._generator.choice((1, 1, 2)))
        ]
        return tuple(
            PrintLine(
                product_id=product.id,
                product_title=product.title,
                variant=self._generator.choice(product.variants),
                quantity=self._generator.choice((1, 1, 2)),
            )
            for product in chosen
        )

    def _make_shipment(self) -> PrintShipment:
        number = f"{self._generator.randrange(10**12):012}"
        return PrintShipment(carrier=self._generator.choice(CARRIERS), number=number)


def _dollars(cents: int) -> Decimal:
    return Decimal(cents) / 100


def _order_truth(order: PrintOrder) -> dict[str, Any]:
    return {
        "external_id": order.id,
        "number": f"#{order.number}",
        "status": order.status,
        "payment_status": "",
        "fulfillment_status": "",
        "currency": "USD",
        "total": _dollars(order.price),
        "subtotal": None,
        "shipping": _dollars(order.shipping),
        "tax": _dollars(order.tax),
        "discount": None,
        "customer_id": _buyer_id(order.buyer),
        "placed_at": order.created_at,
        "modified_at": None,
        "cancelled_at": None,
    }


def _line_truth(order: PrintOrder) -> dict[Any, dict[str, Any]]:
    rows: dict[Any, dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for line in order.lines:
        listing = f"{line.product_id}:{line.variant.id}"
        counts[listing] = counts.get(listing, 0) + 1
        name = listing if counts[listing] == 1 else f"{listing}:{counts[listing]}"
        rows[order.id, name] = {
            "order_id": order.id,
            "external_id": name,
            "listing_id": listing,
            "sku": line.variant.sku,
            "title": line.product_title,
            "quantity": line.quantity,
            "price": _dollars(line.variant.price),
            "currency": "USD",
        }
    return rows


def _shipment_truth(order: PrintOrder) -> dict[Any, dict[str, Any]]:
    return {
        (order.id, f"{shipment.carrier}:{shipment.number}"): {
            "order_id": order.id,
            "external_id": f"{shipment.carrier}:{shipment.number}",
            "status": "delivered" if shipment.delivered_at else "shipped",
            "carrier": shipment.carrier,
            "tracking": shipment.number,
            "shipped_at": None,
            "delivered_at": shipment.delivered_at,
        }
        for shipment in order.shipments
    }


def _buyer_id(buyer: PrintBuyer) -> str:
    """Name a buyer by a digest of the email, or of name and address."""
    name = f"{buyer.first_name} {buyer.last_name}"
    address = (name, buyer.country, buyer.postcode, buyer.city, buyer.street)
    known_by = buyer.email or "\n".join(address)
    digest = hashlib.sha256(known_by.casefold().encode()).hexdigest()[:32]
    return f"email:{digest}" if buyer.email else f"address:{digest}"


def _buyer_truth(order: PrintOrder) -> dict[str, Any]:
    buyer = order.buyer
    return {
        "external_id": _buyer_id(buyer),
        "name": f"{buyer.first_name} {buyer.last_name}",
        "email": buyer.email,
        "country": buyer.country,
    }


def _listing_truth(product: PrintProduct) -> dict[Any, dict[str, Any]]:
    state = "locked" if product.is_locked else "hidden"
    return {
        f"{product.id}:{variant.id}": {
            "external_id": f"{product.id}:{variant.id}",
            "sku": variant.sku,
            "title": f"{product.title} - {variant.title}",
            "state": (
                ("visible" if product.visible else state) if variant.is_available else "unavailable"
            ),
            "price": _dollars(variant.price),
            "currency": "USD",
            "quantity": None,
            "modified_at": product.updated_at,
        }
        for variant in product.variants
        if variant.is_enabled
    }
