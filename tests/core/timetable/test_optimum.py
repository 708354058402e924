"""The yardsticks of freshness: exact where a formula is known, ordered as theory says."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.timetable.optimum import (
    optimal_intervals,
    relaxed_optimum,
    round_robin,
    stale_min_per_day,
)
from headway.core.timetable.population import population as typical

rates = st.lists(
    st.one_of(st.just(0.0), st.floats(min_value=1e-9, max_value=50)), min_size=1, max_size=30
)
seats = st.floats(min_value=0.01, max_value=100)
caps = st.floats(min_value=10, max_value=10_000)


def test_what_changes_and_is_read_once_a_day_is_stale_for_a_share_of_one_over_e() -> None:
    assert stale_min_per_day(1, 1440) == pytest.approx(1440 * math.exp(-1))
    assert stale_min_per_day(0, 1440) == 0
    assert stale_min_per_day(1e-12, 60) == pytest.approx(1440 * 1e-12 * 60 / 1440 / 2)


def test_the_series_meets_the_formula_where_they_change_over() -> None:
    interval_min = 0.01 * 1440
    assert stale_min_per_day(1 - 1e-9, interval_min) == pytest.approx(
        stale_min_per_day(1 + 1e-9, interval_min), rel=1e-7
    )


def test_rare_changes_are_read_by_the_square_root_law() -> None:
    often, seldom = optimal_intervals([4e-6, 1e-6], seats_per_min=0.01, cap_min=1e6)
    assert seldom / often == pytest.approx(2, rel=1e-5)


def test_the_last_look_at_each_listing_is_worth_the_same() -> None:
    rates = [8.0, 1.0, 0.1]
    worth = [
        (1 - (1 + rate * interval_min / 1440) * math.exp(-rate * interval_min / 1440)) / rate
        for rate, interval_min in zip(rates, optimal_intervals(rates, 0.02, 1e6), strict=True)
    ]
    assert worth == pytest.approx([worth[0]] * 3, rel=1e-6)


def test_a_listing_that_is_worth_four_times_as_much_is_read_twice_as_often() -> None:
    dear, cheap = optimal_intervals([1e-6, 1e-6], 0.01, 1e6, weights=[4, 1])
    assert cheap / dear == pytest.approx(2, rel=1e-5)


def test_what_changes_all_the_time_is_not_worth_chasing() -> None:
    wild, calm = optimal_intervals([5000, 1], seats_per_min=0.01, cap_min=1440)
    assert wild == 1440
    assert calm < 120


def test_what_never_changes_or_is_worth_nothing_is_read_at_the_cap() -> None:
    assert optimal_intervals([0, 1, 1], 0.5, 1440, weights=[1, 0, 1])[:2] == [1440, 1440]
    assert relaxed_optimum([0, 0], 1) == 0
    assert relaxed_optimum([1, 2], 1, weights=[0, 0]) == 0
    assert relaxed_optimum([], 1) == round_robin([], 1) == 0


def test_where_the_cap_cannot_be_kept_all_are_read_equally_often() -> None:
    population = list(typical(200))
    assert relaxed_optimum(population, 0.1, 1440) == round_robin(population, 0.1)
    assert optimal_intervals(population, 0.1, 1440) == [2000.0] * 200


@settings(deadline=None)
@given(rates, seats, caps)
def test_the_optimum_uses_the_seats_there_are_and_no_more(
    population: list[float], seats_per_min: float, cap_min: float
) -> None:
    intervals_min = optimal_intervals(population, seats_per_min, cap_min)
    used = sum(1 / interval_min for interval_min in intervals_min)
    if len(population) >= seats_per_min * cap_min:
        assert used == pytest.approx(seats_per_min)
        return
    assert max(intervals_min) <= cap_min
    if all(0 < rate < 20 for rate in population):
        assert used == pytest.approx(seats_per_min, rel=1e-6)
    assert used <= seats_per_min * (1 + 1e-9)


@settings(deadline=None)
@given(rates, seats, caps)
def test_the_optimum_is_never_worse_than_round_robin(
    population: list[float], seats_per_min: float, cap_min: float
) -> None:
    equal = round_robin(population, seats_per_min)
    assert relaxed_optimum(population, seats_per_min, cap_min) <= equal * (1 + 1e-6) + 1e-9


@settings(deadline=None)
@given(rates, seats, st.floats(min_value=1, max_value=10))
def test_more_seats_never_make_the_optimum_worse(
    population: list[float], seats_per_min: float, more: float
) -> None:
    before = relaxed_optimum(population, seats_per_min)
    after = relaxed_optimum(population, seats_per_min * more)
    assert after <= before * (1 + 1e-6) + 1e-9


@settings(deadline=None)
@given(st.floats(min_value=1e-6, max_value=20), st.integers(min_value=1, max_value=50), seats)
def test_if_all_change_alike_round_robin_is_the_optimum(
    rate: float, count: int, seats_per_min: float
) -> None:
    population = [rate] * count
    best, equal = relaxed_optimum(population, seats_per_min), round_robin(population, seats_per_min)
    assert best == pytest.approx(equal, rel=1e-6)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(min_value=1e-4, max_value=5), st.floats(min_value=0.01, max_value=1)),
        min_size=2,
        max_size=8,
    )
)
def test_no_other_split_of_the_seats_is_better(listings: list[tuple[float, float]]) -> None:
    seats_per_min = 0.02
    best = relaxed_optimum([rate for rate, _ in listings], seats_per_min, cap_min=1e9)
    total = sum(share for _, share in listings)
    other = [stale_min_per_day(rate, total / (share * seats_per_min)) for rate, share in listings]
    assert best <= sum(other) / len(other) * (1 + 1e-6)
