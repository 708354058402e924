"""The record of Printify: a platform with a limit per account."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headway.core.accounts.jobs import Account, DataKind
from headway.core.catalog.listings import LimitKey
from headway.errors import InvalidError
from headway.providers.printify.limits import account_limit_key, account_resource
from headway.providers.printify.webhooks import is_signed, parse_webhook
from headway.providers.provider import (
    KeyedLimit,
    PlatformRole,
    Provider,
    ProviderContext,
    ShopOwner,
    TokenEntry,
    WebhookRole,
)
from headway.providers.shops import shop_number
from headway.providers.token_store import token_key

if TYPE_CHECKING:
    from pydantic import SecretStr

    from headway.core.accounts.pagination import Paginator
    from headway.core.limits.transitions import Resource
    from headway.providers.printify.client import PrintifyPlatform
    from headway.providers.recordings import RecordingRule

NAME = "printify"
PREFIX = f"{NAME}:"


class PrintifySettings(Protocol):
    """The settings that Printify's clients read."""

    printify_url: str
    printify_webhook_secret: SecretStr
    platform_timeout_s: float


def _open(context: ProviderContext, account: Account) -> PrintifyPlatform:
    from headway.providers.printify.client import PrintifyPlatform

    settings: PrintifySettings = context.settings
    return PrintifyPlatform(
        account,
        url=settings.printify_url,
        **context.client_arguments(timeout_s=settings.platform_timeout_s),
    )


def _own_limit(_: PrintifySettings, account: Account, __: float) -> Resource:
    return account_resource(account_limit_key(account))


def _find_owner(client: PrintifyPlatform, shop: str) -> ShopOwner:
    """Return the owner of a shop, among the shops that its token reaches."""
    with closing(client):
        shops = client.list_shops()
    found = next((own for own in shops if own.id == shop), None)
    if found is None:
        others = ", ".join(own.id for own in shops) or "none"
        raise InvalidError(f"the token's account has no shop {shop}; its shops: {others}")
    return ShopOwner(owner_id=found.owner_id, title=found.title)


def _webhook_secret(settings: PrintifySettings) -> str:
    return settings.printify_webhook_secret.get_secret_value()


def jwt_expiry(token: str) -> datetime | None:
    """Return when a JSON web token expires, by its own words; None if it is no such token."""
    from headway.providers.reply_fields import read_second

    try:
        payload = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return read_second(int(claims["exp"]))
    except (LookupError, TypeError, ValueError, RecursionError):
        return None


def _paginator_of(kind: DataKind, *, is_backfill: bool) -> Paginator:
    from headway.providers.printify.pagination import paginator_of

    return paginator_of(kind, is_backfill=is_backfill)


def _recording(_: PrintifySettings) -> RecordingRule:
    from headway.providers.printify.recordings import RECORDING

    return RECORDING


PRINTIFY = Provider(
    name=NAME,
    title="Printify",
    keyed_limit=KeyedLimit(
        key=lambda _, account: LimitKey(PREFIX + account),
        owner=lambda _, key: key.removeprefix(PREFIX) if key.startswith(PREFIX) else None,
        resource=lambda limit_key, _: account_resource(limit_key),
        summary="600 calls a minute for each account",
    ),
    platform=PlatformRole(
        open=_open,
        paginator_of=_paginator_of,
        # Buyers are reported only on orders, payments never.
        kinds=(DataKind.ORDERS, DataKind.LISTINGS),
        token_key=lambda _, shop: token_key(NAME, shop),
        shop_name=partial(shop_number, NAME),
        own_limit=_own_limit,
        has_owners=True,
        find_owner=_find_owner,
        counts_errors=True,
        # A personal token is valid for a year; most say themselves when they end.
        tokens=TokenEntry(
            refresh_refused="a personal token of Printify lives a year and is not refreshed",
            life=timedelta(days=365),
            read_expiry=jwt_expiry,
        ),
        webhooks=WebhookRole(
            setting="HEADWAY_PRINTIFY_WEBHOOK_SECRET",
            secret=_webhook_secret,
            is_signed=is_signed,
            parse=parse_webhook,
        ),
    ),
    recording=_recording,
)
