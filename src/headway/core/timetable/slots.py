"""Slots of listings: the place in the day that a policy or a person chose, and the due time."""

from dataclasses import dataclass, replace
from datetime import datetime

from headway.core.catalog.listings import Priority, Sku, SupplierName
from headway.core.timetable.policies import CatalogSummary, Policy
from headway.core.timetable.policies.policy import OnceADay, latest_due


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a listing is in the timetable, in the words of its columns."""

    hour_bucket: int
    """The hour of the day, UTC, from 0 to 23. Example: `6`"""
    minute_offset: int
    """The minute of that hour. Example: `30`"""
    sync_priority: int
    """The place within the slot; higher goes first. Example: `5`"""
    manual_slot_override: bool
    """True if a person chose it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSlot:
    """A requested slot; None leaves a value as it is. `is_auto` lets the policy choose."""

    hour_bucket: int | None = None
    minute_offset: int = 0
    sync_priority: int | None = None
    is_auto: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlottedListing:
    """The columns of a listing that place it in the timetable."""

    id: str
    supplier: SupplierName
    sku: Sku
    hour_bucket: int
    minute_offset: int
    sync_priority: int
    manual_slot_override: bool
    priority: str
    sync_status: str
    is_active: bool
    next_sync_at: datetime
    read_at: datetime

    @property
    def slot(self) -> Slot:
        """Where it is."""
        return Slot(
            hour_bucket=self.hour_bucket,
            minute_offset=self.minute_offset,
            sync_priority=self.sync_priority,
            manual_slot_override=self.manual_slot_override,
        )

    @property
    def waits_for_slot(self) -> bool:
        """True if its due time follows from its slot."""
        return self.is_active and self.priority == Priority.SCHEDULED

    def due(self, policy: Policy, slot: Slot, now: datetime) -> datetime:
        """Return when it is due in this slot, or before it so that it does not become too old."""
        latest = latest_due(self.read_at, age_max=policy.age_max, slack=policy.slack)
        if not isinstance(policy, OnceADay):
            return min(latest, policy.place(self.sku, now).next_sync_at)
        hour, minute = slot.hour_bucket, slot.minute_offset
        return min(latest, policy.due_in(self.sku, hour, minute, slot.sync_priority, now))

    def policy_slot(self, policy: Policy, catalog: CatalogSummary, now: datetime) -> Slot:
        """Return the slot that a policy assigns."""
        place = policy.place(self.sku, now, catalog)
        return replace(self.slot, hour_bucket=place.hour_bucket, minute_offset=place.minute_offset)

    def requested_slot(
        self, requested: RequestedSlot, policy: Policy, catalog: CatalogSummary, now: datetime
    ) -> Slot:
        """Return the slot as requested."""
        slot = self.slot
        if requested.sync_priority is not None:
            slot = replace(slot, sync_priority=requested.sync_priority)
        if requested.hour_bucket is not None:
            return replace(
                slot,
                hour_bucket=requested.hour_bucket,
                minute_offset=requested.minute_offset,
                manual_slot_override=True,
            )
        if not requested.is_auto:
            return slot
        without = catalog.without_one_in(self.hour_bucket) if self.is_active else catalog
        chosen = self.policy_slot(policy, without, now)
        return replace(
            slot,
            hour_bucket=chosen.hour_bucket,
            minute_offset=chosen.minute_offset,
            manual_slot_override=False,
        )
