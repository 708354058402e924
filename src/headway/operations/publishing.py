"""Parts requested for a shop, and their status."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from headway.app import App
from headway.app.supplier_queue import supplier_queue
from headway.clock import fresh_id
from headway.core.access import Need
from headway.core.catalog.intake import ImportedPart, intake_message, read_at
from headway.core.catalog.listings import SellerId, Sku
from headway.errors import ConflictError, NotFoundError
from headway.operations.callers import Caller
from headway.operations.inputs import NamePath, RequestBody, SellerText, SkuText, example
from headway.operations.operation import operation
from headway.store.catalog.publishing import PARTS_MAX, Publishing
from headway.store.queries import is_uuid

TAG = "publishing"
NAMED_MAX = 5
SHOPS_MAX = 51
STATUSES = ["requested", "normalized", "created", "published", "blocked", "failed", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPart:
    """A part that somebody wants in a shop, and when to expect it there."""

    sku: Annotated[Sku, Field(alias="part_number")]
    """The supplier's part number. Example: `WF338109=K3`"""
    shop_sku: str
    """The SKU in the shop. Example: `WF338109`"""
    status: Annotated[str, Field(json_schema_extra={"enum": STATUSES})]
    """How far the part is."""
    reason: str
    """Why it failed or waits; empty if neither. Example: `waiting for its first read`"""
    shopify_product_id: str | None
    """The product's id in the shop; null until it is created.
    Example: `gid://shopify/Product/8123456789`
    """
    place: int | None
    """Its place in the queue; null if it does not wait for a read."""
    due_at: datetime | None
    """When it is read; null if it has been."""
    expected_at: datetime | None
    """When it is expected in the shop; null if it is there or failed."""
    left_out: tuple[str, ...]
    """Details of the supplier that were left out, and why. Example: `["weight: not a number"]`"""
    note: str
    """The part's note, for people; empty if there is none. Example: `created, not yet published`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishBatch:
    """Parts that were asked for together, for one seller's shop, as they stand now."""

    batch_id: str
    """The id of the batch. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    seller: SellerId
    counts: Mapping[str, int]
    """Parts by status. Example: `{"published": 2, "waiting": 1}`"""
    parts: tuple[RequestedPart, ...]
    """Each part with its status."""


class PublishBody(RequestBody):
    """Parts to be put into a seller's shop; the only seller's if none is named."""

    model_config = example({"part_numbers": ["WF338109=K3", "AN 960/10L"], "seller": "acme"})
    part_numbers: Annotated[list[SkuText], Field(min_length=1, max_length=PARTS_MAX)]
    """The parts to publish. Example: `["WF338109=K3"]`"""
    seller: SellerText | None = None
    """Whose shop; it may be left out if there is only one seller. Example: `acme`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopPublishing:
    """What became of a request in one of several shops."""

    seller: SellerId
    batch: PublishBatch | None
    """The parts that were asked for; null if the shop takes none of them."""
    error: str
    """Why the shop takes none; empty if it takes some. Example: `acme/eu has no shop`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopsPublishing:
    """Parts that were asked for in several shops."""

    shops: tuple[ShopPublishing, ...]
    """The shops, in the order in which they were named."""


class PublishInShopsBody(RequestBody):
    """Parts to be put into several shops."""

    model_config = example({"part_numbers": ["WF338109=K3"], "sellers": ["acme", "acme/eu"]})
    part_numbers: Annotated[list[SkuText], Field(min_length=1, max_length=PARTS_MAX)]
    """The parts to publish. Example: `["WF338109=K3"]`"""
    sellers: Annotated[list[SellerText], Field(min_length=1, max_length=SHOPS_MAX)]
    """Whose shops. Example: `["acme", "acme/eu"]`"""


@operation(
    "POST", "/api/bulk-publish", need=Need.WRITE, tag=TAG, status=202, name="publish_products"
)
def publish(caller: Caller, body: PublishBody) -> PublishBatch:
    """Ask for parts; each joins the next calls, and none is ever made twice."""
    app, now, batch_id = caller.shared, caller.now, fresh_id()
    publishing = Publishing(app.pool)  # which slots are full depends on everybody's listings
    seller = publishing.seller(caller.named(body.seller))
    parts = publishing.request(
        seller,
        body.part_numbers,
        batch_id=batch_id,
        form=app.settings.shop_sku,
        policy=app.policy,
        now=now,
    )
    if all(part.status == "refused" for part in parts):
        reasons = "; ".join(f"{part.sku}: {part.reason}" for part in parts[:NAMED_MAX])
        raise ConflictError(f"no part could be taken: {reasons}")
    queue = app.for_supplier(caller.supplier_of(seller))
    return _batch(queue, batch_id, seller, parts, now)


@operation(
    "POST",
    "/api/bulk-publish/shops",
    need=Need.WRITE,
    tag=TAG,
    errors=(404,),
    status=202,
    name="publish_in_shops",
)
def publish_in_shops(caller: Caller, body: PublishInShopsBody) -> ShopsPublishing:
    """Ask for parts in several shops, each on its own; the supplier is read once for all.

    A shop that takes none of the parts does not keep the others from theirs. If no shop takes any,
    the request is refused.
    """
    # Whoever may not name one of the shops publishes in none of them.
    callers = [(seller, caller.for_shop(seller)) for seller in dict.fromkeys(body.sellers)]
    results = []
    for seller, own in callers:
        try:
            batch = publish(own, PublishBody(part_numbers=body.part_numbers, seller=seller))
            results.append(ShopPublishing(seller=seller, batch=batch, error=""))
        except ConflictError as error:
            results.append(ShopPublishing(seller=seller, batch=None, error=str(error)))
    if not any(result.batch for result in results):
        raise ConflictError("; ".join(f"{result.seller}: {result.error}" for result in results))
    return ShopsPublishing(shops=tuple(results))


@operation(
    "GET",
    "/api/bulk-publish/{batch_id}",
    need=Need.READ,
    tag=TAG,
    errors=(404, 422),
    name="get_publish_batch",
)
def published_batch(caller: Caller, batch_id: NamePath) -> PublishBatch:
    """Show what became of a batch; a part belongs to the batch that asked for it last."""
    publishing = Publishing(caller.shared.pool)  # a place is counted among everybody's parts
    owner = publishing.owner(batch_id) if is_uuid(batch_id) else None
    if owner is None or caller.seller not in {None, owner}:
        raise NotFoundError("there is no such batch, or its parts were asked for again since")
    queue = caller.shared.for_supplier(caller.supplier_of(owner))
    return _batch(queue, batch_id, owner, publishing.batch(batch_id), caller.now)


def _batch(
    app: App, batch_id: str, seller: SellerId, parts: Sequence[ImportedPart], now: datetime
) -> PublishBatch:
    queue = supplier_queue(app, now)
    expected = [read_at(part, queue, now) for part in parts]
    return PublishBatch(
        batch_id=batch_id,
        seller=seller,
        counts=Counter(part.status for part in parts),
        parts=tuple(
            RequestedPart(
                sku=part.sku,
                shop_sku=part.shop_sku,
                status=part.status,
                reason=part.reason,
                shopify_product_id=part.shopify_product_id,
                place=part.place,
                due_at=part.due_at,
                expected_at=expected_at,
                left_out=tuple(part.left_out),
                note=intake_message(part, expected_at, now),
            )
            for part, expected_at in zip(parts, expected, strict=True)
        ),
    )
