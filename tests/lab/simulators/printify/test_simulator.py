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


class PrintifyClient:
    """One client of a simulated account with two shops."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.clock = clock
        self.printify = PrintifySimulator(clock, **options)
        self.shop = self.printify.add_shop(title="One")
        self.second_shop = self.printify.add_shop(title="Two")
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
def client(clock: VirtualClock) -> PrintifyClient:
    return PrintifyClient(clock)


def test_orders_come_newest_first_ten_a_page_in_laravels_envelope(client: PrintifyClient) -> None:
    placed = []
    for _ in range(23):
        client.clock.sleep(60)
        placed.append(client.printify.place_order(client.shop))
    pages = [client.orders(page) for page in (1, 2, 3, 4)]
    assert [row["id"] for page in pages for row in page["data"]] == placed[::-1]
    numbers = [(page["current_page"], page["last_page"], page["total"]) for page in pages]
    assert numbers == [(1, 3, 23), (2, 3, 23), (3, 3, 23), (4, 3, 23)]
    assert [page["next_page_url"] for page in pages] == ["/?page=2", "/?page=3", None, None]
    assert "updated_at" not in pages[0]["data"][0]


@pytest.mark.parametrize(
    ("kind", "limit", "status"),
    (("orders", 10, 200), ("orders", 11, 400), ("products", 50, 200), ("products", 51, 400)),
)
def test_a_page_has_its_largest_size(
    client: PrintifyClient, kind: str, limit: int, status: int
) -> None:
    reply = client.send(f"/shops/{client.shop}/{kind}.json?page=1&limit={limit}")
    assert reply.status == status
    if status == 400:
        body = json.loads(reply.body)
        assert (body["status"], body["errors"]["reason"]) == (
            "error",
            f"limit is at most {limit - 1}",
        )


def test_the_601st_call_of_a_minute_is_refused_whatever_the_shop_or_token(
    client: PrintifyClient,
) -> None:
    tokens = (client.token, client.printify.personal_token())
    shops = (client.shop, client.second_shop)
    for number in range(600):
        path = f"/shops/{shops[number % 2]}/orders.json"
        assert client.send(path, token=tokens[number % 2]).status == 200
    assert client.send("/shops.json").status == 429
    other = client.printify.add_shop(account="other")
    assert (
        client.send(
            f"/shops/{other}/orders.json", token=client.printify.personal_token("other")
        ).status
        == 200
    )
    assert client.send(f"/shops/{other}/orders.json").status == 429
    client.clock.sleep(61)
    assert client.send("/shops.json").status == 200
    assert client.printify.refusals == 2
    assert client.printify.max_calls_in_window == 602
    assert client.printify.error_share("owner") == pytest.approx(2 / 603)


def test_a_shop_of_another_account_is_not_found(client: PrintifyClient) -> None:
    other = client.printify.add_shop(account="other")
    assert client.send(f"/shops/{other}/orders.json").status == 404
    assert [shop["id"] for shop in client.ask("/shops.json")] == [
        client.shop,
        client.second_shop,
    ]


def test_a_request_without_a_user_agent_is_refused(client: PrintifyClient) -> None:
    assert client.send("/shops.json", agent="").status == 400


def test_a_personal_token_lasts_a_year_and_ends_when_it_is_revoked(client: PrintifyClient) -> None:
    client.clock.sleep(364 * 86_400)
    assert client.send("/shops.json").status == 200
    client.clock.sleep(2 * 86_400)
    assert client.send("/shops.json").status == 401
    client.token = client.printify.personal_token()
    assert client.send("/shops.json").status == 200
    client.printify.revoke()
    assert client.send("/shops.json").status == 401


def test_an_apps_token_lasts_six_hours_and_its_pair_rotates(client: PrintifyClient) -> None:
    access, refresh = client.printify.grant()
    assert client.send("/shops.json", token=access).status == 200
    client.clock.sleep(6 * 3600)
    assert client.send("/shops.json", token=access).status == 401
    form = f"app_id=sim-printify-app&refresh_token={refresh}".encode()
    reply = client.send("/app/oauth/tokens/refresh", body=form)
    pair = json.loads(reply.body)
    assert client.send("/shops.json", token=pair["access_token"]).status == 200
    assert pair["expire_at"] == "2026-01-01 12:00:00+00:00"
    assert client.send("/app/oauth/tokens/refresh", body=form).status == 400


def test_an_order_moves_through_all_statuses_until_it_is_delivered(client: PrintifyClient) -> None:
    client.printify.add_product(client.shop)
    order = client.printify.place_order(client.shop)
    path = f"/shops/{client.shop}/orders/{order}.json"
    statuses = [client.ask(path)["status"]]
    while statuses[-1] != "fulfilled":
        client.clock.sleep(3600)
        statuses.append(client.printify.advance(client.shop, order))
    assert [status for status in statuses if status != "partially-fulfilled"] == [
        "pending",
        "sending-to-production",
        "in-production",
        "fulfilled",
    ]
    shown = client.ask(path)
    assert {"sent_to_production_at", "fulfilled_at", "shipments"} <= set(shown)
    assert "delivered_at" not in shown["shipments"][0]
    assert client.printify.shop(client.shop).open_orders() == [order]
    assert not client.printify.cancel(client.shop, order)
    assert client.printify.deliver(client.shop, order)
    assert not client.printify.deliver(client.shop, order)
    assert "delivered_at" in client.ask(path)["shipments"][0]
    assert client.printify.shop(client.shop).open_orders() == []


def test_an_order_that_waits_can_be_cancelled(client: PrintifyClient) -> None:
    order = client.printify.place_order(client.shop)
    assert client.printify.cancel(client.shop, order)
    assert client.printify.advance(client.shop, order) == "canceled"
    assert client.orders()["data"][0]["status"] == "canceled"


def test_an_order_from_the_past_is_sorted_by_its_date(client: PrintifyClient) -> None:
    new = client.printify.place_order(client.shop)
    old = client.printify.place_order(
        client.shop, created_at=client.clock.now() - timedelta(days=9)
    )
    assert [row["id"] for row in client.orders()["data"]] == [new, old]


def test_the_expected_rows_are_in_the_warehouses_columns(client: PrintifyClient) -> None:
    product = client.printify.add_product(client.shop, title="Tee")
    buyer = PrintBuyer(first_name="Ada", last_name="Ash", email="Ada@Example.com")
    order = client.printify.place_order(client.shop, buyer=buyer, shipping=450, tax=31)
    truth = client.printify.truth(client.shop)
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


def test_products_are_added_changed_and_removed(client: PrintifyClient) -> None:
    product = client.printify.add_product(client.shop)
    before = client.printify.truth(client.shop)["listings"]
    client.clock.sleep(60)
    client.printify.edit_product(client.shop, product)
    after = client.printify.truth(client.shop)["listings"]
    key = f"{product}:17000"
    assert after[key]["price"] == before[key]["price"] + 1
    assert after[key]["modified_at"] > before[key]["modified_at"]
    client.printify.edit_product(client.shop, product, visible=False)
    assert client.printify.truth(client.shop)["listings"][key]["state"] == "hidden"
    client.printify.remove_product(client.shop, product)
    assert client.printify.truth(client.shop)["listings"] == {}
    assert client.ask(f"/shops/{client.shop}/products.json?limit=50")["total"] == 0


def test_a_webhook_is_signed_over_its_body(client: PrintifyClient) -> None:
    order = client.printify.place_order(client.shop)
    headers, body = client.printify.hook("order:created", client.shop, order)
    digest = hmac.new(b"sim-hook-secret", body, hashlib.sha256).hexdigest()
    assert headers["X-Pfy-Signature"] == f"sha256={digest}"
    event = json.loads(body)
    assert (event["type"], event["resource"]["id"], event["resource"]["type"]) == (
        "order:created",
        order,
        "order",
    )
    assert event["resource"]["data"]["shop_id"] == client.shop


def test_faults_change_replies_and_count_as_errors(clock: VirtualClock) -> None:
    faults = FaultPlan(outage=[Interval(start_s=0, end_s=10)])
    client = PrintifyClient(clock, faults=faults)
    replies = {(reply := client.send("/shops.json")).outcome + str(reply.status) for _ in range(3)}
    assert replies == {"refuse200", "answer503", "hang200"}
    assert client.printify.error_share("owner") == 0.5
    clock.sleep(11)
    assert client.send("/shops.json").status == 200
    assert sum(faults.injected.values()) == 3


@pytest.mark.parametrize("kind", ("error", "timeout", "slow", "truncate", "html", "drop"))
def test_each_kind_of_fault_happens(clock: VirtualClock, kind: str) -> None:
    client = PrintifyClient(clock, faults=FaultPlan(rates={kind: 1.0}))
    reply = client.send("/shops.json")
    clean = PrintifyClient(VirtualClock(clock.now())).send("/shops.json")
    assert reply != clean
    assert client.printify.faults.injected == {kind: 1}


def test_the_same_seed_gives_the_same_world(clock: VirtualClock) -> None:
    def world(seed: int) -> Any:
        client = PrintifyClient(clock, seed=seed)
        for _ in range(5):
            client.printify.place_order(client.shop)
        return client.printify.truth(client.shop)

    assert world(1) == world(1)
    assert world(1) != world(2)
