"""Slots of an hour each, and windows for retries: what `packed` and `split` have in common.

Everybody of a slot is due at its beginning, in an order that is the same every day. So a listing
that waits ten minutes for its seat today waits ten minutes tomorrow, and its reads stay a day apart
however long the slot takes to be served.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core.catalog.listings import Listing, Sku
from headway.core.timetable.policies.policy import (
    DAY,
    PRIORITY_MAX,
    Next,
    OnceADay,
    Placement,
    ReadResult,
    RetryWindow,
    bounded,
    latest_due,
    next_slot,
    stable_number,
)

SECOND = timedelta(seconds=1)
# An attempt this old goes before all others that failed as often, and so many failures are as bad
# as more.
OLD = timedelta(days=10)
FAILURES_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A time of day at which a retry window opens, and how many seats it has."""

    at: timedelta
    seats_max: int


class HourSlots(OnceADay):
    """A policy of hours; a subclass decides which hour, when windows open, and what is early."""

    weighs_slots = True
    slack: timedelta
    age_max: timedelta

    def due_in(
        self, sku: Sku, hour_bucket: int, minute_offset: int, priority: int, now: datetime
    ) -> datetime:
        """Return the first due time after now in this slot.

        Within a slot, listings with a priority go first, then a stable order; both are seconds,
        since the listing that is due first is served first.
        """
        rank = PRIORITY_MAX - bounded(priority) + stable_number(sku) % 1000 / 1000
        place = rank * SECOND
        return next_slot(now - place, hour_bucket, minute_offset) + place

    def placed(self, sku: Sku, hour_bucket: int, now: datetime) -> Placement:
        """Return the placement in this hour."""
        due_at = self.due_in(sku, hour_bucket, 0, 0, now)
        return Placement(hour_bucket=hour_bucket, minute_offset=0, next_sync_at=due_at)

    def next_read(self, read: ReadResult) -> Next:
        """Return the next slot; one that was served early is skipped, as far as L3 allows.

        Who took a spare seat up to an hour before its slot is due a day after that slot, but never
        so late that with slack and service its read would be older than `age_max`.
        """
        listing = read.listing
        slot = self.due_in(
            listing.sku, listing.hour_bucket, listing.minute_offset, listing.sync_priority, read.at
        )
        if self.is_served(slot - read.at):
            latest = latest_due(read.at, age_max=self.age_max, slack=self.slack)
            slot = min(slot + DAY, latest)
        return Next(next_sync_at=slot, evidence=listing.evidence)

    def is_served(self, ahead: timedelta) -> bool:
        """Return True if a read this long before a slot serves it."""
        raise NotImplementedError

    def openings(self, listings: int) -> tuple[Opening, ...]:
        """Return the openings of a day, in order."""
        raise NotImplementedError

    def next_try(self, listing: Listing, now: datetime, backoff: timedelta) -> datetime:
        """Return the listing's place in the next window, however long the backoff."""
        del backoff
        window = window_at(now, self.openings(0))
        return place_in_window(window.closes_at, listing.consecutive_failures, now)

    def retry_window(self, now: datetime, listings: int) -> RetryWindow | None:
        """Return the window that now lies in; it ends where the next one begins."""
        return window_at(now, self.openings(listings))


def place_in_window(opens_at: datetime, failures: int, tried_at: datetime) -> datetime:
    """Return the due time in a window: fewest failures first, then the oldest attempt.

    One second for each failure, and a part of one by age; the order is all that counts.
    """
    age = min(max((opens_at - tried_at) / OLD, 0.0), 1.0)
    return opens_at + (min(failures, FAILURES_MAX) + 0.999 * (1 - age)) * SECOND


def window_at(now: datetime, openings: tuple[Opening, ...]) -> RetryWindow:
    """Return the window of this instant, given when in a day windows open."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    past = [opening for opening in openings if midnight + opening.at <= now]
    coming = [opening for opening in openings if midnight + opening.at > now]
    last = past[-1] if past else openings[-1]
    opens_at = midnight + last.at - (timedelta(0) if past else DAY)
    closes_at = midnight + coming[0].at if coming else midnight + DAY + openings[0].at
    return RetryWindow(opens_at=opens_at, closes_at=closes_at, seats_max=last.seats_max)
