"""Observed and desired: what a quote means for the shop, by a seller's terms."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from typing import Any, Literal

from headway.core.catalog.listings import Quote

CENT = Decimal("0.01")
UNIT = Decimal(1)
NINETY_NINE = Decimal("0.99")
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

Basis = Literal["list", "net"]
Rounding = Literal["cent", "whole", "99"]
CompareAt = Literal["none", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a quote becomes a shop's price and stock; `margin_min` is on what a part costs us."""

    locations: Mapping[str, str]
    currency: str
    basis: Basis = "list"
    markup: Decimal = Decimal("0.10")
    rounding: Rounding = "cent"
    margin_min: Decimal = Decimal(0)
    compare_at: CompareAt = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A supplier quote in canonical form: plain decimals, mapped locations only."""

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

    def as_json(self) -> dict[str, Any]:
        """Return the canonical form: equal quotes give equal text, whatever their order."""
        return {
            "list_price": plain(self.list_price),
            "net_price": plain(self.net_price),
            "currency": self.currency,
            "quantities": dict(sorted(self.quantities.items())),
        }

    def fingerprint(self) -> str:
        """Return a hash that changes when, and only when, the shop could differ."""
        return hashlib.sha256(CANONICAL.encode(self.as_json()).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What the shop should show: a price, what the part costs us, stock at every mapped place."""

    price: Decimal
    cost: Decimal
    currency: str
    quantities: Mapping[str, int]
    compare_at: Decimal | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the form that is stored and compared."""
        return {
            "price": str(self.price),
            "cost": plain(self.cost),
            "currency": self.currency,
            "compare_at": None if self.compare_at is None else str(self.compare_at),
            "quantities": dict(sorted(self.quantities.items())),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQuote:
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


def desire(observed: Observed, terms: Terms) -> Desired | HeldQuote:
    """Compute the shop's state from an observation, or hold it for a person (law L9)."""
    price = observed.net_price if terms.basis == "net" else observed.price
    if observed.currency != terms.currency:
        return HeldQuote(
            reason=f"quoted in {observed.currency}, the shop sells in {terms.currency}"
        )
    for quoted in (observed.list_price, observed.net_price):
        if quoted is not None and quoted < 0:
            return HeldQuote(reason=f"a negative price was quoted: {plain(quoted)}")
    if not price:
        missing = "net price" if terms.basis == "net" and observed.price else "price"
        return HeldQuote(reason=f"no {missing} was quoted")
    cost = observed.net_price or price
    floor = cost * (1 + terms.margin_min)
    shown = round_price(max(price * (1 + terms.markup), floor), terms.rounding)
    if shown <= 0:
        return HeldQuote(reason=f"a price of {plain(price)} rounds to nothing")
    if shown < floor:
        shown = round_price(floor, terms.rounding, upwards=True)
    return Desired(
        price=shown,
        cost=round_price(cost, "cent"),  # a shop stores no more digits, so more never match
        currency=terms.currency,
        quantities=observed.quantities,
        compare_at=_compare_at(observed, shown, terms),
    )


def round_price(price: Decimal, rounding: Rounding, *, upwards: bool = False) -> Decimal:
    """Round to the nearest cent or whole unit, half up, or up to the next price that ends in .99.

    `upwards` never goes below the price that is given.
    """
    if rounding == "99":
        units = (price - NINETY_NINE).to_integral_value(ROUND_CEILING)
        return (units + NINETY_NINE).quantize(CENT)
    step = UNIT if rounding == "whole" else CENT
    return price.quantize(step, ROUND_CEILING if upwards else ROUND_HALF_UP).quantize(CENT)


def _compare_at(observed: Observed, shown: Decimal, terms: Terms) -> Decimal | None:
    """Return the list price to show as crossed out, if the shop's price is lower."""
    if terms.compare_at == "none" or not observed.list_price:
        return None
    listed = round_price(observed.list_price, "cent")
    return listed if shown < listed else None


def plain(number: Decimal | None) -> str | None:
    """Write 10.50, 10.5 and 1.05E+1 alike."""
    return None if number is None else format(number.normalize(), "f")


def money(state: Mapping[str, Any], fact: str) -> Decimal | None:
    """Return a price fact of a stored state as a number."""
    value = state.get(fact)
    return None if value is None else Decimal(value)
