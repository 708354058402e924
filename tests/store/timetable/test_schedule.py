"""The schedule's rows: front, claim, settle, release, rescue."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from psycopg_pool import ConnectionPool
from tests.store.timetable.conftest import Ask

from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.lifecycle import FailureRule, Judge
from headway.core.catalog.listings import Listing, Priority, Quote, Reply, SellerId, Sku
from headway.core.timetable.policies.rolling import Rolling
from headway.errors import StoreError
from headway.store.catalog.listings import Listings
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

JUDGE = Judge(rule=FailureRule(), policy=Rolling())
STANDING = SellerSettings(terms=Terms(locations={"Miami FL": "Miami"}, currency="USD"))
CALL = "00000000-0000-4000-8000-000000000001"


def enter(pool: ConnectionPool, now: datetime, *keys: tuple[str, str]) -> int:
    pairs = [(SellerId(seller), Sku(sku)) for seller, sku in keys]
    return Listings(pool).add(pairs, policy=Rolling(), now=now)


def claim(schedule: Schedule, now: datetime, *skus: str, owner: str = "w1") -> list[Listing]:
    return schedule.claim(
        [Sku(sku) for sku in skus],
        now=now,
        owner=owner,
        lease_until=now + timedelta(seconds=90),
    )


def quoted(*skus: str, price: int = 10, quantity: int = 5) -> Reply:
    return Reply(
        quotes={
            Sku(sku): Quote(
                sku=Sku(sku),
                list_price=Decimal(price),
                net_price=Decimal(8),
                currency="USD",
                quantities={"Miami FL": quantity},
            )
            for sku in skus
        }
    )


def settle(schedule: Schedule, listings: list[Listing], reply: Reply, now: datetime) -> int:
    settlements = [JUDGE.settle(listing, reply, now, STANDING) for listing in listings]
    return schedule.settle(settlements, now=now, call_id=CALL)


def test_a_listing_enters_once_and_keeps_its_slot(
    pool: ConnectionPool, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    assert enter(pool, now, ("a", "P/1 =E9"), ("b", "P/1 =E9")) == 2
    before = ask("SELECT user_id, next_sync_at FROM product_sync_schedule ORDER BY 1")
    assert enter(pool, now + timedelta(hours=5), ("a", "P/1 =E9")) == 0
    assert ask("SELECT user_id, next_sync_at FROM product_sync_schedule ORDER BY 1") == before


def test_the_front_holds_the_next_due_of_every_priority_and_no_leased_or_inactive_row(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, *(("a", f"P{n}") for n in range(40)))
    ask("UPDATE product_sync_schedule SET priority = 'manual' WHERE sku = 'P7'")
    ask("UPDATE product_sync_schedule SET priority = 'retry' WHERE sku = 'P8'")
    ask("UPDATE product_sync_schedule SET is_active = false WHERE sku = 'P9'")
    claim(schedule, now, "P10")
    front = schedule.front(now, limit=5)
    assert {candidate.priority for candidate in front} == {
        Priority.MANUAL,
        Priority.SCHEDULED,
        Priority.RETRY,
    }
    assert len(front) == 7
    everything = {candidate.sku for candidate in schedule.front(now, limit=100)}
    assert everything == {f"P{n}" for n in range(40)} - {"P9", "P10"}
    rest = {candidate.sku for candidate in schedule.front(now, limit=100, without={Sku("P1")})}
    assert rest == everything - {"P1"}


def test_the_front_can_leave_out_listings_of_a_failed_call(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"), ("a", "P2"))
    (listing,) = claim(schedule, now, "P1")
    schedule.release([listing], suspicion={listing.id: 1})
    assert {candidate.sku for candidate in schedule.front(now, limit=9)} == {"P1", "P2"}
    assert {candidate.sku for candidate in schedule.front(now, limit=9, only_clean=True)} == {"P2"}


def test_a_listing_made_due_is_not_settled_by_a_worker_that_had_it_in_a_call(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "Pa1"), ("a", "P2"))
    ask("UPDATE product_sync_schedule SET priority = 'retry' WHERE sku = 'Pa1'")
    in_call = claim(schedule, now, "Pa1", "P2")
    assert schedule.make_due({"pa1"}, now=now) == 1
    assert settle(schedule, in_call, quoted("Pa1", "P2"), now) == 1, "one settle is refused"
    due = "SELECT sku, priority, sync_status FROM product_sync_schedule WHERE next_sync_at <= %s"
    assert ask(due, now) == [("Pa1", "scheduled", "pending")]
    assert schedule.make_due(None, now=now) == 2


def test_a_claim_takes_the_listing_of_every_seller_and_no_worker_can_take_it_again(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"), ("b", "P1"), ("a", "P2"))
    first = claim(schedule, now, "P1")
    assert {listing.user_id for listing in first} == {"a", "b"}
    assert {listing.sku for listing in claim(schedule, now, "P1", "P2", owner="w2")} == {"P2"}


def test_a_settled_read_writes_schedule_state_and_events_together(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    assert settle(schedule, claim(schedule, now, "P1"), quoted("P1"), now) == 0
    row = ask(
        "SELECT sync_status, last_sync_status, last_successful_sync, next_sync_at, last_price,"
        " last_quantity, lease_until FROM product_sync_schedule"
    )
    assert row == [("success", "success", now, now + timedelta(days=1), Decimal(10), 5, None)]
    assert ask("SELECT desired->>'price', desired_version FROM listing_state") == [("11.00", 1)]
    assert ask("SELECT event_type, batch_id::text FROM sync_audit_log") == [
        ("first_observed", CALL)
    ]


def test_a_read_that_changes_nothing_leaves_the_desired_version_alone(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    for reply, version in ((quoted("P1"), 1), (quoted("P1"), 1), (quoted("P1", price=12), 2)):
        settle(schedule, claim(schedule, now, "P1"), reply, now)
        assert ask("SELECT desired_version FROM listing_state") == [(version,)]


def test_a_held_price_leaves_the_desired_state_and_says_why(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    settle(schedule, claim(schedule, now, "P1"), quoted("P1"), now)
    foreign = replace(quoted("P1").quotes[Sku("P1")], currency="EUR")
    settle(schedule, claim(schedule, now, "P1"), Reply(quotes={Sku("P1"): foreign}), now)
    rows = ask("SELECT desired->>'price', held_reason, observed->>'currency' FROM listing_state")
    assert rows == [("11.00", "quoted in EUR, the shop sells in USD", "EUR")]
    settle(schedule, claim(schedule, now, "P1"), quoted("P1"), now)
    assert ask("SELECT held_reason, held_at FROM listing_state") == [(None, None)]


def test_a_hold_ends_when_the_setting_that_caused_it_is_corrected(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    mistaken = replace(STANDING, terms=replace(STANDING.terms, currency="EUR"))
    for standing, reason in (
        (STANDING, None),
        (mistaken, "quoted in USD, the shop sells in EUR"),
        (mistaken, "quoted in USD, the shop sells in EUR"),
        (STANDING, None),
    ):
        (held,) = claim(schedule, now, "P1")
        settled = JUDGE.settle(held, quoted("P1"), now, standing)
        schedule.settle([settled], now=now, call_id=CALL)
        assert ask("SELECT held_reason FROM listing_state") == [(reason,)]
    assert ask("SELECT event_type FROM sync_audit_log ORDER BY event_type") == [
        ("change_held",),
        ("first_observed",),
    ]


def test_a_listing_retired_while_it_is_read_stays_retired(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    held = claim(schedule, now, "P1")
    ask("UPDATE product_sync_schedule SET is_active = false")
    assert settle(schedule, held, quoted("P1"), now) == 0
    assert ask("SELECT is_active, sync_status FROM product_sync_schedule") == [(False, "success")]


def test_a_part_that_goes_missing_stays_held(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    settle(schedule, claim(schedule, now, "P1"), quoted("P1"), now)
    foreign = replace(quoted("P1").quotes[Sku("P1")], currency="EUR")
    settle(schedule, claim(schedule, now, "P1"), Reply(quotes={Sku("P1"): foreign}), now)
    for _ in range(3):
        settle(schedule, claim(schedule, now, "P1"), Reply(quotes={}), now)
    rows = ask("SELECT desired->'quantities'->>'Miami', held_reason FROM listing_state")
    assert rows == [("0", "quoted in EUR, the shop sells in USD")]


def test_a_late_settle_is_refused_by_its_fence_and_changes_nothing(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    late = claim(schedule, now, "P1")
    later = now + timedelta(minutes=5)
    assert schedule.rescue(later) == 1
    assert settle(schedule, late, quoted("P1"), later) == 1
    assert ask("SELECT count(*) FROM listing_state") == [(0,)]
    second = claim(schedule, later, "P1", owner="w2")
    assert settle(schedule, late, quoted("P1"), later) == 1, "even while another holds it"
    assert settle(schedule, second, quoted("P1"), later) == 0


def test_a_refused_settlement_writes_nothing_while_the_others_write_all(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"), ("a", "P2"))
    late = claim(schedule, now, "P1")
    later = now + timedelta(minutes=5)
    schedule.rescue(later)
    both = [*late, *claim(schedule, later, "P2")]
    assert settle(schedule, both, quoted("P1", "P2"), later) == 1
    assert ask("SELECT sku FROM listing_state") == [("P2",)]
    read = "SELECT DISTINCT sku FROM sync_audit_log WHERE event_type <> 'lease_rescued'"
    assert ask(read) == [("P2",)]


def test_rescue_acts_on_expired_leases_only(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    before = ask("SELECT next_sync_at, priority, consecutive_failures FROM product_sync_schedule")
    claim(schedule, now, "P1")
    assert schedule.rescue(now + timedelta(seconds=89)) == 0
    assert schedule.rescue(now + timedelta(seconds=91)) == 1
    after = ask("SELECT next_sync_at, priority, consecutive_failures FROM product_sync_schedule")
    assert after == before, "a rescued listing is as due as it was"
    assert ask("SELECT event_type FROM sync_audit_log") == [("lease_rescued",)]


def test_released_seats_are_as_due_as_before_and_carry_their_suspicion(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"), ("a", "P2"))
    before = ask("SELECT sku, next_sync_at, priority FROM product_sync_schedule ORDER BY sku")
    listings = sorted(claim(schedule, now, "P1", "P2"), key=lambda listing: listing.sku)
    assert schedule.release(listings, suspicion={listings[0].id: 3}) == 2
    assert schedule.release(listings, suspicion={}) == 0, "a second release finds nothing"
    rows = ask(
        "SELECT suspicion, consecutive_failures, sync_status"
        " FROM product_sync_schedule ORDER BY sku"
    )
    assert rows == [(3, 0, "pending"), (0, 0, "pending")]
    assert (
        ask("SELECT sku, next_sync_at, priority FROM product_sync_schedule ORDER BY sku") == before
    )


def test_the_fifth_failure_parks_and_a_parked_listing_is_never_claimed(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    for _ in range(5):
        settle(schedule, claim(schedule, now, "P1"), Reply(quotes={}), now)
    assert ask(
        "SELECT sync_status, is_active, consecutive_failures FROM product_sync_schedule"
    ) == [("parked", False, 5)]
    assert claim(schedule, now, "P1") == []
    assert schedule.front(now, limit=10) == []


def test_one_sellers_settle_never_touches_anothers_listing(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"), ("b", "P1"))
    ours = [listing for listing in claim(schedule, now, "P1") if listing.user_id == "a"]
    settle(schedule, ours, quoted("P1"), now)
    assert ask("SELECT user_id FROM listing_state") == [("a",)]
    assert ask("SELECT sync_status FROM product_sync_schedule WHERE user_id = 'b'") == [
        ("syncing",)
    ]


def test_a_statement_that_fails_writes_nothing_of_the_settlement(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    listings = claim(schedule, now, "P1")
    settlements = [JUDGE.settle(listing, quoted("P1"), now, STANDING) for listing in listings]
    with pytest.raises(StoreError):
        schedule.settle(settlements, now=now, call_id="not a call")
    assert ask("SELECT sync_status FROM product_sync_schedule") == [("syncing",)]
    assert ask("SELECT count(*) FROM listing_state") == [(0,)]


# -- held changes ------------------------------------------------------------------------------


STATE = (
    "SELECT desired->>'price', desired->'quantities'->>'Miami', proposed->>'price', held_reason,"
    " push_at, moved_at, desired_version FROM listing_state"
)


def read(schedule: Schedule, now: datetime, **quote: int) -> None:
    settle(schedule, claim(schedule, now, "P1"), quoted("P1", **quote), now)


def test_a_held_price_waits_as_a_proposal_while_stock_goes_to_the_shop(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    first = clock.now()
    enter(pool, first, ("a", "P1"))
    read(schedule, first)
    assert ask(STATE) == [("11.00", "5", None, None, first, None, 1)]
    second, third = first + timedelta(hours=1), first + timedelta(hours=2)
    read(schedule, second, price=100, quantity=3)
    reason = "the price would rise by 900.0 %, from 11.00 to 110.00; more than 50 % is held"
    assert ask(STATE) == [("11.00", "3", "110.00", reason, second, second, 2)]
    read(schedule, third, price=100, quantity=3)
    assert ask(STATE) == [("11.00", "3", "110.00", reason, second, second, 2)], "nothing new"
    events = ask(
        "SELECT old_value->>'price', new_value->>'price', error_message FROM sync_audit_log"
        " WHERE event_type = 'change_held'"
    )
    assert events == [("11.00", "110.00", reason)]
    read(schedule, third, quantity=3)
    assert ask(STATE) == [("11.00", "3", None, None, second, second, 2)], "it came back by itself"


def test_the_next_read_knows_what_a_person_rejected_and_when_the_listing_last_moved(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    read(schedule, now)
    read(schedule, now, price=100)
    ask(
        "UPDATE listing_state SET rejected = proposed, proposed = NULL, held_reason = NULL,"
        " held_at = NULL"
    )
    (listing,) = claim(schedule, now, "P1")
    assert (listing.rejected or {})["price"] == "110.00"
    assert (listing.proposed, listing.moved_at, listing.desired_version) == (None, now, 1)
    settle(schedule, [listing], quoted("P1", price=100, quantity=1), now)
    assert ask(STATE) == [("11.00", "1", None, None, now, now, 2)]
    assert ask("SELECT rejected->>'price' FROM listing_state") == [("110.00",)]
    read(schedule, now, price=12)
    assert ask("SELECT desired->>'price', rejected FROM listing_state") == [("13.20", None)]


def test_a_price_that_a_push_put_back_during_a_read_stays_and_the_stock_is_written(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    read(schedule, now)
    reading = claim(schedule, now, "P1")
    ask(
        'UPDATE listing_state SET proposed = desired, desired = desired || \'{"price": "99.00"}\','
        " desired_version = 2, held_reason = 'far from the shop', held_at = %s",
        now,
    )
    settle(schedule, reading, quoted("P1", price=12, quantity=1), now)
    assert ask(STATE) == [("99.00", "1", "11.00", "far from the shop", now, now, 3)]


def test_a_parked_listing_that_leaves_the_sale_is_to_be_pushed(
    pool: ConnectionPool, schedule: Schedule, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, ("a", "P1"))
    read(schedule, now)
    ask("UPDATE listing_state SET push_at = NULL")
    ask("UPDATE product_sync_schedule SET consecutive_failures = 4")
    drafts = replace(JUDGE, rule=FailureRule(draft_parked=True))
    (listing,) = claim(schedule, now, "P1")
    schedule.settle([drafts.charge(listing, now, "bad")], now=now, call_id=CALL)
    rows = ask("SELECT desired->>'status', desired->>'price', push_at FROM listing_state")
    assert rows == [("DRAFT", "11.00", now)]
