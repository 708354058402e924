from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.limits.forecast import (
    DAY,
    HOUR,
    HOURS,
    Forecast,
    Use,
    forecast_quota,
    forecast_text,
    hour_of,
    pace,
)

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
NOON = hour_of(NOW)
amounts = st.floats(0, 500)
uses = st.lists(
    st.builds(
        lambda minutes, amount: Use(leaves_at=NOW + timedelta(minutes=minutes), amount=amount),
        st.integers(-60, 25 * 60),
        amounts,
    ),
    max_size=40,
)
wishes = st.lists(amounts, min_size=HOURS, max_size=HOURS)


def forecast_of(
    used: list[Use], *, limit: float = 100, reserved: float = 0, demand: list[float] | None = None
) -> Forecast:
    return forecast_quota(
        used, limit=limit, reserved=reserved, demand=demand or [0.0] * HOURS, now=NOW
    )


def inside(used: list[Use], at: datetime) -> float:
    return sum(use.amount for use in used if use.leaves_at > at)


def test_a_quota_of_which_nobody_wants_anything_is_enough_for_the_day() -> None:
    forecast = forecast_of([Use(leaves_at=NOW + 3 * HOUR, amount=40)])
    assert forecast.spent_at is None
    assert forecast.room_at is None
    assert forecast.unmet == 0
    assert [point.used for point in forecast.points[:5]] == [40, 40, 40, 40, 0]
    assert forecast.points[-1].at == NOW + DAY


def test_a_steady_pace_spends_the_rest_at_a_foreseeable_minute() -> None:
    forecast = forecast_of([Use(leaves_at=NOW + 6 * HOUR, amount=81)], demand=[6.0] * HOURS)
    assert forecast.spent_at == NOW + 3 * HOUR
    assert forecast.room_at == NOW + 6 * HOUR
    assert forecast.unmet == pytest.approx(24 * 6 - 100, abs=0.1)


def test_a_quota_that_is_spent_now_says_when_there_is_room_again() -> None:
    forecast = forecast_of(
        [Use(leaves_at=NOW + 30 * HOUR / 60, amount=5), Use(leaves_at=NOW + DAY, amount=95)]
    )
    assert forecast.spent_at == NOW
    assert forecast.room_at == NOW + timedelta(minutes=30)


def test_what_is_reserved_is_the_first_of_what_the_hour_wants() -> None:
    forecast = forecast_of([], reserved=10, demand=[10.0] + [0.0] * (HOURS - 1))
    assert forecast.points[1].used == 10
    more = forecast_of([], reserved=10, demand=[25.0] + [0.0] * (HOURS - 1))
    assert more.points[1].used == pytest.approx(25)


def test_no_room_comes_within_the_day_where_nothing_leaves() -> None:
    forecast = forecast_of([Use(leaves_at=NOW + 25 * HOUR, amount=100)], demand=[1.0] * HOURS)
    assert forecast.room_at is None
    assert forecast.unmet == pytest.approx(24)


@given(used=uses, limit=st.floats(1, 2000), reserved=st.floats(0, 200), demand=wishes)
def test_no_more_room_is_promised_than_the_window_gives(
    used: list[Use], limit: float, reserved: float, demand: list[float]
) -> None:
    forecast = forecast_of(used, limit=limit, reserved=reserved, demand=demand)
    start = inside(used, NOW) + reserved
    for point in forecast.points:
        assert point.used >= inside(used, point.at) + reserved - 1e-6
        assert point.used <= max(limit, start) + 1e-6
    if forecast.room_at is not None:
        assert forecast.spent_at is not None
        assert forecast.room_at >= forecast.spent_at
        assert limit - inside(used, forecast.room_at) - reserved >= 1 - 1e-6


@given(used=uses, limit=st.floats(1, 2000), demand=wishes)
def test_all_that_is_wanted_is_served_or_counted_as_wanted_in_vain(
    used: list[Use], limit: float, demand: list[float]
) -> None:
    forecast = forecast_of(used, limit=limit, demand=demand)
    served = forecast.points[-1].used - inside(used, forecast.points[-1].at)
    late = sum(use.amount for use in used if use.leaves_at == forecast.points[-1].at)
    assert served - late + forecast.unmet == pytest.approx(sum(demand), abs=1e-3)
    if forecast.spent_at is None:
        assert forecast.unmet == 0


@given(used=uses, limit=st.floats(1, 2000), demand=wishes, extra=st.floats(1, 300))
def test_more_use_never_makes_the_quota_last_longer(
    used: list[Use], limit: float, demand: list[float], extra: float
) -> None:
    before = forecast_of(used, limit=limit, demand=demand)
    after = forecast_of([*used, Use(leaves_at=NOW + DAY, amount=extra)], limit=limit, demand=demand)
    if before.spent_at is not None:
        assert after.spent_at is not None
        assert after.spent_at <= before.spent_at + timedelta(seconds=1)


def test_the_same_hours_of_the_last_day_are_expected_again() -> None:
    used = {NOON - step * HOUR: float(step) for step in range(30)}
    assert pace(used, NOW) == tuple(float(24 - step) for step in range(24))


def test_the_mean_of_the_known_hours_goes_on_where_no_day_is_known() -> None:
    assert pace({NOON - HOUR: 20.0, NOON: 10.0}, NOW) == (20.0,) * HOURS
    assert pace({NOON: 10.0}, NOW) == (10.0,) * HOURS
    assert pace({}, NOW) == (0.0,) * HOURS


def test_a_forecast_is_written_in_one_line() -> None:
    assert forecast_text(forecast_of([]), NOW) == "enough for the next 24 h at the present rate"
    late = forecast_of([Use(leaves_at=NOW + 6 * HOUR, amount=81)], demand=[6.0] * HOURS)
    assert forecast_text(late, NOW) == (
        "runs out at 15:30 UTC, available again at 18:30 UTC; 44 calls cannot be made"
    )
    never = forecast_of([Use(leaves_at=NOW + 25 * HOUR, amount=100)])
    assert forecast_text(never, NOW) == "used up, none available within 24 h"
