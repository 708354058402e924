"""What the shop should show for a part, worked out a second time, without the engine's help."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Any

from headway_lab.simulation.world import SimulatedCatalog
from headway_lab.simulators.boeing import SupplierPart

Prices = tuple[Decimal | None, Decimal | None]
# What a shop shows of one listing, facet by facet; a shop keeps money to the cent.
ShopFields = Mapping[str, Any]
CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownState:
    """A part as a perfect reader would put it into the shop; equal sights need no push."""

    list_price: Decimal
    net_price: Decimal
    price: Decimal
    cost: Decimal
    compare_at: Decimal | None = None
    stock: tuple[tuple[str, int], ...]

    @property
    def shop_fields(self) -> ShopFields:
        """What the shop shows of it."""
        return _shop_fields(self.price, self.cost, self.compare_at, dict(self.stock))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceReader:
    """A perfect reader: the deployment's terms, and which prices the supplier shows at all."""

    places: Mapping[str, str]
    currency: str
    shown_prices: Callable[[SupplierPart], Prices]
    markup: Decimal
    margin_min: Decimal = Decimal(0)
    basis: str = "list"
    rounding: str = "cent"
    compare_at: str = "keep"
    # A part is looked at whenever it is read, and seldom is it another than the last time.
    last: dict[str, tuple[SupplierPart, ShownState]] = field(default_factory=dict, repr=False)

    def see(self, part: SupplierPart) -> ShownState:
        """Return what the shop should show for this part."""
        state = self.last.get(part.sku)
        if state is None or state[0] is not part:
            state = self.last[part.sku] = (part, self._look(part))
        return state[1]

    def _look(self, part: SupplierPart) -> ShownState:
        shown, net = self.shown_prices(part)
        list_price, net_price = shown or Decimal(0), net or Decimal(0)
        base = list_price if list_price > 0 and self.basis == "list" else net_price
        cost = net_price if net_price > 0 else base
        price = self._price(Fraction(base), Fraction(cost))
        crossed_out = _money(_nearest(Fraction(list_price) * 100))
        stock = dict.fromkeys(self.places.values(), 0)
        for place, quantity in part.stock.items():
            if place in self.places:
                stock[self.places[place]] += quantity
        return ShownState(
            list_price=list_price,
            net_price=net_price,
            price=price,
            cost=_to_the_cent(cost),
            compare_at=crossed_out if self.compare_at == "list" and price < crossed_out else None,
            stock=tuple(sorted(stock.items())),
        )

    def _price(self, base: Fraction, cost: Fraction) -> Decimal:
        """Work a price out in whole cents of exact fractions."""
        least = cost * (1 + Fraction(self.margin_min)) * 100
        price = max(base * (1 + Fraction(self.markup)) * 100, least)
        if self.rounding == "99":
            return _money(100 * ceil((price - 99) / 100) + 99)
        step = 100 if self.rounding == "whole" else 1
        cents = step * _nearest(price / step)
        return _money(cents if cents >= least else step * ceil(least / step))


def _nearest(number: Fraction) -> int:
    return floor(number + Fraction(1, 2))


def _money(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)


def fields_of(desired: Mapping[str, Any]) -> ShopFields:
    """Return what a shop shows once this desired state is applied."""
    shop_fields = _shop_fields(
        Decimal(desired["price"]),
        Decimal(desired["cost"]),
        None if desired.get("compare_at") is None else Decimal(desired["compare_at"]),
        desired["quantities"],
    )
    return {**shop_fields, "status": desired["status"]} if "status" in desired else shop_fields


def stock_at(place: str) -> str:
    """Return the facet that is the stock at a place."""
    return f"stock at {place}"


def _shop_fields(
    price: Decimal, cost: Decimal, compare_at: Decimal | None, stock: Mapping[str, int]
) -> ShopFields:
    return {
        "price": _to_the_cent(price),
        "cost": _to_the_cent(cost),
        "compare_at": None if compare_at is None else _to_the_cent(compare_at),
        **{stock_at(place): quantity for place, quantity in stock.items()},
    }


def _to_the_cent(amount: Decimal) -> Decimal:
    return amount.quantize(CENT, ROUND_HALF_UP)


def difference(
    shown: ShownState,
    currency: str,
    observed: Mapping[str, Any] | None,
    desired: Mapping[str, Any] | None,
) -> str | None:
    """Return what the stored states have wrong about a part that was read well, or None."""
    if observed is None:
        return "nothing is stored as observed"
    actual = (
        Decimal(observed["list_price"] or 0),
        Decimal(observed["net_price"] or 0),
        observed["currency"],
        tuple(sorted(observed["quantities"].items())),
    )
    if actual != (shown.list_price, shown.net_price, currency, shown.stock):
        return f"observed is {dict(observed)}, served was {shown}"
    if desired is None:
        return "nothing is desired"
    expected = (
        Decimal(desired["price"]),
        Decimal(desired["cost"]),
        None if desired.get("compare_at") is None else Decimal(desired["compare_at"]),
        desired["currency"],
        tuple(sorted(desired["quantities"].items())),
    )
    if expected != (shown.price, shown.cost, shown.compare_at, currency, shown.stock):
        return f"desired is {dict(desired)}, served was {shown}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One reply as the supplier sent it: the part of each SKU, and at which second."""

    at_s: float
    currency: str
    parts: Mapping[str, SupplierPart]
    odd: frozenset[str]


def _part_of(line: Mapping[str, Any], catalog: SimulatedCatalog) -> str:
    """Return the part that a line is about; a superseded one is named by its product code."""
    name = str(line["aviallPartNumber"])
    return name if name in catalog.requested else str(line["productCode"])


def read_body(body: bytes, catalog: SimulatedCatalog) -> Served | None:
    """Parse a reply independently of the client; None if no client could read it."""
    try:
        document = json.loads(body)
        lines = document["lineItems"]
        names = [_part_of(line, catalog) for line in lines]
        currency = str(document.get("currency", "USD"))
    except (ValueError, KeyError, TypeError):
        return None
    spellings: dict[str, list[Any]] = {}
    for name, line in zip(names, lines, strict=True):
        spellings.setdefault(name, []).append(line)
    parts = {name: catalog.requested[name] for name in names if name in catalog.requested}
    return Served(
        at_s=min((catalog.requested_s[name] for name in parts), default=0.0),
        currency=currency,
        parts=parts,
        odd=frozenset(
            name
            for name, spelt in spellings.items()
            if len(spelt) > 1 and len({json.dumps(value, sort_keys=True) for value in spelt}) > 1
        ),
    )
