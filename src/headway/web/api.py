"""The API's shapes: what `/api/sync/status` promises, declared so that a change is seen."""

from datetime import datetime
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from headway.store.views import Overview


class Shape(BaseModel):
    """A reply's shape, filled from a dataclass of the same names."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", frozen=True)


class SeatShape(Shape):
    """Somebody who would board the next call."""

    sku: str
    user_id: str
    turn: str
    due_at: datetime


class NextCallShape(Shape):
    """When the next call leaves, and why not sooner."""

    leaves_at: datetime | None
    why: str
    reason: str
    seats: list[SeatShape]
    seats_max: int


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
    aboard: int
    is_estimate: bool


class BreakerShape(Shape):
    """Whether the supplier is believed to answer."""

    is_open: bool
    open_until: datetime | None
    failures: int
    reason: str


class GateShape(Shape):
    """The limiter's word."""

    free_at: datetime
    paused_until: datetime | None
    pause_reason: str


class ChangeShape(Shape):
    """What a read showed to be different."""

    at: datetime
    user_id: str
    sku: str
    kind: str
    price_old: Decimal | None
    price_new: Decimal | None
    stock_old: int | None
    stock_new: int | None
    note: str


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
    calls: list[CallShape]
    trouble: list[TroubleShape]
    calls_per_hour: list[int]


class ProblemShape(Shape):
    """An error, as RFC 9457 writes it."""

    title: str
    status: int
    detail: str


def status_shape(seen: Overview) -> StatusShape:
    """Return the reply for this overview."""
    return StatusShape.model_validate(seen)
