"""Observed and desired: what a quote means for the shop, by a seller's terms."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from typing import Any, Literal

from headway.core.catalog.description_template import DEFAULT
from headway.core.catalog.listings import Doubt, Quote, Sku
from headway.core.catalog.term_tables import GroupMarkup

CENT = Decimal("0.01")
UNIT = Decimal(1)
# ISO 4217: currencies without a smaller unit, and those whose unit has a thousand parts.
WHOLE_CURRENCIES = frozenset((
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND",
    "VUV", "XAF", "XOF", "XPF",
))  # fmt: skip
MILL_CURRENCIES = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"])
EACH = "EA"
# Marks a desired state whose price is the merchant's own, while the first one from us is held.
THEIRS = "price_is_theirs"
# Pieces in a unit of measure. A price by a unit that is not listed waits for a person.
UNITS: Mapping[str, int] = {
    **dict.fromkeys((EACH, "EACH", "PC", "PCE", "PCS", "UN", "KT", "KIT", "SE", "SET", "AY"), 1),
    **dict.fromkeys(("PR", "PAIR"), 2),
    **dict.fromkeys(("DZ", "DOZ"), 12),
    **dict.fromkeys(("HD", "HUN"), 100),
    "TH": 1000,
}
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

Basis = Literal["list", "net"]
Rounding = Literal["cent", "whole", "99"]
CompareAt = Literal["keep", "clear", "list"]
Oversell = Literal["keep", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a quote becomes a shop's price and stock; `margin_min` is on what a part costs us.

    `locations` are the shop's by the supplier's, and `unsold` are those whose stock is not sold on
    purpose; any other location is unknown. Case and spaces in the supplier's names do not matter.
    `markups` are those of groups of parts; the first that covers a part holds instead of `markup`.
    """

    locations: Mapping[str, str]
    unsold: Collection[str] = ()
    units: Mapping[str, int] = field(default_factory=lambda: UNITS)
    currency: str
    basis: Basis = "list"
    markup: Decimal = Decimal("0.10")
    markups: Sequence[GroupMarkup] = ()
    rounding: Rounding = "cent"
    margin_min: Decimal = Decimal(0)
    compare_at: CompareAt = "keep"
    channels: str = "Online Store"
    oversell: Oversell = "keep"
    images: bool = False
    description_template: str = DEFAULT
    _places: Mapping[str, str] = field(init=False, repr=False, compare=False)
    _unsold: Collection[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare the names for comparison."""
        places = {fold(name): place for name, place in self.locations.items()}
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_unsold", frozenset(map(fold, self.unsold)))

    def of_part(self, sku: Sku, family: str | None) -> "Terms":
        """Return the terms of one part, with the markup of its group."""
        for group in self.markups:
            if group.covers(sku, family):
                return replace(self, markup=group.markup, markups=())
        return self

    def place(self, location: str) -> str | None:
        """Return the shop's location for one of the supplier's; None if it is not mapped."""
        return self._places.get(fold(location))

    def is_unknown(self, location: str) -> bool:
        """Return True if a location is neither mapped nor left out on purpose."""
        return fold(location) not in self._places and fold(location) not in self._unsold


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A supplier quote in canonical form: plain decimals, mapped locations only.

    `unknown` is stock at locations that nobody mapped or left out, and `unlisted` are the mapped
    locations that the quote does not name.
    """

    list_price: Decimal | None
    net_price: Decimal | None
    currency: str
    quantities: Mapping[str, int]
    unit: str = EACH
    minimum: int = 1
    doubts: tuple[Doubt, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    unlisted: Collection[str] = ()

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
            **pack_of(self.unit, self.minimum),
        }

    def stock(self, pack: int) -> dict[str, int]:
        """Return how many packs of this many units each location has."""
        return {place: count // pack for place, count in sorted(self.quantities.items())}

    def fingerprint(self) -> str:
        """Return a hash that changes when, and only when, the shop could differ."""
        return hashlib.sha256(CANONICAL.encode(self.as_json()).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What the shop should show: a price, what the part costs us, stock at every mapped place.

    All of them count packs: `pack` units, each of which may itself be more than one piece.
    The crossed-out price is the merchant's own if `keeps_compare_at`; then it is not stored.
    """

    price: Decimal
    cost: Decimal
    currency: str
    quantities: Mapping[str, int]
    compare_at: Decimal | None = None
    unit: str = EACH
    pack: int = 1
    keeps_compare_at: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the form that is stored and compared."""
        state: dict[str, Any] = {
            "price": str(self.price),
            "cost": plain(self.cost),
            "currency": self.currency,
            "quantities": dict(sorted(self.quantities.items())),
            **pack_of(self.unit, self.pack),
        }
        if not self.keeps_compare_at:
            state["compare_at"] = None if self.compare_at is None else str(self.compare_at)
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQuote:
    """A change that must not reach the shop by itself, and why."""

    reason: str


def observe(quote: Quote, terms: Terms) -> Observed:
    """Reduce a quote to what matters: every mapped location, 0 where the supplier lists none."""
    quantities = dict.fromkeys(terms.locations.values(), 0)
    unlisted, unknown = set(quantities), {}
    for location, quantity in quote.quantities.items():
        place = terms.place(location)
        if place is not None:
            quantities[place] += quantity
            unlisted.discard(place)
        elif quantity and terms.is_unknown(location):
            unknown[location] = quantity
    unit = quote.unit.strip().upper()
    return Observed(
        list_price=quote.list_price,
        net_price=quote.net_price,
        currency=quote.currency,
        quantities=quantities,
        unit=EACH if terms.units.get(unit or EACH) == 1 else unit,
        minimum=quote.minimum,
        doubts=quote.doubts,
        unknown=unknown,
        unlisted=unlisted,
    )


def desire(observed: Observed, terms: Terms) -> Desired | HeldQuote:
    """Compute the shop's state from an observation, or hold it for a person (law L9)."""
    quoted_price = observed.net_price if terms.basis == "net" else observed.price
    if observed.currency != terms.currency:
        return HeldQuote(
            reason=f"quoted in {observed.currency}, the shop sells in {terms.currency}"
        )
    for quoted in (observed.list_price, observed.net_price):
        if quoted is not None and quoted < 0:
            return HeldQuote(reason=f"a negative price was quoted: {plain(quoted)}")
    if not quoted_price:
        missing = "net price" if terms.basis == "net" and observed.price else "price"
        return HeldQuote(reason=f"no {missing} was quoted")
    pack = observed.minimum
    price, cost = quoted_price * pack, (observed.net_price or quoted_price) * pack
    floor = cost * (1 + terms.margin_min)
    step = smallest_unit(terms.currency)
    shown = round_price(max(price * (1 + terms.markup), floor), terms.rounding, step)
    if shown <= 0:
        return HeldQuote(reason=f"a price of {plain(price)} rounds to nothing")
    if shown < floor:
        shown = round_price(floor, terms.rounding, step, upwards=True)
    return Desired(
        price=shown,
        cost=round_price(cost, "cent", step),  # a shop stores no more digits, so more never match
        currency=terms.currency,
        quantities=observed.stock(pack),
        compare_at=_compare_at(observed, shown, terms),
        unit=observed.unit,
        pack=pack,
        keeps_compare_at=terms.compare_at == "keep",
    )


def smallest_unit(currency: str) -> Decimal:
    """Return the smallest amount of a currency that a shop stores."""
    if currency in WHOLE_CURRENCIES:
        return UNIT
    return CENT / 10 if currency in MILL_CURRENCIES else CENT


def round_price(
    price: Decimal, rounding: Rounding, step: Decimal = CENT, *, upwards: bool = False
) -> Decimal:
    """Round to the nearest step or whole unit, half up, or up to the next price that ends in .99.

    The step is the smallest unit of the currency; where that is a whole unit, a price ends in 99
    of them. `upwards` never goes below the price that is given.
    """
    if rounding == "99":
        hundred, ending = (100, Decimal(99)) if step == UNIT else (1, Decimal("0.99"))
        hundreds = ((price - ending) / hundred).to_integral_value(ROUND_CEILING)
        return (hundreds * hundred + ending).quantize(step)
    unit = UNIT if rounding == "whole" else step
    return price.quantize(unit, ROUND_CEILING if upwards else ROUND_HALF_UP).quantize(step)


def _compare_at(observed: Observed, shown: Decimal, terms: Terms) -> Decimal | None:
    """Return the list price to show as crossed out, if the shop's price is lower."""
    if terms.compare_at != "list" or not observed.list_price:
        return None
    step = smallest_unit(terms.currency)
    listed = round_price(observed.list_price * observed.minimum, "cent", step)
    return listed if shown < listed else None


def fold(name: str) -> str:
    """Return a location's name as it is compared: without case and extra spaces."""
    return " ".join(name.split()).casefold()


def pack_of(unit: str, pack: int) -> dict[str, Any]:
    """Return the unit and the pack in the stored form, which leaves out single pieces."""
    named = {} if unit == EACH else {"unit": unit}
    return named if pack == 1 else {**named, "pack": pack}


def plain(number: Decimal | None) -> str | None:
    """Write 10.50, 10.5 and 1.05E+1 alike."""
    return None if number is None else format(number.normalize(), "f")


def money(state: Mapping[str, Any], fact: str) -> Decimal | None:
    """Return a price fact of a stored state as a number."""
    value = state.get(fact)
    return None if value is None else Decimal(value)
