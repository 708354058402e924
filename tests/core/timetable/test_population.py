"""Typical parts: how many change within a day, how unequal they are; few stand for many."""

import math

import pytest

from headway.clock import rng
from headway.core.timetable.optimum import relaxed_optimum, round_robin
from headway.core.timetable.population import SHARE_PER_DAY, population, rate_at

# A study of such catalogs: listings → stale minutes with round robin, and at the optimum.
STUDY = {
    1_000: (1.99, 0.74),
    5_000: (8.91, 3.82),
    10_000: (16.5, 7.49),
    20_000: (29.9, 15.99),
    28_800: (40.2, 40.2),
}


def test_five_per_cent_of_typical_parts_change_within_a_day_and_most_hardly_ever() -> None:
    rates = population()
    within_a_day = [-math.expm1(-rate) for rate in rates]
    assert sum(within_a_day) / len(rates) == pytest.approx(SHARE_PER_DAY, rel=0.06)
    assert list(rates) == sorted(rates)
    assert rates[-1] > 10
    assert sum(rate < 0.02 for rate in rates) > len(rates) / 2


@pytest.mark.parametrize("listings", STUDY)
def test_round_robin_and_the_optimum_cost_about_what_the_study_reports(listings: int) -> None:
    rates = population()
    seats_per_min = 20 * len(rates) / listings
    equal, best = STUDY[listings]
    assert round_robin(rates, seats_per_min) == pytest.approx(equal, rel=0.1)
    assert relaxed_optimum(rates, seats_per_min) == pytest.approx(best, rel=0.1)


def test_few_typical_parts_stand_for_many_drawn_ones() -> None:
    generator = rng("population")
    drawn = [rate_at(generator.random()) for _ in range(20_000)]
    few = population()
    for yardstick in (relaxed_optimum, round_robin):
        assert yardstick(few, 0.004 * len(few)) == pytest.approx(
            yardstick(drawn, 0.004 * len(drawn)), rel=0.08
        )
