"""The baselines of a result: of the same history, listings and days."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.app import App
from headway.config import Settings
from headway.core.catalog.listings import Sku
from headway.core.timetable.capacity import TOKEN_CALLS_PER_DAY, Throughput
from headway.core.timetable.optimum import relaxed_optimum, round_robin, stale_min_per_day
from headway.store.pool import Pool
from headway_lab.simulation.report import bound, figures, permitted, replay_round_robin
from headway_lab.simulation.scenario import Parts, Plan, Scenario
from headway_lab.simulation.world import World, WorldChange, seeded_world
from headway_lab.simulation.worlds import WORLDS
from headway_lab.simulators.boeing import SupplierPart

PERMITTED = permitted(Settings())


def part(sku: str, price: int = 1) -> SupplierPart:
    return SupplierPart(sku=sku, list_price=None, net_price=Decimal(price), stock={})


def world_of(count: int, *changes: tuple[float, str, int]) -> World:
    start = {Sku(sku): part(sku) for sku in "ABCDEFGHIJ"[:count]}
    return World(
        name="x",
        start=start,
        changes=tuple(
            WorldChange(at_s=at_s, part=part(sku, price)) for at_s, sku, price in changes
        ),
    )


def throughput_of(price_calls_per_day: float, *, seats: int) -> Throughput:
    gap_s = 86_400 / (price_calls_per_day + TOKEN_CALLS_PER_DAY)
    return Throughput(calls_per_min=1e9, gap_s=gap_s, seats=seats, response_s=0)


def replayed(world: World, **listings: int) -> float:
    """Return the stale seconds of a day in all, with a call of two seats a minute."""
    counted = listings or dict.fromkeys(map(str, world.start), 1)
    throughput = throughput_of(1440, seats=2)
    minutes = replay_round_robin(
        world, counted, throughput, days=1, shop_fields=lambda part: {"price": part.net_price}
    )
    return minutes * 60 * sum(counted.values())


def test_a_change_is_stale_until_its_part_is_read_again() -> None:
    # Six parts, two a minute: A and B at 0, 3, 6 ... minutes, E and F at 2, 5 ...
    assert replayed(world_of(6, (10, "A", 2))) == pytest.approx(170)
    assert replayed(world_of(6, (10, "B", 2))) == pytest.approx(170)
    assert replayed(world_of(6, (10, "E", 2))) == pytest.approx(110)
    assert replayed(world_of(6, (130, "F", 2))) == pytest.approx(170)


def test_the_round_robin_continues_after_the_end_of_a_round() -> None:
    # Of five parts the second round begins in the middle of a call: A at 0, 2, 5, 7 ...
    assert replayed(world_of(5, (10, "A", 2))) == pytest.approx(110)
    assert replayed(world_of(5, (130, "A", 2))) == pytest.approx(170)


def test_a_change_taken_back_is_stale_only_between() -> None:
    assert replayed(world_of(6, (10, "A", 2), (40, "A", 1))) == pytest.approx(30)
    # ... unless it was read meanwhile, and is wrong until the next read.
    assert replayed(world_of(6, (170, "A", 2), (190, "A", 1))) == pytest.approx(10 + 170)


def test_of_two_changes_before_a_read_the_part_is_stale_since_the_first() -> None:
    assert replayed(world_of(6, (10, "A", 2), (40, "A", 3))) == pytest.approx(170)


def test_what_no_shop_shows_and_what_comes_after_the_end_is_not_counted() -> None:
    assert replayed(world_of(6, (10, "A", 1))) == 0
    assert replayed(world_of(6, (90_000, "A", 2))) == 0


def test_the_end_of_the_run_ends_the_count() -> None:
    assert replayed(world_of(6, (86_390, "A", 2))) == pytest.approx(10)


def test_each_listing_of_a_part_counts_and_a_part_that_is_not_followed_is_read_too() -> None:
    changes = ((10, "A", 2), (10, "C", 2))
    assert replayed(world_of(6, *changes), A=2, B=1) == pytest.approx(2 * 170)


def test_the_replay_matches_the_theory_of_round_robin() -> None:
    world = WORLDS["equal"](products=1000, days=60, seed=5)
    assert world.rates_per_day is not None
    replayed = replay_round_robin(
        world,
        dict.fromkeys(map(str, world.start), 1),
        PERMITTED,
        days=60,
        shop_fields=lambda part: {"price": part.net_price, "stock": shown_stock(part)},
    )
    expected = round_robin(list(world.rates_per_day.values()), PERMITTED.seats_per_min)
    assert replayed == pytest.approx(expected, rel=0.06)


def shown_stock(supplier_part: SupplierPart) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(item for item in supplier_part.stock.items() if item[0] != "Germany CSC"))


def test_the_bound_is_the_optimum_of_the_true_rates_and_none_without_them() -> None:
    world = seeded_world(products=300, days=30, seed=2)
    listings = dict.fromkeys(map(str, world.start), 1)
    assert world.rates_per_day is not None
    rates = list(world.rates_per_day.values())
    in_the_long_run = relaxed_optimum(rates, PERMITTED.seats_per_min)
    figure = bound(world, listings, PERMITTED, days=3000)
    assert figure == pytest.approx(in_the_long_run, rel=1e-3)
    assert bound(replace(world, rates_per_day=None), listings, PERMITTED, days=30) is None


def test_the_bound_counts_each_listing_of_a_part_and_those_that_are_not_followed_only_read() -> (
    None
):
    rates = {Sku("A"): 2.0, Sku("B"): 0.5, Sku("C"): 9.0}
    world = replace(world_of(3), rates_per_day=rates)
    throughput = throughput_of(60, seats=1)
    figure = bound(world, {"A": 3, "B": 1}, throughput, days=1000)
    expected = relaxed_optimum([2.0, 0.5, 9.0], 60 / 1440, weights=[3, 1, 0])
    assert figure == pytest.approx(expected, rel=1e-3)
    assert figure != pytest.approx(relaxed_optimum([2.0, 0.5, 9.0], 60 / 1440), rel=0.01)


@settings(deadline=None)
@given(st.floats(min_value=0.05, max_value=5), st.integers(min_value=1, max_value=9))
def test_a_correct_start_is_worth_a_read(days: float, reads: int) -> None:
    world = replace(world_of(1), rates_per_day={Sku("A"): 3.0})
    figure = bound(world, {"A": 1}, throughput_of(reads / days, seats=1), days=days)
    span_min = days * 1440 / (reads + 1)
    if span_min <= 1440:
        assert figure == pytest.approx(stale_min_per_day(3.0, span_min))


def test_the_throughput_is_that_of_the_real_limiter(pool: Pool, tmp_path: Path) -> None:
    def eager(app: App) -> App:
        seat_rule = replace(app.rule.seat_rule, is_eager=True)
        return replace(app, rule=replace(app.rule, seat_rule=seat_rule))

    world = seeded_world(products=60, days=0.125, seed=1)
    parts = Parts(app=eager, settings=lambda own: own.model_copy(update={"seat_value_s": 0.0}))
    scenario = Scenario(Plan(world=world, days=0.125), pool, tmp_path, parts)
    scenario.run()
    price_calls = scenario.log.price_calls
    spent_s = price_calls[-1].at_s - price_calls[0].at_s
    token_calls = scenario.simulator.calls["oauth"] + scenario.simulator.calls["part_token"] - 2
    calls = len(price_calls) - 1 + token_calls
    assert calls / spent_s * 86_400 == pytest.approx(PERMITTED.calls_per_day, rel=0.005)
    report = figures(scenario, real_seconds=1)
    assert report["permitted_seats_per_min"] == round(PERMITTED.seats_per_min, 3)
    assert report["staleness_bound_min"] < 0.2
    assert report["staleness_round_robin_min"] < 1
