"""`packed`: the numbers of the system design."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.core.timetable.replay import MIDNIGHT, failed, listing, next_due, placed, replay

from headway.core.catalog.listings import Sku
from headway.core.timetable.policies import CatalogSummary
from headway.core.timetable.policies.packed import Packed, slots_wanted

POLICY = Packed()
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    hour, minute = map(int, text.split(":"))
    return MIDNIGHT + hour * HOUR + minute * MINUTE


def test_ten_products_fill_an_hour_before_the_next_one_opens() -> None:
    hours = [row.hour_bucket for row in placed(POLICY, 480)]
    assert hours[:10] == [0] * 10
    assert hours[10:20] == [1] * 10, "product 11 opens hour 1"
    assert hours[20] == 2
    assert hours[230:240] == [23] * 10
    assert hours[240:264] == list(range(24)), "from product 241 on the least loaded"
    assert set(Counter(hours).values()) == {20}


def test_all_are_due_in_the_first_minute_of_their_hour() -> None:
    for row in placed(POLICY, 300):
        assert (row.minute_offset, row.next_sync_at.minute) == (0, 0)
        assert row.next_sync_at.hour == row.hour_bucket


def test_a_freed_hour_is_filled_again_before_the_others_grow() -> None:
    loads = [10] * 9 + [0] + [9] + [0] * 13
    catalog = CatalogSummary(loads=tuple(loads))
    assert POLICY.place(Sku("P"), MIDNIGHT, catalog).hour_bucket == 10, "109 need 10 or 11 hours"
    fuller = catalog.with_one_in(10)
    assert POLICY.place(Sku("P"), MIDNIGHT, fuller).hour_bucket == 9, "the first dormant hour"


@pytest.mark.parametrize(
    ("products", "slots", "calls", "share"),
    (
        (50, 5, 5, 0.2), (100, 10, 10, 0.3), (500, 24, 50, 1.7), (5_000, 24, 500, 17),
        (10_000, 24, 1_000, 35), (28_800, 24, 2_880, 100),
    ),
)  # fmt: skip
def test_the_capacity_table_comes_true_in_days_of_calls(
    products: int, slots: int, calls: int, share: float
) -> None:
    rows = placed(POLICY, products)
    assert len({row.hour_bucket for row in rows}) == slots == slots_wanted(products)
    done = replay(POLICY, rows, days=3)
    assert [sum(done.per_hour(day)) for day in (1, 2)] == [calls] * 2
    assert {seats for _, seats in done.calls} == {10}, "never waste a call"
    assert 100 * calls / 2880 == pytest.approx(share, abs=0.5 if share > 10 else 0.05)
    assert done.worst_age < timedelta(hours=24, minutes=1)


def test_an_uneven_catalog_fills_its_last_call_from_the_next_hour_and_reads_nobody_twice() -> None:
    done = replay(POLICY, placed(POLICY, 245), days=6)
    assert 24 * 4 <= sum(sum(done.per_hour(day)) for day in (1, 2, 3, 4)) <= 25 * 4
    assert done.worst_age <= POLICY.age_max


@pytest.mark.parametrize(
    ("read", "due_h"),
    (("08:50", 10), ("09:01", 33.68), ("09:20", 34), ("09:59", 34), ("10:05", 34), ("23:00", 34)),
)
def test_a_seat_borrowed_within_the_hour_stands_for_the_slot_but_not_past_the_deadline(
    read: str, due_h: float
) -> None:
    row = replace(listing("P", POLICY), hour_bucket=10)
    due_at = next_due(POLICY, row, at(read))
    assert (due_at - MIDNIGHT) / HOUR == pytest.approx(due_h, abs=0.01)
    assert due_at + POLICY.slack < at(read) + POLICY.age_max


def test_retries_have_six_windows_of_a_hundred_seats_and_the_sweep_has_no_end() -> None:
    opened, now = [], at("03:30")
    for _ in range(7):
        window = POLICY.retry_window(now, 5000)
        assert window is not None
        opened.append((window.opens_at, window.seats_max))
        now = window.closes_at
    clocks = ("03:30", "07:30", "11:30", "15:30", "19:30", "23:30", "23:45")
    assert [opens for opens, _ in opened] == [at(clock) for clock in clocks]
    assert [seats for _, seats in opened] == [100] * 6 + [5000]
    assert now == at("03:30") + timedelta(days=1)


@pytest.mark.parametrize(
    ("failed_at", "tried"),
    (
        ("00:05", "03:30"), ("03:30", "07:30"), ("10:00", "11:30"), ("23:00", "23:30"),
        ("23:31", "23:45"), ("23:46", "27:30"),
    ),
)  # fmt: skip
def test_a_failure_waits_for_the_next_window(failed_at: str, tried: str) -> None:
    due_at = POLICY.next_try(failed(listing("P", POLICY), 1), at(failed_at), 2 * HOUR)
    assert timedelta(0) < due_at - at(tried) < 10 * timedelta(seconds=1)


def test_what_is_left_at_2345_leaves_before_midnight_even_if_it_fills_no_call() -> None:
    due_at = POLICY.next_try(failed(listing("P", POLICY), 5), at("23:40"), HOUR)
    assert due_at + POLICY.slack < at("24:00")
