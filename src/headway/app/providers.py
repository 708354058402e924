"""The providers of one deployment: their limits and clients, made from the settings.

Secrets are read only when a client is made, so reading status needs none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headway.core.catalog.listings import MAIN, LimitKey, SupplierName
from headway.errors import ConfigError, InvalidError
from headway.providers import registry
from headway.providers.provider import ProviderContext, Secrets, SupplierEntry, SupplierRole
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.suppliers import Suppliers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

    from headway.clock import Clock
    from headway.config import Settings
    from headway.core.accounts.jobs import Account, PlatformName
    from headway.core.catalog.storefront import Shop
    from headway.core.limits.transitions import Resource
    from headway.engine.ports import Platform, Storefront, Supplier
    from headway.providers.oauth import OAuthClient
    from headway.providers.vault import Vault
    from headway.store.pool import Pool


def context_of(
    settings: Settings, clock: Clock, pool: Pool, transport: httpx.BaseTransport | None
) -> ProviderContext:
    """Return what this deployment hands to a provider when a client is made."""
    return ProviderContext(
        settings=settings,
        clock=clock,
        token_store=Credentials(pool),
        open_vault=partial(shared_vault, settings),
        transport=transport,
    )


def main_entry(settings: Settings) -> tuple[SupplierEntry, Secrets]:
    """Return the supplier of the settings, and its secrets."""
    _, role = registry.main_supplier()
    assert role.main is not None
    return role.main(settings)


def has_main_login(settings: Settings) -> bool:
    """Return True if any credential of the settings' supplier is set."""
    entry, secrets = main_entry(settings)
    return any((entry.client_id, entry.username, *secrets.values()))


def has_supplier(settings: Settings, pool: Pool) -> bool:
    """Return True if a supplier is set up: in the settings, or added by an operator."""
    return has_main_login(settings) or bool(Suppliers(pool).all())


def main_limit_key(settings: Settings) -> LimitKey:
    """Return the limit key of the settings' supplier."""
    return supplier_key(main_entry(settings)[0])


def supplier_limit(settings: Settings, entry: SupplierEntry | None = None) -> Resource:
    """Return the limit that every request to a supplier passes; by default the settings' one."""
    entry = entry or main_entry(settings)[0]
    return role_of(entry).limit(settings, entry)


def find_entry(name: SupplierName, settings: Settings, pool: Pool) -> SupplierEntry:
    """Return a supplier of the settings or of an operator; raises NotFoundError."""
    return main_entry(settings)[0] if name == MAIN else Suppliers(pool).find(name)


def kind_of(kind: str) -> str:
    """Return the name of the provider; an empty kind means the settings' one."""
    return kind or registry.main_supplier()[0].name


def role_of(entry: SupplierEntry) -> SupplierRole:
    """Return how a supplier is reached; raises ConfigError if its provider is not installed."""
    return registry.supplier_role(kind_of(entry.kind))


def supplier_key(entry: SupplierEntry) -> LimitKey:
    """Return the limit key of a supplier, even while its provider is not installed."""
    try:
        return role_of(entry).limit_key(entry)
    except ConfigError:
        return LimitKey(f"{entry.kind}:{entry.client_id}")


def shared_limits(settings: Settings) -> dict[str, Resource]:
    """Return the limits that the whole deployment shares, by display name."""
    return {
        name: resource
        for registered in registry.installed().providers.values()
        for name, resource in registered.provider.limits(settings).items()
    }


def day_limits(settings: Settings) -> Mapping[PlatformName, Resource]:
    """Return the daily quotas that all sellers on a platform share."""
    limits = shared_limits(settings)
    return {
        platform: limits[role.day]
        for platform, role in registry.platforms().items()
        if role.day is not None
    }


def supplier(
    name: SupplierName,
    settings: Settings,
    clock: Clock,
    pool: Pool,
    transport: httpx.BaseTransport | None,
) -> Supplier:
    """Make the client of a supplier: the settings' or one that an operator added."""
    context = context_of(settings, clock, pool, transport)
    if name == MAIN:
        entry, secrets = main_entry(settings)
        client: Supplier = role_of(entry).open(context, lambda: entry, lambda: secrets)
    else:
        rows, read_secrets = Suppliers(pool), partial(stored_secrets, name, settings, pool)
        client = role_of(rows.find(name)).open(context, partial(rows.find, name), read_secrets)
    return client


def storefront(
    shop: Shop,
    settings: Settings,
    clock: Clock,
    pool: Pool,
    transport: httpx.BaseTransport | None,
) -> Storefront:
    """Make the client that writes to a shop."""
    _, role = registry.main_storefront()
    client: Storefront = role.open(context_of(settings, clock, pool, transport), shop)
    return client


def shop_limit(settings: Settings, shop: str, *, restore_per_s: float) -> Resource:
    """Return the limit of one shop of the storefront."""
    provider, _ = registry.main_storefront()
    assert provider.keyed_limit is not None
    limit_key = provider.keyed_limit.key(settings, shop)
    return provider.keyed_limit.resource(limit_key, restore_per_s)


def token_key_of(settings: Settings, platform: PlatformName, shop: str) -> LimitKey:
    """Return the key under which the tokens of a connected shop are stored."""
    return registry.platform_role(platform).token_key(settings, shop)


def own_app_secret(
    settings: Settings, clock: Clock, pool: Pool, platform: PlatformName, shop: str
) -> str:
    """Return the secret of a shop's own app; empty if it has none."""
    from headway.providers.tokens import CLIENT, AccountTokens

    try:
        limit_key = token_key_of(
            settings, platform, registry.platform_role(platform).shop_name(shop)
        )
    except InvalidError:  # anyone may write anything into a header
        return ""
    tokens = Credentials(pool).load(limit_key)
    if not any(token.name == CLIENT for token in tokens):
        return ""
    vault = shared_vault(settings)
    stored = AccountTokens(limit_key, token_store=Credentials(pool), vault=vault, clock=clock)
    client = stored.client
    return "" if client is None else client.client_secret


def token_prefixes(settings: Settings) -> dict[PlatformName, str]:
    """Return what stands before the shop in the token keys of each platform."""
    return {
        platform: role.token_key(settings, "") for platform, role in registry.platforms().items()
    }


def platforms(
    settings: Settings, clock: Clock, pool: Pool, transport: httpx.BaseTransport | None
) -> dict[PlatformName, Callable[[Account], Platform]]:
    """Return how the client that reads an account is made, by platform."""
    context = context_of(settings, clock, pool, transport)
    return {
        platform: partial(role.open, context) for platform, role in registry.platforms().items()
    }


def own_limit(account: Account, settings: Settings, *, restore_per_s: float) -> Resource | None:
    """Return the limit that binds this account alone; None where all accounts share one."""
    return registry.platform_role(account.platform).own_limit(settings, account, restore_per_s)


def oauth_clients(
    settings: Settings, clock: Clock, pool: Pool, transport: httpx.BaseTransport | None
) -> Mapping[PlatformName, Callable[[], OAuthClient]]:
    """Return how sellers connect a shop on the platform's own page, where it has one."""
    context = context_of(settings, clock, pool, transport)
    return {
        platform: partial(role.consent.open, context)
        for platform, role in registry.platforms().items()
        if role.consent is not None
    }


def shared_vault(settings: Settings) -> Vault:
    """Open the vault of this deployment: by its keys, or by the key file in its folder."""
    from headway.providers.vault import open_vault

    keys = settings.secret_key.get_secret_value() if settings.secret_key else None
    return open_vault(keys, settings.data_dir.expanduser())


def has_keys(settings: Settings) -> bool:
    """Return True if the vault opens without making a new key."""
    from headway.providers.vault import KEY_FILE

    return bool(settings.secret_key) or (settings.data_dir.expanduser() / KEY_FILE).exists()


def login_key(name: SupplierName) -> LimitKey:
    """Return the key under which the secrets of a supplier are stored."""
    return LimitKey(f"supplier:{name}")


def stored_secrets(name: SupplierName, settings: Settings, pool: Pool) -> Secrets:
    """Return the secrets of a supplier that an operator added; raises ConfigError."""
    row, vault = Suppliers(pool).find(name), shared_vault(settings)
    secrets = {
        stored.name: vault.decrypt(stored.secret)
        for stored in Credentials(pool).load(login_key(row.name))
    }
    if set(role_of(row).secrets) - set(secrets):
        raise ConfigError(
            f"the supplier {row.name} has no secrets; give them: headway supplier add {row.name}"
        )
    return secrets
