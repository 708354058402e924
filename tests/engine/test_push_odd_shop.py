"""A shop that answers oddly, reads or writes: it backs off, others go on, and it resumes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.bulk_setup import Wire, rebuilt
from tests.engine.shop_setup import Shops, make_shops, wanted
from tests.engine.test_push_poison import HOUR_S, late, run_for

from headway_lab.simulators.edge import html_page
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.virtual_clock import VirtualClock

ODD, OTHER, NEW = "acme", "bolt", "renamed.myshopify.com"
ANSWERS = {
    "page 200": html_page(200),
    "page 401": html_page(401),
    "page 403": html_page(403),
    "page 404": html_page(404),
    "page 500": html_page(500),
    "frozen": json_reply({"errors": "Unavailable Shop"}, status=402),
    "locked": json_reply({"errors": "Unavailable Shop"}, status=423),
    "too fast": html_page(430),
    "moved to a foreign host": SimReply(status=301, headers={"Location": "https://evil.example/"}),
    "moved to itself": SimReply(
        status=301, headers={"Location": f"https://{ODD}.myshopify.com/admin"}
    ),
    "moved to another shop": SimReply(
        status=301, headers={"Location": f"https://{OTHER}.myshopify.com/admin"}
    ),
    "moved nowhere": SimReply(status=301, headers={"Location": "https://none.myshopify.com/"}),
}
WRITES = ("inventorySetQuantities", "productVariantsBulkUpdate", "productUpdate")
WITNESS = """
INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, score, status, next_run_at,
  completed_at)
SELECT id, user_id, platform, 'orders', 'incremental', 30, 'completed', 'infinity', %s
FROM connected_accounts WHERE user_id = %s
"""


@dataclass
class OddShop(Wire):
    """A way to shops of which one answers in the same odd way, to reads or to writes."""

    answer: SimReply | None = None
    spoils_writes: bool = False
    paths: list[str] = field(default_factory=list)
    odd_calls: int = 0

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        self.paths.append(path)
        is_write = any(name in json.loads(body)["query"] for name in WRITES)
        if self.answer is None or ODD not in path or is_write is not self.spoils_writes:
            return super().handle(method, path, headers, body)
        self.odd_calls += 1
        return self.answer


def make_wire(
    pool: ConnectionPool, clock: VirtualClock, folder: Path, answer: SimReply | None, verb: str
) -> OddShop:
    """Give two shops changes that need a read and writes, and one of them odd answers."""
    shops = make_shops(pool, clock, folder, sellers=(ODD, OTHER))
    for seller in (ODD, OTHER):
        for number in range(6):
            shops.list(f"{seller}-{number}", seller=seller)
            shops.want(f"{seller}-{number}", wanted("12.00", 4), seller=seller)
    shops.ask("UPDATE listing_state SET applied = NULL WHERE sku LIKE '%%-0'")
    # Shopify answers somebody else: a refusal of the odd shop could end its connection.
    shops.ask(WITNESS, clock.now() + timedelta(days=1), OTHER)
    return OddShop(shops=shops, answer=answer, spoils_writes=verb == "writes")


def change_all(shops: Shops, price: str) -> None:
    for seller, sku in shops.ask("SELECT user_id, sku FROM listing_state"):
        shops.want(sku, wanted(price, 4), seller=seller)


@pytest.mark.parametrize("verb", ("reads", "writes"))
@pytest.mark.parametrize("name", ANSWERS)
def test_a_shop_that_answers_oddly_delays_no_other_and_resumes_by_itself(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, name: str, verb: str
) -> None:
    wire = make_wire(pool, clock, tmp_path, ANSWERS[name], verb)
    shops = wire.shops
    push = rebuilt(shops, wire.transport()).push("w")
    run_for(shops, push, 60)
    assert not any(sku.startswith(OTHER) for sku in late(shops))
    run_for(shops, push, HOUR_S, idle_s=60)
    change_all(shops, "13.00")
    run_for(shops, push, 60)
    assert not any(sku.startswith(OTHER) for sku in late(shops))
    assert 0 < wire.odd_calls < 40, "it backs off"
    assert not any("evil.example" in path for path in wire.paths)
    assert shops.ask("SELECT DISTINCT status FROM connected_accounts") == [("connected",)]
    assert shops.one("SELECT max(push_failures) FROM listing_state") == 0, "no listing is charged"
    wire.answer = None
    run_for(shops, push, HOUR_S, idle_s=60)
    assert late(shops) == set()
    assert shops.shown(f"{ODD}-1", ODD).price == Decimal("13.00")
    assert shops.simulator.double_writes() == []
    assert shops.one("SELECT count(*) FROM push_intent WHERE state = 'open'") == 0
    assert shops.one("SELECT count(*) FROM breaker WHERE failures > 0") == 0
    assert shops.ask("SELECT DISTINCT wait_reason FROM connected_accounts") == [("",)]


@pytest.mark.parametrize("is_begun", (False, True))
def test_a_shop_that_was_renamed_is_written_to_at_its_new_address(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, *, is_begun: bool
) -> None:
    wire = make_wire(pool, clock, tmp_path, None, "writes")
    shops = wire.shops
    push = rebuilt(shops, wire.transport()).push("w")
    if is_begun:
        run_for(shops, push, 60)
        change_all(shops, "13.00")
    shops.simulator.rename(f"{ODD}.myshopify.com", NEW)
    run_for(shops, push, 120)
    assert late(shops) == set()
    price = shops.simulator.shown(NEW, f"{ODD}-1")
    assert price is not None
    assert price.price == Decimal("13.00" if is_begun else "12.00")
    accounts = "SELECT shop, status, refusals FROM connected_accounts WHERE user_id = %s"
    assert shops.ask(accounts, ODD) == [(NEW, "connected", 0)]
    assert shops.simulator.double_writes() == []
    assert shops.one("SELECT count(*) FROM breaker WHERE failures > 0") == 0
