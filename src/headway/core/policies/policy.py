"""What a policy is: a pure answer to "when is this listing due?"."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from headway.core.model import Listing, Sku

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A new listing's slot and first due time."""

    hour_bucket: int
    minute_offset: int
    next_sync_at: datetime


class Policy(Protocol):
    """Decides when a listing is due; knows nothing of calls, seats or limits."""

    @property
    def name(self) -> str:
        """The word by which settings and the command line choose it."""

    @property
    def slack(self) -> timedelta:
        """How long the first due listing may wait for a full call; inside the deadline of L3."""

    @property
    def age_max(self) -> timedelta:
        """The oldest a good read may become while the supplier answers (law L3)."""

    def place(self, sku: Sku, now: datetime) -> Placement:
        """Give a new listing its slot and first due time."""

    def reschedule(self, listing: Listing, now: datetime) -> datetime:
        """Return when a listing that was just read well is due again."""


def stable_number(text: str) -> int:
    """Return a number that is the same in every process, unlike Python's own hash."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def next_slot(now: datetime, hour_bucket: int, minute_offset: int) -> datetime:
    """Return the first instant after now at this time of day, in UTC."""
    today = now.replace(hour=hour_bucket, minute=minute_offset, second=0, microsecond=0)
    return today if today > now else today + DAY
