"""The record of Shopify: the storefront, and a platform, under one limit for each shop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headway.core.accounts.jobs import Account, DataKind
from headway.errors import ConfigError
from headway.providers.provider import (
    ConsentRole,
    KeyedLimit,
    PlatformRole,
    Provider,
    ProviderContext,
    StorefrontRole,
    TokenEntry,
    WebhookRole,
)
from headway.providers.shopify.access_scopes import grant_advice, missing_scopes
from headway.providers.shopify.api_version import version_warning
from headway.providers.shopify.limits import POINTS_PER_S, shop_limit_key, shop_resource
from headway.providers.shopify.shops import shop_domain
from headway.providers.shopify.webhooks import is_signed, parse_webhook

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from pydantic import SecretStr

    from headway.core.accounts.pagination import Paginator
    from headway.core.catalog.listings import LimitKey
    from headway.core.catalog.storefront import PriceWrite, Shop
    from headway.core.limits.transitions import Resource
    from headway.providers.access_scopes import AccessScope
    from headway.providers.recordings import RecordingRule
    from headway.providers.shopify.api import ShopAccess
    from headway.providers.shopify.oauth import ShopifyOAuth
    from headway.providers.shopify.platform import ShopifyPlatform
    from headway.providers.shopify.storefront import ShopifyStorefront
    from headway.providers.tokens import AppClient


class ShopifySettings(Protocol):
    """The settings that Shopify's clients read."""

    shopify_url: str
    shopify_client_id: str
    shopify_client_secret: SecretStr
    shopify_scopes: str
    shopify_api_version: str
    shopify_timeout_s: float
    platform_timeout_s: float
    currency: str


def _secret(settings: ShopifySettings) -> str:
    return settings.shopify_client_secret.get_secret_value()


def _access(settings: ShopifySettings) -> ShopAccess:
    from headway.providers.shopify.api import ShopAccess

    return ShopAccess(
        client_id=settings.shopify_client_id,
        client_secret=_secret(settings),
        version=settings.shopify_api_version,
    )


def _warning(settings: ShopifySettings, now: datetime) -> str:
    return version_warning(settings.shopify_api_version, now)


def _app(settings: ShopifySettings) -> AppClient | None:
    from headway.providers.tokens import AppClient

    secret = _secret(settings)
    if not settings.shopify_client_id or not secret:
        return None
    return AppClient(client_id=settings.shopify_client_id, client_secret=secret)


def _scope_advice(settings: ShopifySettings, shop: str, seller: str) -> str:
    return grant_advice(shop, seller, has_public_app=_app(settings) is not None)


def _api_version(settings: ShopifySettings) -> str:
    return settings.shopify_api_version


def _address(settings: ShopifySettings, shop: str) -> str:
    return settings.shopify_url.format(shop=shop)


def _storefront(context: ProviderContext, shop: Shop) -> ShopifyStorefront:
    from headway.providers.shopify.storefront import ShopifyStorefront

    settings: ShopifySettings = context.settings
    return ShopifyStorefront(
        shop,
        url=settings.shopify_url,
        access=_access(settings),
        currency=shop.currency or settings.currency,
        **context.client_arguments(timeout_s=settings.shopify_timeout_s),
    )


def _platform(context: ProviderContext, account: Account) -> ShopifyPlatform:
    from headway.providers.shopify.platform import ShopifyPlatform

    settings: ShopifySettings = context.settings
    return ShopifyPlatform(
        account,
        url=settings.shopify_url,
        access=_access(settings),
        **context.client_arguments(timeout_s=settings.platform_timeout_s),
    )


def _oauth(context: ProviderContext) -> ShopifyOAuth:
    from headway.providers.shopify.oauth import ShopifyOAuth

    settings: ShopifySettings = context.settings
    return ShopifyOAuth(
        access=_access(settings),
        scopes=settings.shopify_scopes,
        url_template=settings.shopify_url,
        clock=context.clock,
        timeout_s=settings.platform_timeout_s,
        transport=context.transport,
    )


def _callback_shop(settings: ShopifySettings, params: Mapping[str, str]) -> str | None:
    from headway.providers.shopify.oauth_requests import check_callback

    return params.get("shop", "") if check_callback(params, _secret(settings)) else None


def _check_app(settings: ShopifySettings, has_refresh: bool) -> None:  # noqa: FBT001
    if has_refresh and not (settings.shopify_client_id and settings.shopify_client_secret):
        raise ConfigError(
            "a refresh token works only with HEADWAY_SHOPIFY_CLIENT_ID and"
            " HEADWAY_SHOPIFY_CLIENT_SECRET; set both"
        )


def _missing_scopes(settings: ShopifySettings, granted: Collection[str]) -> Sequence[AccessScope]:
    return missing_scopes(settings.shopify_scopes, granted)


def _shop_key(settings: ShopifySettings, domain: str) -> LimitKey:
    return shop_limit_key(settings.shopify_client_id, domain)


def _shop_of(settings: ShopifySettings, key: str) -> str | None:
    prefix = _shop_key(settings, "")
    return key.removeprefix(prefix) if key.startswith(prefix) else None


def _shop_limit(limit_key: LimitKey, restore_per_s: float) -> Resource:
    return shop_resource(limit_key, restore_per_s=restore_per_s)


def _own_limit(settings: ShopifySettings, account: Account, restore_per_s: float) -> Resource:
    return _shop_limit(_shop_key(settings, account.shop), restore_per_s)


def _price_file(writes: Sequence[PriceWrite]) -> bytes:
    from headway.providers.shopify.bulk import price_lines

    return price_lines(writes)


def _paginator_of(kind: DataKind, *, is_backfill: bool) -> Paginator:
    from headway.providers.shopify.pagination import paginator_of

    return paginator_of(kind, is_backfill=is_backfill)


def _recording(_: ShopifySettings) -> RecordingRule:
    from headway.providers.shopify.recordings import RECORDING

    return RECORDING


SHOPIFY = Provider(
    name="shopify",
    title="Shopify",
    keyed_limit=KeyedLimit(
        key=_shop_key,
        owner=_shop_of,
        resource=_shop_limit,
        summary="2,000 points for each shop, 100 restored a second; larger plans have more",
    ),
    storefront=StorefrontRole(
        open=_storefront,
        price_file=_price_file,
        restore_per_s=POINTS_PER_S,
        api_version=_api_version,
        address=_address,
    ),
    platform=PlatformRole(
        open=_platform,
        paginator_of=_paginator_of,
        # Payments are reported on orders.
        kinds=(DataKind.ORDERS, DataKind.LISTINGS, DataKind.CUSTOMERS),
        token_key=_shop_key,
        shop_name=shop_domain,
        own_limit=_own_limit,
        tokens=TokenEntry(
            check_app=_check_app,
            takes_client=True,
            app=_app,
            lifetime_note=(
                "how long this token lasts is unknown: one of an app from the Dev Dashboard ends"
                " after 24 hours; connect with its client id and secret, and Headway renews it"
            ),
        ),
        missing_scopes=_missing_scopes,
        scope_advice=_scope_advice,
        consent=ConsentRole(open=_oauth, callback_shop=_callback_shop),
        webhooks=WebhookRole(
            setting="HEADWAY_SHOPIFY_CLIENT_SECRET",
            secret=_secret,
            is_signed=is_signed,
            parse=parse_webhook,
            shop_of=lambda headers: headers.get("x-shopify-shop-domain", "").lower(),
        ),
    ),
    warning=_warning,
    settings=("HEADWAY_SHOPIFY_CLIENT_ID", "HEADWAY_SHOPIFY_CLIENT_SECRET"),
    recording=_recording,
)
