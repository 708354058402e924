"""`headway connect` with a link: what it prints, and what it refuses to begin without."""

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

Headway = Callable[..., Any]
SETTINGS = {
    "HEADWAY_PUBLIC_URL": "https://headway.example/",
    "HEADWAY_ETSY_KEYSTRING": "key",
    "HEADWAY_ETSY_SHARED_SECRET": "quiet",
    "HEADWAY_SHOPIFY_CLIENT_ID": "app",
    "HEADWAY_SHOPIFY_CLIENT_SECRET": "quiet",
}


@pytest.mark.parametrize(
    ("words", "platform"),
    ((("etsy",), PlatformName.ETSY), (("Foo.myshopify.com", "--link"), PlatformName.SHOPIFY)),
)
def test_a_link_holds_a_link_code_for_that_seller(
    on_database: Headway,
    pool: ConnectionPool,
    tmp_path: Path,
    words: tuple[str, ...],
    platform: PlatformName,
) -> None:
    told = on_database("connect", *words, "--seller", "acme", "--json", **SETTINGS).object()
    link = urlsplit(told["link"])
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
    shop = {PlatformName.SHOPIFY: "foo.myshopify.com"}.get(platform, "")
    assert (flow.user_id, flow.shop) == ("acme", shop)
    assert len(open_vault(None, tmp_path / "none").decrypt(flow.verifier)) >= 43


def test_a_person_is_told_how_long_it_works_and_what_etsy_must_know(on_database: Headway) -> None:
    said = on_database("connect", "etsy", "--seller", "acme", **SETTINGS).out
    assert said.startswith("https://headway.example/connect/etsy?seller=acme&ticket=")
    assert "it works once, until" in said
    assert "https://headway.example/connect/etsy/callback" in said


def test_what_is_not_set_is_named_before_anybody_is_sent_away(
    on_database: Headway, pool: ConnectionPool
) -> None:
    said = on_database("connect", "etsy", "--seller", "acme").complaint(2)
    for name in ("PUBLIC_URL", "ETSY_KEYSTRING", "ETSY_SHARED_SECRET"):
        assert f"HEADWAY_{name}" in said
    link = ("connect", "foo.myshopify.com", "--link", "--seller", "acme")
    said = on_database(*link, HEADWAY_PUBLIC_URL="https://x").complaint(2)
    assert "HEADWAY_SHOPIFY_CLIENT_ID and HEADWAY_SHOPIFY_CLIENT_SECRET" in said
    odd = {**SETTINGS, "HEADWAY_PUBLIC_URL": "headway.example"}
    said = on_database("connect", "etsy", "--seller", "acme", **odd).complaint(2)
    assert "HEADWAY_PUBLIC_URL must be an address" in said
    assert OAuthFlows(pool).secrets() == []
