"""The timetable as a whole: another policy takes over, a slot is moved, a window opens."""

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import START

from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.market import Lesson, Sweep
from headway.core.timetable.policies import POLICIES, Policy, by_name
from headway.core.timetable.policies.adaptive import Adaptive
from headway.core.timetable.policies.anchored import Anchored
from headway.core.timetable.policies.hours import place_in_window
from headway.core.timetable.policies.policy import latest_due
from headway.core.timetable.policies.rolling import Rolling
from headway.core.timetable.policies.split import Split
from headway.core.timetable.slots import RequestedSlot
from headway.errors import NotFoundError
from headway.store.catalog.listings import Listings
from headway.store.timetable.markets import Markets
from headway.store.timetable.slots import Timetable

Ask = Callable[..., list[Any]]
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
NOW = START + 10 * HOUR
ACME = SellerId("acme")


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def run(statement: str, *values: object) -> list[Any]:
        with pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def timetable(pool: ConnectionPool) -> Timetable:
    return Timetable(pool)


def add(pool: ConnectionPool, count: int, policy: Policy, now: datetime = START) -> None:
    keys = [(ACME, Sku(f"P{number:05}")) for number in range(count)]
    Listings(pool).add(keys, policy=policy, now=now)


def read_all(ask: Ask, at: datetime, every: timedelta = timedelta(0)) -> None:
    """Let everybody have been read, one after the other."""
    ask(
        "UPDATE product_sync_schedule AS row SET last_successful_sync = %s + number * %s,"
        " last_sync_at = %s + number * %s, next_sync_at = %s + number * %s + interval '1 day'"
        " FROM (SELECT id, row_number() OVER (ORDER BY sku) - 1 AS number"
        " FROM product_sync_schedule) AS numbered WHERE numbered.id = row.id",
        *(at, every, at, every, at, every),
    )


def due(ask: Ask) -> dict[str, datetime]:
    return dict(ask("SELECT sku, next_sync_at FROM product_sync_schedule"))


def test_a_policy_places_everybody_once_and_not_again(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 240, Rolling())
    assert timetable.adopt(Rolling(), NOW) == 0, "those who placed the first need not place again"
    assert timetable.adopt(Split(), NOW) == 240
    assert ask("SELECT policy, adopted_at FROM timetable") == [("split", NOW)]
    slots = ask(
        "SELECT hour_bucket, minute_offset, count(*) FROM product_sync_schedule GROUP BY 1, 2"
    )
    assert sorted(slots) == [(hour, 0, 10) for hour in range(24)]
    before = due(ask)
    assert timetable.adopt(Split(), NOW + HOUR) == 0
    assert due(ask) == before


@pytest.mark.parametrize("old", POLICIES)
@pytest.mark.parametrize("new", POLICIES)
def test_whichever_policy_follows_nobody_becomes_too_old(
    pool: ConnectionPool, timetable: Timetable, ask: Ask, old: str, new: str
) -> None:
    policy = by_name(new)
    add(pool, 300, by_name(old))
    read_all(ask, NOW - 20 * HOUR, every=timedelta(minutes=4))
    ask("UPDATE timetable SET policy = 'another'")
    assert timetable.adopt(policy, NOW) == 300
    rows = ask("SELECT next_sync_at, last_successful_sync FROM product_sync_schedule")
    for due_at, read_at in rows:
        latest = latest_due(read_at, age_max=policy.age_max, slack=policy.slack)
        assert NOW <= due_at <= latest


def test_deadlines_that_fall_together_become_a_queue_that_ends_in_time(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 400, Rolling())
    read_all(ask, NOW - 23 * HOUR)
    timetable.adopt(Anchored(), NOW)
    latest = latest_due(NOW - 23 * HOUR, age_max=Anchored().age_max, slack=Anchored().slack)
    hurried = sorted(at for at in due(ask).values() if at <= latest)
    in_slot = [at for at in hurried if at.second == at.microsecond == 0 and at != latest]
    queue = sorted(set(hurried) - set(in_slot))
    assert len(queue) > 300
    steps = [after - before for before, after in itertools.pairwise(queue)]
    assert min(steps) >= 3 * SECOND, "twenty a minute, less what the slots take"
    assert queue[-1] == latest
    assert queue[0] > NOW


def test_a_queue_that_is_too_long_begins_now_with_the_oldest(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 300, Rolling())
    read_all(ask, NOW - 26 * HOUR, every=timedelta(seconds=1))
    timetable.adopt(Split(), NOW)
    dues = due(ask)
    assert min(dues.values()) >= NOW
    assert max(dues.values()) < NOW + SECOND
    assert sorted(dues, key=dues.__getitem__) == sorted(dues)


def test_a_chosen_slot_stays_and_the_due_times_of_others_are_left_alone(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 30, Rolling())
    read_all(ask, NOW - HOUR)
    mine = "UPDATE product_sync_schedule SET {} WHERE sku = %s"
    chosen = "hour_bucket = 5, minute_offset = 33, manual_slot_override = true"
    ask(mine.format(chosen), "P00000")
    ask(mine.format("priority = 'manual'"), "P00001")
    ask(
        mine.format("priority = 'retry', sync_status = 'failed', consecutive_failures = 2"),
        "P00002",
    )
    ask(mine.format("is_active = false, sync_status = 'parked'"), "P00003")
    in_call = "sync_status = 'syncing', lease_owner = 'w', lease_until = now()"
    ask(mine.format(in_call), "P00004")
    names = [f"P{number:05}" for number in range(1, 5)]
    kept = (
        "SELECT sku, next_sync_at, priority, sync_status FROM product_sync_schedule"
        " WHERE sku = ANY(%s)"
    )
    before = sorted(ask(kept, names))
    timetable.adopt(Split(), NOW)
    assert sorted(ask(kept, names)) == before
    slot = "SELECT hour_bucket, minute_offset, manual_slot_override FROM product_sync_schedule"
    assert ask(f"{slot} WHERE sku = 'P00000'") == [(5, 33, True)]
    assert (
        due(ask)["P00000"].replace(second=0, microsecond=0) == START + 29 * HOUR + 33 * 60 * SECOND
    )
    assert {minute for _, minute, _ in ask(f"{slot} WHERE sku > 'P00000'")} == {0}
    loads = dict(
        ask("SELECT hour_bucket, count(*) FROM product_sync_schedule WHERE is_active GROUP BY 1")
    )
    assert max(loads.values()) - min(loads.values()) <= 1, (
        "the chosen one counts, the parked does not"
    )


def test_two_processes_that_start_at_once_place_everybody_once(
    pool: ConnectionPool, timetable: Timetable
) -> None:
    add(pool, 500, Rolling())
    with ThreadPoolExecutor(max_workers=4) as workers:
        counts = list(workers.map(lambda _: timetable.adopt(Split(), NOW), range(4)))
    assert sorted(counts) == [0, 0, 0, 500]


def test_a_sweep_does_not_outlast_the_policy_that_ordered_it(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 30, Adaptive())
    read_all(ask, NOW - HOUR)
    ask("UPDATE product_sync_schedule SET family = 'ACME'")
    markets = Markets(pool, limit_key="boeing:test", seats_per_min=20.0)
    market = markets.load((), NOW)
    sweep = Sweep(family="ACME", read_before=NOW)
    assert len(markets.learn(market, Lesson(sweeps=(sweep,)), NOW)) == 30
    timetable.adopt(Split(), NOW)
    in_slots = due(ask)
    assert markets.learn(market, Lesson(spares=("ACME",)), NOW) == []
    assert due(ask) == in_slots


def test_a_person_who_is_at_a_listing_just_then_finishes_first(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 30, Rolling())
    one = "SELECT id FROM product_sync_schedule WHERE sku = 'P00001' FOR UPDATE"
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with ThreadPoolExecutor() as threads:
        with pool.connection() as connection, connection.transaction():
            connection.execute(one)
            adopting = threads.submit(timetable.adopt, Split(), NOW)
            while ask(waiting) == [(0,)] and not adopting.done():
                pass
            connection.execute("UPDATE product_sync_schedule SET sync_priority = 7")
        assert adopting.result() == 30
    assert ask("SELECT DISTINCT sync_priority FROM product_sync_schedule") == [(7,)]


def test_a_large_catalog_is_placed_a_chunk_at_a_time(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 25_000, Rolling())
    assert timetable.adopt(Split(), NOW) == 25_000
    loads = [count for (count,) in ask(
        "SELECT count(*) FROM product_sync_schedule GROUP BY hour_bucket"
    )]  # fmt: skip
    assert (len(loads), max(loads) - min(loads)) == (24, 1)


def test_an_empty_database_only_learns_the_name(timetable: Timetable, ask: Ask) -> None:
    assert timetable.adopt(Split(), NOW) == 0
    assert ask("SELECT policy FROM timetable") == [("split",)]


def event(ask: Ask, sku: str, kind: str, at: datetime) -> None:
    ask(
        "INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)"
        " VALUES ('acme', %s, %s, %s)",
        *(sku, at, kind),
    )


def test_adaptive_begins_with_what_the_log_knows_of_changes(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 4, Rolling(), START - timedelta(days=400))
    read_all(ask, NOW)
    days = {"P00000": (1, 46), "P00001": ()}
    for sku, ago in days.items():
        event(ask, sku, "first_observed", NOW - timedelta(days=90))
        for day in ago:
            for kind in ("price_changed", "quantity_changed"):
                event(ask, sku, kind, NOW - timedelta(days=day))
    event(ask, "P00000", "change_held", NOW - timedelta(days=2))
    ask("UPDATE product_sync_schedule SET watched_days = 3, changes_seen = 2 WHERE sku = 'P00002'")
    ask("UPDATE product_sync_schedule SET last_successful_sync = NULL WHERE sku = 'P00003'")
    timetable.adopt(by_name("adaptive"), NOW)
    known = {
        sku: rest
        for sku, *rest in ask(
            "SELECT sku, changes_seen, watched_days, changed_at FROM product_sync_schedule"
        )
    }
    changes_seen, watched, changed_at = known["P00000"]
    assert changes_seen == pytest.approx(math.exp(-1 / 45) + math.exp(-46 / 45))
    assert watched == pytest.approx(45 * (1 - math.exp(-2)))
    assert changed_at == NOW - timedelta(days=1)
    assert known["P00001"] == [0, pytest.approx(45 * (1 - math.exp(-2))), None]
    assert known["P00002"][:2] == [2, 3], "what it has learned itself stands"
    assert known["P00003"][:2] == [0, 0], "it was never read"


def fail(ask: Ask, sku: str, times: int, at: datetime, due_at: datetime) -> None:
    ask(
        "UPDATE product_sync_schedule SET priority = 'retry', sync_status = 'failed',"
        " consecutive_failures = %s, last_sync_at = %s, next_sync_at = %s WHERE sku = %s",
        *(times, at, due_at, sku),
    )


def test_a_window_begins_with_what_earlier_ones_left_in_the_order_of_the_document(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 7, Split())
    opens_at, earlier = START + 14.5 * HOUR, START + 10.5 * HOUR
    tries = {
        "P00000": (2, START + 10 * HOUR), "P00001": (1, START + 10.2 * HOUR),
        "P00002": (1, START + 10.1 * HOUR), "P00003": (3, START - 300 * HOUR),
    }  # fmt: skip
    for sku, (times, at) in tries.items():
        fail(ask, sku, times, at, place_in_window(earlier, times, at))
    new = START + 12 * HOUR
    fail(ask, "P00004", 1, new, place_in_window(opens_at, 1, new))
    fail(ask, "P00005", 1, opens_at, place_in_window(opens_at + 4 * HOUR, 1, opens_at))
    untouched = due(ask)
    moved = timetable.roll_retries(opens_at + SECOND, opens_at)
    assert sorted(moved) == sorted(tries)
    dues = due(ask)
    order = sorted(("P00004", *tries), key=dues.__getitem__)
    assert order == ["P00002", "P00001", "P00004", "P00000", "P00003"]
    for sku, (times, at) in tries.items():
        assert abs(dues[sku] - place_in_window(opens_at, times, at)) < SECOND / 10_000
    for sku in ("P00004", "P00005", "P00006"):
        assert dues[sku] == untouched[sku], "it has its place, or was read already"
    assert timetable.roll_retries(opens_at + 2 * SECOND, opens_at) == []


def test_a_window_that_a_grown_catalog_opens_sooner_takes_those_that_expected_a_later_one(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 1, Split())
    at, opens_at = START + 11 * HOUR, START + 12.5 * HOUR
    fail(ask, "P00000", 1, at, place_in_window(START + 14.5 * HOUR, 1, at))
    assert timetable.roll_retries(opens_at, opens_at) == ["P00000"]
    assert timedelta(0) < due(ask)["P00000"] - opens_at < 10 * SECOND


def move(timetable: Timetable, policy: Policy, now: datetime = NOW, **requested_slot: Any) -> Any:
    return timetable.move(
        ACME, Sku("P00000"), RequestedSlot(**requested_slot), policy=policy, now=now
    )


@pytest.mark.parametrize(
    "policy", (Rolling(), Anchored(), Split()), ids=lambda listing: listing.name
)
def test_a_moved_listing_is_due_in_its_new_slot_and_the_history_shows_it(
    pool: ConnectionPool, timetable: Timetable, ask: Ask, policy: Policy
) -> None:
    add(pool, 1, policy)
    read_all(ask, NOW)
    moved = move(timetable, policy, hour_bucket=17, minute_offset=20)
    due_at = moved.next_sync_at
    assert (due_at.date(), due_at.hour, due_at.minute) == (NOW.date(), 17, 20)
    assert due(ask) == {"P00000": due_at}
    assert ask("SELECT event_type, sync_timestamp, new_value FROM sync_audit_log") == [
        ("slot_moved", NOW, {
            "hour_bucket": 17, "minute_offset": 20, "sync_priority": 0,
            "manual_slot_override": True,
        })
    ]  # fmt: skip
    again = move(timetable, policy, hour_bucket=17, minute_offset=20)
    assert again.next_sync_at == due_at
    assert len(ask("SELECT 1 FROM sync_audit_log")) == 1


def test_a_listing_whose_new_slot_is_far_is_read_once_before_it(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 1, Split())
    read_all(ask, NOW - 6 * HOUR)
    moved = move(timetable, Split(), hour_bucket=9)
    assert moved.next_sync_at == NOW - 6 * HOUR + 24 * HOUR + 40 * 60 * SECOND


def test_auto_lets_the_policy_choose_again_without_counting_the_listing_itself(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 24, Split())
    moved = move(timetable, Split(), hour_bucket=9)
    assert moved.new.manual_slot_override
    back = move(timetable, Split(), is_auto=True)
    assert (back.new.hour_bucket, back.new.manual_slot_override) == (0, False)


def test_a_priority_keeps_the_slot_and_goes_first_in_it(
    pool: ConnectionPool, timetable: Timetable, ask: Ask
) -> None:
    add(pool, 48, Split(), NOW)
    moved = move(timetable, Split(), sync_priority=7)
    assert (moved.old.hour_bucket, moved.new.manual_slot_override) == (moved.new.hour_bucket, False)
    (other,) = ask(
        "SELECT next_sync_at FROM product_sync_schedule WHERE hour_bucket = %s AND sku <> 'P00000'",
        moved.new.hour_bucket,
    )
    assert 6 * SECOND < other[0] - moved.next_sync_at < 8 * SECOND


@pytest.mark.parametrize(
    "state", ("priority = 'retry'", "priority = 'manual'", "is_active = false")
)
def test_who_waits_for_something_else_keeps_its_due_time(
    pool: ConnectionPool, timetable: Timetable, ask: Ask, state: str
) -> None:
    add(pool, 1, Split())
    ask(f"UPDATE product_sync_schedule SET {state}")
    before = due(ask)
    moved = move(timetable, Split(), hour_bucket=3)
    assert due(ask) == before
    assert moved.is_parked is ("is_active" in state)
    assert ask("SELECT hour_bucket FROM product_sync_schedule") == [(3,)]


def test_a_listing_that_cannot_be_moved_is_reported(
    pool: ConnectionPool, timetable: Timetable
) -> None:
    add(pool, 1, Split())
    with pytest.raises(NotFoundError, match="acme does not list NONE"):
        timetable.move(ACME, Sku("NONE"), RequestedSlot(hour_bucket=1), policy=Split(), now=NOW)
