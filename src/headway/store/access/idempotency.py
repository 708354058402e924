"""Requests with an Idempotency-Key: a request that is sent twice is executed once.

A request begins by taking the key under a lease, and ends by leaving its answer there. One that
crashed can be tried again once its lease is over; an answer is kept for a day.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headway.store.pool import guarded
from headway.store.queries import Queries

LEASE = timedelta(minutes=2)
KEPT = timedelta(days=1)
FORGOTTEN_AT_ONCE = 100

BEGIN = """
INSERT INTO idempotency AS row (principal, key, fingerprint, owner, lease_until, created_at)
VALUES (%(principal)s, %(key)s, %(fingerprint)s, %(owner)s, %(lease_until)s, %(now)s)
ON CONFLICT (principal, key) DO UPDATE SET owner = excluded.owner, state = 'begun',
  fingerprint = excluded.fingerprint, lease_until = excluded.lease_until, status = NULL,
  content_type = NULL, body = NULL, created_at = excluded.created_at
WHERE row.created_at <= %(forgotten)s OR row.state = 'begun' AND row.lease_until <= %(now)s
  AND row.fingerprint = excluded.fingerprint
RETURNING true
"""
FIND = """
SELECT fingerprint, state, lease_until, status, content_type, body FROM idempotency
WHERE principal = %(principal)s AND key = %(key)s
"""
FINISH = """
UPDATE idempotency SET state = 'done', status = %(status)s, content_type = %(content_type)s,
  body = %(body)s
WHERE principal = %(principal)s AND key = %(key)s AND owner = %(owner)s AND state = 'begun'
"""
RELEASE = """
DELETE FROM idempotency
WHERE principal = %(principal)s AND key = %(key)s AND owner = %(owner)s AND state = 'begun'
"""
FORGET = """
DELETE FROM idempotency WHERE (principal, key) IN (
  SELECT principal, key FROM idempotency WHERE created_at <= %(forgotten)s
  ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """One request with a key; `owner` distinguishes its attempts."""

    principal: str
    key: str
    fingerprint: bytes = field(repr=False)
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """The stored response."""

    status: int
    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBegun:
    """The key was taken: execute the request, then finish or release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReused:
    """Another request was sent under the same key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInProgress:
    """The same request is being executed; it ends by then, one way or the other."""

    until: datetime


class Idempotency(Queries):
    """Table `idempotency`."""

    def begin(
        self, request: IdempotentRequest, *, now: datetime
    ) -> RequestBegun | StoredResponse | KeyReused | RequestInProgress:
        """Take the key for this request, or return the state of the request that has it."""
        values = {
            **_named(request),
            "fingerprint": request.fingerprint,
            "now": now,
            "lease_until": now + LEASE,
            "forgotten": now - KEPT,
            "limit": FORGOTTEN_AT_ONCE,
        }
        with guarded(), self._pool.connection() as connection:
            connection.execute(FORGET, values)
            if connection.execute(BEGIN, values).fetchone() is not None:
                return RequestBegun()
            row = connection.execute(FIND, values).fetchone()
        if row is None:  # released between the two; the next attempt finds it free
            return RequestInProgress(until=now)
        fingerprint, state, lease_until, status, content_type, body = row
        if bytes(fingerprint) != request.fingerprint:
            return KeyReused()
        if state == "begun":
            return RequestInProgress(until=lease_until)
        return StoredResponse(status=status, content_type=content_type or "", body=bytes(body))

    def finish(self, request: IdempotentRequest, answer: StoredResponse) -> None:
        """Store the response for repeated requests; an attempt that lost its lease stores none."""
        values = {
            **_named(request),
            "status": answer.status,
            "content_type": answer.content_type,
            "body": answer.body,
        }
        self._write(FINISH, values)

    def release(self, request: IdempotentRequest) -> None:
        """Release the key: nothing was done, so the request may be repeated."""
        self._write(RELEASE, _named(request))


def _named(request: IdempotentRequest) -> dict[str, object]:
    return {"principal": request.principal, "key": request.key, "owner": request.owner}
