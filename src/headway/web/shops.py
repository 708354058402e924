"""`/api/shops` and a seller's tier: sellers' shops, and what sellers pay for."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict

from headway.core.accounts.jobs import Tier
from headway.core.catalog.intake import seller_of
from headway.core.catalog.listings import SellerId
from headway.web.access import ApiRoute, Caller, OperateOperations, ReadOperations, Whose
from headway.web.account_models import PlatformWord, TierWord
from headway.web.error_responses import said
from headway.web.inputs import Cursor, Limit, checked
from headway.web.listings import cut, link_next
from headway.web.response_model import Shape

SellerPath = Annotated[
    str, checked(seller_of), Path(description="The seller's name.", examples=["acme"])
]


class TallyShape(Shape):
    """What is in a seller's shop, and what waits to get there."""

    products: int
    waiting: int
    failing: int
    held: int


class ShopCountsShape(Shape):
    """What was pulled from a shop."""

    orders: int
    open_orders: int
    listings: int
    customers: int
    payments: int
    unreadable: int
    newest_order_at: datetime | None


class ShopViewShape(Shape):
    """A seller's shop; locations are null until it told them, and only Shopify's has a tally."""

    seller: str
    platform: PlatformWord
    shop: str
    title: str
    status: str
    reason: str
    locations: list[str] | None
    unknown_locations: list[str] | None
    tally: TallyShape | None
    counts: ShopCountsShape


class ShopsShape(Shape):
    """Shops by seller, and where to go on."""

    items: list[ShopViewShape]
    next_cursor: str | None


class TierShape(Shape):
    """What a seller pays for, and what is left of the month; `lifted` jobs could go on with it."""

    seller: str
    tier: TierWord
    orders_quota: int
    orders_used: int
    interval_min: float
    lifted: int
    has_account: bool


class TierBody(Shape):
    """What a seller is to pay for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tier": "pro"}]})
    tier: TierWord


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["shops"])
    routes.get("/api/shops", responses=said(404, 422))(shops)
    routes.get("/api/sellers/{seller:path}/tier", responses=said(404, 422))(tier)
    routes.put("/api/sellers/{seller:path}/tier")(set_tier)
    return routes


def shops(
    request: Request,
    reply: Response,
    operations: ReadOperations,
    *,
    seller: Whose,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> ShopsShape:
    """List sellers' shops, and what waits to get there."""
    found = operations.shops.some(seller=seller, limit=limit + 1, cursor=cursor)
    items, next_cursor = cut(found, limit)
    link_next(request, reply, next_cursor)
    return ShopsShape.model_validate({"items": items, "next_cursor": next_cursor})


def tier(operations: ReadOperations, caller: Caller, seller: SellerPath) -> TierShape:
    """Show what a seller pays for, and what is left of the month."""
    caller.whose(SellerId(seller))
    return TierShape.model_validate(operations.shops.tier(SellerId(seller)))


def set_tier(operations: OperateOperations, seller: SellerPath, body: TierBody) -> TierShape:
    """Set what a seller pays for; it acts at once on all the seller's jobs."""
    return TierShape.model_validate(operations.shops.set_tier(SellerId(seller), Tier(body.tier)))
