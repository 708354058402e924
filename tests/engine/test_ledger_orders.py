"""Entries of Etsy's ledger name payments and lines; the warehouse finds their orders."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.narrowing_setup import Shop, make_shop

from headway_lab.platforms import ETSY
from headway_lab.simulators.reply import SimReply


def fill(pool: ConnectionPool, orders: int = 30) -> Shop:
    shop = make_shop(pool, ETSY)
    for number in range(orders):
        receipt = shop.simulator.place_order(shop.number)
        shop.pulls.rows.clock.sleep(1)
        if number % 10 == 0:
            shop.simulator.refund(shop.number, receipt, amount=100)
    shop.simulator.pay_out(shop.number)
    shop.pulls.rows.clock.sleep(3600)
    return shop


def stored(shop: Shop) -> dict[str, Any]:
    rows = shop.pulls.rows.ask(
        "SELECT external_id, order_id, reference_type, reference_id, is_transfer FROM payments"
    )
    return {row[0]: row[1:] for row in rows}


def true(shop: Shop) -> dict[str, Any]:
    names = ("order_id", "reference_type", "reference_id", "is_transfer")
    rows = shop.simulator.truth(shop.number)["payments"]
    return {key: tuple(row[name] for name in names) for key, row in rows.items()}


@pytest.mark.parametrize("kinds", (("orders", "payments"), ("payments", "orders")))
def test_entries_find_their_orders_whichever_come_first(
    pool: ConnectionPool, kinds: tuple[str, ...]
) -> None:
    shop = fill(pool)
    for kind in kinds:
        shop.add_job(kind)
        shop.run(hours=0.1)
    assert stored(shop) == true(shop)
    assert shop.simulator.log.endpoints["payments"] == 1, "one call for all of them"
    shop.run(hours=7)
    assert stored(shop) == true(shop), "reading an entry again forgets nothing"


def test_sums_of_payments_leave_payouts_out(pool: ConnectionPool) -> None:
    shop = fill(pool)
    shop.add_job("payments")
    shop.run(hours=0.1)
    payouts, others = shop.pulls.rows.one(
        "SELECT sum(amount) FILTER (WHERE is_transfer), sum(amount) FILTER (WHERE NOT is_transfer)"
        " FROM payments"
    )
    assert payouts == -others != 0


@pytest.mark.parametrize("status", (400, 404, 500))
def test_payments_that_cannot_be_read_do_not_stop_the_ledger(
    pool: ConnectionPool, status: int
) -> None:
    shop = fill(pool)
    answer = shop.server.handle

    def handle(method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        reply = answer(method, path, headers, body)
        is_hit = "/payments?" in path
        return replace(reply, status=status, body=b'{"error": "Oops"}') if is_hit else reply

    shop.server.handle = handle
    job_id = shop.add_job("payments")
    shop.run(hours=1)
    assert set(stored(shop)) == set(true(shop))
    assert shop.job(job_id, "completed_at") is not None
    assert shop.unreadable() == []


def fail_payments(shop: Shop, is_hit: Callable[[str], bool], status: int = 500) -> list[str]:
    """Let requests for payments fail that meet a condition; return the paths that did."""
    answer, failed = shop.server.handle, list[str]()

    def handle(method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        reply = answer(method, path, headers, body)
        if "/payments?" not in path or not is_hit(path):
            return reply
        failed.append(path)
        return replace(reply, status=status, body=b'{"error": "Oops"}')

    shop.server.handle = handle
    return failed


def without_order(shop: Shop) -> set[str]:
    """Return the payments whose entries lack their order; those of lines come with the orders."""
    known, found = true(shop), stored(shop)
    lost = {key for key in known if found[key] != known[key]}
    return {known[key][2] for key in lost if known[key][1] == "shop_payment"}


@pytest.mark.parametrize("status", (400, 403, 404, 500))
def test_a_payment_that_fails_costs_no_other_payment_its_order(
    pool: ConnectionPool, status: int
) -> None:
    shop = fill(pool, orders=130)
    bad = sorted(
        reference_id
        for order_id, kind, reference_id, _ in true(shop).values()
        if kind == "shop_payment" and order_id
    )[60]
    failed = fail_payments(shop, lambda path: bad in path, status)
    shop.add_job("payments")
    shop.run(hours=0.2)
    assert without_order(shop) == {bad}
    assert len(failed) <= 8, "the batch is halved, not asked for one by one"
    failed.clear()
    shop.run(hours=24)
    if status != 404:  # there it means "no such payment"
        assert 3 <= len(failed) <= 14, "it is tried again, ever more seldom"


def test_an_outage_of_payments_costs_no_order_and_convicts_nobody(pool: ConnectionPool) -> None:
    shop = fill(pool, orders=130)
    clock = shop.pulls.rows.clock
    ends_at = clock.now() + timedelta(hours=5)
    fail_payments(shop, lambda _path: clock.now() < ends_at)
    job_id = shop.add_job("payments")
    shop.run(hours=4.5)
    assert shop.job(job_id, "status") != "dead"
    shop.run(hours=12)
    assert without_order(shop) == set()
    assert shop.unreadable() == []
    assert shop.job(job_id, "cursor -> 'aside'") is None
