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
from headway.core.accounts.narrowing import (
    ASIDE,
    ListWalk,
    due_ids,
    grown,
    named_read,
    page_size,
    skipped_rows,
)
from headway.core.accounts.pagination import (
    RUN,
    Cursor,
    Page,
    PageRequest,
    PageStep,
    Paginator,
    begun_since,
)
from headway.core.accounts.removals import is_complete, with_rows
from headway.core.accounts.unreadable_rows import (
    KNOWN,
    after_rows,
    close_list,
    is_behind_last,
    open_list,
    skipped,
)

# Sizes of a page, each a divisor of the one before: what fails is asked for in smaller ones.
ORDER_SIZES, PRODUCT_SIZES = (10, 5, 1), (50, 25, 5, 1)
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


def _ask_page(run: Mapping[str, Any], what: str, sizes: Sequence[int]) -> PageRequest:
    """Return the request for the rows from the run's offset, which is a multiple of the size."""
    size = page_size(run, sizes, is_aligned=True)
    number = (run["offset"] + skipped_rows(run)) // size + 1
    return PageRequest(what=what, values={"page": number, "limit": size})


def _go_on(
    run: Mapping[str, Any], page: Page, sizes: Sequence[int], now: datetime
) -> tuple[dict[str, Any], bool, bool]:
    """Return the run after a page of its list, whether it joined the earlier ones, and is last.

    All rows before the offset were read while the list was `total` long. A reply may leave that
    out: then nothing is known to have been removed meanwhile.
    """
    total = run["total"] if page.total is None else page.total
    size, offset = page_size(run, sizes, is_aligned=True), run["offset"]
    fallen = max(0, run["total"] - total)
    is_joined = fallen == 0 or offset == 0
    offset = offset + size if is_joined else max(0, offset - -(-fallen // size) * size)
    moved = skipped({**after_rows(run, page), "offset": offset, "total": total}, now)
    moved = grown(moved, sizes, size, moved["offset"])
    is_end = page.next is None or is_behind_last(moved, page.total)
    return moved, is_joined, is_joined and is_end


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOrders(ListWalk):
    """The orders that were named, then the newest, page by page down to a known boundary.

    The boundary is how new the newest order was when the last whole run began to read the list; it
    moves only once a run has ended whole. What came meanwhile is above it, and is the next run's.
    """

    kind = DataKind.ORDERS
    sizes = ORDER_SIZES

    @property
    def recheck_after(self) -> timedelta | None:
        """Read open orders again after some hours: their list shows no changes."""
        return RECHECK_AFTER

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Begin a run, or go on with the one under way; `wanted` orders come first."""
        boundary = cursor.get("boundary") or (begun_since(cursor, now) - FIRST_REACH).isoformat()
        fresh: dict[str, Any] = {"offset": 0, "total": 0, "newest": boundary, "wanted": []}
        run = cursor.get(RUN) or open_list(cursor, fresh, "orders", now)
        names = list(dict.fromkeys([*due_ids(cursor, wanted, now), *run["wanted"]]))
        return {**cursor, "boundary": boundary, RUN: {**run, "wanted": names}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for one wanted order, or for the next page."""
        run = cursor[RUN]
        if run["wanted"]:
            return PageRequest(what="order", values={"id": run["wanted"][0]})
        return _ask_page(run, "orders", ORDER_SIZES)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take an order or a page; below the boundary, or at the end, the run is whole."""
        run = cursor[RUN]
        if run["wanted"]:
            return PageStep(cursor=named_read(cursor), is_progress=False)
        cursor, step = self.looked(cursor, page, now)
        if step is not None:
            return step
        run = cursor[RUN]
        moved, is_joined, is_end = _go_on(run, page, ORDER_SIZES, now)
        if run["offset"] == 0:
            # A stamp from the future would hide newer orders until then.
            stamps = [min(stamp, now) for stamp in page.stamps]
            moved["newest"] = max([_instant(run["newest"]), *stamps]).isoformat()
        is_below = bool(page.stamps) and page.stamps[-1] < _instant(cursor["boundary"]) - OVERLAP
        if is_end or (is_joined and is_below):
            closed = close_list({**cursor, RUN: moved})
            lasting = {name: closed[name] for name in (ASIDE, KNOWN) if name in closed}
            return PageStep(cursor={"boundary": moved["newest"], **lasting}, is_done=True)
        return PageStep(cursor={**cursor, RUN: moved})


@dataclass(frozen=True, slots=True, kw_only=True)
class History(ListWalk):
    """All orders, newest first, once; whatever comes meanwhile is found by `NewOrders`."""

    kind = DataKind.ORDERS
    sizes = ORDER_SIZES

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002 - as the port has it
        """Begin at the first page, or go on where the last claim stopped."""
        return {**cursor, RUN: cursor.get(RUN) or {"offset": 0, "total": 0}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for the next page."""
        return _ask_page(cursor[RUN], "orders", ORDER_SIZES)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; after the last one history is whole."""
        cursor, step = self.looked(cursor, page, now)
        if step is not None:
            return step
        moved, _, is_end = _go_on(cursor[RUN], page, ORDER_SIZES, now)
        return PageStep(cursor={} if is_end else {**cursor, RUN: moved}, is_done=is_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintifyListings(ListWalk):
    """All products, every time; a walk is complete if it read as many as Printify counts.

    A row that made no sense may be any variant: a walk with such a row is not complete.
    """

    kind = DataKind.LISTINGS
    sizes = PRODUCT_SIZES

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002 - all are read
        """Begin at the first page, or go on where the last claim stopped."""
        fresh = {"offset": 0, "total": 0, "begun_at": now.isoformat(), "is_clear": True}
        run = cursor.get(RUN) or open_list(cursor, {**fresh, "tally": {}}, "products", now)
        return {**cursor, RUN: run}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for the next page."""
        return _ask_page(cursor[RUN], "products", PRODUCT_SIZES)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; after the last one it is known whether all were read."""
        cursor, step = self.looked(cursor, page, now)
        if step is not None:
            return step
        moved, _, is_end = _go_on(cursor[RUN], page, PRODUCT_SIZES, now)
        moved["is_clear"] = moved["is_clear"] and not page.records.unreadable
        moved["tally"] = with_rows(moved["tally"], page.ids, page.total)
        if not is_end:
            return PageStep(cursor={**cursor, RUN: moved})
        is_whole = moved["is_clear"] and is_complete(moved["tally"])
        gone_since = _instant(moved["begun_at"]) if is_whole else None
        closed = close_list({**cursor, RUN: moved})
        lasting = {name: closed[name] for name in (KNOWN,) if name in closed}
        return PageStep(cursor=lasting, is_done=True, gone_since=gone_since)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
