"""`/api/sync`: what a person stops, lets go on, and lets go first."""

from collections.abc import Sequence
from datetime import datetime

from fastapi import APIRouter
from pydantic import ConfigDict

from headway.core.catalog.listings import Sku, SupplierName
from headway.core.pauses import PauseKind
from headway.web.access import ApiRoute, Caller, ReadOperations, Whose, WriteOperations
from headway.web.error_responses import said
from headway.web.held_changes import ruled, skus_of, whose
from headway.web.inputs import Instant, ReasonText, SellerText, SupplierText
from headway.web.listing_models import Deciding, PauseWord, RulingsShape, Skus
from headway.web.response_model import Shape


class StandingPauseShape(Shape):
    """Something that a person stopped; without an end it stands until somebody resumes it."""

    kind: PauseWord
    seller: str | None
    sku: str | None
    supplier: str | None
    until: datetime | None
    reason: str
    actor: str
    since: datetime


class PausesShape(Shape):
    """What is paused; of one seller, whatever stops that seller."""

    now: datetime
    pauses: list[StandingPauseShape]


class ResumedShape(Shape):
    """What became of a pause that was to end."""

    kind: PauseWord
    seller: str | None
    sku: str | None
    supplier: str | None
    is_done: bool
    said: str


class ResumingShape(Shape):
    """An answer for each thing."""

    resumed: list[ResumedShape]
    done: int
    left: int


class Resuming(Shape):
    """What is to go on: everything, suppliers (all, or the one named), a seller, or parts."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "listing", "skus": ["WF338109=K3"]}]}
    )
    kind: PauseWord
    skus: Skus | None = None
    seller: SellerText | None = None
    supplier: SupplierText | None = None
    reason: ReasonText = ""


class Pausing(Resuming):
    """What is to stop, and until when; pausing again replaces the end and the reason."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "listing", "skus": ["WF338109=K3"], "reason": "recalled"},
                {"kind": "supplier", "supplier": "east", "reason": "its price list is wrong"},
                {"kind": "seller", "seller": "acme", "until": "2036-03-04T09:00:00Z"},
            ]
        }
    )
    until: Instant | None = None


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["pausing"])
    routes.get("/api/sync/pauses", responses=said(404, 422))(pauses)
    routes.post("/api/sync/pause", responses=said(404))(pause)
    routes.post("/api/sync/resume", responses=said(404))(resume)
    routes.post("/api/sync/trigger", responses=said(404))(trigger)
    return routes


def pauses(operations: ReadOperations, seller: Whose) -> PausesShape:
    """List what is paused."""
    return PausesShape.model_validate(
        {"now": operations.now, "pauses": operations.pauses(seller=seller)}
    )


def pause(operations: WriteOperations, caller: Caller, wish: Pausing) -> PausesShape:
    """Stop everything, suppliers, a seller, or parts; it acts at once."""
    made = operations.pause(
        PauseKind(wish.kind),
        skus=_skus(wish.skus),
        seller=whose(caller, wish.seller),
        supplier=_supplier(wish.supplier),
        until=wish.until,
        reason=wish.reason,
    )
    return PausesShape.model_validate({"now": operations.now, "pauses": made})


def resume(operations: WriteOperations, caller: Caller, wish: Resuming) -> ResumingShape:
    """Let it go on; the answer says so where another pause still stops it."""
    resumed = operations.resume(
        PauseKind(wish.kind),
        skus=_skus(wish.skus),
        seller=whose(caller, wish.seller),
        supplier=_supplier(wish.supplier),
        reason=wish.reason,
    )
    done = sum(each.is_done for each in resumed)
    return ResumingShape.model_validate(
        {"resumed": resumed, "done": done, "left": len(resumed) - done}
    )


def trigger(operations: WriteOperations, caller: Caller, wish: Deciding) -> RulingsShape:
    """Let parts board the next call, before all others."""
    seller = whose(caller, wish.seller)
    return ruled(operations.trigger(skus_of(wish.skus), seller=seller, reason=wish.reason))


def _skus(texts: Sequence[str] | None) -> list[Sku]:
    return skus_of(texts or ())


def _supplier(name: str | None) -> SupplierName | None:
    return None if name is None else SupplierName(name)
