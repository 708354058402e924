"""What fetch makes of a reply: sellers' own terms, held changes, staged parts, a ring for push."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from headway.app.monitoring import alert_metrics_now
from headway.app.rules import seller_defaults
from headway.store.catalog.sellers import Sellers
from headway.store.monitoring.law_checks import LawChecks
from headway_lab.simulators.faults import BadPrice, Contradiction, FaultPlan, Interval

SKUS = tuple(f"P{n}=K3" for n in range(10))


def test_a_worker_rings_when_a_shop_is_to_change_and_only_then(rig: Any) -> None:
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    rung: list[int] = []
    fetch = rig.app.fetch("w1", wake_push=lambda: rung.append(rig.price_calls()))
    rig.read(fetch)
    assert rung == [1]
    rig.make_due(*SKUS)
    rig.read(fetch)
    assert rung == [1]
    rig.catalog.stock(SKUS[4], quantity=1)
    rig.make_due(*SKUS)
    rig.read(fetch)
    assert rung == [1, 3]


def test_two_sellers_of_one_part_have_their_own_terms(rig: Any) -> None:
    rig.add(*SKUS, seller="a")
    rig.add(*SKUS, seller="b")
    rig.app.sellers.set_terms("b", {"rounding": "99"}, now=rig.clock.now())
    rig.make_due(*SKUS)
    rig.read(rig.app.fetch("w1"))
    prices = "SELECT DISTINCT user_id, desired->>'price' FROM listing_state ORDER BY 1"
    assert rig.ask(prices) == [("a", "11.00"), ("b", "11.99")]


def test_sellers_have_their_own_locations_currencies_and_markups_of_groups(rig: Any) -> None:
    for seller in ("a", "b", "c"):
        rig.add(*SKUS[:2], seller=seller)
    own = {"locations": "miami fl=Depot", "markups": f"{SKUS[1]}=50%, P*=20%"}
    rig.app.sellers.set_terms("b", own, now=rig.clock.now())
    rig.app.sellers.set_terms("c", {"currency": "EUR"}, now=rig.clock.now())
    rig.make_due(*SKUS[:2])
    rig.read(rig.app.fetch("w1"))
    states = (
        "SELECT user_id, sku, desired->>'price', desired->'quantities'->>'Depot',"
        " desired->'quantities'->>'Miami FL', held_reason FROM listing_state ORDER BY 1, 2"
    )
    held = "quoted in USD, the shop sells in EUR"
    assert rig.ask(states) == [
        ("a", SKUS[0], "11.00", None, "5", None),
        ("a", SKUS[1], "11.00", None, "5", None),
        ("b", SKUS[0], "12.00", "5", None, None),
        ("b", SKUS[1], "15.00", "5", None, None),
        ("c", SKUS[0], None, None, None, held),
        ("c", SKUS[1], None, None, None, held),
    ]


def test_law_l9_goes_by_the_currency_of_each_seller(rig: Any) -> None:
    rig.add(SKUS[0])
    rig.make_due(SKUS[0])
    rig.read(rig.app.fetch("w1"))
    checks = LawChecks(rig.pool)
    assert checks.harmful("USD").count == 0
    rig.app.sellers.set_terms("a", {"currency": "EUR"}, now=rig.clock.now())
    assert checks.harmful("USD").count == 1


def test_a_price_that_falls_by_95_percent_is_held_and_blocks_nobody(rig: Any) -> None:
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    rig.catalog.stock(SKUS[0], price="0.5", quantity=2)
    rig.catalog.stock(SKUS[1], price="12", quantity=2)
    rig.make_due(*SKUS)
    rig.read(fetch)
    state = (
        "SELECT desired->>'price', desired->'quantities'->>'Miami FL', proposed->>'price'"
        " FROM listing_state WHERE sku = %s"
    )
    assert rig.ask(state, SKUS[0]) == [("11.00", "2", "0.55")]
    assert rig.ask(state, SKUS[1]) == [("13.20", "2", None)]


def test_a_catalog_that_changes_all_at_once_is_held_from_a_quarter_on_until_it_is_let_pass(
    make_rig: Callable[..., Any],
) -> None:
    skus = [f"Q{n}" for n in range(120)]
    rig = make_rig()
    rig.add(*skus)
    fetch = rig.app.fetch("w1")

    def read_all() -> None:
        rig.make_due(*skus)
        rig.read(fetch, calls=12)

    read_all()
    for sku in skus:
        rig.catalog.stock(sku, price="11", quantity=0)
    read_all()
    new = "SELECT count(*) FROM listing_state WHERE desired->>'price' = '12.10'"
    kept = "SELECT count(*) FROM listing_state WHERE desired->'quantities'->>'Miami FL' = '5'"
    assert (rig.one(new), rig.one(kept)) == (30, 90)
    rig.clock.sleep(timedelta(days=2).total_seconds())
    read_all()
    assert rig.one(new) == 30, "it does not pass by itself when its day is over"
    until = rig.clock.now() + timedelta(hours=1)
    rig.ask(
        "INSERT INTO profiles (user_id, mass_approved_until) VALUES ('a', %s)"
        " ON CONFLICT (user_id) DO UPDATE SET mass_approved_until = excluded.mass_approved_until",
        until,
    )
    read_all()
    assert (rig.one(new), rig.one(kept)) == (120, 0)
    assert rig.one("SELECT count(*) FROM listing_state WHERE held_reason IS NOT NULL") == 0


def test_a_part_that_is_published_is_read_at_the_next_permit_and_staged(rig: Any) -> None:
    rig.add(SKUS[0])
    rig.make_due(SKUS[0], priority="onboarding")
    rig.ask(
        "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id)"
        " VALUES ('a', %s, 'P0', gen_random_uuid())",
        SKUS[0],
    )
    rig.read(rig.app.fetch("w1"))
    row = rig.ask("SELECT status, title, price::text, location_summary FROM product_staging")
    assert row == [("normalized", SKUS[0], "11.00", "Miami FL: 5")]
    sent = rig.one("SELECT raw_payload FROM boeing_raw_data")
    details = rig.one("SELECT details FROM product_staging")
    assert Decimal(details["weight"]) == Decimal(sent["weight"])
    assert (details["origin"], details["condition"]) == (sent["countryOfOrigin"], sent["condition"])
    assert details["image"] == "", "images are not allowed by default"
    raw = rig.one("SELECT raw_payload->>'aviallPartNumber' FROM boeing_raw_data")
    assert raw == SKUS[0]
    assert rig.one("SELECT priority FROM product_sync_schedule") == "scheduled"


class Counting:
    """A pool that counts how often it is asked."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.lookups = 0

    def connection(self) -> Any:
        self.lookups += 1
        return self._pool.connection()


def test_sellers_are_asked_for_once_in_a_call_and_only_when_the_reply_came(
    make_rig: Callable[..., Any],
) -> None:
    faults = FaultPlan(1, outage=[Interval(start_s=0, end_s=1800)])
    rig = make_rig(faults=faults)
    for seller in ("a", "b"):
        rig.add(*SKUS, seller=seller)
    rig.make_due(*SKUS)
    counting = Counting(rig.pool)
    app = replace(rig.app, sellers=Sellers(counting, seller_defaults(rig.app.settings)))
    fetch = app.fetch("w1")
    back_at = rig.clock.now() + timedelta(minutes=30)
    rig.drive(fetch, lambda: rig.clock.now() >= back_at)
    assert counting.lookups == 0
    rig.read(fetch)
    assert counting.lookups == 1


def test_lines_that_contradict_themselves_are_held_and_nothing_of_theirs_is_charged(
    rig: Any,
) -> None:
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    forever = Interval(start_s=0, end_s=10**9)
    rig.supplier.faults = FaultPlan(
        contradict=dict(zip(SKUS, ((form, forever) for form in Contradiction), strict=False)),
        badprice={SKUS[8]: (BadPrice.NEGATIVE, forever), SKUS[9]: (BadPrice.EXTREME, forever)},
        no_currency=[forever],
    )
    rig.make_due(*SKUS)
    rig.read(fetch)
    held = "SELECT count(*) FROM listing_state WHERE held_reason IS NOT NULL"
    assert rig.one(held) == 10
    assert rig.one("SELECT count(*) FROM product_sync_schedule WHERE consecutive_failures > 0") == 0
    prices = "SELECT DISTINCT desired->>'price' FROM listing_state"
    assert rig.ask(prices) == [("11.00",)]
    stock = "SELECT desired->'quantities'->>'Miami FL' FROM listing_state ORDER BY sku"
    assert rig.ask(stock) == [("0",), *[("5",)] * 9], "the one that is not in stock"


def test_a_renamed_location_raises_an_alert_and_keeps_the_stock(rig: Any) -> None:
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    forever = Interval(start_s=0, end_s=10**9)
    rig.supplier.faults = FaultPlan(renames={"Miami FL": ("Miami Florida", forever)})
    rig.make_due(*SKUS)
    rig.read(fetch)
    stock = "SELECT DISTINCT desired->'quantities'->>'Miami FL' FROM listing_state"
    assert rig.ask(stock) == [("5",)]
    metrics = alert_metrics_now(rig.app, rig.clock.now(), pauses=())
    assert [location.name for location in metrics.unknown_locations] == ["Miami Florida"]
    rig.supplier.faults = FaultPlan(renames={"Miami FL": (" MIAMI fl ", forever)})
    rig.make_due(*SKUS)
    rig.read(fetch)
    assert rig.one("SELECT count(*) FROM listing_state WHERE held_reason IS NOT NULL") == 0


@pytest.mark.parametrize("price", ("-1", "1000000000000", "0.00001"))
def test_a_price_that_cannot_be_meant_is_held_while_stock_is_updated_and_never_parks(
    rig: Any, price: str
) -> None:
    rig.add(*SKUS)
    fetch = rig.app.fetch("w1")
    state = (
        "SELECT sync_status, desired ->> 'price', desired -> 'quantities' ->> 'Miami FL',"
        " desired ->> 'status', held_reason FROM product_sync_schedule JOIN listing_state"
        " USING (user_id, sku) WHERE sku = %s"
    )
    rig.make_due(*SKUS)
    rig.read(fetch)
    for quantity in range(6):
        rig.catalog.stock(SKUS[0], price=price, quantity=quantity)
        rig.make_due(*SKUS)
        rig.read(fetch)
        ((*row, reason),) = rig.ask(state, SKUS[0])
        assert row == ["success", "11.00", str(quantity), None]
        assert reason is not None
