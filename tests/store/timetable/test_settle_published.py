"""The settle of parts that are being published: staging, the raw reply, the push."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.store.timetable.conftest import Ask
from tests.store.timetable.test_schedule import claim, enter, quoted, read, settle

from headway.core.catalog.intake import intake_message
from headway.core.catalog.listings import Reply, SellerId, Sku, SuppliedDetails
from headway.store.catalog.changes import CHANGES, read_change
from headway.store.catalog.publishing import Publishing
from headway.store.catalog.review import Review
from headway.store.monitoring.law_checks import LawChecks
from headway.store.queries import read_as
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

BATCH = "00000000-0000-4000-8000-00000000000b"
UNPRICED = "no price was quoted"


def request(ask: Ask, *sellers: str) -> None:
    for seller in sellers:
        ask(
            "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id)"
            " VALUES (%s, 'P1', 'P1', %s)",
            seller,
            BATCH,
        )


def worded(**change: Any) -> Reply:
    quote = replace(quoted("P1").quotes[Sku("P1")], name="Seal", vendor="Acme", **change)
    return Reply(quotes={Sku("P1"): quote}, raw={Sku("P1"): {"name": "Seal", "listPrice": "10"}})


def test_a_part_that_is_being_published_is_staged_with_its_raw_reply(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"), ("b", "P1"))
    request(ask, "a")
    listings = claim(schedule, now, "P1")
    assert {listing.user_id: listing.batch_id for listing in listings} == {"a": BATCH, "b": None}
    settle(schedule, listings, worded(), now)
    rows = ask(
        "SELECT user_id, status, reason, title, vendor, list_price, net_price, price,"
        " cost_per_item, currency, inventory_quantity, inventory_status, location_summary,"
        " updated_at FROM product_staging"
    )
    ten, eight, eleven = Decimal(10), Decimal(8), Decimal("11.00")
    assert rows == [
        ("a", "normalized", "", "Seal", "Acme", ten, eight, eleven, eight, "USD", 5, "in_stock",
         "Miami FL: 5", now)
    ]  # fmt: skip
    raw = ask("SELECT user_id, sku, batch_id::text, raw_payload, created_at FROM boeing_raw_data")
    assert raw == [("a", "P1", BATCH, {"name": "Seal", "listPrice": "10"}, now)]
    assert ask("SELECT count(*) FROM listing_state WHERE push_at = %s", now) == [(2,)]
    assert {listing.batch_id for listing in claim(schedule, now, "P1")} == {None}, "staged once"


def test_details_are_staged_and_reach_the_draft_of_the_product(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    request(ask, "a")
    supplied = SuppliedDetails(weight="0.50", weight_unit="LB", origin="USA")
    settle(schedule, claim(schedule, now, "P1"), worded(details=supplied), now)
    values = {"user_id": "a"}
    with pool.connection() as connection:
        (change,) = read_as(connection, read_change, CHANGES, values)
    assert change.draft is not None
    details = change.draft.details
    assert (details.weight, details.weight_unit) == (Decimal("0.5"), "POUNDS")
    (part,) = Publishing(pool).parts(SellerId("a"), [Sku("P1")])
    assert list(part.left_out) == list(details.left_out)
    assert "country of origin 'USA'" in intake_message(part, None, now)


def test_a_part_that_was_read_before_it_is_published_is_still_pushed(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    read(schedule, now)
    ask("UPDATE listing_state SET push_at = NULL")
    request(ask, "a")
    read(schedule, now)
    assert ask("SELECT push_at, desired_version FROM listing_state") == [(now, 2)]
    assert ask("SELECT desired -> 'channels' FROM listing_state") == [(["Online Store"],)]
    assert ask("SELECT status FROM product_staging") == [("normalized",)]


def test_a_blocked_part_is_held_with_the_reason_and_nothing_is_pushed(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    request(ask, "a")
    settle(schedule, claim(schedule, now, "P1"), worded(quantities={"Germany CSC": 4}), now)
    reason = "stocked only at Germany CSC, which is not mapped; see HEADWAY_LOCATIONS"
    assert ask("SELECT status, reason FROM product_staging") == [("blocked", reason)]
    rows = ask("SELECT is_active, sync_status, last_error FROM product_sync_schedule")
    assert rows == [(True, "success", reason)]
    rows = ask("SELECT desired, proposed, push_at, held_reason FROM listing_state")
    assert rows == [(None, None, None, reason)]
    rows = ask("SELECT error_message FROM sync_audit_log WHERE event_type = 'publish_blocked'")
    assert rows == [(reason,)]
    assert ask("SELECT count(*) FROM boeing_raw_data") == [(1,)]


def test_a_blocked_part_is_read_again_and_published_once_its_quote_allows_it(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    request(ask, "a")
    for _ in range(2):
        settle(schedule, claim(schedule, now, "P1"), worded(list_price=None, net_price=None), now)
        assert ask("SELECT status, reason FROM product_staging") == [("blocked", UNPRICED)]
    rows = ask("SELECT count(*) FROM sync_audit_log WHERE event_type = 'publish_blocked'")
    assert rows == [(1,)], "the same reason is reported once"
    settle(schedule, claim(schedule, now, "P1"), worded(), now)
    assert ask("SELECT status, reason FROM product_staging") == [("normalized", "")]
    rows = ask("SELECT desired ->> 'price', held_reason, push_at FROM listing_state")
    assert rows == [("11.00", None, now)]


@pytest.mark.parametrize(
    "blocked", (worded(list_price=None, net_price=None), worded(quantities={"Germany CSC": 4}))
)
def test_a_blocked_part_whose_quote_is_rejected_waits_quietly_for_another_quote(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask, blocked: Reply
) -> None:
    now, held = clock.now(), "SELECT held_reason, rejected IS NULL FROM listing_state"
    enter(pool, now, ("a", "P1"))
    request(ask, "a")
    settle(schedule, claim(schedule, now, "P1"), blocked, now)
    (ruling,) = Review(pool).reject(SellerId("a"), [Sku("P1")], reason="", now=now)
    assert ruling.is_done
    for _ in range(2):
        assert LawChecks(pool).lost(now).examples == ()
        assert ask(held) == [(None, False)]
        settle(schedule, claim(schedule, now, "P1"), blocked, now)
        assert ask("SELECT status FROM product_staging") == [("blocked",)]
    settle(schedule, claim(schedule, now, "P1"), worded(net_price=Decimal(9)), now)
    assert ask("SELECT status FROM product_staging") == [("normalized",)]


@pytest.mark.parametrize("rejects", (True, False))
def test_a_part_with_a_price_that_is_blocked_when_published_loses_no_change(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask, *, rejects: bool
) -> None:
    now, elsewhere = clock.now(), worded(quantities={"Germany CSC": 4})
    enter(pool, now, ("a", "P1"))
    read(schedule, now)
    request(ask, "a")
    settle(schedule, claim(schedule, now, "P1"), elsewhere, now)
    stock = "SELECT desired -> 'quantities', push_at FROM listing_state"
    for _ in range(3):
        assert ask("SELECT status FROM product_staging") == [("blocked",)]
        assert ask(stock) == [({"Miami": 4}, now)], "what is there no more is not sold"
        assert LawChecks(pool).lost(now).examples == ()
        if rejects:
            Review(pool).reject(SellerId("a"), [Sku("P1")], reason="", now=now)
        assert LawChecks(pool).lost(now).examples == ()
        settle(schedule, claim(schedule, now, "P1"), elsewhere, now)
        held = ask("SELECT held_reason IS NOT NULL FROM listing_state")
        assert held == [(not rejects,)], "a rejected one is not held again"
    settle(schedule, claim(schedule, now, "P1"), worded(), now)
    assert ask("SELECT status FROM product_staging") == [("normalized",)]
    assert ask(stock) == [({"Miami": 5}, now)]


def test_a_doubt_about_a_part_that_is_published_can_be_approved_or_rejected(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now, doubtful = clock.now(), worded(unit="RL")
    enter(pool, now, ("a", "P1"), ("b", "P1"))
    request(ask, "a", "b")
    listings = claim(schedule, now, "P1")
    settle(schedule, listings, doubtful, now)
    assert ask("SELECT DISTINCT status FROM product_staging") == [("blocked",)]
    review = Review(pool)
    (approved,) = review.approve(SellerId("a"), [Sku("P1")], reason="", now=now)
    (rejected,) = review.reject(SellerId("b"), [Sku("P1")], reason="", now=now)
    assert (approved.is_done, rejected.is_done) == (True, True)
    statuses = "SELECT user_id, status FROM product_staging ORDER BY 1"
    for _ in range(2):
        assert ask(statuses) == [("a", "normalized"), ("b", "blocked")]
        rows = ask("SELECT desired ->> 'price', held_reason FROM listing_state ORDER BY user_id")
        assert rows == [("11.00", None), (None, None)]
        assert LawChecks(pool).lost(now).examples == ()
        settle(schedule, claim(schedule, now, "P1"), doubtful, now)


def test_a_rejected_quote_without_a_price_is_a_decision_and_nothing_lost(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now, unpriced = clock.now(), worded(list_price=None, net_price=None)
    enter(pool, now, ("a", "P1"))
    settle(schedule, claim(schedule, now, "P1"), unpriced, now)
    assert ask("SELECT held_reason FROM listing_state") == [(UNPRICED,)]
    Review(pool).reject(SellerId("a"), [Sku("P1")], reason="", now=now)
    for _ in range(2):
        assert LawChecks(pool).lost(now).examples == ()
        assert ask("SELECT held_reason FROM listing_state") == [(None,)]
        settle(schedule, claim(schedule, now, "P1"), unpriced, now)
    settle(schedule, claim(schedule, now, "P1"), worded(), now)
    assert ask("SELECT desired ->> 'price' FROM listing_state") == [("11.00",)]


def test_a_part_that_never_appears_is_requested_until_it_is_parked_and_then_failed(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    request(ask, "a")
    for _ in range(4):
        settle(schedule, claim(schedule, now, "P1"), Reply(quotes={}), now)
        assert ask("SELECT status FROM product_staging") == [("requested",)]
    settle(schedule, claim(schedule, now, "P1"), Reply(quotes={}), now)
    rows = ask("SELECT status, reason FROM product_staging")
    assert rows == [("failed", "not in the supplier's reply (5 times)")]


def test_a_late_settle_neither_stages_nor_stores_a_raw_reply(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    request(ask, "a")
    late = claim(schedule, now, "P1")
    schedule.rescue(now + timedelta(minutes=5))
    assert settle(schedule, late, worded(), now) == 1
    assert ask("SELECT status FROM product_staging") == [("requested",)]
    assert ask("SELECT count(*) FROM boeing_raw_data") == [(0,)]
