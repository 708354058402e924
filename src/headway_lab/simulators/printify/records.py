"""The records of a simulated Printify shop, and how its replies show them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

TRACKING = "https://track.test/{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintBuyer:
    """The recipient of a package; some leave no email."""

    first_name: str
    last_name: str
    email: str = ""
    country: str = "US"
    city: str = "Springfield"
    postcode: str = "01101"
    street: str = "1 Main Street"

    def shown(self) -> dict[str, Any]:
        """Return the address as replies show it."""
        return {
            "first_name": self.first_name,
            "last_name": self.last_name,
            "email": self.email,
            "phone": "",
            "country": self.country,
            "region": "",
            "address1": self.street,
            "address2": "",
            "city": self.city,
            "zip": self.postcode,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintVariant:
    """One size and color of a product; money is in cents."""

    id: int
    sku: str
    title: str
    price: int
    cost: int
    is_enabled: bool = True
    is_available: bool = True

    def shown(self) -> dict[str, Any]:
        """Return the variant as replies show it."""
        return {
            "id": self.id,
            "sku": self.sku,
            "cost": self.cost,
            "price": self.price,
            "title": self.title,
            "grams": 180,
            "is_enabled": self.is_enabled,
            "is_default": False,
            "is_available": self.is_available,
            "options": [],
        }


@dataclass(slots=True, kw_only=True)
class PrintProduct:
    """A product; an edit changes it in place."""

    id: str
    shop_id: int
    title: str
    variants: tuple[PrintVariant, ...]
    created_at: datetime
    updated_at: datetime
    visible: bool = True
    is_locked: bool = False

    def shown(self) -> dict[str, Any]:
        """Return the product as replies show it."""
        return {
            "id": self.id,
            "title": self.title,
            "description": "",
            "tags": [],
            "variants": [variant.shown() for variant in self.variants],
            "images": [],
            "created_at": spell(self.created_at),
            "updated_at": spell(self.updated_at),
            "visible": self.visible,
            "is_locked": self.is_locked,
            "blueprint_id": 6,
            "shop_id": self.shop_id,
            "print_provider_id": 3,
            "print_areas": [],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintLine:
    """One position of an order, as it was sold."""

    product_id: str
    product_title: str
    variant: PrintVariant
    quantity: int = 1

    def shown(self, status: str) -> dict[str, Any]:
        """Return the line as replies show it."""
        variant = self.variant
        return {
            "product_id": self.product_id,
            "quantity": self.quantity,
            "variant_id": variant.id,
            "print_provider_id": 3,
            "cost": variant.cost,
            "shipping_cost": 0,
            "status": status,
            "metadata": {
                "title": self.product_title,
                "price": variant.price,
                "variant_label": variant.title,
                "sku": variant.sku,
                "country": "United States",
            },
        }


@dataclass(slots=True, kw_only=True)
class PrintShipment:
    """A package on its way."""

    carrier: str
    number: str
    delivered_at: datetime | None = None

    def shown(self) -> dict[str, Any]:
        """Return the package as replies show it."""
        url = TRACKING.format(number=self.number)
        shown: dict[str, Any] = {"carrier": self.carrier, "number": self.number, "url": url}
        if self.delivered_at is not None:
            shown["delivered_at"] = spell(self.delivered_at)
        return shown


@dataclass(slots=True, kw_only=True)
class PrintOrder:
    """An order; it moves on in place."""

    id: str
    shop_id: int
    number: int
    created_at: datetime
    status: str
    buyer: PrintBuyer
    lines: tuple[PrintLine, ...]
    shipping: int
    tax: int
    shipments: list[PrintShipment] = field(default_factory=list)
    sent_to_production_at: datetime | None = None
    fulfilled_at: datetime | None = None

    @property
    def price(self) -> int:
        """What the buyer paid for the goods."""
        return sum(line.variant.price * line.quantity for line in self.lines)

    def shown(self) -> dict[str, Any]:
        """Return the order as replies show it: what has not happened is left out."""
        shown: dict[str, Any] = {
            "id": self.id,
            "app_order_id": f"{self.shop_id}.{self.number}",
            "address_to": self.buyer.shown(),
            "line_items": [line.shown(self.status) for line in self.lines],
            "metadata": {
                "order_type": "external",
                "shop_order_id": self.number,
                "shop_order_label": f"#{self.number}",
            },
            "total_price": self.price,
            "total_shipping": self.shipping,
            "total_tax": self.tax,
            "status": self.status,
            "shipping_method": 1,
            "created_at": spell(self.created_at),
        }
        if self.shipments:
            shown["shipments"] = [shipment.shown() for shipment in self.shipments]
        for name in ("sent_to_production_at", "fulfilled_at"):
            if (at := getattr(self, name)) is not None:
                shown[name] = spell(at)
        return shown


def spell(at: datetime) -> str:
    """Format a time as Printify does."""
    return at.strftime("%Y-%m-%d %H:%M:%S+00:00")
