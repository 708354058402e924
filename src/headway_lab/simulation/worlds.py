"""The worlds of a run, by name; in each about 5 % of the parts change a day.

With one seed they start with the same catalog.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from headway.clock import Rng, rng
from headway.core.timetable.population import SHARE_PER_DAY
from headway_lab.simulation.office_hours import in_office_hours
from headway_lab.simulation.price_lists import bursty_world, mislabelled_world
from headway_lab.simulation.world import (
    DAY_S,
    World,
    WorldChange,
    draw_rate,
    draw_start,
    in_order,
    live,
    poisson,
    seeded_world,
    shown_rates,
)

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
