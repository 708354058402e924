"""`split`: equal hours for ever, and retries apart from them (separate scheduled and retry)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core.catalog.listings import Sku
from headway.core.timetable.policies.hours import HourSlots, Opening
from headway.core.timetable.policies.policy import EMPTY, HOURS, CatalogSummary, Placement

HALF_HOUR = timedelta(minutes=30)
# Retries are done by now: a listing in a call this shortly before its slot is read for the slot.
BRINK = timedelta(minutes=5)
# From how many listings on a window has how many seats.
SEATS_BY_SIZE = ((20_000, 150), (10_000, 100), (0, 50))
# From here on windows open every two hours.
OFTEN_FROM = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(HourSlots):
    """The least loaded of all 24 hours; what retries do never changes what an hour holds."""

    name: str = "split"
    slack: timedelta = timedelta(minutes=10)
    age_max: timedelta = timedelta(hours=25)
    early: timedelta = timedelta(hours=1)

    def place(self, sku: Sku, now: datetime, catalog: CatalogSummary = EMPTY) -> Placement:
        """Take the least loaded hour, the first of several."""
        hour_bucket = min(range(HOURS), key=catalog.loads.__getitem__)
        return self.placed(sku, hour_bucket, now)

    def is_served(self, ahead: timedelta) -> bool:
        """Return True if a seat borrowed from the hour before serves the slot; a retry's does not.

        The first half of an hour is for its slot, retries begin in the second. A listing in a
        retry's call is read again at its slot, in a seat that exists anyway; otherwise the next
        hour would lack it, and scheduled calls would follow the retries.
        """
        return HALF_HOUR < ahead <= self.early or ahead <= BRINK

    def openings(self, listings: int) -> tuple[Opening, ...]:
        """Return the windows at half past: every four hours, or every two for a large catalog."""
        every = 2 if listings >= OFTEN_FROM else 4
        seats_max = next(seats for size, seats in SEATS_BY_SIZE if listings >= size)
        return tuple(
            Opening(at=timedelta(hours=hour) + HALF_HOUR, seats_max=seats_max)
            for hour in range(2 % every, HOURS, every)
        )


POLICY = Split()
