"""The simulated Shopify's endpoints: tokens, versions, cost, refusals, faults, and real HTTP."""

import json
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from headway.clock import SystemClock
from headway.errors import ConfigError
from headway_lab.simulators.faults import Interval
from headway_lab.simulators.shopify.faults import ShopFault, ShopFaultPlan
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

SHOP = "{ shop { name currencyCode } }"
REFRESH = {
    "client_id": "sim-app",
    "client_secret": "sim-app-secret",
    "grant_type": "refresh_token",
    "refresh_token": "sim-refresh-token",
}
LEVELS = """
query ($ids: [ID!]!, $levels: Int = 4) {
  nodes(ids: $ids) {
    ... on ProductVariant {
      sku
      inventoryItem {
        unitCost { amount }
        inventoryLevels(first: $levels) {
          nodes { location { id } quantities(names: ["available"]) { quantity } }
          pageInfo { hasNextPage }
        }
      }
    }
    ... on Product { variantsCount { count } }
  }
}
"""
DEEP = """{
  products(first: 250, sortKey: UPDATED_AT) {
    nodes { variants(first: 250) { nodes { inventoryItem { inventoryLevels(first: 250) {
      nodes { location { id } }
    } } } } }
  }
}"""
LEVELS_POINTS = 1 + 1 + 2 + 2 * 3  # variants, item, connection, levels; money is free


def cost(answer: dict[str, Any]) -> tuple[int, int | None]:
    cost = answer["extensions"]["cost"]
    return cost["requestedQueryCost"], cost["actualQueryCost"]


def refresh(shop: Any, *, as_json: bool = False, **more: str) -> tuple[int, dict[str, Any]]:
    form = {**REFRESH, **more}
    body = json.dumps(form) if as_json else urlencode(form)
    kind = "application/json" if as_json else "application/x-www-form-urlencoded"
    path = f"/{shop.domain}/admin/oauth/access_token"
    headers = {"Content-Type": kind, "Accept": "application/json"}
    reply = shop.simulator.handle("POST", path, headers, body.encode())
    return reply.status, json.loads(reply.body)


def faulty(open_shop: Any, **rates: float) -> Any:
    named = {name.replace("_", "-"): rate for name, rate in rates.items()}
    return open_shop(faults=ShopFaultPlan(1, rates=named))


def test_a_shop_and_its_locations_are_shown(shop: Any) -> None:
    assert shop.do(SHOP) == {"name": "acme", "currencyCode": "USD"}
    first = shop.do("{ locations(first: 2) { nodes { name isActive } pageInfo { endCursor } } }")
    assert [node["name"] for node in first["nodes"]] == ["Dallas", "Chicago"]
    after = first["pageInfo"]["endCursor"]
    rest = shop.do(
        "query ($after: String) { locations(first: 2, after: $after)"
        " { nodes { name } pageInfo { hasNextPage } } }",
        after=after,
    )
    assert rest == {"nodes": [{"name": "Miami"}], "pageInfo": {"hasNextPage": False}}


@pytest.mark.parametrize(
    "document",
    ("{ shop { colour } }", "{ orders { id } }", "mutation { x", "query A { shop {id} }"),
)
def test_a_document_that_is_not_understood_is_an_error_with_status_200(
    shop: Any, document: str
) -> None:
    body = json.dumps({"query": document, "operationName": "B"}).encode()
    headers = {"X-Shopify-Access-Token": "sim-static-token"}
    path = f"/{shop.domain}/admin/api/2026-04/graphql.json"
    reply = shop.simulator.handle("POST", path, headers, body)
    assert reply.status == 200
    assert list(json.loads(reply.body)) == ["errors"]
    assert shop.simulator.points == 0


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"[]",
        b"{",
        b'{"query": 1}',
        b'{"query":"x","variables":[1]}',
        b'{"query":"x","operationName":[]}',
    ),
)
def test_a_body_that_is_no_query_is_a_bad_request(shop: Any, body: bytes) -> None:
    headers = {"X-Shopify-Access-Token": "sim-static-token"}
    path = f"/{shop.domain}/admin/api/2026-04/graphql.json"
    assert shop.simulator.handle("POST", path, headers, body).status == 400


def test_only_the_shops_own_token_is_accepted(clock: VirtualClock) -> None:
    simulator = ShopifySimulator(
        clock,
        shops=[
            ShopSetup(domain="a.myshopify.com", access_token="one"),
            ShopSetup(domain="b.myshopify.com", access_token="two"),
        ],
    )
    body = json.dumps({"query": SHOP}).encode()

    def status(shop: str, token: str) -> int:
        path = f"/{shop}/admin/api/2026-04/graphql.json"
        return simulator.handle("POST", path, {"x-shopify-access-token": token}, body).status

    assert status("a.myshopify.com", "one") == 200
    assert status("a.myshopify.com", "two") == 401
    assert status("a.myshopify.com", "") == 401
    assert status("c.myshopify.com", "one") == 404


def test_the_shop_may_be_named_by_the_host(shop: Any) -> None:
    headers = {"X-Shopify-Access-Token": "sim-static-token", "Host": f"{shop.domain}:8080"}
    body = json.dumps({"query": SHOP}).encode()
    path = "/admin/api/2026-04/graphql.json"
    assert shop.simulator.handle("POST", path, headers, body).status == 200
    assert shop.simulator.handle("GET", path, headers, body).status == 404


def test_an_expired_version_falls_forward_and_the_header_says_so(open_shop: Any) -> None:
    assert open_shop().send(SHOP, {}).headers["X-Shopify-API-Version"] == "2026-04"
    newer = open_shop(version="2026-07").send(SHOP, {})
    assert (newer.status, newer.headers["X-Shopify-API-Version"]) == (200, "2026-07")


@pytest.mark.parametrize("as_json", (False, True))
def test_tokens_rotate_and_a_used_refresh_token_is_invalid(shop: Any, as_json: bool) -> None:  # noqa: FBT001
    status, pair = refresh(shop, as_json=as_json)
    assert (status, pair["expires_in"]) == (200, 3600)
    assert {"refresh_token_expires_in", "scope"} <= set(pair)
    token = {"X-Shopify-Access-Token": pair["access_token"]}
    assert shop.send(SHOP, {}, **token).status == 200
    assert refresh(shop, as_json=as_json) == (400, {"error": "invalid_grant"})
    assert refresh(shop, refresh_token=pair["refresh_token"])[0] == 200
    shop.clock.sleep(3600)
    assert shop.send(SHOP, {}, **token).status == 401


def test_an_unknown_app_gets_no_token_and_spends_no_points(shop: Any) -> None:
    assert refresh(shop, client_secret="guess") == (400, {"error": "invalid_request"})
    unknown = (400, {"error": "application_cannot_be_found"})
    assert refresh(shop, client_id="guess") == unknown
    assert refresh(shop, grant_type="password")[0] == 400
    assert refresh(shop)[0] == 200


def test_revoked_tokens_are_refused_until_refreshed(shop: Any) -> None:
    shop.simulator.tokens(shop.domain).revoke()
    assert shop.send(SHOP, {}).status == 401
    token = refresh(shop)[1]["access_token"]
    assert shop.send(SHOP, {}, **{"X-Shopify-Access-Token": token}).status == 200


def test_the_cost_counts_objects_and_the_sizes_that_were_asked_for(shop: Any) -> None:
    ids = [shop.seed(f"A-{number}").variant for number in range(3)]
    answer = shop.ask(LEVELS, ids=[*ids, "gid://shopify/ProductVariant/1"])
    assert cost(answer) == (LEVELS_POINTS, LEVELS_POINTS)  # however many ids
    assert shop.simulator.points == LEVELS_POINTS
    assert cost(shop.ask("{ locations(first: 10) { nodes { id } pageInfo { hasNextPage } } }")) == (
        6,
        5,
    )
    assert cost(shop.ask("{ locations(first: 10) { edges { node { id } } } shop { id } }")) == (
        7,
        6,
    )
    assert cost(shop.ask("{ __typename }")) == (0, 0)


@pytest.mark.parametrize(
    ("query", "points"),
    (
        ("products(first: 250) { nodes { id title } }", 13),
        ("customers(first: 1) { nodes { id } }", 3),
        ("customers(first: 250) { nodes { id defaultEmailAddress { emailAddress } } }", 24),
        (
            (
                "orders(first: 12, sortKey: UPDATED_AT) { nodes { id customer { id }"
                " totalPriceSet { shopMoney { amount } } lineItems(first: 8) { nodes {"
                " variant { id } } } fulfillments(first: 3) { trackingInfo { number } }"
                " refunds(first: 3) { id } transactions(first: 5) { id } } }"
            ),
            66,
        ),
    ),
)
def test_a_list_costs_by_the_logarithm_of_its_size(shop: Any, query: str, points: int) -> None:
    by_change = query.replace("products(", "products(sortKey: UPDATED_AT, ")
    assert cost(shop.ask(f"{{ {by_change} }}"))[0] == points


def test_a_query_over_the_maximum_is_not_executed(shop: Any) -> None:
    answer = shop.ask(DEEP)
    assert answer["errors"][0]["extensions"]["code"] == "MAX_COST_EXCEEDED"
    assert "data" not in answer
    assert answer["extensions"]["cost"]["throttleStatus"]["currentlyAvailable"] == 2000
    assert (shop.simulator.points, shop.simulator.refusals) == (0, 0)


def test_an_empty_bucket_throttles_with_status_200_and_fills_again(shop: Any) -> None:
    ids = [shop.seed(f"A-{number}", cost=Decimal(1)).variant for number in range(50)]
    shop.shop_listings.stock("A-0", "Miami")
    many = {"ids": ids, "levels": 200}
    points = LEVELS_POINTS + 8 * 3
    assert cost(shop.ask(LEVELS, **many)) == (points, points)
    while "errors" not in (answer := json.loads(shop.send(LEVELS, many).body)):
        pass
    status = answer["extensions"]["cost"]["throttleStatus"]
    assert answer["errors"][0]["extensions"]["code"] == "THROTTLED"
    assert "data" not in answer
    assert status["currentlyAvailable"] < points
    assert (status["maximumAvailable"], status["restoreRate"]) == (2000, 100)
    assert (shop.simulator.refusals, shop.simulator.throttled) == (1, 1)
    shop.clock.sleep((points - status["currentlyAvailable"]) / 100)
    assert "data" in json.loads(shop.send(LEVELS, many).body)
    assert 850 < shop.simulator.max_level <= 2000


def test_each_app_has_a_bucket_of_its_own_in_each_shop(open_shop: Any) -> None:
    setup = ShopSetup(domain="acme.myshopify.com", locations=("Dallas",), capacity=20)
    shop = open_shop(shops=[setup])
    token = {"X-Shopify-Access-Token": refresh(shop)[1]["access_token"]}
    query = "{ locations(first: 18) { nodes { id } } }"
    left = [json.loads(shop.send(query, {}, **headers).body) for headers in ({}, token)]
    assert [
        answer["extensions"]["cost"]["throttleStatus"]["currentlyAvailable"] for answer in left
    ] == [17, 17]


def test_a_lost_reply_was_applied_and_a_lost_request_was_not(open_shop: Any) -> None:
    for rates, effects in (({"lost_reply": 1.0}, 20), ({"lost_request": 1.0}, 0)):
        shop = faulty(open_shop, **rates)
        ids = shop.seed("A-1")
        update = (
            "mutation ($variants: [ProductVariantsBulkInput!]!) { productVariantsBulkUpdate("
            f'productId: "{ids.product}", variants: $variants) {{ userErrors {{ code }} }} }}'
        )
        affected = {
            shop.send(update, {"variants": [{"id": ids.variant, "price": str(price)}]}).outcome
            for price in range(20)
        }
        assert affected == {"hang", "drop"}
        assert len(shop.simulator.effects) == effects
        assert sum(shop.simulator.faults.injected.values()) == 20


def test_an_error_comes_before_anything_is_applied(open_shop: Any) -> None:
    shop = faulty(open_shop, error=1.0)
    assert shop.send(SHOP, {}).status == 502
    assert shop.simulator.points == 0
    assert shop.simulator.calls["shop"] == 1


def test_a_page_of_html_says_nothing_about_what_was_applied(open_shop: Any) -> None:
    shop = faulty(open_shop, html=1.0)
    replies = [shop.send(SHOP, {}) for _ in range(20)]
    assert {(reply.status, reply.headers["Content-Type"]) for reply in replies} == {
        (200, "text/html")
    }
    assert 0 < shop.simulator.points < 20


def test_a_slow_answer_is_in_flight_all_the_while(open_shop: Any) -> None:
    shop = faulty(open_shop, slow=1.0)
    assert 5 <= shop.send(SHOP, {}).delay_s <= 26


def test_a_throttle_by_fault_is_not_our_refusal(open_shop: Any) -> None:
    shop = faulty(open_shop, throttle=1.0)
    answer = shop.ask(SHOP)
    assert answer["errors"][0]["extensions"]["code"] == "THROTTLED"
    assert answer["extensions"]["cost"]["throttleStatus"]["currentlyAvailable"] == 0
    assert (shop.simulator.throttled, shop.simulator.refusals) == (1, 0)
    assert shop.simulator.faults.injected == {ShopFault.THROTTLE: 1}


def test_an_outage_has_three_forms_and_ends(open_shop: Any) -> None:
    outage = Interval(start_s=0, end_s=60)
    shop = open_shop(faults=ShopFaultPlan(outage=[outage]))
    replies = [shop.send(SHOP, {}) for _ in range(3)]
    assert {(reply.status, reply.outcome) for reply in replies} == {
        (502, "answer"),
        (200, "refuse"),
        (200, "hang"),
    }
    assert shop.simulator.requests == 2  # a refused connection is no request
    shop.clock.sleep(60)
    assert "data" in json.loads(shop.send(SHOP, {}).body)
    assert shop.simulator.faults.outages() == (outage,)


def test_a_token_is_never_lost_on_its_way(open_shop: Any) -> None:
    shop = faulty(open_shop, lost_reply=1.0)
    path = f"/{shop.domain}/admin/oauth/access_token"
    body = json.dumps(REFRESH).encode()
    headers = {"Content-Type": "application/json"}
    assert shop.simulator.handle("POST", path, headers, body).outcome != "answer"
    shop.simulator.faults = ShopFaultPlan()
    assert refresh(shop)[0] == 200


@pytest.mark.parametrize("rates", ({"crash": 0.1}, {"down": 0.1}, {"slow": 1.1}, {"slow": -0.1}))
def test_a_fault_that_is_not_known_or_not_a_share_is_refused(rates: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        ShopFaultPlan(rates=rates)


def test_the_same_seed_gives_the_same_run(open_shop: Any) -> None:
    def run() -> list[tuple[str, float]]:
        shop = faulty(open_shop, lost_reply=0.2, slow=0.2, html=0.2)
        return [
            (reply.outcome, reply.delay_s) for reply in (shop.send(SHOP, {}) for _ in range(50))
        ]

    assert run() == run()


def test_many_mutations_take_longer_than_one(open_shop: Any) -> None:
    shop = open_shop(delay_s=(0.2, 0.2))
    one = 'productUpdate(product: {id: "x"}) { userErrors { message } }'
    many = " ".join(f"p{number}: {one}" for number in range(11))
    assert shop.send(f"mutation {{ {one} }}", {}).delay_s == pytest.approx(0.2)
    assert shop.send(f"mutation {{ {many} }}", {}).delay_s == pytest.approx(0.5)


def test_in_process_and_over_http_it_is_the_same_shop(clock: VirtualClock) -> None:
    setup = ShopSetup(domain="acme.myshopify.com")
    headers = {"X-Shopify-Access-Token": "sim-static-token"}
    path = f"/{setup.domain}/admin/api/2026-04/graphql.json"
    real_clock = SystemClock()
    real = ShopifySimulator(real_clock, shops=[setup], delay_s=(0, 0))
    virtual = ShopifySimulator(clock, shops=[setup])
    answers = []
    with serve(real.handle, real_clock) as server:
        ways = ((server.url, None), ("http://shop.test", SimTransport(virtual.handle, clock)))
        for url, transport in ways:
            with httpx.Client(
                base_url=url, transport=transport, trust_env=False, timeout=30
            ) as client:
                reply = client.post(path, json={"query": SHOP}, headers=headers)
                answers.append((reply.status_code, reply.json()["data"]))
                assert reply.headers["x-shopify-api-version"] == "2026-04"
                assert client.post(path, json={"query": SHOP}).status_code == 401
    assert answers[0] == answers[1]
    assert clock.monotonic() > 0.15
