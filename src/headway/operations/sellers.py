"""Sellers: the tenants of an application that runs Headway for them."""

from dataclasses import dataclass
from datetime import datetime

from headway.core.access import Need
from headway.core.accounts.jobs import Tier
from headway.core.catalog.listings import SellerId
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.inputs import Cursor, Limit, RequestBody, SellerPath, SellerText, example
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.store import cursors
from headway.store.catalog.seller_list import SellerList, SellerRow

TAG = "accounts"


@dataclass(frozen=True, slots=True, kw_only=True)
class SellerDetails:
    """A seller: tier, accounts, listings, and the use of the month's orders."""

    seller: SellerId
    tier: Tier
    """What the seller pays for."""
    accounts: int
    """Accounts at platforms, disconnected ones too."""
    connected: int
    """Accounts that are connected."""
    listings: int
    """Parts that Headway keeps in line for the seller."""
    orders_used: int
    """Orders counted this month."""
    orders_quota: int
    """Orders that the tier includes each month."""
    created_at: datetime | None
    """When the seller was created; null if only rows of other tables name the seller."""

    @property
    def cursor(self) -> str:
        """Where a list goes on after this one."""
        return cursors.encode(self.seller)


@dataclass(frozen=True, slots=True, kw_only=True)
class SellerPage:
    """Sellers by name, and where to go on."""

    items: tuple[SellerDetails, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSeller:
    """A seller, and whether the request created it."""

    seller: SellerDetails
    is_new: bool
    """False if there was such a seller before; then nothing was changed."""


class SellerBody(RequestBody):
    """A seller's name, of your choice, and what the seller pays for."""

    model_config = example({"seller": "acme", "tier": "growth"})
    seller: SellerText
    tier: Tier = Tier.FREE
    """What the seller pays for."""


@operation("POST", "/api/sellers", need=Need.OPERATE, tag=TAG, name="create_seller")
def create_seller(caller: OperatorCaller, body: SellerBody) -> CreatedSeller:
    """Create a seller; asking for one that exists changes nothing, so repeating is safe."""
    app = caller.app
    is_new = SellerList(app.pool).create(body.seller, now=caller.now)
    if is_new:
        quotas = app.job_rule.order_quotas
        app.sellers.set_tier(body.seller, body.tier, quotas=quotas, now=caller.now)
    return CreatedSeller(seller=_read(caller, body.seller), is_new=is_new)


@operation("GET", "/api/sellers", need=Need.READ, tag=TAG, errors=(422,), name="list_sellers")
def sellers(caller: Caller, *, cursor: Cursor = None, limit: Limit = 50) -> SellerPage:
    """List sellers by name; a seller sees only itself."""
    (after,) = (None,) if cursor is None else cursors.decode(cursor, str)
    found = SellerList(caller.own.pool).some(
        caller.seller, after=after, limit=limit + 1, now=caller.now
    )
    rows = [_details(caller, row) for row in found]
    items, next_cursor = cut(rows, limit)
    return SellerPage(items=items, next_cursor=next_cursor)


@operation(
    "GET",
    "/api/sellers/{seller:path}",
    need=Need.READ,
    tag=TAG,
    errors=(404, 422),
    name="get_seller",
)
def seller(caller: Caller, seller: SellerPath) -> SellerDetails:
    """Show one seller."""
    known = caller.known(seller)
    assert known is not None, "a seller was named"
    return _read(caller, known)


def _read(caller: Caller, seller: SellerId) -> SellerDetails:
    return _details(caller, SellerList(caller.own.pool).find(seller, now=caller.now))


def _details(caller: Caller, row: SellerRow) -> SellerDetails:
    return SellerDetails(
        seller=row.seller,
        tier=row.tier,
        accounts=row.accounts,
        connected=row.connected,
        listings=row.listings,
        orders_used=row.orders_used,
        orders_quota=caller.shared.job_rule.order_quotas[row.tier],
        created_at=row.created_at,
    )
