"""What a policy is: a pure answer to "when is this listing due?"."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol, Self

from headway.core.catalog.listings import Evidence, Listing, Sku
from headway.core.timetable.market import Lesson, Market

DAY = timedelta(days=1)
HOURS = 24
# A higher priority has no further effect: it must not break a deadline.
PRIORITY_MAX = 10
# What a call may need from its departure to its settlement, queues of the moment included.
SERVICE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A new listing's slot and first due time."""

    hour_bucket: int
    minute_offset: int
    next_sync_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSummary:
    """What a policy may know of the whole: how many active listings each hour's slot holds."""

    loads: tuple[int, ...] = (0,) * HOURS

    @property
    def listings(self) -> int:
        """The number of active listings."""
        return sum(self.loads)

    def with_one_in(self, hour_bucket: int) -> Self:
        """Return the catalog with one listing more."""
        return self._with(hour_bucket, 1)

    def without_one_in(self, hour_bucket: int) -> Self:
        """Return the catalog with one listing less."""
        return self._with(hour_bucket, -1)

    def _with(self, hour_bucket: int, more: int) -> Self:
        loads = list(self.loads)
        loads[hour_bucket] += more
        return replace(self, loads=tuple(loads))


EMPTY = CatalogSummary()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """One good read, as a policy learns from it; the listing is as it was when it was claimed."""

    listing: Listing
    at: datetime
    has_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """When a listing that was read is due again, and what is known of it by now."""

    next_sync_at: datetime
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryWindow:
    """The span in which retries now are, and how many seats it has for them."""

    opens_at: datetime
    """When it opens."""
    closes_at: datetime
    """When it closes."""
    seats_max: int
    """How many listings may be tried again in it."""


class Policy(Protocol):
    """Decides when a listing is due; knows nothing of calls, seats or limits."""

    @property
    def name(self) -> str:
        """The name in settings and on the command line."""

    @property
    def slack(self) -> timedelta:
        """How long the first due listing may wait for a full call; inside the deadline of L3."""

    @property
    def patience(self) -> timedelta:
        """How much longer than its slack a due listing lets urgent listings go first."""

    @property
    def age_max(self) -> timedelta:
        """The maximum age of a good read while the supplier answers (law L3)."""

    @property
    def is_eager(self) -> bool:
        """Whether a call leaves at every permit, due or not; such a policy learns a market."""

    @property
    def weighs_slots(self) -> bool:
        """True if `place` needs a count of the catalog, which is not free."""

    def place(self, sku: Sku, now: datetime, catalog: CatalogSummary = EMPTY) -> Placement:
        """Give a new listing its slot and first due time."""

    def next_read(self, read: ReadResult) -> Next:
        """Return when a listing that was just read well is due again."""

    def chance(self, listing: Listing, at: datetime) -> float:
        """Return the probability that a read at this instant shows a change, if that matters."""

    def next_try(self, listing: Listing, now: datetime, backoff: timedelta) -> datetime:
        """Return when a listing that failed by itself is due again."""

    def retry_window(self, now: datetime, listings: int) -> RetryWindow | None:
        """Return the window that now lies in; None where retries may go at any time."""

    def informed(self, market: Market) -> Self:
        """Return the policy as it decides in this market; most do not care."""

    def learn(self, reads: list[ReadResult]) -> Lesson | None:
        """Return what one call taught about the market; None from a policy that has none."""

    def reason(self, listing: Listing, now: datetime) -> str:
        """Return the reason for a listing's due time."""


def stable_number(text: str) -> int:
    """Return a number that is the same in every process, unlike Python's own hash."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def next_slot(now: datetime, hour_bucket: int, minute_offset: int) -> datetime:
    """Return the first instant after now at this time of day, in UTC."""
    today = now.replace(hour=hour_bucket, minute=minute_offset, second=0, microsecond=0)
    return today if today > now else today + DAY


def latest_due(read_at: datetime, *, age_max: timedelta, slack: timedelta) -> datetime:
    """Return the last due time at which a listing read then is still read in time."""
    return read_at + age_max - slack - SERVICE


def bounded(priority: int) -> int:
    """Return a listing's priority as far as it counts; none of them puts a listing last."""
    return min(max(priority, 0), PRIORITY_MAX)


class OnceADay:
    """What the policies of the documents have in common: no market, no windows, no hurry."""

    patience = timedelta(0)
    is_eager = False
    weighs_slots = False

    def due_in(
        self, sku: Sku, hour_bucket: int, minute_offset: int, priority: int, now: datetime
    ) -> datetime:
        """Return the first due time after now in this slot; a priority goes some minutes ahead.

        It stays within the hour, so that a slot of one hour is never another's.
        """
        del sku
        ahead = min(bounded(priority), minute_offset)
        return next_slot(now, hour_bucket, minute_offset - ahead)

    def chance(self, listing: Listing, at: datetime) -> float:
        """Return 0: whatever a read shows, the next one is a day later."""
        del listing, at
        return 0.0

    def next_try(self, listing: Listing, now: datetime, backoff: timedelta) -> datetime:
        """Return the end of the backoff."""
        del listing
        return now + backoff

    def retry_window(self, now: datetime, listings: int) -> RetryWindow | None:
        """Return None: retries may go at any time."""
        del now, listings
        return None

    def informed(self, market: Market) -> Self:
        """Return the policy itself: it knows no market."""
        del market
        return self

    def learn(self, reads: list[ReadResult]) -> Lesson | None:
        """Learn nothing."""
        del reads
        return None

    def reason(self, listing: Listing, now: datetime) -> str:
        """Return the reason: every listing is read once a day."""
        del now
        return f"once a day, next {listing.next_sync_at:%H:%M}"
