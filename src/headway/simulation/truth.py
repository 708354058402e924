"""What the shop should show for a part, worked out a second time, without the engine's help."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from headway.simulation.world import Catalogue
from headway.simulators.boeing import Part

Prices = tuple[Decimal | None, Decimal | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A part as a perfect reader would put it into the shop; equal sights need no push."""

    list_price: Decimal
    net_price: Decimal
    price: Decimal
    cost: Decimal
    stock: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eye:
    """A perfect reader: the deployment's terms, and which prices the supplier shows at all."""

    places: Mapping[str, str]
    markup: Decimal
    currency: str
    shown_prices: Callable[[Part], Prices]

    def see(self, part: Part) -> Sight:
        """Return what the shop should show for this part."""
        shown, net = self.shown_prices(part)
        list_price, net_price = shown or Decimal(0), net or Decimal(0)
        base = list_price if list_price > 0 else net_price
        stock = dict.fromkeys(self.places.values(), 0)
        for place, quantity in part.stock.items():
            if place in self.places:
                stock[self.places[place]] += quantity
        return Sight(
            list_price=list_price,
            net_price=net_price,
            price=(base + base * self.markup).quantize(Decimal("0.01"), ROUND_HALF_UP),
            cost=net_price if net_price > 0 else base,
            stock=tuple(sorted(stock.items())),
        )


def difference(
    sight: Sight,
    currency: str,
    observed: Mapping[str, Any] | None,
    desired: Mapping[str, Any] | None,
) -> str | None:
    """Say what the stored states have wrong about a part that was read well, if anything."""
    if observed is None:
        return "nothing is stored as observed"
    seen = (
        Decimal(observed["list_price"] or 0),
        Decimal(observed["net_price"] or 0),
        observed["currency"],
        tuple(sorted(observed["quantities"].items())),
    )
    if seen != (sight.list_price, sight.net_price, currency, sight.stock):
        return f"observed is {dict(observed)}, served was {sight}"
    if desired is None:
        return "nothing is desired"
    wanted = (
        Decimal(desired["price"]),
        Decimal(desired["cost"]),
        desired["currency"],
        tuple(sorted(desired["quantities"].items())),
    )
    if wanted != (sight.price, sight.cost, currency, sight.stock):
        return f"desired is {dict(desired)}, served was {sight}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One reply as it left the supplier: what each SKU's line held, and at which second."""

    at_s: float
    currency: str
    parts: Mapping[str, Part]
    odd: frozenset[str]


def read_body(body: bytes, catalogue: Catalogue) -> Served | None:
    """Read a reply's bytes with our own eyes; None if no client could."""
    try:
        document = json.loads(body)
        lines = document["lineItems"]
        names = [str(line["aviallPartNumber"]) for line in lines]
        currency = str(document["currency"])
    except (ValueError, KeyError, TypeError):
        return None
    spellings: dict[str, set[str]] = {}
    for name, line in zip(names, lines, strict=True):
        spellings.setdefault(name, set()).add(json.dumps(line, sort_keys=True))
    parts = {name: catalogue.asked[name] for name in names if name in catalogue.asked}
    return Served(
        at_s=min((catalogue.asked_s[name] for name in parts), default=0.0),
        currency=currency,
        parts=parts,
        odd=frozenset(name for name, spelt in spellings.items() if len(spelt) > 1),
    )
