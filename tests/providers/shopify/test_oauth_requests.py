"""A merchant lets the app in: the link, the signature on the way back, the code for tokens."""

import hmac
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from headway.errors import InvalidError, PermanentError
from headway.providers.shopify.api import ShopAccess
from headway.providers.shopify.oauth_requests import check_callback, consent_url, exchange_code
from headway.providers.tokens import NEVER
from headway_lab.simulators.reply import json_reply
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

DOMAIN = "one.myshopify.com"
SECRET = "sim-app-secret"
APP = ShopAccess(client_id="sim-app", client_secret=SECRET)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def shops(clock: VirtualClock) -> ShopifySimulator:
    return ShopifySimulator(clock, shops=[ShopSetup(domain=DOMAIN)])


def change(shops: Any, clock: VirtualClock, code: str, **values: Any) -> Any:
    handle = values.pop("handle", shops.handle)
    return exchange_code(
        DOMAIN,
        code,
        **{"access": APP, **values},
        clock=clock,
        url="http://shops.test/{shop}",
        transport=SimTransport(handle, clock),
    )


def test_the_link_leads_to_the_shops_own_page_with_what_is_asked() -> None:
    link = consent_url(
        DOMAIN,
        client_id="app",
        scopes=("read_orders", "read_products"),
        redirect_uri="https://headway.example/connect/shopify/callback",
        state="s & t",
    )
    parts = urlsplit(link)
    assert (
        f"{parts.scheme}://{parts.netloc}{parts.path}" == f"https://{DOMAIN}/admin/oauth/authorize"
    )
    assert dict(parse_qsl(parts.query)) == {
        "client_id": "app",
        "scope": "read_orders,read_products",
        "redirect_uri": "https://headway.example/connect/shopify/callback",
        "state": "s & t",
    }


@pytest.mark.parametrize(
    "shop", ("evil.example", "one.myshopify.com.evil.example", "one.myshopify.com/x", "", "ONE")
)
def test_no_link_leads_elsewhere(shop: str) -> None:
    with pytest.raises(InvalidError):
        consent_url(shop, client_id="a", scopes=(), redirect_uri="https://h.example", state="s")


def test_the_way_back_is_signed_as_a_whole(shops: ShopifySimulator) -> None:
    back = shops.consent(DOMAIN, "some state")
    assert check_callback(back, SECRET)
    assert not check_callback(back, "another secret")
    assert not check_callback(back, "")
    for name in back:
        assert not check_callback({**back, name: back[name][:-1] + "x"}, SECRET)
        assert not check_callback({key: back[key] for key in back if key != name}, SECRET)
    assert not check_callback({**back, "extra": "1"}, SECRET)
    assert not check_callback({**back, "hmac": "é"}, SECRET)


def test_a_code_is_changed_once_for_a_pair(shops: ShopifySimulator, clock: VirtualClock) -> None:
    code = shops.consent(DOMAIN, "s")["code"]
    grant = change(shops, clock, code)
    assert grant.refresh is not None
    assert 3000 < (grant.access_until - clock.now()).total_seconds() <= 3600
    with pytest.raises(PermanentError, match="refuses the code"):
        change(shops, clock, code)


def test_a_token_that_comes_alone_never_dies(shops: ShopifySimulator, clock: VirtualClock) -> None:
    grant = change(shops, clock, "x", handle=lambda *_: json_reply({"access_token": "shpat_1"}))
    assert (grant.access, grant.refresh, grant.access_until) == ("shpat_1", None, NEVER)


def test_a_wrong_secret_is_reported_and_not_shown(
    shops: ShopifySimulator, clock: VirtualClock
) -> None:
    code = shops.consent(DOMAIN, "s")["code"]
    wrong = ShopAccess(client_id="sim-app", client_secret="hush-hush-hush")
    with pytest.raises(PermanentError, match="HEADWAY_SHOPIFY_CLIENT_ID") as caught:
        change(shops, clock, code, access=wrong)
    assert "hush" not in str(caught.value)


def test_one_parameter_cannot_pass_for_two() -> None:
    text = "code=0907a61c&host=YWJj==&shop=one.myshopify.com"
    mac = hmac.new(b"hush", text.encode(), sha256).hexdigest()
    query = {"code": "0907a61c", "host": "YWJj==", "shop": "one.myshopify.com", "hmac": mac}
    assert check_callback(query, "hush")
    joined = {"code": "0907a61c&host=YWJj==", "shop": "one.myshopify.com", "hmac": mac}
    assert not check_callback(joined, "hush")
    assert not check_callback({**query, "more": "1"}, "hush")
