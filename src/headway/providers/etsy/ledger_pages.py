"""Payments at Etsy: the entries of a shop's ledger, and the orders that they belong to.

Entries never change, and Etsy wants both ends of a window. Its end is a minute in the past, so a
window is closed when it is read, and its rows stand still under the offset. Entries name payments,
not orders: the payments are asked for, many at once, to learn their orders. If that fails, fewer
are asked for at once; a payment that fails alone is set aside and tried again in later runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.narrowing import (
    ASIDE,
    ListWalk,
    Narrowed,
    due_ids,
    named_read,
    named_size,
    narrow_named,
)
from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep, begun_since
from headway.providers.etsy.offset_paging import PAGE_SIZES, has_more, place_of, seconds, taken

DAY_S = 86_400
# Etsy serves no offset beyond 12,000; a window that holds more than this is halved.
ROWS_MAX = 5_000
SLICE_S_MIN = 60
# How many payments are asked for in one call, to learn their orders; fewer after a failure.
LINK_SIZES = (100, 25, 5, 1)
# A payment is recorded as unreadable when it has failed in so many runs: not in a short outage.
LINK_FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWalk(ListWalk):
    """Window after window until a minute ago; a backfill begins two years ago.

    It first asks when the shop was created: windows before that are empty.

    A run collects the `links` of its entries, "entry/payment", and moves them to `wanted` when it
    has enough for a call, or is at its end.
    """

    kind = DataKind.PAYMENTS
    sizes = PAGE_SIZES
    is_backfill: bool = False
    # An entry may appear later than its creation time.
    overlap_s: int = 3600
    first_s: int = 2 * DAY_S
    history_s: int = 2 * 365 * DAY_S
    # Not one call more than needed for a quiet shop: every call is taken from all the sellers' day.
    # No window may be longer.
    slice_s: int = 31 * DAY_S
    settled_s: int = 60

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Go on, or begin where the last run ended and a little before."""
        del wanted  # webhooks name no payments
        if RUN in cursor:
            return cursor
        end_s = seconds(now) - self.settled_s
        since_s = seconds(begun_since(cursor, now)) - self.settled_s
        first_s = end_s - self.history_s if self.is_backfill else since_s - self.first_s
        # Never after the end: the clock may have been set back since.
        until_s = min(cursor.get("until_s", 0), end_s)
        from_s = until_s - self.overlap_s if until_s else first_s
        links = due_ids(cursor, (), now)
        run = {"end_s": end_s, "slice_s": self.slice_s, "links": [], "wanted": links}
        if self.is_backfill and not until_s:
            run["asks_shop"] = True
        return {**cursor, RUN: {**run, **_window(run, from_s)}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for payments whose orders are unknown, or for the next page."""
        run = cursor[RUN]
        if run["wanted"]:
            links = run["wanted"][: named_size(run, LINK_SIZES)]
            return PageRequest(
                what="payments", values={"links": [link.split("/") for link in links]}
            )
        if run.get("asks_shop"):
            return PageRequest(what="shop")
        values = {
            "min_created": run["from_s"],
            "max_created": run["until_s"],
            **place_of(run),
        }
        return PageRequest(what="ledger", values=values)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; after the last one of a window comes the next window."""
        if wanted := cursor[RUN]["wanted"]:
            read = named_read(cursor, LINK_SIZES)
            names = wanted[: len(wanted) - len(read[RUN]["wanted"])]
            return replace(_closed(read, is_progress=False), healed=tuple(names))
        if cursor[RUN].get("asks_shop"):
            return PageStep(cursor=_since_creation(cursor, page))
        cursor, step = self.looked(cursor, page, now)
        if step is not None:
            return step
        size, run = taken(cursor[RUN], page)
        span_s = run["until_s"] - run["from_s"]
        if (page.total or 0) > ROWS_MAX and span_s > SLICE_S_MIN:
            narrow = {**run, "slice_s": max(span_s // 2, SLICE_S_MIN)}
            return PageStep(cursor={**cursor, RUN: {**narrow, **_window(narrow, run["from_s"])}})
        names = [name for name in map("/".join, page.links) if name not in cursor.get(ASIDE, {})]
        run["links"] = list(dict.fromkeys([*run["links"], *names]))
        if has_more(page, run["offset"], size):
            moved = {**run, "offset": run["offset"] + len(page.ids)}
            return _closed({**cursor, RUN: moved})
        is_end = run["until_s"] >= run["end_s"]
        after = {"is_end": True} if is_end else _window(run, run["until_s"])
        return _closed({**cursor, "until_s": run["until_s"], RUN: {**run, **after}})

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Ask for fewer payments or entries, and set a payment aside that fails alone."""
        if cursor[RUN].get("asks_shop"):
            return Narrowed(cursor=_since_creation(cursor, Page()))
        if not cursor[RUN]["wanted"]:
            return ListWalk.narrow(self, cursor, reason, now, is_repeated=is_repeated)
        return narrow_named(
            cursor, self.kind, reason, now, sizes=LINK_SIZES, recorded_from=LINK_FAILURES
        )


def _since_creation(cursor: Cursor, page: Page) -> Cursor:
    """Return the cursor at the creation of the shop, or where it is if that is unknown."""
    run = {name: value for name, value in cursor[RUN].items() if name != "asks_shop"}
    created_s = min(map(seconds, page.stamps), default=0) - DAY_S
    from_s = min(max(run["from_s"], created_s), run["end_s"])
    return {**cursor, RUN: {**run, **_window(run, from_s)}}


def _closed(cursor: Cursor, *, is_progress: bool = True) -> PageStep:
    """Return the step with the links that are asked for now; the run is done if nothing is left."""
    run = cursor[RUN]
    is_end = run.get("is_end", False)
    if not run["wanted"] and (is_end or len(run["links"]) >= LINK_SIZES[0]):
        run = {**run, "wanted": run["links"], "links": []}
    if is_end and not run["wanted"]:
        lasting = {name: cursor[name] for name in ("until_s", ASIDE) if name in cursor}
        return PageStep(cursor=lasting, is_done=True)
    return PageStep(cursor={**cursor, RUN: run}, is_progress=is_progress)


def _window(run: Mapping[str, Any], from_s: int) -> Mapping[str, Any]:
    """Return a window; the second on the edge of two is read in both."""
    until_s = min(from_s + run["slice_s"], run["end_s"])
    return {"from_s": from_s, "until_s": until_s, "offset": 0}
