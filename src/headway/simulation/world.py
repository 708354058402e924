"""The world outside: which parts the supplier has, and when their price or stock changes.

Everything is drawn from the seed before the run starts, so a world does not depend on who looks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from headway.clock import Clock, Rng, rng
from headway.core.model import Sku
from headway.simulators.boeing import Part

DAY_S = 86_400.0
CENT = Decimal("0.01")
# freshness.md: 5 % of SKUs change a day on average, most of them never, a few all the time.
RATE_SHAPE = 0.35
RATE_MEAN_PER_DAY = 0.05
NEVER = 1e-9
# The reports saw more moves of stock than of price.
PRICE_SHARE = 0.3
SOLD_OUT_SHARE = 0.2

MAPPED = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ")
UNMAPPED = "Germany CSC"
SUFFIXES = ("=E9", "=K3", "=9B", "=E4", "=3G", "=7A", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """At this second of the run the part becomes so."""

    at_s: float
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A catalogue at the start, and all that will happen to it, in order."""

    name: str
    start: Mapping[Sku, Part]
    changes: Sequence[Change] = field(default_factory=tuple)
    source: Path | None = None

    def until(self, end_s: float) -> "World":
        """Return this world without what happens after that second."""
        return replace(self, changes=tuple(each for each in self.changes if each.at_s < end_s))


class Catalogue:
    """The world as it is now, behind the simulator's door; it remembers what it was asked."""

    def __init__(self, world: World, clock: Clock) -> None:
        self._parts = dict(world.start)
        self._clock = clock
        self.asked: dict[str, Part] = {}
        self.asked_s: dict[str, float] = {}

    def lookup(self, sku: str) -> Part | None:
        """Return the part as it is now, if there is one."""
        part = self._parts.get(Sku(sku))
        if part is not None:
            self.asked[part.sku] = part
            self.asked_s[part.sku] = self._clock.monotonic()
        return part

    def become(self, part: Part) -> None:
        """Let a change happen."""
        self._parts[Sku(part.sku)] = part


def seeded_world(
    *, products: int, days: float, seed: int, changes_per_day: float = RATE_MEAN_PER_DAY
) -> World:
    """Draw a catalogue and its changes; the same seed always gives the same world."""
    generator = rng(f"world:{seed}")
    start = {sku: _part(generator, sku) for sku in _skus(generator, products)}
    changes = [
        change
        for part in start.values()
        for change in _life(generator, part, days, changes_per_day)
    ]
    changes.sort(key=lambda each: (each.at_s, each.part.sku))
    return World(name="seeded", start=start, changes=tuple(changes))


def _skus(generator: Rng, count: int) -> Iterator[Sku]:
    """Yield different part numbers that look like the supplier's, suffixes included."""
    shapes = (
        lambda: f"{_number(generator, 1)}D{_number(generator, 4)}-{_number(generator, 1)}",
        lambda: f"WF{_number(generator, 6)}",
        lambda: f"NAS{_number(generator, 4)}F{_number(generator, 4)}P",
        lambda: f"MS{_number(generator, 5)}AD{_number(generator, 1)}-{_number(generator, 2)}",
        lambda: f"{_number(generator, 3)}A{_number(generator, 4)}-{_number(generator, 3)}",
    )
    seen: set[str] = set()
    while len(seen) < count:
        sku = generator.choice(shapes)() + generator.choice(SUFFIXES)
        if sku not in seen:
            seen.add(sku)
            yield Sku(sku)


def _number(generator: Rng, digits: int) -> str:
    return f"{generator.randrange(10**digits):0{digits}}"


def _part(generator: Rng, sku: Sku) -> Part:
    net_price = _cents(Decimal(str(3 * 10 ** generator.uniform(0, 3))))
    places = generator.sample((*MAPPED, UNMAPPED), generator.randint(1, 4))
    return Part(
        sku=sku,
        list_price=_cents(net_price * Decimal(str(generator.uniform(1.05, 1.4)))),
        net_price=net_price,
        stock={place: _quantity(generator) for place in places},
    )


def _life(generator: Rng, part: Part, days: float, per_day: float) -> Iterator[Change]:
    """Yield one part's changes: a Poisson process whose rate is the part's own."""
    rate_per_s = generator.gammavariate(RATE_SHAPE, per_day / RATE_SHAPE) / DAY_S
    if rate_per_s * days * DAY_S < NEVER:
        return
    at_s = generator.expovariate(rate_per_s)
    while at_s < days * DAY_S:
        part = _moved(generator, part)
        yield Change(at_s=round(at_s, 3), part=part)
        at_s += generator.expovariate(rate_per_s)


def _moved(generator: Rng, part: Part) -> Part:
    """Change the price a little, or the stock at one place."""
    if generator.random() < PRICE_SHARE:
        assert part.net_price is not None
        assert part.list_price is not None
        factor = Decimal(str(1 + generator.choice((-1, 1)) * generator.uniform(0.01, 0.08)))
        net_price = max(_cents(part.net_price * factor), CENT)
        if net_price == part.net_price:
            net_price += CENT
        return replace(part, net_price=net_price, list_price=_cents(part.list_price * factor))
    place = generator.choice((*MAPPED, UNMAPPED))
    quantity = _quantity(generator)
    if quantity == part.stock.get(place, 0):
        quantity += 1
    return replace(part, stock={**part.stock, place: quantity})


def _quantity(generator: Rng) -> int:
    return 0 if generator.random() < SOLD_OUT_SHARE else generator.randint(1, 120)


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(CENT, ROUND_HALF_UP)
