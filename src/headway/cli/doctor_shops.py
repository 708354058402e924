"""The shop checks of `headway doctor`: connection, tokens and mapped locations."""

from collections.abc import Iterator
from dataclasses import dataclass

from headway.app import App
from headway.app.providers import has_keys, shared_vault, token_key_of
from headway.core.accounts.jobs import PlatformName
from headway.errors import HeadwayError
from headway.providers.tokens import ACCESS, REFRESH
from headway.store.accounts.connections import ConnectedShop, ConnectedShops
from headway.store.accounts.credentials import Credentials

OK, WARN, FAIL = "ok", "warn", "fail"
TROUBLED_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopCheck:
    """The result of one check, and what to do if it failed."""

    subject: str
    verdict: str
    finding: str


def examine_shops(app: App) -> Iterator[ShopCheck]:
    """Look at every shop: one line for all that are well, one for each that is not."""
    shops = ConnectedShops(app.pool).list(PlatformName.SHOPIFY)
    if not shops:
        finding = "none is connected; run: headway connect SHOP --seller SELLER"
        yield ShopCheck(subject="shops", verdict=WARN, finding=finding)
        return
    troubled = [line for shop in shops for line in _examine(app, shop)]
    connected = sum(shop.status == "connected" for shop in shops)
    finding = f"{connected:,} of {len(shops):,} connected"
    yield ShopCheck(subject="shops", verdict=OK if connected else WARN, finding=finding)
    yield from troubled[:TROUBLED_MAX]
    if len(troubled) > TROUBLED_MAX:
        finding = f"and {len(troubled) - TROUBLED_MAX:,} more findings; see: headway shops"
        yield ShopCheck(subject="shops", verdict=WARN, finding=finding)


def _examine(app: App, account: ConnectedShop) -> Iterator[ShopCheck]:
    connect = f"run: headway connect {account.shop} --seller {account.user_id}"
    if account.status != "connected":
        finding = f"disconnected ({account.reason}), so nothing is written there; {connect}"
        yield ShopCheck(subject=account.shop, verdict=WARN, finding=finding)
        return
    lacking = _find_token_trouble(app, account)
    if lacking:
        yield ShopCheck(subject=account.shop, verdict=FAIL, finding=f"{lacking}; {connect}")
    if account.locations is None:
        finding = "its locations were not read yet; a running headway does it with its first push"
        yield ShopCheck(subject=account.shop, verdict=WARN, finding=finding)
        return
    unknown = sorted(set(app.settings.locations.values()) - set(account.locations))
    if unknown:
        finding = (
            f"has no location named {', '.join(unknown)}, so stock there is not sold; name it so in"
            " the shop, or change HEADWAY_LOCATIONS"
        )
        yield ShopCheck(subject=account.shop, verdict=WARN, finding=finding)


def _find_token_trouble(app: App, account: ConnectedShop) -> str:
    """Return what is wrong with a shop's tokens, if anything; never creates a key."""
    settings, now = app.settings, app.clock.now()
    stored = Credentials(app.pool).load(token_key_of(settings, account.platform, account.shop))
    alive = [
        token for token in stored if token.name in {ACCESS, REFRESH} and token.expires_at > now
    ]
    if not alive:
        return "there is no token for it that still works"
    if not has_keys(settings):
        return f"the key to its token is missing from {settings.data_dir.expanduser()}"
    try:
        shared_vault(settings).decrypt(alive[0].secret)
    except HeadwayError as error:
        return f"its token cannot be read ({error})"
    return ""
