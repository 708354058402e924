"""Orders at Etsy: what changed, and once a day again what is recent.

Not by offset over rows that shift: each page begins at the newest second that the one before
showed, so a row can only move ahead of the walk. Only rows of one same second go by offset, and all
rows if Etsy ignores the order that was asked for, which shows if the stamps of a page fall. Etsy
does not always move `last_modified` when an order is cancelled, refunded or gets a ship date; so
what is recent is read again every day, whatever its stamp, and what stays open longer, every week.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.narrowing import ListWalk, due_ids, named_read
from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep, begun_since
from headway.providers.etsy.offset_paging import (
    PAGE_SIZES,
    has_more,
    is_torn,
    place_of,
    seconds,
    step_back,
    step_on,
    taken,
)

UPDATED, CREATED = "updated", "created"
MINIMUM = {UPDATED: "min_last_modified", CREATED: "min_created"}
# Etsy takes no instant before this one; it is older than Etsy.
OLDEST_S = 946_684_800
DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsWalk(ListWalk):
    """Wanted receipts first, then what changed since the last run, then what is recent, if due.

    A backfill is one walk by creation, oldest first, in the same steps.
    """

    kind = DataKind.ORDERS
    sizes = PAGE_SIZES
    is_backfill: bool = False
    # A change may show later than its stamp says: it is stamped when it begins, and travels to the
    # copy that answers us. Stamps are Etsy's own, so no clock of ours has a part in this.
    overlap_s: int = 600
    # How far back the first run looks: a backfill may have read an order just before it changed.
    first_s: int = 2 * DAY_S
    recent_s: int = 45 * DAY_S
    recent_every_s: int = DAY_S

    @property
    def recheck_after(self) -> timedelta | None:
        """Look every week at orders that are open but no longer recent."""
        return None if self.is_backfill else timedelta(days=7)

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Begin a run, or go on with the one under way; `wanted` receipts come first."""
        if run := cursor.get(RUN):
            names = list(dict.fromkeys([*due_ids(cursor, wanted, now), *run["wanted"]]))
            return {**cursor, RUN: {**run, "wanted": names}}
        now_s = seconds(now)
        lasting = dict(cursor)
        if self.is_backfill:
            phases = [CREATED]
        else:
            # What is recent was just pulled, or is being pulled, by the backfill.
            since_s = seconds(begun_since(cursor, now))
            lasting = {"seen_s": since_s - self.first_s, "rewalked_s": since_s, **lasting}
            is_due = now_s - lasting["rewalked_s"] >= self.recent_every_s
            phases = [UPDATED, CREATED] if is_due else [UPDATED]
        run = {"wanted": due_ids(cursor, wanted, now), "began_s": now_s, "phases": phases}
        return {**lasting, RUN: {**run, **self._begin_phase(lasting, phases[0], now_s)}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for a wanted receipt, or for the next page."""
        run = cursor[RUN]
        if run["wanted"]:
            return PageRequest(what="receipt", values={"receipt_id": run["wanted"][0]})
        sort_on = run["phases"][0]
        values = {
            MINIMUM[sort_on]: run["from_s"],
            "sort_on": sort_on,
            "sort_order": "asc",
            **place_of(run),
        }
        return PageRequest(what="receipts", values=values)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; the last one of a phase moves what lasts."""
        run = cursor[RUN]
        if run["wanted"]:
            return PageStep(cursor=named_read(cursor), is_progress=False)
        if probed := self.probed(cursor, page):
            return probed
        size, run = taken(run, page)
        newest_s = max([run["newest_s"], *map(seconds, page.stamps)])
        is_unsorted = run.get("is_unsorted", False) or _falls(page)
        run = {**run, "newest_s": newest_s, "is_unsorted": is_unsorted}
        if is_torn(run["tail"], page.ids if is_unsorted else _staying(page, run["from_s"])):
            moved = {**run, **step_back(run["offset"], run["tail"])}
        elif not has_more(page, run["offset"], size):
            return self._end_phase({**cursor, RUN: run}, seconds(now))
        else:
            moved = {**run, **_follow(run, page)}
        return PageStep(cursor={**cursor, RUN: moved})

    def _begin_phase(self, lasting: Cursor, phase: str, began_s: int) -> Mapping[str, Any]:
        if self.is_backfill:
            from_s = OLDEST_S
        elif phase == UPDATED:
            from_s = lasting["seen_s"] - self.overlap_s
        else:
            from_s = began_s - self.recent_s
        from_s = max(from_s, OLDEST_S)
        fresh = {"from_s": from_s, "newest_s": from_s, "is_unsorted": False}
        return {**fresh, "offset": 0, "tail": []}

    def _end_phase(self, cursor: Cursor, now_s: int) -> PageStep:
        run = cursor[RUN]
        lasting = {key: value for key, value in cursor.items() if key != RUN}
        phase, *left = run["phases"]
        if phase == UPDATED:
            # A stamp from the future would hide all that changes until then.
            lasting["seen_s"] = max(lasting["seen_s"], min(run["newest_s"], now_s))
        elif not self.is_backfill:
            lasting["rewalked_s"] = run["began_s"]
        if not left:
            return PageStep(cursor=lasting, is_done=True)
        begun = self._begin_phase(lasting, left[0], run["began_s"])
        return PageStep(cursor={**lasting, RUN: {**run, "phases": left, **begun}})


def _staying(page: Page, second: int) -> Sequence[str]:
    """Return the rows that are still of that second; one that moved does not affect others."""
    if not page.stamps:
        return page.ids
    pairs = zip(page.ids, page.stamps, strict=False)
    return [id_ for id_, stamp in pairs if seconds(stamp) == second]


def _falls(page: Page) -> bool:
    """Return True if the stamps of a page fall more often than they rise.

    A row that changes while the page is made may be out of place, one of many.
    """
    pairs = list(pairwise(map(seconds, page.stamps)))
    return sum(later < earlier for earlier, later in pairs) > sum(
        later > earlier for earlier, later in pairs
    )


def _follow(run: Mapping[str, Any], page: Page) -> Mapping[str, Any]:
    """Go on at the newest second of the page, or by offset while all its rows share one."""
    newest_s = max(map(seconds, page.stamps), default=run["from_s"])
    if newest_s > run["from_s"] and not run["is_unsorted"]:
        return {"from_s": newest_s, "offset": 0, "tail": []}
    return step_on(run["offset"], page.ids)
