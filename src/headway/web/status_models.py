"""The API's shapes: what `/api/sync/status` promises, declared so that a change is seen."""

from datetime import datetime
from decimal import Decimal

from headway.store.status import Overview
from headway.web.account_models import LaneShape
from headway.web.response_model import Shape


class PauseShape(Shape):
    """What a person has stopped, until when, and why."""

    kind: str
    seller: str | None
    sku: str | None
    supplier: str | None
    until: datetime | None
    reason: str
    actor: str
    since: datetime


class SeatShape(Shape):
    """Somebody who would board the next call; of another seller's, only the turn is shown."""

    sku: str | None
    user_id: str | None
    priority: str
    due_at: datetime | None


class NextCallShape(Shape):
    """When the next call leaves, and why not sooner."""

    leaves_at: datetime | None
    why: str
    reason: str
    seats: list[SeatShape]
    seats_max: int
    pause: PauseShape | None


class SpentShape(Shape):
    """What was used of the supplier's limit."""

    minute_count: int
    minute_limit: int
    day_count: int
    day_limit: int
    fill: float | None


class CountsShape(Shape):
    """Listings by state."""

    total: int
    fresh: int
    stale: int
    unread: int
    parked: int
    failing: int
    overdue: int
    paused: int
    in_call: int
    is_estimate: bool


class BreakerShape(Shape):
    """Whether the supplier is believed to answer."""

    is_open: bool
    opened_at: datetime | None
    open_until: datetime | None
    failures: int
    trips: int
    reason: str


class GateShape(Shape):
    """The limiter's word."""

    free_at: datetime
    paused_until: datetime | None
    pause_reason: str


class ChangeShape(Shape):
    """What a read showed to be different, and what became of it in the shop."""

    at: datetime
    user_id: str
    sku: str
    kind: str
    price_old: Decimal | None
    price_new: Decimal | None
    price_now: Decimal | None
    stock_old: int | None
    stock_new: int | None
    note: str
    shop_old: Decimal | None
    shop_new: Decimal | None
    fate: str
    reason: str
    written_at: datetime | None
    lag_s: float | None


class ShopShape(Shape):
    """One shop: what is in step, what is not, and why."""

    user_id: str
    shop: str
    is_connected: bool
    trouble: str
    listed: int
    in_step: int
    waiting: int
    failing: int
    failing_reason: str
    held: int
    points_used: float | None
    points_max: float | None
    pushed_at: datetime | None
    pushed: str


class HeldShape(Shape):
    """A change that waits for a person."""

    user_id: str
    sku: str
    at: datetime
    reason: str
    price_old: Decimal | None
    price_new: Decimal | None
    can_approve: bool


class FailingShape(Shape):
    """A listing that its shop refused."""

    user_id: str
    sku: str
    failures: int
    error: str
    next_at: datetime


class WrittenShape(Shape):
    """How much reached the shops in 24 h, and how long after it was observed."""

    count: int
    p50_s: float | None
    p95_s: float | None
    is_partial: bool


class StorefrontShape(Shape):
    """How the shops stand."""

    shops: list[ShopShape]
    shops_count: int
    is_estimate: bool
    held: list[HeldShape]
    held_count: int
    failing: list[FailingShape]
    written: WrittenShape


class CallShape(Shape):
    """One line of the ledger."""

    at: datetime
    result: str
    is_good: bool
    is_over: bool
    seats_used: int
    seats_paid: int
    duration_s: float | None


class TroubleShape(Shape):
    """A listing that failed."""

    user_id: str
    sku: str
    failures: int
    error: str
    next_at: datetime
    is_parked: bool


class StatusShape(Shape):
    """Everything the first screen shows."""

    now: datetime
    next_call: NextCallShape
    spent: SpentShape
    counts: CountsShape
    oldest_read_at: datetime | None
    ages_h: list[int]
    breaker: BreakerShape
    gate: GateShape
    changes: list[ChangeShape]
    storefront: StorefrontShape
    calls: list[CallShape]
    trouble: list[TroubleShape]
    calls_per_hour: list[int]
    supplier: str
    pauses: list[PauseShape]
    accounts: LaneShape


def status_shape(seen: Overview) -> StatusShape:
    """Return the reply for this overview."""
    return StatusShape.model_validate(seen)
