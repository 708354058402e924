"""Remember the rows of a list that fail, so that the next run reads around them.

Narrowing down a row costs about ten calls. Its place is kept in the cursor, by list: the number of
rows before it, and the id of the row behind it. The next run ends a page before that place, skips
the row, and checks that the row behind it is still the same: else nothing may be skipped, and the
row at that place is read alone. From time to time, ever more seldom, it is read alone in any case,
and forgotten once that succeeds.

A run holds the `list` that it reads, the rows of it that are `known`, and, after one was skipped,
what to `check` on the next page.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from headway.core.accounts.pagination import RUN, Cursor, Page

Run = Mapping[str, Any]
KNOWN, LIST, CHECK = "known", "list", "check"
THE_END = "the end"
UNNAMED = "unnamed row "
FIRST_BACK_OFF, BACK_OFF_MAX = timedelta(minutes=5), timedelta(days=1)
# Rows that a list remembers, at most.
KNOWN_MAX = 20


def back_off(tries: int) -> timedelta:
    """Return how long to wait before what failed so many times is tried again."""
    doublings = min(max(tries - 1, 0), 20)
    return min(FIRST_BACK_OFF * (1 << doublings), BACK_OFF_MAX)


def unnamed(before: str) -> str:
    """Return the name of a row whose id is unknown, by the row behind it."""
    return f"{UNNAMED}before {before}"


def healed_names(before: Cursor, after: Cursor) -> tuple[str, ...]:
    """Return the names of rows that one cursor knows and the next does not: they were read."""
    return tuple(sorted(_names(before) - _names(after)))


def _names(cursor: Cursor) -> set[str]:
    rows = [*cursor.get(RUN, {}).get(KNOWN, ())]
    rows += [row for known in cursor.get(KNOWN, {}).values() for row in known]
    return {row["name"] for row in rows}


def open_list(cursor: Cursor, run: Run, name: str, now: datetime) -> dict[str, Any]:
    """Return the run at the start of a list, past a row known to fail that comes first."""
    rows = cursor.get(KNOWN, {}).get(name, [])
    fresh = {key: value for key, value in run.items() if key != CHECK}
    return skipped({**fresh, LIST: name, KNOWN: rows}, now)


def close_list(cursor: Cursor) -> dict[str, Any]:
    """Return the cursor with the known rows of the list that its run has read."""
    run = cursor[RUN]
    others = {name: rows for name, rows in cursor.get(KNOWN, {}).items() if name != run.get(LIST)}
    if rows := run.get(KNOWN):
        others[run[LIST]] = rows[-KNOWN_MAX:]
    lasting = {name: value for name, value in cursor.items() if name != KNOWN}
    return {**lasting, KNOWN: others} if others else lasting


def rows_until_known(run: Run) -> int | None:
    """Return how many rows may be asked for: up to a known one, or that alone; None for any."""
    places = [row["at"] for row in run.get(KNOWN, ()) if row["at"] >= run["offset"]]
    return max(1, min(places) - run["offset"]) if places else None


def known_here(run: Run) -> Mapping[str, Any] | None:
    """Return the known row at the place of the run, if it is to be read alone."""
    return next((row for row in run.get(KNOWN, ()) if row["at"] == run["offset"]), None)


def skipped(run: Run, now: datetime) -> dict[str, Any]:
    """Return the run past known rows at its place, unless it is time to try one again."""
    moved, place = dict(run), run["offset"]
    while (row := known_here(moved)) and datetime.fromisoformat(row["next_at"]) > now:
        moved = _past(moved, row, is_sure=False, begins_at=place)
    return moved


def is_behind_last(run: Run, total: int | None) -> bool:
    """Return True if the row that was skipped is the last of the list, as it was before."""
    if CHECK not in run or total is None or run["offset"] < total:
        return False
    return any(
        row["at"] == run["offset"] - 1 and row["before"] == THE_END for row in run.get(KNOWN, ())
    )


def checked(run: Run, page: Page, now: datetime) -> tuple[dict[str, Any], bool]:
    """Return the run after a page, and whether what was skipped before it may have been another.

    Then the run is back at that place, and reads that row alone.
    """
    check = run.get(CHECK)
    if check is None:
        return dict(run), False
    moved = {name: value for name, value in run.items() if name != CHECK}
    behind = page.ids[0] if page.ids else THE_END
    (row,) = [row for row in run[KNOWN] if row["at"] == run["offset"] - 1]
    if row["before"] == behind:
        return moved, False
    if _shift(row, page.total) > 0:
        rows = [_shifted(other, page.total, check["at"] - 1) for other in run[KNOWN]]
        return {**moved, KNOWN: rows, "offset": check["at"]}, True
    if check["is_sure"]:
        return _with_row(moved, {**row, "before": behind}), False
    tried = {**row, "before": behind, "next_at": now.isoformat()}
    return {**_with_row(moved, tried), "offset": check["at"]}, True


def after_rows(run: Run, page: Page) -> dict[str, Any]:
    """Return the run after a page of its list, without a known row that the page showed.

    If rows were added to the front of the list, the known ones are further back by as many.
    """
    rows, shown = run.get(KNOWN), known_here(run)
    if not rows:
        return dict(run)
    left = [row for row in rows if row is not shown]
    return {**run, KNOWN: [_shifted(row, page.total, run["offset"]) for row in left]}


def failed_again(run: Run, now: datetime) -> tuple[dict[str, Any], str] | None:
    """Return the run past a known row that failed alone again, and its name; None if none did."""
    row = known_here(run)
    if row is None:
        return None
    tries = row["tries"] + 1
    tried = {**row, "tries": tries, "next_at": (now + back_off(tries)).isoformat()}
    return _past(_with_row(run, tried), tried, is_sure=True), row["name"]


def unskipped(run: Run) -> dict[str, Any] | None:
    """Return the run back at a row that it skipped, after the rows behind that failed.

    What was skipped may have been another row. None if nothing was skipped unread.
    """
    check = run.get(CHECK)
    if check is None or check["is_sure"]:
        return None
    moved = {name: value for name, value in run.items() if name != CHECK}
    rows = [row for row in run[KNOWN] if not check["at"] <= row["at"] < run["offset"]]
    return {**moved, KNOWN: rows, "offset": check["at"]}


def known_row(*, at: int, before: str, total: int | None, now: datetime) -> dict[str, Any]:
    """Return what is remembered of a row that was found to fail."""
    next_at = (now + back_off(1)).isoformat()
    place = {"at": at, "before": before, "total": total}
    return {**place, "name": unnamed(before), "tries": 1, "next_at": next_at}


def remembered(run: Run, *, before: str, total: int | None, now: datetime) -> dict[str, Any]:
    """Return the run past a row that was found to fail, at its place."""
    row = known_row(at=run["offset"], before=before, total=total, now=now)
    # Of two rows in a row that fail, both are named by the row behind them.
    others = [
        other
        for other in run.get(KNOWN, ())
        if other["name"] != row["name"] or other["at"] == row["at"] - 1
    ]
    if LIST in run:
        return _past(_with_row({**run, KNOWN: others}, row), row, is_sure=True)
    return {**run, "offset": run["offset"] + 1, "tail": [], "is_clear": False}


def _past(
    run: Run, row: Mapping[str, Any], *, is_sure: bool, begins_at: int | None = None
) -> dict[str, Any]:
    """Return the run behind a row; the next page is checked if the row was not read just now."""
    check = {"at": row["at"] if begins_at is None else begins_at, "is_sure": is_sure}
    return {**run, "offset": row["at"] + 1, "tail": [], "is_clear": False, CHECK: check}


def _with_row(run: Run, row: Mapping[str, Any]) -> dict[str, Any]:
    others = [other for other in run.get(KNOWN, ()) if other["at"] != row["at"]]
    return {**run, KNOWN: sorted([*others, row], key=lambda known: known["at"])}


def _shift(row: Mapping[str, Any], total: int | None) -> int:
    """Return how many rows the list has more than when the place of this one was found."""
    return 0 if total is None or row["total"] is None else total - row["total"]


def _shifted(row: Mapping[str, Any], total: int | None, offset: int) -> Mapping[str, Any]:
    shift = _shift(row, total)
    if not shift or row["at"] <= offset:
        return row
    return {**row, "at": max(offset + 1, row["at"] + shift), "total": total}
