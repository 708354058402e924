"""`explain` answers for every row, in words that name the rule and the instant."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.listings import Candidate, Priority, SellerId, Sku
from headway.core.limits.breaker import Breaker
from headway.core.reasons import ListingPosition, ListingState, format_duration, format_time
from headway.core.timetable.next_call import SupplierQueue
from headway.core.timetable.seats import SeatRule
from headway.engine.explain import in_shop, place, reasons

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
RULE = SeatRule(seats=10, slack=timedelta(minutes=20))
MINUTE = timedelta(minutes=1)
PACE = timedelta(seconds=30)


def position(**changes: object) -> ListingPosition:
    values: dict[str, object] = {
        "id": "a",
        "user_id": SellerId("acme"),
        "sku": Sku("A=K3"),
        "priority": Priority.SCHEDULED,
        "next_sync_at": NOW - MINUTE,
    }
    return ListingPosition(**{**values, **changes})  # type: ignore[arg-type]


def candidate(sku: str, due_at: datetime, **changes: object) -> Candidate:
    values: dict[str, object] = {
        "id": sku,
        "user_id": SellerId("acme"),
        "sku": Sku(sku),
        "priority": Priority.SCHEDULED,
        "next_sync_at": due_at,
    }
    return Candidate(**{**values, **changes})  # type: ignore[arg-type]


def queue(**changes: object) -> SupplierQueue:
    values: dict[str, object] = {
        "rule": RULE,
        "breaker": Breaker(),
        "permit_at": NOW,
        "pace": PACE,
        "front": (candidate("A=K3", NOW - MINUTE),),
    }
    return SupplierQueue(**{**values, **changes})  # type: ignore[arg-type]


FULL = tuple(candidate(f"B{number}", NOW - 2 * MINUTE) for number in range(12))


def test_a_parked_listing_says_since_when_why_and_what_to_do() -> None:
    parked = position(
        is_active=False,
        sync_status="parked",
        consecutive_failures=5,
        last_error="unusable line: no price",
        last_sync_at=NOW - timedelta(hours=3),
    )
    answer = reasons(parked, queue(), NOW)
    assert answer.state is ListingState.PARKED
    assert "since 09:00 UTC after 5 failures in a row (unusable line: no price)" in answer.sentence
    assert "a person revives it" in answer.sentence


def test_a_part_that_was_never_read_names_a_missing_login_of_the_supplier() -> None:
    unread, read = position(), position(last_successful_sync=NOW - timedelta(hours=3))
    assert "no login for the supplier" in reasons(unread, queue(), NOW, lacks_login=True).sentence
    for answer in (reasons(unread, queue(), NOW), reasons(read, queue(), NOW, lacks_login=True)):
        assert "login" not in answer.sentence, "a worker has one"


def test_a_listing_that_was_switched_off_says_so() -> None:
    answer = reasons(position(is_active=False), queue(), NOW)
    assert (answer.state, answer.until) == (ListingState.INACTIVE, None)


def test_a_part_that_may_not_be_published_says_why_and_what_restarts_it() -> None:
    reason = "stocked only at Germany CSC, which is not mapped; see HEADWAY_LOCATIONS"
    blocked = position(is_active=False, sync_status="success", last_error=reason)
    answer = reasons(blocked, queue(), NOW)
    assert (answer.state, answer.until) == (ListingState.BLOCKED, None)
    assert answer.sentence == (
        f"Not published: {reason}. It is not read until it is published again."
    )


def test_a_part_that_is_blocked_and_read_again_says_why_and_when() -> None:
    blocked = position(
        sync_status="success", last_error="no price", next_sync_at=NOW + timedelta(hours=2)
    )
    answer = reasons(blocked, queue(), NOW)
    assert answer.sentence.startswith("Not published: no price. Not due before 14:00 UTC")
    assert answer.until == blocked.next_sync_at


def test_a_listing_being_read_names_its_holder_and_the_end_of_its_lease() -> None:
    held = position(
        sync_status="syncing", lease_owner="fetch-1", lease_until=NOW + timedelta(seconds=40)
    )
    answer = reasons(held, queue(), NOW)
    assert (answer.state, answer.until) == (ListingState.READING, held.lease_until)
    assert "fetch-1" in answer.sentence
    assert "12:00:40 UTC" in answer.sentence


def test_a_silent_holder_is_named_and_the_rescue_is_predicted() -> None:
    held = position(sync_status="syncing", lease_owner="fetch-1", lease_until=NOW - MINUTE)
    answer = reasons(held, queue(), NOW)
    assert answer.state is ListingState.SILENT
    assert answer.until == NOW + timedelta(minutes=2, seconds=30)
    assert "fetch-1 claimed it and stopped responding" in answer.sentence


def test_a_listing_before_its_time_says_when_it_is_due() -> None:
    early = position(next_sync_at=NOW + timedelta(hours=20), ahead_count=41)
    answer = reasons(early, queue(), NOW)
    assert (answer.state, answer.until, answer.place) == (
        ListingState.NOT_DUE,
        early.next_sync_at,
        "42",
    )
    assert "Not due before 5 Mar 08:00 UTC" in answer.sentence


def test_a_failing_listing_says_how_often_it_failed_and_when_it_is_tried_again() -> None:
    failing = position(
        priority=Priority.RETRY,
        next_sync_at=NOW + timedelta(hours=2),
        consecutive_failures=2,
        last_error="not in the supplier's reply (2 of 3)",
    )
    answer = reasons(failing, queue(), NOW)
    assert (answer.state, answer.until) == (ListingState.BACKOFF, failing.next_sync_at)
    assert "2 failures in a row (not in the supplier's reply (2 of 3))" in answer.sentence
    assert "tried again from 14:00 UTC" in answer.sentence


def test_an_open_breaker_is_named_with_its_reason_and_the_next_try() -> None:
    breaker = Breaker(failures=3, open_until=NOW + MINUTE, opened_at=NOW, reason="timed out")
    answer = reasons(position(), queue(breaker=breaker), NOW)
    assert (answer.state, answer.until) == (ListingState.NO_ANSWER, NOW + MINUTE)
    assert "(timed out)" in answer.sentence


def test_a_pause_is_named_with_its_reason() -> None:
    paused = queue(paused_until=NOW + MINUTE, pause_reason="rate limited by the supplier")
    answer = reasons(position(), paused, NOW)
    assert (answer.state, answer.until) == (ListingState.RATE_LIMITED, NOW + MINUTE)
    assert "rate limited by the supplier" in answer.sentence


def test_a_due_listing_waits_for_company_no_longer_than_its_slack() -> None:
    answer = reasons(position(), queue(), NOW)
    assert (answer.state, answer.until) == (ListingState.COMPANY, NOW + 19 * MINUTE)
    assert "1 of 10 seats taken" in answer.sentence


def test_a_manual_listing_does_not_wait_for_company() -> None:
    manual = position(priority=Priority.MANUAL, next_sync_at=NOW + timedelta(hours=9))
    front = (candidate("A=K3", manual.next_sync_at, priority=Priority.MANUAL),)
    answer = reasons(manual, queue(front=front, permit_at=NOW + PACE), NOW)
    assert (answer.state, answer.until) == (ListingState.PERMIT, NOW + PACE)
    assert "Goes first (manual)" in answer.sentence


def test_a_listing_behind_a_full_call_says_how_many_go_before_it() -> None:
    behind = position(ahead_count=30)
    answer = reasons(behind, queue(front=FULL, permit_at=NOW + PACE), NOW)
    assert (answer.state, answer.place) == (ListingState.PERMIT, "31")
    assert answer.until == NOW + 4 * PACE
    assert "30 are before it" in answer.sentence


def test_a_suspect_kept_ashore_says_with_how_few_it_may_travel() -> None:
    suspect = position(suspicion=3, ahead_count=3)
    front = tuple(candidate(f"S{n}", NOW - 2 * MINUTE, suspicion=3) for n in range(3))
    front += (candidate("A=K3", NOW - MINUTE, suspicion=3),)
    front += tuple(candidate(f"C{n}", NOW) for n in range(10))
    answer = reasons(suspect, queue(front=front), NOW)
    assert answer.state is ListingState.SUSPECT
    assert "at most 2 others like it" in answer.sentence


def test_a_place_beyond_the_count_is_a_bound() -> None:
    assert place(position(ahead_count=1001, has_more=True)) == "more than 1,001"


@pytest.mark.parametrize(
    ("at", "text"),
    (
        (NOW + timedelta(seconds=5), "12:00:05 UTC"),
        (NOW + timedelta(hours=3), "15:00 UTC"),
        (NOW + timedelta(days=3), "7 Mar 12:00 UTC"),
        (NOW - timedelta(days=100), "24 Nov 2025 12:00 UTC"),
    ),
)
def test_a_time_is_written_relative_to_now(at: datetime, text: str) -> None:
    assert format_time(at, NOW) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    ((-4, "0 s"), (75, "75 s"), (120, "2 min"), (5400, "1 h 30 min"), (90000, "25 h")),
)
def test_a_duration_is_written_in_its_two_largest_units(seconds: int, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


def moments() -> st.SearchStrategy[datetime]:
    return st.integers(-200_000, 200_000).map(lambda seconds: NOW + timedelta(seconds=seconds))


positions = st.builds(
    ListingPosition,
    id=st.just("a"),
    user_id=st.just(SellerId("acme")),
    sku=st.sampled_from([Sku("A=K3"), Sku("B1")]),
    priority=st.sampled_from(
        [Priority.MANUAL, Priority.ONBOARDING, Priority.SCHEDULED, Priority.RETRY]
    ),
    next_sync_at=moments(),
    sync_status=st.sampled_from(["pending", "success", "failed"]),
    consecutive_failures=st.integers(0, 5),
    suspicion=st.integers(0, 6),
    ahead_count=st.integers(0, 1001),
    has_more=st.booleans(),
)
queues = st.builds(
    SupplierQueue,
    rule=st.just(RULE),
    breaker=st.builds(Breaker, failures=st.integers(0, 9), open_until=st.none() | moments()),
    permit_at=moments(),
    pace=st.just(PACE),
    paused_until=st.none() | moments(),
    front=st.sampled_from([(), FULL, FULL[:3]]),
)


@given(position=positions, queue=queues)
def test_every_waiting_row_has_a_reason_and_an_instant_not_yet_past(
    position: ListingPosition, queue: SupplierQueue
) -> None:
    answer = reasons(position, queue, NOW)
    assert answer.sentence.endswith(".")
    assert answer.until is not None
    assert answer.until >= NOW


@pytest.mark.parametrize(
    ("changes", "text"),
    (
        ({"shop_status": None}, "acme has no shop"),
        ({"shop_status": "disconnected", "shop_reason": "the grant died"}, "the grant died"),
        ({"held_reason": "the price would fall by 95.3 %"}, "fall by 95.3 %. Decide with"),
        ({"held_reason": "it would fall"}, "until then its stock is updated."),
        ({"held_reason": "all sold out", "holds_stock": True}, "its stock is held with it."),
        ({"is_rejected": True}, "Its quote was rejected; the next one that differs is used."),
        ({"push_at": NOW}, "On its way to the shop."),
        ({"push_at": NOW, "is_in_bulk": True}, "in a bulk operation"),
        ({"push_at": NOW + MINUTE, "push_error": "suspended"}, "again at 12:01:00 UTC"),
        ({"applied_at": NOW}, "The shop shows it."),
        ({}, "Nothing was read for the shop yet."),
        (
            {"is_active": False, "sync_status": "success", "last_error": "no", "held_reason": "no"},
            "The shop does not have it.",
        ),
    ),
)
def test_every_listing_can_say_how_it_stands_in_its_shop(
    changes: dict[str, object], text: str
) -> None:
    assert text in in_shop(position(**{"shop_status": "connected", **changes}), NOW)
