"""Push in virtual time against a simulated Shopify that keeps its own log of what was written."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.shop_setup import PLACES, Shops, make_shops, wanted

from headway.core.accounts.refusals import SPAN_MIN
from headway.core.catalog.intake import handle_of
from headway.core.catalog.listings import Sku
from headway.engine.explain import in_shop
from headway.store.timetable.positions import ListingPositions
from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.virtual_clock import VirtualClock

REFUSALS = "SELECT refusals FROM connected_accounts"


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path)


def writes(shops: Shops) -> list[tuple[str, Any, Any]]:
    return [(effect.kind, effect.old, effect.new) for effect in shops.simulator.effects]


def test_a_changed_price_stock_and_cost_reach_the_shop_once(shops: Shops) -> None:
    shops.list("A-1")
    shops.want("A-1", wanted("12.10", 3, 2, cost="10"))
    shops.drive(shops.push())
    view = shops.shown("A-1")
    assert (view.price, view.cost) == (Decimal("12.10"), Decimal(10))
    assert view.quantities == wanted("", 3, 2)["quantities"]
    assert shops.simulator.double_writes() == []
    assert sorted(kind for kind, _, _ in writes(shops)) == ["cost", "price", "stock", "stock"]
    assert shops.one("SELECT applied = desired FROM listing_state") is True
    assert shops.one("SELECT array_agg(DISTINCT state) FROM push_intent") == ["done"]
    kinds = shops.ask("SELECT event_type FROM sync_audit_log")
    assert {kind for (kind,) in kinds} == {"shopify_updated"}


def test_five_thousand_stock_changes_take_at_most_twenty_five_calls(shops: Shops) -> None:
    shops.ask(
        "UPDATE connected_accounts SET locations_at = %s, locations = '{}'", shops.clock.now()
    )
    for number in range(5000):
        shops.list(f"A-{number}")
    shops.ask(
        "UPDATE listing_state SET desired = jsonb_set(desired, '{quantities,Dallas Central}', '7'),"
        " desired_version = 2, push_at = %s",
        shops.clock.now(),
    )
    shops.ask("UPDATE connected_accounts SET locations = NULL")
    shops.drive(shops.push())
    assert shops.simulator.calls["inventorySetQuantities"] <= 25
    assert {shops.shown(f"A-{n}").quantities["Dallas Central"] for n in range(0, 5000, 97)} == {7}
    assert len(shops.simulator.effects) == 5000
    assert shops.simulator.double_writes() == []
    assert shops.simulator.refusals == 0


def test_stale_ids_heal_by_themselves(shops: Shops) -> None:
    for number in range(55):
        shops.list(f"A-{number}")
        shops.simulator.renumber(shops.domain("acme"), f"A-{number}")
        shops.want(f"A-{number}", wanted("11.55", 4))
    shops.drive(shops.push())
    for number in range(55):
        view = shops.shown(f"A-{number}")
        assert (view.price, view.quantities["Dallas Central"]) == (Decimal("11.55"), 4)
    assert shops.simulator.double_writes() == []
    assert shops.one("SELECT count(*) FROM sync_audit_log WHERE event_type = 'ids_resolved'") == 55


def test_one_bad_product_does_not_keep_the_others_waiting(shops: Shops) -> None:
    for number in range(12):
        shops.list(f"A-{number}")
        shops.want(f"A-{number}", wanted("11.55", 4))
    shops.simulator.delete(shops.domain("acme"), "A-3")
    shops.simulator.shop(shops.domain("acme")).edit_status("A-5", "ACTIVE", is_suspended=True)
    shops.drive(shops.push())
    good = [number for number in range(12) if number not in (3, 5)]
    assert {shops.shown(f"A-{number}").price for number in good} == {Decimal("11.55")}
    errors = dict(shops.ask("SELECT sku, push_error FROM listing_state WHERE push_failures > 0"))
    assert set(errors) == {"A-3", "A-5"}
    assert "publish the part first" in errors["A-3"]


@pytest.mark.parametrize("fault", ("lost-reply", "lost-request", "error", "html", "throttle"))
def test_a_fault_never_makes_a_second_write_and_loses_none(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, fault: str
) -> None:
    shops = make_shops(pool, clock, tmp_path, faults=ShopFaultPlan(5, rates={fault: 0.4}))
    for number in range(90):
        shops.list(f"A-{number}")
        shops.want(f"A-{number}", wanted("11.55", number % 5))
    shops.drive(
        shops.push(),
        until=lambda: (
            shops.one("SELECT count(*) FROM listing_state WHERE push_at IS NOT NULL") == 0
        ),
    )
    for number in range(90):
        view = shops.shown(f"A-{number}")
        assert (view.price, view.quantities["Dallas Central"]) == (Decimal("11.55"), number % 5)
    assert shops.simulator.faults.injected[fault] > 0
    assert shops.simulator.double_writes() == []
    assert shops.simulator.refusals == 0


def test_stock_sold_meanwhile_is_read_back_and_then_set(shops: Shops) -> None:
    shops.list("A-1")
    shops.simulator.sell(shops.domain("acme"), "A-1", "Dallas Central", 2)
    shops.want("A-1", wanted("11.00", 9))
    shops.drive(shops.push())
    assert shops.shown("A-1").quantities["Dallas Central"] == 9
    assert [(old, new) for kind, old, new in writes(shops) if kind == "stock"] == [(3, 9)]


def test_a_listing_without_ids_is_found_by_its_exact_sku(shops: Shops) -> None:
    shops.list("A-1=E9", knows_ids=False)
    shops.simulator.seed_product(shops.domain("acme"), "A-1=E9 X")
    shops.want("A-1=E9", wanted("11.55", 4))
    shops.drive(shops.push())
    assert shops.shown("A-1=E9").price == Decimal("11.55")
    assert shops.shown("A-1=E9 X").price == Decimal("10.00")


def test_a_part_is_published_once_however_often_the_answer_is_lost(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    faults = ShopFaultPlan(3, rates={"lost-reply": 0.3})
    shops = make_shops(pool, clock, tmp_path, faults=faults)
    for number in range(8):
        shops.stage(f"N-{number}")
    shops.drive(
        shops.push(),
        until=lambda: shops.ask("SELECT DISTINCT status FROM product_staging") == [("published",)],
    )
    assert faults.injected["lost-reply"] > 0
    shop = shops.simulator.shop(shops.domain("acme"))
    assert [len(shop.by_sku(f"N-{number}")) for number in range(8)] == [1] * 8
    assert shops.simulator.double_writes() == []
    assert shops.one("SELECT count(*) FROM product WHERE shopify_variant_id IS NOT NULL") == 8
    assert shops.shown("N-1").quantities == dict.fromkeys(PLACES, 0) | {"Dallas Central": 4}


def test_a_part_whose_making_was_not_answered_is_found_though_the_search_lags(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    faults = ShopFaultPlan(3, rates={"lost-reply": 0.3})
    shops = make_shops(pool, clock, tmp_path, faults=faults, search_lag_s=3600)
    for number in range(8):
        shops.stage(f"N-{number}")
    shops.drive(
        shops.push(),
        until=lambda: shops.ask("SELECT DISTINCT status FROM product_staging") == [("published",)],
    )
    assert faults.injected["lost-reply"] > 0
    assert shops.simulator.calls["productSet"] == 8
    assert shops.simulator.double_writes() == []


def test_a_part_the_merchant_already_has_is_adopted_not_made_again(shops: Shops) -> None:
    shops.simulator.seed_product(
        shops.domain("acme"), "N-1", price=Decimal("11.00"), quantities={"Dallas Central": 1}
    )
    shops.stage("N-1")
    shops.drive(shops.push(), until=lambda: shops.waiting() == 0)
    assert len(shops.simulator.shop(shops.domain("acme")).by_sku("N-1")) == 1
    assert shops.simulator.calls["productSet"] == 0
    assert shops.shown("N-1").price == Decimal("11.55")


def test_a_created_product_carries_what_the_supplier_provides_and_keeps_later_edits(
    shops: Shops,
) -> None:
    shops.stage("N-1")
    details = {
        "weight": "0.5", "weight_unit": "POUNDS", "origin": "US", "tariff_code": "880330",
        "condition": "NE", "unit": "EA", "image": "https://images.example.com/n1.jpg",
    }  # fmt: skip
    shops.ask(
        "UPDATE product_staging SET details = %s, description_html = '<p>5 &lt; 6</p>'",
        json.dumps(details),
    )
    shops.drive(shops.push())
    shop, ids = shops.simulator.shop(shops.domain("acme")), shops.shown("N-1").ids
    product, variant = shop.products[ids.product], shop.variants[ids.variant]
    assert (product.description, product.images) == ("<p>5 &lt; 6</p>", (details["image"],))
    assert product.tags == ("Condition: NE", "Unit: EA")
    assert (variant.weight, variant.origin, variant.tariff_code) == (
        (0.5, "POUNDS"),
        "US",
        "880330",
    )
    edited = replace(product, tags=("sale",), description="Ours", images=())
    shop.put_product(edited)
    shop.put_variant(replace(variant, weight=(2.0, "KILOGRAMS"), origin="DE"))
    shops.want("N-1", wanted("12.10", 9))
    shops.drive(shops.push())
    assert shops.shown("N-1").price == Decimal("12.10")
    assert shop.products[ids.product] == edited
    assert shop.variants[ids.variant].weight == (2.0, "KILOGRAMS")


def test_a_product_that_has_our_handle_and_another_sku_stays_as_the_merchant_has_it(
    shops: Shops,
) -> None:
    shops.simulator.seed_product(
        shops.domain("acme"),
        "MINE",
        handle=handle_of("N-1"),
        title="The merchant's own",
        quantities=dict.fromkeys(PLACES, 7),
    )
    shops.stage("N-1")
    shops.drive(shops.push())
    assert (shops.shown("MINE").title, shops.shown("MINE").price) == (
        "The merchant's own",
        Decimal("10.00"),
    )
    assert [effect for effect in shops.simulator.effects if effect.kind != "publish"] == []
    assert "give it the SKU N-1" in shops.one("SELECT push_error FROM listing_state")


def test_a_parked_part_leaves_the_shop_and_returns_to_what_it_was(shops: Shops) -> None:
    shops.list("A-1")
    shops.simulator.shop(shops.domain("acme")).edit_status("A-1", "UNLISTED")
    shops.want("A-1", wanted("11.00", 5, status="DRAFT"))
    shops.drive(shops.push())
    assert shops.shown("A-1").status == "DRAFT"
    assert shops.ask("SELECT status, former_status FROM product") == [("DRAFT", "UNLISTED")]
    shops.want("A-1", wanted("11.00", 5, status="UNLISTED"))
    shops.drive(shops.push())
    assert shops.shown("A-1").status == "UNLISTED"
    assert shops.one("SELECT desired ? 'status' OR applied ? 'status' FROM listing_state") is False


def test_an_adopted_part_whose_price_is_far_from_ours_is_held(shops: Shops) -> None:
    shops.simulator.seed_product(
        shops.domain("acme"), "N-1", price=Decimal("99.00"), quantities={"Dallas Central": 1}
    )
    shops.stage("N-1")
    shops.drive(shops.push())
    assert shops.shown("N-1").price == Decimal("99.00")
    assert shops.shown("N-1").quantities["Dallas Central"] == 4
    assert "from 99.00 to 11.55" in shops.one("SELECT held_reason FROM listing_state")


def test_a_location_that_is_new_in_the_shop_is_learnt_and_nothing_stays_stuck(shops: Shops) -> None:
    shops.list("A-1")
    shops.want("A-1", wanted("12.00", 5))
    shops.drive(shops.push())
    shops.ask("UPDATE connected_accounts SET locations = locations - 'Miami FL' - 'Goodyear AZ'")
    shops.ask("UPDATE listing_state SET applied = NULL")
    shops.want("A-1", wanted("13.00", 5, 0, 2))
    shops.drive(shops.push())
    assert shops.shown("A-1").price == Decimal("13.00")
    assert shops.shown("A-1").quantities["Miami FL"] == 2


def test_the_newest_desired_state_replaces_older_ones(shops: Shops) -> None:
    shops.list("A-1")
    for price in ("12.00", "13.00", "14.00"):
        shops.want("A-1", wanted(price, 5))
    shops.drive(shops.push())
    assert [new for kind, _, new in writes(shops) if kind == "price"] == [Decimal("14.00")]


def test_a_drift_check_repairs_what_was_changed_behind_our_back(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    for number in range(30):
        shops.list(f"A-{number}")
    shops.simulator.edit_price(shops.domain("acme"), "A-7", Decimal("1.00"))
    shops.simulator.sell(shops.domain("acme"), "A-8", "Dallas Central", 2)
    clock.sleep(25 * 3600)
    done = "SELECT count(*) FROM listing_state WHERE verified_at < %s OR push_at IS NOT NULL"
    before = clock.now()
    shops.drive(shops.push(), until=lambda: shops.one(done, before) == 0)
    assert shops.shown("A-7").price == Decimal("11.00")
    assert shops.shown("A-8").quantities["Dallas Central"] == 3
    assert shops.ask("SELECT sku, event_type FROM sync_audit_log WHERE event_type = 'drift_found'")


def test_a_drift_check_repairs_a_price_and_leaves_what_was_sold(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    shops.list("A-1")
    shops.simulator.sell(shops.domain("acme"), "A-1", "Dallas Central", 2)
    shops.simulator.edit_price(shops.domain("acme"), "A-1", Decimal("1.00"))
    clock.sleep(25 * 3600)
    shops.drive(shops.push(), until=lambda: shops.shown("A-1").price == Decimal("11.00"))
    shops.drive(shops.push())
    assert shops.shown("A-1").quantities["Dallas Central"] == 3
    shops.want("A-1", wanted("11.00", 9))
    shops.drive(shops.push())
    assert shops.shown("A-1").quantities["Dallas Central"] == 9, "the supplier's next change counts"


def test_expiring_tokens_are_refreshed_in_time(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, refresh="sim-refresh-token")
    shops.list("A-1")
    for price in ("12.00", "13.00", "14.00"):
        shops.want("A-1", wanted(price, 5))
        shops.drive(shops.push())
        assert shops.shown("A-1").price == Decimal(price)
        clock.sleep(2 * 3600)
    assert shops.simulator.log.codes == {}
    assert shops.one("SELECT status FROM connected_accounts") == "connected"
    query = "SELECT count(*) FROM sync_audit_log WHERE event_type = 'token_refreshed'"
    assert shops.one(query) == 3, "one for each time the access token was too old"


def test_a_dead_grant_disconnects_the_shop_and_says_what_to_do(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, refresh="no-longer-good")
    shops.list("A-1")
    shops.want("A-1", wanted("12.00", 5))
    status = "SELECT status FROM connected_accounts"
    shops.drive(shops.push(), until=lambda: shops.one(REFUSALS) == 1)
    refused_at = clock.now()
    assert shops.one("SELECT wait_until FROM connected_accounts") > refused_at
    shops.drive(shops.push(), until=lambda: shops.one(status) == "disconnected", steps=2000)
    assert clock.now() - refused_at >= SPAN_MIN
    reason = shops.one("SELECT reason FROM connected_accounts")
    assert "headway connect" in reason
    assert "no-longer-good" not in reason
    assert shops.waiting() == 1
    query = "SELECT error_message FROM sync_audit_log WHERE event_type = 'account_disconnected'"
    assert shops.one(query) == reason
    assert reason in shops.one("SELECT text FROM notices WHERE topic = 'account_disconnected'")


def test_a_shop_that_sells_in_other_money_is_never_written(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, currency="EUR")
    shops.list("A-1")
    shops.want("A-1", {**wanted("12.00", 5), "currency": "EUR"})
    waits = "SELECT wait_reason FROM connected_accounts"
    shops.drive(shops.push(), until=lambda: shops.one(waits) != "")
    assert "sells in USD and prices are made in EUR" in shops.one(waits)
    assert shops.one("SELECT status FROM connected_accounts") == "connected"
    assert shops.simulator.effects == []


def test_two_pushers_do_not_write_twice(shops: Shops) -> None:
    for number in range(40):
        shops.list(f"A-{number}")
        shops.want(f"A-{number}", wanted("11.55", 4))
    first, second = shops.push("one"), shops.push("two")
    for _ in range(200):
        if shops.waiting() == 0:
            break
        for push in (first, second):
            push.step()
        shops.clock.sleep(0.5)
    assert shops.waiting() == 0
    assert shops.simulator.double_writes() == []
    assert len(shops.simulator.effects) == 80


def test_a_shop_without_any_of_our_locations_is_reported_and_not_written_to(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    shops.list("A-1", shows=wanted("11.00"))
    merchant = shops.simulator.shop("acme.myshopify.com")
    for name in PLACES:
        merchant.rename_location(name, f"Lager {name}")
    shops.stage("N-1", channels=["Online Store"])
    shops.want("A-1", wanted("12.00", 3))
    push, due = shops.push(), "SELECT min(push_at) FROM listing_state"
    shops.drive(push)
    assert writes(shops) == []
    reason = (
        "nothing was written: the shop has no location Chicago IL, Dallas Central, Goodyear AZ,"
        " Miami FL (it has: Lager Chicago IL, Lager Dallas Central, Lager Goodyear AZ, Lager Miami"
        " FL); rename it there, or change HEADWAY_LOCATIONS"
    )
    assert shops.ask("SELECT DISTINCT push_error FROM listing_state") == [(reason,)]
    assert shops.one("SELECT status FROM product_staging") == "normalized"
    (position,) = ListingPositions(pool).of_sku(Sku("A-1"), now=clock.now())
    assert f"The shop refused it: {reason}." in in_shop(position, clock.now())
    # It goes on by itself once the shop has a location.
    merchant.rename_location(f"Lager {PLACES[0]}", PLACES[0])
    clock.sleep((shops.one(due) - clock.now()).total_seconds())
    shops.drive(push)
    assert shops.shown("A-1").quantities[PLACES[0]] == 3
    assert shops.one("SELECT count(*) FROM listing_state WHERE applied = desired") == 2
    failed = "SELECT count(*) FROM sync_audit_log WHERE event_type = 'shopify_update_failed'"
    assert shops.one(failed) == 2, "each part reports it once"


def test_stock_at_a_location_that_the_shop_lacks_is_named_by_explain(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    shops.list("A-1", shows=wanted("11.00", 1))
    shops.simulator.shop("acme.myshopify.com").rename_location(PLACES[1], "Chicago")
    shops.want("A-1", wanted("12.00", 2, 30))
    shops.drive(shops.push())
    (position,) = ListingPositions(pool).of_sku(Sku("A-1"), now=clock.now())
    assert "30 more in stock are not sold" in in_shop(position, clock.now())


@pytest.mark.parametrize("kept", (("JPY", 0, "1086", "1087"), ("KWD", 3, "1.235", "1.236")))
def test_a_shop_that_stores_other_digits_than_cents_has_no_drift_but_a_merchants_edit(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, kept: tuple[str, int, str, str]
) -> None:
    currency, digits, price, edited = kept
    setup = {"currency": currency, "digits": digits}
    shops = make_shops(pool, clock, tmp_path, setup=setup, currency=currency)
    money = {"currency": currency, "cost": price}
    shops.list("A-1", shows=wanted("1", 5, **money))
    shops.want("A-1", wanted(price, 5, **money))
    push = shops.push()
    shops.drive(push)
    assert str(shops.shown("A-1").price) == price
    written = len(writes(shops))
    verified = "SELECT verified_at FROM listing_state"
    for edit in (None, Decimal(edited)):
        if edit is not None:
            shops.simulator.edit_price("acme.myshopify.com", "A-1", edit)
        clock.sleep(25 * 3600)
        before = shops.one(verified)
        shops.drive(push, until=lambda: shops.one(verified) != before)  # noqa: B023
        shops.drive(push)
        found = "SELECT count(*) FROM sync_audit_log WHERE event_type = 'drift_found'"
        assert shops.one(found) == (edit is not None)
        assert (len(writes(shops)) > written) is (edit is not None)
        assert str(shops.shown("A-1").price) == price
