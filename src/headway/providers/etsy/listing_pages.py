"""Listings at Etsy: all of them, state by state, since Etsy does not report changes.

The newest come first. A listing that is renewed, published or put back on sale during the walk may
jump ahead of the pages already read; so the front is read once more at the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep
from headway.providers.etsy.offset_paging import (
    PAGE_ROWS,
    TAIL_ROWS,
    has_more,
    is_torn,
    seconds,
    step_back,
    step_on,
)

# What is sold or runs out leaves the active ones, which are therefore read first; what comes back
# to them is met by the look at their front.
STATES = ("active", "inactive", "sold_out", "draft", "expired")
# A shop that changes faster than it can be read is not judged: nothing is called gone then.
TEARS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingsWalk:
    """The whole shop; a listing not found since the walk began is gone."""

    @property
    def recheck_after(self) -> timedelta | None:
        """Listings are no orders."""
        return None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002
        """Begin a run, or go on with the one under way; wanted listings are among all others."""
        if RUN in cursor:
            return cursor
        run = {"began_s": seconds(now), "left": list(STATES), "heads": {}, "tears": 0}
        return {RUN: {**run, **_begin_state()}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for the next page of the current state."""
        run = cursor[RUN]
        values = {"state": run["left"][0], "limit": PAGE_ROWS, "offset": run["offset"]}
        return PageRequest(what="listings", values=values)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002
        """Take a page; the last one says since when the unseen are gone."""
        run = {**cursor[RUN]}
        state = run["left"][0]
        is_look = state in run["heads"]
        if is_torn(run["tail"], page.ids) and run["tears"] < TEARS_MAX:
            run["tears"] += 1
            return PageStep(cursor={RUN: {**run, **step_back(run["offset"], run["tail"])}})
        if not run["offset"] and not is_look:
            run["head"] = list(page.ids[:TAIL_ROWS])
        is_known = is_look and not set(run["heads"][state]).isdisjoint(page.ids)
        if not is_known and has_more(page, run["offset"]):
            return PageStep(cursor={RUN: {**run, **step_on(run["offset"], page.ids)}})
        return _end_state(run)


def _begin_state() -> Mapping[str, Any]:
    return {"offset": 0, "tail": [], "head": []}


def _end_state(run: Mapping[str, Any]) -> PageStep:
    """Go on to the next state; one of several pages, and the active ones, are looked at again."""
    state, *left = run["left"]
    heads = {**run["heads"]}
    is_look = state in heads
    if not is_look:
        heads[state] = run["head"]
        if state == STATES[0]:
            left = [*left, state]
        elif run["offset"]:
            left = [state, *left]
    if left:
        return PageStep(cursor={RUN: {**run, "left": left, "heads": heads, **_begin_state()}})
    began_at = datetime.fromtimestamp(run["began_s"], tz=UTC)
    return PageStep(
        cursor={}, is_done=True, gone_since=None if run["tears"] >= TEARS_MAX else began_at
    )
