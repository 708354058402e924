"""What a desk answers where no single row holds it: why a listing waits, what becomes of a part."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headway.app import App
from headway.core.catalog.intake import ImportedPart, fate, read_at
from headway.core.catalog.listings import Priority, SellerId, Sku
from headway.core.reasons import Explanation, ListingPosition
from headway.engine.explain import in_shop, reasons
from headway.operations.outlook import queue_ahead
from headway.store.catalog.history import SeriesPoint
from headway.store.catalog.suppliers import Suppliers


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingExplanation:
    """Why a listing waits, until when, and how it stands in its shop."""

    seller: SellerId
    sku: Sku
    priority: Priority
    due_at: datetime
    last_good_read_at: datetime | None
    failures: int
    last_error: str | None
    explanation: Explanation
    policy: str
    timetable: str
    in_shop: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPart:
    """A part that somebody wants in a shop, and when to expect it there."""

    sku: Sku
    shop_sku: str
    status: str
    reason: str
    shopify_product_id: str | None
    place: int | None
    due_at: datetime | None
    expected_at: datetime | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishBatch:
    """Parts that were asked for together, for one seller's shop, as they stand now."""

    batch_id: str
    seller: SellerId
    parts: tuple[RequestedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSeries:
    """What a listing cost over time, and how much there was of it, at the supplier and in the shop.

    Each point says what was known from its instant on.
    """

    seller: SellerId
    points: tuple[SeriesPoint, ...]


def explained(
    app: App, found: Sequence[ListingPosition], now: datetime
) -> list[ListingExplanation]:
    """Say why each of these listings waits, each on the line of its supplier."""
    suppliers = Suppliers(app.pool).of_sellers({each.user_id for each in found})
    told = [
        answer
        for name in sorted(set(suppliers.values()))
        for answer in _explained(
            app.for_supplier(name), [each for each in found if suppliers[each.user_id] == name], now
        )
    ]
    return sorted(told, key=lambda each: (each.sku, each.seller))


def _explained(
    app: App, found: Sequence[ListingPosition], now: datetime
) -> list[ListingExplanation]:
    queue = queue_ahead(app, now, {each.sku for each in found if each.is_active})
    return [
        ListingExplanation(
            seller=each.user_id,
            sku=each.sku,
            priority=each.priority,
            due_at=each.next_sync_at,
            last_good_read_at=each.last_successful_sync,
            failures=each.consecutive_failures,
            last_error=each.last_error,
            explanation=reasons(each, queue, now),
            policy=app.policy.name,
            timetable=app.policy_reason(each, now),
            in_shop=in_shop(each, now),
        )
        for each in found
    ]


def batch_of(
    app: App, batch_id: str, seller: SellerId, parts: Sequence[ImportedPart], now: datetime
) -> PublishBatch:
    """Say what becomes of each of these parts."""
    queue = app.supplier_queue(now)
    asked = []
    for each in parts:
        expected_at = read_at(each, queue, now)
        asked.append(
            RequestedPart(
                sku=each.sku,
                shop_sku=each.shop_sku,
                status=each.status,
                reason=each.reason,
                shopify_product_id=each.shopify_product_id,
                place=each.place,
                due_at=each.due_at,
                expected_at=expected_at,
                note=fate(each, expected_at, now),
            )
        )
    return PublishBatch(batch_id=batch_id, seller=seller, parts=tuple(asked))
