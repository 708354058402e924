"""The page over a real server, a real database and the real engine."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg_pool import ConnectionPool
from pydantic import SecretStr, TypeAdapter
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS
from tests.web.keys import auth_headers

from headway.app import App, build
from headway.app.accounts import connect_account
from headway.clock import SystemClock
from headway.config import Settings
from headway.core.catalog.listings import SellerId, Sku, Wait
from headway.errors import ConfigError
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.credentials import Credentials
from headway.store.server.embedded import EmbeddedServer
from headway.store.status import Overview
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

SIGN_IN = SignIn()
SHOP = ShopSetup(domain="acme.myshopify.com", locations=("Miami FL",))
DAY = timedelta(days=1)
OVERVIEW = TypeAdapter(Overview)
PATIENCE_S = 20
SEATS = "Parts in the next call"


@dataclass
class SupplierCatalog:
    parts: dict[str, SupplierPart] = field(default_factory=dict)

    def put(self, sku: str, price: str, quantity: int) -> None:
        amount = Decimal(price)
        stock = {"Miami FL": quantity}
        self.parts[sku] = SupplierPart(sku=sku, list_price=amount, net_price=amount, stock=stock)

    def lookup(self, sku: str) -> SupplierPart | None:
        return self.parts.get(sku)


@dataclass
class SyncPipeline:
    """The engine, its supplier and its clock; `run` advances the time."""

    app: App
    clock: VirtualClock
    shelf: SupplierCatalog
    shops: ShopifySimulator

    def connect(self, seller: str = "acme") -> None:
        """Connect the shop, and list there what the supplier has, at our price."""
        settings = self.app.settings
        connect_account(
            self.app.pool, SellerId(seller), SHOP.domain, rehearses=False, now=self.clock.now()
        )
        store_tokens(
            Credentials(self.app.pool),
            open_vault(None, settings.data_dir),
            shop_limit_key("", SHOP.domain),
            clock=self.clock,
            access=SHOP.access_token,
        )
        for sku, part in self.shelf.parts.items():
            assert part.list_price is not None
            price = part.list_price * Decimal("1.1")
            self.shops.seed_product(SHOP.domain, sku, price=price, quantities=part.stock)

    def push(self) -> None:
        """Write to the shop until nothing is left to write."""
        push = self.app.push("test")
        while True:
            result = push.step()
            if isinstance(result, Wait) and result.why == "nothing is to be pushed":
                return
            if isinstance(result, Wait):
                self.clock.sleep(max(0.0, (result.until - self.clock.now()).total_seconds()))

    def add(self, *skus: str, seller: str = "acme") -> None:
        keys = [(SellerId(seller), Sku(sku)) for sku in skus]
        self.app.listings.add(keys, policy=self.app.policy, now=self.clock.now())

    def run(self, span: timedelta) -> None:
        fetch = self.app.fetch("test")
        until = self.clock.now() + span
        while self.clock.now() < until:
            result = fetch.step()
            if isinstance(result, Wait):
                wait_s = (min(result.until, until) - self.clock.now()).total_seconds()
                self.clock.sleep(max(0.0, wait_s))


@pytest.fixture
def pipeline(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> SyncPipeline:
    settings = Settings(
        policy="rolling",
        data_dir=tmp_path,
        boeing_url="http://supplier.test",
        boeing_client_id=SIGN_IN.client_id,
        boeing_client_secret=SecretStr(SIGN_IN.client_secret),
        boeing_username=SIGN_IN.username,
        boeing_password=SecretStr(SIGN_IN.password),
        shopify_url="http://shop.test/{shop}",
        drift="off",
    )
    shelf, shops = SupplierCatalog(), ShopifySimulator(clock, shops=[SHOP])
    supplier = BoeingSimulator(shelf, clock, sign_in=SIGN_IN, token_life_s=86_400)
    app = build(
        settings,
        clock,
        pool,
        transport=SimTransport(supplier.handle, clock),
        shop_transport=SimTransport(shops.handle, clock),
    )
    app = replace(app, rule=replace(app.rule, poll=timedelta(hours=1)))
    return SyncPipeline(app=app, clock=clock, shelf=shelf, shops=shops)


@pytest.fixture
def page(pipeline: SyncPipeline) -> Iterator[httpx.Client]:
    """Yield a client of the page, served by a real server."""
    listener = listen("127.0.0.1", 0)
    server = SiteServer(create(pipeline.app, refresh_s=0.02), listener)
    server.start()
    try:
        with httpx.Client(
            base_url=address(listener),
            headers=auth_headers(pipeline.app.pool),
            timeout=HTTP_TIMEOUT_S,
            trust_env=False,
            verify=NO_ROOTS,
        ) as client:
            yield client
    finally:
        server.stop()


def events(response: httpx.Response) -> Iterator[str]:
    """Yield the data of each server-sent event."""
    data: list[str] = []
    for text in response.iter_lines():
        if text.startswith("data: "):
            data.append(text.removeprefix("data: "))
        elif not text and data:
            yield "\n".join(data)
            data = []


def wait_for(stream: Iterator[str], condition: Callable[[str], bool]) -> str:
    """Return the first event that matches; the timeout of the client bounds each read."""
    give_up_s = SystemClock().monotonic() + PATIENCE_S
    for event in stream:
        if condition(event):
            return event
        assert SystemClock().monotonic() < give_up_s, "the event never came"
    pytest.fail("the stream ended without the event")


def wait_until(page: httpx.Client, condition: Callable[[Overview], bool]) -> Overview:
    """Return the first status that matches: the feed may still hold the last one."""
    give_up_s = SystemClock().monotonic() + PATIENCE_S
    while True:
        status = OVERVIEW.validate_json(page.get("/api/sync/status").content)
        if condition(status):
            return status
        assert SystemClock().monotonic() < give_up_s, status


def stock_twelve(pipeline: SyncPipeline) -> None:
    skus = [f"WF{number:03}" for number in range(12)]
    for sku in skus:
        pipeline.shelf.put(sku, "10.00", 5)
    pipeline.add(*skus)


def test_the_page_shows_the_current_state(pipeline: SyncPipeline, page: httpx.Client) -> None:
    stock_twelve(pipeline)
    pipeline.run(DAY)
    pipeline.shelf.put("WF003", "12.50", 7)
    pipeline.run(DAY)
    answer = page.get("/")
    assert answer.status_code == 200
    text = answer.text
    assert "12.50" in text
    assert '<span class="old">10.00</span>' in text
    assert "10 of 10 seats" in text
    assert "10 of 10" in text
    assert 'id="countdown"' in text
    assert "part token" in text


def test_the_page_shows_both_prices_and_the_time_between_them(
    pipeline: SyncPipeline, page: httpx.Client
) -> None:
    stock_twelve(pipeline)
    pipeline.connect()
    pipeline.run(DAY)
    pipeline.push()
    pipeline.shelf.put("WF003", "12.50", 7)
    pipeline.run(DAY)
    waiting = page.get("/").text
    assert '<td class="fate waiting"' in waiting
    pipeline.push()
    status = wait_until(page, lambda overview: overview.changes[0].fate == "written")
    change = status.changes[0]
    assert (change.price_old, change.price_new) == (Decimal(10), Decimal("12.5"))
    assert (change.shop_old, change.shop_new) == (Decimal("11.00"), Decimal("13.75"))
    assert status.storefront.shops[0].in_step == 12
    text = page.get("/changes").text
    assert '<span class="old">11.00</span>' in text
    assert "<b>13.75</b>" in text
    assert "<b>in the shop</b>" in text
    assert "<b>12</b> of 12 up to date" in text


def test_a_held_change_shows_both_prices_its_reason_and_the_actions(
    pipeline: SyncPipeline, page: httpx.Client
) -> None:
    sku = "O'RING <9>"
    pipeline.shelf.put(sku, "10.00", 5)
    pipeline.connect()
    pipeline.add(sku)
    pipeline.run(DAY)
    pipeline.push()
    pipeline.shelf.put(sku, "0.50", 5)
    pipeline.run(DAY)
    text = page.get("/changes").text
    assert '<td class="fate held"' in text
    assert "The price would fall by 95.0 %, from 11.00 to 0.55" in text
    assert "O&#39;RING &lt;9&gt;" in text
    assert 'data-verb="POST /api/sync/approve"' in text
    assert 'data-verb="POST /api/sync/reject"' in text
    assert 'href="/parts/O%27RING%20%3C9%3E?seller=acme"' in text
    assert pipeline.shops.shown(SHOP.domain, sku).price == Decimal("11.00")  # type: ignore[union-attr]


def test_a_disconnected_shop_shows_the_reason_and_what_to_do(
    pipeline: SyncPipeline, page: httpx.Client
) -> None:
    pipeline.connect()
    ConnectedShops(pipeline.app.pool).disconnect(
        SellerId("acme"), "the bill", now=pipeline.clock.now()
    )
    text = page.get("/changes").text
    assert "Disconnected: the bill." in text
    assert "headway connect acme.myshopify.com --seller acme" in text


def test_an_empty_database_has_its_own_page(page: httpx.Client) -> None:
    text = page.get("/").text
    assert "No parts are listed yet" in text
    assert "No calls yet" in text
    assert "No changes yet" in text
    assert "Nothing is waiting for a decision" in text
    assert "banner" not in text.replace('id="banners"', "")
    text = page.get("/changes").text
    assert "No shop is connected" in text
    assert "headway connect SHOP --seller SELLER" in text
    assert "Nothing is held" in text
    assert "Nothing is parked" in page.get("/trouble").text
    assert "No account is connected" in page.get("/accounts").text


def test_a_part_number_is_escaped_on_the_page(pipeline: SyncPipeline, page: httpx.Client) -> None:
    pipeline.shelf.put("<script>alert(1)</script>", "10.00", 5)
    pipeline.add("<script>alert(1)</script>")
    text = page.get("/").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_the_stream_shows_a_new_call(pipeline: SyncPipeline, page: httpx.Client) -> None:
    stock_twelve(pipeline)
    with page.stream("GET", "/live") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = events(response)
        assert "No calls yet" in next(stream)
        pipeline.run(DAY)
        event = wait_for(stream, lambda text: "10 of 10</td>" in text)
    assert "<td" in event
    assert "<html" not in event


def test_a_stream_ends_and_sends_a_retry_time(pipeline: SyncPipeline) -> None:
    listener = listen("127.0.0.1", 0)
    server = SiteServer(create(pipeline.app, refresh_s=0.02, stream_life_s=0.1), listener)
    server.start()
    try:
        with httpx.stream(
            "GET",
            f"{address(listener)}live",
            headers=auth_headers(pipeline.app.pool),
            trust_env=False,
            timeout=HTTP_TIMEOUT_S,
        ) as response:
            whole = response.read().decode()
    finally:
        server.stop()
    assert whole.startswith("retry: 1000\n")
    assert whole.endswith("\n\n")


def test_an_open_stream_does_not_delay_shutdown(pipeline: SyncPipeline) -> None:
    listener = listen("127.0.0.1", 0)
    server = SiteServer(create(pipeline.app, refresh_s=30), listener)
    server.start()
    with httpx.stream(
        "GET",
        f"{address(listener)}live",
        headers=auth_headers(pipeline.app.pool),
        trust_env=False,
        timeout=HTTP_TIMEOUT_S,
    ) as response:
        stream = events(response)
        next(stream)
        server.stop()
        assert not server._thread.is_alive()
        assert list(stream) == [], "it ended in good order"


@pytest.mark.parametrize("path", ("/", "/api/sync/status", "/healthz", "/static/page.css", "/none"))
def test_every_response_has_a_strict_content_security_policy(page: httpx.Client, path: str) -> None:
    headers = page.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_the_status_has_the_documented_type(pipeline: SyncPipeline, page: httpx.Client) -> None:
    stock_twelve(pipeline)
    pipeline.run(DAY)
    answer = page.get("/api/sync/status")
    status = OVERVIEW.validate_json(answer.content)
    assert status.counts.total == 12
    assert status.counts.fresh + status.counts.unread + status.counts.stale == 12
    assert len(status.next_call.seats) == 10
    assert sum(status.calls_per_hour) == status.spent.day_count
    assert status.spent.fill == 1
    document = page.get("/openapi.json").json()
    reply = document["paths"]["/api/sync/status"]["get"]["responses"]["200"]
    assert reply["content"]["application/json"]["schema"]["$ref"].endswith("/Overview")


def test_the_documentation_of_the_framework_which_loads_from_another_host_is_not_served(
    page: httpx.Client,
) -> None:
    assert "swagger" not in page.get("/docs").text.lower()
    assert page.get("/redoc").status_code == 404


class Outage:
    """Refuses connections to one database, as if its server were stopped."""

    def __init__(self, app: App, admin_dsn: str) -> None:
        self._name = app.pool.conninfo.rsplit("/", 1)[1].partition("?")[0]
        self._admin_dsn = admin_dsn

    def begin(self) -> None:
        self._run(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false")
        self._run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'"
        )

    def end(self) -> None:
        self._run(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS true")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._admin_dsn, autocommit=True) as connection:
            connection.execute(statement)


def test_the_page_reports_a_database_outage_and_recovers(
    pipeline: SyncPipeline, page: httpx.Client, postgres: EmbeddedServer
) -> None:
    stock_twelve(pipeline)
    outage = Outage(pipeline.app, postgres.dsn("postgres"))
    with page.stream("GET", "/live") as response:
        stream = events(response)
        assert SEATS in next(stream)
        outage.begin()
        try:
            event = wait_for(stream, lambda text: 'id="banner-down"' in text)
            assert "The database has not answered since" in event
            assert SEATS in event, "what was known stays, greyed"
            assert "inert" in event
            answer = page.get("/")
            assert answer.status_code == 503
            assert "The database is not responding" in answer.text
            assert "Parts in the next call" not in answer.text, (
                "nobody can be known, so nothing is shown"
            )
            assert "WF001" not in page.get("/parts").text
            problem = page.get("/api/sync/status")
            assert problem.status_code == 503
            assert problem.headers["content-type"] == "application/problem+json"
            assert page.get("/healthz").status_code == 200
        finally:
            outage.end()
        wait_for(stream, lambda text: SEATS in text and "banner-down" not in text)
    assert page.get("/").status_code == 200


def test_a_port_in_use_is_an_error_with_a_hint() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} on 127.0.0.1 is in use.*--port 0"):
            listen("127.0.0.1", port)


def test_an_address_of_another_host_is_an_error() -> None:
    with pytest.raises(ConfigError, match="HEADWAY_WEB_HOST"):
        listen("192.0.2.1", 0)
    with pytest.raises(ConfigError, match="HEADWAY_WEB_HOST"):
        listen("no.such.host.invalid", 0)
