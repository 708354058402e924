"""Find everything new at Shopify, which sorts by the time of the last change.

A run reads changed rows, the oldest change first. A row that changes meanwhile moves to the end of
the list and is read there. The platform's cursor is valid within one run only; between runs a stamp
is kept, up to which everything was read. It stays a few minutes behind: changes reach the list
late, clocks differ, and a row may show a change before its place in the list does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.narrowing import (
    ASIDE,
    NAMED,
    Narrowed,
    due_ids,
    grown,
    named_read,
    named_size,
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
from headway.providers.shopify.narrowing import (
    NAMED_SIZES,
    answered_probe,
    ask_list,
    narrow_list,
    narrow_rows,
    without_peek,
)
from headway.providers.shopify.read_queries import PAGE_SIZES

# What is younger is not settled: its place may be wrong, and others may still come before it.
OVERLAP = timedelta(minutes=5)
DAY = timedelta(days=1)
# How often all variants are read: twice, hours apart, shows that one is gone.
WHOLE_EVERY, CONFIRM_AFTER = timedelta(hours=12), timedelta(hours=5)
# How far back the first run looks beyond what it must.
FIRST_REACH = DAY
# An app without the scope `read_all_orders` sees no order that is older.
HORIZON = timedelta(days=60)
ALL_ORDERS = "read_all_orders"
BEGINNING = datetime(2004, 1, 1, tzinfo=UTC)
# Shopify shows 25,000 rows of one list; well before that the walk begins another at its stamp.
ROWS_MAX = 20_000
# The `next` of a page that was not read because the platform rejected an old cursor.
STALE = ""
CURSOR_LIFE = timedelta(hours=1)
ONE = {"orders": "order", "products": "product"}
NOBODY: Mapping[str, list[Any]] = {"wanted": [], "cut": []}


def paginator_of(kind: DataKind, *, is_backfill: bool) -> Paginator:
    """Return how this kind is walked."""
    if is_backfill:
        assert kind in {DataKind.ORDERS, DataKind.CUSTOMERS}, f"{kind} of Shopify have no backfill"
        return OrderHistory() if kind is DataKind.ORDERS else AllCustomers()
    assert kind is not DataKind.PAYMENTS, "payments of Shopify come with their orders"
    if kind is DataKind.LISTINGS:
        return ShopifyListings()
    return Changes(noun=kind.value, has_whole_days=kind is DataKind.CUSTOMERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The rows that were named, then all that changed since the stamp.

    Where the platform's filter knows whole days only, of whichever time zone, a list begins a day
    earlier.
    """

    noun: str
    has_whole_days: bool = False
    recheck_after: timedelta | None = None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Begin a run, or go on with the one under way; `wanted` rows come first."""
        newest = cursor.get("newest") or _text(begun_since(cursor, now) - FIRST_REACH)
        run = cursor.get(RUN)
        if run is None:
            run = {
                **_list_from(self._from(_instant(newest)), now),
                "until": _text(now + OVERLAP),
                **NOBODY,
            }
        elif now - _instant(run["read_at"]) > CURSOR_LIFE:
            run = {**without_peek(run), **_list_from(self._from(_instant(newest)), now)}
        return {**cursor, "newest": newest, RUN: _with_ids(run, due_ids(cursor, wanted, now))}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for named rows, a row that did not fit on a page, or the next page."""
        run = cursor[RUN]
        return _ask_by_name(self.noun, run) or _ask_list(self.noun, "updated_at", run)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; the run is done at the end of the list, or at what changed since it began.

        Without that second end a busy shop would keep one run for ever.
        """
        run = cursor[RUN]
        if _ask_by_name(self.noun, run) is not None:
            step = self._close(_take_named(self.noun, cursor, page))
            return replace(step, is_progress=not run["wanted"])
        if (probed := answered_probe(cursor, self.noun, page)) is not None:
            return probed
        newest = _settled(cursor["newest"], run, page)
        moved = _take_list(self.noun, cursor, page, now, again=self._from(newest))
        ends = page.stamps and min(page.stamps) > _instant(run["until"])
        moved["is_end"] = moved["is_end"] or bool(ends)
        return self._close({**cursor, "newest": _text(newest), RUN: moved})

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Set a row aside that fails alone, or ask for fewer; see `NarrowingPaginator`."""
        if _ask_by_name(self.noun, cursor[RUN]) is not None:
            return narrow_rows(cursor, self.noun, reason, now)
        return narrow_list(cursor, self.noun, reason, now) if is_repeated else None

    def _close(self, cursor: Cursor) -> PageStep:
        run = cursor[RUN]
        if run["is_end"] and not run["wanted"] and not run["cut"]:
            lasting = {name: value for name, value in cursor.items() if name != RUN}
            return PageStep(cursor=lasting, is_done=True)
        return PageStep(cursor=cursor)

    def _from(self, instant: datetime) -> str:
        """Return where a list must begin to hold all that changed since then."""
        if not self.has_whole_days:
            return _text(instant)
        day = (instant - DAY).astimezone(UTC)
        return _text(day.replace(hour=0, minute=0, second=0, microsecond=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopifyListings:
    """Twice a day, and when a product turns out to be gone, all variants by id; else what changed.

    A whole walk reads complete rows: that costs little more than their ids, and corrects rows that
    changed without a stamp. It is complete unless some row was unreadable. When a product is gone,
    the next whole walk, which confirms it, comes sooner.
    """

    recheck_after: timedelta | None = None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Begin a run, or go on with the one under way."""
        run, whole_at = cursor.get(RUN), cursor.get("whole_at")
        if run is None and (whole_at is None or now - _instant(whole_at) >= WHOLE_EVERY):
            run = _whole_from(now)
        if run is not None and "above" in run:
            return {**cursor, RUN: _with_ids(run, due_ids(cursor, wanted, now))}
        return PRODUCTS.begin(cursor, now, wanted)

    def ask(self, cursor: Cursor) -> PageRequest:
        """Ask for the variants above the last one, or as `Changes` does."""
        run = cursor[RUN]
        if "above" not in run:
            return PRODUCTS.ask(cursor)
        return _ask_by_name("products", run) or _ask_above("variants", run)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; at the end of a whole walk it is known what is gone."""
        run = cursor[RUN]
        if "above" not in run:
            if run["wanted"] and page.missing:
                # Its variants went with it, and only a whole walk finds out which these were.
                read = _take_named("products", cursor, page)
                run = {**_whole_from(now), "is_named": True}
                return PageStep(cursor={**read, RUN: run}, is_progress=False)
            return PRODUCTS.advance(cursor, page, now)
        if _ask_by_name("products", run) is not None:
            moved = _take_named("products", cursor, page)
            return PageStep(cursor=moved, is_progress=not run["wanted"])
        if (probed := answered_probe(cursor, "variants", page)) is not None:
            return probed
        is_clear = run["is_clear"] and not page.records.unreadable
        if page.next is not None:
            moved = {**_take_above("variants", run, page), "is_clear": is_clear}
            return PageStep(cursor={**cursor, RUN: moved})
        begun_at = _instant(run["begun_at"])
        whole_at = begun_at - (WHOLE_EVERY - CONFIRM_AFTER) * run.get("is_named", False)
        lasting = {name: cursor[name] for name in (ASIDE,) if name in cursor}
        lasting |= {"newest": _text(begun_at - OVERLAP), "whole_at": _text(whole_at)}
        gone_since = begun_at if is_clear else None
        return PageStep(cursor=lasting, is_done=True, gone_since=gone_since)

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Set a row aside that fails alone; after it nothing is called gone."""
        if "above" not in cursor[RUN] or _ask_by_name("products", cursor[RUN]) is not None:
            return PRODUCTS.narrow(cursor, reason, now, is_repeated=is_repeated)
        return narrow_list(cursor, "variants", reason, now) if is_repeated else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderHistory:
    """All orders up to now by when they were made, from as far back as the app may see, once."""

    recheck_after: timedelta | None = None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Begin, or go on where the last claim stopped; rows set aside are tried again."""
        run = cursor.get(RUN)
        if run is None:
            run = {"until": _text(now), "newest": None, **_list_from(None, now), **NOBODY}
        elif now - _instant(run["read_at"]) > CURSOR_LIFE:
            run = {**without_peek(run), **_list_from(run["newest"], now)}
        return {**cursor, RUN: _with_ids(run, due_ids(cursor, wanted, now))}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Request the scopes first: they determine how far back history goes."""
        run = cursor[RUN]
        if run["since"] is None:
            return PageRequest(what="scopes")
        return _ask_by_name("orders", run) or _ask_list("orders", "created_at", run)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take a page; after the last one history is whole."""
        run = cursor[RUN]
        if run["since"] is None:
            horizon = None if ALL_ORDERS in page.ids else now - HORIZON
            since = _text(horizon or BEGINNING)
            run_state = {**run, **_list_from(since, now), "newest": since}
            return PageStep(cursor={RUN: run_state}, horizon_at=horizon)
        if _ask_by_name("orders", run) is not None:
            lasting = _take_named("orders", cursor, page)
        elif (probed := answered_probe(cursor, "orders", page)) is not None:
            return probed
        else:
            newest = _text(_settled(run["newest"], run, page))
            moved = _take_list("orders", cursor, page, now, again=newest)
            lasting = {**cursor, RUN: {**moved, "newest": newest}}
        moved = lasting[RUN]
        is_done = moved["is_end"] and not moved["cut"] and not moved["wanted"]
        is_progress = not run["wanted"]
        return PageStep(cursor={} if is_done else lasting, is_done=is_done, is_progress=is_progress)

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Set a row aside that fails alone, or ask for fewer; see `NarrowingPaginator`."""
        if cursor[RUN]["since"] is None:
            return None
        return Changes(noun="orders").narrow(cursor, reason, now, is_repeated=is_repeated)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllCustomers:
    """All customers by id, once; `Changes` finds those who are added or change meanwhile."""

    recheck_after: timedelta | None = None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002 - as the port has it
        """Begin with the first id, or go on where the last claim stopped."""
        return {**cursor, RUN: cursor.get(RUN) or {"above": "0"}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Ask for those above the last one."""
        return _ask_above("all_customers", cursor[RUN])

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002 - as the port has it
        """Take a page; after the last one all are there."""
        if (probed := answered_probe(cursor, "all_customers", page)) is not None:
            return probed
        if page.next is None:
            return PageStep(cursor={}, is_done=True)
        moved = _take_above("all_customers", cursor[RUN], page)
        return PageStep(cursor={**cursor, RUN: moved})

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Ask for fewer; see `NarrowingPaginator`."""
        return narrow_list(cursor, "all_customers", reason, now) if is_repeated else None


PRODUCTS = Changes(noun="products")


def _list_from(since: str | None, now: datetime) -> dict[str, Any]:
    """Return the state of a list that is read from its beginning."""
    fresh = {"since": since, "after": None, "rows": 0, "is_end": False}
    return {**fresh, "begun_at": _text(now), "read_at": _text(now)}


def _whole_from(now: datetime) -> dict[str, Any]:
    return {"above": "0", "begun_at": _text(now), "is_clear": True, **NOBODY}


def _with_ids(run: Mapping[str, Any], ids: Sequence[str]) -> dict[str, Any]:
    """Return the run with more to be read by name; a name may come as the platform's long id."""
    numbers = [text.rpartition("/")[2] for text in ids]
    return {**run, "wanted": list(dict.fromkeys([*run["wanted"], *numbers]))}


def _ask_by_name(noun: str, run: Mapping[str, Any]) -> PageRequest | None:
    if run["wanted"]:
        ids = run["wanted"][: named_size(run, NAMED_SIZES[noun])]
        return PageRequest(what=f"{noun}_by_id", values={"ids": ids})
    if run["cut"]:
        external_id, after = run["cut"][0]
        return PageRequest(what=ONE[noun], values={"id": external_id, "next": after})
    return None


def _ask_list(noun: str, field: str, run: Mapping[str, Any]) -> PageRequest:
    values = {"field": field, "since": run["since"], "after": run["after"]}
    if field == "created_at":
        values["until"] = run["until"]
    return ask_list(noun, run, values)


def _ask_above(what: str, run: Mapping[str, Any]) -> PageRequest:
    """Ask for the rows above an id, or behind the cursor of one that has no readable id."""
    after = {"after": run["after"]} if run.get("after") else {}
    return ask_list(what, run, {"above": run["above"], **after})


def _take_above(what: str, run: Mapping[str, Any], page: Page) -> dict[str, Any]:
    moved = grown(without_peek(run), PAGE_SIZES[what], len(page.ids))
    moved.pop("after", None)
    return {**moved, "above": page.next}


def _take_named(noun: str, cursor: Cursor, page: Page) -> dict[str, Any]:
    """Return the cursor after rows by name: those that did not fit wait for a call of their own."""
    run = cursor[RUN]
    if run["wanted"]:
        read = named_read(cursor, NAMED_SIZES[noun])
        return {**read, RUN: {**read[RUN], "cut": _queue(read, page)}}
    [external_id, _], *others = run["cut"]
    if page.next is not None:
        others = [[external_id, page.next], *others]
    elif page.cut:  # it changed while it was read, and is read again
        others = [*others, [external_id, None]]
    moved = {name: value for name, value in run.items() if name != NAMED}
    return {**cursor, RUN: {**moved, "cut": others}}


def _take_list(
    noun: str, cursor: Cursor, page: Page, now: datetime, *, again: str
) -> dict[str, Any]:
    """Return the run after a page of its list; `again` is where a fresh list would begin."""
    run = cursor[RUN]
    rows = run["rows"] + len(page.ids)
    moved = grown(without_peek(run), PAGE_SIZES[noun], len(page.ids))
    moved |= {"cut": _queue(cursor, page), "read_at": _text(now)}
    is_too_long = rows >= ROWS_MAX and _instant(again) > _instant(run["since"])
    if page.next == STALE or (is_too_long and page.next is not None):
        return {**moved, **_list_from(again, now)}
    if page.next is None:  # if the last row that did not fit fails, this page is read again
        return {**moved, "rows": rows, "is_end": True}
    return {**moved, "after": page.next, "rows": rows, "is_end": False}


def _queue(cursor: Cursor, page: Page) -> list[list[str | None]]:
    """Return the rows to be read by themselves; those set aside wait for their time."""
    cut = cursor[RUN]["cut"]
    waiting = {*(external_id for external_id, _ in cut), *cursor.get(ASIDE, {})}
    return [*cut, *([text, None] for text in page.cut if text not in waiting)]


def _settled(newest: str, run: Mapping[str, Any], page: Page) -> datetime:
    """Return the stamp up to which everything was read, after this page of the list.

    What was not settled when the list was begun may come in behind the place that was read.
    """
    settled = _instant(run["begun_at"]) - OVERLAP
    stamps = [stamp for stamp in page.stamps if stamp <= settled]
    return max([_instant(newest), *([settled] if page.next is None else stamps)])


def _text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat()


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
