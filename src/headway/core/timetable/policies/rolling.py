"""`rolling`: due 24 hours after the last good read (the simplified design document)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core.catalog.listings import Sku
from headway.core.timetable.policies.policy import (
    DAY,
    EMPTY,
    CatalogSummary,
    Next,
    OnceADay,
    Placement,
    ReadResult,
    bounded,
    stable_number,
)

MINUTES_A_DAY = 1440


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling(OnceADay):
    """Last good read plus a day; a new listing starts at a minute that its SKU decides."""

    name: str = "rolling"
    slack: timedelta = timedelta(minutes=20)
    age_max: timedelta = timedelta(hours=25)

    def place(self, sku: Sku, now: datetime, catalog: CatalogSummary = EMPTY) -> Placement:
        """Spread first reads over the day by a stable hash."""
        del catalog
        hour_bucket, minute_offset = divmod(stable_number(sku) % MINUTES_A_DAY, 60)
        return Placement(
            hour_bucket=hour_bucket,
            minute_offset=minute_offset,
            next_sync_at=self.due_in(sku, hour_bucket, minute_offset, 0, now),
        )

    def next_read(self, read: ReadResult) -> Next:
        """Return a day from now for any listing; a priority makes it some minutes earlier."""
        ahead = timedelta(minutes=bounded(read.listing.sync_priority))
        return Next(next_sync_at=read.at + DAY - ahead, evidence=read.listing.evidence)


POLICY = Rolling()
