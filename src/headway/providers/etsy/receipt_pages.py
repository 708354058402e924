"""Orders at Etsy: what changed, and once a day again what is recent.

Not by offset over rows that shift: each page begins at the newest second that the one before
showed, so a row can only move ahead of the walk. Only rows of one same second go by offset, and all
rows if Etsy ignores the order that was asked for, which shows if the stamps of a page fall. A row
that is known to fail divides the list: it is read up to the second before that row, and then from
there on, where that row is the first. Etsy
does not always move `last_modified` when an order is cancelled, refunded or gets a ship date; so
what is recent is read again every day, whatever its stamp, and what stays open longer, every week.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.narrowing import NARROW, ListWalk, Narrowed, due_ids, named_read
from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep, begun_since
from headway.core.accounts.unreadable_rows import KNOWN, LIST, close_list, known_row, open_list
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
MAXIMUM = {UPDATED: "max_last_modified", CREATED: "max_created"}
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
        return self._begin_phase({**lasting, RUN: run})

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
        if run.get("ends"):
            values[MAXIMUM[sort_on]] = run["ends"][0]
        return PageRequest(what="receipts", values=values)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; the last one of a phase moves what lasts."""
        run = cursor[RUN]
        if run["wanted"]:
            return PageStep(cursor=named_read(cursor), is_progress=False)
        cursor, step = self.looked(cursor, page, now)
        if step is not None:
            return step
        size, run = taken(cursor[RUN], page)
        cursor, run = _without_list({**cursor, RUN: run})
        newest_s = max([run["newest_s"], *map(seconds, page.stamps)])
        is_unsorted = run.get("is_unsorted", False) or _falls(page)
        run = {**run, "newest_s": newest_s, "is_unsorted": is_unsorted}
        if is_torn(run["tail"], page.ids if is_unsorted else _staying(page, run["from_s"])):
            moved = {**run, **step_back(run["offset"], run["tail"])}
        elif not has_more(page, run["offset"], size):
            return self._end_window({**cursor, RUN: run}, now)
        else:
            moved = {**run, **_follow(run, page)}
        return PageStep(cursor={**cursor, RUN: moved})

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Ask for less; a row that fails is remembered by the second of the row before it."""
        narrowed = ListWalk.narrow(self, cursor, reason, now, is_repeated=is_repeated)
        former = cursor[RUN]
        is_found = narrowed is not None and narrowed.unreadable and LIST not in former
        if not is_found or former["wanted"] or former["is_unsorted"]:
            return narrowed
        assert narrowed is not None, "a row was found"
        name = f"{former['phases'][0]}/{former['newest_s']}"
        before = former[NARROW]["before"]
        row = known_row(at=0, before=before, total=None, now=now)
        known = {**cursor.get(KNOWN, {}), name: [row]}
        return replace(narrowed, cursor={**narrowed.cursor, KNOWN: known})

    def _begin_phase(self, cursor: Cursor) -> dict[str, Any]:
        """Return the cursor at the start of a phase, without known rows that are older."""
        run, (phase, *_) = cursor[RUN], cursor[RUN]["phases"]
        if self.is_backfill:
            from_s = OLDEST_S
        elif phase == UPDATED:
            from_s = cursor["seen_s"] - self.overlap_s
        else:
            from_s = run["began_s"] - self.recent_s
        from_s = max(from_s, OLDEST_S)
        places = {name: name.split("/") for name in cursor.get(KNOWN, {})}
        old = {name for name, (of, at_s) in places.items() if of == phase and int(at_s) < from_s}
        known = {name: rows for name, rows in cursor.get(KNOWN, {}).items() if name not in old}
        ends = sorted(int(places[name][1]) for name in known if places[name][0] == phase)
        fresh = {"from_s": from_s, "newest_s": from_s, "is_unsorted": False}
        begun = {**run, **fresh, "offset": 0, "tail": [], "ends": ends}
        lasting = {name: value for name, value in cursor.items() if name != KNOWN}
        return {**lasting, **({KNOWN: known} if known else {}), RUN: begun}

    def _end_window(self, cursor: Cursor, now: datetime) -> PageStep:
        """Go on behind the second before a known row, which is the first row there; or end."""
        run = cursor[RUN]
        if not run["ends"]:
            return self._end_phase(cursor, now)
        after_s, *ends = run["ends"]
        moved = {**run, "from_s": after_s + 1, "offset": 0, "tail": [], "ends": ends}
        moved = open_list(cursor, moved, f"{run['phases'][0]}/{after_s}", now)
        return PageStep(cursor={**cursor, RUN: moved})

    def _end_phase(self, cursor: Cursor, now: datetime) -> PageStep:
        run = cursor[RUN]
        lasting = {key: value for key, value in cursor.items() if key != RUN}
        phase, *left = run["phases"]
        if phase == UPDATED:
            # A stamp from the future would hide all that changes until then.
            lasting["seen_s"] = max(lasting["seen_s"], min(run["newest_s"], seconds(now)))
        elif not self.is_backfill:
            lasting["rewalked_s"] = run["began_s"]
        if not left:
            return PageStep(cursor=lasting, is_done=True)
        begun = self._begin_phase({**lasting, RUN: {**run, "phases": left}})
        return PageStep(cursor=begun)


def _without_list(cursor: Cursor) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return cursor and run after the page behind a known row: its list ends there."""
    run = cursor[RUN]
    if LIST not in run:
        return dict(cursor), dict(run)
    left = {name: value for name, value in run.items() if name not in {LIST, KNOWN}}
    return close_list(cursor), left


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
