"""The API version is a setting; its end of support is announced, and a fall forward detected."""

import contextlib
from datetime import UTC, datetime

import pytest

from headway.config import Settings, load
from headway.core.catalog.listings import SellerId
from headway.core.catalog.storefront import Shop
from headway.errors import ConfigError, UnreadableError
from headway.providers.shopify.api_version import DEFAULT_VERSION, version_warning
from headway.providers.shopify.storefront import (
    ShopAccess,
    ShopifyStorefront,
    shop_limit_key,
    store_tokens,
)
from headway.providers.vault import Vault
from headway_lab.conformance.token_store import MemoryTokenStore
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

DOMAIN = "one.myshopify.com"


@pytest.mark.parametrize(
    ("today", "words"),
    (
        (datetime(2026, 9, 29, tzinfo=UTC), ""),
        (datetime(2026, 10, 1, tzinfo=UTC), "2026-04 may end on 2027-04-01"),
        (datetime(2027, 4, 1, tzinfo=UTC), "2026-04 may have ended on 2027-04-01"),
    ),
)
def test_the_end_of_support_is_announced_half_a_year_before(today: datetime, words: str) -> None:
    warning = version_warning("2026-04", today)
    assert words in warning
    assert bool(warning) is bool(words)


@pytest.mark.parametrize("version", ("2026-05", "unstable", "2026-4", "26-04"))
def test_only_a_quarterly_version_is_accepted(version: str) -> None:
    with pytest.raises(ConfigError, match="HEADWAY_SHOPIFY_API_VERSION"):
        load({"HEADWAY_SHOPIFY_API_VERSION": version})


def test_the_default_is_the_version_of_our_documents() -> None:
    assert Settings.model_fields["shopify_api_version"].default == DEFAULT_VERSION


def test_requests_use_the_version_and_an_answer_in_another_one_is_refused(
    clock: VirtualClock,
) -> None:
    setup = ShopSetup(domain=DOMAIN)
    shops = ShopifySimulator(clock, shops=[setup], version="2026-07", delay_s=(0, 0))
    token_store, vault = MemoryTokenStore(), Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
    key = shop_limit_key("", DOMAIN)
    store_tokens(token_store, vault, key, clock=clock, access=setup.access_token)

    def shop_of(version: str) -> ShopifyStorefront:
        return ShopifyStorefront(
            Shop(id="1", user_id=SellerId("acme"), domain=DOMAIN),
            url="https://shop.test/{shop}",
            access=ShopAccess(version=version),
            token_store=token_store,
            vault=vault,
            clock=clock,
            transport=SimTransport(shops.handle, clock),
        )

    with contextlib.closing(shop_of("2026-07")) as newer:
        assert newer.details().locations
    with (
        contextlib.closing(shop_of("2026-04")) as older,
        pytest.raises(UnreadableError, match="version 2026-07 of its API, not 2026-04"),
    ):
        older.details()
