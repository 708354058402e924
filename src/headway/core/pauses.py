"""Pauses: what a person has stopped, until when, and why.

A pause of everything stops fetch, push and pull. One of the supplier stops fetch alone: what is
known still reaches the shops. One of a seller stops all three for that seller, one of a listing
its reads and writes. A pause ends by itself at `until`, or when somebody resumes.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headway.core.model import SellerId, Sku


class PauseKind(StrEnum):
    """What is stopped."""

    ALL = "all"
    SUPPLIER = "supplier"
    SELLER = "seller"
    LISTING = "listing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Something that a person stopped; `actor` says who."""

    kind: PauseKind
    seller: SellerId | None = None
    sku: Sku | None = None
    until: datetime | None = None
    reason: str = ""
    actor: str = ""
    since: datetime

    def blocks(self, now: datetime) -> bool:
        """Return whether it still holds."""
        return self.until is None or now < self.until
