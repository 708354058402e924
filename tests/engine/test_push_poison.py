"""A product that spoils every call it is in: it is found, set aside and retried; others go on."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.bulk_setup import Wire, pusher, rebuilt
from tests.engine.shop_setup import Shops, make_shops, wanted

from headway.core.catalog.listings import Done, Wait
from headway.engine.push import Push
from headway_lab.simulators.faults import Interval
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.faults import ShopFaultPlan, ShopPoison, ShopPoisonForm
from headway_lab.virtual_clock import VirtualClock

HOUR_S = 3600.0
# How long a pusher that has nothing to do is left alone.
IDLE_S = 15.0
CULPRIT = "A-3"
COUNT = 12
# What is requested of the shop, and the field of its API that the culprit spoils.
FIELDS = {
    "read": "nodes",
    "find": "productVariants",
    "stock": "inventorySetQuantities",
    "activate": "inventoryActivate",
    "price": "productVariantsBulkUpdate",
    "status": "productUpdate",
    "create": "productSet",
}
DESIRED = {
    "stock": wanted("11.00", 7),
    "activate": wanted("11.00", 5, 0, 3),
    "status": wanted("11.00", 5, status="DRAFT"),
}


def poisoned_shops(
    pool: ConnectionPool, clock: VirtualClock, folder: Path, *poison: ShopPoison
) -> Shops:
    return make_shops(pool, clock, folder, faults=ShopFaultPlan(1, poison=poison))


def fill(shops: Shops, kind: str, skus: list[str]) -> None:
    """Give every listing a change that needs this kind of call."""
    for sku in skus:
        if kind == "create":
            shops.stage(sku)
            continue
        shows = wanted("11.00", 5)
        if kind == "activate":
            del shows["quantities"]["Miami FL"]
        shops.list(sku, shows=shows, knows_ids=kind != "find")
        if kind == "read":
            shops.ask("UPDATE listing_state SET applied = NULL WHERE sku = %s", sku)
        shops.want(sku, DESIRED.get(kind, wanted("12.00", 5)))


def run_for(
    shops: Shops, push: Push, seconds: float, *, idle_s: float = IDLE_S
) -> list[Done | Wait]:
    results: list[Done | Wait] = []
    end_s = shops.clock.monotonic() + seconds
    while shops.clock.monotonic() < end_s:
        results.append(push.step())
        if isinstance(results[-1], Wait):
            wait_s = (results[-1].until - shops.clock.now()).total_seconds()
            shops.clock.sleep(max(0.01 if results[-1].why == "permit" else idle_s, wait_s))
    return results


def late(shops: Shops) -> set[str]:
    return {
        sku
        for (sku,) in shops.ask(
            "SELECT sku FROM listing_state WHERE applied IS DISTINCT FROM desired"
        )
    }


@pytest.mark.parametrize("form", list(ShopPoisonForm))
@pytest.mark.parametrize("kind", list(FIELDS))
def test_a_product_that_spoils_every_call_stops_no_other(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, kind: str, form: ShopPoisonForm
) -> None:
    poison = ShopPoison(
        sku=CULPRIT,
        form=form,
        fields=frozenset({FIELDS[kind]}),
        span=Interval(start_s=0, end_s=HOUR_S),
    )
    shops = poisoned_shops(pool, clock, tmp_path, poison)
    fill(shops, kind, [f"A-{number}" for number in range(COUNT)])
    push = shops.push()
    run_for(shops, push, 300)
    assert late(shops) == {CULPRIT}
    run_for(shops, push, HOUR_S - 300)
    assert shops.simulator.requests < 60
    errors = dict(shops.ask("SELECT sku, push_error FROM listing_state WHERE push_failures > 0"))
    assert set(errors) == {CULPRIT}
    assert "every call with it fails" in errors[CULPRIT]
    run_for(shops, push, HOUR_S)
    assert late(shops) == set()
    assert shops.one("SELECT max(push_failures) FROM listing_state") == 0
    assert shops.simulator.double_writes() == []
    assert shops.one("SELECT count(*) FROM push_intent WHERE state = 'open'") == 0


@pytest.mark.parametrize("kind", ("read", "stock", "price"))
def test_a_product_that_spoils_every_call_delays_no_change_that_comes_later(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, kind: str
) -> None:
    poison = ShopPoison(sku=CULPRIT, fields=frozenset({FIELDS[kind]}))
    shops = poisoned_shops(pool, clock, tmp_path, poison)
    fill(shops, kind, [CULPRIT])
    push = shops.push()
    run_for(shops, push, HOUR_S)
    assert shops.simulator.requests < 30
    assert shops.one("SELECT push_failures FROM listing_state") > 1
    fill(shops, kind, ["A-1"])
    run_for(shops, push, 60)
    assert late(shops) == {CULPRIT}


def test_a_price_that_spoils_its_line_of_a_bulk_operation_stops_no_other(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    poison = ShopPoison(
        sku=CULPRIT, fields=frozenset({FIELDS["price"]}), span=Interval(start_s=0, end_s=HOUR_S)
    )
    shops = poisoned_shops(pool, clock, tmp_path, poison)
    fill(shops, "price", [f"A-{number}" for number in range(COUNT)])
    push = pusher(shops.app)
    run_for(shops, push, 300)
    assert late(shops) == {CULPRIT}
    run_for(shops, push, HOUR_S)
    assert shops.simulator.requests < 60
    run_for(shops, push, HOUR_S)
    assert late(shops) == set()


def test_an_outage_of_the_shop_counts_against_no_listing(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    outage = [Interval(start_s=0, end_s=2 * HOUR_S)]
    shops = make_shops(pool, clock, tmp_path, faults=ShopFaultPlan(1, outage=outage))
    fill(shops, "read", ["A-1", "A-2"])
    fill(shops, "stock", ["A-3"])
    push = shops.push()
    run_for(shops, push, 2 * HOUR_S)
    assert shops.one("SELECT max(push_failures) FROM listing_state") == 0
    assert shops.simulator.requests < 40
    run_for(shops, push, HOUR_S / 3)
    assert late(shops) == set()


def test_a_kind_of_call_that_always_fails_is_not_tried_again_and_again(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    fill(shops, "stock", [f"A-{number}" for number in range(40)])

    class NoStock(Wire):
        """A way to a shop that fails whenever stock is written."""

        is_stock = False

        def sent(self, body: bytes) -> bytes | None:
            self.is_stock = b"inventorySetQuantities" in body
            return b'{"query": "{ shop { id } }"}' if self.is_stock else body

        def answered(self, reply: SimReply) -> SimReply:
            return SimReply(status=502, body=b"<html>") if self.is_stock else reply

    run_for(shops, rebuilt(shops, NoStock(shops=shops).transport()).push("w"), HOUR_S)
    assert shops.simulator.requests < 100


def test_a_slow_shop_with_many_changes_delays_another_by_one_call(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, sellers=("acme", "bolt"))

    class SlowShop(Wire):
        """A way on which one shop answers after 29 seconds."""

        def answered(self, reply: SimReply) -> SimReply:
            return replace(reply, delay_s=29.0) if "acme" in self.path else reply

    for number in range(60):
        shops.list(f"A-{number}")
        shops.want(f"A-{number}", wanted("12.00", 5))
    shops.list("B-1", seller="bolt")
    push = rebuilt(shops, SlowShop(shops=shops).transport()).push("w")
    run_for(shops, push, 60)
    shops.want("B-1", wanted("12.00", 5), seller="bolt")
    began_s, calls = clock.monotonic(), Counter(shops.simulator.calls)
    is_done = "SELECT applied = desired FROM listing_state WHERE user_id = 'bolt'"
    while not shops.one(is_done):
        assert clock.monotonic() - began_s < 120, Counter(shops.simulator.calls) - calls
        run_for(shops, push, 1)


def test_culprits_one_after_another_in_a_quiet_shop_delay_another_by_minutes_at_most(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    """Law L16: what one culprit costs in waiting is not added to what the next one costs."""
    culprits = [f"A-{number}" for number in range(4)]
    shops = poisoned_shops(pool, clock, tmp_path, *(ShopPoison(sku=sku) for sku in culprits))
    for sku in [*culprits, "GOOD"]:
        shops.list(sku, shows=wanted("11.00", 5))
    push = shops.push()
    for sku in culprits:
        shops.want(sku, wanted("12.00", 5))
        run_for(shops, push, 20 * 60)
    shops.want("GOOD", wanted("12.00", 5))
    run_for(shops, push, 4 * 60)
    assert late(shops) == set(culprits)
    shops.want(culprits[0], wanted("13.00", 5))
    run_for(shops, push, 60)
    shops.want("GOOD", wanted("13.00", 5))
    run_for(shops, push, 4 * 60)
    assert late(shops) == set(culprits)
