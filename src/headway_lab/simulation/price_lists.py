"""Worlds with families: price lists move half of a maker's parts at once, stock moves in bursts.

About a third of all changes come from lists, the others are moves of stock. All of it follows the
rhythm of the day.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from headway.clock import Rng, rng
from headway.core.catalog.listings import Sku
from headway.core.timetable.population import SHARE_PER_DAY
from headway_lab.simulation.office_hours import in_office_hours
from headway_lab.simulation.world import (
    DAY_S,
    World,
    WorldChange,
    draw_factor,
    draw_rate,
    draw_start,
    repriced,
    restocked,
)
from headway_lab.simulators.boeing import SupplierPart

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
