"""Where the tokens of a connected shop are kept, and how they are forgotten."""

from headway.app import App
from headway.app.providers import shared_vault, token_key_of
from headway.providers.registry import platform_role
from headway.providers.tokens import AppClient, store_client, store_tokens
from headway.store.accounts.connections import ConnectedShop
from headway.store.accounts.credentials import Credentials


def keep_tokens(app: App, account: ConnectedShop, access: str | None, refresh: str | None) -> None:
    """Store the tokens that a person entered, encrypted."""
    assert access is not None, "checked before"
    entry = platform_role(account.platform).tokens
    expires_at = entry.read_expiry(access)
    if expires_at is None and entry.life is not None:
        expires_at = app.clock.now() + entry.life
    store_tokens(
        Credentials(app.pool),
        shared_vault(app.settings),
        token_key_of(app.settings, account.platform, account.shop),
        clock=app.clock,
        access=access,
        expires_at=expires_at,
        refresh=refresh,
    )


def keep_client(app: App, account: ConnectedShop, client: AppClient) -> None:
    """Store the id and secret of the shop's own app, encrypted."""
    store_client(
        Credentials(app.pool),
        shared_vault(app.settings),
        token_key_of(app.settings, account.platform, account.shop),
        client,
        clock=app.clock,
    )


def forget_tokens(app: App, account: ConnectedShop) -> None:
    """Write over the tokens: a row that is removed would give its version to a later token."""
    now = app.clock.now()
    store_tokens(
        Credentials(app.pool),
        shared_vault(app.settings),
        token_key_of(app.settings, account.platform, account.shop),
        clock=app.clock,
        access="forgotten",
        expires_at=now,
        refresh="forgotten",
        refresh_expires_at=now,
    )
