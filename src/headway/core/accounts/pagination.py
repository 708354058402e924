"""How a job finds everything that is new at a platform: a walk, one page at a time, as a value.

A walk decides what to ask next from its cursor alone, and what a page makes of the cursor. The
cursor is JSON, stored with the page in one transaction: a walk that was cut off anywhere goes on
there. What lasts between runs stands at its top; the run under way is in `cursor["run"]`, and is
gone once the run is done. A connector turns an `Ask` into one request and its answer into a `Page`.

What was there when an account was connected is a backfill's to read, whenever that begins. What
came later is for the walk of what is new, though its first run may be weeks late: the cursor of a
first run says `since` when, and it looks a little farther back than that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from headway.core.accounts.warehouse import Records

Cursor = Mapping[str, Any]
RUN = "run"
SINCE = "since"


def begun_since(cursor: Cursor, now: datetime) -> datetime:
    """Return since when a first run must know everything: now, unless the cursor says earlier."""
    since = cursor.get(SINCE)
    return now if since is None else min(now, datetime.fromisoformat(since))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """One request to be made: of what, and with which values (scalars and lists of them)."""

    what: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What came back: the records, and what the walk needs to know of their order.

    `ids` and `stamps` are of the rows as they stood on the page, unreadable ones too where they can
    be told; `stamps` by the time that the walk sorts by. `next` is the platform's own way to the
    next page. `missing` are ids that were asked for and are not there. `cut` are ids of rows that
    did not fit on the page: they are asked for by themselves.
    """

    records: Records = field(default_factory=Records)
    ids: tuple[str, ...] = ()
    stamps: tuple[datetime, ...] = ()
    total: int | None = None
    next: str | None = None
    missing: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStep:
    """What a page made of the cursor; the run is over once `is_done`.

    `gone_since` ends a whole walk of listings: those not seen since then are no longer there.
    `horizon_at` is from when on the platform shows orders, where it said so.
    """

    cursor: Cursor
    is_done: bool = False
    gone_since: datetime | None = None
    horizon_at: datetime | None = None


class Paginator(Protocol):
    """One way to find what is new of one kind at one platform. Pure: all it knows is given."""

    @property
    def recheck_after(self) -> timedelta | None:
        """How old the last look at an open order may be; None if the walk sees to that itself."""

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Begin a run, or go on with the one under way: `wanted` ids are read first."""

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return what to ask next in the run under way."""

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Take the page that answered the last ask."""
