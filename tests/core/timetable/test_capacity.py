"""The capacity answer: the documents' numbers, what the limiter permits, and what gives way."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.core.timetable.capacity import (
    FAILING_SHARE,
    Throughput,
    breaks,
    expect_adaptive,
    expect_all,
    expect_once_a_day,
    guard_ceiling,
    headroom,
    onboarding_min,
    retry_seats_per_day,
    row,
    weigh_up,
)
from headway.core.timetable.policies import POLICIES, RetryWindow
from headway.core.timetable.policies.rolling import Rolling

USUAL = Throughput()
DAILY = [policy for policy in POLICIES.values() if not policy.is_eager]
products = st.integers(min_value=1, max_value=60_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed(Rolling):
    """A policy that retries every four hours at half past two, with few seats."""

    name: str = "windowed"

    def retry_window(self, now: datetime, listings: int) -> RetryWindow | None:
        del listings
        since = timedelta(hours=(now.hour - 2) % 4, minutes=now.minute - 30)
        if since < timedelta(0):
            since += timedelta(hours=4)
        opens_at = now - since
        return RetryWindow(opens_at=opens_at, closes_at=opens_at + timedelta(hours=4), seats_max=50)


@pytest.mark.parametrize(
    ("count", "slots", "calls", "share"),
    (
        (50, 5, 5, "0.2%"),
        (100, 10, 10, "0.3%"),
        (500, 24, 50, "1.7%"),
        (5_000, 24, 500, "17.4%"),
        (10_000, 24, 1_000, "34.7%"),
        (28_800, 24, 2_880, "100.0%"),
    ),
)
def test_the_capacity_table_of_the_documents_comes_out(
    count: int, slots: int, calls: int, share: str
) -> None:
    capacity = weigh_up(count, USUAL, ()).once_a_day
    assert capacity == row(count, USUAL)
    assert (capacity.slots, capacity.calls_per_day) == (slots, calls)
    assert f"{capacity.limit_share:.1%}" == share


@pytest.mark.parametrize(
    ("count", "hourly"), ((1000, 42), (5000, 208), (10_000, 417), (20_000, 833))
)
def test_the_documents_products_per_hour_come_out(count: int, hourly: int) -> None:
    assert round(row(count, USUAL).per_hour) == hourly


def test_an_answer_costs_its_own_time_as_the_record_of_the_limiter_says() -> None:
    assert round(Throughput(response_s=0.5).calls_per_day) == 2833
    assert round(Throughput(response_s=2).calls_per_day) == 2700
    assert Throughput(response_s=0, gap_s=30).calls_per_day == Throughput().limit_per_day


def test_without_a_gap_the_window_alone_counts() -> None:
    burst = Throughput(gap_s=0, response_s=1)
    assert burst.calls_per_day == pytest.approx(2 * 86_400 / 61)


def test_tokens_cost_two_calls_every_59_minutes() -> None:
    spent = USUAL.calls_per_day - USUAL.price_calls_per_day
    assert spent == pytest.approx(2 * 24 * 60 / 59)
    assert Throughput(calls_per_min=0.01, gap_s=6000).price_calls_per_day == 0


def test_the_share_that_is_permitted_lies_where_it_was_measured() -> None:
    slow, fast = Throughput(response_s=1.4), Throughput(response_s=0.7)
    shares = [setup.price_calls_per_day / setup.limit_per_day for setup in (slow, fast)]
    assert 0.935 < shares[0] < shares[1] < 0.965


def test_a_higher_limit_loses_more_to_answers() -> None:
    double = USUAL.faster(2)
    assert (double.calls_per_min, double.gap_s) == (4, 15)
    assert 1.9 * USUAL.seats_per_min < double.seats_per_min < 2 * USUAL.seats_per_min


def test_the_ceiling_of_the_guard_is_that_of_the_facts() -> None:
    assert guard_ceiling(20) == 23_780
    assert guard_ceiling(40) == 2 * 23_780


@settings(deadline=None, max_examples=40)
@given(products)
def test_it_fits_as_long_as_the_calls_of_a_day_suffice(count: int) -> None:
    for expected in expect_all(count, USUAL, DAILY):
        assert expected.fits == (count <= 27_382)
        assert expected.calls_per_day <= USUAL.price_calls_per_day
        assert expected.age_typical_h <= expected.age_worst_h


@settings(deadline=None, max_examples=40)
@given(products, st.integers(min_value=1, max_value=5000))
@example(22_609, 1)
def test_data_never_get_fresher_by_adding_parts(count: int, add: int) -> None:
    for before, after in zip(
        expect_all(count, USUAL, DAILY), expect_all(count + add, USUAL, DAILY), strict=True
    ):
        assert after.age_worst_h >= before.age_worst_h * (1 - 1e-9)
        # Above this size `adaptive` keeps no reserve for an outage, which makes seats free at once.
        ceiling = guard_ceiling(USUAL.adaptive_seats_per_min)
        if not count <= ceiling < count + add or after.policy != "adaptive":
            assert after.stale_min_per_day >= before.stale_min_per_day * (1 - 1e-9)


@settings(deadline=None, max_examples=40)
@given(products)
def test_adaptive_is_never_staler_than_once_a_day(count: int) -> None:
    daily = expect_once_a_day(Rolling(), count, USUAL)
    assert expect_adaptive(count, USUAL).stale_min_per_day <= daily.stale_min_per_day * (1 + 1e-9)


def test_once_a_day_is_half_a_day_old_and_an_hour_late_at_worst() -> None:
    expected = expect_once_a_day(Rolling(), 5000, USUAL)
    assert (expected.age_typical_h, expected.age_worst_h, expected.calls_per_day) == (12, 25, 500)
    assert expected.stale_min_per_day == pytest.approx(39.1, abs=0.1)
    too_many = expect_once_a_day(Rolling(), 2 * 27_383, USUAL)
    assert too_many.age_worst_h == pytest.approx(49, abs=0.1)
    assert too_many.permitted_share == pytest.approx(2, rel=1e-3)


def test_adaptive_keeps_a_reserve_while_it_can() -> None:
    ceiling = guard_ceiling(USUAL.seats_per_min)
    assert expect_adaptive(ceiling, USUAL).age_worst_h <= 22
    assert 22 < expect_adaptive(ceiling + 1, USUAL).age_worst_h <= 24
    assert headroom(ceiling, USUAL).keeps_promise_through_outage
    assert not headroom(ceiling + 1, USUAL).keeps_promise_through_outage


def test_an_outage_is_caught_up_with_by_the_spare_calls() -> None:
    spare = headroom(13_691, USUAL)  # half of what fits
    assert spare.failing_share_max == pytest.approx(0.5, abs=0.001)
    assert spare.catch_up_h == pytest.approx(2, abs=0.01)
    assert headroom(30_000, USUAL).catch_up_h is None
    assert headroom(30_000, USUAL).spare_calls_per_day == 0


def test_the_first_limits_are_listed_in_the_order_of_growth() -> None:
    limits = breaks(USUAL, DAILY)
    assert [limit.products for limit in limits] == sorted(limit.products for limit in limits)
    assert limits[0].products == guard_ceiling(USUAL.seats_per_min)
    assert limits[0].what.startswith("adaptive: a two-hour outage")
    assert limits[-1].products == USUAL.products_max
    hourly = USUAL.seats_per_min * 60
    by_chance = next(limit.products for limit in limits if "fullest hour" in limit.what) / 24
    assert by_chance + 2 * math.sqrt(by_chance) == pytest.approx(hourly, rel=1e-3)


def test_retry_windows_break_where_more_fail_than_they_carry() -> None:
    assert retry_seats_per_day(Windowed(), 5000) == 6 * 50
    assert retry_seats_per_day(Rolling(), 5000) is None
    windows = [break_ for break_ in breaks(USUAL, [Windowed()]) if "retry windows" in break_.what]
    assert [limit.products for limit in windows] == [300 / FAILING_SHARE]
    assert expect_once_a_day(Windowed(), 5000, USUAL).retry_seats_per_day == 300


def test_new_parts_take_what_is_left_and_at_least_two_seats_of_ten() -> None:
    alone = onboarding_min(0, 1000, USUAL)
    beside = onboarding_min(5000, 1000, USUAL)
    crowded = onboarding_min(40_000, 1000, USUAL)
    assert alone == pytest.approx(1000 / USUAL.seats_per_min)
    assert beside == pytest.approx(1000 / (USUAL.seats_per_min - 5000 / 1440))
    assert crowded == pytest.approx(5 * alone)
    assert onboarding_min(40_000, 10, Throughput(seats=1)) is None


def test_the_whole_answer_holds_together() -> None:
    plan = weigh_up(5000, USUAL, DAILY, add=23_000)
    assert plan.fits
    assert plan.growth is not None
    assert not plan.growth.fits
    assert plan.growth.expected[-1] == expect_adaptive(28_000, USUAL)
    assert [rate.calls_per_min for rate in plan.faster] == [2, 4, 10]
    stale = [rate.adaptive.stale_min_per_day for rate in plan.faster]
    assert stale == sorted(stale, reverse=True)
    assert weigh_up(5000, USUAL, DAILY).growth is None
