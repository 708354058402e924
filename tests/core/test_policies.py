from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.model import Listing, SellerId, Sku, Turn
from headway.core.policies import POLICIES, Anchored, Policy, Seen
from headway.core.policies.policy import next_slot, stable_number

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
instants = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(  # noqa: DTZ001
    lambda at: at.replace(tzinfo=UTC)
)
every_policy = pytest.mark.parametrize("policy", tuple(POLICIES.values()), ids=tuple(POLICIES))


def listing(sku: str, policy: Policy) -> Listing:
    place = policy.place(Sku(sku), NOW)
    return Listing(
        id="1",
        user_id=SellerId("s"),
        sku=Sku(sku),
        turn=Turn.SCHEDULED,
        fence=1,
        next_sync_at=place.next_sync_at,
        hour_bucket=place.hour_bucket,
        minute_offset=place.minute_offset,
        created_at=NOW,
    )


def next_due(policy: Policy, row: Listing, now: datetime) -> datetime:
    return policy.next_read(Seen(listing=row, at=now, has_changed=False)).next_sync_at


@every_policy
@given(sku=st.text(), now=instants)
def test_a_new_listing_is_due_within_a_day_and_always_gets_the_same_slot(
    policy: Policy, sku: str, now: datetime
) -> None:
    place = policy.place(Sku(sku), now)
    assert now < place.next_sync_at <= now + timedelta(days=1)
    again = policy.place(Sku(sku), now + timedelta(days=3))
    assert (place.hour_bucket, place.minute_offset) == (again.hour_bucket, again.minute_offset)


@every_policy
@given(sku=st.text(), now=instants)
def test_a_read_listing_is_due_again_before_it_is_too_old(
    policy: Policy, sku: str, now: datetime
) -> None:
    due = next_due(policy, listing(sku, policy), now)
    assert now < due
    assert due + policy.slack < now + policy.age_max


@pytest.mark.parametrize("policy", tuple(each for each in POLICIES.values() if not each.is_eager))
def test_slots_spread_a_catalogue_evenly_over_the_day(policy: Policy) -> None:
    hours = [policy.place(Sku(f"PART-{n}"), NOW).hour_bucket for n in range(4800)]
    counts = [hours.count(hour) for hour in range(24)]
    assert min(counts) > 140
    assert max(counts) < 260


def test_anchored_takes_its_slot_from_sha256_as_the_document_says() -> None:
    place = Anchored().place(Sku("WF338109=K3"), NOW)
    assert place.hour_bucket == stable_number("WF338109=K3") % 24
    assert place.minute_offset == stable_number("WF338109=K3:offset") % 60
    assert stable_number("abc") == 0xBA7816BF, "the first eight hex digits of SHA-256"


def test_an_anchored_slot_does_not_drift_over_seven_days_of_late_reads() -> None:
    policy = Anchored()
    row = listing("P1", policy)
    due = row.next_sync_at
    for _ in range(7):
        due = next_due(policy, row, due + timedelta(minutes=11))
        assert (due.hour, due.minute) == (row.hour_bucket, row.minute_offset)
    assert due == row.next_sync_at + timedelta(days=7)


def test_an_anchored_listing_read_a_little_early_is_not_read_again_at_its_slot() -> None:
    policy = Anchored()
    row = listing("P1", policy)
    early = row.next_sync_at - timedelta(minutes=25)
    assert next_due(policy, row, early) == row.next_sync_at + timedelta(days=1)
    assert next_due(policy, row, early - timedelta(minutes=1)) == row.next_sync_at


def test_the_next_slot_is_strictly_in_the_future() -> None:
    assert next_slot(NOW, 12, 30) == NOW + timedelta(days=1)
    assert next_slot(NOW, 12, 31) == NOW + timedelta(minutes=1)
