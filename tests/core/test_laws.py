"""The replay of the ledger, by example and against the plain definition."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.laws import replay_windows
from headway.core.limits.state import LedgerCall
from headway.core.limits.transitions import Window

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(limit=2, span_s=60)


def call(number: int, begun_s: float, arrived_s: float | None, status: str = "sent") -> LedgerCall:
    return LedgerCall(
        permit_id=f"{number:04}",
        key="boeing",
        owner="test",
        purpose="",
        cost=1,
        begun_at=START + timedelta(seconds=begun_s),
        lease_until=START + timedelta(seconds=begun_s + 60),
        arrived_by=None if arrived_s is None else START + timedelta(seconds=arrived_s),
        status=status,
    )


@pytest.mark.parametrize(("third_s", "breaches"), ((62, ["0003"]), (62.000001, [])))
def test_the_third_call_breaches_until_the_first_has_surely_left(
    third_s: float, breaches: list[str]
) -> None:
    calls = [call(1, 0, 2), call(2, 31, 33), call(3, third_s, third_s + 2)]
    assert [breach.permit_id for breach in replay_windows(calls, WINDOW)] == breaches


def test_an_unsent_call_takes_no_place_and_one_in_flight_never_leaves() -> None:
    unsent = [call(1, 0, None, "unsent"), call(2, 1, 2), call(3, 2, 3)]
    assert not replay_windows(unsent, WINDOW)
    flying = [call(1, 0, None, "begun"), call(2, 1, 2), call(3, 900, 901), call(4, 905, 906)]
    assert [breach.permit_id for breach in replay_windows(flying, WINDOW)] == ["0004"]


@pytest.mark.parametrize(("anchor", "count"), (("finish", 1), ("cap", 0), ("start", 0)))
def test_the_anchor_of_the_window_says_how_late_a_call_may_have_arrived(
    anchor: str, count: int
) -> None:
    window = Window(limit=1, span_s=60, jitter_s=3, anchor=anchor)
    assert len(replay_windows([call(1, 0, 30), call(2, 64, 65)], window)) == count


spans = st.tuples(st.integers(0, 400), st.integers(0, 90))


@given(spans=st.lists(spans, max_size=12), limit=st.integers(1, 3))
def test_the_replay_finds_exactly_the_begins_at_which_too_many_may_be_inside(
    spans: list[tuple[int, int]], limit: int
) -> None:
    calls = [call(number, at, at + length) for number, (at, length) in enumerate(spans)]
    calls.sort(key=lambda one: (one.begun_at, one.permit_id))
    expected = []
    for index, one in enumerate(calls):
        inside = [
            other
            for other in calls[:index]
            if other.arrived_by is not None
            and other.arrived_by + timedelta(seconds=60) >= one.begun_at
        ]
        if len(inside) + 1 > limit:
            expected.append(one.permit_id)
    broken = replay_windows(reversed(calls), Window(limit=limit, span_s=60))
    assert [breach.permit_id for breach in broken] == expected
