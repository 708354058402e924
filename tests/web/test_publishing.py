"""`/api/bulk-publish` over a real server and a real database."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg_pool import ConnectionPool
from pydantic import TypeAdapter
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS
from tests.web.keys import auth_headers

from headway.app import build
from headway.config import Settings
from headway.operations.publishing import PublishBatch, PublishBody
from headway.store.catalog.publishing import PARTS_MAX
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock

BATCH = TypeAdapter(PublishBatch)
PATH = "/api/bulk-publish"
Execute = Callable[..., list[Any]]


@pytest.fixture
def execute(pool: ConnectionPool) -> Execute:
    def run(statement: str, *values: object) -> list[Any]:
        with pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def connect(execute: Execute) -> Callable[[str], list[Any]]:
    statement = (
        "INSERT INTO connected_accounts (user_id, platform, shop) VALUES (%s, 'shopify', %s)"
    )
    return lambda seller: execute(statement, seller, f"{seller}.myshopify.com")


@pytest.fixture
def api(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Iterator[httpx.Client]:
    app = build(Settings(data_dir=tmp_path, shop_sku="base"), clock, pool)
    listener = listen("127.0.0.1", 0)
    server = SiteServer(create(app), listener)
    server.start()
    try:
        with httpx.Client(
            base_url=address(listener),
            headers=auth_headers(pool),
            timeout=HTTP_TIMEOUT_S,
            trust_env=False,
            verify=NO_ROOTS,
        ) as client:
            yield client
    finally:
        server.stop()


def problem(response: httpx.Response, status: int) -> str:
    """Return the detail of an expected problem."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert set(document) == {"title", "status", "detail"}
    return str(document["detail"])


def test_parts_are_requested_and_followed(
    api: httpx.Client, execute: Execute, connect: Callable[[str], object]
) -> None:
    connect("acme")
    response = api.post(PATH, json={"part_numbers": ["WF1=K3", "AN 960/10L", "WF1=K3 "]})
    assert response.status_code == 202
    requested = BATCH.validate_json(response.content)
    assert [(part.sku, part.shop_sku) for part in requested.parts] == [
        ("WF1=K3", "WF1"),
        ("AN 960/10L", "AN 960/10L"),
    ]
    assert requested.counts == {"requested": 2}
    assert {part.place for part in requested.parts} == {1, 2}
    assert all(part.expected_at for part in requested.parts)
    execute("UPDATE product_staging SET status = 'normalized' WHERE shop_sku = 'WF1'")
    progress = BATCH.validate_json(api.get(f"{PATH}/{requested.batch_id}").content)
    assert progress.counts == {"requested": 1, "normalized": 1}
    (normal,) = (part for part in progress.parts if part.status == "normalized")
    assert normal.note == "waiting to be created in the shop"


def test_a_repeated_request_creates_nothing(
    api: httpx.Client, execute: Execute, connect: Callable[[str], object]
) -> None:
    connect("acme")
    for _ in range(2):
        response = api.post(PATH, json={"part_numbers": ["A", "B"], "seller": "acme"})
        assert response.status_code == 202
        batch_id = response.json()["batch_id"]
    assert execute("SELECT count(*) FROM product_staging") == [(2,)]
    assert len(api.get(f"{PATH}/{batch_id}").json()["parts"]) == 2


def test_a_sku_collision_is_reported_and_the_other_parts_go_on(
    api: httpx.Client, execute: Execute, connect: Callable[[str], object]
) -> None:
    connect("acme")
    response = api.post(PATH, json={"part_numbers": ["A=1", "A=2", "B"]})
    assert response.status_code == 202
    assert response.json()["counts"] == {"refused": 2, "requested": 1}
    assert "A=2 would have the same shop SKU A" in response.json()["parts"][0]["note"]
    detail = problem(api.post(PATH, json={"part_numbers": ["A=1", "A=2"]}), 409)
    assert detail.startswith("no part could be taken: A=1: A=2 would have the same shop SKU A")
    assert execute("SELECT sku FROM product_staging") == [("B",)]


@pytest.mark.parametrize(
    ("body", "where"),
    (
        ({}, "part_numbers: Field required"),
        ({"part_numbers": []}, "part_numbers: List should have at least 1 item"),
        ({"part_numbers": ["A", ""]}, "part_numbers[1]: a part number is empty"),
        ({"part_numbers": ["A\nB"]}, r"part_numbers[0]: the part number 'A\nB' holds"),
        ({"part_numbers": [7]}, "part_numbers[0]: Input should be a valid string"),
        ({"part_numbers": "A"}, "part_numbers: Input should be a valid list"),
        ({"part_numbers": ["A"], "seller": " "}, "seller: a seller is empty"),
        ({"part_numbers": ["A"], "sellers": "x"}, "sellers: Extra inputs are not permitted"),
        ({"part_numbers": ["A"] * (PARTS_MAX + 1)}, "part_numbers: List should have at most"),
    ),
)
def test_a_malformed_request_names_the_field(
    api: httpx.Client, execute: Execute, body: dict[str, Any], where: str
) -> None:
    assert problem(api.post(PATH, json=body), 422).startswith(where)
    assert execute("SELECT count(*) FROM product_staging") == [(0,)]


@pytest.mark.parametrize(
    ("body", "header"),
    ((b"", "json"), (b"{", "json"), (b"[1]", "json"), (b'{"part_numbers": ["A"]}', "x-form")),
)
def test_a_body_that_is_not_an_object_is_refused(
    api: httpx.Client, body: bytes, header: str
) -> None:
    response = api.post(PATH, content=body, headers={"content-type": f"application/{header}"})
    expected = "body: send a JSON object, with the header content-type: application/json"
    assert problem(response, 422) == expected


@pytest.mark.parametrize(
    "body", (b"", b"{", b'{"part_numbers": ["\\ud800"]}', b'{"part_numbers": ["\\u0000"]}', b"[1]")
)
def test_no_body_causes_a_server_error(api: httpx.Client, body: bytes) -> None:
    response = api.post(PATH, content=body, headers={"content-type": "application/json"})
    problem(response, 422)


def test_a_form_of_another_site_is_refused(
    api: httpx.Client, execute: Execute, connect: Callable[[str], object]
) -> None:
    connect("acme")
    body = b'{"part_numbers": ["A"]}'
    response = api.post(PATH, content=body, headers={"content-type": "text/plain"})
    assert response.status_code == 422
    assert execute("SELECT count(*) FROM product_staging") == [(0,)]


def test_a_seller_without_a_shop_gets_a_hint(
    api: httpx.Client, connect: Callable[[str], object]
) -> None:
    assert "headway connect" in problem(api.post(PATH, json={"part_numbers": ["A"]}), 409)
    connect("acme")
    body = {"part_numbers": ["A"], "seller": "zenith"}
    assert "zenith has no shop" in problem(api.post(PATH, json=body), 409)
    connect("zenith")
    assert "acme, zenith" in problem(api.post(PATH, json={"part_numbers": ["A"]}), 422)


@pytest.mark.parametrize("batch_id", ("6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11", "nonsense"))
def test_an_unknown_batch_is_not_found(api: httpx.Client, batch_id: str) -> None:
    assert "no such batch" in problem(api.get(f"{PATH}/{batch_id}"), 404)


def test_the_document_describes_the_responses(api: httpx.Client) -> None:
    document = api.get("/openapi.json").json()
    post = document["paths"][PATH]["post"]
    assert set(post["responses"]) >= {"202", "401", "403", "409", "422", "503"}
    for status in ("409", "422", "503"):
        schema = post["responses"][status]["content"]["application/problem+json"]["schema"]
        assert schema["$ref"].endswith("/Problem")
    get = document["paths"][f"{PATH}/{{batch_id}}"]["get"]
    assert {"200", "404", "503"} <= set(get["responses"])
    for example in document["components"]["schemas"]["PublishBody"]["examples"]:
        PublishBody.model_validate(example)
    reply = get["responses"]["200"]["content"]["application/json"]
    BATCH.validate_python(reply["example"])
