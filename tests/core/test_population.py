"""Typical parts: the right mean, the right spread, and as unequal as a gamma population."""

import pytest

from headway.clock import rng
from headway.core.optimum import relaxed_optimum, round_robin
from headway.core.population import RATE_MEAN_PER_DAY, RATE_SHAPE, population


def test_typical_parts_change_five_per_cent_a_day_on_average_and_most_hardly_ever() -> None:
    rates = population()
    assert sum(rates) / len(rates) == pytest.approx(0.05)
    assert list(rates) == sorted(rates)
    assert sum(rate < 0.01 for rate in rates) > len(rates) / 3
    assert rates[-1] > 0.5


def test_few_typical_parts_stand_for_many_drawn_ones() -> None:
    generator = rng("population")
    scale = RATE_MEAN_PER_DAY / RATE_SHAPE
    drawn = [generator.gammavariate(RATE_SHAPE, scale) for _ in range(20_000)]
    few = population()
    for yardstick in (relaxed_optimum, round_robin):
        assert yardstick(few, 0.004 * len(few)) == pytest.approx(
            yardstick(drawn, 0.004 * len(drawn)), rel=0.03
        )
