"""The rhythm of the day moves events within their day, and none past another."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.clock import rng
from headway_lab.simulation.world import DAY_S
from headway_lab.simulation.worlds import by_day, in_office_hours

instants = st.floats(min_value=0, max_value=30 * DAY_S)


@settings(deadline=None)
@given(instants)
def test_an_event_stays_in_its_day(even_s: float) -> None:
    assert even_s // DAY_S <= by_day(even_s) / DAY_S <= even_s // DAY_S + 1


@settings(deadline=None)
@given(instants, instants)
def test_events_keep_their_order(one_s: float, other_s: float) -> None:
    first_s, second_s = sorted((one_s, other_s))
    assert by_day(first_s) <= by_day(second_s)


def test_a_quiet_night_has_fewer_events_than_its_share_of_the_day() -> None:
    night = [sum(1 for _ in in_office_hours(rng(seed), 50, 0.25)) for seed in range(40)]
    day = [sum(1 for _ in in_office_hours(rng(seed), 50, 1)) for seed in range(40)]
    assert 0 < sum(night) < 0.12 * sum(day)


def test_a_part_of_a_day_is_cut_from_the_whole() -> None:
    whole = list(in_office_hours(rng(3), 500, 1))
    assert list(in_office_hours(rng(3), 500, 0.9)) == [at_s for at_s in whole if at_s < 0.9 * DAY_S]
