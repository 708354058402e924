"""Baselines of a result: the best possible, and round robin with every permitted seat.

Both are in stale minutes per listing and day, over the days of the run, from shops that are correct
at the start, for the listings that the figures follow. Neither includes faults, nor the seconds
between a read and the shop.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headway.config import Settings
from headway.core.catalog.listings import Sku
from headway.core.timetable.capacity import Throughput
from headway.core.timetable.optimum import DAY_MIN, relaxed_optimum
from headway_lab.simulation.scenario import Scenario
from headway_lab.simulation.truth import ShopFields
from headway_lab.simulation.world import DAY_S, World
from headway_lab.simulators.boeing import DELAY_S, SupplierPart
from headway_lab.simulators.transport import NETWORK_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """The permitted budget, and what could be made of it; a world without rates has no bound."""

    seats_per_min: float
    bound_min: float | None
    round_robin_min: float


def baselines(scenario: Scenario) -> Baselines:
    """Measure what was possible in a run."""
    plan, throughput = scenario.plan, permitted(scenario.settings)
    listings = Counter(
        str(shop_listing.sku)
        for shop_listing in scenario.shops.shop_listings.values()
        if not scenario.affected.affects(shop_listing.sku)
    )
    return Baselines(
        seats_per_min=throughput.seats_per_min,
        bound_min=bound(plan.world, listings, throughput, days=plan.days),
        round_robin_min=replay_round_robin(
            plan.world,
            listings,
            throughput,
            days=plan.days,
            shop_fields=lambda part: scenario.reference.see(part).shop_fields,
        ),
    )


def permitted(settings: Settings) -> Throughput:
    """Return the throughput of the limiter at the simulated supplier's mean response time."""
    return Throughput(
        calls_per_min=settings.rate_limit,
        gap_s=settings.rate_gap_s,
        seats=settings.batch_size,
        response_s=sum(DELAY_S) / 2 + sum(NETWORK_S) / 2,
    )


def bound(
    world: World, listings: Mapping[str, int], throughput: Throughput, *, days: float
) -> float | None:
    """Return the relaxed optimum with true rates, or None where there are none.

    A shop that is correct at the start counts as read then: a part that is read n times has n + 1
    equal spans at best. So each SKU adds one read to what the days permit.
    """
    if world.rates_per_day is None:
        return None
    skus = list(world.start)
    return relaxed_optimum(
        [world.rates_per_day[sku] for sku in skus],
        throughput.seats_per_min + len(skus) / (days * DAY_MIN),
        cap_min=min(DAY_MIN, days * DAY_MIN),
        weights=[listings.get(sku, 0) for sku in skus],
    )


def replay_round_robin(
    world: World,
    listings: Mapping[str, int],
    throughput: Throughput,
    *,
    days: float,
    shop_fields: Callable[[SupplierPart], ShopFields],
) -> float:
    """Return the staleness of the run's own changes if SKUs are read in turn, the first at once."""
    end_s, cycle_s = days * DAY_S, DAY_S / throughput.price_calls_per_day
    place = {str(sku): number for number, sku in enumerate(world.start)}

    def next_read_s(sku: str, at_s: float) -> float:
        call = -(-at_s // cycle_s)
        rounds = max(0, -(-(call * throughput.seats - place[sku]) // len(place)))
        return float((rounds * len(place) + place[sku]) // throughput.seats * cycle_s)

    moving = {Sku(change.part.sku) for change in world.changes if listings.get(change.part.sku)}
    truth: dict[str, ShopFields] = {sku: shop_fields(world.start[sku]) for sku in moving}
    shown = dict(truth)
    since_s = dict.fromkeys(truth, 0.0)
    stale_s = 0.0

    def pass_until(sku: str, now_s: float) -> float:
        """Return how long the shop was wrong since the last change, and count this read."""
        if shown[sku] == truth[sku]:
            return 0.0
        read_s = next_read_s(sku, since_s[sku])
        if read_s < now_s:
            shown[sku] = truth[sku]
        return (min(read_s, now_s) - since_s[sku]) * listings[sku]

    for change in world.changes:
        sku = change.part.sku
        if sku in truth and change.at_s < end_s:
            stale_s += pass_until(sku, change.at_s)
            truth[sku], since_s[sku] = shop_fields(change.part), change.at_s
    stale_s += sum(pass_until(sku, end_s) for sku in truth)
    followed = sum(listings.values())
    return stale_s / 60 / followed / days if followed else 0.0
