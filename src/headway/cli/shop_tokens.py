"""Where the tokens of a connected shop are kept, and how they are forgotten."""

from datetime import timedelta

from headway.app import App
from headway.app.providers import shared_vault
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import LimitKey
from headway.providers.shopify.storefront import shop_limit_key
from headway.providers.tokens import store_tokens, token_key
from headway.store.accounts.connections import ConnectedShop
from headway.store.accounts.credentials import Credentials

# A personal token of Printify lives a year; nobody says when it was made, so it may die earlier.
PRINTIFY_LIFE = timedelta(days=365)


def keep_tokens(app: App, account: ConnectedShop, access: str, refresh: str | None) -> None:
    """Keep the tokens that a person gave, encrypted."""
    is_printify = account.platform is PlatformName.PRINTIFY
    store_tokens(
        Credentials(app.pool),
        shared_vault(app.settings),
        _limit_key(app, account),
        clock=app.clock,
        access=access,
        expires_at=app.clock.now() + PRINTIFY_LIFE if is_printify else None,
        refresh=refresh,
    )


def forget_tokens(app: App, account: ConnectedShop) -> None:
    """Write over the tokens: a row that is removed would give its version to a later token."""
    now = app.clock.now()
    store_tokens(
        Credentials(app.pool),
        shared_vault(app.settings),
        _limit_key(app, account),
        clock=app.clock,
        access="forgotten",
        expires_at=now,
        refresh="forgotten",
        refresh_expires_at=now,
    )


def _limit_key(app: App, account: ConnectedShop) -> LimitKey:
    if account.platform is PlatformName.SHOPIFY:
        return shop_limit_key(app.settings.shopify_client_id, account.shop)
    return token_key(account.platform, account.shop)
