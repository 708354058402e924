"""Observed and desired: what a quote means for the shop, and whether anything changed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from headway.core.model import Quote

CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a quote becomes a shop's price and stock."""

    locations: Mapping[str, str]
    currency: str
    markup: Decimal = Decimal("0.10")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the supplier said, in canonical form: plain decimals, mapped locations only."""

    list_price: Decimal | None
    net_price: Decimal | None
    currency: str
    quantities: Mapping[str, int]

    @property
    def price(self) -> Decimal | None:
        """The list price, or the net price where the supplier lists none."""
        return self.list_price or self.net_price

    @property
    def quantity(self) -> int:
        """Stock over all mapped locations."""
        return sum(self.quantities.values())

    def as_json(self) -> dict[str, object]:
        """Return the canonical form: equal quotes give equal text, whatever their order."""
        return {
            "list_price": _plain(self.list_price),
            "net_price": _plain(self.net_price),
            "currency": self.currency,
            "quantities": dict(sorted(self.quantities.items())),
        }

    def fingerprint(self) -> str:
        """Return a hash that changes when, and only when, the shop could differ."""
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What the shop should show: a price, what the part costs us, stock at every mapped place."""

    price: Decimal
    cost: Decimal
    currency: str
    quantities: Mapping[str, int]

    def as_json(self) -> dict[str, object]:
        """Return the form that is stored and compared."""
        return {
            "price": str(self.price),
            "cost": _plain(self.cost),
            "currency": self.currency,
            "quantities": dict(sorted(self.quantities.items())),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A change that must not reach the shop by itself, and why."""

    reason: str


def observe(quote: Quote, terms: Terms) -> Observed:
    """Reduce a quote to what matters: every mapped location, 0 where the supplier lists none."""
    quantities = dict.fromkeys(terms.locations.values(), 0)
    for place, quantity in quote.quantities.items():
        if place in terms.locations:
            quantities[terms.locations[place]] += quantity
    return Observed(
        list_price=quote.list_price,
        net_price=quote.net_price,
        currency=quote.currency,
        quantities=quantities,
    )


def desire(observed: Observed, terms: Terms) -> Desired | Held:
    """Turn an observation into the shop's state, or hold it for a person (law L9)."""
    price = observed.price
    if observed.currency != terms.currency:
        return Held(reason=f"quoted in {observed.currency}, the shop sells in {terms.currency}")
    if price is None or price <= 0:
        return Held(reason="no price was quoted")
    shown = (price * (1 + terms.markup)).quantize(CENT, ROUND_HALF_UP)
    if shown <= 0:
        return Held(reason=f"a price of {_plain(price)} rounds to nothing")
    return Desired(
        price=shown,
        cost=observed.net_price or price,
        currency=terms.currency,
        quantities=observed.quantities,
    )


def _plain(number: Decimal | None) -> str | None:
    """Write 10.50, 10.5 and 1.05E+1 alike."""
    return None if number is None else format(number.normalize(), "f")
