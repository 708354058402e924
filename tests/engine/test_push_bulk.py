"""Prices in bulk, in virtual time against a simulated Shopify that keeps its own log of writes."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.bulk_setup import (
    FROM,
    LISTINGS,
    check_once,
    fill,
    finish,
    operations,
    pusher,
    reach,
    slow_down,
    want_all,
)
from tests.engine.shop_setup import Shops, make_shops, wanted

from headway.providers.shopify.storefront import shop_limit_key
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path)


def test_three_thousand_prices_take_a_handful_of_calls_and_few_points(shops: Shops) -> None:
    fill(shops, 3000)
    finish(shops, pusher(shops.app, from_count=1000, piece_max=500))
    check_once(shops, 3000)
    assert shops.simulator.calls["productVariantsBulkUpdate"] == 0
    assert shops.simulator.requests <= 15
    assert shops.simulator.points <= 100
    assert shops.one("SELECT count(*) FROM sync_audit_log") == 3000
    assert shops.one("SELECT result FROM push_intent") == "3000 of 3000 done"


def test_a_file_to_another_host_costs_the_shop_nothing(shops: Shops) -> None:
    fill(shops)
    push = pusher(shops.app)
    reach(shops, push, "staged")
    shops.clock.sleep(60)
    reach(shops, push, "uploaded")
    (gauge,) = shops.app.limiter.status(shop_limit_key("", shops.domain("acme"))).gauges
    assert gauge.used < 50


def test_fewer_prices_than_that_go_in_ordinary_calls(shops: Shops) -> None:
    fill(shops, FROM - 1)
    finish(shops, pusher(shops.app))
    assert shops.simulator.calls["stagedUploadsCreate"] == 0
    check_once(shops, FROM - 1)


def test_stock_that_is_due_does_not_count_as_a_price(shops: Shops) -> None:
    fill(shops, FROM - 1)
    shops.list("A-9")
    shops.want("A-9", wanted("11.00", 2))
    finish(shops, pusher(shops.app))
    assert shops.simulator.calls["stagedUploadsCreate"] == 0
    assert shops.shown("A-9").quantities["Dallas Central"] == 2


def test_a_newer_price_waits_for_the_bulk_and_is_written_after_it_once(shops: Shops) -> None:
    fill(shops)
    slow_down(shops)
    push = pusher(shops.app)
    reach(shops, push, "running")
    shops.want("A-7", wanted("13.00", 5))
    shops.drive(push)
    assert shops.simulator.calls["productVariantsBulkUpdate"] == 0
    assert shops.shown("A-7").price == Decimal("11.00")
    finish(shops, push)
    last = [effect.new for effect in shops.simulator.effects][-2:]
    assert last == [Decimal("12.00"), Decimal("13.00")]
    assert shops.simulator.calls["productVariantsBulkUpdate"] == 1
    assert len(shops.simulator.effects) == LISTINGS + 1
    assert shops.simulator.double_writes() == []


def test_a_price_taken_back_while_the_bulk_runs_is_put_back_after_it(shops: Shops) -> None:
    fill(shops)
    slow_down(shops)
    push = pusher(shops.app)
    reach(shops, push, "running")
    shops.want("A-7", wanted("11.00", 5))
    finish(shops, push)
    assert shops.shown("A-7").price == Decimal("11.00")
    assert len(shops.simulator.effects) == LISTINGS + 1
    assert shops.simulator.double_writes() == []


def test_stock_and_the_prices_of_others_flow_while_the_bulk_runs(shops: Shops) -> None:
    fill(shops)
    slow_down(shops)
    push = pusher(shops.app)
    reach(shops, push, "running")
    shops.list("B-1")
    shops.want("B-1", wanted("14.00", 9))
    shops.want("A-7", wanted("12.00", 1))
    before = shops.clock.now()
    shops.drive(push)
    assert shops.clock.now() - before < timedelta(seconds=10)
    assert shops.shown("A-7").quantities["Dallas Central"] == 1
    assert (shops.shown("B-1").price, shops.shown("B-1").quantities["Dallas Central"]) == (14, 9)
    assert shops.shown("A-7").price == Decimal("11.00")
    finish(shops, push)
    check_once(shops, LISTINGS + 1)


def test_stock_that_rises_still_waits_for_the_price_that_is_on_its_way(shops: Shops) -> None:
    fill(shops)
    slow_down(shops)
    push = pusher(shops.app)
    reach(shops, push, "running")
    shops.want("A-7", wanted("12.00", 9))
    shops.drive(push)
    assert shops.shown("A-7").quantities["Dallas Central"] == 5
    finish(shops, push)
    assert shops.shown("A-7").quantities["Dallas Central"] == 9
    check_once(shops)


def test_a_drift_check_does_not_take_what_the_bulk_writes_for_drift(shops: Shops) -> None:
    fill(shops)
    shops.list("B-1")
    slow_down(shops)
    push = pusher(shops.app)
    reach(shops, push, "running")
    shops.ask("UPDATE listing_state SET verified_at = %s", shops.clock.now() - timedelta(days=2))
    finish(shops, push)
    assert shops.ask("SELECT DISTINCT event_type FROM sync_audit_log") == [("shopify_updated",)]
    verified = "SELECT array_agg(sku) FROM listing_state WHERE verified_at > %s"
    assert shops.one(verified, shops.clock.now() - timedelta(days=1)) == ["B-1"]


def test_polls_grow_rarer(shops: Shops) -> None:
    fill(shops)
    slow_down(shops, line_s=150.0)
    finish(shops, pusher(shops.app))
    assert 25 <= shops.simulator.calls["bulkOperation"] <= 40
    check_once(shops)


def test_one_bad_line_harms_only_itself(shops: Shops) -> None:
    fill(shops)
    shops.simulator.delete(shops.domain("acme"), "A-3")
    shops.simulator.shop(shops.domain("acme")).edit_status("A-5", "ACTIVE", is_suspended=True)
    shops.simulator.renumber(shops.domain("acme"), "A-6")
    push = pusher(shops.app)
    reach(shops, push, "completed")
    shops.drive(push, until=lambda: shops.shown("A-6").price == 12)
    shops.drive(push)
    good = [number for number in range(LISTINGS) if number not in (3, 5)]
    assert {shops.shown(f"A-{number}").price for number in good} == {Decimal("12.00")}
    errors = dict(shops.ask("SELECT sku, push_error FROM listing_state WHERE push_failures > 0"))
    assert set(errors) == {"A-3", "A-5"}
    assert "publish the part first" in errors["A-3"]
    assert "suspended" in errors["A-5"]
    assert shops.simulator.double_writes() == []


def test_variants_of_one_product_share_a_line(shops: Shops) -> None:
    fill(shops)
    shops.list("A-8")
    product = shops.one("SELECT shopify_product_id FROM product WHERE sku = 'A-0'")
    shop = shops.simulator.shop(shops.domain("acme"))
    twin = shop.add_variant(product, "A-8b", price=Decimal("11.00"))
    shops.ask(
        "UPDATE product SET shopify_product_id = %s, shopify_variant_id = %s WHERE sku = 'A-8'",
        twin.product,
        twin.variant,
    )
    shops.want("A-8", wanted("12.00", 5))
    finish(shops, pusher(shops.app))
    assert shops.shown("A-8b").price == Decimal("12.00")
    (operation,) = operations(shops)
    assert len(operation.lines) == LISTINGS
    check_once(shops, LISTINGS + 1)


def test_nothing_of_another_seller_goes_along(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, sellers=("acme", "other"))
    for seller in ("acme", "other"):
        for number in range(3):
            shops.list(f"A-{number}", seller=seller)
    want_all(shops, "12.00")
    finish(shops, pusher(shops.app, from_count=4))
    assert shops.simulator.calls["stagedUploadsCreate"] == 0
    check_once(shops, 6)
