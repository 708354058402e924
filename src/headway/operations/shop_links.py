"""A one-time link that connects a shop of one seller."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode, urlsplit

from pydantic import Field

from headway.app.providers import shared_vault
from headway.clock import fresh_secret
from headway.config import Settings
from headway.core.access import Need
from headway.core.accounts.jobs import PlatformName
from headway.core.accounts.outcome_links import (
    URL_CHARS_MAX,
    check_return_url,
    read_return_urls,
)
from headway.core.catalog.listings import SellerId
from headway.core.dispatch import STOREFRONT
from headway.errors import ConfigError, ConflictError, InvalidError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import (
    PLAIN,
    PlatformText,
    ReasonText,
    RequestBody,
    SellerText,
    example,
)
from headway.operations.operation import operation
from headway.operations.shops import TAG, ShopText, shop_name
from headway.providers.registry import find, known_platform, platform_role, platforms
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows
from headway.store.catalog.shop_groups import ShopGroups

LINK_LIFE = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectLink:
    """A link to a platform's consent page that works once; null when the reply is replayed.

    The platform must know `callback`, the address that it sends people back to.
    """

    platform: PlatformName
    seller: SellerId
    link: str | None = field(repr=False)
    """The link to the platform's consent page; null when the reply is replayed.
    Example: `https://www.etsy.com/oauth/connect?state=abc`
    """
    expires_at: datetime
    callback: str
    """The address to which the platform sends the person back; it must be registered there.
    Example: `https://headway.example.com/oauth/etsy/callback`
    """


class LinkBody(RequestBody):
    """A shop, or the name of a platform whose page asks the person which shop."""

    model_config = example({"shop": "acme.myshopify.com", "seller": "acme"})
    shop: ShopText
    seller: SellerText
    platform: PlatformText = STOREFRONT
    main_seller: SellerText | None = None
    """The seller whose keys and logins open this shop too, if its owner has several.
    Example: `acme`
    """
    return_url: Annotated[str, Field(max_length=URL_CHARS_MAX, pattern=PLAIN)] = ""
    """Where the person is sent afterwards; empty for Headway's own page. It must be allowed by
    HEADWAY_RETURN_URLS, and gets a signed outcome. Example: `https://app.example.com/connected`
    """
    state: ReasonText = ""
    """A word of yours that comes back with the outcome. Example: `visit-7f0c1b9e`"""


@operation(
    "POST",
    "/api/shops/link",
    need=Need.OPERATE,
    tag=TAG,
    status=201,
    errors=(409, 422),
    shown_once="link",
    name="create_connect_link",
)
def connect_link(caller: OperatorCaller, body: LinkBody) -> ConnectLink:
    """Make a link where a shop's owner gives Headway access; it works once, for an hour."""
    app, settings = caller.app, caller.app.settings
    platform, shop = _link_target(body)
    _require_set_up(settings, platform)
    if body.return_url:
        check_return_url(body.return_url, read_return_urls(settings.return_urls))
        if not settings.return_secret.get_secret_value():
            raise ConflictError("HEADWAY_RETURN_SECRET must be set: it signs the outcome")
    try:
        callback = redirect_uri(settings.public_url, platform)
    except ConfigError as error:
        raise ConflictError(str(error)) from None
    if body.main_seller is not None:
        caller.known(body.main_seller)
        ShopGroups(app.pool).put(body.seller, body.main_seller, now=caller.now)
    code, expires_at = fresh_secret(), caller.now + LINK_LIFE
    flow = OAuthFlow(
        platform=platform,
        user_id=body.seller,
        shop=shop,
        verifier=shared_vault(settings).encrypt(fresh_secret()),
        return_url=body.return_url,
        return_state=body.state,
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


def _link_target(body: LinkBody) -> tuple[PlatformName, str]:
    """Return the platform and its shop, empty if the platform asks for it; raises InvalidError."""
    asking = [
        platform
        for platform, role in platforms().items()
        if role.consent is not None and role.consent.asks_for_shop
    ]
    if body.shop in asking:
        return PlatformName(body.shop), ""
    platform = known_platform(body.platform)
    if platform in asking:
        return platform, ""
    role = platform_role(platform)
    if role.consent is None:
        raise InvalidError(
            f"{platform} has no page where an owner gives access; connect the shop with a token"
        )
    return platform, shop_name(role, body.shop)


def _require_set_up(settings: Settings, platform: PlatformName) -> None:
    """Raise ConflictError with the names of the settings that are missing."""
    needed = ("HEADWAY_PUBLIC_URL", *find(platform).settings)
    # A plug-in checks its own settings when its page is opened.
    values = {
        name: getattr(settings, name.removeprefix("HEADWAY_").lower(), name) for name in needed
    }
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise ConflictError(f"{' and '.join(missing)} must be set to connect a shop at {platform}")
