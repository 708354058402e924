"""The shapes of listings: what is asked of them, what is answered, what a person decides."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from headway.core.timetable.policies.policy import PRIORITY_MAX
from headway.web.inputs import SKUS_MAX, Instant, ReasonText, SellerText, SkuText
from headway.web.response_model import Shape
from headway.web.status_models import CallShape

StateWord = Literal[
    "parked", "inactive", "paused", "reading", "failing", "unread", "stale", "fresh"
]
PriorityName = Literal["manual", "onboarding", "scheduled", "retry", "ahead"]
PauseWord = Literal["all", "supplier", "seller", "listing"]
Skus = Annotated[list[SkuText], Field(min_length=1, max_length=SKUS_MAX)]


class ProductShape(Shape):
    """One listing: what the supplier said, what its shop shows and should show, what comes next."""

    user_id: str
    sku: str
    shop_sku: str | None
    title: str
    state: StateWord
    priority: PriorityName
    slot: str
    due_at: datetime
    last_good_read_at: datetime | None
    failures: int
    last_error: str
    supplier_price: Decimal | None
    supplier_quantity: int | None
    shop_price: Decimal | None
    shop_quantity: int | None
    desired_price: Decimal | None
    desired_quantity: int | None
    held_reason: str
    push_at: datetime | None
    push_error: str
    shop_status: str | None


class ProductsShape(Shape):
    """Some listings, and where to go on; a page may be short though there is more."""

    items: list[ProductShape]
    next_cursor: str | None


class ProductOfSkuShape(Shape):
    """A part, as each seller lists it."""

    now: datetime
    sku: str
    listings: list[ProductShape]


class EventShape(Shape):
    """One event; `actor` is who did it, null for the engine."""

    id: str
    at: datetime
    user_id: str
    sku: str | None
    job_id: str | None
    kind: str
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    error: str
    actor: str | None
    call_id: str | None


class HistoryShape(Shape):
    """Some events, the newest first, and where to go on."""

    items: list[EventShape]
    next_cursor: str | None


class ExplanationShape(Shape):
    """Why a listing waits, until when, and its place."""

    state: str
    sentence: str
    until: datetime | None
    place: str | None


class ExplainedShape(Shape):
    """One seller's listing, explained."""

    seller: str
    sku: str
    priority: PriorityName
    due_at: datetime
    last_good_read_at: datetime | None
    failures: int
    last_error: str | None
    explanation: ExplanationShape
    policy: str
    timetable: str
    in_shop: str


class ExplainShape(Shape):
    """A part, explained for each seller who lists it."""

    now: datetime
    sku: str
    listings: list[ExplainedShape]


class HeldChangeShape(Shape):
    """A change that waits for a person; `new` is the observation where none can be approved."""

    user_id: str
    sku: str
    reason: str
    held_at: datetime
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    can_approve: bool


class HeldPageShape(Shape):
    """Held changes, the oldest first, and where to go on."""

    items: list[HeldChangeShape]
    next_cursor: str | None


class RulingShape(Shape):
    """What a verb came to for one listing: done, or left as it was, and why."""

    user_id: str
    sku: str
    is_done: bool
    said: str
    old: dict[str, Any] | None
    new: dict[str, Any] | None


class RulingsShape(Shape):
    """An answer for each listing."""

    listings: list[RulingShape]
    done: int
    left: int


class Deciding(Shape):
    """Parts, whose they are if several sellers list one, and why."""

    skus: Skus
    seller: SellerText | None = None
    reason: ReasonText = ""


class Approving(Shape):
    """Parts, or everything that can be approved, which needs a reason."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"skus": ["WF338109=K3"], "seller": "acme"},
                {"all": True, "reason": "yearly price list"},
            ]
        }
    )
    skus: Skus | None = None
    all: bool = False
    seller: SellerText | None = None
    reason: ReasonText = ""

    @model_validator(mode="after")
    def _either(self) -> "Approving":
        if (self.skus is None) != self.all:
            raise ValueError("name skus, or say all; not both")
        return self


class RollingBack(Shape):
    """Parts, or all of a seller's that changed since an instant, and the moment to return to."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"skus": ["WF338109=K3"], "to": "2026-03-04T09:00:00Z", "dry_run": True},
                {
                    "since": "2026-03-04T09:00:00Z",
                    "to": "2026-03-04T08:59:00Z",
                    "seller": "acme",
                },
            ]
        }
    )
    skus: Skus | None = None
    since: Instant | None = None
    to: Instant
    seller: SellerText | None = None
    reason: ReasonText = ""
    dry_run: bool = False

    @model_validator(mode="after")
    def _either(self) -> "RollingBack":
        if (self.skus is None) == (self.since is None):
            raise ValueError("name skus, or since with a seller; not both")
        return self


class Reviving(Shape):
    """Parts, or everything that is parked."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"skus": ["WF338109=K3"]}, {"all": True}]}
    )
    skus: Skus | None = None
    all: bool = False
    seller: SellerText | None = None

    @model_validator(mode="after")
    def _either(self) -> "Reviving":
        if (self.skus is None) != self.all:
            raise ValueError("name skus, or say all; not both")
        return self


class SeriesPointShape(Shape):
    """What was known from this instant on: the supplier's price and stock, and the shop's."""

    at: datetime
    supplier_price: Decimal | None
    supplier_quantity: int | None
    shop_price: Decimal | None
    shop_quantity: int | None


class ListingSeriesShape(Shape):
    """Price and stock of one listing over time, the oldest first."""

    seller: str
    points: list[SeriesPointShape]


class SeriesShape(Shape):
    """Price and stock of a part over time, as each of its sellers lists it, ten at most."""

    now: datetime
    sku: str
    listings: list[ListingSeriesShape]


class CallsShape(Shape):
    """The latest calls that carried a part, the newest first, ten at most."""

    now: datetime
    sku: str
    calls: list[CallShape]


class SlotBody(Shape):
    """When in a day a part is read; `auto` lets the policy choose again."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"hour": 6, "minute": 30, "priority": 5}, {"auto": True}]}
    )
    hour: Annotated[int, Field(ge=0, le=23)] | None = None
    minute: Annotated[int, Field(ge=0, le=59)] | None = None
    priority: Annotated[int, Field(ge=0, le=PRIORITY_MAX)] | None = None
    auto: bool = False
    seller: SellerText | None = None

    @model_validator(mode="after")
    def _sense(self) -> "SlotBody":
        if self.hour is None and self.minute is not None:
            raise ValueError("minute needs hour: it is the minute of that hour")
        if self.hour is not None and self.auto:
            raise ValueError("say hour, or auto to let the policy choose; not both")
        if self.hour is None and self.priority is None and not self.auto:
            raise ValueError("say where to: hour, priority or auto")
        return self


class SlotShape(Shape):
    """Where a listing is in the timetable."""

    hour_bucket: int
    minute_offset: int
    sync_priority: int
    manual_slot_override: bool


class MovedShape(Shape):
    """What became of a listing that was moved."""

    user_id: str
    sku: str
    old: SlotShape
    new: SlotShape
    next_sync_at: datetime
    is_parked: bool
