"""`packed`: as few hours as full calls need, filled one after the other (system design)."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core.catalog.listings import Sku
from headway.core.timetable.policies.hours import HourSlots, Opening
from headway.core.timetable.policies.policy import EMPTY, HOURS, CatalogSummary, Placement

SEATS = 10
WINDOWS = tuple(timedelta(hours=hour, minutes=30) for hour in (3, 7, 11, 15, 19, 23))
WINDOW_SEATS = 100
SWEEP = timedelta(hours=23, minutes=45)


def slots_wanted(listings: int) -> int:
    """Return how many hours this number of listings needs."""
    return min(HOURS, math.ceil(listings / SEATS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed(HourSlots):
    """A new hour for every ten listings, then the least loaded; retries every four hours."""

    name: str = "packed"
    slack: timedelta = timedelta(minutes=10)
    age_max: timedelta = timedelta(hours=25)
    early: timedelta = timedelta(hours=1)

    def place(self, sku: Sku, now: datetime, catalog: CatalogSummary = EMPTY) -> Placement:
        """Take the first dormant hour if there should be one more, else the least loaded."""
        loads = catalog.loads
        taken = [hour for hour in range(HOURS) if loads[hour]]
        if len(taken) < slots_wanted(catalog.listings + 1):
            hour_bucket = next(hour for hour in range(HOURS) if not loads[hour])
        else:
            hour_bucket = min(taken, key=loads.__getitem__)
        return self.placed(sku, hour_bucket, now)

    def is_served(self, ahead: timedelta) -> bool:
        """Return True if a seat borrowed in the hour before serves the slot: one call is enough."""
        return ahead <= self.early

    def openings(self, listings: int) -> tuple[Opening, ...]:
        """Return six windows, and the sweep at the end of the day, which takes whatever is left."""
        windows = tuple(Opening(at=at, seats_max=WINDOW_SEATS) for at in WINDOWS)
        return (*windows, Opening(at=SWEEP, seats_max=max(listings, WINDOW_SEATS)))


POLICY = Packed()
