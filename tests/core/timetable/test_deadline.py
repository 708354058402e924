import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.timetable.deadline import must, safe_min, terms

histograms = st.dictionaries(st.integers(0, 1500), st.integers(1, 400), max_size=40)


def test_a_catalog_that_fits_keeps_two_hours_and_a_tenth_of_the_seats() -> None:
    assert terms(5000, 20.0) == (1320, 18.0)


def test_a_larger_one_gives_up_reserve_seats_then_the_two_hours() -> None:
    deadline_min, reliable = terms(24_500, 20.0)
    assert deadline_min == 1320
    assert 18 < reliable < 19
    deadline_min, reliable = terms(26_500, 20.0)
    assert 1320 < deadline_min < 1440
    assert reliable == 19
    assert terms(28_800, 20.0) == (1440, 20.0)


def test_nobody_must_join_call_while_all_are_young() -> None:
    assert must({10: 5000}, seats_per_min=20.0, seats=20) == 0
    assert must({}, seats_per_min=20.0, seats=20) == 0


def test_who_reaches_the_deadline_must_join_call() -> None:
    assert must({1320: 7, 5: 100}, seats_per_min=20.0, seats=20) == 7
    assert must({1400: 90}, seats_per_min=20.0, seats=20) == 20


def test_a_crowd_starts_before_its_deadline() -> None:
    crowd = {1300: 400}
    assert must(crowd, seats_per_min=20.0, seats=100) == 400 - 20 * 18
    assert must({1290: 400}, seats_per_min=20.0, seats=100) == 0


@given(ages=histograms, seats_per_min=st.floats(1, 40))
def test_what_is_called_safe_needs_no_guard(ages: dict[int, int], seats_per_min: float) -> None:
    if ages and safe_min(sum(ages.values()), max(ages), seats_per_min) >= 0:
        assert must(ages, seats_per_min=seats_per_min, seats=10**6) == 0


@given(ages=histograms, older=st.integers(1, 100))
def test_the_older_they_are_the_more_must_join_call(ages: dict[int, int], older: int) -> None:
    aged = {age + older: count for age, count in ages.items()}
    now, later = (must(counts, seats_per_min=2.0, seats=50) for counts in (ages, aged))
    assert 0 <= now <= later <= 50


@pytest.mark.parametrize("listings", (20_000, 23_700))
def test_guarded_seats_alone_keep_everybody_within_the_deadline(listings: int) -> None:
    """Let the other seats go to nobody: the oldest that must board is then all that is read."""
    ages = dict.fromkeys(range(listings // 18), 18)
    for _ in range(1600):
        due = must(ages, seats_per_min=20.0, seats=20)
        for age in sorted(ages, reverse=True):
            taken = min(due, ages[age])
            ages[age], due = ages[age] - taken, due - taken
            ages[-1] = ages.get(-1, 0) + taken
            if not due:
                break
        ages = {age + 1: count for age, count in ages.items() if count}
        assert max(ages) <= 1322
