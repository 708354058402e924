import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_lab.simulators.meter import ArrivalLog, make_gate

gaps = st.lists(
    st.floats(min_value=0, max_value=90) | st.sampled_from([0.0, 30.0, 60.0]), max_size=60
)
limits = st.integers(min_value=1, max_value=5)


def instants(gaps_s: list[float]) -> list[float]:
    at_s, moments = 0.0, []
    for gap_s in gaps_s:
        at_s += gap_s
        moments.append(at_s)
    return moments


def most_in_any_window(arrivals: list[float], span_s: float) -> int:
    """Recount the slow way: for every arrival, all that came in the span before it."""
    return max(
        (
            sum(other <= last and other > last - span_s for other in arrivals[: at + 1])
            for at, last in enumerate(arrivals)
        ),
        default=0,
    )


@given(gaps)
def test_the_log_counts_what_a_slow_recount_counts(gaps_s: list[float]) -> None:
    arrivals = instants(gaps_s)
    log = ArrivalLog(60)
    for at_s in arrivals:
        log.add(at_s)
    assert log.calls_max == most_in_any_window(arrivals, 60)


@given(gaps, limits)
def test_a_sliding_window_refuses_exactly_what_a_recount_refuses(
    gaps_s: list[float], limit: int
) -> None:
    arrivals = instants(gaps_s)
    gate = make_gate("log", limit, 60)
    for at, at_s in enumerate(arrivals):
        held = sum(other > at_s - 60 for other in arrivals[: at + 1])
        admission = gate.admit(at_s)
        assert admission.is_refused == (held > limit)
        assert not admission.is_refused or 0 <= admission.wait_s <= 60


def test_a_caller_that_waits_as_long_as_retry_after_says_is_admitted() -> None:
    for semantics in ("log", "fixed", "bucket", "leaky"):
        gate = make_gate(semantics, 2, 60)
        at_s = 7.0
        while not (refusal := gate.admit(at_s)).is_refused:
            pass
        assert not gate.admit(at_s + refusal.wait_s).is_refused, semantics


def test_repeating_refused_calls_at_a_sliding_window_never_helps() -> None:
    gate = make_gate("log", 2, 60)
    admitted = [not gate.admit(at * 10.0).is_refused for at in range(50)]
    assert admitted == [True, True] + [False] * 48


def test_a_fixed_window_lets_twice_the_limit_through_around_its_edge() -> None:
    gate = make_gate("fixed", 2, 60)
    assert [gate.admit(at_s).is_refused for at_s in (58, 59, 60, 61, 62)] == [False] * 4 + [True]


def test_a_bucket_lets_three_through_in_its_first_minute() -> None:
    gate = make_gate("bucket", 2, 60)
    assert [gate.admit(at_s).is_refused for at_s in (0, 0, 30, 30)] == [False] * 3 + [True]


@given(gaps, limits)
def test_a_leaky_queue_serves_at_an_even_pace(gaps_s: list[float], limit: int) -> None:
    gate = make_gate("leaky", limit, 60)
    served = []
    for at_s in instants(gaps_s):
        admission = gate.admit(at_s)
        if not admission.is_refused:
            served.append(at_s + admission.delay_s)
    for before, after in itertools.pairwise(served):
        assert after - before >= 60 / limit - 1e-6


@pytest.mark.parametrize("semantics", ("log", "fixed", "bucket", "leaky"))
def test_calls_far_enough_apart_are_always_admitted(semantics: str) -> None:
    gate = make_gate(semantics, 2, 60)
    assert not any(gate.admit(at * 31.0).is_refused for at in range(500))
