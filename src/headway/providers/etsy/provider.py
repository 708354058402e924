"""The record of Etsy: a platform with limits per app, so all its sellers share them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from headway.core.accounts.jobs import Account, DataKind
from headway.errors import ConfigError
from headway.providers.etsy.limits import day_resource, second_resource
from headway.providers.etsy.webhooks import SETTING, is_signed, parse_webhook
from headway.providers.provider import (
    ConsentRole,
    PlatformRole,
    Provider,
    ProviderContext,
    TokenEntry,
    WebhookRole,
)
from headway.providers.shops import shop_number
from headway.providers.token_store import token_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

    from headway.core.accounts.pagination import Paginator
    from headway.core.limits.transitions import Resource
    from headway.providers.etsy.api import EtsyAccess
    from headway.providers.etsy.client import EtsyPlatform
    from headway.providers.etsy.oauth import EtsyOAuth
    from headway.providers.recordings import RecordingRule

NAME = "etsy"
API_URL = "https://api.etsy.com"
DAY = "etsy:day"


class EtsySettings(Protocol):
    """The settings that Etsy's clients read."""

    etsy_url: str
    etsy_keystring: str
    etsy_shared_secret: SecretStr
    etsy_webhook_secret: SecretStr
    etsy_day_limit: int
    etsy_second_limit: int
    platform_timeout_s: float


def _access(settings: EtsySettings) -> EtsyAccess:
    from headway.providers.etsy.api import EtsyAccess

    secret = settings.etsy_shared_secret.get_secret_value()
    return EtsyAccess(keystring=settings.etsy_keystring, shared_secret=secret)


def _limits(settings: EtsySettings) -> Mapping[str, Resource]:
    keystring = settings.etsy_keystring
    return {
        DAY: day_resource(keystring, limit=settings.etsy_day_limit),
        "etsy:second": second_resource(keystring, limit=settings.etsy_second_limit),
    }


def _open(context: ProviderContext, account: Account) -> EtsyPlatform:
    from headway.providers.etsy.client import EtsyPlatform

    settings: EtsySettings = context.settings
    return EtsyPlatform(
        account,
        url=settings.etsy_url,
        access=_access(settings),
        **context.client_arguments(timeout_s=settings.platform_timeout_s),
    )


def _oauth(context: ProviderContext) -> EtsyOAuth:
    from headway.providers.etsy.api import CONSENT, EtsyApi
    from headway.providers.etsy.oauth import EtsyOAuth

    settings: EtsySettings = context.settings
    access, url = _access(settings), settings.etsy_url
    api = EtsyApi(access, url=url, clock=context.clock, timeout_s=settings.platform_timeout_s)
    # Etsy serves its consent page from another host than its API; a simulated Etsy uses one host.
    page = CONSENT if url == API_URL else f"{url.rstrip('/')}/oauth/connect"
    return EtsyOAuth(
        api,
        access,
        per_second=settings.etsy_second_limit,
        per_day=settings.etsy_day_limit,
        page=page,
    )


def _check_app(settings: EtsySettings, _: bool) -> None:  # noqa: FBT001
    if not settings.etsy_keystring:
        raise ConfigError("Etsy's tokens work only with HEADWAY_ETSY_KEYSTRING; set it")


def _webhook_secret(settings: EtsySettings) -> str:
    return settings.etsy_webhook_secret.get_secret_value()


def _paginator_of(kind: DataKind, *, is_backfill: bool) -> Paginator:
    from headway.providers.etsy.pagination import paginator_of

    return paginator_of(kind, is_backfill=is_backfill)


def _recording(_: EtsySettings) -> RecordingRule:
    from headway.providers.etsy.recordings import RECORDING

    return RECORDING


ETSY = Provider(
    name=NAME,
    title="Etsy",
    limits=_limits,
    platform=PlatformRole(
        open=_open,
        paginator_of=_paginator_of,
        # Buyers are reported only on orders.
        kinds=(DataKind.ORDERS, DataKind.LISTINGS, DataKind.PAYMENTS),
        token_key=lambda _, shop: token_key(NAME, shop),
        shop_name=partial(shop_number, NAME),
        day=DAY,
        tokens=TokenEntry(
            refresh_required="Etsy's access tokens live an hour", check_app=_check_app
        ),
        consent=ConsentRole(open=_oauth, asks_for_shop=True),
        webhooks=WebhookRole(
            setting=SETTING, secret=_webhook_secret, is_signed=is_signed, parse=parse_webhook
        ),
    ),
    settings=("HEADWAY_ETSY_KEYSTRING", "HEADWAY_ETSY_SHARED_SECRET"),
    recording=_recording,
)
