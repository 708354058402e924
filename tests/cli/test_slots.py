"""The command move."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.policies import by_name
from headway.store.catalog.listings import Listings

Headway = Callable[..., Any]
SPLIT = {"HEADWAY_POLICY": "split"}
SLOTS = """
SELECT sku, hour_bucket, minute_offset, sync_priority, manual_slot_override
FROM product_sync_schedule ORDER BY user_id, sku
"""


@pytest.fixture
def slots(pool: ConnectionPool) -> Callable[[], list[tuple[Any, ...]]]:
    """Add two parts of one seller and one of another; return a reader of their slots."""
    for seller, sku in (("acme", "P1"), ("acme", "P2"), ("zenith", "P2")):
        keys = [(SellerId(seller), Sku(sku))]
        Listings(pool).add(keys, policy=by_name("split"), now=SystemClock().now())

    def read_slots() -> list[tuple[Any, ...]]:
        with pool.connection() as connection:
            return connection.execute(SLOTS).fetchall()

    return read_slots


def test_a_part_is_moved_and_both_slots_are_shown(
    on_database: Headway, slots: Callable[[], list[Any]]
) -> None:
    result = on_database("move", "P1", "--hour", "14", "--minute", "30", **SPLIT)
    assert result.code == 0
    assert "P1    acme    00:00   14:30, chosen" in result.out
    assert slots()[0] == ("P1", 14, 30, 0, True)
    reply = on_database("move", "P1", "--priority", "5", "--json", **SPLIT).object()
    (listing,) = reply["listings"]
    assert listing["old"]["sync_priority"] == 0
    assert listing["new"] == {
        "hour_bucket": 14, "minute_offset": 30, "sync_priority": 5, "manual_slot_override": True,
    }  # fmt: skip
    assert listing["next_sync_at"].endswith("+00:00")
    on_database("move", "P1", "--auto", **SPLIT)
    assert slots()[0] == ("P1", 0, 0, 5, False)


def test_a_part_of_several_sellers_needs_the_seller(
    on_database: Headway, slots: Callable[[], list[Any]]
) -> None:
    before = slots()
    message = on_database("move", "P1", "P2", "--hour", "4", **SPLIT).error(2)
    assert message == "headway: P2 is listed by acme, zenith; say whose: name the seller (--seller)"
    assert slots() == before
    on_database("move", "P2", "--hour", "4", "--seller", "zenith", **SPLIT)
    assert [row[1] for row in slots()] == [0, 1, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    (
        (["P1"], "say where to: --hour, --priority or --auto"),
        (["P1", "--minute", "5"], "--minute needs --hour"),
        (["P1", "--hour", "5", "--auto"], "say --hour, or --auto"),
        (["P1", "--hour", "24"], "'--hour': Input should be less than or equal to 23"),
        (["P1", "--priority", "11"], "'--priority': Input should be less than or equal to 10"),
        (["P9", "--hour", "5"], "no listing has the part number P9"),
        (["P1", "--hour", "5", "--seller", "zenith"], "zenith does not list P1"),
    ),
)
def test_an_invalid_move_is_refused_and_changes_nothing(
    on_database: Headway, slots: Callable[[], list[Any]], options: list[str], message: str
) -> None:
    before = slots()
    assert message in on_database("move", *options, **SPLIT).error(2)
    assert slots() == before


def test_a_policy_without_slots_stores_the_slot_and_says_when_it_takes_effect(
    on_database: Headway, slots: Callable[[], list[Any]], execute: Callable[..., None]
) -> None:
    result = on_database("move", "P1", "--hour", "5", HEADWAY_POLICY="adaptive")
    assert result.code == 0
    assert (
        "note: adaptive reads a part when that is worth most, so the slot is stored" in result.out
    )
    assert slots()[0] == ("P1", 5, 0, 0, True)
    reply = on_database("move", "P1", "--hour", "6", "--json", HEADWAY_POLICY="adaptive").object()
    assert "takes effect under a policy with slots" in reply["listings"][0]["note"]


def test_a_parked_part_keeps_the_slot_for_later(
    on_database: Headway, slots: Callable[[], list[Any]], execute: Callable[..., None]
) -> None:
    execute("UPDATE product_sync_schedule SET is_active = false, sync_status = 'parked'")
    assert "parked; see: headway revive" in on_database("move", "P1", "--hour", "5", **SPLIT).out
    assert slots()[0][1] == 5
