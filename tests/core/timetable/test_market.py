import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.timetable.market import Market, initial_price, look_after_min, price_after, worth
from headway.core.timetable.rates import GRID, Prior

rates = st.floats(1e-6, 100)
ages = st.floats(0.01, 1e5)
weights = st.floats(0.001, 1000)


@given(rate=rates, age=ages, weight=weights)
def test_a_look_is_worth_more_the_longer_one_waits(rate: float, age: float, weight: float) -> None:
    value = worth(rate, age, weight)
    assert 0 <= value <= weight * age
    assert value <= worth(rate, age * 1.1, weight) * (1 + 1e-9)
    assert value == pytest.approx(weight * worth(rate, age), rel=1e-9)


def test_a_look_is_worth_what_the_theory_says() -> None:
    rate, age = 3.0, 600.0
    x = rate / 1440 * age
    assert worth(rate, age) == pytest.approx((1 - (1 + x) * math.exp(-x)) / (rate / 1440))
    assert worth(1e-6, 100) == pytest.approx(1e-6 / 1440 * 100**2 / 2, rel=1e-6)
    assert worth(0, 100) == worth(1, 0) == 0


def test_worth_has_no_step_where_the_series_ends() -> None:
    below, above = worth(1.44, 0.999999), worth(1.44, 1.000001)
    assert below == pytest.approx(above, rel=1e-5)


@given(rate=rates, price=st.floats(1e-6, 1e4), weight=weights)
def test_a_listing_waits_until_a_look_is_worth_its_price(
    rate: float, price: float, weight: float
) -> None:
    wait = look_after_min(rate, price, weight, most_min=1320)
    assert 0 < wait <= 1320
    if wait < 1320:
        assert worth(rate, wait, weight) == pytest.approx(price, rel=1e-6)
    else:
        assert worth(rate, 1320, weight) <= price * (1 + 1e-6)


def test_waits_follow_the_square_root_law_while_changes_are_few() -> None:
    slow, fast = look_after_min(0.01, 1.0), look_after_min(0.04, 1.0)
    assert slow / fast == pytest.approx(2, rel=0.01)
    assert look_after_min(0.05, 1.0, 4.0) == pytest.approx(look_after_min(0.05, 0.25), rel=1e-9)


def test_a_hopeless_listing_waits_as_long_as_it_may() -> None:
    assert look_after_min(24, 60.0) == 1320, "stale again before the look has paid"
    assert look_after_min(0, 1.0) == 1320
    assert look_after_min(1, 0.0) == 0


def test_a_look_just_short_of_never_paying_is_late_but_no_error() -> None:
    rate, price, weight = 133.5347258451838, 108.9767399816014, 10.105679928434045
    assert worth(rate, 1320, weight) > price
    assert 0 < look_after_min(rate, price, weight) <= 1320


def test_at_the_first_price_all_listings_are_read_equally_often() -> None:
    price = initial_price(5000, 19.0, Prior())
    assert look_after_min(Prior().mean, price) == pytest.approx(5000 / 19)
    assert Market(listings=5000, seats_per_min=19.0).going_price == price
    assert Market(listings=5000, seats_per_min=19.0, price=3.0).going_price == 3


@given(listings=st.integers(0, 20_000))
def test_the_price_of_a_fitted_prior_sells_the_seats_that_there_are(listings: int) -> None:
    prior = Prior().refit([(0.0, 30.0, 100), (1.0, 30.0, 30), (20.0, 30.0, 5)])
    price = initial_price(listings, 19.0, prior)
    waits = [max(1.0, look_after_min(rate, price)) for rate in GRID]
    demand = listings * sum(share / wait for share, wait in zip(prior.shares, waits, strict=True))
    if listings > 50:
        assert demand == pytest.approx(19.0, rel=0.01)
    assert price > 0


def test_late_makes_dear_and_early_makes_cheap() -> None:
    assert price_after(0.0, 10.0, 1.0, 5000, 20.0) == pytest.approx(10 / 250**2)
    assert price_after(0.0, -10.0, 1.0, 5000, 20.0) == pytest.approx(-10 / 250**2)


@given(lag=st.floats(-1e6, 1e6), minutes=st.floats(-10, 1e6), listings=st.integers(0, 10**6))
def test_no_single_call_moves_the_price_far(lag: float, minutes: float, listings: int) -> None:
    step = price_after(1.0, lag, minutes, listings, 20.0) - 1.0
    assert math.isfinite(step)
    if listings > 100:
        assert abs(step) <= 0.5 * 5.0 / (listings / 20.0) + 1e-12
