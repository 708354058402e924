"""How everything new is found at Etsy; instants are whole seconds, as Etsy counts them.

Receipts are in `receipt_pages`, payments in `ledger_pages`. Listings are read whole, state by
state, since Etsy does not report changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.narrowing import ListWalk
from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep, Paginator
from headway.core.accounts.removals import is_complete, is_empty, with_rows
from headway.core.accounts.unreadable_rows import KNOWN, close_list, open_list, skipped
from headway.errors import InvariantError
from headway.providers.etsy.ledger_pages import LedgerWalk
from headway.providers.etsy.offset_paging import (
    PAGE_ROWS,
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

# Etsy serves no offset beyond this.
OFFSET_MAX = 12_000
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
        return {**cursor, RUN: _begin_state(cursor, {**run, "is_clear": True, "empty": []}, now)}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for the next page of the current state."""
        run = cursor[RUN]
        return PageRequest(what="listings", values={"state": run["left"][0], **place_of(run)})

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; the last one says since when the unseen are gone."""
        cursor, step = self.looked(cursor, page, now)
        if step is not None:
            return step
        size, run = taken(cursor[RUN], page)
        state = run["left"][0]
        is_look = state in run["heads"]
        if not is_look:
            run["tally"] = with_rows(run["tally"], page.ids, page.total)
        if is_torn(run["tail"], page.ids) and run["tears"] < TEARS_MAX:
            run["tears"] += 1
            back = {**run, **step_back(run["offset"], run["tail"])}
            return PageStep(cursor={**cursor, RUN: back})
        if not run["offset"] and not is_look:
            run["head"] = list(page.ids[:TAIL_ROWS])
        is_known = is_look and not set(run["heads"][state]).isdisjoint(page.ids)
        moved = skipped({**run, **step_on(run["offset"], page.ids)}, now)
        # A list that goes on beyond what Etsy serves is incomplete: nothing is called gone then.
        is_served = moved["offset"] <= OFFSET_MAX - PAGE_ROWS
        if not is_known and is_served and has_more(page, run["offset"], size):
            return PageStep(cursor={**cursor, RUN: moved})
        return _end_state(close_list({**cursor, RUN: run}), now)


def _begin_state(cursor: Cursor, run: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    fresh = {**run, "offset": 0, "tail": [], "head": [], "tally": {}}
    return open_list(cursor, fresh, run["left"][0], now)


def _end_state(cursor: Cursor, now: datetime) -> PageStep:
    """Go on to the next state; one of several pages, and the active ones, are looked at again."""
    run = cursor[RUN]
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
        begun = _begin_state(cursor, {**run, "left": left, "heads": heads}, now)
        return PageStep(cursor={**cursor, RUN: begun})
    is_clear = run["is_clear"] and run["tears"] < TEARS_MAX
    began_at = datetime.fromtimestamp(run["began_s"], tz=UTC)
    return PageStep(
        cursor={name: cursor[name] for name in (KNOWN,) if name in cursor},
        is_done=True,
        gone_since=began_at if is_clear else None,
        empty_lists=tuple(run["empty"]),
    )
