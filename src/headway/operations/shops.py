"""Sellers' shops, their connections and tiers. Tokens only ever come in."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from pydantic import Field, SecretStr

from headway.app import App
from headway.app.accounts import connect_account
from headway.app.permit_call import call_with_permit
from headway.app.providers import own_limit
from headway.config import Settings
from headway.core.access import Need
from headway.core.accounts.jobs import PlatformName, Tier
from headway.core.catalog.listings import SellerId, Wait
from headway.core.dispatch import STOREFRONT
from headway.errors import ConfigError, ConflictError, HeadwayError, InvalidError, NotFoundError
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    Cursor,
    Limit,
    PlatformText,
    ReasonText,
    RequestBody,
    Secret,
    SellerPath,
    SellerQuery,
    SellerText,
    example,
)
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.operations.shop_tokens import forget_tokens, keep_client, keep_tokens
from headway.providers.access_scopes import AccessScope
from headway.providers.provider import PlatformRole, ShopOwner, TokenEntry
from headway.providers.registry import known_platform, platform_role
from headway.providers.tokens import AppClient, is_usable
from headway.store import cursors
from headway.store.accounts.connections import (
    ConnectedShop,
    ConnectedShops,
    ShopTally,
)
from headway.store.accounts.status import AccountView
from headway.store.accounts.warehouse import Warehouse, WrittenCounts
from headway.store.catalog.shop_groups import ShopGroups

TAG = "shops"
GREET_S = 20.0
ACCOUNTS_MAX = 100
ShopText = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=PLAIN)]
Text = Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopView:
    """A seller's shop; locations are None until they were read. Only the storefront has a tally.

    `unknown_locations` are those that stock is mapped to and the shop does not have.
    `missing_scopes` are those that the shop did not grant; None if it did not list them.
    `scope_advice` says how to grant them. A shop in rehearsal is read and not written.
    """

    seller: SellerId
    platform: PlatformName
    shop: str
    title: str
    """The shop's name, as people know it. Example: `Acme Aviation`"""
    status: str
    """Whether the shop is connected. Example: `connected`"""
    reason: str
    """Why it is not connected; empty if it is. Example: `the shop refused the token`"""
    is_in_rehearsal: bool
    locations: tuple[str, ...] | None
    """Names of the shop's stock locations; null until they were read.
    Example: `["Main warehouse"]`
    """
    unknown_locations: tuple[str, ...] | None
    """Locations of the supplier that the shop does not have; null until they were read.
    Example: `["Dallas"]`
    """
    missing_scopes: tuple[AccessScope, ...] | None
    """Access scopes that the shop has not granted; null if the platform does not say."""
    scope_advice: str
    """How to grant them; empty if none is missing.
    Example: `run: headway connect acme.myshopify.com`
    """
    tally: ShopTally | None
    """Listings in the shop; null for a platform that is only read."""
    counts: WrittenCounts
    """Stored records of its account."""

    @property
    def cursor(self) -> str:
        """Where a list goes on after this one."""
        return cursors.encode(self.seller, self.platform, self.shop)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopPage:
    """Shops by seller, and where to go on."""

    items: tuple[ShopView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopConnection:
    """A shop that was connected, and the mapped locations and access scopes that it lacks."""

    account: ConnectedShop
    """The connection."""
    unknown_locations: tuple[str, ...] | None
    """Locations of the supplier that the shop does not have; null until they were read.
    Example: `["Dallas"]`
    """
    missing_scopes: tuple[AccessScope, ...] | None
    """Access scopes that the shop has not granted; null if the platform does not say."""
    scope_advice: str
    """How to grant them; empty if none is missing.
    Example: `run: headway connect acme.myshopify.com`
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TierView:
    """What a seller pays for, and what is left of the month; `lifted` jobs could go on with it."""

    seller: SellerId
    tier: Tier
    """What the seller pays for."""
    orders_quota: int
    """Orders that the tier includes each month."""
    orders_used: int
    """Orders counted this month."""
    interval_min: float
    """Minutes between two runs of a job."""
    lifted: int
    """Jobs that went on because of the change."""
    has_account: bool
    """True if the seller has an account at a platform."""


class TierBody(RequestBody):
    """What a seller is to pay for."""

    model_config = example({"tier": "pro"})
    tier: Tier
    """What the seller pays for."""


class ConnectBody(RequestBody):
    """A shop, its seller, and its tokens, or the id and secret of the shop's own app.

    `owner` is the account that has several shops, where the platform's limit applies to that. With
    `check`, the shop is asked for its locations, which proves the token.
    """

    model_config = example(
        {"shop": "acme.myshopify.com", "seller": "acme", "access_token": "...", "check": False}
    )
    shop: ShopText
    seller: SellerText
    platform: PlatformText = STOREFRONT
    access_token: Secret | None = None
    """The access token, unless the shop's own app is used. Example: `shpat_0123456789abcdef`"""
    refresh_token: Secret | None = None
    """The refresh token, where the platform gives one. Example: `1/abcdef`"""
    client_id: Text = ""
    """The id of the shop's own app. Example: `7f0c1b9e4a4e4f0e`"""
    client_secret: Secret | None = None
    """The secret of the shop's own app. Example: `shpss_0123456789abcdef`"""
    owner: Text = ""
    """The id of the platform's account that owns several shops; they share one limit. It is
    looked up if it is left out. Example: `51234567`
    """
    title: Text = ""
    """The shop's name, as people know it. Example: `Acme Aviation`"""
    main_seller: SellerText | None = None
    """The seller whose keys and logins open this shop too, if its owner has several.
    Example: `acme`
    """
    check: bool = True
    """False to store the tokens without calling the shop or its platform."""
    after_erasure: bool = False
    """True to connect a shop or a seller whose data was erased on request again, on purpose."""


class DisconnectBody(RequestBody):
    """Which seller's shop, and why; the shop is needed if the seller has several there."""

    model_config = example({"seller": "acme", "reason": "the shop is closed"})
    seller: SellerText
    platform: PlatformText = STOREFRONT
    shop: ShopText | None = None
    reason: ReasonText = ""
    """Why, for the history. Example: `the shop was sold`"""


@operation("GET", "/api/shops", need=Need.READ, tag=TAG, errors=(404, 422), name="list_shops")
def shops(
    caller: Caller, *, seller: SellerQuery = None, cursor: Cursor = None, limit: Limit = 50
) -> ShopPage:
    """List sellers' shops, and what waits to get there."""
    accounts, warehouse = ConnectedShops(caller.own.pool), Warehouse(caller.own.pool)
    after = (None, None, None) if cursor is None else cursors.decode(cursor, str, str, str)
    rows = accounts.some(caller.known(seller), after=after, limit=limit + 1)
    tallies = accounts.tally({shop.seller for shop in rows})
    views = [
        ShopView(
            seller=shop.seller,
            platform=shop.platform,
            shop=shop.shop,
            title=shop.title,
            status=shop.status,
            reason=shop.reason,
            is_in_rehearsal=shop.is_in_rehearsal,
            locations=None if shop.locations is None else tuple(sorted(shop.locations)),
            unknown_locations=_unknown_locations(caller.shared, shop),
            missing_scopes=missing_scopes(caller.shared, shop),
            scope_advice=scope_advice(caller.shared, shop),
            tally=tallies[shop.seller] if shop.platform == STOREFRONT else None,
            counts=warehouse.counts(shop.bare),
        )
        for shop in rows
    ]
    items, next_cursor = cut(views, limit)
    return ShopPage(items=items, next_cursor=next_cursor)


@operation(
    "GET",
    "/api/sellers/{seller:path}/tier",
    need=Need.READ,
    tag=TAG,
    errors=(404, 422),
    name="get_tier",
)
def tier(caller: Caller, seller: SellerPath) -> TierView:
    """Show what a seller pays for, and what is left of the month."""
    known = caller.known(seller)
    assert known is not None, "a seller was named"
    return _tier(caller, known)


@operation("PUT", "/api/sellers/{seller:path}/tier", need=Need.OPERATE, tag=TAG, errors=(404,))
def set_tier(caller: OperatorCaller, seller: SellerPath, body: TierBody) -> TierView:
    """Set what a seller pays for; it acts at once on all the seller's jobs."""
    caller.known(seller)
    quotas = caller.app.job_rule.order_quotas
    lifted = caller.app.sellers.set_tier(seller, body.tier, quotas=quotas, now=caller.now)
    return _tier(caller, seller, lifted=lifted)


@operation("POST", "/api/shops/connect", need=Need.OPERATE, tag=TAG, name="connect_shop")
def connect(caller: OperatorCaller, body: ConnectBody) -> ShopConnection:
    """Connect a seller to a shop, or give the shop new tokens; they are kept encrypted."""
    app = caller.app
    account = connect_with_tokens(caller, body)
    if account.platform == STOREFRONT and body.check:
        account = _greet(app, account)
    return ShopConnection(
        account=account,
        unknown_locations=_unknown_locations(app, account),
        missing_scopes=missing_scopes(app, account),
        scope_advice=scope_advice(app, account),
    )


def connect_with_tokens(caller: OperatorCaller, body: ConnectBody) -> ConnectedShop:
    """Connect a seller to a shop with its tokens; a storefront is not asked for anything.

    Where several shops share their owner's limit, the platform is asked who owns this one.
    """
    app, platform = caller.app, known_platform(body.platform)
    role = platform_role(platform)
    name = shop_name(role, body.shop)
    client = _own_client(role.tokens, body)
    access, refresh = _plain(body.access_token), _plain(body.refresh_token)
    if client is None:
        _check_tokens(app.settings, role.tokens, access, refresh)
    if body.main_seller is not None:
        caller.known(body.main_seller)
        ShopGroups(app.pool).require_possible(body.seller, body.main_seller)
    owner_id = body.owner and shop_name(role, body.owner, field="owner")
    owner = ShopOwner(owner_id=owner_id, title=body.title)

    def join(owner: ShopOwner) -> ConnectedShop:
        return connect_account(
            app.pool,
            body.seller,
            name,
            platform=platform,
            owner_id=owner.owner_id or (name if role.has_owners else ""),
            title=body.title or owner.title,
            rehearses=app.settings.rehearsal,
            after_erasure=body.after_erasure,
            now=caller.now,
        )

    if client is None:
        keep_tokens(app, join(owner), access, refresh)
    else:
        keep_client(app, join(owner), client)
    if body.main_seller is not None:
        ShopGroups(app.pool).put(body.seller, body.main_seller, now=caller.now)
    if role.find_owner is not None and body.check and not owner.owner_id:
        try:
            owner = _find_owner(app, role, join(owner))
        except HeadwayError as error:
            return ConnectedShops(app.pool).disconnect(
                body.seller, str(error), platform=platform, shop=name, now=caller.now
            )
    # A push or a pull that came in between found no token, and gave up.
    return join(owner)


def _find_owner(app: App, role: PlatformRole, account: ConnectedShop) -> ShopOwner:
    """Ask the platform who owns a shop, within the limits; raises HeadwayError."""
    assert role.find_owner is not None, "checked before"
    find_owner, platform = role.find_owner, app.open_platform(account.bare)
    own = own_limit(account.bare, app.settings, restore_per_s=app.shop_restore_per_s)
    assert own is not None, "an owner's limit is what it is looked up for"
    return call_with_permit(
        app, [own], lambda: find_owner(platform, account.shop), purpose="connect"
    )


@operation(
    "POST",
    "/api/shops/disconnect",
    need=Need.OPERATE,
    tag=TAG,
    errors=(404,),
    name="disconnect_shop",
)
def disconnect(caller: OperatorCaller, body: DisconnectBody) -> ConnectedShop:
    """Stop reading and writing a seller's shop, and forget its tokens."""
    app, platform = caller.app, known_platform(body.platform)
    _require_connected(app, body.seller, platform)
    account = ConnectedShops(app.pool).disconnect(
        body.seller,
        body.reason or "disconnected by a person",
        platform=platform,
        shop=None if body.shop is None else platform_role(platform).shop_name(body.shop),
        is_leaving=True,
        now=caller.now,
    )
    forget_tokens(app, account)
    return account


def shop_name(role: PlatformRole, text: str, *, field: str = "shop") -> str:
    """Return a shop's name, however a person wrote it; raises InvalidError for the field."""
    try:
        return role.shop_name(text)
    except InvalidError as error:
        raise InvalidError(f"{field}: {error}") from None


def _plain(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _own_client(entry: TokenEntry, body: ConnectBody) -> AppClient | None:
    """Return the shop's own app, if it is to be connected with that; raises InvalidError."""
    secret = _plain(body.client_secret)
    if not body.client_id and secret is None:
        return None
    if not entry.takes_client:
        raise InvalidError(f"client_id: {body.platform} issues no tokens for it; enter a token")
    if not body.client_id or secret is None:
        raise InvalidError("client_id, client_secret: one does not work without the other")
    if body.access_token is not None or body.refresh_token is not None:
        raise InvalidError("client_id: enter a token, or a client id and secret, not both")
    return AppClient(client_id=body.client_id, client_secret=secret)


def _check_tokens(
    settings: Settings, entry: TokenEntry, access: str | None, refresh: str | None
) -> None:
    """Raise InvalidError or ConflictError if a token is missing, or could not be used."""
    if access is None:
        also = ", or client_id and client_secret" if entry.takes_client else ""
        raise InvalidError(f"access_token{also}: it is needed to connect a shop")
    if not all(is_usable(token) for token in (access, refresh) if token is not None):
        raise InvalidError("access_token, refresh_token: a token is one word, on one line")
    if entry.refresh_required and refresh is None:
        raise InvalidError(f"refresh_token: {entry.refresh_required}, so it is needed")
    if entry.refresh_refused and refresh is not None:
        raise InvalidError(entry.refresh_refused)
    try:
        entry.check_app(settings, refresh is not None)
    except ConfigError as error:
        raise ConflictError(str(error)) from None


def _greet(app: App, account: ConnectedShop) -> ConnectedShop:
    """Read the shop's locations, which proves the token; a running worker may be faster."""
    push, accounts = app.push("connect", only=account.id), ConnectedShops(app.pool)
    give_up_s = app.clock.monotonic() + GREET_S
    while account.status == "connected" and account.locations_at is None:
        if app.clock.monotonic() > give_up_s:
            break
        result = push.step()
        account = accounts.of_seller(account.seller)
        if isinstance(result, Wait):
            wait_s = (result.until - app.clock.now()).total_seconds()
            app.clock.sleep(min(max(wait_s, 0), GREET_S))
    return account


def _require_connected(app: App, seller: SellerId, platform: PlatformName) -> None:
    """Raise NotFoundError if all the seller's shops are on other platforms."""
    accounts = app.account_queries.accounts(user_id=seller, limit=ACCOUNTS_MAX)
    others = sorted({account.platform for account in accounts})
    if others and platform not in others:
        raise NotFoundError(
            f"{seller} has no shop on {platform}, but on {' and '.join(others)}; add --platform"
        )


def _tier(caller: Caller, seller: SellerId, *, lifted: int = 0) -> TierView:
    rule, sellers = caller.shared.job_rule, caller.own.sellers
    paid = sellers.tier(seller)
    return TierView(
        seller=seller,
        tier=paid,
        orders_quota=rule.order_quotas[paid],
        orders_used=sellers.orders_count(seller, now=caller.now),
        interval_min=rule.intervals[paid] / timedelta(minutes=1),
        lifted=lifted,
        has_account=bool(caller.own.account_queries.accounts(user_id=seller, limit=1)),
    )


def _unknown_locations(app: App, shop: ConnectedShop) -> tuple[str, ...] | None:
    """Return the locations that stock is mapped to and the shop does not have."""
    if shop.locations is None:
        return None
    terms = app.sellers.settings({shop.seller}, app.clock.now())[shop.seller].terms
    return tuple(sorted(set(terms.locations.values()) - set(shop.locations)))


def scope_advice(app: App, shop: ConnectedShop | AccountView) -> str:
    """Return how to grant the access scopes that a shop lacks; empty if it lacks none."""
    if not missing_scopes(app, shop):
        return ""
    return platform_role(shop.platform).scope_advice(app.settings, shop.shop, shop.seller)


def missing_scopes(app: App, shop: ConnectedShop | AccountView) -> tuple[AccessScope, ...] | None:
    """Return the access scopes that we ask for and the shop did not grant; None if unknown."""
    if shop.scopes is None:
        return None
    return tuple(platform_role(shop.platform).missing_scopes(app.settings, shop.scopes))
