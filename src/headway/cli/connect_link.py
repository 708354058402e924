"""The link that `headway connect` gives away: who opens it lets us into a shop of one seller."""

from datetime import timedelta
from urllib.parse import urlencode

from headway.app.providers import shared_vault
from headway.cli.output import emit, say
from headway.cli.session import open_session
from headway.clock import fresh_secret
from headway.config import Settings
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.intake import seller_of
from headway.errors import ConfigError
from headway.store.accounts.connections import shop_domain
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows
from headway.web.oauth import redirect_uri

PERMIT_LIFE = timedelta(hours=1)


def give_link(settings: Settings, shop: str, seller: str, *, as_json: bool) -> None:
    """Print a link to a platform's consent page that works once, for an hour.

    `shop` is a platform that asks the person which shop, or the address of a Shopify shop.
    """
    is_etsy = shop == PlatformName.ETSY
    platform = PlatformName.ETSY if is_etsy else PlatformName.SHOPIFY
    domain, user_id = "" if is_etsy else shop_domain(shop), seller_of(seller)
    _require(settings, platform)
    back = redirect_uri(settings.public_url, platform)
    link_code = fresh_secret()
    with open_session(settings) as session:
        app = session.app
        flow = OAuthFlow(
            platform=platform,
            user_id=user_id,
            shop=domain,
            verifier=shared_vault(app.settings).encrypt(fresh_secret()),
        )
        expires_at = app.clock.now() + PERMIT_LIFE
        OAuthFlows(app.pool).open(flow, link_code=link_code, expires_at=expires_at)
    query = urlencode({"seller": user_id, "ticket": link_code})
    link = f"{back.removesuffix('/callback')}?{query}"
    if as_json:
        emit({"platform": platform, "seller": user_id, "link": link, "expires_at": expires_at})
        return
    say(link)
    say(f"it works once, until {expires_at:%H:%M} UTC, and connects a shop to {user_id}")
    say(f"the address that {platform} sends people back to must be known there: {back}")


def _require(settings: Settings, platform: PlatformName) -> None:
    """Name what is not set, before a person is sent on the way; raises ConfigError."""
    needed = {
        "HEADWAY_PUBLIC_URL": settings.public_url,
        **(
            {
                "HEADWAY_ETSY_KEYSTRING": settings.etsy_keystring,
                "HEADWAY_ETSY_SHARED_SECRET": settings.etsy_shared_secret.get_secret_value(),
            }
            if platform is PlatformName.ETSY
            else {
                "HEADWAY_SHOPIFY_CLIENT_ID": settings.shopify_client_id,
                "HEADWAY_SHOPIFY_CLIENT_SECRET": settings.shopify_client_secret.get_secret_value(),
            }
        ),
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise ConfigError(f"{' and '.join(missing)} must be set to connect a shop at {platform}")
