"""Payments at Etsy: entries of the shop's ledger, by windows of their creation.

Entries never change, and Etsy wants both ends of a window. Its end is a minute in the past, so a
window is closed when it is read, and its rows stand still under the offset.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep, begun_since
from headway.providers.etsy.offset_paging import PAGE_ROWS, has_more, seconds

DAY_S = 86_400
# Etsy serves no offset beyond 12,000; a window that holds more than this is halved.
ROWS_MAX = 5_000
SLICE_S_MIN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWalk:
    """Window after window until a minute ago; a backfill begins two years ago."""

    is_backfill: bool = False
    # An entry may appear later than its creation time.
    overlap_s: int = 3600
    first_s: int = 2 * DAY_S
    history_s: int = 2 * 365 * DAY_S
    # Not one call more than needed for a quiet shop: every call is taken from all the sellers' day.
    slice_s: int = 30 * DAY_S
    settled_s: int = 60

    @property
    def recheck_after(self) -> timedelta | None:
        """Payments are no orders."""
        return None

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
        """Return the request for the next page of the window."""
        run = cursor[RUN]
        values = {
            "min_created": run["from_s"],
            "max_created": run["until_s"],
            "limit": PAGE_ROWS,
            "offset": run["offset"],
        }
        return PageRequest(what="ledger", values=values)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002
        """Take a page; after the last one of a window comes the next window."""
        run = cursor[RUN]
        span_s = run["until_s"] - run["from_s"]
        if (page.total or 0) > ROWS_MAX and span_s > SLICE_S_MIN:
            narrow = {**run, "slice_s": max(span_s // 2, SLICE_S_MIN)}
            return PageStep(cursor={**cursor, RUN: {**narrow, **_window(narrow, run["from_s"])}})
        if has_more(page, run["offset"]):
            moved = {**run, "offset": run["offset"] + len(page.ids)}
            return PageStep(cursor={**cursor, RUN: moved})
        lasting = {"until_s": run["until_s"]}
        if run["until_s"] >= run["end_s"]:
            return PageStep(cursor=lasting, is_done=True)
        return PageStep(cursor={**lasting, RUN: {**run, **_window(run, run["until_s"])}})


def _window(run: Mapping[str, Any], from_s: int) -> Mapping[str, Any]:
    """Return a window; the second on the edge of two is read in both."""
    until_s = min(from_s + run["slice_s"], run["end_s"])
    return {"from_s": from_s, "until_s": until_s, "offset": 0}
