"""A simulated shop's orders, customers and products, read through real documents."""

import base64
import hmac
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import pytest

from headway_lab.simulators.shopify.execute import by_library
from headway_lab.simulators.shopify.schema import Operation, read_document
from headway_lab.simulators.shopify.shop import SCOPES, ShopSetup

ORDERS = """
query ($first: Int!, $after: String, $query: String, $key: OrderSortKeys!) {
  orders(first: $first, after: $after, query: $query, sortKey: $key) {
    nodes {
      ...Seen
      lineItems(first: 2) { nodes { sku quantity variant { id } } pageInfo { hasNextPage } }
      fulfillments(first: 2) { status trackingInfo { company number } }
      refunds(first: 2) { note totalRefundedSet { shopMoney { amount } } }
      transactions(first: 3) { kind status amountSet { shopMoney { amount currencyCode } } }
    }
    pageInfo { hasNextPage endCursor }
  }
}
fragment Seen on Order {
  __typename id name updatedAt displayFinancialStatus displayFulfillmentStatus cancelledAt
  total: totalPriceSet { shopMoney { amount } }
  customer { id displayName }
}
"""
CUSTOMERS = """
query ($first: Int!, $query: String, $key: CustomerSortKeys!) {
  customers(first: $first, query: $query, sortKey: $key) {
    nodes { id displayName defaultEmailAddress { emailAddress } } pageInfo { hasNextPage }
  }
}
"""
PRODUCTS = """
query ($first: Int!, $query: String) {
  products(first: $first, query: $query, sortKey: UPDATED_AT) {
    nodes { title updatedAt variants(first: 5) { nodes { sku title inventoryQuantity } } }
  }
}
"""
VARIANTS = """
query ($query: String) { productVariants(first: 2, query: $query, sortKey: ID) { nodes { sku } } }
"""


def orders(shop: Any, *, key: str = "UPDATED_AT", first: int = 10, **variables: Any) -> Any:
    return shop.do(ORDERS, first=first, key=key, **variables)


def names(page: Any) -> list[str]:
    return [node["name"] for node in page["nodes"]]


def place(shop: Any, *skus: str, **details: Any) -> str:
    shop.clock.sleep(60)
    return shop.simulator.place_order(shop.domain, [(sku, 2) for sku in skus or ("A",)], **details)


def test_orders_come_by_their_last_change_the_oldest_first(shop: Any) -> None:
    first, _, _ = (place(shop) for _ in range(3))
    shop.clock.sleep(60)
    shop.simulator.edit_order(shop.domain, first)
    shop.clock.sleep(60)
    assert names(orders(shop)) == ["#1002", "#1003", "#1001"]
    assert names(orders(shop, key="CREATED_AT")) == ["#1001", "#1002", "#1003"]


def test_a_cursor_holds_its_place_while_rows_move(shop: Any) -> None:
    ids = [place(shop) for _ in range(4)]
    shop.clock.sleep(60)
    page = orders(shop, first=2)
    assert names(page) == ["#1001", "#1002"]
    assert page["pageInfo"]["hasNextPage"]
    shop.simulator.edit_order(shop.domain, ids[1])
    shop.clock.sleep(60)
    rest = orders(shop, after=page["pageInfo"]["endCursor"])
    assert names(rest) == ["#1003", "#1004", "#1002"]
    answer = shop.ask(ORDERS, first=2, key="UPDATED_AT", after="nonsense")
    assert "Invalid cursor" in answer["errors"][0]["message"]


def test_a_list_shows_a_change_a_little_late(open_shop: Any) -> None:
    shop = open_shop(index_lag_s=30)
    place(shop)
    assert names(orders(shop)) == []
    shop.clock.sleep(31)
    assert names(orders(shop)) == ["#1001"]


def test_a_filter_takes_times_with_every_sign(shop: Any) -> None:
    for _ in range(3):
        place(shop)
    shop.clock.sleep(60)
    second = orders(shop)["nodes"][1]["updatedAt"]
    matches = {
        sign: names(orders(shop, query=f"updated_at:{sign}'{second}'"))
        for sign in (">=", ">", "<=", "<", "")
    }
    assert matches == {
        ">=": ["#1002", "#1003"],
        ">": ["#1003"],
        "<=": ["#1001", "#1002"],
        "<": ["#1001"],
        "": ["#1002"],
    }
    window = f"created_at:>='{second}' AND created_at:<='{second}'"
    assert names(orders(shop, query=window, key="CREATED_AT")) == ["#1002"]


def test_a_filter_that_is_unknown_is_ignored_with_a_warning(shop: Any) -> None:
    place(shop)
    shop.clock.sleep(60)
    answer = shop.ask(ORDERS, first=1, key="UPDATED_AT", query="color:red")
    assert names(answer["data"]["orders"]) == ["#1001"]
    [search] = answer["extensions"]["search"]
    assert (search["path"], search["query"]) == (["orders"], "color:red")
    assert [warning["field"] for warning in search["warnings"]] == ["color"]


def test_old_orders_are_shown_only_with_the_scope(open_shop: Any) -> None:
    for scopes, expected in (
        (SCOPES, ["#1002"]),
        ((*SCOPES, "read_all_orders"), ["#1001", "#1002"]),
    ):
        shop = open_shop(shops=[ShopSetup(domain="acme.myshopify.com", scopes=scopes)])
        old = place(shop, at=shop.clock.now() - timedelta(days=61))
        place(shop)
        shop.clock.sleep(60)
        assert names(orders(shop, key="CREATED_AT")) == expected
        assert names(orders(shop)) == expected
        node = shop.do(
            "query ($id: ID!) { order(id: $id) { id } }", id=f"gid://shopify/Order/{old}"
        )
        assert (node is not None) == (len(expected) == 2)
        handles = shop.do("{ currentAppInstallation { accessScopes { handle } } }")
        assert [handle["handle"] for handle in handles["accessScopes"]] == list(scopes)


def test_what_happens_to_an_order_is_shown(shop: Any) -> None:
    buyer = shop.simulator.add_customer(shop.domain, "Ada", email="ada@example.com")
    ids = shop.seed("A", price=Decimal("3.50"))
    own = place(shop, "A", "gone", "more", customer=buyer)
    shop.simulator.fulfil(shop.domain, own, trackings=("1", "2"))
    shop.simulator.refund(shop.domain, own, Decimal("5.00"), "broken")
    shop.clock.sleep(60)
    [order] = orders(shop)["nodes"]
    assert order["__typename"] == "Order"
    assert order["total"]["shopMoney"]["amount"] == "51.9"
    assert order["customer"]["displayName"] == "Ada"
    assert order["displayFinancialStatus"] == "PARTIALLY_REFUNDED"
    assert order["displayFulfillmentStatus"] == "FULFILLED"
    assert order["lineItems"]["nodes"][0]["variant"] == {"id": ids.variant}
    assert order["lineItems"]["nodes"][1]["variant"] is None
    assert order["lineItems"]["pageInfo"]["hasNextPage"]
    assert [tracking["number"] for tracking in order["fulfillments"][0]["trackingInfo"]] == [
        "1",
        "2",
    ]
    assert order["refunds"][0]["note"] == "broken"
    assert [transaction["kind"] for transaction in order["transactions"]] == ["SALE", "REFUND"]
    shop.simulator.cancel(shop.domain, own)
    shop.clock.sleep(60)
    [order] = orders(shop)["nodes"]
    assert order["displayFinancialStatus"] == "REFUNDED"
    assert order["cancelledAt"] is not None


def test_an_authorized_payment_is_captured_or_voided(shop: Any) -> None:
    taken, let_go, awaited = (
        place(shop, payment=payment) for payment in ("AUTHORIZATION",) * 2 + ("",)
    )
    shop.simulator.pay(shop.domain, taken)
    shop.simulator.cancel(shop.domain, let_go)
    shop.clock.sleep(60)
    statuses = {order["name"]: order["displayFinancialStatus"] for order in orders(shop)["nodes"]}
    assert statuses == {"#1001": "PAID", "#1002": "VOIDED", "#1003": "PENDING"}
    sums: dict[str, Decimal] = {}
    for row in shop.simulator.truth(shop.domain)["payments"].values():
        sums[row["order_id"]] = sums.get(row["order_id"], Decimal(0)) + row["amount"]
    assert sums == {taken: Decimal("24.90"), let_go: Decimal(0)}
    assert awaited not in sums


def test_customers_are_filtered_by_whole_days(shop: Any) -> None:
    for name in ("Ada", "Bob"):
        shop.simulator.add_customer(shop.domain, name)
        shop.clock.sleep(86_400)
    start = (shop.clock.now() - timedelta(days=2)).replace(hour=0, minute=0, second=0)
    noon = start + timedelta(hours=23)

    def order_names(query: str, key: str = "UPDATED_AT") -> list[str]:
        page = shop.do(CUSTOMERS, first=5, query=query, key=key)
        return [node["displayName"] for node in page["nodes"]]

    assert order_names(f"updated_at:>='{noon.isoformat()}'") == ["Ada", "Bob"]
    assert order_names(f"updated_at:>='{(start + timedelta(days=1)).isoformat()}'") == ["Bob"]
    assert order_names("id:>0", "ID") == ["Ada", "Bob"]
    [first, _] = shop.do(CUSTOMERS, first=5, key="ID")["nodes"]
    own = first["id"].rpartition("/")[2]
    assert order_names(f"id:>{own}", "ID") == ["Bob"]


def test_an_order_moves_its_customer(shop: Any) -> None:
    ada = shop.simulator.add_customer(shop.domain, "Ada")
    shop.simulator.add_customer(shop.domain, "Bob")
    place(shop, customer=ada)
    shop.clock.sleep(60)
    page = shop.do(CUSTOMERS, first=5, key="UPDATED_AT")
    assert [node["displayName"] for node in page["nodes"]] == ["Bob", "Ada"]


def test_products_come_by_change_and_stock_counts_as_one(shop: Any) -> None:
    for sku in ("A", "B"):
        shop.seed(sku)
        shop.clock.sleep(60)
    shop.simulator.sell(shop.domain, "A", "Dallas", 2)
    shop.clock.sleep(60)
    nodes = shop.do(PRODUCTS, first=5)["nodes"]
    assert [node["title"] for node in nodes] == ["B", "A"]
    assert nodes[1]["variants"]["nodes"][0]["inventoryQuantity"] == 5
    query = f"updated_at:>='{nodes[1]['updatedAt']}'"
    assert [node["title"] for node in shop.do(PRODUCTS, first=5, query=query)["nodes"]] == ["A"]
    shop.simulator.remove_product(shop.domain, "A")
    assert len(shop.do(PRODUCTS, first=5)["nodes"]) == 1


def test_variants_can_be_paged_by_id(shop: Any) -> None:
    ids = [shop.seed(sku) for sku in ("A", "B", "C")]
    own = ids[0].variant.rpartition("/")[2]
    nodes = shop.do(VARIANTS, query=f"id:>{own}")["nodes"]
    assert [node["sku"] for node in nodes] == ["B", "C"]


def test_access_without_a_scope_is_denied_and_the_scope_is_named(open_shop: Any) -> None:
    scopes = [scope for scope in SCOPES if scope != "read_customers"]
    shop = open_shop(shops=[ShopSetup(domain="acme.myshopify.com", scopes=scopes)])
    answer = shop.ask(CUSTOMERS, first=1, key="ID")
    assert answer["errors"][0]["extensions"] == {
        "code": "ACCESS_DENIED",
        "requiredAccess": "`read_customers` access scope.",
    }
    place(shop)
    shop.clock.sleep(60)
    assert names(orders(shop)) == ["#1001"]


def test_what_a_page_may_cost_and_what_it_did(shop: Any) -> None:
    place(shop)
    shop.clock.sleep(60)
    cost = shop.ask(ORDERS, first=10, key="UPDATED_AT")["extensions"]["cost"]
    # Customer, positions with their variants, shipments with trackings, refunds, transactions.
    an_order = 1 + 1 + (2 + 1 * 2) + 2 + 1 + 1
    assert cost["requestedQueryCost"] == 2 + 4 * an_order
    # The order, one position without a variant, one transaction; amounts are free.
    assert cost["actualQueryCost"] == 2 + (1 + (2 + 1) + 1)


@pytest.mark.parametrize(
    ("text", "variables"),
    (
        (ORDERS, {"first": 2, "key": "UPDATED_AT"}),
        (ORDERS, {"first": 2, "key": "CREATED_AT", "query": "created_at:>='2020-01-01'"}),
        (CUSTOMERS, {"first": 2, "key": "ID"}),
        (PRODUCTS, {"first": 2}),
        ("{ a: shop { id ... on Node { __typename id } } b: shop { name } }", {}),
        ('{ nodes(ids: ["gid://shopify/Order/1"]) { id } shop { name @skip(if: true) } }', {}),
    ),
)
def test_the_fast_executor_answers_and_counts_as_the_library_does(
    shop: Any, text: str, variables: dict[str, Any]
) -> None:
    shop.seed("A")
    buyer = shop.simulator.add_customer(shop.domain, "Ada")
    for _ in range(3):
        own = place(shop, "A", "B", "C", customer=buyer)
        shop.simulator.fulfil(shop.domain, own)
        shop.simulator.refund(shop.domain, own)
    shop.clock.sleep(60)
    answer = shop.ask(text, **variables)
    operation = read_document(text)
    assert isinstance(operation, Operation)
    shop_request = shop.simulator._shop_request(shop.simulator._branches[shop.domain], "", 0, 0)
    assert by_library(operation, variables, shop_request)["data"] == answer["data"]
    cost = answer["extensions"]["cost"]
    assert min(shop_request.points, cost["requestedQueryCost"]) == cost["actualQueryCost"]


def test_a_webhook_is_signed_over_its_body(shop: Any) -> None:
    sent = shop.simulator.hook("orders/updated", "17", shop=shop.domain)
    digest = hmac.digest(b"sim-app-secret", sent.body, sha256)
    assert sent.headers["X-Shopify-Hmac-SHA256"] == base64.b64encode(digest).decode()
    assert sent.headers["X-Shopify-Topic"] == "orders/updated"
    assert sent.headers["X-Shopify-Shop-Domain"] == shop.domain
    assert json.loads(sent.body) == {"id": 17}
    again = shop.simulator.hook("refunds/create", "17", shop=shop.domain)
    assert json.loads(again.body) == {"order_id": 17}
    assert again.headers["X-Shopify-Webhook-Id"] != sent.headers["X-Shopify-Webhook-Id"]


@pytest.mark.parametrize("expiring", ("0", "1"))
def test_a_code_from_the_consent_page_is_good_for_one_token(shop: Any, expiring: str) -> None:
    back = shop.simulator.consent(shop.domain, "some state")
    form = {
        "client_id": "sim-app",
        "client_secret": "sim-app-secret",
        "code": back["code"],
        "expiring": expiring,
    }

    def ask() -> tuple[int, Any]:
        path = f"/{shop.domain}/admin/oauth/access_token"
        kind = "application/x-www-form-urlencoded"
        headers = {"Content-Type": kind, "Accept": "application/json"}
        reply = shop.simulator.handle("POST", path, headers, urlencode(form).encode())
        return reply.status, json.loads(reply.body)

    status, body = ask()
    assert status == 200
    assert ("refresh_token" in body) == (expiring == "1")
    assert "read_orders" in body["scope"]
    shop.clock.sleep(7200)
    sent = shop.send("{ shop { name } }", {}, **{"X-Shopify-Access-Token": body["access_token"]})
    assert sent.status == (401 if expiring == "1" else 200)
    assert ask()[0] == 400


def test_the_expected_rows_use_the_columns_of_the_tables(shop: Any) -> None:
    shop.seed("A", price=Decimal("3.50"))
    own = place(shop, "A")
    shop.simulator.fulfil(shop.domain, own)
    tables = shop.simulator.truth(shop.domain)
    assert set(tables) == {
        "orders",
        "line_items",
        "shipments",
        "refunds",
        "payments",
        "listings",
        "customers",
    }
    order = tables["orders"][own]
    assert (order["number"], order["status"], order["total"]) == (
        "#1001",
        "closed",
        Decimal("11.90"),
    )
    [((holder, _), line)] = tables["line_items"].items()
    assert (holder, line["sku"], line["listing_id"] in tables["listings"]) == (own, "A", True)
    late = datetime(2100, 1, 1, tzinfo=UTC)
    assert shop.simulator.truth(shop.domain, since=late)["orders"] == {}
