"""The report of a run: the figures that `headway simulate --json` prints, in the design's order."""

import csv
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.config import Settings
from headway.core.catalog.listings import Sku
from headway.core.timetable.capacity import Throughput
from headway.core.timetable.optimum import DAY_MIN, relaxed_optimum
from headway.errors import InvalidError
from headway_lab.simulation.faults import SHOP
from headway_lab.simulation.figures import percentile
from headway_lab.simulation.hours import HOUR_S, hours_in
from headway_lab.simulation.scenario import Scenario
from headway_lab.simulation.truth import ShopFields
from headway_lab.simulation.world import DAY_S, World
from headway_lab.simulators.boeing import DELAY_S, SupplierPart
from headway_lab.simulators.transport import NETWORK_S

HOURS = 24
WINDOWS_PER_DAY = 6


def figures(scenario: Scenario, *, real_seconds: float) -> dict[str, Any]:
    """Return the whole report; only the two figures of real time differ between equal runs."""
    plan, tally, simulator = scenario.plan, scenario.tally, scenario.simulator
    versions, shops = scenario.versions, scenario.shops.simulator
    push_s = sorted(versions.push_s)
    calls = len(scenario.log.price_calls)
    seats_paid = calls * scenario.settings.batch_size
    followed_s = scenario.figures.followed * plan.days * DAY_S
    wrong_share = tally.wrong_s / followed_s if followed_s else 0.0
    staleness_min = wrong_share * 1440
    possible = baselines(scenario)
    return {
        "lane": "catalog",
        "policy": plan.policy,
        "products": len(plan.world.start),
        "days": plan.days,
        "seed": plan.seed,
        "world": plan.world.name,
        "calls": calls,
        "seats_used": scenario.log.seats_used,
        "seats_paid": seats_paid,
        "fill": round(scenario.log.seats_used / seats_paid, 4) if seats_paid else None,
        "max_calls_in_window": simulator.max_calls_in_window,
        "refusals": simulator.refusals,
        "laws": scenario.violations.counts,
        "laws_not_in_play": scenario.violations.not_checked,
        "freshness": round(1 - wrong_share, 6),
        "staleness_min_per_listing_day": round(staleness_min, 3),
        "staleness_bound_min": _rounded(possible.bound_min),
        "staleness_round_robin_min": round(possible.round_robin_min, 3),
        "staleness_to_bound": _ratio(staleness_min, possible.bound_min),
        "staleness_to_round_robin": _ratio(staleness_min, possible.round_robin_min),
        "permitted_seats_per_min": round(possible.seats_per_min, 3),
        "detection_p50_min": _minutes(percentile(tally.detection_s, 0.5)),
        "detection_p95_min": _minutes(percentile(tally.detection_s, 0.95)),
        "worst_age_h": round(scenario.deadlines.worst_age_s / 3600, 3),
        "changes": tally.changes,
        "pushed": versions.pushed,
        "held": len(scenario.laws.held),
        "superseded": tally.superseded + versions.superseded,
        "lost": scenario.lost,
        "double_writes": len(shops.double_writes()),
        "push_p50_s": _rounded(percentile(push_s, 0.5)),
        "push_p95_s": _rounded(percentile(push_s, 0.95)),
        "parked": len(scenario.laws.parked),
        "scheduled_per_hour": _per_hour(scenario),
        "retries_per_window": _per_window(scenario),
        "staleness_by_hour": _staleness_by_hour(scenario),
        "calls_by_hour": _calls_by_hour(scenario),
        "rescued": scenario.laws.rescued,
        "eta_within_headway": scenario.forecasts.figures(),
        "alerts": scenario.alerts.figures() if plan.is_watched else None,
        "auth_calls": simulator.calls["oauth"] + simulator.calls["part_token"],
        "shop_calls": dict(sorted(shops.calls.items())),
        "shop_points": shops.points,
        "shop_refusals": shops.refusals,
        "faults_injected": _injected(scenario),
        "culprits": scenario.culprits,
        "real_seconds": round(real_seconds, 2),
        "simulated_seconds_per_real_second": round(plan.days * DAY_S / max(real_seconds, 1e-9)),
    }


def write_trace(scenario: Scenario, path: Path) -> None:
    """Write each seat of each price call as a row `t_min,call,sku,ok`."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("t_min", "call", "sku", "ok"))
            for price_call in scenario.log.price_calls:
                for sku in price_call.skus:
                    is_read = int(sku in price_call.read)
                    writer.writerow(
                        (f"{price_call.at_s / 60:.4f}", price_call.number, sku, is_read)
                    )
    except OSError as error:
        raise InvalidError(f"cannot write --trace {path}: {error.strerror or error}") from None


def _minutes(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds / 60, 1)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def _ratio(staleness_min: float, baseline_min: float | None) -> float | None:
    return round(staleness_min / baseline_min, 3) if baseline_min else None


def _per_hour(scenario: Scenario) -> list[float]:
    """Return the scheduled calls in each hour of the day, as an average day has them."""
    counts = [0] * HOURS
    for price_call in scenario.log.price_calls:
        if price_call.is_scheduled:
            counts[int(price_call.at_s // 3600) % HOURS] += 1
    return [round(count / scenario.plan.days, 2) for count in counts]


def _per_window(scenario: Scenario) -> list[int]:
    """Return the most retry seats in each four-hour window of a day, the first from 02:30 on."""
    most = [0] * WINDOWS_PER_DAY
    for window, seats in scenario.laws.retry_seats.items():
        most[window % WINDOWS_PER_DAY] = max(most[window % WINDOWS_PER_DAY], seats)
    return most


def _staleness_by_hour(scenario: Scenario) -> list[float]:
    """Return the stale minutes per listing in each hour of the run: at most 60 each."""
    followed = scenario.figures.followed
    seconds = scenario.tally.wrong_s_by_hour
    return [round(wrong_s / followed / 60, 6) if followed else 0.0 for wrong_s in seconds]


def _calls_by_hour(scenario: Scenario) -> list[int]:
    """Return the price calls in each hour of the run."""
    counts = [0] * hours_in(scenario.plan.days * DAY_S)
    for price_call in scenario.log.price_calls:
        # What leaves at the very end belongs to the last hour.
        counts[min(int(price_call.at_s // HOUR_S), len(counts) - 1)] += 1
    return counts


def _injected(scenario: Scenario) -> dict[str, int]:
    people, shops = scenario.people, scenario.shops.simulator
    injected = {str(kind): count for kind, count in scenario.simulator.faults.injected.items()}
    injected |= {f"{SHOP}{kind}": count for kind, count in shops.faults.injected.items()}
    injected |= {"crash": scenario.workers.crashes, "stall": scenario.workers.stalls}
    injected |= {"shop-edit": people.edits, "shop-sale": people.sales}
    injected["shop-stale"] = people.renumbered
    return {kind: count for kind, count in sorted(injected.items()) if count}


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
    """Return the staleness of the run's changes if SKUs are read in order, beginning at once."""
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
