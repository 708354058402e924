"""`headway connect` with a link: what it prints, and which settings it needs."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.core.accounts.jobs import PlatformName
from headway.providers.vault import open_vault
from headway.store.accounts.oauth_flows import OAuthFlows
from headway_lab.platforms import ETSY, SHOPIFY

Headway = Callable[..., Any]
SETTINGS = {
    "HEADWAY_PUBLIC_URL": "https://headway.example/",
    "HEADWAY_ETSY_KEYSTRING": "key",
    "HEADWAY_ETSY_SHARED_SECRET": "quiet",
    "HEADWAY_SHOPIFY_CLIENT_ID": "app",
    "HEADWAY_SHOPIFY_CLIENT_SECRET": "quiet",
}


@pytest.mark.parametrize(
    ("arguments", "platform"),
    ((("etsy",), ETSY), (("Foo.myshopify.com", "--link"), SHOPIFY)),
)
def test_a_link_holds_a_link_code_for_that_seller(
    on_database: Headway,
    pool: ConnectionPool,
    tmp_path: Path,
    arguments: tuple[str, ...],
    platform: PlatformName,
) -> None:
    reply = on_database("connect", *arguments, "--seller", "acme", "--json", **SETTINGS).object()
    link = urlsplit(reply["link"])
    query = parse_qs(link.query)
    assert (link.netloc, link.path) == ("headway.example", f"/connect/{platform}")
    assert query["seller"] == ["acme"]
    now = SystemClock().now()
    flow = OAuthFlows(pool).begin(
        platform,
        link_code=query["ticket"][0],
        state="s",
        expires_at=now + timedelta(minutes=1),
        now=now,
    )
    assert flow is not None
    shop = {SHOPIFY: "foo.myshopify.com"}.get(platform, "")
    assert (flow.user_id, flow.shop) == ("acme", shop)
    assert len(open_vault(None, tmp_path / "none").decrypt(flow.verifier)) >= 43


def test_the_output_shows_the_expiry_and_the_callback_url(on_database: Headway) -> None:
    output = on_database("connect", "etsy", "--seller", "acme", **SETTINGS).out
    assert output.startswith("https://headway.example/connect/etsy?seller=acme&ticket=")
    assert "it works once, until" in output
    assert "https://headway.example/connect/etsy/callback" in output


def test_missing_settings_are_named_and_no_link_is_created(
    on_database: Headway, pool: ConnectionPool
) -> None:
    message = on_database("connect", "etsy", "--seller", "acme").error(2)
    for name in ("PUBLIC_URL", "ETSY_KEYSTRING", "ETSY_SHARED_SECRET"):
        assert f"HEADWAY_{name}" in message
    link = ("connect", "foo.myshopify.com", "--link", "--seller", "acme")
    message = on_database(*link, HEADWAY_PUBLIC_URL="https://x").error(2)
    assert "HEADWAY_SHOPIFY_CLIENT_ID and HEADWAY_SHOPIFY_CLIENT_SECRET" in message
    invalid = {**SETTINGS, "HEADWAY_PUBLIC_URL": "headway.example"}
    message = on_database("connect", "etsy", "--seller", "acme", **invalid).error(2)
    assert "HEADWAY_PUBLIC_URL must be an address" in message
    assert OAuthFlows(pool).secrets() == []
