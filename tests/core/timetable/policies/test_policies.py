"""The laws of every policy: each one that is registered is held to all of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.timetable.replay import failed, listing, next_due, placed

from headway.core.catalog.listings import Sku
from headway.core.timetable.policies import POLICIES, CatalogSummary, Policy, by_name
from headway.core.timetable.policies.policy import next_slot, stable_number

DAY = timedelta(days=1)
NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
instants = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(  # noqa: DTZ001
    lambda at: at.replace(tzinfo=UTC)
)
catalogs = st.lists(st.integers(0, 2000), min_size=24, max_size=24).map(
    lambda loads: CatalogSummary(loads=tuple(loads))
)
every_policy = pytest.mark.parametrize("policy", tuple(POLICIES.values()), ids=tuple(POLICIES))


@every_policy
def test_a_policy_is_found_by_its_name(policy: Policy) -> None:
    assert by_name(policy.name) is policy


@every_policy
def test_the_deadline_is_a_day_and_at_most_an_hour_and_slack_lies_inside_it(
    policy: Policy,
) -> None:
    assert policy.age_max <= timedelta(hours=24 if policy.is_eager else 25)
    assert timedelta(0) <= policy.slack < timedelta(hours=1)


@every_policy
@given(sku=st.text(), now=instants, catalog=catalogs)
def test_a_new_listing_is_due_within_a_day_and_the_same_catalog_gives_the_same_slot(
    policy: Policy, sku: str, now: datetime, catalog: CatalogSummary
) -> None:
    place = policy.place(Sku(sku), now, catalog)
    assert now < place.next_sync_at <= now + DAY
    assert (place.hour_bucket, place.minute_offset) < (24, 60)
    again = policy.place(Sku(sku), now + 3 * DAY, catalog)
    assert (place.hour_bucket, place.minute_offset) == (again.hour_bucket, again.minute_offset)


@every_policy
@given(sku=st.text(), hour=st.integers(0, 23), priority=st.integers(-50, 50), now=instants)
def test_a_read_listing_is_due_again_before_it_is_too_old(
    policy: Policy, sku: str, hour: int, priority: int, now: datetime
) -> None:
    row = replace(listing(sku, policy), hour_bucket=hour, sync_priority=priority)
    due_at = next_due(policy, row, now)
    assert now < due_at
    assert due_at + policy.slack < now + policy.age_max


@every_policy
@given(times=st.integers(1, 10), backoff_h=st.integers(1, 24), now=instants)
def test_a_failed_listing_is_due_again_later_and_within_a_day(
    policy: Policy, times: int, backoff_h: int, now: datetime
) -> None:
    row = failed(listing("P1", policy), times)
    due_at = policy.next_try(row, now, timedelta(hours=backoff_h))
    assert now < due_at <= now + DAY


@every_policy
@given(now=instants, listings=st.integers(0, 50_000))
def test_a_window_holds_the_instant_it_was_asked_for_and_the_next_one_follows_it(
    policy: Policy, now: datetime, listings: int
) -> None:
    window = policy.retry_window(now, listings)
    if window is None:
        return
    assert window.opens_at <= now < window.closes_at <= now + DAY
    assert window.seats_max > 0
    following = policy.retry_window(window.closes_at, listings)
    assert following is not None
    assert following.opens_at == window.closes_at


@pytest.mark.parametrize(
    "policy", tuple(policy for policy in POLICIES.values() if not policy.is_eager)
)
def test_slots_spread_a_catalog_evenly_over_the_day(policy: Policy) -> None:
    hours = [row.hour_bucket for row in placed(policy, 4800)]
    counts = [hours.count(hour) for hour in range(24)]
    assert min(counts) > 140
    assert max(counts) < 260


@every_policy
@pytest.mark.parametrize("read_after", (timedelta(0), timedelta(minutes=11), timedelta(hours=5)))
def test_seven_days_of_late_reads_do_not_make_a_listing_drift_by_more_than_they_are_late(
    policy: Policy, read_after: timedelta
) -> None:
    row = placed(policy, 300)[-1]
    due_at = row.next_sync_at
    for _ in range(7):
        due_at = next_due(policy, row, due_at + read_after)
    drift = due_at - (row.next_sync_at + 7 * DAY)
    assert drift <= 7 * read_after


def test_the_next_slot_is_strictly_in_the_future() -> None:
    assert next_slot(NOW, 12, 30) == NOW + DAY
    assert next_slot(NOW, 12, 31) == NOW + timedelta(minutes=1)


def test_the_stable_number_is_the_first_eight_hex_digits_of_sha256() -> None:
    assert stable_number("abc") == 0xBA7816BF
