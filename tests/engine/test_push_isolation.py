"""Push against shops and data that are odd or hostile: one bad thing must stop nothing else."""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.bulk_setup import Wire, rebuilt
from tests.engine.shop_setup import PLACES, Shops, make_shops, wanted

from headway.core.catalog.change_detection import Desired, Observed, Terms, desire
from headway.core.catalog.intake import ImportRow
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.storefront import Gid
from headway.core.timetable.policies.rolling import Rolling
from headway.engine.push import SHOPS_LOOKED_AT
from headway.store.catalog.products import Products
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.shop import Level, Location, ShopIds
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path)


class Forger(Wire):
    """A wire on which every answer in JSON is changed by a function."""

    def __init__(self, shops: Shops, forge: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(shops=shops)
        self.forge = forge

    def answered(self, reply: SimReply) -> SimReply:
        document = json.loads(reply.body)
        self.forge(document)
        return replace(reply, body=json.dumps(document).encode())


def test_a_shop_that_names_a_tiny_bucket_keeps_neither_itself_nor_others_waiting(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, sellers=("acme", "bolt"))
    for seller in ("acme", "bolt"):
        shops.list("A-1", seller=seller)
        shops.want("A-1", wanted("12.00", 5), seller=seller)
        clock.sleep(1)

    def forge(document: dict[str, Any]) -> None:
        document["extensions"]["cost"]["throttleStatus"]["maximumAvailable"] = 300

    wire = Forger(shops, forge)
    shops.drive(rebuilt(shops, wire.transport()).push("w"))
    assert shops.shown("A-1", "acme").price == Decimal("12.00")
    assert shops.shown("A-1", "bolt").price == Decimal("12.00")


def test_shops_that_do_not_answer_keep_no_other_shop_waiting(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    sellers = tuple(f"s{number}" for number in range(SHOPS_LOOKED_AT + 1))
    shops = make_shops(pool, clock, tmp_path, sellers=sellers)
    for seller in sellers:
        shops.list("A-1", seller=seller)
        shops.want("A-1", wanted("12.00", 5), seller=seller)
        clock.sleep(1)
    for seller in sellers[:-1]:
        shops.ask(
            "INSERT INTO breaker (limit_key, failures, open_until) VALUES (%s, 9, %s)",
            f"shopify:app:{shops.domain(seller)}",
            clock.now().replace(year=2027),
        )
    done = "SELECT applied = desired FROM listing_state WHERE user_id = %s"
    shops.drive(shops.push(), until=lambda: shops.one(done, sellers[-1]), steps=20)


def test_a_shop_that_does_not_answer_keeps_no_other_from_being_drift_checked(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, sellers=("acme", "bolt"))
    shops.ask("UPDATE connected_accounts SET locations = '{}'")
    for seller in ("acme", "bolt"):
        shops.list("A-1", seller=seller)
    shops.want("A-1", wanted("12.00", 5))
    shops.ask(
        "INSERT INTO breaker (limit_key, failures, open_until) VALUES (%s, 9, %s)",
        f"shopify:app:{shops.domain('acme')}",
        clock.now().replace(year=2027),
    )
    shops.simulator.edit_price(shops.domain("bolt"), "A-1", Decimal("1.00"))
    clock.sleep(25 * 3600)
    is_repaired = lambda: shops.shown("A-1", "bolt").price == Decimal("11.00")  # noqa: E731
    shops.drive(shops.push(), until=is_repaired, steps=20)


def test_locations_of_one_name_do_not_stop_the_shop(shops: Shops) -> None:
    shop = shops.simulator.shop(shops.domain("acme"))
    shops.list("A-1", knows_ids=False)
    twins = [Location(id=shop.new_id("Location"), name="Depot") for _ in range(2)]
    for twin in twins:
        shop.locations[twin.id] = twin
        shop.put_level(Level(item=shops.shown("A-1").ids.item, location=twin.id, quantity=7))
    shops.want("A-1", wanted("12.00", 4))
    shops.drive(shops.push(), steps=40)
    assert shops.shown("A-1").price == Decimal("12.00")
    assert shops.shown("A-1").quantities["Dallas Central"] == 4


def test_stock_at_a_place_that_is_not_ours_is_no_drift(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    shops.list("A-1")
    shop = shops.simulator.shop(shops.domain("acme"))
    store = Location(id=shop.new_id("Location"), name="Their own store")
    shop.locations[store.id] = store
    shop.put_level(Level(item=shops.shown("A-1").ids.item, location=store.id, quantity=7))
    clock.sleep(25 * 3600)
    before = clock.now()
    query = "SELECT verified_at >= %s FROM listing_state"
    shops.drive(shops.push(), until=lambda: shops.one(query, before))
    assert shops.ask("SELECT event_type FROM sync_audit_log") == []
    assert shops.waiting() == 0


def test_stock_beyond_what_a_column_holds_does_not_stop_the_shop(shops: Shops) -> None:
    shops.list("A-1", shows=wanted("11.00", *[1_000_000_000] * 4))
    shops.list("A-2")
    shops.want("A-1", wanted("12.00", *[1_000_000_000] * 4))
    shops.want("A-2", wanted("12.00", 5))
    shops.drive(shops.push(), steps=40)
    assert shops.shown("A-1").price == shops.shown("A-2").price == Decimal("12.00")


def test_a_product_that_cannot_be_read_keeps_no_other_waiting(shops: Shops) -> None:
    for number in range(6):
        shops.list(f"A-{number}")
    shops.ask("UPDATE listing_state SET applied = NULL")
    for number in range(6):
        shops.want(f"A-{number}", wanted("12.00", 5))
    bad = shops.shown("A-3").ids.variant

    def forge(document: dict[str, Any]) -> None:
        for node in (document.get("data") or {}).get("nodes") or ():
            if node and node["id"] == bad:
                node["price"] = "-11.00"

    wire = Forger(shops, forge)
    shops.drive(rebuilt(shops, wire.transport()).push("w"), steps=80)
    assert {shops.shown(f"A-{n}").price for n in (0, 1, 2, 4, 5)} == {Decimal("12.00")}
    assert shops.ask("SELECT sku FROM listing_state WHERE push_failures > 0") == [("A-3",)]
    assert shops.one("SELECT count(*) FROM breaker WHERE failures > 0") == 0


def test_stock_that_the_shop_calls_stale_for_ever_keeps_no_other_waiting(shops: Shops) -> None:
    for number in range(8):
        shops.list(f"A-{number}")
        shops.want(f"A-{number}", wanted("11.00", 6))
    odd = shops.shown("A-3").ids.item

    class Stale(Wire):
        at: int | None = None

        def sent(self, body: bytes) -> bytes | None:
            variables = json.loads(body)["variables"].get("input", {})
            items = [quantity["inventoryItemId"] for quantity in variables.get("quantities", ())]
            self.at = items.index(odd) if odd in items else None
            # The shop takes none of them.
            return body if self.at is None else b'{"query": "{ shop { id } }"}'

        def answered(self, reply: SimReply) -> SimReply:
            if self.at is None:
                return reply
            error = {
                "code": "CHANGE_FROM_QUANTITY_STALE",
                "field": ["input", "quantities", str(self.at), "changeFromQuantity"],
                "message": "another quantity is there",
            }
            document = json.loads(reply.body)
            document["data"] = {"inventorySetQuantities": {"userErrors": [error]}}
            return replace(reply, body=json.dumps(document).encode())

    push = rebuilt(shops, Stale(shops=shops).transport()).push("w")
    shops.drive(push, steps=60)
    stock = [shops.shown(f"A-{number}").quantities["Dallas Central"] for number in range(8)]
    assert stock == [6, 6, 6, 5, 6, 6, 6, 6]
    assert shops.one("SELECT push_error FROM listing_state WHERE push_at IS NOT NULL")


def test_a_letter_that_no_database_holds_does_not_stop_the_shop(shops: Shops) -> None:
    shops.list("A-1", knows_ids=False)
    shops.want("A-1", wanted("12.00", 5))
    is_odd = [True]

    def forge(document: dict[str, Any]) -> None:
        variants = (document.get("data") or {}).get("productVariants") or {}
        for node in variants.get("nodes") or ():
            if is_odd:
                node["product"]["handle"] = "a\x00b\ud800"

    wire = Forger(shops, forge)
    push = rebuilt(shops, wire.transport()).push("w")
    for _ in range(6):
        push.step()
        shops.clock.sleep(2)
    is_odd.clear()
    shops.drive(push, steps=40)
    assert set(PLACES) == set(shops.shown("A-1").quantities)
    assert shops.shown("A-1").price == Decimal("12.00")


def test_a_secret_that_cannot_be_read_keeps_no_other_shop_waiting(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, sellers=("acme", "bolt"))
    for seller in ("acme", "bolt"):
        shops.list("A-1", seller=seller)
        shops.want("A-1", wanted("12.00", 5), seller=seller)
        clock.sleep(1)
    shops.ask("UPDATE credential SET secret = 'x' WHERE credential_key LIKE '%%acme%%'")
    done = "SELECT applied = desired FROM listing_state WHERE user_id = 'bolt'"
    shops.drive(shops.push(), until=lambda: shops.one(done), steps=20)
    assert "stored credential" in shops.one("SELECT reason FROM breaker")


def test_two_parts_that_the_shop_calls_alike_do_not_stop_it(shops: Shops) -> None:
    shops.list("A=K3")
    shops.ask("UPDATE product SET shop_sku = 'A'")
    shop = shops.simulator.shop(shops.domain("acme"))
    shop.put_variant(replace(shop.by_sku("A=K3")[0], sku="A"))
    shops.list("B-1", knows_ids=False)
    shops.ask("UPDATE product_sync_schedule SET sku = 'A' WHERE sku = 'B-1'")
    shops.list("A-2")
    shops.want("A", wanted("12.00", 5))
    shops.want("A-2", wanted("12.00", 5))
    shops.drive(shops.push(), steps=40)
    assert shops.shown("A-2").price == Decimal("12.00")
    assert shops.shown("A").price == Decimal("11.00")
    assert "A=K3" in shops.one("SELECT push_error FROM listing_state WHERE sku = 'A'")


def test_a_place_that_the_shop_closed_keeps_no_stock_elsewhere_waiting(shops: Shops) -> None:
    shops.list("A-1", shows=wanted("11.00", 5, 5))
    shops.want("A-1", wanted("11.00", 4, 5))
    shops.drive(shops.push())
    shop = shops.simulator.shop(shops.domain("acme"))
    place = shop.location_named("Chicago IL")
    shop.locations[place.id] = replace(place, is_active=False)
    shops.want("A-1", wanted("11.00", 0, 0))
    before = shops.clock.now()
    gone = lambda: shops.shown("A-1").quantities["Dallas Central"] == 0  # noqa: E731
    shops.drive(shops.push(), until=gone, steps=400)
    assert (shops.clock.now() - before).total_seconds() < 600


def test_an_imported_id_puts_an_end_to_what_was_under_way(shops: Shops) -> None:
    shops.list("A-1")
    other = shops.simulator.seed_product(
        shops.domain("acme"), "OTHER", price=Decimal("11.00"), quantities={"Dallas Central": 5}
    )
    shops.want("A-1", wanted("12.00", 5))

    class Late(Wire):
        def answered(self, reply: SimReply) -> SimReply:
            if b"userErrors" in reply.body:
                take_in(shops, "A-1", other)
            return reply

    push = rebuilt(shops, Late(shops=shops).transport()).push("w")
    shops.drive(push, until=lambda: shops.shown("A-1").price == Decimal("12.00"))
    shops.drive(shops.push(), steps=1000)
    assert shops.shown("OTHER").price == Decimal("12.00")
    assert shops.one("SELECT shopify_variant_id FROM product") == other.variant


def test_an_imported_product_whose_price_is_far_from_ours_is_held(shops: Shops) -> None:
    shops.list("A-1")
    shops.want("A-1", wanted("12.00", 5))
    shops.drive(shops.push())
    other = shops.simulator.seed_product(
        shops.domain("acme"), "OTHER", price=Decimal("500.00"), quantities={"Dallas Central": 5}
    )
    take_in(shops, "A-1", other)
    shops.drive(shops.push())
    assert shops.shown("OTHER").price == Decimal("500.00")
    assert "from 500.00 to 12.00" in shops.one("SELECT held_reason FROM listing_state")


@pytest.mark.parametrize("tracked", (True, False))
def test_a_shop_without_tracked_stock_gets_no_quantity(shops: Shops, *, tracked: bool) -> None:
    shops.list("A-1", knows_ids=False)
    shops.ask("UPDATE listing_state SET applied_version = 0")
    shop = shops.simulator.shop(shops.domain("acme"))
    shop.put_variant(
        replace(shop.by_sku("A-1")[0], price=Decimal("0.00"), cost=None, tracked=tracked)
    )
    shops.want("A-1", wanted("12.00", 5))
    shops.drive(shops.push())
    assert "from 0.00 to 12.00" in shops.one("SELECT held_reason FROM listing_state")
    assert shops.simulator.calls["productVariantsBulkUpdate"] == 0


def take_in(shops: Shops, sku: str, ids: ShopIds) -> None:
    """Import other ids for a part."""
    row = ImportRow(
        line=2,
        sku=Sku(sku),
        seller=SellerId("acme"),
        shopify_product_id=Gid(ids.product),
        shopify_variant_id=Gid(ids.variant),
        shopify_inventory_item_id=Gid(ids.item),
    )
    Products(shops.pool).take_in([row], form="same", policy=Rolling(), now=shops.clock.now())


def test_a_cost_that_the_shop_rounds_is_no_drift(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    quoted = Observed(
        list_price=Decimal(10), net_price=Decimal("9.1251"), currency="USD", quantities={}
    )
    desired = desire(quoted, Terms(locations={}, currency="USD"))
    assert isinstance(desired, Desired)
    shops = make_shops(pool, clock, tmp_path)
    shops.list("A-1")
    shops.want("A-1", wanted("11.00", 5, cost=desired.as_json()["cost"]))
    shops.drive(shops.push())
    assert shops.shown("A-1").cost == desired.cost


def test_stock_follows_into_a_place_that_comes_into_the_shop_later(shops: Shops) -> None:
    shops.list("A-1")
    state = wanted("11.00", 4)
    shops.want("A-1", {**state, "quantities": {**state["quantities"], "Reno NV": 9}})
    shops.drive(shops.push())
    shop = shops.simulator.shop(shops.domain("acme"))
    place = Location(id=shop.new_id("Location"), name="Reno NV")
    shop.locations[place.id] = place
    shops.clock.sleep(25 * 3600)
    is_there = lambda: shops.shown("A-1").quantities.get("Reno NV") == 9  # noqa: E731
    shops.drive(shops.push(), until=is_there, steps=40)


def test_a_part_that_was_not_published_is_looked_for_by_its_own_shop_sku(shops: Shops) -> None:
    shops.stage("N-1=K3")
    shops.ask("UPDATE product_staging SET shop_sku = 'N-1', status = 'failed'")
    shops.drive(shops.push())
    error = shops.one("SELECT push_error FROM listing_state")
    assert "has the SKU N-1;" in error


def test_a_write_that_fails_inside_the_shop_is_read_back_and_sent_under_another_key(
    shops: Shops,
) -> None:
    shops.list("A-1")
    shops.want("A-1", wanted("11.00", 7))
    shops.simulator.log.breaks_next = True
    is_done = lambda: shops.shown("A-1").quantities["Dallas Central"] == 7  # noqa: E731
    shops.drive(shops.push(), until=is_done, steps=100)
    assert shops.simulator.log.codes["IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED"] == 0
    assert shops.simulator.double_writes() == []


def test_a_merchants_edit_stays_while_our_first_price_is_held(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    shops.simulator.seed_product(
        shops.domain("acme"), "N-1", price=Decimal("99.00"), quantities={"Dallas Central": 1}
    )
    shops.stage("N-1")
    shops.drive(shops.push())
    assert "from 99.00 to 11.55" in shops.one("SELECT held_reason FROM listing_state")
    shops.simulator.edit_price(shops.domain("acme"), "N-1", Decimal("90.00"))
    shops.ask("UPDATE listing_state SET push_at = desired_at, applied = NULL")
    clock.sleep(25 * 3600)
    done = "SELECT count(*) FROM listing_state WHERE verified_at < %s OR push_at IS NOT NULL"
    before = clock.now()
    shops.drive(shops.push(), until=lambda: shops.one(done, before) == 0)
    assert shops.shown("N-1").price == Decimal("90.00")
    assert shops.shown("N-1").quantities["Dallas Central"] == 4
