"""The simulated world: which parts the supplier has, and when their price or stock changes.

Everything is drawn from the seed before the run starts, so a world does not depend on the run. This
module has its values, how parts are drawn and moved, and the steady world; `worlds` has the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from headway.clock import Clock, Rng, rng
from headway.core.catalog.listings import Sku
from headway.core.timetable.population import SHARE_PER_DAY, rate_at
from headway_lab.simulators.boeing import SupplierPart

DAY_S = 86_400.0
CENT = Decimal("0.01")
NEVER = 1e-9
# The reports saw more moves of stock than of price.
PRICE_SHARE = 0.3
SOLD_OUT_SHARE = 0.2

MAPPED = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ")
UNMAPPED = "Germany CSC"
SUFFIXES = ("=E9", "=K3", "=9B", "=E4", "=3G", "=7A", "")
# A shop shows every move of a price, and of stock where it sells.
SHOWN_SHARE = PRICE_SHARE + (1 - PRICE_SHARE) * len(MAPPED) / (len(MAPPED) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldChange:
    """At this second of the run the part becomes so."""

    at_s: float
    part: SupplierPart


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A catalog at the start, and all changes to it, in order.

    `rates_per_day` is how often a shop would have to show something new of each part, in a world
    where that is a number. `faults` are the `--fault` texts that belong to it.
    """

    name: str
    start: Mapping[Sku, SupplierPart]
    changes: Sequence[WorldChange] = field(default_factory=tuple)
    source: Path | None = None
    rates_per_day: Mapping[Sku, float] | None = None
    faults: tuple[str, ...] = ()

    def until(self, end_s: float) -> "World":
        """Return this world without what happens after that second."""
        return replace(
            self, changes=tuple(change for change in self.changes if change.at_s < end_s)
        )


class SimulatedCatalog:
    """The current state of the world, as the simulator serves it; it records what was served."""

    def __init__(self, world: World, clock: Clock) -> None:
        self._parts = dict(world.start)
        self._clock = clock
        self.requested: dict[str, SupplierPart] = {}
        self.requested_s: dict[str, float] = {}

    def lookup(self, sku: str) -> SupplierPart | None:
        """Return the part as it is now, if there is one."""
        part = self._parts.get(Sku(sku))
        if part is not None:
            self.requested[part.sku] = part
            self.requested_s[part.sku] = self._clock.monotonic()
        return part

    def apply(self, part: SupplierPart) -> None:
        """Apply a change."""
        self._parts[Sku(part.sku)] = part


def seeded_world(
    *, products: int, days: float, seed: int, share_per_day: float = SHARE_PER_DAY
) -> World:
    """Draw the steady world: parts change at random, each at a rate of its own that stays."""
    generator = rng(f"world:{seed}")
    start = draw_start(generator, products)
    rates: dict[Sku, float] = {}
    changes: list[WorldChange] = []
    for sku, part in start.items():
        rates[sku] = draw_rate(generator, share_per_day)
        changes += live(generator, part, poisson(generator, rates[sku], days))
    return World(
        name="steady", start=start, changes=in_order(changes), rates_per_day=shown_rates(rates)
    )


def draw_start(generator: Rng, products: int) -> dict[Sku, SupplierPart]:
    """Draw a catalog."""
    return {sku: _part(generator, sku) for sku in _skus(generator, products)}


def draw_rate(generator: Rng, share_per_day: float = SHARE_PER_DAY) -> float:
    """Draw how often a part moves a day, if about this share of all shows a change within one."""
    return rate_at(generator.random()) * share_per_day / SHARE_PER_DAY / SHOWN_SHARE


def poisson(generator: Rng, rate_per_day: float, days: float) -> Iterator[float]:
    """Yield the seconds of a Poisson process with this rate a day."""
    rate_per_s = rate_per_day / DAY_S
    if rate_per_s * days * DAY_S < NEVER:
        return
    at_s = generator.expovariate(rate_per_s)
    while at_s < days * DAY_S:
        yield at_s
        at_s += generator.expovariate(rate_per_s)


def live(generator: Rng, part: SupplierPart, at_s: Iterable[float]) -> Iterator[WorldChange]:
    """Yield one part's changes: at each of these seconds it moves from where it is."""
    for moment in at_s:
        part = moved(generator, part)
        yield WorldChange(at_s=round(moment, 3), part=part)


def in_order(changes: Iterable[WorldChange]) -> tuple[WorldChange, ...]:
    """Return changes as they happen."""
    return tuple(sorted(changes, key=lambda change: (change.at_s, change.part.sku)))


def shown_rates(rates_per_day: Mapping[Sku, float]) -> dict[Sku, float]:
    """Return how often a shop must show something, if parts move at these rates."""
    return {sku: rate * SHOWN_SHARE for sku, rate in rates_per_day.items()}


def moved(generator: Rng, part: SupplierPart) -> SupplierPart:
    """Change the price a little, or the stock at one place."""
    if generator.random() < PRICE_SHARE:
        return repriced(part, draw_factor(generator))
    return restocked(generator, part)


def draw_factor(generator: Rng) -> Decimal:
    """Draw by how much a price moves: a little, up or down."""
    return Decimal(str(1 + generator.choice((-1, 1)) * generator.uniform(0.01, 0.08)))


def repriced(part: SupplierPart, factor: Decimal) -> SupplierPart:
    """Return the part at another price."""
    assert part.net_price is not None
    assert part.list_price is not None
    net_price = max(_cents(part.net_price * factor), CENT)
    if net_price == part.net_price:
        net_price += CENT
    return replace(part, net_price=net_price, list_price=_cents(part.list_price * factor))


def restocked(generator: Rng, part: SupplierPart) -> SupplierPart:
    """Return the part with another quantity at one place."""
    place = generator.choice((*MAPPED, UNMAPPED))
    quantity = _quantity(generator)
    if quantity == part.stock.get(place, 0):
        quantity += 1
    return replace(part, stock={**part.stock, place: quantity})


def _skus(generator: Rng, count: int) -> Iterator[Sku]:
    """Yield different part numbers that look like the supplier's, suffixes included."""
    shapes = (
        lambda: f"{_number(generator, 1)}D{_number(generator, 4)}-{_number(generator, 1)}",
        lambda: f"WF{_number(generator, 6)}",
        lambda: f"NAS{_number(generator, 4)}F{_number(generator, 4)}P",
        lambda: f"MS{_number(generator, 5)}AD{_number(generator, 1)}-{_number(generator, 2)}",
        lambda: f"{_number(generator, 3)}A{_number(generator, 4)}-{_number(generator, 3)}",
    )
    used: set[str] = set()
    while len(used) < count:
        sku = generator.choice(shapes)() + generator.choice(SUFFIXES)
        if sku not in used:
            used.add(sku)
            yield Sku(sku)


def _number(generator: Rng, digits: int) -> str:
    return f"{generator.randrange(10**digits):0{digits}}"


def _part(generator: Rng, sku: Sku) -> SupplierPart:
    net_price = _cents(Decimal(str(3 * 10 ** generator.uniform(0, 3))))
    places = generator.sample((*MAPPED, UNMAPPED), generator.randint(1, 4))
    return SupplierPart(
        sku=sku,
        list_price=_cents(net_price * Decimal(str(generator.uniform(1.05, 1.4)))),
        net_price=net_price,
        stock={place: _quantity(generator) for place in places},
    )


def _quantity(generator: Rng) -> int:
    return 0 if generator.random() < SOLD_OUT_SHARE else generator.randint(1, 120)


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(CENT, ROUND_HALF_UP)
