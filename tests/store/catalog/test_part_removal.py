"""A part that a person removes is neither read nor written any more, and can be brought back."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.policies.rolling import Rolling
from headway.errors import NotFoundError
from headway.store.catalog.listings import Listings
from headway.store.catalog.part_removal import InShop, PartRemoval
from headway.store.catalog.review import Review
from headway.store.monitoring.law_checks import LawChecks
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

ACME = SellerId("acme")
SHOWN = '{"price": "12", "cost": "10", "currency": "USD", "quantities": {"Dallas": 4}}'
NEXT = '{"price": "99", "cost": "10", "currency": "USD", "quantities": {"Dallas": 7}}'
Ask = Callable[..., list[Any]]


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def query(statement: str, *values: object) -> list[Any]:
        with pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return query


@pytest.fixture
def removal(pool: ConnectionPool, ask: Ask, clock: VirtualClock) -> PartRemoval:
    """A shop with a part whose next price waits, one that is held, and a mistyped one."""
    ask("INSERT INTO connected_accounts (user_id, platform, shop, status, push_started_at)"
        " VALUES ('acme', 'shopify', 'acme.myshopify.com', 'connected', now())")  # fmt: skip
    keys = [(ACME, Sku(sku)) for sku in ("A", "B", "typo")]
    Listings(pool).add(keys, policy=Rolling(), now=clock.now())
    ask("INSERT INTO product (user_id, sku, shop_sku, shopify_product_id, shopify_variant_id,"
        " status) SELECT 'acme', sku, sku, 'p' || sku, 'v' || sku, 'ACTIVE'"
        " FROM unnest(ARRAY['A', 'B']) AS sku")  # fmt: skip
    ask("INSERT INTO listing_state (user_id, sku, observed, desired, applied, desired_version,"
        " applied_version, push_at, held_reason, held_at, proposed)"
        " VALUES ('acme', 'A', '{}', %s, %s, 4, 3, now(), NULL, NULL, NULL),"
        " ('acme', 'B', '{}', %s, %s, 3, 3, NULL, 'far', now(), '{}'),"
        " ('acme', 'typo', '{}', NULL, NULL, 0, 0, NULL, 'no price', now(), NULL)",
        NEXT, SHOWN, SHOWN, SHOWN)  # fmt: skip
    return PartRemoval(pool)


def state(ask: Ask, sku: str) -> Any:
    (row,) = ask(
        "SELECT desired ->> 'price', desired ->> 'status', desired -> 'quantities',"
        " push_at IS NOT NULL, held_reason FROM listing_state WHERE sku = %s",
        sku,
    )
    return row


def lost(pool: ConnectionPool, clock: VirtualClock) -> int:
    return LawChecks(pool).lost(clock.now()).count


def test_a_removed_part_leaves_the_sale_at_its_price_and_nothing_else_is_written(
    removal: PartRemoval, ask: Ask, pool: ConnectionPool, clock: VirtualClock
) -> None:
    rulings = removal.remove(ACME, [Sku("A"), Sku("B")], in_shop="draft", now=clock.now())
    assert [ruling.message for ruling in rulings] == ["removed; its product becomes a draft"] * 2
    for sku in ("A", "B"):
        assert state(ask, sku) == ("12", "DRAFT", {"Dallas": 0}, True, None)
    assert lost(pool, clock) == 0
    ask("UPDATE listing_state SET push_at = NULL WHERE sku = 'A'")  # nobody would write it
    assert lost(pool, clock) == 1


def test_a_product_that_is_kept_is_left_as_it_is(
    removal: PartRemoval, ask: Ask, pool: ConnectionPool, clock: VirtualClock
) -> None:
    removal.remove(ACME, [Sku("A"), Sku("B"), Sku("typo")], in_shop="keep", now=clock.now())
    assert state(ask, "A") == ("12", None, {"Dallas": 4}, False, None)
    assert state(ask, "typo") == (None, None, None, False, None)
    assert ask("SELECT sku FROM product") == []
    assert lost(pool, clock) == 0
    assert ask("SELECT sku FROM listing_state WHERE push_at IS NOT NULL") == []


def test_a_removed_part_is_in_no_call_and_a_read_in_progress_settles_nothing(
    removal: PartRemoval, ask: Ask, pool: ConnectionPool, clock: VirtualClock
) -> None:
    schedule = Schedule(pool)
    ask("UPDATE product_sync_schedule SET next_sync_at = now(), sync_status = 'syncing',"
        " lease_owner = 'w', lease_until = now() WHERE sku = 'A'")  # fmt: skip
    fence = ask("SELECT fence FROM product_sync_schedule WHERE sku = 'A'")
    removal.remove(ACME, [Sku("A"), Sku("B"), Sku("typo")], in_shop="draft", now=clock.now())
    assert schedule.front(clock.now(), limit=10) == []
    assert ask("SELECT fence, lease_owner FROM product_sync_schedule WHERE sku = 'A'") == [
        (fence[0][0] + 1, None)
    ]


def test_the_history_names_the_removal_and_revive_brings_the_part_back(
    removal: PartRemoval, ask: Ask, pool: ConnectionPool, clock: VirtualClock
) -> None:
    removal.remove(ACME, [Sku("A")], in_shop="draft", reason="not sold any more", now=clock.now())
    (again,) = removal.remove(ACME, [Sku("A")], in_shop="draft", now=clock.now())
    assert (again.is_done, again.message) == (
        False,
        "removed already; to leave its product otherwise, revive it and remove it again",
    )
    events = "SELECT event_type, new_value ->> 'in_shop', error_message FROM sync_audit_log"
    assert ask(events) == [("listing_removed", "draft", "not sold any more")]
    (ruling,) = Review(pool).revive(ACME, [Sku("A")], now=clock.now())
    assert ruling.is_done
    assert state(ask, "A")[:2] == ("12", "ACTIVE")
    assert ask("SELECT is_active, removed_at FROM product_sync_schedule WHERE sku = 'A'") == [
        (True, None)
    ]


@pytest.mark.parametrize("in_shop", ("draft", "keep"))
def test_the_price_of_a_part_that_comes_back_is_guarded_like_a_first_one(
    removal: PartRemoval, ask: Ask, pool: ConnectionPool, clock: VirtualClock, in_shop: InShop
) -> None:
    removal.remove(ACME, [Sku("A")], in_shop=in_shop, now=clock.now())
    Review(pool).revive(ACME, [Sku("A")], now=clock.now())
    row = "SELECT applied, applied_at, applied_version, push_at FROM listing_state WHERE sku = 'A'"
    push_at = clock.now() if in_shop == "draft" else None
    assert ask(row) == [(None, None, 0, push_at)], "the merchant may have priced it since"
    assert ask("SELECT last_boeing_hash FROM product_sync_schedule WHERE sku = 'A'") == [(None,)]
    assert lost(pool, clock) == 0


def test_an_unknown_part_is_named_and_nothing_is_removed(
    removal: PartRemoval, ask: Ask, clock: VirtualClock
) -> None:
    with pytest.raises(NotFoundError, match="acme does not list Z"):
        removal.remove(ACME, [Sku("A"), Sku("Z")], in_shop="draft", now=clock.now())
    assert ask("SELECT 1 FROM product_sync_schedule WHERE removed_at IS NOT NULL") == []
