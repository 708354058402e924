"""The record of Printify: a platform with a limit per account."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

from pydantic import SecretStr

from headway.core.accounts.jobs import KINDS, Account, PlatformName
from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Resource
from headway.providers.printify.client import PrintifyPlatform
from headway.providers.printify.limits import account_limit_key, account_resource
from headway.providers.printify.pagination import paginator_of
from headway.providers.provider import (
    KeyedLimit,
    PlatformRole,
    Provider,
    ProviderContext,
    WebhookRole,
)
from headway.providers.tokens import token_key
from headway.providers.webhook_signatures import hmac_sha256, is_same

PREFIX = "printify:"


class PrintifySettings(Protocol):
    """The settings that Printify's clients read."""

    printify_url: str
    printify_webhook_secret: SecretStr
    platform_timeout_s: float


def _open(context: ProviderContext, account: Account) -> PrintifyPlatform:
    settings: PrintifySettings = context.settings
    return PrintifyPlatform(
        account,
        url=settings.printify_url,
        token_store=context.shelf,
        vault=context.open_vault(),
        clock=context.clock,
        timeout_s=settings.platform_timeout_s,
        transport=context.transport,
    )


def _own_limit(_: PrintifySettings, account: Account, __: float) -> Resource:
    return account_resource(account_limit_key(account))


def _webhook_secret(settings: PrintifySettings) -> str:
    return settings.printify_webhook_secret.get_secret_value()


def _is_signed(secret: str, headers: Mapping[str, str], body: bytes, _: datetime) -> bool:
    expected = hmac_sha256(secret.encode(), body).hex()
    return is_same(f"sha256={expected}", headers.get("x-pfy-signature", ""))


PRINTIFY = Provider(
    name="printify",
    title="Printify",
    keyed_limit=KeyedLimit(
        key=lambda _, account: LimitKey(PREFIX + account),
        owner=lambda _, key: key.removeprefix(PREFIX) if key.startswith(PREFIX) else None,
        resource=lambda limit_key, _: account_resource(limit_key),
        summary="600 calls a minute for each account",
    ),
    platform=PlatformRole(
        open=_open,
        paginator_of=paginator_of,
        kinds=KINDS[PlatformName.PRINTIFY],
        token_key=lambda _, shop: token_key(PlatformName.PRINTIFY, shop),
        own_limit=_own_limit,
        webhooks=WebhookRole(
            setting="HEADWAY_PRINTIFY_WEBHOOK_SECRET", secret=_webhook_secret, is_signed=_is_signed
        ),
        # A personal token is valid for a year; when it was made is unknown, so it may end earlier.
        pasted_token_life=timedelta(days=365),
    ),
)
