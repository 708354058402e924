"""What is outside, from the settings: whom the limits bind, and how each connector is made.

Only when a connector is made must its secrets be there, so that looking needs none.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import httpx

from headway.clock import Clock
from headway.config import Settings
from headway.core.accounts.jobs import Account, PlatformName
from headway.core.catalog.listings import MAIN, LimitKey, SupplierName
from headway.core.catalog.storefront import Shop
from headway.core.limits.transitions import Resource, Window
from headway.engine.ports import Platform
from headway.errors import ConfigError
from headway.providers.boeing.client import BoeingAccess, BoeingSupplier, limit_key_of
from headway.providers.etsy.api import CONSENT
from headway.providers.etsy.client import EtsyAccess, EtsyApi, EtsyPlatform
from headway.providers.etsy.limits import day_resource, second_resource
from headway.providers.etsy.oauth import EtsyOAuth
from headway.providers.oauth import OAuthClient
from headway.providers.printify.client import PrintifyPlatform
from headway.providers.printify.limits import account_limit_key, account_resource
from headway.providers.shopify.limits import shop_limit_key, shop_resource
from headway.providers.shopify.oauth import ShopifyOAuth
from headway.providers.shopify.platform import ShopifyPlatform
from headway.providers.shopify.storefront import ShopAccess, ShopifyStorefront
from headway.providers.vault import KEY_FILE, Vault, open_vault
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.suppliers import Suppliers
from headway.store.pool import Pool

MINUTE_S = 60.0
# Longer than connecting and writing may take: what is in flight has arrived by then, or failed.
JITTER_S = 2.5


def boeing_limit_key(settings: Settings) -> LimitKey:
    """Return whom the limit of the settings' supplier binds: its credential."""
    return limit_key_of(settings.boeing_client_id)


def boeing_resource(settings: Settings, limit_key: LimitKey | None = None) -> Resource:
    """Return the one gate through which every request to a supplier passes."""
    window = Window(
        limit=settings.rate_limit,
        span_s=MINUTE_S,
        gap_s=settings.rate_gap_s,
        jitter_s=JITTER_S,
        anchor="finish",
    )
    return Resource(key=limit_key or boeing_limit_key(settings), rules=(window,))


def etsy_resources(settings: Settings) -> list[Resource]:
    """Return Etsy's two limits, which bind the app and so all its sellers."""
    keystring = settings.etsy_keystring
    return [
        day_resource(keystring, limit=settings.etsy_day_limit),
        second_resource(keystring, limit=settings.etsy_second_limit),
    ]


def day_resources(settings: Settings) -> Mapping[PlatformName, Resource]:
    """Return the platforms whose day is shared by all sellers, and its quota."""
    day = day_resource(settings.etsy_keystring, limit=settings.etsy_day_limit)
    return {PlatformName.ETSY: day}


def supplier(
    name: SupplierName,
    settings: Settings,
    clock: Clock,
    pool: Pool,
    transport: httpx.BaseTransport | None,
) -> BoeingSupplier:
    """Make the connector of a supplier: the settings' or one of those beside it."""
    url, renewed = settings.boeing_url, None
    if name == MAIN:
        access = _main_access(settings)
    else:
        row = Suppliers(pool).find(name)
        url, renewed = row.url or url, partial(stored_access, name, settings, pool)
        access = renewed()
    return BoeingSupplier(
        url,
        access,
        shelf=Credentials(pool),
        vault=shared_vault(settings),
        clock=clock,
        timeout_s=settings.boeing_timeout_s,
        seats=settings.batch_size,
        transport=transport,
        renewed=renewed,
    )


def storefront(
    shop: Shop,
    settings: Settings,
    clock: Clock,
    pool: Pool,
    transport: httpx.BaseTransport | None,
) -> ShopifyStorefront:
    """Make the connector that writes to a shop."""
    return ShopifyStorefront(
        shop,
        url=settings.shopify_url,
        access=_shopify_access(settings),
        shelf=Credentials(pool),
        vault=shared_vault(settings),
        clock=clock,
        timeout_s=settings.shopify_timeout_s,
        currency=settings.currency,
        transport=transport,
    )


def platforms(
    settings: Settings, clock: Clock, pool: Pool, transport: httpx.BaseTransport | None
) -> dict[PlatformName, Callable[[Account], Platform]]:
    """Return how the connector that reads an account is made, by platform."""

    def parts() -> dict[str, Any]:
        return {
            "shelf": Credentials(pool),
            "vault": shared_vault(settings),
            "clock": clock,
            "timeout_s": settings.platform_timeout_s,
            "transport": transport,
        }

    def shopify(account: Account) -> Platform:
        access = _shopify_access(settings)
        return ShopifyPlatform(account, url=settings.shopify_url, access=access, **parts())

    def etsy(account: Account) -> Platform:
        access = _etsy_access(settings)
        return EtsyPlatform(account, url=settings.etsy_url, access=access, **parts())

    def printify(account: Account) -> Platform:
        return PrintifyPlatform(account, url=settings.printify_url, **parts())

    return {
        PlatformName.SHOPIFY: shopify,
        PlatformName.ETSY: etsy,
        PlatformName.PRINTIFY: printify,
    }


def own_resource(account: Account, settings: Settings, *, restore_per_s: float) -> Resource | None:
    """Return the limit that binds this account alone; None where all share one."""
    if account.platform is PlatformName.SHOPIFY:
        limit_key = shop_limit_key(settings.shopify_client_id, account.shop)
        return shop_resource(limit_key, restore_per_s=restore_per_s)
    if account.platform is PlatformName.PRINTIFY:
        return account_resource(account_limit_key(account))
    return None


def consents(
    settings: Settings, clock: Clock, shop_transport: httpx.BaseTransport | None
) -> Mapping[PlatformName, Callable[[], OAuthClient]]:
    """Return how sellers are sent through a platform's own page, where there is one."""
    return {
        PlatformName.ETSY: lambda: _etsy_consent(settings, clock),
        PlatformName.SHOPIFY: lambda: _shopify_consent(settings, clock, shop_transport),
    }


def _etsy_consent(settings: Settings, clock: Clock) -> EtsyOAuth:
    access = _etsy_access(settings)
    door = EtsyApi(
        access, url=settings.etsy_url, clock=clock, timeout_s=settings.platform_timeout_s
    )
    # Etsy's page for people has an address of its own; a simulated Etsy has one for all.
    is_etsys = settings.etsy_url == Settings.model_fields["etsy_url"].default
    return EtsyOAuth(
        door,
        access,
        per_second=settings.etsy_second_limit,
        per_day=settings.etsy_day_limit,
        page=CONSENT if is_etsys else f"{settings.etsy_url.rstrip('/')}/oauth/connect",
    )


def _shopify_consent(
    settings: Settings, clock: Clock, transport: httpx.BaseTransport | None
) -> ShopifyOAuth:
    return ShopifyOAuth(
        access=_shopify_access(settings),
        scopes=settings.shopify_scopes,
        url_template=settings.shopify_url,
        clock=clock,
        timeout_s=settings.platform_timeout_s,
        transport=transport,
    )


def shared_vault(settings: Settings) -> Vault:
    """Open the vault of this deployment: by its keys, or by the key file in its folder."""
    keys = settings.secret_key.get_secret_value() if settings.secret_key else None
    return open_vault(keys, settings.data_dir.expanduser())


def has_keys(settings: Settings) -> bool:
    """Tell whether the vault would open without a key being made for it."""
    return bool(settings.secret_key) or (settings.data_dir.expanduser() / KEY_FILE).exists()


def login_key(name: SupplierName) -> LimitKey:
    """Return under which name the shelf keeps what we sign in with at a supplier."""
    return LimitKey(f"supplier:{name}")


def stored_access(name: SupplierName, settings: Settings, pool: Pool) -> BoeingAccess:
    """Read what we sign in with at a supplier beside the settings'; raises ConfigError."""
    row, vault = Suppliers(pool).find(name), shared_vault(settings)
    found = {
        each.name: vault.decrypt(each.secret)
        for each in Credentials(pool).load(login_key(row.name))
    }
    if {"client_secret", "password"} - set(found):
        raise ConfigError(
            f"the supplier {row.name} has no secrets; give them: headway supplier add {row.name}"
        )
    return BoeingAccess(
        client_id=row.client_id,
        client_secret=found["client_secret"],
        username=row.username,
        password=found["password"],
    )


def _main_access(settings: Settings) -> BoeingAccess:
    return BoeingAccess(
        client_id=settings.boeing_client_id,
        client_secret=settings.boeing_client_secret.get_secret_value(),
        username=settings.boeing_username,
        password=settings.boeing_password.get_secret_value(),
    )


def _shopify_access(settings: Settings) -> ShopAccess:
    secret = settings.shopify_client_secret.get_secret_value()
    return ShopAccess(client_id=settings.shopify_client_id, client_secret=secret)


def _etsy_access(settings: Settings) -> EtsyAccess:
    secret = settings.etsy_shared_secret.get_secret_value()
    return EtsyAccess(keystring=settings.etsy_keystring, shared_secret=secret)
