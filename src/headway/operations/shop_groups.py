"""The shops of one owner: each a seller of its own, with one key and one login for all."""

from dataclasses import dataclass

from headway.core.access import Need
from headway.core.catalog.listings import SellerId
from headway.errors import NotFoundError
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.inputs import RequestBody, SellerPath, SellerText, example
from headway.operations.operation import operation
from headway.store.accounts.connections import ConnectedShop, ConnectedShops, ShopTally
from headway.store.catalog.shop_groups import ShopGroups

TAG = "shops"
PATH = "/api/sellers/{seller:path}/group"
NO_TALLY = ShopTally(products=0, waiting=0, failing=0, held=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShop:
    """One shop of an owner, and what waits to get there."""

    seller: SellerId
    is_main: bool
    """True if keys of this seller may act for the others."""
    shop: str | None
    """The shop's address; null if none is connected. Example: `acme.myshopify.com`"""
    title: str
    """The shop's name, as people know it. Example: `Acme Aviation`"""
    status: str
    """Whether the shop is connected. Example: `connected`"""
    reason: str
    """Why it is not connected; empty if it is. Example: `the shop refused the token`"""
    is_in_rehearsal: bool
    tally: ShopTally
    """Listings in the shop."""
    orders: int
    """Orders counted this month, on all platforms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopGroup:
    """All shops of one owner, the main one first, and their totals."""

    main_seller: SellerId
    """The seller whose keys and logins may act for each of them. Example: `acme`"""
    shops: tuple[GroupShop, ...]
    """The shops."""
    totals: ShopTally
    """Listings in all shops together."""
    orders: int
    """Orders of all shops counted this month."""


class GroupBody(RequestBody):
    """Which owner's shop a seller is; none if `main_seller` is left out."""

    model_config = example({"main_seller": "acme"}, {})
    main_seller: SellerText | None = None
    """The seller whose keys and logins may act for this one. Example: `acme`"""


@operation("GET", "/api/me/shops", need=Need.READ, tag=TAG, errors=(404,), name="list_my_shops")
def my_shops(caller: Caller) -> ShopGroup:
    """List the shops that the caller's key may act for, with totals.

    Name one of them in the header `Headway-Seller` of a request, and it is about that shop.
    """
    main = caller.principal.main
    if main is None:
        raise NotFoundError("this key belongs to no seller; see: /api/sellers/SELLER/group")
    return _group(caller, main)


@operation("GET", PATH, need=Need.OVERSEE, tag=TAG, errors=(404,), name="get_shop_group")
def shop_group(caller: OperatorCaller, seller: SellerPath) -> ShopGroup:
    """List the shops of a seller's owner, with totals."""
    caller.known(seller)
    return _group(caller, ShopGroups(caller.app.pool).main_of(seller))


@operation("PUT", PATH, need=Need.OPERATE, tag=TAG, errors=(404, 409), name="set_shop_group")
def set_shop_group(caller: OperatorCaller, seller: SellerPath, body: GroupBody) -> ShopGroup:
    """Let the keys of a main seller act for this one too, or no longer; it takes effect at once.

    A name without a seller begins one, with the tier and the supplier of the main seller.
    """
    if body.main_seller is None:
        caller.known(seller)
    else:
        caller.known(body.main_seller)
    groups = ShopGroups(caller.app.pool)
    groups.put(seller, body.main_seller, now=caller.now)
    return _group(caller, groups.main_of(seller))


def _group(caller: Caller, main: SellerId) -> ShopGroup:
    """Read a group; its sellers are named, as isolation shows a seller one shop at a time."""
    app = caller.shared
    sellers = ShopGroups(app.pool).shops_of(main)
    accounts = ConnectedShops(app.pool)
    tallies = accounts.tally(sellers)
    connected = {shop.seller: shop for shop in accounts.storefronts(sellers)}
    shops = tuple(
        _shop(
            seller,
            connected.get(seller),
            tallies.get(seller, NO_TALLY),
            orders=app.sellers.orders_count(seller, now=caller.now),
            is_main=seller == main,
        )
        for seller in sellers
    )
    return ShopGroup(
        main_seller=main,
        shops=shops,
        totals=ShopTally(
            products=sum(shop.tally.products for shop in shops),
            waiting=sum(shop.tally.waiting for shop in shops),
            failing=sum(shop.tally.failing for shop in shops),
            held=sum(shop.tally.held for shop in shops),
        ),
        orders=sum(shop.orders for shop in shops),
    )


def _shop(
    seller: SellerId, shop: ConnectedShop | None, tally: ShopTally, *, orders: int, is_main: bool
) -> GroupShop:
    if shop is None:
        return GroupShop(
            seller=seller,
            is_main=is_main,
            shop=None,
            title="",
            status="disconnected",
            reason="no shop was connected yet",
            is_in_rehearsal=False,
            tally=tally,
            orders=orders,
        )
    return GroupShop(
        seller=seller,
        is_main=is_main,
        shop=shop.shop,
        title=shop.title,
        status=shop.status,
        reason=shop.reason,
        is_in_rehearsal=shop.is_in_rehearsal,
        tally=tally,
        orders=orders,
    )
