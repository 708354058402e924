"""`/webhooks/...` over a real server and a real database."""

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg_pool import ConnectionPool
from pydantic import SecretStr
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS

from headway.app import build
from headway.app.providers import shared_vault, token_key_of
from headway.config import Settings
from headway.core.accounts.jobs import PlatformName
from headway.providers.tokens import AppClient, store_client
from headway.store.accounts.credentials import Credentials
from headway.web.body_limits import BODY_BYTES_MAX, BODY_WAIT_S
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.platforms import PLATFORMS
from headway_lab.virtual_clock import VirtualClock

Execute = Callable[..., list[Any]]
KEY = b"0123456789abcdef0123456789abcdef"
SECRETS: dict[str, Any] = {
    "shopify_client_secret": SecretStr("hush-shopify"),
    "etsy_webhook_secret": SecretStr("whsec_" + base64.b64encode(KEY).decode()),
    "printify_webhook_secret": SecretStr("hush-printify"),
}
SHOPS = {"shopify": "one.myshopify.com", "etsy": "77", "printify": "815"}
platforms = pytest.mark.parametrize("platform", PLATFORMS)


@pytest.fixture
def execute(pool: ConnectionPool) -> Execute:
    def run(statement: str, *values: object) -> list[Any]:
        with pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def connected(execute: Execute, clock: VirtualClock) -> None:
    for platform, shop in SHOPS.items():
        execute(
            "WITH new AS (INSERT INTO connected_accounts (user_id, platform, shop)"
            " VALUES ('acme', %s, %s) RETURNING *) INSERT INTO sync_jobs"
            " (account_id, user_id, platform, kind, job_type, score, next_run_at)"
            " SELECT id, user_id, platform, 'orders', 'incremental', 12, 'infinity' FROM new",
            platform,
            shop,
        )


@pytest.fixture
def serve(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> Iterator[Callable[..., httpx.Client]]:
    ends: list[Callable[[], None]] = []

    def start(*, body_wait_s: float = BODY_WAIT_S, **settings: Any) -> httpx.Client:
        app = build(Settings(data_dir=tmp_path, **{**SECRETS, **settings}), clock, pool)
        count_taken = listen("127.0.0.1", 0)
        serving = SiteServer(create(app, body_wait_s=body_wait_s), count_taken)
        serving.start()
        client = httpx.Client(
            base_url=address(count_taken), timeout=HTTP_TIMEOUT_S, trust_env=False, verify=NO_ROOTS
        )
        ends.extend((client.close, serving.stop))
        return client

    yield start
    for end in ends:
        end()


@pytest.fixture
def api(serve: Callable[..., httpx.Client]) -> httpx.Client:
    return serve()


@pytest.fixture
def delivery(clock: VirtualClock) -> Callable[..., tuple[bytes, dict[str, str]]]:
    """Return a delivery signed as the platform documents it."""

    def make(
        platform: str, name: str = "d-1", *, shop: str | None = None, body: bytes | None = None
    ) -> tuple[bytes, dict[str, str]]:
        shop = shop or SHOPS[platform]
        if platform == "shopify":
            body = body or json.dumps({"id": 82}).encode()
            mac = hmac.digest(b"hush-shopify", body, hashlib.sha256)
            return body, {
                "X-Shopify-Hmac-SHA256": base64.b64encode(mac).decode(),
                "X-Shopify-Topic": "orders/updated",
                "X-Shopify-Shop-Domain": shop,
                "X-Shopify-Webhook-Id": name,
            }
        if platform == "etsy":
            url = "https://api.etsy.com/v3/application/shops/77/receipts/82"
            payload = {"event_type": "order.paid", "shop_id": int(shop), "resource_url": url}
            body = body or json.dumps(payload).encode()
            stamp = str(int(clock.now().timestamp()))
            mac = hmac.digest(KEY, f"{name}.{stamp}.".encode() + body, hashlib.sha256)
            return body, {
                "webhook-id": name,
                "webhook-timestamp": stamp,
                "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
            }
        resource = {"id": "82", "type": "order", "data": {"shop_id": int(shop)}}
        payload = {"id": name, "type": "order:updated", "resource": resource}
        body = body or json.dumps(payload).encode()
        return body, {
            "X-Pfy-Signature": "sha256=" + hmac.digest(b"hush-printify", body, "sha256").hex()
        }

    return make


def problem(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert set(document) == {"title", "status", "detail"}
    return str(document["detail"])


def count_taken(execute: Execute) -> int:
    return int(execute("SELECT count(*) FROM webhook_deliveries")[0][0])


def count_due(execute: Execute) -> int:
    query = "SELECT count(*) FROM sync_jobs WHERE next_run_at < 'infinity'"
    return int(execute(query)[0][0])


@platforms
@pytest.mark.usefixtures("connected")
def test_a_delivery_makes_the_job_of_its_account_due(
    api: httpx.Client, execute: Execute, delivery: Callable[..., Any], platform: str
) -> None:
    body, headers = delivery(platform)
    response = api.post(f"/webhooks/{platform}", content=body, headers=headers)
    assert (response.status_code, response.json()) == (200, {"fate": "taken"})
    woken = "SELECT platform FROM sync_jobs WHERE job_type = 'webhook_triggered' AND score = 13"
    assert execute(woken) == [(platform,)]
    ((external_id,),) = execute(
        "SELECT external_id FROM webhook_deliveries WHERE handled_at IS NULL"
    )
    assert external_id.endswith("82")


@platforms
@pytest.mark.usefixtures("connected")
def test_a_wrong_signature_is_refused_and_nothing_is_stored(
    api: httpx.Client, execute: Execute, delivery: Callable[..., Any], platform: str
) -> None:
    body, headers = delivery(platform)
    for sent, sent_headers in ((body + b" ", headers), (body, {}), (b"not json", headers)):
        detail = problem(api.post(f"/webhooks/{platform}", content=sent, headers=sent_headers), 401)
        assert "hush" not in detail
    assert (count_taken(execute), count_due(execute)) == (0, 0)


@platforms
@pytest.mark.usefixtures("connected")
def test_a_replay_is_accepted_and_processed_once(
    api: httpx.Client, execute: Execute, delivery: Callable[..., Any], platform: str
) -> None:
    body, headers = delivery(platform)
    fates = []
    for _ in range(3):
        response = api.post(f"/webhooks/{platform}", content=body, headers=headers)
        assert response.status_code == 200
        fates.append(response.json()["fate"])
    assert fates == ["taken", "repeated", "repeated"]
    assert count_taken(execute) == 1


@pytest.mark.usefixtures("connected")
def test_a_delivery_of_etsy_that_is_replayed_later_is_refused(
    api: httpx.Client, execute: Execute, delivery: Callable[..., Any], clock: VirtualClock
) -> None:
    body, headers = delivery("etsy")
    clock.sleep(301)
    problem(api.post("/webhooks/etsy", content=body, headers=headers), 401)
    assert count_taken(execute) == 0


@platforms
@pytest.mark.usefixtures("connected")
def test_ten_concurrent_copies_of_a_delivery_are_processed_once(
    api: httpx.Client, execute: Execute, delivery: Callable[..., Any], platform: str
) -> None:
    body, headers = delivery(platform)
    with ThreadPoolExecutor(10) as threads:
        sent = [
            threads.submit(api.post, f"/webhooks/{platform}", content=body, headers=headers)
            for _ in range(10)
        ]
    responses = [future.result() for future in sent]
    assert {response.status_code for response in responses} == {200}
    assert sorted(response.json()["fate"] for response in responses) == [*["repeated"] * 9, "taken"]
    assert (count_taken(execute), count_due(execute)) == (1, 1)


@pytest.mark.usefixtures("connected")
def test_a_burst_for_one_account_makes_one_job_due(
    api: httpx.Client, execute: Execute, delivery: Callable[..., Any]
) -> None:
    burst = [delivery("shopify", f"d-{number}") for number in range(200)]
    with ThreadPoolExecutor(10) as threads:
        responses = threads.map(
            lambda x: api.post("/webhooks/shopify", content=x[0], headers=x[1]), burst
        )
        assert {response.status_code for response in responses} == {200}
    assert (count_taken(execute), count_due(execute)) == (200, 1)


@platforms
@pytest.mark.usefixtures("connected")
def test_a_delivery_for_an_unknown_shop_is_accepted_and_ignored(
    api: httpx.Client,
    execute: Execute,
    delivery: Callable[..., Any],
    platform: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    body, headers = delivery(platform, shop={"shopify": "two.myshopify.com"}.get(platform, "999"))
    response = api.post(f"/webhooks/{platform}", content=body, headers=headers)
    assert (response.status_code, response.json()) == (202, {"fate": "unknown shop"})
    assert (count_taken(execute), count_due(execute)) == (0, 0)
    assert "not connected" in caplog.text


@platforms
@pytest.mark.parametrize("body", (b"{", b"[]", b"{}"))
@pytest.mark.usefixtures("connected")
def test_a_signed_but_invalid_body_is_refused(
    api: httpx.Client,
    execute: Execute,
    delivery: Callable[..., Any],
    platform: str,
    body: bytes,
) -> None:
    sent, headers = delivery(platform, body=body)
    headers.pop("X-Shopify-Topic", None)
    assert problem(api.post(f"/webhooks/{platform}", content=sent, headers=headers), 400)
    assert count_taken(execute) == 0


def test_an_unused_topic_is_accepted(
    api: httpx.Client, execute: Execute, delivery: Callable[..., Any]
) -> None:
    body, headers = delivery("shopify")
    headers["X-Shopify-Topic"] = "themes/publish"
    response = api.post("/webhooks/shopify", content=body, headers=headers)
    assert (response.status_code, response.json()) == (200, {"fate": "not used"})
    assert count_taken(execute) == 0


@platforms
def test_a_missing_secret_names_the_setting(
    serve: Callable[..., httpx.Client], delivery: Callable[..., Any], platform: str
) -> None:
    api = serve(**dict.fromkeys(SECRETS, SecretStr("")))
    body, headers = delivery(platform)
    detail = problem(api.post(f"/webhooks/{platform}", content=body, headers=headers), 503)
    assert detail.startswith("HEADWAY_")
    assert "SECRET" in detail


@pytest.mark.parametrize("length", (f"Content-Length: {10**12}", "Transfer-Encoding: chunked"))
def test_a_body_that_is_too_large_is_refused_while_it_comes(api: httpx.Client, length: str) -> None:
    """An endless body would get no response if it were read completely first."""
    host, port = api.base_url.host, api.base_url.port
    with socket.create_connection((host, port), timeout=HTTP_TIMEOUT_S) as sock:
        sock.sendall(f"POST /webhooks/etsy HTTP/1.1\r\nHost: x\r\n{length}\r\n\r\n".encode())
        response = b""
        if "chunked" in length:
            piece = b"x" * 65_536
            for _ in range(BODY_BYTES_MAX // len(piece) + 1):
                sock.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        while b"application/problem+json" not in response:
            chunk = sock.recv(65_536)
            assert chunk, "the server sent nothing"
            response += chunk
    assert response.startswith(b"HTTP/1.1 413 ")


@pytest.mark.usefixtures("connected")
def test_a_chunked_body_is_read_completely(api: httpx.Client, delivery: Callable[..., Any]) -> None:
    body, headers = delivery("printify")
    pieces = (body[at : at + 1] for at in range(len(body)))
    response = api.post("/webhooks/printify", content=pieces, headers=headers)
    assert response.json() == {"fate": "taken"}


def test_a_body_that_never_arrives_times_out(serve: Callable[..., httpx.Client]) -> None:
    api = serve(body_wait_s=0.05)
    with socket.create_connection(
        (api.base_url.host, api.base_url.port), timeout=HTTP_TIMEOUT_S
    ) as sock:
        sock.sendall(b"POST /webhooks/etsy HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        assert sock.recv(65_536).startswith(b"HTTP/1.1 408 ")


def test_a_database_outage_returns_503(
    api: httpx.Client, pool: ConnectionPool, delivery: Callable[..., Any]
) -> None:
    body, headers = delivery("etsy")
    pool.close()
    assert "database" in problem(api.post("/webhooks/etsy", content=body, headers=headers), 503)


def test_the_document_has_the_three_webhook_paths(api: httpx.Client) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    for platform in SHOPS:
        documented = paths[f"/webhooks/{platform}"]["post"]["responses"]
        assert {"200", "202", "400", "401", "408", "413", "503"} <= set(documented)


@pytest.mark.usefixtures("connected")
def test_a_shops_own_app_signs_with_its_own_secret_and_for_that_shop_alone(
    serve: Callable[..., httpx.Client], execute: Execute, pool: ConnectionPool,
    clock: VirtualClock, tmp_path: Path,
) -> None:  # fmt: skip
    settings = Settings(data_dir=tmp_path, **SECRETS)
    for shop, secret in (("one.myshopify.com", "hush-one"), ("two.myshopify.com", "hush-two")):
        store_client(
            Credentials(pool),
            shared_vault(settings),
            token_key_of(settings, PlatformName("shopify"), shop),
            AppClient(client_id=f"app-{shop}", client_secret=secret),
            clock=clock,
        )
    body = json.dumps({"id": 82}).encode()

    def send(api: httpx.Client, secret: str, name: str, shop: str = SHOPS["shopify"]) -> int:
        mac = hmac.digest(secret.encode(), body, hashlib.sha256)
        headers = {
            "X-Shopify-Hmac-SHA256": base64.b64encode(mac).decode(),
            "X-Shopify-Topic": "orders/updated",
            "X-Shopify-Shop-Domain": shop,
            "X-Shopify-Webhook-Id": name,
        }
        return api.post("/webhooks/shopify", content=body, headers=headers).status_code

    api = serve()
    assert send(api, "hush-one", "d-1") == 200
    assert send(api, "hush-shopify", "d-2") == 200, "the app of the settings signs for every shop"
    assert send(api, "hush-two", "d-3") == 401, "another shop's app"
    assert send(api, "hush-one", "d-4", "two.myshopify.com") == 401
    assert send(api, "hush-one", "d-5", "not a shop") == 401
    assert count_taken(execute) == 2
    alone = serve(shopify_client_secret=SecretStr(""))
    assert send(alone, "hush-one", "d-6") == 200
    assert send(alone, "hush-two", "d-7") == 503, "no secret is set"
