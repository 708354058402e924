"""`anchored`: the numbers of implementation plan v2."""

import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.core.timetable.replay import (
    MIDNIGHT,
    candidate,
    failed,
    listing,
    next_due,
    placed,
    replay,
)

from headway.core.catalog.lifecycle import FailureRule
from headway.core.catalog.listings import Sku
from headway.core.timetable.policies.anchored import Anchored
from headway.core.timetable.seats import SeatRule, departure

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
POLICY = Anchored()


@pytest.mark.parametrize("sku", ("WF338109=K3", "PART-7", "ü"))
def test_hour_and_minute_come_from_sha256_as_the_document_says(sku: str) -> None:
    place = POLICY.place(Sku(sku), MIDNIGHT)
    hour, offset = (
        int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) for text in (sku, f"{sku}:offset")
    )
    assert (place.hour_bucket, place.minute_offset) == (hour % 24, offset % 60)


def test_a_slot_does_not_drift_over_seven_days_of_late_reads() -> None:
    row = listing("P1", POLICY)
    due_at = row.next_sync_at
    for _ in range(7):
        due_at = next_due(POLICY, row, due_at + 11 * MINUTE)
        assert (due_at.hour, due_at.minute) == (row.hour_bucket, row.minute_offset)
    assert due_at == row.next_sync_at + 7 * DAY


def test_a_listing_read_a_little_early_is_not_read_again_at_its_slot() -> None:
    row = listing("P1", POLICY)
    early = row.next_sync_at - 25 * MINUTE
    assert next_due(POLICY, row, early) == row.next_sync_at + DAY
    assert next_due(POLICY, row, early - MINUTE) == row.next_sync_at


def test_catch_up_needs_no_job_since_an_overdue_listing_stays_the_first_in_the_queue() -> None:
    row = listing("P1", POLICY)
    overdue = candidate(row, row.next_sync_at)
    rule = SeatRule(seats=10, slack=POLICY.slack)
    for minutes in (30, 45, 60, 600):
        now = row.next_sync_at + minutes * MINUTE
        assert departure([overdue], now, rule) == now, "it leaves with the next permit"


def test_a_failed_listing_waits_2_4_8_16_and_24_hours() -> None:
    rule, row = FailureRule(), listing("P1", POLICY)
    tries = [
        POLICY.next_try(failed(row, times), MIDNIGHT, rule.backoff(times)) for times in range(1, 6)
    ]
    assert [(at - MIDNIGHT) / timedelta(hours=1) for at in tries] == [2, 4, 8, 16, 24]


@pytest.mark.parametrize(
    ("minute", "priority", "expected"), ((30, 3, 27), (30, 99, 20), (4, 9, 0), (30, -5, 30))
)
def test_a_priority_goes_some_minutes_ahead_within_its_hour(
    minute: int, priority: int, expected: int
) -> None:
    row = replace(listing("P1", POLICY), minute_offset=minute, sync_priority=priority)
    due_at = next_due(POLICY, row, MIDNIGHT.replace(hour=(row.hour_bucket + 2) % 24))
    assert (due_at.hour, due_at.minute) == (row.hour_bucket, expected)


def test_a_thousand_products_are_42_an_hour_and_a_hundred_calls_a_day() -> None:
    rows = placed(POLICY, 1000)
    assert round(len(rows) / 24) == 42
    done = replay(POLICY, rows, days=4)
    assert [sum(done.per_hour(day)) for day in (1, 2, 3)] == [100] * 3
    assert done.worst_age <= POLICY.age_max


def test_ten_thousand_products_starve_nobody_though_their_slots_have_minutes() -> None:
    done = replay(POLICY, placed(POLICY, 10_000), days=3)
    assert done.worst_age <= timedelta(hours=24, minutes=20)
    assert sum(done.per_hour(2)) == 1000
