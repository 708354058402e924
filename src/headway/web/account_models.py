"""The shapes of the account lane, of its own routes and as a part of the first screen."""

from datetime import datetime
from typing import Literal

from headway.web.response_model import Shape

PlatformWord = Literal["shopify", "etsy", "printify"]
TierWord = Literal["free", "starter", "growth", "pro"]
StatusWord = Literal[
    "queued", "running", "completed", "plan_limit_reached", "failed", "dead", "cancelled"
]


class AccountShape(Shape):
    """A seller's connection to a platform; counts stop at 10,000."""

    id: str
    user_id: str
    tier: TierWord
    platform: PlatformWord
    shop: str
    title: str
    is_connected: bool
    trouble: str
    horizon_at: datetime | None
    newest_order_at: datetime | None
    orders: int
    listings: int
    unreadable: int
    last_run_at: datetime | None
    next_run_at: datetime | None
    running: str | None
    dead: int
    is_backfilled: bool


class SellerShape(Shape):
    """What a seller has used of the month's orders."""

    user_id: str
    tier: TierWord
    orders: int
    orders_max: int
    resets_at: datetime


class AccountsShape(Shape):
    """Accounts, those that need a person first, their sellers, and where to go on."""

    now: datetime
    accounts: list[AccountShape]
    sellers: list[SellerShape]
    next_cursor: str | None


class JobShape(Shape):
    """A job: where it stands, why it waits, until when, and its place among those that are due."""

    id: str
    name: str
    account_id: str
    user_id: str
    tier: TierWord
    platform: PlatformWord
    shop: str
    kind: str
    type: str
    status: StatusWord
    state: str
    reason: str
    until: datetime | None
    place: int | None
    score: int
    aged_score: float
    due_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    failures: int
    last_error: str
    calls_estimate: float
    run_calls: int
    rows_read: int | None
    calls_total: int
    changed_at: datetime | None


class JobsShape(Shape):
    """Jobs in the order in which they run: the due ones, best first, then those that come."""

    now: datetime
    jobs: list[JobShape]
    next_cursor: str | None = None


class PointShape(Shape):
    """How much is in use at an instant."""

    at: datetime
    used: float


class HourShape(Shape):
    """What was used in the hour that begins then."""

    hour: datetime
    used: float
    used_by_paid: float


class ForecastShape(Shape):
    """The next 24 hours, if people go on as they do."""

    points: list[PointShape]
    spent_at: datetime | None
    room_at: datetime | None
    wanted: float
    unmet: float


class QuotaShape(Shape):
    """A platform's rolling 24 hours, shared by all its sellers."""

    platform: PlatformWord
    limit: float
    used: float
    reserved: float
    left: float
    left_to_paid: float
    paused_until: datetime | None
    pause_reason: str
    stretch: dict[str, float]
    from_at: dict[str, datetime | None]
    hours: list[HourShape]
    past: list[PointShape]
    forecast: ForecastShape


class QuotasShape(Shape):
    """All quotas that have a day."""

    now: datetime
    quotas: list[QuotaShape]


class NoticeShape(Shape):
    """What a seller was told."""

    user_id: str
    topic: str
    text: str
    created_at: datetime
    delivered_at: datetime | None


class LaneShape(Shape):
    """Everything the first screen shows of the account lane."""

    accounts: list[AccountShape]
    accounts_count: int
    sellers: list[SellerShape]
    running: list[JobShape]
    running_max: int
    queue: list[JobShape]
    due_count: int
    dead: list[JobShape]
    dead_count: int
    budgets: list[QuotaShape]
    notices: list[NoticeShape]
