"""Bulk work in the simulated shop: staging, running on the clock, and reading the results."""

import json
from itertools import pairwise
from typing import Any

import httpx
import pytest

from headway.clock import SystemClock
from headway_lab.simulators.shopify.bulk import BulkOperations
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

STAGE = """
mutation {
  stagedUploadsCreate(input: [{
    resource: BULK_MUTATION_VARIABLES, filename: "lines.jsonl", mimeType: "text/jsonl",
    httpMethod: POST
  }]) { stagedTargets { url parameters { name value } } userErrors { message } }
}
"""
RUN = """
mutation ($mutation: String!, $path: String!, $client: String) {
  bulkOperationRunMutation(
    mutation: $mutation, stagedUploadPath: $path, clientIdentifier: $client
  ) {
    bulkOperation { id status url } userErrors { code field message }
  }
}
"""
STATUS = """
query ($id: ID!) {
  bulkOperation(id: $id) { status objectCount url completedAt }
  node(id: $id) { ... on BulkOperation { status } }
  running: bulkOperations(first: 9, query: "status:running") { nodes { id } }
  all: bulkOperations(first: 9, query: "operation_type:mutation") { nodes { id } }
}
"""
PRICE = """
mutation ($product: ID!, $variants: [ProductVariantsBulkInput!]!) {
  productVariantsBulkUpdate(productId: $product, variants: $variants) { userErrors { code } }
}
"""
DOMAIN = "acme.myshopify.com"
PATH = f"/{DOMAIN}/admin/api/2026-04/graphql.json"


class Client:
    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def ask(self, query: str, **variables: Any) -> Any:
        body = {"query": query, "variables": variables}
        headers = {"X-Shopify-Access-Token": "sim-static-token"}
        answer = self.http.post(PATH, json=body, headers=headers).json()
        assert "errors" not in answer, answer
        return answer["data"]

    def upload(self, lines: list[Any]) -> str:
        (target,) = self.ask(STAGE)["stagedUploadsCreate"]["stagedTargets"]
        form = {parameter["name"]: parameter["value"] for parameter in target["parameters"]}
        content = b"\n".join(json.dumps(line).encode() for line in lines)
        files = {"file": ("lines.jsonl", content, "text/jsonl")}
        assert self.http.post(target["url"], data=form, files=files).status_code == 201
        return form["key"]

    def run(self, path: str, mutation: str = PRICE, **more: str) -> Any:
        return self.ask(RUN, mutation=mutation, path=path, **more)["bulkOperationRunMutation"]


def open_both(clock: VirtualClock, **options: Any) -> tuple[ShopifySimulator, Client]:
    simulator = ShopifySimulator(clock, shops=[ShopSetup(domain=DOMAIN)], **options)
    transport = SimTransport(simulator.handle, clock)
    return simulator, Client(
        httpx.Client(base_url="http://shop.test", transport=transport, timeout=30)
    )


def seed(simulator: ShopifySimulator, count: int) -> list[dict[str, Any]]:
    every = [simulator.seed_product(DOMAIN, f"A-{number}") for number in range(count)]
    return [
        {"product": ids.product, "variants": [{"id": ids.variant, "price": "11.00"}]}
        for ids in every
    ]


def test_one_mutation_runs_per_line_as_time_passes(clock: VirtualClock) -> None:
    simulator, client = open_both(clock, bulk_start_s=10.0, bulk_line_s=1.0)
    lines = seed(simulator, 20)
    lines[7]["product"] = "gid://shopify/Product/1"
    started = client.run(client.upload(lines))
    assert started["userErrors"] == []
    gid = started["bulkOperation"]["id"]
    assert client.ask(STATUS, id=gid)["bulkOperation"]["status"] == "CREATED"
    assert not simulator.effects
    clock.sleep(15)
    operation = client.ask(STATUS, id=gid)
    assert operation["bulkOperation"]["status"] == operation["node"]["status"] == "RUNNING"
    assert operation["running"]["nodes"] == operation["all"]["nodes"] == [{"id": gid}]
    assert 0 < len(simulator.effects) < 10
    clock.sleep(30)
    done = client.ask(STATUS, id=gid)["bulkOperation"]
    assert (done["status"], done["objectCount"]) == ("COMPLETED", "20")
    results = [json.loads(line) for line in client.http.get(done["url"]).text.splitlines()]
    assert [result["__lineNumber"] for result in results] == list(range(20))
    failed = [
        number
        for number, result in enumerate(results)
        if result["data"]["productVariantsBulkUpdate"]["userErrors"]
    ]
    assert failed == [7]
    assert len(simulator.effects) == 19
    gaps = {round(b.at_s - a.at_s, 6) for a, b in pairwise(simulator.effects)}
    assert gaps <= {1.0, 2.0}


def test_reading_the_shop_shows_what_bulk_operations_have_done(clock: VirtualClock) -> None:
    simulator, client = open_both(clock)
    client.run(client.upload(seed(simulator, 3)))
    clock.sleep(60)
    shown = simulator.shown(DOMAIN, "A-2")
    assert shown is not None
    assert str(shown.price) == "11.00"


def test_five_run_at_a_time(clock: VirtualClock) -> None:
    simulator, client = open_both(clock)
    path = client.upload(seed(simulator, 1))
    errors = [client.run(path)["userErrors"] for _ in range(6)]
    assert errors[:5] == [[]] * 5
    assert errors[5][0]["code"] == "OPERATION_IN_PROGRESS"
    clock.sleep(60)
    assert client.run(path)["userErrors"] == []


@pytest.mark.parametrize(("size", "is_good"), ((9, False), (10, True), (255, True), (256, False)))
def test_the_identifier_of_a_client_has_ten_to_255_characters(
    clock: VirtualClock, size: int, *, is_good: bool
) -> None:
    simulator, client = open_both(clock)
    errors = client.run(client.upload(seed(simulator, 1)), client="x" * size)["userErrors"]
    assert [error["field"] for error in errors] == [] if is_good else [["clientIdentifier"]]


def test_an_id_of_another_type_is_no_bulk_operation(clock: VirtualClock) -> None:
    simulator, client = open_both(clock)
    ids = simulator.seed_product(DOMAIN, "A-1")
    with pytest.raises(AssertionError, match="is not a bulk operation"):
        client.ask("query ($id: ID!) { bulkOperation(id: $id) { status } }", id=ids.product)


@pytest.mark.parametrize(
    ("mutation", "code"),
    (
        ("{ shop { name } }", "INVALID_MUTATION"),
        ("mutation { nothing }", "INVALID_MUTATION"),
        (f"mutation {{ {STAGE.strip()[9:-1]} }}", "INVALID_MUTATION"),
    ),
)
def test_not_everything_runs_in_bulk(clock: VirtualClock, mutation: str, code: str) -> None:
    simulator, client = open_both(clock)
    result = client.run(client.upload(seed(simulator, 1)), mutation)
    assert result["userErrors"][0]["code"] == code


def test_a_file_must_be_there_and_hold_objects(clock: VirtualClock) -> None:
    _, client = open_both(clock)
    assert client.run("tmp/nowhere")["userErrors"][0]["code"] == "NO_SUCH_FILE"
    code = client.run(client.upload([1, 2]))["userErrors"][0]["code"]
    assert code == "INVALID_STAGED_UPLOAD_FILE"


def test_a_form_without_its_parameters_is_refused(clock: VirtualClock) -> None:
    _, client = open_both(clock)
    (target,) = client.ask(STAGE)["stagedUploadsCreate"]["stagedTargets"]
    files = {"file": ("lines.jsonl", b"{}", "text/jsonl")}
    assert client.http.post(target["url"], files=files).status_code == 403
    wrong = {"key": "tmp/else"}
    assert client.http.post(target["url"], data=wrong, files=files).status_code == 403
    assert client.http.get(f"http://shop.test/{DOMAIN}/bulk/1.jsonl").status_code == 404


@pytest.mark.parametrize(("size", "status"), ((100, 201), (101, 400)))
def test_a_file_may_not_be_too_large(size: int, status: int) -> None:
    operations = BulkOperations(start_s=0, line_s=0, file_bytes_max=100)
    key = operations.stage(1, "lines.jsonl")
    request = httpx.Request("POST", "http://x.test", data={"key": key}, files={"file": b"x" * size})
    assert operations.upload("1", request.headers["content-type"], request.read()).status == status


def test_a_line_has_its_own_idempotency_key(clock: VirtualClock) -> None:
    simulator, client = open_both(clock)
    ids = simulator.seed_product(DOMAIN, "A-1", quantities={"Dallas": 1})
    place = simulator.shop(DOMAIN).location_named("Dallas").id
    quantity = {"inventoryItemId": ids.item, "locationId": place, "quantity": 4}
    fields = {"name": "available", "reason": "correction"}
    fields["quantities"] = [{**quantity, "changeFromQuantity": None}]
    mutation = (
        "mutation ($input: InventorySetQuantitiesInput!, $key: String!)"
        " { inventorySetQuantities(input: $input) @idempotent(key: $key) { userErrors { code } } }"
    )
    client.run(client.upload([{"input": fields, "key": "same"}] * 3), mutation)
    clock.sleep(60)
    assert simulator.shop(DOMAIN)
    assert (len(simulator.effects), simulator.log.replays) == (1, 2)


def test_bulk_works_over_real_http() -> None:
    real_clock = SystemClock()
    simulator = ShopifySimulator(
        real_clock, shops=[ShopSetup(domain=DOMAIN)], delay_s=(0, 0), bulk_start_s=0, bulk_line_s=0
    )
    with (
        serve(simulator.handle, real_clock) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as http,
    ):
        client = Client(http)
        gid = client.run(client.upload(seed(simulator, 5)))["bulkOperation"]["id"]
        done = client.ask(STATUS, id=gid)["bulkOperation"]
        assert len(http.get(done["url"]).text.splitlines()) == 5
    assert len(simulator.effects) == 5
