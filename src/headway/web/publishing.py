"""`/api/bulk-publish`: ask for parts to be put into a shop, and see what became of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import AfterValidator, ConfigDict, Field

from headway.app import App
from headway.clock import fresh_id
from headway.core.intake import Part, fate, read_at, seller_of, sku_of
from headway.core.model import SellerId
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.store.publishing import PARTS_MAX, Publishing
from headway.web.access import ApiRoute, Caller, ReadDesk, WriteDesk
from headway.web.api import ProblemShape
from headway.web.problems import ERRORS_TOLD
from headway.web.shape import Shape

PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": ProblemShape, "description": "No such batch."},
    409: {"model": ProblemShape, "description": "No shop, or no part that could be taken."},
    422: {"model": ProblemShape, "description": "Malformed; the detail names the field."},
    503: {"model": ProblemShape, "description": "The database is down."},
}
BATCH_ID = "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"
PART_EXAMPLE: dict[str, Any] = {
    "part_number": "WF338109=K3",
    "shop_sku": "WF338109",
    "status": "requested",
    "note": "number 3 in line; read at about 12:00:30 UTC",
    "place": 3,
    "expected_at": "2026-03-04T12:00:30Z",
    "shopify_product_id": None,
}


def _checked(check: Callable[[str], str]) -> AfterValidator:
    """Make a validator of a rule of the core."""

    def validate(text: str) -> str:
        try:
            return check(text)
        except InvalidError as error:
            raise ValueError(str(error)) from None

    return AfterValidator(validate)


class BulkPublish(Shape):
    """Parts to be put into a seller's shop; the only seller's if none is named."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"part_numbers": ["WF338109=K3", "AN 960/10L"], "seller": "acme"}]
        },
    )
    part_numbers: list[Annotated[str, _checked(sku_of)]] = Field(min_length=1, max_length=PARTS_MAX)
    seller: Annotated[str, _checked(seller_of)] | None = None


class PartShape(Shape):
    """One part: where it stands, and what it waits for."""

    model_config = ConfigDict(json_schema_extra={"examples": [PART_EXAMPLE]})
    part_number: str
    shop_sku: str
    status: Literal["requested", "normalized", "published", "blocked", "failed", "refused"]
    note: str
    place: int | None = None
    expected_at: datetime | None = None
    shopify_product_id: str | None = None


class BatchShape(Shape):
    """What was asked for together, as it stands now."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"batch_id": BATCH_ID, "counts": {"requested": 1}, "parts": [PART_EXAMPLE]}
            ]
        }
    )
    batch_id: str
    counts: dict[str, int]
    parts: list[PartShape]


def router(app: App) -> APIRouter:
    """Make the routes of one application."""
    routes = APIRouter(route_class=ApiRoute, tags=["publish"])

    @routes.post("/api/bulk-publish", status_code=202, responses=_said(409, 422, 503))
    def bulk_publish(_: WriteDesk, caller: Caller, wish: BulkPublish) -> BatchShape:
        """Ask for parts; each boards the next calls, and none is ever made twice."""
        # Slots are shared by all sellers, so a part is placed on this side of the wall.
        publishing = Publishing(app.behind(actor=caller.name).pool)
        named = None if wish.seller is None else SellerId(wish.seller)
        seller = publishing.seller(caller.whose(named))
        batch_id = fresh_id()
        parts = publishing.request(
            seller,
            wish.part_numbers,
            batch_id=batch_id,
            form=app.settings.shop_sku,
            policy=app.policy,
            now=app.clock.now(),
        )
        if all(each.status == "refused" for each in parts):
            told = "; ".join(f"{each.sku}: {each.reason}" for each in parts[:ERRORS_TOLD])
            raise ConflictError(f"no part could be taken: {told}")
        return _batch(app, batch_id, parts)

    @routes.get("/api/bulk-publish/{batch_id}", responses=_said(404, 503))
    def published_batch(_: ReadDesk, caller: Caller, batch_id: str) -> BatchShape:
        """Tell what became of a batch; a part belongs to the batch that asked for it last."""
        publishing = Publishing(app.pool)
        parts = publishing.batch(batch_id, seller=caller.seller) if _is_uuid(batch_id) else []
        if not parts:
            raise NotFoundError("there is no such batch, or its parts were asked for again since")
        return _batch(app, batch_id, parts)

    return routes


def _said(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: PROBLEMS[status] for status in statuses}


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _batch(app: App, batch_id: str, parts: Sequence[Part]) -> BatchShape:
    now = app.clock.now()
    line, seats = app.line(now), app.rule.boarding.seats
    expected = [read_at(each, line, seats=seats, now=now) for each in parts]
    return BatchShape(
        batch_id=batch_id,
        counts=Counter(each.status for each in parts),
        parts=[
            PartShape.model_validate(
                {
                    "part_number": each.sku,
                    "shop_sku": each.shop_sku,
                    "status": each.status,
                    "note": fate(each, at, now),
                    "place": each.place,
                    "expected_at": at,
                    "shopify_product_id": each.shopify_product_id,
                }
            )
            for each, at in zip(parts, expected, strict=True)
        ],
    )
