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
from headway.core.accounts.warehouse import Unreadable

Run = Mapping[str, Any]
NARROW = "narrow"
ASIDE = "aside"
# How many rows in a row may fail before it is no longer believed to be the rows.
PROBES_MAX = 3
# After so many named ids in a row that fail, the others wait for the next run.
NAMED_FAILURES_MAX = 3
TRIES_MAX = 8
FIRST_BACK_OFF, BACK_OFF_MAX = timedelta(minutes=5), timedelta(days=1)
ASIDE_MAX = 200
UNNAMED = "unnamed row "


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
        return narrow_list(cursor, self.kind, self.sizes, reason) if is_repeated else None

    def probed(self, cursor: Cursor, page: Page) -> PageStep | None:
        """Return the step after the rows behind a failing one were answered; None if they are not.

        The failing row is tried once more.
        """
        if not is_probe(cursor[RUN]):
            return None
        run = after_probe(cursor[RUN], self.sizes, page.ids)
        return PageStep(cursor={**cursor, RUN: run}, is_progress=False)


def narrow_list(cursor: Cursor, kind: DataKind, sizes: Sequence[int], reason: str) -> Narrowed:
    """Return the cursor after a page failed: fewer rows, or past the one row that fails."""
    run, conclusion = after_failure(cursor[RUN], sizes)
    if conclusion is not Conclusion.CULPRIT:
        is_failure = conclusion is Conclusion.UNCLEAR
        return Narrowed(cursor={**cursor, RUN: run}, is_failure=is_failure)
    moved = {**run, "offset": run["offset"] + 1, "tail": [], "is_clear": False}
    bad = (unnamed_row(cursor[RUN], kind, reason),)
    return Narrowed(cursor={**cursor, RUN: moved}, unreadable=bad)


def page_size(run: Run, sizes: Sequence[int]) -> int:
    """Return how many rows to ask for."""
    size: int = run.get(NARROW, {}).get("size", sizes[0])
    return size


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


def after_probe(run: Run, sizes: Sequence[int], ids: Sequence[str]) -> dict[str, Any]:
    """Return the run after a probe was answered: the failing row is tried once more."""
    before = ids[0] if ids else "the end"
    return {**run, NARROW: {**_state(sizes[-1]), "is_check": True, "before": before}}


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
    place = f"{UNNAMED}before {run[NARROW]['before']}"
    return Unreadable(kind=kind, external_id=place, reason=reason, raw={})


def due_ids(cursor: Cursor, wanted: Sequence[str], now: datetime) -> list[str]:
    """Return the ids to read by name: the wanted, and those set aside whose time has come."""
    aside = cursor.get(ASIDE, {})
    waiting = {id_ for id_, entry in aside.items() if _instant(entry["next_at"]) > now}
    due = [id_ for id_ in aside if id_ not in waiting and aside[id_]["tries"] < TRIES_MAX]
    return [id_ for id_ in dict.fromkeys([*wanted, *due]) if id_ not in waiting]


def set_aside(
    cursor: Cursor, ids: Sequence[str], kind: str, reason: str, now: datetime
) -> tuple[dict[str, Any], tuple[Unreadable, ...]]:
    """Return the cursor with these ids to be tried later, and the records that say why."""
    aside = dict(cursor.get(ASIDE, {}))
    for id_ in ids:
        tries = aside.pop(id_, {"tries": 0})["tries"] + 1
        pause = min(FIRST_BACK_OFF * 2 ** min(tries - 1, 20), BACK_OFF_MAX)
        aside[id_] = {"tries": tries, "next_at": (now + pause).isoformat()}
    kept = dict(list(aside.items())[-ASIDE_MAX:])
    bad = tuple(Unreadable(kind=kind, external_id=id_, reason=reason, raw={}) for id_ in ids)
    return {**cursor, ASIDE: kept}, bad


def narrow_named(
    cursor: Cursor, kind: str, reason: str, now: datetime, *, sizes: Sequence[int] = (1,)
) -> Narrowed:
    """Return the cursor after reads by name failed: fewer at once, then the one id set aside.

    If several fail in a row it may be an outage: the others wait, and the list shows it.
    """
    run = cursor[RUN]
    size = run.get("named_size", sizes[0])
    if min(size, len(run["wanted"])) > 1:
        smaller = next(number for number in (*sizes, 1) if number < min(size, len(run["wanted"])))
        return Narrowed(cursor={**cursor, RUN: {**run, "named_size": smaller}})
    failures = run.get("named_failures", 0) + 1
    is_many = failures >= NAMED_FAILURES_MAX
    first, others = run["wanted"][:1], run["wanted"][1:]
    moved = {**run, "wanted": [] if is_many else others, "named_failures": failures}
    lasting, bad = set_aside({**cursor, RUN: moved}, first, kind, reason, now)
    if is_many:
        lasting, _ = set_aside(lasting, others, kind, reason, now)
    return Narrowed(cursor=lasting, unreadable=bad)


def named_read(cursor: Cursor, count: int = 1) -> dict[str, Any]:
    """Return the cursor after the first `count` wanted ids were answered."""
    run = cursor[RUN]
    ids = run["wanted"][:count]
    moved = {name: value for name, value in run.items() if name != "named_failures"}
    aside = {id_: entry for id_, entry in cursor.get(ASIDE, {}).items() if id_ not in ids}
    lasting = {name: value for name, value in cursor.items() if name != ASIDE}
    if aside:
        lasting[ASIDE] = aside
    return {**lasting, RUN: {**moved, "wanted": run["wanted"][count:]}}


def _state(size: int) -> dict[str, Any]:
    return {"size": size, "skip": 0, "is_check": False, "left": 0}


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
