"""The way into the schedule: all or nothing, and only under proper names."""

from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import VirtualClock
from headway.core.model import SellerId, Sku, Turn
from headway.core.policies import Rolling
from headway.errors import InvalidError
from headway.store.listings import Listings

ROWS = "SELECT user_id, sku, turn, next_sync_at FROM product_sync_schedule ORDER BY sku"


def ask(pool: ConnectionPool, statement: str = ROWS) -> list[Any]:
    with pool.connection() as connection:
        return connection.execute(statement).fetchall()


def add(pool: ConnectionPool, clock: VirtualClock, *skus: str, **more: Any) -> int:
    keys = [(SellerId("acme"), Sku(sku)) for sku in skus]
    return Listings(pool).add(keys, policy=Rolling(), now=clock.now(), **more)


def test_a_new_listing_waits_for_its_slot_unless_its_turn_is_urgent(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    assert add(pool, clock, "B") == 1
    assert add(pool, clock, "A", turn=Turn.ONBOARDING) == 1
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
