"""A merchant's code becomes tokens of that shop, and of no other."""

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from headway.errors import (
    ConfigError,
    NotFoundError,
    PermanentError,
    TransientError,
    UnreadableError,
)
from headway.providers.shopify.oauth import ShopifyOAuth
from headway.providers.shopify.storefront import ShopAccess, shop_limit_key
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

ONE, TWO = "one.myshopify.com", "two.myshopify.com"
ACCESS = ShopAccess(client_id="sim-app", client_secret="hush-app-secret")


class OAuthServer:
    """The simulated shops, with the address where codes are exchanged for tokens."""

    def __init__(self, clock: VirtualClock) -> None:
        setups = [ShopSetup(domain=ONE), ShopSetup(domain=TWO)]
        self.shops = ShopifySimulator(clock, shops=setups)
        self.clock = clock
        self.codes = {"good": ONE}
        self.forms: list[dict[str, list[str]]] = []
        self.spoil: SimReply | None = None

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        if self.spoil is not None:
            return self.spoil
        if not path.endswith("/oauth/access_token"):
            return self.shops.handle(method, path, headers, body)
        self.forms.append(parse_qs(body.decode()))
        domain = self.codes.pop(self.forms[-1]["code"][0], None)
        if domain is None:
            return json_reply({"error": "invalid_request"}, status=400)
        token = self.shops.tokens(domain).issue(self.shops.elapsed_s())
        pair = {"access_token": token, "refresh_token": "shprt_1", "expires_in": 3600}
        return json_reply(pair)

    def consent(self, access: ShopAccess = ACCESS) -> ShopifyOAuth:
        return ShopifyOAuth(
            access=access,
            scopes="read_orders,read_products",
            url_template="http://shops.test/{shop}",
            clock=self.clock,
            timeout_s=30,
            transport=SimTransport(self.handle, self.clock),
        )


@pytest.fixture
def server(clock: VirtualClock) -> OAuthServer:
    return OAuthServer(clock)


def exchange(server: OAuthServer, code: str = "good") -> object:
    return server.consent().exchange(code, redirect_uri="https://x", verifier="v", shop=ONE)


def test_a_merchant_is_sent_to_the_page_of_that_shop(server: OAuthServer) -> None:
    url = urlsplit(
        server.consent().url(redirect_uri="https://x/back", state="s", challenge="c", shop=ONE)
    )
    assert url.path == f"/{ONE}/admin/oauth/authorize"
    assert parse_qs(url.query) == {
        "client_id": ["sim-app"],
        "scope": ["read_orders,read_products"],
        "redirect_uri": ["https://x/back"],
        "state": ["s"],
    }


def test_a_code_becomes_a_pair_that_rotates_and_the_shop_returns_its_name(
    server: OAuthServer,
) -> None:
    consent = server.consent()
    grant = consent.exchange("good", redirect_uri="https://x", verifier="v", shop=ONE)
    assert server.forms == [
        {
            "client_id": ["sim-app"],
            "client_secret": ["hush-app-secret"],
            "code": ["good"],
            "expiring": ["1"],
        }
    ]
    assert grant.refresh == "shprt_1"
    assert grant.access_until == server.clock.now() + timedelta(hours=1)
    shop_found = consent.find_shop(grant, shop=ONE)
    assert shop_found.shop == ONE
    assert consent.find_title(grant, shop_found)
    assert consent.limit_key(shop_found) == shop_limit_key("sim-app", ONE)
    assert [resource.key for resource in consent.resources(ONE)] == [shop_limit_key("sim-app", ONE)]


def test_a_code_is_good_once_and_the_secret_is_not_shown(server: OAuthServer) -> None:
    exchange(server)
    with pytest.raises(PermanentError, match="refuses the code") as raised:
        exchange(server)
    assert "hush" not in str(raised.value) + repr(server.consent())


@pytest.mark.parametrize(
    ("spoil", "error"),
    (
        (SimReply(status=503), TransientError),
        (SimReply(body=b"<html>"), UnreadableError),
        (json_reply({"data": {"shop": None}}), UnreadableError),
    ),
)
def test_a_failure_of_shopify_raises_shopifys_error(
    server: OAuthServer, spoil: SimReply, error: type[Exception]
) -> None:
    consent = server.consent()
    grant = consent.exchange("good", redirect_uri="https://x", verifier="v", shop=ONE)
    server.spoil = spoil
    with pytest.raises(error):
        consent.find_shop(grant, shop=ONE)


def test_a_token_of_another_shop_is_not_taken_for_this_one(server: OAuthServer) -> None:
    consent = server.consent()
    grant = consent.exchange("good", redirect_uri="https://x", verifier="v", shop=ONE)
    server.spoil = json_reply({"data": {"shop": {"name": "Two", "myshopifyDomain": TWO}}})
    with pytest.raises(NotFoundError, match=f"into {TWO}, and not into {ONE}"):
        consent.find_shop(grant, shop=ONE)


def test_an_app_without_a_name_or_a_secret_sends_nobody_anywhere(server: OAuthServer) -> None:
    for access in (ShopAccess(), ShopAccess(client_id="sim-app")):
        with pytest.raises(ConfigError, match="HEADWAY_SHOPIFY_CLIENT_SECRET"):
            server.consent(access).url(redirect_uri="https://x", state="s", challenge="c", shop=ONE)
