"""Values of `headway explain`: position of a listing, blocks of the queue, and the answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headway.core.catalog.listings import Evidence, Listing, Priority, SellerId, Sku
from headway.core.pauses import Pause, ResumeResult, longest

SECONDS_MATTER = timedelta(minutes=10)


class ListingState(StrEnum):
    """What a listing is doing, or what it waits for."""

    PARKED = "parked"
    BLOCKED = "blocked"
    INACTIVE = "inactive"
    REMOVED = "removed"
    READING = "reading"
    SILENT = "silent"
    BACKOFF = "backoff"
    WINDOW = "window"
    NOT_DUE = "not due"
    NO_ANSWER = "no answer"
    RATE_LIMITED = "rate limited"
    PAUSED = "paused"
    COMPANY = "company"
    SUSPECT = "suspect"
    PERMIT = "permit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPosition:
    """One listing's row, and how many SKUs are ahead of it (`has_more`: at least that many).

    `holds_stock` if its held change keeps back stock too, `is_rejected` if a person rejected the
    only quote there is. `unsold_count` is stock at locations that the shop does not have. `pauses`
    are those in force that stop it; `is_paused` is the mark, which may outlast them by a round.
    """

    id: str
    user_id: SellerId
    sku: Sku
    priority: Priority
    next_sync_at: datetime
    sync_status: str = "pending"
    is_active: bool = True
    removed_at: datetime | None = None
    lease_owner: str | None = None
    lease_until: datetime | None = None
    last_sync_at: datetime | None = None
    last_successful_sync: datetime | None = None
    consecutive_failures: int = 0
    suspicion: int = 0
    last_error: str | None = None
    ahead_count: int = 0
    has_more: bool = False
    held_reason: str | None = None
    holds_stock: bool = False
    is_rejected: bool = False
    unsold_count: int = 0
    push_at: datetime | None = None
    push_failures: int = 0
    push_error: str | None = None
    applied_at: datetime | None = None
    is_in_bulk: bool = False
    shop_status: str | None = None
    shop_reason: str | None = None
    shop_wait_until: datetime | None = None
    shop_wait_reason: str | None = None
    is_shop_in_rehearsal: bool = False
    changes_seen: float = 0.0
    watched_days: float = 0.0
    changed_at: datetime | None = None
    value_weight: float = 1.0
    family: str | None = None
    swept_from: datetime | None = None
    is_paused: bool = False
    pauses: tuple[Pause, ...] = ()

    @property
    def listing(self) -> Listing:
        """Return what a policy needs to explain the listing's due time."""
        return Listing(
            id=self.id,
            user_id=self.user_id,
            sku=self.sku,
            priority=self.priority,
            fence=0,
            next_sync_at=self.next_sync_at,
            hour_bucket=self.next_sync_at.hour,
            minute_offset=self.next_sync_at.minute,
            created_at=self.next_sync_at,
            last_successful_sync=self.last_successful_sync,
            evidence=Evidence(
                changes_seen=self.changes_seen,
                watched_days=self.watched_days,
                changed_at=self.changed_at,
            ),
            value_weight=self.value_weight,
            family=self.family,
            swept_from=self.swept_from,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a listing waits, until when, and how many SKUs are ahead of it."""

    state: ListingState
    """What it does, or what it waits for."""
    sentence: str
    """Why it waits, in a sentence.
    Example: `Due since 11:59 UTC; it has a seat in the next call, possible at 12:00:30.`
    """
    until: datetime | None = None
    """When that ends; null if nobody knows."""
    place: str | None = None
    """Its place in the queue, such as `12` or `more than 1000`; null if it is not due.
    Example: `12`
    """

    def is_mute(self, now: datetime) -> bool:
        """Return True if a row that waits is left without a sentence or an instant to come.

        A pause without an end lasts until a person ends it.
        """
        if not self.sentence:
            return True
        if self.state is ListingState.PAUSED and self.until is None:
            return False
        return self.until is None or self.until < now


def format_time(at: datetime, now: datetime) -> str:
    """Write an instant as a person near it would: seconds when close, the date when not today."""
    if abs(at - now) < SECONDS_MATTER:
        return f"{at:%H:%M:%S} UTC"
    if at.date() == now.date():
        return f"{at:%H:%M} UTC"
    year = f" {at.year}" if at.year != now.year else ""
    return f"{at.day} {at:%b}{year} {at:%H:%M} UTC"


def describe_pause(pause: Pause, now: datetime) -> str:
    """Return a text: who paused, since when, until when and why."""
    who = f" by {pause.actor}" if pause.actor else ""
    ends = "somebody resumes" if pause.until is None else format_time(pause.until, now)
    why = f": {pause.reason.rstrip('.')}" if pause.reason else ""
    return f"paused{who} since {format_time(pause.since, now)} until {ends}{why}"


def format_duration(span: timedelta) -> str:
    """Write a duration in its two largest units."""
    seconds = max(0, round(span.total_seconds()))
    if seconds < 90:  # noqa: PLR2004 - "75 s" reads better than "1 min 15 s"
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 90:  # noqa: PLR2004 - the same one unit up
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:  # noqa: PLR2004 - the same again
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def describe_resumed(resumed: ResumeResult, others: Iterable[Pause], now: datetime) -> str:
    """Return the result of resuming, and what another pause still covers."""
    message = "resumed" if resumed.is_done else "was not paused"
    other = longest(pause for pause in others if resumed.is_covered_by(pause))
    if other is None:
        return message
    return f"{message}; {other.what} is still {describe_pause(other, now)}"
