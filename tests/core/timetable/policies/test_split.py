"""`split`: the numbers of the design that keeps scheduled reads and retries apart."""

import math
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.core.timetable.replay import MIDNIGHT, failed, listing, next_due, placed, replay

from headway.core.catalog.listings import Listing
from headway.core.timetable.policies.split import Split

POLICY = Split()
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
PER_DAY = 2880


def at(text: str) -> datetime:
    hour, minute = map(int, text.split(":"))
    return MIDNIGHT + hour * HOUR + minute * MINUTE


def retry_at(sku: str, failures: int, failed_at: str) -> datetime:
    row = failed(listing(sku, POLICY), failures)
    return POLICY.next_try(row, at(failed_at), timedelta(hours=2))


@pytest.mark.parametrize(
    ("products", "per_hour"), ((1000, 42), (5000, 208), (10_000, 417), (20_000, 833))
)
def test_every_hour_holds_the_same_give_or_take_one(products: int, per_hour: int) -> None:
    hours = Counter(row.hour_bucket for row in placed(POLICY, products))
    assert len(hours) == 24
    assert max(hours.values()) - min(hours.values()) <= 1
    assert round(products / 24) == per_hour
    assert per_hour in hours.values()


@pytest.mark.parametrize("products", (24, 237, 1000, 5000, 20_000))
def test_scheduled_calls_of_two_hours_never_differ_by_more_than_one(products: int) -> None:
    done = replay(POLICY, placed(POLICY, products), days=4)
    for day in (1, 2, 3):
        hours = done.per_hour(day)
        assert max(hours) - min(hours) <= 1
    assert done.worst_age <= POLICY.age_max


def test_five_thousand_are_21_calls_and_ten_and_a_half_minutes_an_hour_at_most() -> None:
    rows = placed(POLICY, 5000)
    done = replay(POLICY, rows, days=3)
    assert max(done.per_hour(2)) == 21
    assert 21 * timedelta(seconds=30) == timedelta(minutes=10.5)
    minutes = [called_at.minute + called_at.second / 60 for called_at, _ in done.calls]
    assert max(minutes) <= 10.5, "the retry windows at half past find the line free"
    assert sum(done.per_hour(2)) == 500, "borrowing saves the document's last four calls"


def test_an_hour_with_a_retry_window_takes_26_calls_13_minutes_and_21_7_percent() -> None:
    window = POLICY.retry_window(at("10:30"), 5000)
    assert window is not None
    retries = window.seats_max // 10
    assert (retries, retries * 0.5) == (5, 2.5)
    assert (21 + retries, (21 + retries) * 0.5) == (26, 13)
    assert 100 * (21 + retries) / 120 == pytest.approx(21.7, abs=0.05)
    per_day = 24 * 21, 6 * retries
    assert (per_day, sum(per_day)) == ((504, 30), 534)
    assert 100 * sum(per_day) / PER_DAY == pytest.approx(18.5, abs=0.05)
    assert (24 * 208, 6 * window.seats_max) == (4992, 300)


@pytest.mark.parametrize(
    ("listings", "clocks", "seats"),
    (
        (5_000, range(2, 24, 4), 50), (9_999, range(2, 24, 4), 50), (10_000, range(2, 24, 4), 100),
        (20_000, range(0, 24, 2), 150),
    ),
)  # fmt: skip
def test_windows_grow_with_the_catalog(listings: int, clocks: range, seats: int) -> None:
    opened = []
    for hour in range(24):
        window = POLICY.retry_window(at(f"{hour}:30"), listings)
        assert window is not None
        if window.opens_at == at(f"{hour}:30"):
            opened.append((hour, window.seats_max))
    assert opened == [(hour, seats) for hour in clocks]


@pytest.mark.parametrize(
    ("failed_at", "tried"),
    (
        ("10:05", "10:30"), ("10:31", "14:30"), ("22:29", "22:30"), ("22:30", "26:30"),
        ("00:00", "02:30"),
    ),
)  # fmt: skip
def test_a_failure_waits_for_the_next_window_whatever_its_backoff(
    failed_at: str, tried: str
) -> None:
    assert timedelta(0) < retry_at("P", 1, failed_at) - at(tried) < timedelta(seconds=10)


def test_in_a_window_the_fewest_failures_go_first_and_then_the_oldest_attempt() -> None:
    tries = {
        (failures, failed_at): retry_at("P", failures, failed_at)
        for failures in (1, 2, 4)
        for failed_at in ("06:40", "08:00", "10:05", "10:29")
    }
    assert sorted(tries, key=tries.__getitem__) == sorted(tries)


def test_a_listing_of_slot_23_never_waits_two_days() -> None:
    row = replace(listing("P", POLICY), hour_bucket=23)
    for minute in range(0, 24 * 60, 7):
        read_at = MIDNIGHT + minute * MINUTE
        assert next_due(POLICY, row, read_at) - read_at < POLICY.age_max - POLICY.slack


def test_a_hundred_failures_of_slot_ten_are_99_recoveries_by_half_past_ten_in_the_evening() -> None:
    """100, 60, 15, 3, 1; in the document's own order the last one has failed four times by then."""
    recovers = {"10:30": 40, "14:30": 45, "18:30": 12, "22:30": 2, "26:30": 0}
    waiting: list[tuple[datetime, int, Listing]] = [
        (retry_at(f"P{number}", 1, "10:05"), 1, listing(f"P{number}", POLICY))
        for number in range(100)
    ]
    left, failures_max = [], []
    for clock, recovered in recovers.items():
        window = POLICY.retry_window(at(clock), 5000)
        assert window is not None
        waiting.sort(key=lambda waiter: waiter[0])
        assert all(due_at < window.closes_at for due_at, _, _ in waiting)
        seat_rule, rest = waiting[: window.seats_max], waiting[window.seats_max :]
        waiting = rest + [
            (retry_at(row.sku, failures + 1, clock), failures + 1, row)
            for _, failures, row in seat_rule[recovered:]
        ]
        left.append(len(waiting))
        failures_max.append(max(failures for _, failures, _ in waiting))
    assert left == [60, 15, 3, 1, 1]
    assert failures_max == [2, 2, 3, 4, 5], "parked at 02:30, not at 22:30"


def test_whom_a_retry_took_along_is_read_again_at_its_slot() -> None:
    row = replace(listing("P", POLICY), hour_bucket=11)
    slot = next_due(POLICY, row, at("06:00"))
    assert next_due(POLICY, row, at("10:40")) == slot, "retries do not change the load of an hour"
    assert next_due(POLICY, row, at("10:10")) > slot + 23 * HOUR, "the hour's own last call does"
    assert next_due(POLICY, row, at("10:58")) == slot + 24 * HOUR


def test_priorities_go_first_and_the_order_within_an_hour_is_the_same_every_day() -> None:
    rows = [row for row in placed(POLICY, 2400) if row.hour_bucket == 7]
    rows[50:52] = [replace(rows[50], sync_priority=3), replace(rows[51], sync_priority=99)]
    orders = []
    for day in (1, 2):
        due = {row.sku: next_due(POLICY, row, at(f"{24 * day}:00")) for row in rows}
        assert {(due_at.hour, due_at.minute) for due_at in due.values()} == {(7, 0)}
        orders.append(sorted(due, key=due.__getitem__))
    assert orders[0] == orders[1]
    assert orders[0][:2] == [rows[51].sku, rows[50].sku]


def test_a_slot_of_60_minutes_still_reads_everybody_a_day_apart() -> None:
    done = replay(POLICY, placed(POLICY, 28_800), days=3)
    assert sum(done.per_hour(2)) == PER_DAY
    assert done.worst_age <= timedelta(hours=24, minutes=1)
    assert math.ceil(28_800 / 24 / 10) * timedelta(seconds=30) == HOUR
