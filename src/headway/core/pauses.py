"""Pauses: what a person has stopped, until when, and why.

A pause of everything stops fetch, push and pull. One of the supplier, or of one of several, stops
fetch alone: what is known still reaches the shops. One of a seller stops all three for that seller,
one of a listing its reads and writes. A pause ends at `until`, or when a person resumes it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headway.core.catalog.listings import SellerId, Sku, SupplierName


class PauseKind(StrEnum):
    """What is stopped."""

    ALL = "all"
    SUPPLIER = "supplier"
    SELLER = "seller"
    LISTING = "listing"


WIDE = frozenset({PauseKind.ALL, PauseKind.SUPPLIER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Something that a person stopped; `actor` says who.

    `supplier` is the one of several whose line stands still; None for all of them.
    """

    kind: PauseKind
    seller: SellerId | None = None
    sku: Sku | None = None
    supplier: SupplierName | None = None
    until: datetime | None = None
    reason: str = ""
    actor: str = ""
    since: datetime

    def blocks(self, now: datetime) -> bool:
        """Return whether it still holds."""
        return self.until is None or now < self.until

    def covers(self, seller: SellerId, sku: Sku | None = None) -> bool:
        """Return whether it stops this listing, or this seller as a whole."""
        return self.seller in {None, seller} and self.sku in {None, sku}

    def reaches(self, supplier: SupplierName) -> bool:
        """Return whether it may stop what is bought from this supplier."""
        return self.supplier in {None, supplier}

    def stops_line(self, supplier: SupplierName) -> bool:
        """Return whether no call leaves for this supplier at all."""
        return self.kind in WIDE and self.reaches(supplier)

    @property
    def is_wide(self) -> bool:
        """True if the pause stops every supplier queue."""
        return self.kind in WIDE and self.supplier is None

    @property
    def stops_writes(self) -> bool:
        """Whether shops and accounts are left alone too, not only the supplier."""
        return self.kind is not PauseKind.SUPPLIER

    @property
    def what(self) -> str:
        """What is stopped, in words."""
        return describe_target(self.kind, self.seller, self.sku, self.supplier)


def describe_target(
    kind: PauseKind,
    seller: SellerId | None,
    sku: Sku | None,
    supplier: SupplierName | None = None,
) -> str:
    """Return a description of what is, or was, paused."""
    match kind:
        case PauseKind.ALL:
            return "everything"
        case PauseKind.SUPPLIER:
            return "the supplier" if supplier is None else f"the supplier {supplier}"
        case PauseKind.SELLER:
            return f"everything of {seller}"
        case PauseKind.LISTING:
            return f"{sku} of {seller}"


def longest(pauses: Iterable[Pause]) -> Pause | None:
    """Return the pause that is over last; one without an end before all others."""
    return max(
        pauses, key=lambda pause: (pause.until is None, pause.until or pause.since), default=None
    )
