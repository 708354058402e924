"""When a listing that a platform no longer shows is removed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts.removals import (
    WALKS_APART,
    RemovalDecision,
    RemovalEvidence,
    counted_walks,
    decide_removal,
    is_complete,
    is_empty,
    with_rows,
)

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
WALKS = tuple(NOW + number * 2 * WALKS_APART for number in range(5))


def evidence(walks: int, missing: int, known: int = 100, **more: int) -> RemovalEvidence:
    return RemovalEvidence(walks=WALKS[-walks:], known=known, missing=missing, **more)


def test_one_walk_proves_nothing_and_two_that_agree_do() -> None:
    assert decide_removal(evidence(1, 3)) == RemovalDecision()
    assert decide_removal(evidence(2, 3)) == RemovalDecision(since=WALKS[-2])
    assert decide_removal(evidence(5, 3)) == RemovalDecision(since=WALKS[-2])
    assert decide_removal(evidence(5, 0)) == RemovalDecision()


@pytest.mark.parametrize(
    ("missing", "known", "is_mass"),
    ((10, 11, False), (11, 22, False), (11, 21, True), (50, 100, False), (51, 100, True)),
)
def test_more_than_ten_and_more_than_half_is_a_mass_removal(
    missing: int, known: int, *, is_mass: bool
) -> None:
    decision = decide_removal(evidence(4, missing, known))
    assert (decision.since is None) == is_mass
    assert bool(decision.held_reason) == is_mass


def test_what_was_in_a_list_that_is_empty_now_is_held_however_few() -> None:
    decision = decide_removal(evidence(4, 1, emptied=1))
    assert decision.since is None
    assert decision.held_reason
    assert "empty" in decision.held_reason


def test_a_hold_ends_if_five_walks_agree_and_keeps_what_only_the_last_ones_miss() -> None:
    assert decide_removal(evidence(5, 60)).since is None, "an older walk has shown them"
    assert decide_removal(evidence(5, 60, confirmed=60)) == RemovalDecision(since=WALKS[0])
    partly = decide_removal(evidence(5, 60, confirmed=40))
    assert partly.since == WALKS[0]
    assert partly.held_reason


def test_walks_count_if_they_are_hours_apart() -> None:
    first = counted_walks((), NOW)
    assert first == (NOW,)
    assert counted_walks(first, NOW + WALKS_APART - timedelta(seconds=1)) == first
    assert counted_walks(first, NOW + WALKS_APART) == (NOW, NOW + WALKS_APART)


def test_a_walk_of_a_clock_that_was_ahead_is_forgotten() -> None:
    assert counted_walks((NOW, NOW + timedelta(days=900)), NOW + timedelta(days=1)) == (
        NOW,
        NOW + timedelta(days=1),
    )


@given(pages=st.lists(st.lists(st.integers(0, 60)), max_size=8))
def test_a_tally_counts_each_row_once(pages: list[list[int]]) -> None:
    rows, tally = {number for page in pages for number in page}, {}
    for page in pages:
        tally = with_rows(tally, map(str, page), len(rows))
    assert is_empty(tally) == (not rows)
    if pages:
        assert is_complete(tally)
        assert not is_complete({**tally, "total": len(rows) + 1})


def test_a_list_of_unknown_length_is_not_complete_and_the_smallest_length_counts() -> None:
    assert not is_complete(with_rows({}, ["1"], None))
    tally = with_rows(with_rows({}, ["1"], 2), ["1"], 1)
    assert is_complete(tally)
