"""A one-time link that connects a shop of one seller."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlencode, urlsplit

from headway.app.providers import shared_vault
from headway.clock import fresh_secret
from headway.config import Settings
from headway.core.access import Need
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId
from headway.errors import ConfigError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import RequestBody, SellerText, example
from headway.operations.operation import operation
from headway.operations.shops import TAG, ShopText
from headway.store.accounts.connections import shop_domain
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows

LINK_LIFE = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectLink:
    """A link to a platform's consent page that works once; null when the reply is replayed.

    The platform must know `callback`, the address that it sends people back to.
    """

    platform: PlatformName
    seller: SellerId
    link: str | None = field(repr=False)
    expires_at: datetime
    callback: str


class LinkBody(RequestBody):
    """The address of a Shopify shop, or `etsy`, which asks the person which shop."""

    model_config = example({"shop": "acme.myshopify.com", "seller": "acme"})
    shop: ShopText
    seller: SellerText


@operation("POST", "/api/shops/link", need=Need.OPERATE, tag=TAG, status=201)
def connect_link(caller: OperatorCaller, body: LinkBody) -> ConnectLink:
    """Make a link where a shop's owner lets us in; it works once, for an hour."""
    app, settings = caller.app, caller.app.settings
    is_etsy = body.shop == PlatformName.ETSY
    platform = PlatformName.ETSY if is_etsy else PlatformName.SHOPIFY
    domain = "" if is_etsy else shop_domain(body.shop)
    _require_set_up(settings, platform)
    callback = redirect_uri(settings.public_url, platform)
    code, expires_at = fresh_secret(), caller.now + LINK_LIFE
    flow = OAuthFlow(
        platform=platform,
        user_id=body.seller,
        shop=domain,
        verifier=shared_vault(settings).encrypt(fresh_secret()),
    )
    OAuthFlows(app.pool).open(flow, link_code=code, expires_at=expires_at)
    query = urlencode({"seller": body.seller, "ticket": code})
    return ConnectLink(
        platform=platform,
        seller=body.seller,
        link=f"{callback.removesuffix('/callback')}?{query}",
        expires_at=expires_at,
        callback=callback,
    )


def redirect_uri(public_url: str, platform: PlatformName) -> str:
    """Return where a platform sends people back to; raises ConfigError."""
    address = urlsplit(public_url)
    if address.scheme not in {"http", "https"} or not address.netloc:
        raise ConfigError("HEADWAY_PUBLIC_URL must be an address like https://headway.example")
    return f"{public_url.rstrip('/')}/connect/{platform}/callback"


def _require_set_up(settings: Settings, platform: PlatformName) -> None:
    """Raise ConfigError with the names of the settings that are missing."""
    of_platform = {
        PlatformName.ETSY: {
            "HEADWAY_ETSY_KEYSTRING": settings.etsy_keystring,
            "HEADWAY_ETSY_SHARED_SECRET": settings.etsy_shared_secret.get_secret_value(),
        },
        PlatformName.SHOPIFY: {
            "HEADWAY_SHOPIFY_CLIENT_ID": settings.shopify_client_id,
            "HEADWAY_SHOPIFY_CLIENT_SECRET": settings.shopify_client_secret.get_secret_value(),
        },
    }
    needed = {"HEADWAY_PUBLIC_URL": settings.public_url, **of_platform[platform]}
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise ConfigError(f"{' and '.join(missing)} must be set to connect a shop at {platform}")
