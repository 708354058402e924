"""A person's verbs over held changes, history and parked parts: whole or not at all, per seller."""

from collections.abc import Callable

import pytest
from psycopg_pool import ConnectionPool
from tests.store.catalog.held_listings import (
    HOUR,
    JUMP,
    P1,
    P2,
    P3,
    A,
    Ask,
    B,
    Put,
    State,
    events,
    shows,
    state,
    wrote,
)

from headway.core.catalog.lifecycle import Settlement
from headway.core.catalog.listings import Outcome, Priority, SellerId, Sku
from headway.errors import InvalidError, NotFoundError, StoreError
from headway.store.catalog.review import Review
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

CALL = "00000000-0000-4000-8000-000000000001"


def test_held_changes_are_listed_with_old_and_new_values_oldest_first(
    review: Review, hold: Put, put: Put, clock: VirtualClock
) -> None:
    now = clock.now()
    hold(A, P1)
    hold(A, P2, price=None, held_at=now - HOUR)
    hold(B, P1, held_at=now - HOUR)
    put(A, P3)
    held = review.held(limit=10)
    assert [(ruling.seller, ruling.sku) for ruling in held] == [(A, P2), (B, P1), (A, P1)]
    assert [ruling.can_approve for ruling in held] == [False, True, True]
    unpriced, _, jump = held
    assert (jump.reason, jump.held_at) == (JUMP, now)
    assert jump.old is not None
    assert jump.new is not None
    assert (jump.old["price"], jump.new["price"]) == ("11.00", "25.00")
    assert unpriced.new is not None
    assert unpriced.new["net_price"] == "9"
    assert [change.sku for change in review.held(A, limit=10)] == [P2, P1]


def test_held_changes_come_in_pages_without_gap_or_repeat(review: Review, hold: Put) -> None:
    for number in range(5):
        hold(A, Sku(f"P{number}"))
    first = review.held(limit=2)
    second = review.held(limit=2, cursor=first[-1].cursor)
    third = review.held(limit=2, cursor=second[-1].cursor)
    assert [ruling.sku for ruling in first + second + third] == ["P0", "P1", "P2", "P3", "P4"]


def test_approving_makes_the_proposal_the_desired_state_and_due(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1)
    now = clock.now() + HOUR
    (ruling,) = review.approve(A, [P1], reason="new price list", now=now)
    assert ruling.is_done
    assert state(ask, A, P1) == {
        "desired": shows("25.00", 7), "desired_version": 4, "desired_at": now, "push_at": now,
        "held_reason": None, "proposed": None, "rejected": None,
    }  # fmt: skip
    event = (A, P1, now, shows("11.00"), shows("25.00", 7), "new price list")
    assert events(ask, "change_approved") == [event]


def test_approving_twice_changes_nothing_twice(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1)
    review.approve(A, [P1, P1], reason="", now=clock.now())
    once = state(ask, A, P1)
    (ruling,) = review.approve(A, [P1], reason="", now=clock.now() + HOUR)
    assert (ruling.is_done, ruling.message) == (False, "nothing is held")
    assert state(ask, A, P1) == once
    assert len(events(ask, "change_approved")) == 1


def test_approving_puts_no_parked_part_on_sale_and_no_missing_one_in_stock(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1, desired=shows("11.00", status="DRAFT"))
    hold(A, P2, desired=shows("11.00", 0))
    review.approve(A, [P1, P2], reason="", now=clock.now())
    assert state(ask, A, P1)["desired"] == shows("25.00", 7, status="DRAFT")
    assert state(ask, A, P2)["desired"] == shows("25.00", 0)


def test_what_has_no_proposal_cannot_be_approved_and_blocks_no_other(
    review: Review, hold: Put, put: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1, price=None)
    hold(A, P2)
    put(A, P3)
    before = state(ask, A, P1)
    rulings = review.approve(A, [P1, P2, P3], reason="", now=clock.now())
    assert [ruling.is_done for ruling in rulings] == [False, True, False]
    assert rulings[0].message == (
        "cannot be approved (no price was quoted); reject it, or wait for the next read"
    )
    assert state(ask, A, P1) == before


def test_an_unknown_part_is_named_and_nothing_is_done(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1)
    hold(B, P2)
    with pytest.raises(NotFoundError, match="a does not list P2, P9; nothing was done"):
        review.approve(A, [P1, P2, Sku("P9")], reason="", now=clock.now())
    assert state(ask, A, P1)["held_reason"] == JUMP


def test_a_sellers_verb_leaves_the_same_part_of_another_alone(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1)
    hold(B, P1)
    before = state(ask, B, P1)
    now = clock.now()
    wrote(ask, P1, now, None, shows("10.00"))
    review.approve(A, [P1], reason="", now=now)
    review.reject(A, [P1], reason="", now=now)
    review.rollback(A, [P1], to=now, reason="", now=now)
    review.approve_all(A, reason="all", now=now)
    assert state(ask, B, P1) == before
    assert ask("SELECT user_id FROM sync_audit_log WHERE user_id <> 'a'") == []
    (ruling,) = review.rollback(B, [P1], to=now, reason="", now=now)
    assert not ruling.is_done


@pytest.mark.parametrize("kind", ("change_approved", "change_rejected", "rolled_back"))
def test_a_verb_whose_event_cannot_be_written_does_nothing(
    hold: Put, ask: Ask, pool: ConnectionPool, clock: VirtualClock, kind: str
) -> None:
    hold(A, P1)
    review, now = Review(pool), clock.now()
    Schedule(pool).claim([P1], now=now, owner="w1", lease_until=now + HOUR)
    wrote(ask, P1, now, None, shows("10.00"))
    ask(f"ALTER TABLE sync_audit_log ADD CHECK (event_type <> '{kind}')")
    before = state(ask, A, P1)
    verbs: dict[str, Callable[[], object]] = {
        "change_approved": lambda: review.approve_all(A, reason="all", now=now),
        "change_rejected": lambda: review.reject(A, [P1], reason="", now=now),
        "rolled_back": lambda: review.rollback(A, [P1], to=now, reason="", now=now),
    }
    with pytest.raises(StoreError):
        verbs[kind]()
    assert state(ask, A, P1) == before
    assert ask("SELECT lease_owner FROM product_sync_schedule") == [("w1",)]


def test_a_read_under_way_cannot_undo_what_a_person_decided(
    review: Review, hold: Put, pool: ConnectionPool, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1)
    hold(A, P2, price=None)  # cannot be approved: its read goes on
    now, schedule = clock.now(), Schedule(pool)
    listings = schedule.claim([P1, P2], now=now, owner="w1", lease_until=now + HOUR)
    review.approve(A, [P1, P2], reason="", now=now)
    late = [
        Settlement(
            listing=listing, outcome=Outcome.UPDATED, priority=Priority.SCHEDULED,
            next_sync_at=now + HOUR,
            desired=shows("11.00"), held_reason=JUMP,
        )
        for listing in listings
    ]  # fmt: skip
    assert schedule.settle(late, now=now, call_id=CALL) == 1
    assert state(ask, A, P1)["desired"] == shows("25.00", 7)
    (again,) = schedule.claim([P1], now=now, owner="w2", lease_until=now + HOUR)
    assert again.desired == shows("25.00", 7)


def test_approving_all_takes_what_can_be_and_lifts_the_mass_guard_for_a_day(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1)
    hold(A, P2, price=None)
    hold(B, P1)
    hold(SellerId("c"), P1, price=None)
    now = clock.now()
    ask("INSERT INTO profiles (user_id, markup) VALUES ('b', 0.2)")
    rulings = review.approve_all(None, reason="yearly price list", now=now)
    assert {(ruling.seller, ruling.sku) for ruling in rulings if ruling.is_done} == {
        (A, P1),
        (B, P1),
    }
    assert sorted(ruling.sku for ruling in rulings if not ruling.is_done) == [P1, P2]
    lifted = "SELECT user_id, markup, mass_approved_until FROM profiles ORDER BY user_id"
    day = now + 24 * HOUR
    assert [(user, until) for user, _, until in ask(lifted)] == [(A, day), (B, day)]
    assert str(ask(lifted)[1][1]) == "0.2"
    assert [event[5] for event in events(ask, "change_approved")] == ["yearly price list"] * 2
    with pytest.raises(InvalidError, match="give a reason"):
        review.approve_all(A, reason=" ", now=now)


def test_rejecting_keeps_the_shop_and_remembers_the_proposal(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1)
    before, now = state(ask, A, P1), clock.now() + HOUR
    (ruling,) = review.reject(A, [P1], reason="a typing error", now=now)
    assert ruling.is_done
    assert state(ask, A, P1) == {
        **before, "held_reason": None, "proposed": None, "rejected": shows("25.00", 7)
    }  # fmt: skip
    event = (A, P1, now, shows("11.00"), shows("25.00", 7), "a typing error")
    assert events(ask, "change_rejected") == [event]
    (again,) = review.reject(A, [P1], reason="", now=now)
    assert (again.is_done, again.message) == (False, "nothing is held")


def test_rejecting_what_has_no_proposal_remembers_what_was_observed(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1, price=None)
    review.reject(A, [P1], reason="", now=clock.now())
    after = state(ask, A, P1)
    assert after["held_reason"] is None
    unpriced = {"price": None, "cost": "9", "currency": "USD", "compare_at": None}
    assert after["rejected"] == unpriced


def test_a_rollback_returns_to_the_price_of_that_time_with_todays_stock(
    review: Review, put: Put, ask: Ask, clock: VirtualClock
) -> None:
    start, bad = clock.now(), shows("14.00", 2, compare_at="20.00")
    put(A, P1, desired=bad)
    wrote(ask, P1, start + 2 * HOUR, shows("11.00", 9), shows("12.00", 9, compare_at="15.00"))
    wrote(ask, P1, start + 4 * HOUR, shows("12.00", 9), shows("13.00", 9))
    now, twelve = start + 9 * HOUR, shows("12.00", 2, compare_at="15.00")
    then = {0: shows("11.00", 2), 2: twelve, 3: twelve, 4: shows("13.00", 2)}
    for hours, expected in then.items():
        to = start + hours * HOUR
        (ruling,) = review.rollback(A, [P1], to=to, reason="", now=now, dry_run=True)
        assert ruling.new == expected
    assert state(ask, A, P1)["desired_version"] == 3
    review.rollback(A, [P1], to=start + 3 * HOUR, reason="bad list", now=now)
    assert state(ask, A, P1) == {
        "desired": twelve, "desired_version": 4, "desired_at": now, "push_at": now,
        "held_reason": None, "proposed": None, "rejected": bad,
    }  # fmt: skip
    assert events(ask, "rolled_back") == [(A, P1, now, bad, twelve, "bad list")]


@pytest.mark.parametrize(
    "then", (shows("11.0"), shows("0.00"), shows("10.50", currency="EUR")), ids=str
)
def test_a_rollback_to_the_price_it_has_or_to_what_is_no_price_does_nothing(
    review: Review, put: Put, ask: Ask, clock: VirtualClock, then: State
) -> None:
    put(A, P1, desired=shows("11.00"))
    wrote(ask, P1, clock.now(), None, then)
    before = state(ask, A, P1)
    (ruling,) = review.rollback(A, [P1], to=clock.now(), reason="", now=clock.now())
    assert not ruling.is_done
    assert ("already" if then["price"] == "11.0" else "no price") in ruling.message
    assert state(ask, A, P1) == before


def test_a_second_rollback_still_remembers_the_quote_that_was_undone(
    review: Review, put: Put, ask: Ask, clock: VirtualClock
) -> None:
    start = clock.now()
    put(A, P1, desired=shows("13.00"))
    wrote(ask, P1, start, None, shows("11.00"))
    wrote(ask, P1, start + HOUR, shows("11.00"), shows("12.00"))
    for to in (start + HOUR, start):
        review.rollback(A, [P1], to=to, reason="", now=start + 2 * HOUR)
    after = state(ask, A, P1)
    assert (after["desired"], after["rejected"]) == (shows("11.00"), shows("13.00"))


def test_a_rollback_of_a_held_listing_rejects_its_proposal(
    review: Review, hold: Put, ask: Ask, clock: VirtualClock
) -> None:
    hold(A, P1)
    wrote(ask, P1, clock.now(), None, shows("10.00"))
    review.rollback(A, [P1], to=clock.now(), reason="", now=clock.now())
    after = state(ask, A, P1)
    assert (after["held_reason"], after["proposed"]) == (None, None)
    assert after["rejected"] == shows("25.00", 7)


@pytest.mark.parametrize("first", (None, {}, {"price": None}))
def test_a_listing_without_history_at_that_point_is_reported_and_left_alone(
    review: Review, put: Put, ask: Ask, clock: VirtualClock, first: State | None
) -> None:
    put(A, P1)
    if first is not None:
        wrote(ask, P1, clock.now() + HOUR, first, shows("10.00"))
    before = state(ask, A, P1)
    (ruling,) = review.rollback(A, [P1], to=clock.now(), reason="", now=clock.now())
    assert not ruling.is_done
    assert ruling.message == "the shop's history does not reach back to that time"
    assert state(ask, A, P1) == before


def test_a_batch_rolls_back_what_changed_since_and_nothing_else(
    review: Review, put: Put, ask: Ask, clock: VirtualClock
) -> None:
    start = clock.now()
    bad = start + 5 * HOUR
    for sku in (P1, P2, P3):
        wrote(ask, sku, start, None, shows("11.00"))
    put(A, P1, desired=shows("99.00"))
    wrote(ask, P1, bad, shows("11.00"), shows("99.00"))
    put(A, P2, desired=shows("98.00"), desired_at=bad)  # not pushed yet
    put(A, P3, desired=shows("12.00"), desired_at=start + HOUR)
    put(B, P1, desired=shows("99.00"), desired_at=bad)
    rulings = review.rollback(A, since=bad, to=bad - HOUR, reason="bad list", now=bad + HOUR)
    assert sorted(ruling.sku for ruling in rulings) == [P1, P2]
    prices = ask("SELECT user_id, sku, desired ->> 'price' FROM listing_state ORDER BY 1, 2")
    assert prices == [(A, P1, "11.00"), (A, P2, "11.00"), (A, P3, "12.00"), (B, P1, "99.00")]


def park(ask: Ask, sku: Sku) -> None:
    ask(
        "UPDATE product_sync_schedule SET sync_status = 'parked', is_active = false,"
        " consecutive_failures = 5, missing_count = 5, suspicion = 2, priority = 'retry',"
        " last_error = 'gone' WHERE user_id = 'a' AND sku = %s",
        sku,
    )


@pytest.mark.parametrize(
    "statuses",
    (
        ("DRAFT", "UNLISTED", "UNLISTED"),
        ("DRAFT", None, "ACTIVE"),
        ("ACTIVE", "UNLISTED", "ACTIVE"),  # not written to the shop yet
    ),
)
def test_reviving_restarts_a_parked_part_and_restores_its_status(
    review: Review, put: Put, ask: Ask, clock: VirtualClock, statuses: tuple[str, str | None, str]
) -> None:
    status, former, expected = statuses
    put(A, P1, desired=shows("11.00", 0, status="DRAFT"))
    park(ask, P1)
    ask(
        "INSERT INTO product (user_id, sku, shop_sku, status, former_status)"
        " VALUES ('a', 'P1', 'P1', %s, %s)",
        *(status, former),
    )
    now = clock.now() + HOUR
    (ruling,) = review.revive(A, [P1], now=now)
    assert (ruling.is_done, ruling.message) == (True, "revived")
    columns = (
        "is_active, sync_status, consecutive_failures, missing_count, suspicion, priority,"
        " next_sync_at"
    )
    row = (True, "pending", 0, 0, 0, "manual", now)
    assert ask(f"SELECT {columns} FROM product_sync_schedule") == [row]
    after = state(ask, A, P1)
    assert after["desired"] == shows("11.00", 0, status=expected)
    assert (after["desired_version"], after["push_at"]) == (4, now)
    (event,) = events(ask, "listing_revived")
    assert (event[3]["status"], event[4]["status"]) == ("DRAFT", expected)


def test_reviving_what_was_never_taken_off_sale_pushes_nothing(
    review: Review, put: Put, ask: Ask, clock: VirtualClock
) -> None:
    put(A, P1)
    park(ask, P1)
    before = state(ask, A, P1)
    review.revive(A, [P1], now=clock.now())
    assert state(ask, A, P1) == before
    assert len(events(ask, "listing_revived")) == 1


def test_what_is_not_parked_is_not_revived(
    review: Review, put: Put, pool: ConnectionPool, ask: Ask, clock: VirtualClock
) -> None:
    put(A, P1)
    put(A, P2)
    park(ask, P2)
    now = clock.now()
    Schedule(pool).claim([P1], now=now, owner="w1", lease_until=now + HOUR)
    before = ask("SELECT * FROM product_sync_schedule WHERE sku = 'P1'")
    rulings = review.revive(A, [P1, P2], now=now + HOUR)
    messages = [(ruling.is_done, ruling.message) for ruling in rulings]
    assert messages == [(False, "not parked"), (True, "revived")]
    assert ask("SELECT * FROM product_sync_schedule WHERE sku = 'P1'") == before
    (again,) = review.revive(A, [P2], now=now)
    assert not again.is_done


def test_reviving_all_takes_one_sellers_parked_or_everybodys(
    review: Review, put: Put, ask: Ask, clock: VirtualClock
) -> None:
    for seller, sku in ((A, P1), (A, P2), (B, P1), (B, P2)):
        put(seller, sku)
    park(ask, P1)
    parked = "UPDATE product_sync_schedule SET sync_status = 'parked', is_active = false"
    ask(parked + " WHERE user_id = 'b' AND sku = 'P1'")
    (revived,) = review.revive_all(B, now=clock.now())
    assert (revived.seller, revived.sku) == (B, P1)
    assert [ruling.seller for ruling in review.revive_all(None, now=clock.now())] == [A]
    assert review.revive_all(None, now=clock.now()) == []
