"""`/api/bulk-publish`: ask for parts to be put into a shop, and see what became of them."""

from collections import Counter
from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from headway.core.catalog.listings import SellerId
from headway.operations.answers import PublishBatch
from headway.store.catalog.publishing import PARTS_MAX
from headway.web.access import ApiRoute, Caller, ReadOperations, WriteOperations
from headway.web.error_responses import said
from headway.web.inputs import NamePath, SellerText, SkuText
from headway.web.response_model import Shape

BATCH_ID = "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"
PART_EXAMPLE: dict[str, Any] = {
    "part_number": "WF338109=K3",
    "shop_sku": "WF338109",
    "status": "requested",
    "reason": "",
    "note": "number 3 in line; read at about 12:00:30 UTC",
    "place": 3,
    "due_at": "2026-03-04T12:00:00Z",
    "expected_at": "2026-03-04T12:00:30Z",
    "shopify_product_id": None,
}


class BulkPublish(Shape):
    """Parts to be put into a seller's shop; the only seller's if none is named."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"part_numbers": ["WF338109=K3", "AN 960/10L"], "seller": "acme"}]
        },
    )
    part_numbers: list[SkuText] = Field(min_length=1, max_length=PARTS_MAX)
    seller: SellerText | None = None


class PartShape(Shape):
    """One part: where it stands, and what it waits for."""

    model_config = ConfigDict(json_schema_extra={"examples": [PART_EXAMPLE]})
    part_number: str
    shop_sku: str
    status: Literal["requested", "normalized", "published", "blocked", "failed", "refused"]
    reason: str
    note: str
    place: int | None = None
    due_at: datetime | None = None
    expected_at: datetime | None = None
    shopify_product_id: str | None = None


class BatchShape(Shape):
    """What was asked for together, as it stands now."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "batch_id": BATCH_ID,
                    "seller": "acme",
                    "counts": {"requested": 1},
                    "parts": [PART_EXAMPLE],
                }
            ]
        }
    )
    batch_id: str
    seller: str
    counts: dict[str, int]
    parts: list[PartShape]


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=ApiRoute, tags=["publish"])
    routes.post("/api/bulk-publish", status_code=202)(bulk_publish)
    routes.get("/api/bulk-publish/{batch_id}", responses=said(404, 422))(published_batch)
    return routes


def bulk_publish(operations: WriteOperations, caller: Caller, wish: BulkPublish) -> BatchShape:
    """Ask for parts; each boards the next calls, and none is ever made twice."""
    seller = caller.whose(None if wish.seller is None else SellerId(wish.seller))
    return _shape(operations.publish(wish.part_numbers, seller=seller))


def published_batch(operations: ReadOperations, batch_id: NamePath) -> BatchShape:
    """Tell what became of a batch; a part belongs to the batch that asked for it last."""
    return _shape(operations.batch(batch_id))


def _shape(batch: PublishBatch) -> BatchShape:
    parts = [
        {
            "part_number": each.sku,
            "shop_sku": each.shop_sku,
            "status": each.status,
            "reason": each.reason,
            "note": each.note,
            "place": each.place,
            "due_at": each.due_at,
            "expected_at": each.expected_at,
            "shopify_product_id": each.shopify_product_id,
        }
        for each in batch.parts
    ]
    counts = Counter(each.status for each in batch.parts)
    return BatchShape.model_validate(
        {"batch_id": batch.batch_id, "seller": batch.seller, "counts": counts, "parts": parts}
    )
