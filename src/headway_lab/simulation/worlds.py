"""The worlds of a run, by name; in each about 5 % of the parts change a day.

With one seed they start with the same catalog.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate
from typing import Protocol

from headway.clock import Rng, rng
from headway.core.catalog.listings import Sku
from headway.core.timetable.population import SHARE_PER_DAY
from headway_lab.simulation.world import (
    DAY_S,
    World,
    WorldChange,
    draw_factor,
    draw_rate,
    draw_start,
    in_order,
    live,
    poisson,
    repriced,
    restocked,
    seeded_world,
    shown_rates,
)
from headway_lab.simulators.boeing import SupplierPart

HOUR_S = 3600.0
HOURS = 24
# How busy each hour is, compared with one another: nights are quiet, the early afternoon is not.
ACTIVITY = (2, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 12, 12, 13, 13, 12, 11, 9, 7, 5, 4, 3, 3, 2)
PASSED = (0.0, *accumulate(activity * DAY_S / sum(ACTIVITY) for activity in ACTIVITY))


def by_day(even_s: float) -> float:
    """Return the moment of an event that would happen at `even_s` if all hours were alike.

    Events stay within their day; only within it they crowd into the busy hours.
    """
    day, within_s = divmod(even_s, DAY_S)
    hour = min(bisect_right(PASSED, within_s) - 1, HOURS - 1)
    share = (within_s - PASSED[hour]) / (PASSED[hour + 1] - PASSED[hour])
    return day * DAY_S + (hour + share) * HOUR_S


def in_office_hours(generator: Rng, rate_per_day: float, days: float) -> Iterator[float]:
    """Yield the seconds at which something happens at random, more often when people work."""
    # A busy morning is over before half of a day's events are: draw the whole day, then cut.
    for even_s in poisson(generator, rate_per_day, math.ceil(days)):
        at_s = by_day(even_s)
        if at_s >= days * DAY_S:
            return
        yield at_s


LIST_SHARE = 0.5
HIT_SHARE = 0.5
# Two or three makers fill pages, many have a few lines.
SIZE_SPREAD = 0.8
# A part that moved moves again soon: this many times on average, this far apart.
BURST_MOVES = 3.0
BURST_GAP_S = 5400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """A part moves: its price by a factor, or else its stock."""

    at_s: float
    sku: Sku
    factor: Decimal | None = None


def bursty_world(*, products: int, days: float, seed: int) -> World:
    """Draw a world of lists and bursts; it has families, and no rate predicts a change."""
    generator = rng(f"world:{seed}")
    start = draw_start(generator, products)
    families = _families(generator, start)
    start = {sku: replace(part, family=families[sku]) for sku, part in start.items()}
    events = [*_list_moves(generator, families, days), *_stock_moves(generator, start, days)]
    events.sort(key=lambda event: (event.at_s, event.sku))
    parts, changes = dict(start), []
    for event in events:
        old, factor = parts[event.sku], event.factor
        part = restocked(generator, old) if factor is None else repriced(old, factor)
        parts[event.sku] = part
        changes.append(WorldChange(at_s=event.at_s, part=part))
    return World(name="bursty", start=start, changes=tuple(changes))


def mislabelled_world(*, products: int, days: float, seed: int) -> World:
    """Draw the bursty world with shuffled labels: what is called a family is none."""
    bursty = bursty_world(products=products, days=days, seed=seed)
    labels = [part.family for part in bursty.start.values()]
    rng(f"labels:{seed}").shuffle(labels)
    wrong = dict(zip(bursty.start, labels, strict=True))

    def relabelled(part: SupplierPart) -> SupplierPart:
        return replace(part, family=wrong[Sku(part.sku)])

    return replace(
        bursty,
        name="mislabelled",
        start={sku: relabelled(part) for sku, part in bursty.start.items()},
        changes=tuple(replace(change, part=relabelled(change.part)) for change in bursty.changes),
    )


def _families(generator: Rng, start: Mapping[Sku, SupplierPart]) -> dict[Sku, str]:
    """Give each part a maker; makers are of very different size."""
    count = max(2, round(math.sqrt(len(start)) / 2))
    sizes = [generator.lognormvariate(0, SIZE_SPREAD) for _ in range(count)]
    names = [f"Maker {number + 1}" for number in range(count)]
    return dict(zip(start, generator.choices(names, sizes, k=len(start)), strict=True))


def _list_moves(generator: Rng, families: Mapping[Sku, str], days: float) -> Iterator[_Event]:
    """Yield what price lists do: one factor for about half of a family, at one moment."""
    members: dict[str, list[Sku]] = {}
    for sku, family in families.items():
        members.setdefault(family, []).append(sku)
    lists_per_day = SHARE_PER_DAY * LIST_SHARE / HIT_SHARE
    for skus in members.values():
        for at_s in in_office_hours(generator, lists_per_day, days):
            factor = draw_factor(generator)
            for sku in skus:
                if generator.random() < HIT_SHARE:
                    yield _Event(at_s=round(at_s, 3), sku=sku, factor=factor)


def _stock_moves(
    generator: Rng, start: Mapping[Sku, SupplierPart], days: float
) -> Iterator[_Event]:
    """Yield moves of stock: bursts at a rate that is the part's own."""
    for sku in start:
        rate_per_day = draw_rate(generator, SHARE_PER_DAY * (1 - LIST_SHARE))
        for first_s in in_office_hours(generator, rate_per_day / BURST_MOVES, days):
            at_s = first_s
            while at_s < days * DAY_S:
                yield _Event(at_s=round(at_s, 3), sku=sku)
                if generator.random() < 1 / BURST_MOVES:
                    break
                at_s += generator.expovariate(1 / BURST_GAP_S)


# How long a part keeps its rate in a world that drifts.
DRIFT_DAYS = 7.0
# One call in fifty fails, in several ways.
FAULTY_CALLS = ("error:1%", "timeout:0.5%", "drop:0.3%", "html:0.2%")
OUTAGE_EVERY_DAYS = 3
VANISHED_SHARE = 0.002


class Draw(Protocol):
    """Draws a world."""

    def __call__(self, *, products: int, days: float, seed: int) -> World:
        """Return the world of this seed."""


def diurnal_world(*, products: int, days: float, seed: int) -> World:
    """Draw the steady world with busy days and quiet nights."""
    generator = rng(f"world:{seed}")
    start = draw_start(generator, products)
    rates = {sku: draw_rate(generator) for sku in start}
    changes: list[WorldChange] = []
    for sku, part in start.items():
        changes += live(generator, part, in_office_hours(generator, rates[sku], days))
    return World(
        name="diurnal", start=start, changes=in_order(changes), rates_per_day=shown_rates(rates)
    )


def equal_world(*, products: int, days: float, seed: int) -> World:
    """Draw a world in which all parts change equally often."""
    generator = rng(f"world:{seed}")
    start = draw_start(generator, products)
    rates = dict.fromkeys(start, SHARE_PER_DAY)
    changes: list[WorldChange] = []
    for part in start.values():
        changes += live(generator, part, poisson(generator, SHARE_PER_DAY, days))
    return World(
        name="equal", start=start, changes=in_order(changes), rates_per_day=shown_rates(rates)
    )


def drifting_world(*, products: int, days: float, seed: int) -> World:
    """Draw a world in which a part takes another rate after some days; it has no true one."""
    generator = rng(f"world:{seed}")
    start = draw_start(generator, products)
    changes: list[WorldChange] = []
    for part in start.values():
        changes += live(generator, part, _drifting(generator, days))
    return World(name="drifting", start=start, changes=in_order(changes))


def _drifting(generator: Rng, days: float) -> Iterator[float]:
    from_days = 0.0
    while from_days < days:
        lasts_days = generator.expovariate(1 / DRIFT_DAYS)
        rate_per_day = draw_rate(generator)
        for at_s in poisson(generator, rate_per_day, min(lasts_days, days - from_days)):
            yield from_days * DAY_S + at_s
        from_days += lasts_days


def faulty_world(*, products: int, days: float, seed: int) -> World:
    """Draw the steady world with a faulty supplier: see `faults_of`."""
    steady = seeded_world(products=products, days=days, seed=seed)
    return replace(steady, name="faulty", faults=faults_of(products, days))


def faults_of(products: int, days: float) -> tuple[str, ...]:
    """Return the faults: 2 % of calls, 90 minutes of outage every third day, missing parts."""
    outages = [
        f"outage:90m@{day}d14:00"
        for day in range(0, math.ceil(days), OUTAGE_EVERY_DAYS)
        if day + 14 / 24 < days
    ]
    vanished = min(products, math.ceil(products * VANISHED_SHARE))
    return (*FAULTY_CALLS, *outages, f"vanish:{vanished}@06:00")


WORLDS: dict[str, Draw] = {
    "steady": seeded_world,
    "bursty": bursty_world,
    "diurnal": diurnal_world,
    "faulty": faulty_world,
    "equal": equal_world,
    "drifting": drifting_world,
    "mislabelled": mislabelled_world,
}
