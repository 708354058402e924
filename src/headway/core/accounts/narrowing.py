"""Narrow down what makes a request fail: ask for fewer rows until one row is alone.

A list page that keeps failing is asked for in smaller sizes. A single row that fails is convicted
only if the rows behind it answer and it then fails again: in an outage nobody is convicted. An id
that was named (by a webhook or a recheck) and fails is set aside, and tried again later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Protocol, runtime_checkable

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import RUN, Cursor, Page, PageStep, Paginator
from headway.core.accounts.unreadable_rows import (
    CHECK,
    KNOWN,
    THE_END,
    back_off,
    checked,
    failed_again,
    remembered,
    rows_until_known,
    unnamed,
    unskipped,
)
from headway.core.accounts.warehouse import Unreadable

Run = Mapping[str, Any]
NARROW = "narrow"
NAMED = "named"
ASIDE = "aside"
# How many rows in a row may fail before it is no longer believed to be the rows.
PROBES_MAX = 3
# After so many named ids in a row that fail, the others wait for the next run.
NAMED_FAILURES_MAX = 3
TRIES_MAX = 8
ASIDE_MAX = 200


class Conclusion(Enum):
    """What a failed request of a narrowed list shows."""

    ASK_LESS = "ask less"
    CULPRIT = "culprit"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """The cursor after a failed request; it is a failure of the job only if `is_failure`."""

    cursor: Cursor
    unreadable: tuple[Unreadable, ...] = ()
    is_failure: bool = False


@runtime_checkable
class NarrowingPaginator(Paginator, Protocol):
    """A paginator that can ask for less after a failure."""

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Return how to go on after the last request failed; None if it cannot ask for less.

        `is_repeated` if the job has failed before: a page is not made smaller the first time.
        """


class ListWalk:
    """The part that walks over a list have in common: how they ask for less after a failure.

    `sizes` are the sizes of a page, each a divisor of the one before. The run holds its `offset`
    in the list, the `wanted` ids if some are read by name, and `is_clear` unless rows were passed
    over. `recheck_after` is None unless a walk says otherwise.
    """

    __slots__ = ()
    kind: ClassVar[DataKind]
    sizes: ClassVar[Sequence[int]]

    @property
    def recheck_after(self) -> timedelta | None:
        """Return None: the walk needs no other reads."""
        return None

    def narrow(
        self, cursor: Cursor, reason: str, now: datetime, *, is_repeated: bool
    ) -> Narrowed | None:
        """Set a wanted id aside, or ask for fewer rows; see `NarrowingPaginator`."""
        if cursor[RUN].get("wanted"):
            return narrow_named(cursor, self.kind, reason, now)
        return narrow_list(cursor, self.kind, self.sizes, reason, now) if is_repeated else None

    def looked(self, cursor: Cursor, page: Page, now: datetime) -> tuple[Cursor, PageStep | None]:
        """Return the cursor after a page, and the step if the page is not of the walk itself.

        The rows behind a failing one were answered: it is tried once more. Or a row was skipped
        that is not the one known to fail: it is read.
        """
        run = cursor[RUN]
        if is_probe(run):
            moved, is_taken = after_probe(run, self.sizes, page.ids, page.total), False
        else:
            moved, is_back = checked(run, page, now)
            is_taken = not is_back
        reached = {**cursor, RUN: moved}
        return reached, None if is_taken else PageStep(cursor=reached, is_progress=False)


def narrow_list(
    cursor: Cursor, kind: DataKind, sizes: Sequence[int], reason: str, now: datetime
) -> Narrowed:
    """Return the cursor after a page failed: fewer rows, or past the one row that fails."""
    former = cursor[RUN]
    is_narrowing = is_probe(former) or former.get(NARROW, {}).get("is_check", False)
    if not is_narrowing and (again := failed_again(former, now)):
        moved, name = again
        bad = Unreadable(kind=kind, external_id=name, reason=reason, raw={})
        return Narrowed(cursor={**cursor, RUN: moved}, unreadable=(bad,))
    if (back := unskipped(former)) is not None:
        return Narrowed(cursor={**cursor, RUN: back})
    run, conclusion = after_failure(former, sizes)
    run.pop(CHECK, None)
    if conclusion is not Conclusion.CULPRIT:
        is_failure = conclusion is Conclusion.UNCLEAR
        return Narrowed(cursor={**cursor, RUN: run}, is_failure=is_failure)
    state = former[NARROW]
    moved = remembered(run, before=state["before"], total=state["total"], now=now)
    return Narrowed(cursor={**cursor, RUN: moved}, unreadable=(unnamed_row(former, kind, reason),))


def page_size(run: Run, sizes: Sequence[int], *, is_aligned: bool = False) -> int:
    """Return how many rows to ask for: no more than up to a row that is known to fail.

    Where pages have numbers (`is_aligned`), they begin at a multiple of their size.
    """
    size: int = run.get(NARROW, {}).get("size", sizes[0])
    size = min(size, rows_until_known(run) or size)
    if not is_aligned:
        return size
    return next(number for number in sizes if number <= size and run["offset"] % number == 0)


def has_known_rows(cursor: Cursor) -> bool:
    """Return True if rows of this job's lists are known to fail: a page that fails is no news."""
    return bool(cursor.get(KNOWN) or cursor[RUN].get(KNOWN))


def skipped_rows(run: Run) -> int:
    """Return how far behind its place the list is probed."""
    skip: int = run.get(NARROW, {}).get("skip", 0)
    return skip


def after_failure(run: Run, sizes: Sequence[int]) -> tuple[dict[str, Any], Conclusion]:
    """Return the run after a page of its list failed; the caller moves past a culprit."""
    state = run.get(NARROW) or _state(sizes[0])
    size, skip = state["size"], state["skip"]
    if state["is_check"]:
        return {**run, NARROW: _state(sizes[-1])}, Conclusion.CULPRIT
    if size > sizes[-1]:
        smaller = next(number for number in sizes if number < size)
        left = size if state["left"] <= 0 else min(size, state["left"])
        return {**run, NARROW: {**_state(smaller), "left": left}}, Conclusion.ASK_LESS
    if skip < PROBES_MAX:
        return {**run, NARROW: {**state, "skip": skip + 1}}, Conclusion.ASK_LESS
    return {**run, NARROW: _state(sizes[-1])}, Conclusion.UNCLEAR


def is_probe(run: Run) -> bool:
    """Return True if the last request only asked whether the rows behind a failing one answer."""
    return skipped_rows(run) > 0


def after_probe(
    run: Run, sizes: Sequence[int], ids: Sequence[str], total: int | None = None
) -> dict[str, Any]:
    """Return the run after a probe was answered: the failing row is tried once more."""
    behind = {"before": ids[0] if ids else THE_END, "total": total}
    return {**run, NARROW: {**_state(sizes[-1]), "is_check": True, **behind}}


def grown(run: Run, sizes: Sequence[int], rows: int, offset: int = 0) -> dict[str, Any]:
    """Return the run after a page: the next is larger by a step, and begins at a multiple of it.

    The rows of a page that failed are first read to their end.
    """
    state = run.get(NARROW)
    if state is None:
        return dict(run)
    left = state["left"] - rows
    if left > 0:
        return {**run, NARROW: {**_state(state["size"]), "left": left}}
    larger = min((number for number in sizes if number > state["size"]), default=sizes[0])
    size = next(number for number in sizes if number <= larger and offset % number == 0)
    # It stays until the run ends, also at full size: another failure is narrowed down at once.
    return {**run, NARROW: _state(size)}


def unnamed_row(run: Run, kind: str, reason: str) -> Unreadable:
    """Return the record of a culprit whose id is unknown, by the row behind it."""
    name = unnamed(run[NARROW]["before"])
    return Unreadable(kind=kind, external_id=name, reason=reason, raw={})


def due_ids(cursor: Cursor, wanted: Sequence[str], now: datetime) -> list[str]:
    """Return the ids to read by name: the wanted, and those set aside whose time has come."""
    aside = cursor.get(ASIDE, {})
    waiting = {id_ for id_, entry in aside.items() if _instant(entry["next_at"]) > now}
    due = [id_ for id_ in aside if id_ not in waiting and aside[id_]["tries"] < TRIES_MAX]
    return [id_ for id_ in dict.fromkeys([*wanted, *due]) if id_ not in waiting]


def set_aside(
    cursor: Cursor,
    ids: Sequence[str],
    kind: str,
    reason: str,
    now: datetime,
    *,
    is_tried: bool = True,
) -> tuple[dict[str, Any], tuple[Unreadable, ...]]:
    """Return the cursor with these ids to be tried later, and the records that say why."""
    aside = dict(cursor.get(ASIDE, {}))
    for id_ in ids:
        tries = aside.pop(id_, {"tries": 0})["tries"] + is_tried
        aside[id_] = {"tries": tries, "next_at": (now + back_off(tries)).isoformat()}
    kept = dict(list(aside.items())[-ASIDE_MAX:])
    bad = tuple(Unreadable(kind=kind, external_id=id_, reason=reason, raw={}) for id_ in ids)
    return {**cursor, ASIDE: kept}, bad


def named_size(run: Run, sizes: Sequence[int]) -> int:
    """Return how many ids to read by name at once."""
    size: int = run.get(NAMED, {}).get("size", sizes[0])
    return size


def narrow_named(
    cursor: Cursor,
    kind: str,
    reason: str,
    now: datetime,
    *,
    sizes: Sequence[int] = (1,),
    recorded_from: int = 1,
) -> Narrowed:
    """Return the cursor after reads by name failed: fewer at once, then the one id set aside.

    If several fail in a row it may be an outage: the others wait, and the list shows it. An id is
    recorded as unreadable when it has failed `recorded_from` times, each in another run.
    """
    run = cursor[RUN]
    state = run.get(NAMED) or _named_state(sizes[0])
    size = min(state["size"], len(run["wanted"]))
    if size > 1:
        smaller = next(number for number in (*sizes, 1) if number < size)
        left = min(size, state["left"] or size)
        narrowed = {**state, "size": smaller, "left": left}
        return Narrowed(cursor={**cursor, RUN: {**run, NAMED: narrowed}})
    failures = state["failures"] + 1
    first, others = run["wanted"][:1], run["wanted"][1:]
    is_many = failures >= NAMED_FAILURES_MAX
    larger = min((number for number in sizes if number > state["size"]), default=state["size"])
    passed = {**_named_state(larger), "failures": failures}
    moved = {**run, "wanted": [] if is_many else others, NAMED: passed}
    lasting, bad = set_aside({**cursor, RUN: moved}, first, kind, reason, now)
    if is_many:
        lasting, _ = set_aside(lasting, others, kind, reason, now, is_tried=False)
    is_recorded = lasting[ASIDE][first[0]]["tries"] >= recorded_from
    return Narrowed(cursor=lasting, unreadable=bad if is_recorded else ())


def named_read(cursor: Cursor, sizes: Sequence[int] = (1,)) -> dict[str, Any]:
    """Return the cursor after the first of the wanted ids were answered.

    The ids of a batch that failed are read to their end before more are asked for at once.
    """
    run = cursor[RUN]
    count = min(named_size(run, sizes), len(run["wanted"]))
    ids = run["wanted"][:count]
    moved = {name: value for name, value in run.items() if name != NAMED}
    if state := run.get(NAMED):
        left = state["left"] - count
        larger = min((number for number in sizes if number > state["size"]), default=sizes[0])
        size = state["size"] if left > 0 else larger
        moved[NAMED] = {**_named_state(size), "left": max(0, left)}
    aside = {id_: entry for id_, entry in cursor.get(ASIDE, {}).items() if id_ not in ids}
    lasting = {name: value for name, value in cursor.items() if name != ASIDE}
    if aside:
        lasting[ASIDE] = aside
    return {**lasting, RUN: {**moved, "wanted": run["wanted"][count:]}}


def has_named_failures(run: Run) -> bool:
    """Return True if so many ids in a row failed that no more are to be tried."""
    failures: int = run.get(NAMED, {}).get("failures", 0)
    return failures >= NAMED_FAILURES_MAX


def _named_state(size: int) -> dict[str, Any]:
    return {"size": size, "left": 0, "failures": 0}


def _state(size: int) -> dict[str, Any]:
    return {"size": size, "skip": 0, "is_check": False, "left": 0}


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
