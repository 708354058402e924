"""The simulated Printify: paging, limits, tokens, what happens to orders, and its truth."""

import hashlib
import hmac
import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from headway_lab.simulators.faults import FaultPlan, Interval
from headway_lab.simulators.printify.records import PrintBuyer
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.reply import SimReply
from headway_lab.virtual_clock import VirtualClock


class Desk:
    """One client of a simulated account with two shops."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.clock = clock
        self.printify = PrintifySimulator(clock, **options)
        self.shop = self.printify.add_shop(title="One")
        self.sister = self.printify.add_shop(title="Two")
        self.token = self.printify.personal_token()

    def send(
        self, path: str, *, token: str = "", agent: str = "test", body: bytes = b""
    ) -> SimReply:
        headers = {"Authorization": f"Bearer {token or self.token}", "User-Agent": agent}
        return self.printify.handle("POST" if body else "GET", f"/v1{path}", headers, body)

    def ask(self, path: str) -> Any:
        reply = self.send(path)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    def orders(self, page: int = 1) -> Any:
        return self.ask(f"/shops/{self.shop}/orders.json?page={page}&limit=10")


@pytest.fixture
def operations(clock: VirtualClock) -> Desk:
    return Desk(clock)


def test_orders_come_newest_first_ten_a_page_in_laravels_envelope(operations: Desk) -> None:
    placed = []
    for _ in range(23):
        operations.clock.sleep(60)
        placed.append(operations.printify.place_order(operations.shop))
    pages = [operations.orders(page) for page in (1, 2, 3, 4)]
    assert [row["id"] for page in pages for row in page["data"]] == placed[::-1]
    numbers = [(page["current_page"], page["last_page"], page["total"]) for page in pages]
    assert numbers == [(1, 3, 23), (2, 3, 23), (3, 3, 23), (4, 3, 23)]
    assert [page["next_page_url"] for page in pages] == ["/?page=2", "/?page=3", None, None]
    assert "updated_at" not in pages[0]["data"][0]


@pytest.mark.parametrize(
    ("kind", "limit", "status"),
    (("orders", 10, 200), ("orders", 11, 400), ("products", 50, 200), ("products", 51, 400)),
)
def test_a_page_has_its_largest_size(operations: Desk, kind: str, limit: int, status: int) -> None:
    reply = operations.send(f"/shops/{operations.shop}/{kind}.json?page=1&limit={limit}")
    assert reply.status == status
    if status == 400:
        body = json.loads(reply.body)
        assert (body["status"], body["errors"]["reason"]) == (
            "error",
            f"limit is at most {limit - 1}",
        )


def test_the_601st_call_of_a_minute_is_refused_whatever_the_shop_or_token(operations: Desk) -> None:
    tokens = (operations.token, operations.printify.personal_token())
    shops = (operations.shop, operations.sister)
    for number in range(600):
        path = f"/shops/{shops[number % 2]}/orders.json"
        assert operations.send(path, token=tokens[number % 2]).status == 200
    assert operations.send("/shops.json").status == 429
    other = operations.printify.add_shop(account="other")
    assert (
        operations.send(
            f"/shops/{other}/orders.json", token=operations.printify.personal_token("other")
        ).status
        == 200
    )
    assert operations.send(f"/shops/{other}/orders.json").status == 429
    operations.clock.sleep(61)
    assert operations.send("/shops.json").status == 200
    assert operations.printify.refusals == 2
    assert operations.printify.max_calls_in_window == 602
    assert operations.printify.error_share("owner") == pytest.approx(2 / 603)


def test_a_shop_of_another_account_is_not_found(operations: Desk) -> None:
    other = operations.printify.add_shop(account="other")
    assert operations.send(f"/shops/{other}/orders.json").status == 404
    assert [shop["id"] for shop in operations.ask("/shops.json")] == [
        operations.shop,
        operations.sister,
    ]


def test_a_request_without_a_user_agent_is_refused(operations: Desk) -> None:
    assert operations.send("/shops.json", agent="").status == 400


def test_a_personal_token_lasts_a_year_and_ends_when_it_is_revoked(operations: Desk) -> None:
    operations.clock.sleep(364 * 86_400)
    assert operations.send("/shops.json").status == 200
    operations.clock.sleep(2 * 86_400)
    assert operations.send("/shops.json").status == 401
    operations.token = operations.printify.personal_token()
    assert operations.send("/shops.json").status == 200
    operations.printify.revoke()
    assert operations.send("/shops.json").status == 401


def test_an_apps_token_lasts_six_hours_and_its_pair_rotates(operations: Desk) -> None:
    access, refresh = operations.printify.grant()
    assert operations.send("/shops.json", token=access).status == 200
    operations.clock.sleep(6 * 3600)
    assert operations.send("/shops.json", token=access).status == 401
    form = f"app_id=sim-printify-app&refresh_token={refresh}".encode()
    reply = operations.send("/app/oauth/tokens/refresh", body=form)
    pair = json.loads(reply.body)
    assert operations.send("/shops.json", token=pair["access_token"]).status == 200
    assert pair["expire_at"] == "2026-01-01 12:00:00+00:00"
    assert operations.send("/app/oauth/tokens/refresh", body=form).status == 400


def test_an_order_moves_through_all_statuses_until_it_is_delivered(operations: Desk) -> None:
    operations.printify.add_product(operations.shop)
    order = operations.printify.place_order(operations.shop)
    path = f"/shops/{operations.shop}/orders/{order}.json"
    statuses = [operations.ask(path)["status"]]
    while statuses[-1] != "fulfilled":
        operations.clock.sleep(3600)
        statuses.append(operations.printify.advance(operations.shop, order))
    assert [status for status in statuses if status != "partially-fulfilled"] == [
        "pending",
        "sending-to-production",
        "in-production",
        "fulfilled",
    ]
    shown = operations.ask(path)
    assert {"sent_to_production_at", "fulfilled_at", "shipments"} <= set(shown)
    assert "delivered_at" not in shown["shipments"][0]
    assert operations.printify.shop(operations.shop).open_orders() == [order]
    assert not operations.printify.cancel(operations.shop, order)
    assert operations.printify.deliver(operations.shop, order)
    assert not operations.printify.deliver(operations.shop, order)
    assert "delivered_at" in operations.ask(path)["shipments"][0]
    assert operations.printify.shop(operations.shop).open_orders() == []


def test_an_order_that_waits_can_be_cancelled(operations: Desk) -> None:
    order = operations.printify.place_order(operations.shop)
    assert operations.printify.cancel(operations.shop, order)
    assert operations.printify.advance(operations.shop, order) == "canceled"
    assert operations.orders()["data"][0]["status"] == "canceled"


def test_an_order_from_the_past_is_sorted_by_its_date(operations: Desk) -> None:
    new = operations.printify.place_order(operations.shop)
    old = operations.printify.place_order(
        operations.shop, created_at=operations.clock.now() - timedelta(days=9)
    )
    assert [row["id"] for row in operations.orders()["data"]] == [new, old]


def test_the_expected_rows_are_in_the_warehouses_columns(operations: Desk) -> None:
    product = operations.printify.add_product(operations.shop, title="Tee")
    buyer = PrintBuyer(first_name="Ada", last_name="Ash", email="Ada@Example.com")
    order = operations.printify.place_order(operations.shop, buyer=buyer, shipping=450, tax=31)
    truth = operations.printify.truth(operations.shop)
    [placed] = truth["orders"].values()
    assert (placed["external_id"], placed["shipping"], placed["tax"]) == (
        order,
        Decimal("4.50"),
        Decimal("0.31"),
    )
    lines = truth["line_items"].values()
    assert placed["total"] == sum(line["price"] * line["quantity"] for line in lines)
    digest = hashlib.sha256(b"ada@example.com").hexdigest()[:32]
    assert list(truth["customers"]) == [placed["customer_id"]] == [f"email:{digest}"]
    assert all(key.startswith(f"{product}:") for key in truth["listings"])


def test_products_are_added_changed_and_removed(operations: Desk) -> None:
    product = operations.printify.add_product(operations.shop)
    before = operations.printify.truth(operations.shop)["listings"]
    operations.clock.sleep(60)
    operations.printify.edit_product(operations.shop, product)
    after = operations.printify.truth(operations.shop)["listings"]
    key = f"{product}:17000"
    assert after[key]["price"] == before[key]["price"] + 1
    assert after[key]["modified_at"] > before[key]["modified_at"]
    operations.printify.edit_product(operations.shop, product, visible=False)
    assert operations.printify.truth(operations.shop)["listings"][key]["state"] == "hidden"
    operations.printify.remove_product(operations.shop, product)
    assert operations.printify.truth(operations.shop)["listings"] == {}
    assert operations.ask(f"/shops/{operations.shop}/products.json?limit=50")["total"] == 0


def test_a_webhook_is_signed_over_its_body(operations: Desk) -> None:
    order = operations.printify.place_order(operations.shop)
    headers, body = operations.printify.hook("order:created", operations.shop, order)
    digest = hmac.new(b"sim-hook-secret", body, hashlib.sha256).hexdigest()
    assert headers["X-Pfy-Signature"] == f"sha256={digest}"
    event = json.loads(body)
    assert (event["type"], event["resource"]["id"], event["resource"]["type"]) == (
        "order:created",
        order,
        "order",
    )
    assert event["resource"]["data"]["shop_id"] == operations.shop


def test_faults_change_replies_and_count_as_errors(clock: VirtualClock) -> None:
    faults = FaultPlan(outage=[Interval(start_s=0, end_s=10)])
    operations = Desk(clock, faults=faults)
    replies = {
        (reply := operations.send("/shops.json")).outcome + str(reply.status) for _ in range(3)
    }
    assert replies == {"refuse200", "answer503", "hang200"}
    assert operations.printify.error_share("owner") == 0.5
    clock.sleep(11)
    assert operations.send("/shops.json").status == 200
    assert sum(faults.injected.values()) == 3


@pytest.mark.parametrize("kind", ("error", "timeout", "slow", "truncate", "html", "drop"))
def test_each_kind_of_fault_happens(clock: VirtualClock, kind: str) -> None:
    operations = Desk(clock, faults=FaultPlan(rates={kind: 1.0}))
    reply = operations.send("/shops.json")
    clean = Desk(VirtualClock(clock.now())).send("/shops.json")
    assert reply != clean
    assert operations.printify.faults.injected == {kind: 1}


def test_the_same_seed_gives_the_same_world(clock: VirtualClock) -> None:
    def world(seed: int) -> Any:
        operations = Desk(clock, seed=seed)
        for _ in range(5):
            operations.printify.place_order(operations.shop)
        return operations.printify.truth(operations.shop)

    assert world(1) == world(1)
    assert world(1) != world(2)
