"""Law L14: what was erased and is stored again is found, wherever it is."""

from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.erasure_world import (
    LATER,
    NOW,
    ErasureWorld,
    buyer_id,
    erase_buyer,
    erase_whole,
)

from headway.store.monitoring.erasure_checks import ErasureChecks
from headway_lab.platforms import ETSY, SHOPIFY

DAY = timedelta(days=1)
CUSTOMER = """
INSERT INTO customers (account_id, external_id, user_id, platform, email, created_at, updated_at)
VALUES (%s, %s, 'acme', 'etsy', %s, now(), now())
"""


@pytest.fixture
def world(pool: ConnectionPool) -> ErasureWorld:
    world = ErasureWorld(pool)
    world.settle("acme")
    return world


def found(world: ErasureWorld) -> list[str]:
    return list(ErasureChecks(world.pool).erased(LATER)[1].examples)


def test_a_database_in_which_nothing_was_erased_has_nothing_to_check(world: ErasureWorld) -> None:
    assert ErasureChecks(world.pool).erased(LATER)[0] == 0


def test_a_customer_who_came_back_is_found_by_id_address_order_and_tracking_number(
    world: ErasureWorld,
) -> None:
    etsy = world.accounts["acme", ETSY].id
    world.erase_fully(erase_buyer(world, "acme", 1))
    assert ErasureChecks(world.pool).erased(LATER)[0] == 1
    assert found(world) == []
    world.ask(CUSTOMER, etsy, buyer_id("acme", 1), "")
    assert found(world) == ["customers of an erased customer: 1 rows"]
    world.ask("DELETE FROM customers WHERE email = ''")
    world.ask(CUSTOMER, etsy, "another", "B1@acme.example")
    assert found(world) == ["customers of an erased customer: 1 rows"]
    world.ask("DELETE FROM customers WHERE external_id = 'another'")
    order = f"{buyer_id('acme', 1)}9"
    world.ask("UPDATE shipments SET tracking = 'T1' WHERE order_id = %s", order)
    world.ask("UPDATE orders SET customer_id = 'who' WHERE external_id = %s", order)
    assert found(world) == [
        "orders of an erased customer: 2 rows", "shipments of an erased customer: 2 rows",
    ]  # fmt: skip


def test_rows_of_an_erased_seller_and_of_an_erased_account_are_found(world: ErasureWorld) -> None:
    account = world.accounts["acme", SHOPIFY]
    world.erase_fully(erase_whole(world, "acme", account.id))
    assert found(world) == []
    world.ask("ALTER TABLE customers DISABLE TRIGGER ALL")
    world.ask(CUSTOMER, account.id, "9001", "")
    assert found(world) == ["customers of an erased account: 1 rows"]
    world.ask("DELETE FROM customers WHERE external_id = '9001'")
    world.erase_fully(erase_whole(world, "acme"))
    assert found(world) == []
    world.ask("INSERT INTO notices (user_id, topic, subject, text, created_at)"
              " VALUES ('acme', 'job_dead', 's', 't', now())")  # fmt: skip
    assert found(world) == ["notices of an erased seller: 1 rows"]


def test_an_erasure_that_does_not_end_is_found_after_a_day(world: ErasureWorld) -> None:
    id_ = erase_whole(world, "acme")
    assert found(world) == []
    _, findings = ErasureChecks(world.pool).erased(NOW + 2 * DAY)
    assert findings.examples == (f"erasure {id_} of 2026-03-10 12:00 UTC is not done",)
