"""The share of error replies, and how long to keep still for its sake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.limits.error_budget import PAUSE_MAX_S, SAMPLE_CALLS, errors_left, pause_for


def share(errors: int, calls: int) -> float:
    return errors / calls


@pytest.mark.parametrize(
    ("errors", "calls", "pause_s"),
    (
        (0, 0, None),
        (3, 20, None),
        (4, 20, 3600 / 2),
        (19, 19, None),
        (20, 20, 3600),
        (0, 1000, None),
        (39, 1000, None),
        (40, 1000, 3600 / 11),
        (49, 1000, 3600 / 2),
        (50, 1000, 3600),
        (1000, 1000, 3600),
    ),
)
def test_a_pause_begins_at_four_percent_and_grows_to_an_hour(
    errors: int, calls: int, pause_s: float | None
) -> None:
    assert pause_for(errors, calls) == pytest.approx(pause_s)


@given(calls=st.integers(SAMPLE_CALLS, 10**6), errors=st.integers(0, 10**6))
def test_as_many_errors_as_are_left_stay_under_the_limit_and_one_more_does_not(
    calls: int, errors: int
) -> None:
    errors = min(errors, calls)
    left = errors_left(errors, calls)
    if left:
        assert share(errors + left, calls + left) < 0.05
    assert share(errors + left + 1, calls + left + 1) >= 0.05


@given(good=st.integers(0, 5000), bad=st.integers(0, 5000))
def test_more_errors_never_shorten_a_pause(good: int, bad: int) -> None:
    now, then = pause_for(bad, good + bad), pause_for(bad + 1, good + bad + 1)
    assert (now or 0) <= (then or 0) <= PAUSE_MAX_S


@given(good=st.integers(400, 20_000))
def test_an_outage_takes_hours_to_use_up_the_budget_and_then_costs_one_call_an_hour(
    good: int,
) -> None:
    errors, calls, elapsed_s, paused = 0, good, 0.0, list[float]()
    while share(errors, calls) < 0.05:
        errors, calls = errors + 1, calls + 1
        pause_s = pause_for(errors, calls)
        paused += [pause_s] if pause_s else []
        elapsed_s += pause_s or 0
    assert paused[-1] == PAUSE_MAX_S
    assert paused == sorted(paused)
    assert elapsed_s >= 2 * PAUSE_MAX_S
    assert pause_for(errors + 24, calls + 24) == PAUSE_MAX_S
