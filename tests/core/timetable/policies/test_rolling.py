"""`rolling`: the numbers of the simplified design."""

from dataclasses import replace
from datetime import timedelta

from tests.core.timetable.replay import MIDNIGHT, listing, next_due, placed, replay

from headway.core.timetable.policies.policy import stable_number
from headway.core.timetable.policies.rolling import Rolling

POLICY = Rolling()


def test_a_new_listing_starts_at_a_minute_of_the_day_that_its_sku_decides() -> None:
    row = listing("P1", POLICY)
    assert row.hour_bucket * 60 + row.minute_offset == stable_number("P1") % 1440


def test_the_next_read_is_24_hours_after_the_last() -> None:
    row = listing("P1", POLICY)
    first = MIDNIGHT.replace(hour=14, minute=37, second=15)
    second = next_due(POLICY, row, first)
    assert second == first + timedelta(days=1)
    assert next_due(POLICY, row, second + timedelta(seconds=3)).second == 18


def test_a_priority_is_read_some_minutes_before_its_day_is_over() -> None:
    row = replace(listing("P1", POLICY), sync_priority=4)
    assert next_due(POLICY, row, MIDNIGHT) == MIDNIGHT + timedelta(hours=23, minutes=56)


def test_a_thousand_products_take_about_a_hundred_full_calls_a_day() -> None:
    done = replay(POLICY, placed(POLICY, 1000), days=4)
    assert [sum(done.per_hour(day)) for day in (1, 2, 3)] == [100] * 3
    assert {seats for _, seats in done.calls} == {10}
    assert done.worst_age <= POLICY.age_max
