"""The history of a listing: its events, prices and stock over time, its latest reads.

A page is a short range of an index. An export goes through any number of events in chunks, each a
statement of its own, so that it holds neither memory nor a transaction, however slow its reader.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from headway.core.catalog.listings import LimitKey, SellerId, Sku
from headway.core.catalog.price_history import (
    OBSERVATIONS,
    SHOWN,
    SeriesPoint,
    price_series,
    thin,
)
from headway.errors import InvalidError
from headway.store import cursors
from headway.store.pool import Pool, guarded
from headway.store.queries import Queries
from headway.store.status import CALL_COLUMNS, RecentCall

LIMIT = 50
LIMIT_MAX = 200
CHUNK = 1000
EVENTS_MAX = 5000
POINTS_MAX = 500
# Every listing is read once a day, and a supplier is called at most so often in two.
READS_AGO = timedelta(days=2)
CALLS_MAX = 6000
READS_SHOWN = 10

COLUMNS = """id::text, sync_timestamp AS at, user_id AS seller, sku, job_id::text,
  event_type AS kind, old_value AS old, new_value AS new, coalesce(error_message, '') AS error,
  actor, batch_id::text AS call_id"""
PAGE = f"""
SELECT {COLUMNS} FROM sync_audit_log WHERE sku = %(sku)s {{more}}
ORDER BY sync_timestamp DESC, sync_audit_log.id DESC LIMIT %(rows)s
"""
KINDS = """
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'audit_event_type_check'
"""
# Where each read is recorded, they would hide what changed.
NO_READS = " AND event_type NOT IN ('sync_started', 'sync_completed')"
# The kinds are filtered within one chunk of rows: rare ones must not make a statement slow.
SOME = f"""
SELECT {COLUMNS} FROM (SELECT * FROM sync_audit_log WHERE true {{more}}
  ORDER BY sync_timestamp, id LIMIT %(rows)s) AS chunk
ORDER BY sync_timestamp, chunk.id
"""
CHANGES = """
SELECT sync_timestamp, event_type, new_value FROM sync_audit_log
WHERE sku = %(sku)s AND user_id = %(seller)s AND event_type = ANY(%(kinds)s)
  AND sync_timestamp >= %(since)s
ORDER BY sync_timestamp DESC, id DESC LIMIT %(most)s
"""
BEFORE = """
SELECT last.sync_timestamp, last.event_type, last.new_value
FROM unnest(%(kinds)s::text[]) AS requested(kind) CROSS JOIN LATERAL (
  SELECT sync_timestamp, event_type, new_value, id FROM sync_audit_log
  WHERE sku = %(sku)s AND user_id = %(seller)s AND event_type = requested.kind
    AND sync_timestamp < %(since)s
  ORDER BY sync_timestamp DESC, id DESC LIMIT 1) AS last
ORDER BY last.sync_timestamp, last.id
"""
READS = f"""
SELECT {CALL_COLUMNS}
FROM unnest(%(keys)s::text[]) AS requested(limit_key)
CROSS JOIN LATERAL (SELECT * FROM call_ledger
      WHERE limit_key = requested.limit_key AND begun_at <= %(now)s AND begun_at > %(since)s
      ORDER BY begun_at DESC LIMIT %(calls)s) AS recent
WHERE %(sku)s = ANY(skus) ORDER BY begun_at DESC LIMIT %(rows)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """One event; `actor` is who did it, None for the engine, and `call_id` its call.

    Events of the account lane name a job, or only a seller.
    """

    id: str
    """The event's id. Example: `184`"""
    at: datetime
    """When it happened."""
    seller: SellerId
    sku: Sku | None
    """The part it concerns; null if it concerns none. Example: `WF338109=K3`"""
    job_id: str | None
    """The job it concerns; null if it concerns none.
    Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`
    """
    kind: str
    """What happened; see the reference of events. Example: `price_changed`"""
    old: Mapping[str, Any] | None
    """The values before; null if there are none. Example: `{"price": "118.00"}`"""
    new: Mapping[str, Any] | None
    """The values after; null if there are none. Example: `{"price": "129.90"}`"""
    error: str
    """Why it failed; empty if it did not. Example: `404: no such part`"""
    actor: str | None
    """Who did it; null for Headway itself. Example: `ada`"""
    call_id: str | None
    """The call in which it was observed; null if there was none.
    Example: `0b7f5c1e-2d3a-4c9b-8e6f-1a2b3c4d5e6f`
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """A page of events, newest first, and the cursor of the next; None at the end."""

    items: tuple[HistoryEvent, ...]
    next_cursor: str | None


class HistoryQueries(Queries):
    """Queries on `sync_audit_log` and `call_ledger`, for people."""

    def __init__(self, pool: Pool, *, chunk: int = CHUNK) -> None:
        super().__init__(pool)
        self._chunk = chunk

    def page(
        self,
        sku: Sku,
        *,
        seller: SellerId | None = None,
        cursor: str | None = None,
        limit: int = LIMIT,
        kinds: Collection[str] = (),
    ) -> HistoryPage:
        """Return the next events of a SKU, the newest first; raises InvalidError for a cursor.

        Reads are left out unless their kind is requested.
        """
        limit = max(1, min(limit, LIMIT_MAX))
        more = "" if kinds else NO_READS
        self.check_kinds(kinds)
        query = _EventFilter(seller=seller, kinds=kinds, after=_after(cursor), is_back=True)
        values = {**query.values, "sku": sku, "rows": limit + 1}
        rows = self._read(HistoryEvent, PAGE.format(more=query.where + more), values)
        last = rows[limit - 1] if len(rows) > limit else None
        return HistoryPage(
            items=tuple(rows[:limit]),
            next_cursor=None if last is None else cursors.encode("history", last.at, last.id),
        )

    def series(
        self,
        sku: Sku,
        seller: SellerId,
        since: datetime,
        *,
        points_max: int = POINTS_MAX,
    ) -> tuple[SeriesPoint, ...]:
        """Return price and stock over time, the oldest first, beginning with what was known then.

        If there are more points than requested, the last of each equal span is kept.
        """
        values = {
            "sku": sku,
            "seller": seller,
            "kinds": [*OBSERVATIONS, *SHOWN],
            "most": EVENTS_MAX,
        }
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(CHANGES, {**values, "since": since}).fetchall()[::-1]
            begin = rows[0][0] if len(rows) == EVENTS_MAX else since
            before = connection.execute(BEFORE, {**values, "since": begin}).fetchall()
        return thin(price_series(rows, before=before, begin=begin), points_max)

    def check_kinds(self, kinds: Collection[str]) -> None:
        """Raise InvalidError for a kind of event that there is not."""
        if not kinds:
            return
        known = re.findall(r"'(\w+)'::text", self._one(KINDS, {})[0])
        unknown = next((kind for kind in kinds if kind not in known), None)
        if unknown is not None:
            close = get_close_matches(unknown, known, n=1, cutoff=0)
            raise InvalidError(
                f"kind: there are no events of the kind {unknown}; did you mean {close[0]}?"
            )

    def export(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        seller: SellerId | None = None,
        sku: Sku | None = None,
        kinds: Collection[str] = (),
    ) -> Iterator[HistoryEvent]:
        """Yield every event from `since` until just before `until`, the oldest first."""
        self.check_kinds(kinds)
        query = _EventFilter(seller=seller, sku=sku, since=since, until=until)
        while True:
            values = {**query.values, "rows": self._chunk}
            rows = self._read(HistoryEvent, SOME.format(more=query.where), values)
            yield from (row for row in rows if not kinds or row.kind in kinds)
            if len(rows) < self._chunk:
                return
            query = replace(query, after=(rows[-1].at, rows[-1].id))

    def latest_reads(
        self, sku: Sku, *, keys: Sequence[LimitKey], now: datetime
    ) -> tuple[RecentCall, ...]:
        """Return calls of the last two days to these suppliers that carried this SKU."""
        values = {
            "sku": sku,
            "keys": list(keys),
            "now": now,
            "since": now - READS_AGO,
            "calls": CALLS_MAX,
            "rows": READS_SHOWN,
        }
        return tuple(self._read(RecentCall, READS, values))


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventFilter:
    """Filters on events, as conditions and their values."""

    seller: SellerId | None = None
    sku: Sku | None = None
    since: datetime | None = None
    until: datetime | None = None
    kinds: Collection[str] = ()
    after: tuple[datetime, str] | None = None
    is_back: bool = False

    @property
    def values(self) -> dict[str, Any]:
        """The values of the conditions."""
        at, id_ = self.after or (None, None)
        return {
            "seller": self.seller,
            "sku": self.sku,
            "since": self.since,
            "until": self.until,
            "kinds": list(self.kinds),
            "after_at": at,
            "after_id": id_,
        }

    @property
    def where(self) -> str:
        """The conditions, each with its AND."""
        sign = "<" if self.is_back else ">"
        known = {
            "AND user_id = %(seller)s": self.seller is not None,
            "AND sku = %(sku)s": self.sku is not None,
            "AND sync_timestamp >= %(since)s": self.since is not None,
            "AND sync_timestamp < %(until)s": self.until is not None,
            "AND event_type = ANY(%(kinds)s)": bool(self.kinds),
            f"AND (sync_timestamp, id) {sign} (%(after_at)s, %(after_id)s::uuid)": self.after
            is not None,
        }
        return " ".join(condition for condition, binds in known.items() if binds)


def _after(cursor: str | None) -> tuple[datetime, str] | None:
    """Decode a cursor of the history; raise InvalidError if it is none."""
    if cursor is None:
        return None
    name, at, id_ = cursors.decode(cursor, str, datetime, str)
    try:
        key = str(UUID(id_))
    except ValueError:
        key = ""
    if name != "history" or not key:
        raise InvalidError(cursors.INVALID)
    return at, key
