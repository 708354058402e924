"""The place in the queue, counted on the index, is the order in which listings board."""

from datetime import datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.seats import SeatRule, fill_call
from headway.store.timetable.positions import ListingPositions
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

MINUTE = timedelta(minutes=1)
ADD = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, priority, created_at)
VALUES (%s, %s, 0, %s, %s, %s)
"""


def add(
    pool: ConnectionPool,
    sku: str,
    due_at: datetime,
    priority: str = "scheduled",
    seller: str = "acme",
) -> None:
    with pool.connection() as connection:
        connection.execute(ADD, (seller, sku, due_at, priority, due_at))


def test_the_place_counts_the_listings_that_are_read_before(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    for number in range(4):
        add(pool, f"S{number}", now - (9 - number) * MINUTE)
        add(pool, f"R{number}", now - (9 - number) * MINUTE, "retry")
        add(pool, f"L{number}", now + (9 + number) * MINUTE)
    add(pool, "ONBOARD", now, "onboarding")
    add(pool, "MANUAL", now + MINUTE, "manual")
    rule = SeatRule(seats=14, slack=timedelta(minutes=20))
    expected = [
        candidate.sku for candidate in fill_call(Schedule(pool).front(now, limit=50), now, rule)
    ]
    places = {
        candidate.sku: candidate.ahead_count
        for candidate in ListingPositions(pool).sample(now)
        if not candidate.has_more
    }
    assert sorted(places, key=places.__getitem__) == expected
    assert sorted(places.values()) == list(range(14))


def test_two_sellers_of_one_sku_take_one_place(pool: ConnectionPool, clock: VirtualClock) -> None:
    now = clock.now()
    for seller in ("acme", "zenith"):
        add(pool, "TWICE", now - 2 * MINUTE, seller=seller)
    add(pool, "LAST", now)
    (last,) = ListingPositions(pool).of_sku(Sku("LAST"), now)
    assert last.ahead_count == 1
    assert [
        candidate.ahead_count for candidate in ListingPositions(pool).of_sku(Sku("TWICE"), now)
    ] == [0, 0]


def test_those_under_a_lease_or_parked_are_not_in_the_queue(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    add(pool, "HELD", now - MINUTE)
    add(pool, "PARKED", now - MINUTE)
    add(pool, "MINE", now)
    Schedule(pool).claim([Sku("HELD")], now=now, owner="w", lease_until=now + MINUTE)
    with pool.connection() as connection:
        connection.execute(
            "UPDATE product_sync_schedule SET is_active = false WHERE sku = 'PARKED'"
        )
    (mine,) = ListingPositions(pool).of_sku(Sku("MINE"), now)
    assert mine.ahead_count == 0


def test_a_long_queue_is_counted_only_so_far(pool: ConnectionPool, clock: VirtualClock) -> None:
    now = clock.now()
    with pool.connection() as connection:
        connection.execute(
            "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
            " SELECT 'acme', 'P' || n, 0, %s FROM generate_series(1, 1500) AS n",
            (now - MINUTE,),
        )
    add(pool, "MINE", now)
    (mine,) = ListingPositions(pool).of_sku(Sku("MINE"), now)
    assert (mine.ahead_count, mine.has_more) == (1001, True)


def test_one_seller_can_be_asked_for(pool: ConnectionPool, clock: VirtualClock) -> None:
    now = clock.now()
    for seller in ("acme", "zenith"):
        add(pool, "A B/C=K3", now, seller=seller)
    (only,) = ListingPositions(pool).of_sku(Sku("A B/C=K3"), now, seller=SellerId("zenith"))
    assert only.user_id == "zenith"


@pytest.mark.parametrize("typo", ("wf338109=k3", "WF33810=K3", "XWF338109=K3"))
def test_a_misspelt_sku_finds_its_like(
    pool: ConnectionPool, clock: VirtualClock, typo: str
) -> None:
    for sku in ("WF338109=K3", "AN960-10L", "MS20470AD4-6"):
        add(pool, sku, clock.now())
    assert ListingPositions(pool).similar(Sku(typo)) == ["WF338109=K3"]
