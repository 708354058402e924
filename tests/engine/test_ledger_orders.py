"""Entries of Etsy's ledger name payments and lines; the warehouse finds their orders."""

from collections.abc import Mapping
from dataclasses import replace
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
