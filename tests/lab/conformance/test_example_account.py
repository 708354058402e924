"""An installed plug-in is a full platform: connected, pulled, woken by webhooks, disconnected."""

import hashlib
import hmac
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS
from tests.lab.conformance.plugin import HEADWAY, environment, run

from headway.clock import SystemClock
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.transport import serve

TOKEN, SECRET = "an-example-token", "an-example-secret"
ITEMS = [
    {"id": number, "title": f"Mug {number}", "price": "9.50", "currency": "USD"}
    for number in range(25)
]
PER_PAGE = 10
# A limit that is new waits for one window, so the clock of this pull runs faster than real time.
PULL = """
from datetime import UTC, datetime

from headway import config
from headway.app import build
from headway.clock import ScaledClock
from headway.core.catalog.listings import Wait
from headway.store.pool import open_pool

settings, clock = config.load(), ScaledClock(120, start=datetime.now(UTC))
with open_pool(settings.database_url.get_secret_value()) as pool:
    worker = build(settings, clock, pool).pull("test")
    for _ in range(200):
        result = worker.step()
        if isinstance(result, Wait):
            clock.sleep(max(0, (result.until - clock.now()).total_seconds()))
        elif result.what:
            print(result.what)
            if "done" in result.what:
                break
"""


def handle(method: str, target: str, headers: Mapping[str, str], body: bytes) -> SimReply:
    """Answer as the platform would."""
    del method, body
    address = urlsplit(target)
    if httpx.Headers(headers).get("authorization") != f"Bearer {TOKEN}":
        return json_reply({}, status=401)
    assert address.path == "/v1/shops/mugs/items"
    page = int(parse_qs(address.query)["page"][0])
    rows = ITEMS[(page - 1) * PER_PAGE : page * PER_PAGE]
    return json_reply({"items": rows, "pages": -(-len(ITEMS) // PER_PAGE)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Headway with the plug-in, and a server that plays the platform."""

    plugins: Path
    folder: Path
    settings: Mapping[str, str]

    def headway(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run([HEADWAY, *arguments], self.plugins, self.folder, **self.settings)

    def read(self, *arguments: str) -> Any:
        done = self.headway(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def connect(self) -> None:
        (self.folder / "token").write_text(TOKEN)
        place = ("--seller", "acme", "--platform", "example", "--token-file", "token")
        done = self.headway("connect", "mugs", *place)
        assert done.returncode == 0, done.stderr
        assert "example shop mugs is connected to acme" in done.stdout

    @contextmanager
    def served(self) -> Iterator[httpx.Client]:
        """Serve the API and the page; yield the client of an operator who is logged in."""
        with subprocess.Popen(
            [HEADWAY, "api", "--port", "0"],
            env=environment(self.plugins, **self.settings),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert "http://" in line, line + process.stdout.read()
                url = httpx.URL(line[line.index("http://") :].split()[0])
                with httpx.Client(
                    base_url=url.join("/"),
                    timeout=HTTP_TIMEOUT_S,
                    trust_env=False,
                    follow_redirects=True,
                    verify=NO_ROOTS,
                ) as client:
                    assert client.get(url).status_code == 200
                    yield client
                process.send_signal(signal.SIGTERM)
                process.wait()
            finally:
                process.kill()


@pytest.fixture
def deployment(installed: Path, database: str, tmp_path: Path) -> Iterator[Deployment]:
    with serve(handle, SystemClock()) as platform:
        settings = {
            "DATABASE_URL": database,
            "HEADWAY_DATA_DIR": str(tmp_path / "data"),
            "EXAMPLE_URL": platform.url,
            "EXAMPLE_WEBHOOK_SECRET": SECRET,
        }
        yield Deployment(plugins=installed, folder=tmp_path, settings=settings)


def test_a_pull_stores_the_rows_of_a_plugin_platform(
    deployment: Deployment, pool: ConnectionPool
) -> None:
    deployment.connect()
    assert deployment.headway("pull", "acme", "--platform", "example").returncode == 0
    pulled = run(
        [sys.executable, "-c", PULL],
        deployment.plugins,
        deployment.folder,
        **deployment.settings,
    )
    assert pulled.returncode == 0, pulled.stderr
    with pool.connection() as connection:
        rows = connection.execute(
            "SELECT platform, external_id::int, title, price::text FROM listings ORDER BY 2"
        ).fetchall()
    assert rows == [("example", item["id"], item["title"], "9.50") for item in ITEMS]
    explained = deployment.headway("explain", "acme/example/listings")
    assert explained.stdout.startswith("acme/example/listings: "), explained.stderr
    (job,) = deployment.read("jobs", "--platform", "example")["jobs"]
    assert (job["name"], job["status"]) == ("acme/example/listings", "completed")
    (shop,) = deployment.read("shops")
    assert (shop["platform"], shop["shop"], shop["status"]) == ("example", "mugs", "connected")


def test_a_webhook_of_a_plugin_platform_is_verified_and_taken_once(
    deployment: Deployment, pool: ConnectionPool
) -> None:
    deployment.connect()
    event = {"id": "e-1", "event": "item.changed", "shop": "mugs", "item": 7}
    body = json.dumps(event).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    signed = {"X-Example-Signature": signature, "Content-Type": "application/json"}
    with deployment.served() as client:
        assert client.post("/webhooks/example", content=body).status_code == 401
        for result in ("taken", "repeated"):
            reply = client.post("/webhooks/example", content=body, headers=signed)
            assert (reply.status_code, reply.json()) == (200, {"fate": result})
        refused = client.get("/api/jobs", params={"platform": "ebay"})
        assert refused.status_code == 422
        known = "shopify, etsy, printify, example"
        assert refused.json()["detail"].endswith(f"the platforms are {known}")
        page = client.get("/accounts")
        assert page.status_code == 200
        assert "Example" in page.text
        assert client.get("/metrics").status_code == 200
    with pool.connection() as connection:
        woken = connection.execute("SELECT kind, job_type FROM sync_jobs").fetchall()
    assert woken == [("listings", "webhook_triggered")]


def test_an_account_of_a_plugin_platform_is_disconnected(
    deployment: Deployment, pool: ConnectionPool
) -> None:
    deployment.connect()
    done = deployment.headway("disconnect", "--seller", "acme", "--platform", "example")
    assert done.returncode == 0, done.stderr
    with pool.connection() as connection:
        accounts = connection.execute("SELECT platform, status FROM connected_accounts").fetchall()
        jobs = connection.execute("SELECT status FROM sync_jobs").fetchall()
    assert (accounts, jobs) == ([("example", "disconnected")], [("cancelled",)])


def test_a_platform_that_is_not_installed_is_refused_with_those_that_are(
    deployment: Deployment,
) -> None:
    for command in (
        ("connect", "5", "--seller", "acme"),
        ("jobs",),
        ("disconnect", "--seller", "a"),
    ):
        done = deployment.headway(*command, "--platform", "ebay")
        assert done.returncode == 2, done.stderr
        assert "the platforms are shopify, etsy, printify, example" in done.stderr
