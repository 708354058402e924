"""How a job finds everything that is new on a platform: a walk, one page at a time, as a value.

A walk decides from its cursor alone what to request next, and how a page changes the cursor. The
cursor is JSON, stored with the page in one transaction: a walk that was cut off anywhere goes on
there. The top level lasts between runs; the current run is in `cursor["run"]`, which is removed
when the run is done. A connector converts an `Ask` to one request and its reply to a `Page`.

A backfill reads what existed when the account was connected, whenever it begins. The incremental
walk reads everything later, even if its first run is weeks late: the cursor of a first run says
`since` when, and the walk starts a little earlier than that.
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
    """Return the start of a first run's period: now, unless the cursor names an earlier time."""
    since = cursor.get(SINCE)
    return now if since is None else min(now, datetime.fromisoformat(since))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """One request to be made: of what, and with which values (scalars and lists of them)."""

    what: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a reply: the records, and what the walk needs to know about their order.

    `ids` and `stamps` are of the rows in page order, including unreadable rows where possible;
    `stamps` is the time that the walk sorts by. `next` is the platform's own reference to the
    next page. `missing` are requested ids that do not exist. `cut` are ids of rows that did not
    fit on the page: they are requested separately. `links` are rows whose order must be asked for:
    the row's id, and the platform's id of what it refers to.
    """

    records: Records = field(default_factory=Records)
    ids: tuple[str, ...] = ()
    stamps: tuple[datetime, ...] = ()
    total: int | None = None
    next: str | None = None
    missing: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStep:
    """The cursor after a page; the run is over once `is_done`.

    `gone_since` ends a complete walk of listings that began then: those not read since were not in
    it. `removals` decides when they are removed. `empty_lists` are the states whose list was empty.
    `horizon_at` is the oldest time for which the platform shows orders, if it reports that.
    `is_progress` unless only ids were read by name: that says nothing of the list, whose failures
    in a row stay counted. `healed` are the names of rows that failed before and were read now.
    """

    cursor: Cursor
    is_done: bool = False
    gone_since: datetime | None = None
    empty_lists: tuple[str, ...] = ()
    horizon_at: datetime | None = None
    is_progress: bool = True
    healed: tuple[str, ...] = ()


class Paginator(Protocol):
    """One way to find what is new of one kind at one platform. Pure: all it knows is given."""

    @property
    def recheck_after(self) -> timedelta | None:
        """Maximum age of the last read of an open order; None if the walk itself ensures it."""

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        """Begin a run, or continue the current one: `wanted` ids are read first."""

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the next request of the current run."""

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        """Return the step after the page that answered the last request."""
