"""Paging by offset over rows that move: read a little twice, and look whether it is still there.

A row that leaves the part already read pulls an unread one into it. So a page begins a few rows
before the last one ended, and must hold one of them; if it does not, the walk steps back.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.core.accounts.narrowing import grown, page_size, skipped_rows
from headway.core.accounts.pagination import Page
from headway.core.accounts.unreadable_rows import after_rows

PAGE_ROWS = 100
# Sizes of a page, each a divisor of the one before: what fails is asked for in smaller ones.
PAGE_SIZES = (PAGE_ROWS, 25, 5, 1)
# So many rows may leave between two pages before a step back is needed.
TAIL_ROWS = 10


def seconds(instant: datetime) -> int:
    """Return the whole second of an instant."""
    return int(instant.timestamp())


def place_of(run: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the values of a request that say which rows of the list are asked for."""
    return {
        "limit": page_size(run, PAGE_SIZES),
        "offset": run["offset"] + skipped_rows(run),
    }


def taken(run: Mapping[str, Any], page: Page) -> tuple[int, dict[str, Any]]:
    """Return the size that a page was asked for in, and the run after it."""
    return page_size(run, PAGE_SIZES), after_rows(grown(run, PAGE_SIZES, len(page.ids)), page)


def has_more(page: Page, offset: int, size: int = PAGE_ROWS) -> bool:
    """Return True if rows follow this page, which was asked for in this size."""
    if page.total is None:
        return len(page.ids) >= size
    return bool(page.ids) and offset + len(page.ids) < page.total


def is_torn(tail: Collection[str], ids: Collection[str]) -> bool:
    """Return True if rows may have slipped by between these and the page before."""
    return bool(tail) and set(tail).isdisjoint(ids)


def step_back(offset: int, tail: Sequence[str]) -> Mapping[str, Any]:
    """Look for the end of the page before, further up; from the very first row nothing is lost."""
    offset = max(0, offset - (PAGE_ROWS - TAIL_ROWS))
    return {"offset": offset, "tail": list(tail) if offset else []}


def step_on(offset: int, ids: Sequence[str]) -> Mapping[str, Any]:
    """Read on, so that the next page repeats the end of this one."""
    repeated = TAIL_ROWS if len(ids) > TAIL_ROWS else 0
    tail = list(ids[-TAIL_ROWS:]) if repeated else []
    return {"offset": offset + len(ids) - repeated, "tail": tail}
