"""Narrow down a page of a shop's list, which goes on at a cursor.

A row that fails alone is passed by its cursor, which a request for ids (or, if that fails too, for
cursors only) brings. If its id is known, it is tried again by name, ever more seldom.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.core.accounts.narrowing import (
    NARROW,
    PROBES_MAX,
    Conclusion,
    Narrowed,
    after_failure,
    after_probe,
    has_named_failures,
    is_probe,
    narrow_named,
    page_size,
    set_aside,
    skipped_rows,
    unnamed_row,
)
from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep
from headway.core.accounts.warehouse import Unreadable
from headway.providers.shopify.read_queries import PAGE_SIZES

# The ids and cursors of the rows at the place of a list that fails.
PEEK = "peek"
# How many of a kind one call may name; what fails is asked for in smaller sizes.
NAMED_SIZES = {"orders": (50, 10, 1), "products": (50, 10, 1), "customers": (250, 50, 10, 1)}
KINDS = {
    "orders": "orders",
    "products": "listings",
    "variants": "listings",
    "customers": "customers",
    "all_customers": "customers",
}
Run = Mapping[str, Any]


def ask_list(what: str, run: Run, values: Mapping[str, Any]) -> PageRequest:
    """Return the request for the next page, or for what helps to narrow down one that fails."""
    if NARROW not in run:
        return PageRequest(what=what, values=values)
    skip, rows = skipped_rows(run), run.get(PEEK)
    if skip and rows is None:
        peek = {**values, "list": what, "first": PROBES_MAX, "has_ids": skip == 1}
        return PageRequest(what=PEEK, values=peek)
    if skip and rows:
        values = {**values, "after": rows[min(skip, len(rows)) - 1][1]}
    return PageRequest(what=what, values={**values, "first": page_size(run, PAGE_SIZES[what])})


def answered_probe(cursor: Cursor, what: str, page: Page) -> PageStep | None:
    """Return the step after a request that only helped to narrow down; None after a page."""
    run = cursor[RUN]
    if not is_probe(run):
        return None
    if PEEK not in run:
        first_behind = {**run[NARROW], "skip": 1}
        moved = {**run, NARROW: first_behind, PEEK: json.loads(page.next or "[]")}
    else:
        moved = after_probe(run, PAGE_SIZES[what], page.ids)
    return PageStep(cursor={**cursor, RUN: moved}, is_progress=False)


def narrow_list(cursor: Cursor, what: str, reason: str, now: datetime) -> Narrowed:
    """Return the cursor after a page failed: fewer rows, or past the one row that fails."""
    former = cursor[RUN]
    run, conclusion = after_failure(former, PAGE_SIZES[what])
    rows: Sequence[Sequence[str]] = former.get(PEEK) or ()
    if conclusion is Conclusion.ASK_LESS:
        return Narrowed(cursor={**cursor, RUN: run})
    moved = without_peek(run)
    if conclusion is Conclusion.UNCLEAR or not rows:
        return Narrowed(cursor={**cursor, RUN: moved}, is_failure=True)
    (name, after), kind = rows[0], KINDS[what]
    passed = {**cursor, RUN: {**moved, "after": after, "is_clear": False}}
    if not name:
        return Narrowed(cursor=passed, unreadable=(unnamed_row(former, kind, reason),))
    if what not in NAMED_SIZES:
        bad = Unreadable(kind=kind, external_id=name, reason=reason, raw={})
        return Narrowed(cursor=passed, unreadable=(bad,))
    lasting, unreadable = set_aside(passed, [name], kind, reason, now)
    return Narrowed(cursor=lasting, unreadable=unreadable)


def narrow_rows(cursor: Cursor, noun: str, reason: str, now: datetime) -> Narrowed | None:
    """Return the cursor after a read by name failed; None if there was none, or too many failed.

    A row that did not fit on its page is set aside too: it is read by name later.
    """
    run, kind = cursor[RUN], KINDS[noun]
    if run["wanted"]:
        return narrow_named(cursor, kind, reason, now, sizes=NAMED_SIZES[noun])
    if not run["cut"] or has_named_failures(run):
        return None
    [own, _], *others = run["cut"]
    return narrow_named({**cursor, RUN: {**run, "wanted": [own], "cut": others}}, kind, reason, now)


def without_peek(run: Run) -> dict[str, Any]:
    """Return the run without what was learned of a place that it has left."""
    return {name: value for name, value in run.items() if name != PEEK}
