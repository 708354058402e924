"""Find everything new at Printify, which pages by number and has no filters.

Its lists show the newest first. New rows appear at the front and push the others down: some are
read twice. Removed rows pull the others up, perhaps onto a page that was read already, but never by
more than `total` has fallen meanwhile: the walk goes back that far. Orders have no time of change:
open ones are read one by one, `recheck_after` their last read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import (
    RUN,
    Cursor,
    Page,
    PageRequest,
    PageStep,
    Paginator,
    begun_since,
)

ORDERS_PER_PAGE, PRODUCTS_PER_PAGE = 10, 50
RECHECK_AFTER = timedelta(hours=6)
# An order may appear in the list some time after its creation time.
OVERLAP = timedelta(hours=1)
# How far back the first run goes; history before that is a backfill's, which starts within this.
FIRST_REACH = timedelta(days=30)


def paginator_of(kind: DataKind, *, is_backfill: bool) -> Paginator:
    """Return how this kind is walked."""
    assert kind in {DataKind.ORDERS, DataKind.LISTINGS}, f"Printify has no {kind}"
    if kind is DataKind.LISTINGS:
        return PrintifyListings()
    return History() if is_backfill else NewOrders()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The page to read next: all rows before it were read while the list was `total` long."""

    page: int = 1
    total: int = 0

    def ask(self, what: str, limit: int) -> PageRequest:
        """Return the request for this page."""
        return PageRequest(what=what, values={"page": self.page, "limit": limit})

    def after(self, total: int, limit: int) -> tuple["Place", bool]:
        """Return where to read next, and whether the page just read joined the earlier ones."""
        fallen = max(0, self.total - total)
        if fallen == 0 or self.page == 1:
            return Place(page=self.page + 1, total=total), True
        back = -(-fallen // limit)
        return Place(page=max(1, self.page - back), total=total), False


def _place(run: Mapping[str, Any]) -> Place:
    return Place(page=run["page"], total=run["total"])


def _go_on(run: Mapping[str, Any], page: Page, limit: int) -> tuple[dict[str, Any], bool]:
    """Return the run after a page of its list, and whether the page joined the earlier ones."""
    assert page.total is not None, "a page of a list tells how long the list is"
    place, is_joined = _place(run).after(page.total, limit)
    return {**run, "page": place.page, "total": place.total}, is_joined


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOrders:
    """The orders that were named, then the newest, page by page down to a known boundary.

    The boundary is how new the newest order was when the last whole run began to read the list; it
    moves only once a run has ended whole. What came meanwhile is above it, and is the next run's.
    """

    recheck_after: timedelta | None = RECHECK_AFTER

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Begin a run, or go on with the one under way; `wanted` orders come first."""
        boundary = cursor.get("boundary") or (begun_since(cursor, now) - FIRST_REACH).isoformat()
        run = cursor.get(RUN) or {"page": 1, "total": 0, "newest": boundary, "wanted": []}
        names = list(dict.fromkeys([*wanted, *run["wanted"]]))
        return {**cursor, "boundary": boundary, RUN: {**run, "wanted": names}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for one wanted order, or for the next page."""
        run = cursor[RUN]
        if run["wanted"]:
            return PageRequest(what="order", values={"id": run["wanted"][0]})
        return _place(run).ask("orders", ORDERS_PER_PAGE)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take an order or a page; below the boundary, or at the end, the run is whole."""
        run = cursor[RUN]
        if run["wanted"]:
            return PageStep(cursor={**cursor, RUN: {**run, "wanted": run["wanted"][1:]}})
        moved, is_joined = _go_on(run, page, ORDERS_PER_PAGE)
        if run["page"] == 1:
            # A stamp from the future would hide newer orders until then.
            stamps = [min(stamp, now) for stamp in page.stamps]
            moved["newest"] = max([_instant(run["newest"]), *stamps]).isoformat()
        is_below = bool(page.stamps) and page.stamps[-1] < _instant(cursor["boundary"]) - OVERLAP
        if is_joined and (is_below or page.next is None):
            return PageStep(cursor={"boundary": moved["newest"]}, is_done=True)
        return PageStep(cursor={**cursor, RUN: moved})


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All orders, newest first, once; whatever comes meanwhile is found by `NewOrders`."""

    recheck_after: timedelta | None = None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002 - as the port has it
        """Begin at the first page, or go on where the last claim stopped."""
        return {**cursor, RUN: cursor.get(RUN) or {"page": 1, "total": 0}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for the next page."""
        return _place(cursor[RUN]).ask("orders", ORDERS_PER_PAGE)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002 - as the port has it
        """Take a page; after the last one history is whole."""
        moved, is_joined = _go_on(cursor[RUN], page, ORDERS_PER_PAGE)
        is_end = is_joined and page.next is None
        return PageStep(cursor={} if is_end else {**cursor, RUN: moved}, is_done=is_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintifyListings:
    """All products, every time; a variant that a whole walk did not see is gone.

    A row that made no sense may be any variant: after a walk with such a row nothing is gone.
    """

    recheck_after: timedelta | None = None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002 - all are read
        """Begin at the first page, or go on where the last claim stopped."""
        fresh = {"page": 1, "total": 0, "begun_at": now.isoformat(), "is_clear": True}
        return {**cursor, RUN: cursor.get(RUN) or fresh}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for the next page."""
        return _place(cursor[RUN]).ask("products", PRODUCTS_PER_PAGE)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002 - as the port has it
        """Take a page; after the last one it is known what is gone."""
        moved, is_joined = _go_on(cursor[RUN], page, PRODUCTS_PER_PAGE)
        moved["is_clear"] = moved["is_clear"] and not page.records.unreadable
        if not is_joined or page.next is not None:
            return PageStep(cursor={**cursor, RUN: moved})
        gone_since = _instant(moved["begun_at"]) if moved["is_clear"] else None
        return PageStep(cursor={}, is_done=True, gone_since=gone_since)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
