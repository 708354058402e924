"""`anchored`: a slot that the SKU decides and that never drifts (implementation plan v2)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core.catalog.listings import Sku
from headway.core.timetable.policies.policy import (
    DAY,
    EMPTY,
    HOURS,
    CatalogSummary,
    Next,
    OnceADay,
    Placement,
    ReadResult,
    stable_number,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored(OnceADay):
    """Hour and minute from SHA-256 of the SKU; overdue is due, so catch-up needs no second job."""

    name: str = "anchored"
    slack: timedelta = timedelta(minutes=20)
    age_max: timedelta = timedelta(hours=25)
    early: timedelta = timedelta(minutes=25)

    def place(self, sku: Sku, now: datetime, catalog: CatalogSummary = EMPTY) -> Placement:
        """Take hour and minute from two hashes of the SKU, as the document says."""
        del catalog
        hour_bucket = stable_number(sku) % HOURS
        minute_offset = stable_number(f"{sku}:offset") % 60
        return Placement(
            hour_bucket=hour_bucket,
            minute_offset=minute_offset,
            next_sync_at=self.due_in(sku, hour_bucket, minute_offset, 0, now),
        )

    def next_read(self, read: ReadResult) -> Next:
        """Return the next slot; one that a borrowed seat served a little early is skipped.

        Skipping is bounded by `early`, so that early + slack stays inside the hour that law L3
        leaves to the once-a-day policies.
        """
        listing = read.listing
        slot = self.due_in(
            listing.sku, listing.hour_bucket, listing.minute_offset, listing.sync_priority, read.at
        )
        is_early = slot - read.at <= self.early
        return Next(next_sync_at=slot + DAY if is_early else slot, evidence=listing.evidence)


POLICY = Anchored()
