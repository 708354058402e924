"""Pauses: what a person has stopped, until when, and why.

A pause of everything stops fetch, push and pull. One of the supplier, or of one of several, stops
fetch alone: what is known still reaches the shops. One of a seller stops all three for that seller,
one of a listing its reads and writes. A pause ends at `until`, or when a person resumes it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
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

    `supplier` is the one whose queue is paused; None for all suppliers.
    """

    kind: PauseKind
    """What is paused."""
    seller: SellerId | None = None
    """The seller who is paused, or whose part is; null if no seller is named."""
    sku: Sku | None = None
    """The part that is paused; null unless one is."""
    supplier: SupplierName | None = None
    """The supplier whose queue is paused; null for all suppliers."""
    until: datetime | None = None
    """When the pause ends; null if it lasts until somebody resumes it."""
    reason: str = ""
    """Why it was paused, as the person wrote it. Example: `recalled`"""
    actor: str = ""
    since: datetime
    """When it was paused."""

    def blocks(self, now: datetime) -> bool:
        """Return True if it is still in force."""
        return self.until is None or now < self.until

    def covers(self, seller: SellerId, sku: Sku | None = None) -> bool:
        """Return True if it stops this listing, or this seller as a whole."""
        return self.seller in {None, seller} and self.sku in {None, sku}

    def reaches(self, supplier: SupplierName) -> bool:
        """Return True if it may stop what is bought from this supplier."""
        return self.supplier in {None, supplier}

    def stops_queue(self, supplier: SupplierName) -> bool:
        """Return True if no call leaves for this supplier at all."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeResult:
    """Result of resuming."""

    kind: PauseKind
    """What was paused."""
    seller: SellerId | None
    """The seller; null if none was named."""
    sku: Sku | None
    """The part; null if none was named."""
    is_done: bool
    """True if the pause ended."""
    message: str
    """What was done, or why not. Example: `it goes on`"""
    supplier: SupplierName | None = None
    """The supplier; null if none was named. Example: `east`"""

    @property
    def what(self) -> str:
        """What was resumed, in words."""
        return describe_target(self.kind, self.seller, self.sku, self.supplier)

    def is_covered_by(self, pause: Pause) -> bool:
        """Return True if a pause covers all of what was resumed."""
        if self.seller is not None:
            return pause.covers(self.seller, self.sku)
        return pause.seller is None and pause.supplier in {None, self.supplier}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSpan:
    """A span of a pause; None for all sellers, or all parts."""

    seller: SellerId | None
    sku: Sku | None
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseEvent:
    """The begin or the end of a pause, from the history."""

    kind: str
    seller: SellerId | None
    sku: Sku | None
    supplier: SupplierName | None
    at: datetime
    is_pause: bool
    until: datetime | None


def pause_spans(
    active: Iterable[Pause], events: Iterable[PauseEvent], *, since: datetime, now: datetime
) -> list[PauseSpan]:
    """Return the pauses since then, by their events in order; current ones end now."""
    ended: list[PauseSpan] = []
    running = {
        (pause.kind.value, pause.seller, pause.sku, pause.supplier): PauseSpan(
            seller=pause.seller, sku=pause.sku, starts_at=max(since, pause.since), ends_at=now
        )
        for pause in active
        if pause.since < since
    }
    for event in events:
        key = (event.kind, event.seller, event.sku, event.supplier)
        # An end without a begin belongs to a pause that began before the period.
        starts_at = event.at if event.is_pause else since
        fresh = PauseSpan(seller=event.seller, sku=event.sku, starts_at=starts_at, ends_at=now)
        span = running.pop(key, fresh)
        if event.is_pause:
            running[key] = replace(span, ends_at=min(now, event.until or now))
        else:
            ended.append(replace(span, ends_at=event.at))
    return [*ended, *running.values()]


def longest(pauses: Iterable[Pause]) -> Pause | None:
    """Return the pause that is over last; one without an end before all others."""
    return max(
        pauses, key=lambda pause: (pause.until is None, pause.until or pause.since), default=None
    )
