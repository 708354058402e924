"""Connect a shop at the simulated Etsy over real HTTP: link, consent, shop, webhook."""

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from psycopg_pool import ConnectionPool
from pydantic import SecretStr
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS

from headway.app import App, build
from headway.app.providers import shared_vault
from headway.clock import SystemClock, fresh_secret
from headway.config import Settings
from headway.core.accounts.pagination import PageRequest
from headway.core.catalog.listings import SellerId
from headway.providers.etsy.client import EtsyAccess, EtsyPlatform
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.platforms import ETSY
from headway_lab.simulators.etsy.simulator import EtsySimulator
from headway_lab.simulators.transport import serve

CLOCK = SystemClock()
SECRET = "whsec_c2ltLWhvb2stc2VjcmV0"


@pytest.fixture
def etsy() -> EtsySimulator:
    made = EtsySimulator(CLOCK, delay_s=(0, 0.01), hook_secret=SECRET)
    made.add_shop(77, name="Mugs")
    return made


@pytest.fixture
def app(pool: ConnectionPool, tmp_path: Path, etsy: EtsySimulator) -> Iterator[App]:
    """Yield an application whose page is served at its public address."""
    taken = listen("127.0.0.1", 0)
    with serve(etsy.handle, CLOCK) as server:
        settings = Settings(
            data_dir=tmp_path,
            public_url=address(taken),
            etsy_url=server.url,
            etsy_keystring="sim-keystring",
            etsy_shared_secret=SecretStr("sim-shared-secret"),
            etsy_webhook_secret=SecretStr(SECRET),
        )
        made = build(settings, CLOCK, pool)
        serving = SiteServer(create(made), taken)
        serving.start()
        try:
            yield made
        finally:
            serving.stop()


def link(app: App, seller: str = "acme") -> str:
    link_code, until = fresh_secret(), CLOCK.now() + timedelta(hours=1)
    verifier = shared_vault(app.settings).encrypt(fresh_secret())
    flow = OAuthFlow(platform=ETSY, user_id=SellerId(seller), shop="", verifier=verifier)
    OAuthFlows(app.pool).open(flow, link_code=link_code, expires_at=until)
    query = urlencode({"seller": seller, "ticket": link_code})
    return f"{app.settings.public_url}connect/etsy?{query}"


def connect_in_browser(app: App) -> httpx.Response:
    """Follow the redirects as a browser of a consenting user; return the last page."""
    with httpx.Client(trust_env=False, timeout=HTTP_TIMEOUT_S, verify=NO_ROOTS) as browser:
        url = browser.get(link(app)).headers["location"]
        return browser.get(browser.get(url).headers["location"])


def connector(app: App) -> EtsyPlatform:
    access = EtsyAccess(keystring="sim-keystring", shared_secret="sim-shared-secret")
    account = ConnectedShops(app.pool).of_seller(SellerId("acme"), ETSY)
    return EtsyPlatform(
        account.bare,
        url=app.settings.etsy_url,
        access=access,
        token_store=Credentials(app.pool),
        vault=shared_vault(app.settings),
        clock=CLOCK,
    )


def test_a_seller_connects_a_shop_and_its_connector_finds_the_tokens(
    app: App, etsy: EtsySimulator
) -> None:
    response = connect_in_browser(app)
    assert response.status_code == 200, response.text
    assert "connected: Mugs" in response.text
    account = ConnectedShops(app.pool).of_seller(SellerId("acme"), ETSY)
    assert (account.shop, account.title, account.status) == ("77", "Mugs", "connected")
    with contextlib.closing(connector(app)) as worker:
        assert not worker.needs_token()
        ask = PageRequest(what="listings", values={"state": "active", "limit": 10, "offset": 0})
        assert worker.read(ask).total == 0


def test_etsy_counts_every_call_of_the_flow(app: App, etsy: EtsySimulator) -> None:
    connect_in_browser(app)
    hour_ago = CLOCK.now() - timedelta(hours=1)
    ours = app.limiter.calls_since("etsy:sim-keystring", hour_ago)
    assert len(ours) == 3
    assert etsy.log.calls == 3


def test_the_flow_requests_only_the_scopes_that_we_read(app: App) -> None:
    sent_on = httpx.get(link(app), timeout=HTTP_TIMEOUT_S, trust_env=False)
    url = sent_on.headers["location"]
    query = parse_qs(urlsplit(url).query)
    assert query["scope"] == ["transactions_r listings_r shops_r"]
    assert query["code_challenge_method"] == ["S256"]
    assert len(query["code_challenge"][0]) == 43


def test_a_signed_webhook_of_etsy_makes_a_job_of_the_shop_due(
    app: App, etsy: EtsySimulator
) -> None:
    connect_in_browser(app)
    headers, body = etsy.hook("order.paid", 77, 4711)
    url = f"{app.settings.public_url}webhooks/etsy"
    response = httpx.post(
        url, content=body, headers=headers, timeout=HTTP_TIMEOUT_S, trust_env=False
    )
    assert (response.status_code, response.json()) == (200, {"fate": "taken"})
    with app.pool.connection() as connection:
        woken = connection.execute(
            "SELECT kind FROM sync_jobs WHERE job_type = 'webhook_triggered' AND score = 13"
        ).fetchall()
    assert woken == [("orders",)]
