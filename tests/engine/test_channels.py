"""Published means visible: on the chosen sales channels, as the shop confirms, and kept so."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.shop_setup import Shops, make_shops, wanted

from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.simulators.shopify.shop import SCOPES
from headway_lab.simulators.shopify.shop_window import NotOnSaleError, ShopWindow
from headway_lab.virtual_clock import VirtualClock

ONLINE = ["Online Store"]
DOMAIN = "acme.myshopify.com"
NO_SCOPES = {"scopes": [scope for scope in SCOPES if "publications" not in scope]}


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path)


def events(shops: Shops) -> list[str]:
    rows = shops.ask("SELECT event_type FROM sync_audit_log ORDER BY sync_timestamp, created_at")
    return [kind for (kind,) in rows]


def status_of(shops: Shops) -> list[str]:
    return [status for (status,) in shops.ask("SELECT DISTINCT status FROM product_staging")]


def until_visible(shops: Shops) -> Callable[[], bool]:
    return lambda: shops.shown("N-1").channels == ("Online Store",)


def test_a_published_part_can_be_bought(shops: Shops) -> None:
    shops.stage("N-1", channels=ONLINE)
    shops.drive(shops.push())
    window = ShopWindow(shops.simulator)
    assert window.buy(DOMAIN, "N-1")
    assert shops.shown("N-1").quantities["Dallas Central"] == 3
    assert (shops.shown("N-1").channels, status_of(shops)) == (("Online Store",), ["published"])
    assert events(shops) == ["product_created", "shopify_updated", "product_published"]
    assert shops.one("SELECT applied = desired AND push_at IS NULL FROM listing_state")


def test_parts_are_published_ten_in_a_call_and_once_whatever_is_lost(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    faults = ShopFaultPlan(5, rates={"lost-reply": 0.2})
    shops = make_shops(pool, clock, tmp_path, faults=faults)
    for number in range(20):
        shops.stage(f"N-{number}", channels=ONLINE)
    shops.drive(shops.push(), until=lambda: status_of(shops) == ["published"], steps=900)
    assert faults.injected["lost-reply"] > 0
    assert len(ShopWindow(shops.simulator).on_sale(DOMAIN)) == 20
    assert shops.simulator.double_writes() == []
    assert shops.simulator.calls["publishablePublish"] < 12


def test_a_part_unpublished_by_hand_is_back_within_the_drift_checks_interval(shops: Shops) -> None:
    shops.stage("N-1", channels=ONLINE)
    shops.drive(shops.push())
    shops.simulator.shop(DOMAIN).edit_channels("N-1", ())
    with pytest.raises(NotOnSaleError):
        ShopWindow(shops.simulator).buy(DOMAIN, "N-1")
    began = shops.clock.now()
    shops.clock.sleep(24 * 3600)
    shops.drive(shops.push(), until=until_visible(shops))
    assert (shops.clock.now() - began).total_seconds() < 25 * 3600
    assert events(shops)[-2:] == ["drift_found", "shopify_updated"]
    found = shops.ask("SELECT old_value, new_value FROM sync_audit_log ORDER BY sync_timestamp")[-2]
    assert [state["channels"] for state in found] == [ONLINE, []]


def test_a_draft_of_the_merchant_is_not_published_and_no_drift(shops: Shops) -> None:
    shops.stage("N-1", channels=ONLINE)
    shops.drive(shops.push())
    shops.simulator.shop(DOMAIN).edit_status("N-1", "DRAFT")
    shops.want("N-1", wanted("12.00", 4, channels=ONLINE))
    before = shops.simulator.calls["publishablePublish"]
    shops.clock.sleep(25 * 3600)
    done = "SELECT count(*) FROM listing_state WHERE verified_at < %s OR push_at IS NOT NULL"
    now = shops.clock.now()
    shops.drive(shops.push(), until=lambda: shops.one(done, now) == 0)
    assert shops.simulator.calls["publishablePublish"] == before
    assert "drift_found" not in events(shops)


def test_what_a_merchant_published_stays_where_the_merchant_has_it(shops: Shops) -> None:
    shops.list("A-1")
    shops.simulator.shop(DOMAIN).edit_channels("A-1", ["Point of Sale"])
    shops.want("A-1", wanted("12.00", 5))
    shops.drive(shops.push())
    assert shops.shown("A-1").channels == ("Point of Sale",)
    assert shops.simulator.calls["publishablePublish"] == 0


def test_a_shop_without_the_scopes_keeps_its_prices_and_stock_up_to_date_and_says_why(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, setup=NO_SCOPES)
    shops.stage("N-1", channels=ONLINE)
    shops.drive(shops.push())
    assert (shops.shown("N-1").channels, status_of(shops)) == ((), ["created"])
    assert shops.one("SELECT missing_scopes FROM connected_accounts") == [
        "read_publications",
        "write_publications",
    ]
    reason = shops.one("SELECT push_error FROM listing_state")
    assert "read_publications and write_publications" in reason
    assert "headway connect acme.myshopify.com" in reason
    assert "product_published" not in events(shops)
    shops.want("N-1", wanted("12.00", 7, channels=ONLINE))
    shops.drive(shops.push())
    shown = shops.shown("N-1")
    assert (shown.price, shown.quantities["Dallas Central"]) == (Decimal("12.00"), 7)
    assert shops.one("SELECT wait_until IS NULL FROM connected_accounts")
    assert shops.one("SELECT push_failures FROM listing_state") == 0


def test_scopes_that_are_granted_later_publish_what_waited(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, setup=NO_SCOPES)
    shops.stage("N-1", channels=ONLINE)
    shops.drive(shops.push())
    shop = shops.simulator.shop(DOMAIN)
    shop.setup = replace(shop.setup, scopes=SCOPES)
    shops.ask("UPDATE connected_accounts SET channels_at = NULL")  # as connecting again does
    shops.drive(shops.push(), until=until_visible(shops))
    shops.drive(shops.push(), until=lambda: status_of(shops) == ["published"])


def test_a_channel_that_the_shop_lacks_is_named_with_those_it_has(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, setup={"channels": ["Point of Sale", "Shop"]})
    shops.stage("N-1", channels=ONLINE)
    shops.drive(shops.push())
    reason = shops.one("SELECT push_error FROM listing_state")
    assert "no sales channel Online Store (it has: Point of Sale, Shop)" in reason
    assert status_of(shops) == ["created"]
    shops.clock.sleep(30 * 3600)
    shops.drive(shops.push())
    assert events(shops).count("shopify_update_failed") == 1, "one event for one reason"


def test_a_channel_is_found_whatever_the_case_of_its_name(shops: Shops) -> None:
    shops.stage("N-1", channels=["online store", "POINT OF SALE"])
    shops.drive(shops.push())
    assert shops.shown("N-1").channels == ("Online Store", "Point of Sale")


def test_a_crossed_out_price_of_the_merchant_survives_every_write(shops: Shops) -> None:
    shops.list("A-1")
    shop = shops.simulator.shop(DOMAIN)
    [variant] = shop.by_sku("A-1")
    shop.put_variant(replace(variant, compare_at=Decimal("120.00")))
    state = wanted("12.00", 9)
    del state["compare_at"]
    shops.want("A-1", state)
    shops.drive(shops.push())
    assert (shops.shown("A-1").price, shops.shown("A-1").compare_at) == (
        Decimal("12.00"),
        Decimal("120.00"),
    )
    assert {effect.kind for effect in shops.simulator.effects} == {"price", "stock"}
    shops.clock.sleep(25 * 3600)
    now = shops.clock.now()
    done = "SELECT count(*) FROM listing_state WHERE verified_at < %s"
    shops.drive(shops.push(), until=lambda: shops.one(done, now) == 0)
    assert "drift_found" not in events(shops)


@pytest.mark.parametrize("how", ({"policy": "CONTINUE"}, {"tracked": False}))
@pytest.mark.parametrize("oversell", ("keep", "deny"))
def test_a_variant_that_sells_at_zero_is_reported_and_changed_only_if_the_seller_says_so(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, how: dict[str, object], oversell: str
) -> None:
    shops = make_shops(pool, clock, tmp_path, oversell=oversell)
    shops.list("A-1")
    shop = shops.simulator.shop(DOMAIN)
    [variant] = shop.by_sku("A-1")
    shop.put_variant(replace(variant, **how))
    shops.ask("UPDATE listing_state SET applied = NULL")
    shops.want("A-1", wanted("12.00", 2))
    shops.drive(shops.push())
    shown = shops.shown("A-1")
    assert shown.price == Decimal("12.00")
    assert (not shown.tracked or shown.policy == "CONTINUE") is (oversell == "keep")
    stock_is_counted = shown.tracked
    assert shown.quantities["Dallas Central"] == (2 if stock_is_counted else 5)
    stored = shops.ask("SELECT tracked, inventory_policy FROM product")
    assert stored == [(shown.tracked, shown.policy)]
