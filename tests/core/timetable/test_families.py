import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.timetable.families import SHARES, Episode, Family, own_chance, pooled_factors

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVEN = (1.0,) * len(SHARES)


def opened(rate: float = 0.05, pooled: tuple[float, ...] = EVEN) -> Family:
    return Family(name="f").opened(began_at=NOW - 4 * HOUR, at=NOW, rate=rate, pooled=pooled)


def episode(rate: float = 0.05) -> Episode:
    episode_found = opened(rate).episode
    assert episode_found is not None
    return episode_found


def after(begun: Episode, answers: str, read_at: datetime = NOW - 5 * HOUR) -> Episode:
    for answer in answers:
        begun = begun.after(read_at=read_at, own_chance=0.01, has_changed=answer == "+")
    return begun


def test_a_change_of_a_quiet_listing_smells_more_of_a_list() -> None:
    assert 0 < episode(0.5).chance < episode(0.05).chance < episode(0.005).chance < 1


def test_companions_that_changed_too_make_a_list_of_it() -> None:
    begun = episode()
    assert begun.chance < 0.2
    assert after(begun, "++").chance > 0.9
    assert after(begun, "--------").chance < 0.1
    assert after(begun, "--------").hit_chance < begun.hit_chance / 2


def test_a_list_that_hits_a_few_is_still_found() -> None:
    few = after(episode(), "+-------+------+-------+-----")
    assert few.chance > 0.9
    assert 0.1 < few.hit_chance < 0.2


def test_who_was_read_since_the_list_bears_no_witness() -> None:
    begun = episode()
    assert after(begun, "+++", read_at=NOW) == begun
    assert begun.missed_by(NOW - 5 * HOUR) == 1
    assert begun.missed_by(NOW - HOUR) == 0.25
    late = after(begun, "-", read_at=NOW - HOUR)
    assert after(begun, "-").chance < late.chance < begun.chance


def test_an_opener_that_was_read_a_moment_ago_leaves_no_span() -> None:
    begun = Family(name="f").opened(began_at=NOW, at=NOW, rate=0.1, pooled=EVEN).episode
    assert begun is not None
    assert begun.missed_by(NOW - HOUR) == 1
    assert begun.missed_by(NOW) == 0


def test_a_list_explains_the_changes_it_made() -> None:
    sure = after(episode(), "+++++")
    assert sure.explains(read_at=NOW - 5 * HOUR, own_chance=0.01) > 0.9
    assert sure.explains(read_at=NOW, own_chance=0.01) == 0
    assert episode().explains(read_at=NOW - 5 * HOUR, own_chance=0.9) < 0.1


def test_families_whose_openings_come_to_nothing_are_believed_less_and_less() -> None:
    family, observed_counts, expected = opened(), (0.0,) * len(SHARES), (0.0,) * len(SHARES)
    first = family.episode
    assert first is not None
    for _ in range(200):
        begun = family.opened(
            began_at=NOW - HOUR, at=NOW, rate=0.05, pooled=pooled_factors(observed_counts, expected)
        )
        assert begun.episode is not None
        last = begun.episode
        refuted = Family(
            name="f",
            lists=begun.lists,
            lists_expected=begun.lists_expected,
            counted_at=begun.counted_at,
            episode=after(last, "--------"),
        )
        family, more, more_expected = refuted.closed(NOW)
        observed_counts = tuple(a + b for a, b in zip(observed_counts, more, strict=True))
        expected = tuple(a + b for a, b in zip(expected, more_expected, strict=True))
    assert last.hit_chance < first.hit_chance / 10


def test_a_family_with_lists_is_believed_more_than_others() -> None:
    proven = Family(name="f", lists=(0.0, 5.0, 0.0), lists_expected=(0.5, 0.5, 0.5))
    assert proven.factors(EVEN)[1] == 4
    assert proven.factors(EVEN)[0] < 1
    faded, _, _ = opened().closed(NOW)
    old = Family(name="f", lists=EVEN, lists_expected=EVEN, counted_at=NOW - timedelta(days=30))
    begun = old.opened(began_at=NOW - HOUR, at=NOW, rate=0.05, pooled=EVEN)
    again, _, _ = begun.closed(NOW)
    assert again.lists[0] < 0.45
    assert faded.counted_at == NOW


def test_what_is_pooled_is_smoothed_and_bounded() -> None:
    assert pooled_factors((), ()) == EVEN
    assert pooled_factors((3.0, 0.0, 1e9), (0.0, 1e9, 0.0)) == (2.0, 0.001, 30.0)


@given(answers=st.text(alphabet="+-", max_size=400), rate=st.floats(1e-4, 24), own=st.floats(0, 1))
def test_beliefs_stay_chances_whatever_is_answered(answers: str, rate: float, own: float) -> None:
    begun = episode(rate)
    for answer in answers:
        begun = begun.after(
            read_at=NOW - HOUR, own_chance=own_chance(own, 1.0), has_changed=answer == "+"
        )
    assert 0 <= begun.hit_chance <= begun.chance <= 1
    assert 0 <= begun.explains(read_at=NOW - HOUR, own_chance=0.01) <= 1


@given(answers=st.text(alphabet="+-", max_size=20))
def test_a_family_survives_the_store(answers: str) -> None:
    family = Family(name="f", counted_at=NOW, lists=EVEN, episode=after(episode(), answers))
    for member in (family, Family(name="f")):
        stored = json.loads(json.dumps(member.as_json()))
        assert Family.from_json("f", stored) == member
        assert len(json.dumps(stored)) < 700


def test_a_state_of_another_version_counts_for_nothing() -> None:
    assert Family.from_json("f", {}) == Family(name="f")
    assert Family.from_json("f", {"lists": [1.0]}) == Family(name="f")


def test_nothing_is_quite_impossible() -> None:
    assert own_chance(0, 1) == pytest.approx(1e-6)
    assert own_chance(1e9, 1) < 1
    assert own_chance(192, -30) == pytest.approx(1e-6), "the clock went back a month"
