"""The way into the schedule: all or nothing, and only under proper names."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import Priority, SellerId, Sku
from headway.core.timetable.policies.packed import Packed
from headway.core.timetable.policies.rolling import Rolling
from headway.core.timetable.policies.split import Split
from headway.errors import InvalidError
from headway.store.catalog.listings import Listings
from headway_lab.virtual_clock import VirtualClock

ROWS = "SELECT user_id, sku, priority, next_sync_at FROM product_sync_schedule ORDER BY sku"


def ask(pool: ConnectionPool, statement: str = ROWS) -> list[Any]:
    with pool.connection() as connection:
        return connection.execute(statement).fetchall()


def add(pool: ConnectionPool, clock: VirtualClock, *skus: str, **more: Any) -> int:
    keys = [(SellerId("acme"), Sku(sku)) for sku in skus]
    return Listings(pool).add(keys, policy=Rolling(), now=clock.now(), **more)


def test_a_new_listing_waits_for_its_slot_unless_it_is_urgent(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    assert add(pool, clock, "B") == 1
    assert add(pool, clock, "A", priority=Priority.ONBOARDING) == 1
    first, second = ask(pool)
    assert first == ("acme", "A", "onboarding", clock.now())
    assert second[:3] == ("acme", "B", "scheduled")
    assert second[3] == Rolling().place(Sku("B"), clock.now()).next_sync_at


@pytest.mark.parametrize("bad", ("", "A\nB", "x" * 256, "\ud800"))
def test_one_bad_name_keeps_all_of_them_out(
    pool: ConnectionPool, clock: VirtualClock, bad: str
) -> None:
    with pytest.raises(InvalidError, match="part number"):
        add(pool, clock, "GOOD", bad)
    with pytest.raises(InvalidError, match="seller"):
        Listings(pool).add([(SellerId(bad), Sku("A"))], policy=Rolling(), now=clock.now())
    assert ask(pool) == []


def test_blanks_around_a_name_make_no_second_listing(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    assert add(pool, clock, "A", " A ", "A\n") == 1
    assert [row[1] for row in ask(pool)] == ["A"]


def hours(pool: ConnectionPool) -> list[int]:
    counts = dict(ask(pool, "SELECT hour_bucket, count(*) FROM product_sync_schedule GROUP BY 1"))
    return [counts.get(hour, 0) for hour in range(24)]


def test_each_of_a_batch_is_placed_by_the_hours_that_those_before_it_left(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    keys = [(SellerId("acme"), Sku(f"P{number:03}")) for number in range(105)]
    assert Listings(pool).add(keys, policy=Packed(), now=clock.now()) == 105
    assert hours(pool) == [10] * 10 + [5] + [0] * 13
    rows = ask(pool, "SELECT hour_bucket FROM product_sync_schedule ORDER BY sku")
    assert [hour for (hour,) in rows] == [number // 10 for number in range(105)]


def test_a_listing_that_is_there_already_does_not_count_twice(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    keys = [(SellerId("acme"), Sku(f"P{number:03}")) for number in range(12)]
    Listings(pool).add(keys, policy=Packed(), now=clock.now())
    more = [*keys, *keys, (SellerId("acme"), Sku("NEW"))]
    assert Listings(pool).add(more, policy=Packed(), now=clock.now()) == 1
    assert hours(pool)[:3] == [10, 3, 0]


def test_parked_listings_leave_their_hour_to_others(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    keys = [(SellerId("acme"), Sku(f"P{number:03}")) for number in range(48)]
    Listings(pool).add(keys, policy=Split(), now=clock.now())
    assert hours(pool) == [2] * 24
    park = "UPDATE product_sync_schedule SET is_active = false WHERE hour_bucket = 7 RETURNING 1"
    assert len(ask(pool, park)) == 2
    Listings(pool).add([(SellerId("b"), Sku("NEW"))], policy=Split(), now=clock.now())
    assert hours(pool)[7] == 3


def test_two_batches_at_once_leave_the_hours_equal(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    def batch(name: str) -> int:
        keys = [(SellerId(name), Sku(f"{name}{number}")) for number in range(60)]
        return Listings(pool).add(keys, policy=Split(), now=clock.now())

    with ThreadPoolExecutor(max_workers=4) as workers:
        assert list(workers.map(batch, "abcd")) == [60] * 4
    assert hours(pool) == [10] * 24
