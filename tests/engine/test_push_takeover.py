"""First prices of parts that a shop had before Headway: one mass change, however they arrive."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.rehearsal_setup import caller, take_over
from tests.engine.shop_setup import PLACES, Shops, make_shops, wanted

from headway.operations.publishing import PublishBody, publish
from headway.store.catalog.review import Review
from headway_lab.virtual_clock import VirtualClock

READ_AS_PUBLISHED = """
WITH read AS (
  UPDATE product_staging SET status = 'normalized', title = sku WHERE sku = ANY(%(skus)s)
  RETURNING user_id, sku)
INSERT INTO listing_state (user_id, sku, desired, desired_at, desired_version, push_at)
SELECT user_id, sku, %(desired)s::jsonb, %(now)s, 1, %(now)s FROM read
"""


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path)


def test_the_first_prices_of_a_takeover_are_held_as_a_mass_change_and_stock_flows(
    shops: Shops,
) -> None:
    ours, theirs = wanted("84.00", 5), wanted("120.00", 3)
    for number in range(30):  # 24 at another price, as the supplier's first call reads ten of them
        sku = f"T-{number}"
        shows = theirs if number < 24 else ours
        ids = shops.simulator.seed_product(
            "acme.myshopify.com", sku, price=Decimal(shows["price"]), cost=Decimal("9.5"),
            quantities=shows["quantities"],
        )  # fmt: skip
        take_over(shops, sku, ours, ids=ids)
    unread = "UPDATE listing_state SET desired = %s, push_at = %s WHERE sku = ANY(%s)"
    later = [f"T-{number}" for number in range(10, 30)]
    shops.ask(unread, None, None, later)
    push = shops.push()
    shops.drive(push)
    shops.ask(unread, json.dumps(ours), shops.clock.now(), later)
    shops.drive(push)
    assert {effect.kind for effect in shops.simulator.effects} == {"stock"}
    assert {shops.shown(f"T-{n}").quantities[PLACES[0]] for n in range(24)} == {5}
    held = shops.ask("SELECT held_reason, desired ->> 'price', proposed ->> 'price'"
                     " FROM listing_state WHERE held_reason IS NOT NULL")  # fmt: skip
    assert len(held) == 24, "what shows our price already is no change"
    assert {row[1:] for row in held} == {("120.00", "84.00")}
    assert {reason.partition("first ")[2] for reason, _, _ in held} == {
        "prices changed within a day, more than 25 %"
    }
    done = Review(shops.pool).approve_all(None, reason="our prices", now=shops.clock.now())
    assert sum(ruling.is_done for ruling in done) == 24
    shops.drive(push)
    assert {shops.shown(f"T-{n}").price for n in range(30)} == {Decimal("84.00")}


def test_parts_published_onto_products_of_the_shop_are_one_mass_change_from_the_first_on(
    shops: Shops,
) -> None:
    skus = [f"T-{number:02}" for number in range(30)]
    for sku in skus:
        shops.simulator.seed_product("acme.myshopify.com", sku, price=Decimal("120.00"))
    publish(caller(shops), PublishBody(part_numbers=[*skus, "NEW-1"]))
    push = shops.push()
    for first in (0, 10, 20):  # a call to the supplier reads ten
        with shops.pool.connection() as connection:
            values = {"skus": skus[first : first + 10], "desired": json.dumps(wanted("84.00", 5))}
            connection.execute(READ_AS_PUBLISHED, {**values, "now": shops.clock.now()})
        shops.drive(push)
    assert {shops.shown(sku).price for sku in skus} == {Decimal("120.00")}
    assert {shops.shown(sku).quantities[PLACES[0]] for sku in skus} == {5}, "stock flows"
    held = shops.ask("SELECT held_reason FROM listing_state WHERE held_reason IS NOT NULL")
    assert len(held) == 30
    assert "first prices changed within a day" in held[0][0]


def test_new_parts_that_are_published_beside_one_of_the_shop_do_not_hold_it(shops: Shops) -> None:
    skus = [f"N-{number:02}" for number in range(30)]
    shops.simulator.seed_product("acme.myshopify.com", "OWN-1", price=Decimal("120.00"))
    publish(caller(shops), PublishBody(part_numbers=[*skus, "OWN-1"]))
    with shops.pool.connection() as connection:
        values = {"skus": skus, "desired": json.dumps(wanted("84.00", 5)), "now": shops.clock.now()}
        connection.execute(READ_AS_PUBLISHED, values)
    push = shops.push()
    shops.drive(push)
    with shops.pool.connection() as connection:
        connection.execute(READ_AS_PUBLISHED, {**values, "skus": ["OWN-1"]})
    shops.drive(push)
    assert shops.shown("OWN-1").price == Decimal("84.00")
    assert shops.one("SELECT count(*) FROM listing_state WHERE held_reason IS NOT NULL") == 0


def test_some_first_prices_are_written_at_once(shops: Shops) -> None:
    ids = shops.simulator.seed_product("acme.myshopify.com", "T-1", price=Decimal("120.00"))
    take_over(shops, "T-1", wanted("84.00"), ids=ids)
    shops.drive(shops.push())
    assert shops.shown("T-1").price == Decimal("84.00")
    assert shops.one("SELECT moved_at IS NOT NULL FROM listing_state"), "it counts for the guard"
