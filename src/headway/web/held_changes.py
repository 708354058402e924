"""`/api/sync`: what waits for a person, and what the person decides."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from headway.core.access import Principal
from headway.core.catalog.listings import SellerId, Sku
from headway.store.catalog.review import Ruling
from headway.web.access import ApiRoute, Caller, ReadOperations, Whose, WriteOperations
from headway.web.error_responses import said
from headway.web.inputs import Cursor, Limit
from headway.web.listing_models import (
    Approving,
    Deciding,
    HeldPageShape,
    Reviving,
    RollingBack,
    RulingsShape,
)
from headway.web.listings import cut, link_next


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["deciding"])
    routes.get("/api/sync/held", responses=said(404, 422))(held)
    routes.post("/api/sync/approve", responses=said(404))(approve)
    routes.post("/api/sync/reject", responses=said(404))(reject)
    routes.post("/api/sync/rollback", responses=said(404))(rollback)
    routes.post("/api/sync/revive", responses=said(404))(revive)
    return routes


def held(
    request: Request,
    reply: Response,
    operations: ReadOperations,
    *,
    seller: Whose,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> HeldPageShape:
    """List the changes that are held for a person, the oldest first."""
    found = operations.held(seller=seller, limit=limit + 1, cursor=cursor)
    shown, next_cursor = cut(found, limit)
    link_next(request, reply, next_cursor)
    return HeldPageShape.model_validate({"items": shown, "next_cursor": next_cursor})


def approve(operations: WriteOperations, caller: Caller, wish: Approving) -> RulingsShape:
    """Let held changes reach the shop; `all` also lifts the guard against mass changes for 24 h."""
    seller = whose(caller, wish.seller)
    if wish.skus is None:
        return ruled(operations.approve_all(seller=seller, reason=wish.reason))
    return ruled(operations.approve(skus_of(wish.skus), seller=seller, reason=wish.reason))


def reject(operations: WriteOperations, caller: Caller, wish: Deciding) -> RulingsShape:
    """Keep the shop's price; the same quote is not held again."""
    seller = whose(caller, wish.seller)
    return ruled(operations.reject(skus_of(wish.skus), seller=seller, reason=wish.reason))


def rollback(operations: WriteOperations, caller: Caller, wish: RollingBack) -> RulingsShape:
    """Give parts the price that the shop showed at another time; stock stays as it is."""
    seller = whose(caller, wish.seller)
    if wish.since is not None:
        return ruled(
            operations.rollback_since(
                wish.since, to=wish.to, seller=seller, reason=wish.reason, dry_run=wish.dry_run
            )
        )
    return ruled(
        operations.rollback(
            skus_of(wish.skus or ()),
            to=wish.to,
            seller=seller,
            reason=wish.reason,
            dry_run=wish.dry_run,
        )
    )


def revive(operations: WriteOperations, caller: Caller, wish: Reviving) -> RulingsShape:
    """Restart parked parts; they board the next call. Jobs are revived at /api/jobs."""
    seller = whose(caller, wish.seller)
    if wish.skus is None:
        return ruled(operations.revive_all(seller=seller))
    return ruled(operations.revive(skus_of(wish.skus), seller=seller))


def whose(caller: Principal, named: str | None) -> SellerId | None:
    """Return whose listings a body means; raises ForbiddenError."""
    return caller.whose(None if named is None else SellerId(named))


def skus_of(texts: Sequence[str]) -> list[Sku]:
    """Return part numbers that a body named."""
    return [Sku(text) for text in texts]


def ruled(rulings: Sequence[Ruling]) -> RulingsShape:
    """Return the answer for each listing, and how many were done."""
    done = sum(each.is_done for each in rulings)
    return RulingsShape.model_validate(
        {"listings": rulings, "done": done, "left": len(rulings) - done}
    )
