"""Limits and the call ledger, for operators."""

from dataclasses import dataclass
from datetime import datetime

from headway.store import cursors
from headway.store.queries import Queries

KEYS = """
SELECT limit_key FROM limiter WHERE %(after)s::text IS NULL OR limit_key > %(after)s
ORDER BY limit_key LIMIT %(limit)s
"""
# A permit that waits is in its limiter's state; one that has begun is in the ledger too.
KEY_OF_PERMIT = """
SELECT limit_key FROM limiter
WHERE state -> 'waiting' @> jsonb_build_array(
  jsonb_build_object('id', %(permit_id)s::text, 'owner', %(owner)s::text))
UNION
SELECT limit_key FROM call_ledger
WHERE permit_id = %(permit_id)s::uuid AND owner = %(owner)s
"""
CALLS = """
SELECT permit_id::text, purpose, owner, cost, begun_at, finished_at, arrived_by, status,
  coalesce(result, '') AS result, http_status, seats_paid, coalesce(skus, '{}') AS skus
FROM call_ledger
WHERE limit_key = %(limit_key)s AND (%(since)s::timestamptz IS NULL OR begun_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR begun_at < %(until)s)
  AND (%(at)s::timestamptz IS NULL OR (begun_at, permit_id::text) < (%(at)s, %(after)s))
ORDER BY begun_at DESC, permit_id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One call of the ledger with its outcome; `skus` are its seats."""

    permit_id: str
    """The id of the call's permit. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    purpose: str
    """What the call was for. Example: `fetch`"""
    owner: str
    """The process that made it. Example: `worker-1`"""
    cost: float
    """What it used of the limit."""
    begun_at: datetime
    """When it was permitted."""
    finished_at: datetime | None
    """When it ended; null while it is under way."""
    arrived_by: datetime | None
    """When it had reached the provider at the latest; null while that is unknown."""
    status: str
    """Whether the permit is open or settled. Example: `settled`"""
    result: str
    """How it ended, in a word. Example: `ok`"""
    http_status: int | None
    """The HTTP status of the reply; null if there was none. Example: `200`"""
    seats_paid: int | None
    """Parts that the call had room for; null for a call without parts."""
    skus: tuple[str, ...]
    """The parts in the call. Example: `["WF338109=K3"]`"""

    @property
    def cursor(self) -> str:
        """The cursor of the page after this item."""
        return cursors.encode(self.begun_at, self.permit_id)


class LimitQueries(Queries):
    """Queries on `limiter` and `call_ledger`."""

    def keys(self, *, limit: int, after: str | None = None) -> list[str]:
        """Return limit keys in order, after a given one."""
        return [key for (key,) in self._rows(KEYS, {"after": after, "limit": limit})]

    def key_of_permit(self, permit_id: str, *, owner: str) -> str | None:
        """Return the limit key of a permit; None if this owner holds no such permit."""
        row = self._first(KEY_OF_PERMIT, {"permit_id": permit_id, "owner": owner})
        return None if row is None else str(row[0])

    def ledger(
        self,
        key: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> list[LedgerEntry]:
        """Return the calls of one limit, the newest first, from a cursor on."""
        at, permit_id = (None, None) if cursor is None else cursors.decode(cursor, datetime, str)
        values = {
            "limit_key": key,
            "since": since,
            "until": until,
            "at": at,
            "after": permit_id,
            "limit": limit,
        }
        return self._read(LedgerEntry, CALLS, values)
