"""`/connect/...` over a real server and a real database, with an independent platform."""

import base64
import hashlib
import hmac
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest
from psycopg_pool import ConnectionPool
from pydantic import SecretStr
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS

from headway.app import App, build
from headway.app.accounts import connect_account
from headway.app.providers import shared_vault
from headway.clock import fresh_secret
from headway.config import Settings
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import LimitKey, SellerId
from headway.core.limits.transitions import Quota, Resource
from headway.errors import NotFoundError, PermanentError, ProviderError, TransientError
from headway.providers.oauth import AuthorizedShop
from headway.providers.tokens import TokenGrant
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.platforms import ETSY, SHOPIFY
from headway_lab.virtual_clock import VirtualClock

DOMAIN = "one.myshopify.com"
RETURN_SECRET = "hush" * 8
RETURN_URL = "https://app.example/done?tab=2"
Execute = Callable[..., list[Any]]
numbers = itertools.count(1)


@dataclass
class Platform:
    """A platform's consent page and token endpoint, written from its documentation."""

    name: PlatformName
    clock: VirtualClock
    shop: str = "77"
    calls_a_day: int = 6
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    exchanged: list[str] = field(default_factory=list)
    fails: ProviderError | NotFoundError | None = None

    def agree(self, url: str) -> dict[str, str]:
        """Give consent at this URL; return the query of the redirect."""
        query = dict(parse_qsl(urlsplit(url).query))
        code = f"code-{next(numbers)}"
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def resources(self, shop: str) -> Sequence[Resource]:
        day = Quota(limit=self.calls_a_day, span_s=86_400)
        return (Resource(key=f"{self.name}:day:{shop}", rules=(day,)),)

    def url(self, *, redirect_uri: str, state: str, challenge: str, shop: str) -> str:
        values = {"redirect_uri": redirect_uri, "state": state, "challenge": challenge}
        return f"https://consent.example/{shop}?{urlencode(values)}"

    def exchange(self, code: str, *, redirect_uri: str, verifier: str, shop: str) -> TokenGrant:  # noqa: ARG002 - as the port has it
        self.exchanged.append(code)
        if self.fails is not None:
            raise self.fails
        consent = self.codes.pop(code, {})
        digest = hashlib.sha256(verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (consent.get("challenge"), consent.get("redirect_uri")) != (challenge, redirect_uri):
            raise PermanentError("the code is not good", provider=self.name, status=400)
        now = self.clock.now()
        return TokenGrant(
            access="hush-access",
            access_until=now + timedelta(hours=1),
            refresh="hush-refresh",
            refresh_until=now + timedelta(days=90),
        )

    def find_shop(self, grant: TokenGrant, *, shop: str) -> AuthorizedShop:  # noqa: ARG002 - as the port has it
        assert grant.access == "hush-access"
        return AuthorizedShop(shop=self.shop)

    def find_title(self, grant: TokenGrant, shop: AuthorizedShop) -> str:
        assert (grant.access, shop.shop) == ("hush-access", self.shop)
        return "Knots & <Ropes>"

    def limit_key(self, authorized: AuthorizedShop) -> LimitKey:
        return LimitKey(f"{self.name}:{authorized.shop}")

    def close(self) -> None:
        """Do nothing: no connection is open."""


@dataclass
class World:
    app: App
    api: httpx.Client
    clock: VirtualClock
    etsy: Platform
    shopify: Platform

    def link_code(self, platform: PlatformName = ETSY, seller: str = "acme") -> str:
        link_code = fresh_secret()
        flow = OAuthFlow(
            platform=platform,
            user_id=SellerId(seller),
            shop=DOMAIN if platform == SHOPIFY else "",
            verifier=shared_vault(self.app.settings).encrypt(fresh_secret()),
        )
        until = self.clock.now() + timedelta(hours=1)
        OAuthFlows(self.app.pool).open(flow, link_code=link_code, expires_at=until)
        return link_code

    def start(self, platform: PlatformName = ETSY, seller: str = "acme") -> str:
        """Open the link; return the URL of the platform's page."""
        params = {"ticket": self.link_code(platform, seller), "seller": seller}
        response = self.api.get(f"/connect/{platform}", params=params)
        assert response.status_code == 302, response.text
        return response.headers["location"]

    def back(self, query: dict[str, str], platform: PlatformName = ETSY) -> httpx.Response:
        return self.api.get(f"/connect/{platform}/callback", params=query)


@pytest.fixture
def execute(pool: ConnectionPool) -> Execute:
    def run(statement: str, *values: object) -> list[Any]:
        with pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def make(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> Iterator[Callable[..., World]]:
    ends: list[Callable[[], None]] = []

    def build_world(public_url: str | None = None) -> World:
        taken = listen("127.0.0.1", 0)
        here = address(taken)
        settings = Settings(
            data_dir=tmp_path,
            public_url=here if public_url is None else public_url,
            shopify_client_secret=SecretStr("hush-app"),
            return_urls="https://app.example/done",
            return_secret=SecretStr(RETURN_SECRET),
            etsy_keystring="app",
            etsy_shared_secret=SecretStr("hush-app"),
        )
        etsy, shopify = Platform(ETSY, clock), Platform(SHOPIFY, clock, shop=DOMAIN)
        consents = {ETSY: lambda: etsy, SHOPIFY: lambda: shopify}
        app = replace(build(settings, clock, pool), consents=consents)
        serving = SiteServer(create(app), taken)
        serving.start()
        api = httpx.Client(base_url=here, timeout=HTTP_TIMEOUT_S, trust_env=False, verify=NO_ROOTS)
        ends.extend((api.close, serving.stop))
        return World(app, api, clock, etsy, shopify)

    yield build_world
    for end in ends:
        end()


@pytest.fixture
def world(make: Callable[..., World]) -> World:
    return make()


def refused(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("text/html")
    assert "hush" not in response.text
    return response.text


def is_empty(execute: Execute) -> bool:
    tables = ("connected_accounts", "credential", "sync_jobs")
    return all(execute(f"SELECT count(*) FROM {table}") == [(0,)] for table in tables)


def test_a_shop_is_connected_with_its_jobs_and_its_tokens(world: World, execute: Execute) -> None:
    url = world.start()
    query = parse_qs(urlsplit(url).query)
    assert query["redirect_uri"] == [f"{world.api.base_url}connect/etsy/callback"]
    response = world.back(world.etsy.agree(url))
    assert response.status_code == 200
    assert "connected: Knots &amp; &lt;Ropes&gt;" in response.text
    assert response.headers["cache-control"] == "no-store"
    rows = "SELECT user_id, platform, shop, status, title FROM connected_accounts"
    assert execute(rows) == [("acme", "etsy", "77", "connected", "Knots & <Ropes>")]
    kinds = {row[0] for row in execute("SELECT kind FROM sync_jobs WHERE status = 'queued'")}
    assert kinds == {"orders", "listings", "payments"}
    vault = shared_vault(world.app.settings)
    stored = Credentials(world.app.pool).load(LimitKey("etsy:77"))
    assert {token.name: vault.decrypt(token.secret) for token in stored} == {
        "access": "hush-access", "refresh": "hush-refresh",
    }  # fmt: skip
    assert execute("SELECT count(*) FROM oauth_flows") == [(0,)]
    calls = world.app.limiter.calls_since("etsy:day:", world.clock.now() - timedelta(hours=1))
    assert len(calls) == 3, "the code, the shop, its name: each a call of the day"


def test_the_cookie_is_limited_to_the_flow_and_the_verifier_stays_secret(
    make: Callable[..., World], execute: Execute
) -> None:
    for public_url, is_secure in (("https://headway.example", True), ("http://x.example", False)):
        world = make(public_url)
        response = world.api.get("/connect/etsy", params={"ticket": world.link_code()})
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Path=/connect" in cookie
        assert "Max-Age=600" in cookie
        assert ("Secure" in cookie) is is_secure
        secret = cookie.partition("=")[2].partition(";")[0]
        ((verifier,),) = execute(
            "SELECT verifier FROM oauth_flows ORDER BY expires_at DESC LIMIT 1"
        )
        opened = shared_vault(world.app.settings).decrypt(bytes(verifier))
        assert secret not in response.headers["location"], "the platform sees only a digest"
        assert opened not in response.headers["location"] + cookie + bytes(verifier).decode()
        execute("DELETE FROM oauth_flows")


def test_an_invalid_link_code_is_refused(world: World, execute: Execute) -> None:
    used = world.link_code()
    world.api.get("/connect/etsy", params={"ticket": used})
    others = world.link_code(SHOPIFY)
    tries = [
        {},
        {"ticket": ""},
        {"ticket": "guess"},
        {"ticket": used},
        {"ticket": others},
        {"ticket": world.link_code(), "seller": "zenith"},
    ]
    old = world.link_code()
    for params in tries:
        refused(world.api.get("/connect/etsy", params=params), 403)
    world.clock.sleep(3601)
    refused(world.api.get("/connect/etsy", params={"ticket": old}), 403)
    assert is_empty(execute)


def test_another_browser_cannot_finish_the_flow(world: World, execute: Execute) -> None:
    query = world.etsy.agree(world.start())
    mine = hashlib.sha256(b"mine").hexdigest()
    tries = (
        (None, query, 403),
        ("guess", query, 403),
        ("mine", {**query, "state": mine}, 410),
        (None, {**query, "state": ""}, 403),
        (None, {**query, "state": "none"}, 403),
        ("mine", {**query, "state": "\u2603"}, 403),
    )
    for secret, params, status in tries:
        headers = {} if secret is None else {"cookie": f"headway_connect_etsy={secret}"}
        url = f"{world.api.base_url}connect/etsy/callback"
        response = httpx.get(
            url, params=params, headers=headers, timeout=HTTP_TIMEOUT_S, trust_env=False
        )
        refused(response, status)
    assert is_empty(execute)
    assert world.back(query).status_code == 200, "it is still there for who began it"


def test_a_flow_finishes_once_and_before_it_expires(world: World, execute: Execute) -> None:
    query = world.etsy.agree(world.start())
    secret = world.api.cookies["headway_connect_etsy"]
    assert world.back(query).status_code == 200
    assert "headway_connect_etsy" not in world.api.cookies
    again = httpx.get(
        f"{world.api.base_url}connect/etsy/callback",
        params=query,
        headers={"cookie": f"headway_connect_etsy={secret}"},
        timeout=HTTP_TIMEOUT_S,
        trust_env=False,
    )
    assert "already finished" in refused(again, 410)
    late = world.etsy.agree(world.start())
    world.clock.sleep(601)
    refused(world.back(late), 410)
    assert len(world.etsy.exchanged) == 1


def test_ten_concurrent_redirects_connect_once(world: World) -> None:
    world.etsy.calls_a_day = 12  # nine refused requests hold a permit each, briefly
    query = world.etsy.agree(world.start())
    secret = world.api.cookies["headway_connect_etsy"]
    cookie = {"cookie": f"headway_connect_etsy={secret}"}
    with ThreadPoolExecutor(10) as threads:
        sent = [
            threads.submit(
                httpx.get,
                f"{world.api.base_url}connect/etsy/callback",
                params=query,
                headers=cookie,
                trust_env=False,
                timeout=HTTP_TIMEOUT_S,
            )
            for _ in range(10)
        ]
    codes = sorted(future.result().status_code for future in sent)
    assert codes[0] == 200
    assert set(codes[1:]) <= {410, 503}
    assert len(world.etsy.exchanged) == 1


def test_a_denied_consent_changes_nothing(world: World, execute: Execute) -> None:
    state = world.etsy.agree(world.start())["state"]
    response = world.back({"error": "access_denied", "state": state})
    assert "Nothing was connected" in refused(response, 403)
    assert is_empty(execute)
    assert execute("SELECT count(*) FROM oauth_flows") == [(0,)]


def test_a_shop_of_another_seller_is_not_taken_over(world: World, execute: Execute) -> None:
    now = world.clock.now()
    connect_account(world.app.pool, SellerId("zenith"), "77", platform=ETSY, now=now)
    response = world.back(world.etsy.agree(world.start()))
    assert "77 is the shop of zenith" in refused(response, 409)
    assert execute("SELECT user_id FROM connected_accounts") == [("zenith",)]
    assert execute("SELECT count(*) FROM credential") == [(0,)], (
        "the other seller's tokens are unchanged"
    )


@pytest.mark.parametrize(
    ("error", "status"),
    (
        (TransientError("etsy answered 503", provider="etsy", status=503), 502),
        (PermanentError("etsy refused the code", provider="etsy", status=400), 502),
        (NotFoundError("this Etsy account has no shop"), 404),
    ),
)
def test_a_platform_that_fails_leaves_nothing_behind(
    world: World, execute: Execute, error: ProviderError | NotFoundError, status: int
) -> None:
    world.etsy.fails = error
    response = world.back(world.etsy.agree(world.start()))
    assert str(error) in refused(response, status)
    assert is_empty(execute)


def test_a_code_of_another_flow_is_refused_by_the_platform(world: World, execute: Execute) -> None:
    foreign = world.etsy.agree(world.start())
    mine = world.etsy.agree(world.start())
    refused(world.back({"code": foreign["code"], "state": mine["state"]}), 502)
    assert is_empty(execute)


def test_the_flow_can_be_retried_when_the_limit_is_used_up(world: World, execute: Execute) -> None:
    for _ in range(2):
        assert world.back(world.etsy.agree(world.start())).status_code == 200
    query = world.etsy.agree(world.start())
    assert "again in a minute" in refused(world.back(query), 503)
    assert len(world.etsy.exchanged) == 2, "no call beyond the limit"
    assert execute("SELECT count(*) FROM oauth_flows") == [(1,)], "the visit is not used up"


def test_a_limit_used_up_after_the_code_exchange_needs_a_new_link(
    world: World, execute: Execute
) -> None:
    world.etsy.calls_a_day = 1
    response = world.back(world.etsy.agree(world.start()))
    assert "headway connect" in refused(response, 503)
    assert len(world.etsy.exchanged) == 1
    assert is_empty(execute)


def test_a_shop_is_not_connected_if_its_tokens_cannot_be_stored(
    world: World, execute: Execute
) -> None:
    now = world.clock.now()
    shelf, until = Credentials(world.app.pool), now + timedelta(minutes=1)
    assert shelf.begin_refresh(LimitKey("etsy:77"), owner="x", now=now, lease_until=until)
    response = world.back(world.etsy.agree(world.start()))
    assert "being refreshed" in refused(response, 409)
    assert execute("SELECT status FROM connected_accounts") == [("disconnected",)]
    assert execute("SELECT count(*) FROM credential") == [(0,)]


def signed(query: dict[str, str]) -> dict[str, str]:
    text = "&".join(f"{name}={query[name]}" for name in sorted(query))
    return {**query, "hmac": hmac.digest(b"hush-app", text.encode(), "sha256").hex()}


def test_a_shopify_shop_needs_the_signed_redirect_of_shopify(
    world: World, execute: Execute
) -> None:
    url = world.start(SHOPIFY)
    assert urlsplit(url).path == f"/{DOMAIN}"
    query = {**world.shopify.agree(url), "shop": DOMAIN, "timestamp": "1772625600"}
    for wrong in (
        query,
        {**signed(query), "shop": "two.myshopify.com"},
        signed({**query, "shop": "two.myshopify.com"}),
    ):
        refused(world.back(wrong, SHOPIFY), 403)
    for odd in ("evil.example", "one.myshopify.com.evil.example", ""):
        refused(world.back(signed({**query, "shop": odd}), SHOPIFY), 422)
    assert is_empty(execute)
    assert not world.shopify.exchanged
    assert world.back(signed(query), SHOPIFY).status_code == 200
    rows = "SELECT user_id, platform, shop FROM connected_accounts"
    assert execute(rows) == [("acme", "shopify", DOMAIN)]


def test_without_a_public_url_the_page_does_not_exist(make: Callable[..., World]) -> None:
    world = make("")
    assert world.api.get("/connect/etsy").status_code == 404
    assert world.api.get("/connect/etsy/callback").status_code == 404


def test_an_invalid_public_url_is_reported(make: Callable[..., World]) -> None:
    world = make("headway.example")
    response = world.api.get("/connect/etsy", params={"ticket": world.link_code()})
    assert "HEADWAY_PUBLIC_URL" in refused(response, 503)


def test_a_database_outage_is_shown_on_a_page(world: World, pool: ConnectionPool) -> None:
    query = world.etsy.agree(world.start())
    pool.close()
    assert "database is down" in refused(world.back(query), 503)
