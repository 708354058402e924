"""How everything new is found at Etsy; instants are whole seconds, as Etsy counts them.

Receipts are in `receipt_pages`. Payments are entries of the shop's ledger, read by windows of their
creation. Listings are read whole, state by state, since Etsy does not report changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.narrowing import ListWalk, Narrowed
from headway.core.accounts.pagination import (
    RUN,
    Cursor,
    Page,
    PageRequest,
    PageStep,
    Paginator,
    begun_since,
)
from headway.core.accounts.removals import is_complete, is_empty, with_rows
from headway.errors import InvariantError
from headway.providers.etsy.offset_paging import (
    PAGE_SIZES,
    TAIL_ROWS,
    has_more,
    is_torn,
    place_of,
    seconds,
    step_back,
    step_on,
    taken,
)
from headway.providers.etsy.receipt_pages import ReceiptsWalk

__all__ = ["LedgerWalk", "ListingsWalk", "ReceiptsWalk", "paginator_of"]

DAY_S = 86_400
# Etsy serves no offset beyond 12,000; a window that holds more than this is halved.
ROWS_MAX = 5_000
SLICE_S_MIN = 60
# So many payments are asked for in one call, to learn their orders.
LINKS_MAX = 100
# What is sold or runs out leaves the active ones, which are therefore read first; what comes back
# to them is met by the look at their front.
STATES = ("active", "inactive", "sold_out", "draft", "expired")
# A shop that changes faster than it can be read is not judged: nothing is called gone then.
TEARS_MAX = 20


def paginator_of(kind: DataKind, *, is_backfill: bool) -> Paginator:
    """Return how a job of this kind pages through a shop; Etsy shows buyers only on orders."""
    if kind is DataKind.ORDERS:
        return ReceiptsWalk(is_backfill=is_backfill)
    if kind is DataKind.PAYMENTS:
        return LedgerWalk(is_backfill=is_backfill)
    if kind is DataKind.LISTINGS and not is_backfill:
        return ListingsWalk()
    raise InvariantError(f"etsy has no such job: {kind}{' backfill' if is_backfill else ''}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWalk(ListWalk):
    """Window after window until a minute ago; a backfill begins two years ago.

    Entries never change, and Etsy wants both ends of a window. Its end is a minute in the past, so
    a window is closed when it is read, and its rows stand still under the offset. Entries name
    payments, not orders: the payments are asked for, many at once, to learn their orders.
    """

    kind = DataKind.PAYMENTS
    sizes = PAGE_SIZES
    is_backfill: bool = False
    # An entry may appear later than its creation time.
    overlap_s: int = 3600
    first_s: int = 2 * DAY_S
    history_s: int = 2 * 365 * DAY_S
    # Not one call more than needed for a quiet shop: every call is taken from all the sellers' day.
    slice_s: int = 30 * DAY_S
    settled_s: int = 60

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002
        """Go on, or begin where the last run ended and a little before; nothing can be wanted."""
        if RUN in cursor:
            return cursor
        end_s = seconds(now) - self.settled_s
        since_s = seconds(begun_since(cursor, now)) - self.settled_s
        first_s = end_s - self.history_s if self.is_backfill else since_s - self.first_s
        # Never after the end: the clock may have been set back since.
        until_s = min(cursor.get("until_s", 0), end_s)
        from_s = until_s - self.overlap_s if until_s else first_s
        run = {"end_s": end_s, "slice_s": self.slice_s}
        return {**cursor, RUN: {**run, **_window(run, from_s)}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for payments whose orders are unknown, or for the next page."""
        run = cursor[RUN]
        if links := _due_links(run):
            return PageRequest(what="payments", values={"links": links})
        values = {
            "min_created": run["from_s"],
            "max_created": run["until_s"],
            **place_of(run),
        }
        return PageRequest(what="ledger", values=values)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002
        """Take a page; after the last one of a window comes the next window."""
        if links := _due_links(cursor[RUN]):
            return _without_links(cursor, len(links))
        if probed := self.probed(cursor, page):
            return probed
        size, run = taken(cursor[RUN], page)
        run["links"] = [*run.get("links", []), *map(list, page.links)]
        span_s = run["until_s"] - run["from_s"]
        if (page.total or 0) > ROWS_MAX and span_s > SLICE_S_MIN:
            narrow = {**run, "slice_s": max(span_s // 2, SLICE_S_MIN)}
            return PageStep(cursor={**cursor, RUN: {**narrow, **_window(narrow, run["from_s"])}})
        if has_more(page, run["offset"], size):
            moved = {**run, "offset": run["offset"] + len(page.ids)}
            return PageStep(cursor={**cursor, RUN: moved})
        lasting = {"until_s": run["until_s"]}
        if run["until_s"] < run["end_s"]:
            return PageStep(cursor={**lasting, RUN: {**run, **_window(run, run["until_s"])}})
        return _without_links({**lasting, RUN: {**run, "is_end": True}}, 0)

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Do without the orders of payments that cannot be read, or ask for fewer entries."""
        links = _due_links(cursor[RUN])
        if not links:
            return ListWalk.narrow(self, cursor, reason, now, is_repeated=is_repeated)
        return Narrowed(cursor=_without_links(cursor, len(links)).cursor) if is_repeated else None


def _due_links(run: Mapping[str, Any]) -> list[list[str]]:
    """Return the entries whose payments are asked for now: many at once, or the last ones."""
    links: list[list[str]] = run.get("links", [])
    return links[:LINKS_MAX] if run.get("is_end") or len(links) >= LINKS_MAX else []


def _without_links(cursor: Cursor, count: int) -> PageStep:
    """Return the step after so many payments; the run is done if the ledger was read as well."""
    run = cursor[RUN]
    left = run.get("links", [])[count:]
    if run.get("is_end") and not left:
        return PageStep(cursor={"until_s": run["until_s"]}, is_done=True)
    return PageStep(cursor={**cursor, RUN: {**run, "links": left}}, is_progress=count == 0)


def _window(run: Mapping[str, Any], from_s: int) -> Mapping[str, Any]:
    """Return a window; the second on the edge of two is read in both."""
    until_s = min(from_s + run["slice_s"], run["end_s"])
    return {"from_s": from_s, "until_s": until_s, "offset": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingsWalk(ListWalk):
    """The whole shop; a walk is complete if every list showed as many rows as Etsy counts.

    The newest come first. A listing that is renewed, published or put back on sale during the walk
    may jump ahead of the pages already read; so the front is read once more at the end.
    """

    kind = DataKind.LISTINGS
    sizes = PAGE_SIZES

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002
        """Begin a run, or go on with the one under way; wanted listings are among all others."""
        if RUN in cursor:
            return cursor
        run = {"began_s": seconds(now), "left": list(STATES), "heads": {}, "tears": 0}
        return {RUN: {**run, "is_clear": True, "empty": [], **_begin_state()}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for the next page of the current state."""
        run = cursor[RUN]
        return PageRequest(what="listings", values={"state": run["left"][0], **place_of(run)})

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002
        """Take a page; the last one says since when the unseen are gone."""
        if probed := self.probed(cursor, page):
            return probed
        size, run = taken(cursor[RUN], page)
        state = run["left"][0]
        is_look = state in run["heads"]
        if not is_look:
            run["tally"] = with_rows(run["tally"], page.ids, page.total)
        if is_torn(run["tail"], page.ids) and run["tears"] < TEARS_MAX:
            run["tears"] += 1
            return PageStep(cursor={RUN: {**run, **step_back(run["offset"], run["tail"])}})
        if not run["offset"] and not is_look:
            run["head"] = list(page.ids[:TAIL_ROWS])
        is_known = is_look and not set(run["heads"][state]).isdisjoint(page.ids)
        if not is_known and has_more(page, run["offset"], size):
            return PageStep(cursor={RUN: {**run, **step_on(run["offset"], page.ids)}})
        return _end_state(run)


def _begin_state() -> Mapping[str, Any]:
    return {"offset": 0, "tail": [], "head": [], "tally": {}}


def _end_state(run: Mapping[str, Any]) -> PageStep:
    """Go on to the next state; one of several pages, and the active ones, are looked at again."""
    state, *left = run["left"]
    heads = {**run["heads"]}
    if state not in heads:
        heads[state] = run["head"]
        is_clear = run["is_clear"] and is_complete(run["tally"])
        empty = [*run["empty"], *([state] if is_empty(run["tally"]) else [])]
        run = {**run, "is_clear": is_clear, "empty": empty}
        if state == STATES[0]:
            left = [*left, state]
        elif run["offset"]:
            left = [state, *left]
    if left:
        return PageStep(cursor={RUN: {**run, "left": left, "heads": heads, **_begin_state()}})
    is_clear = run["is_clear"] and run["tears"] < TEARS_MAX
    began_at = datetime.fromtimestamp(run["began_s"], tz=UTC)
    return PageStep(
        cursor={},
        is_done=True,
        gone_since=began_at if is_clear else None,
        empty_lists=tuple(run["empty"]),
    )
