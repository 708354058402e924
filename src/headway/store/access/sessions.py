"""Browser sessions: who is logged in by a key or a link, since when, from where.

A session's secret is in its cookie, and kept as a digest. It ends by itself in time, with its key,
by its own browser, or by an operator; the last three are events.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from headway.clock import Clock, fresh_id, fresh_secret
from headway.core.access import AccessGrant, Principal, Role
from headway.core.catalog.listings import SellerId
from headway.store.access.secrets import SECRET_CHARS, USE_WRITTEN, add_event, digest, granted
from headway.store.pool import Pool, guarded
from headway.store.queries import Queries, read_as

LOGGED_OUT, ENDED, KEY_REVOKED = "logged out", "ended by an operator", "its key was revoked"
COLUMNS = """session.id::text, session.name, session.role, session.user_id AS seller,
  (SELECT prefix FROM access_keys WHERE access_keys.id = session.key_id) AS prefix,
  session.address,
  session.created_at, session.last_seen_at, session.expires_at"""
ADD = f"""
INSERT INTO sessions AS session
  (id, hash, key_id, name, role, user_id, address, created_at, expires_at, last_seen_at)
VALUES (%(id)s, %(hash)s, %(key_id)s, %(name)s, %(role)s, %(user_id)s, %(address)s, %(now)s,
  %(expires_at)s, %(now)s)
RETURNING {COLUMNS}
"""
LIVE = """session.expires_at > %(now)s AND (session.key_id IS NULL OR EXISTS (
  SELECT FROM access_keys AS key WHERE key.id = session.key_id AND key.revoked_at IS NULL
    AND (key.expires_at IS NULL OR key.expires_at > %(now)s)))"""
FIND = f"""
SELECT session.id::text, session.name, session.role, session.user_id, session.key_id::text,
  session.hash, session.last_seen_at,
  (SELECT profile.user_id FROM profiles AS profile WHERE profile.user_id = session.acting_as
   AND profile.main_seller = session.user_id)
FROM sessions AS session WHERE session.hash = %(hash)s AND {LIVE}
"""
SEE = "UPDATE sessions SET last_seen_at = %(now)s WHERE id = %(id)s AND last_seen_at <= %(before)s"
ACT_AS = f"UPDATE sessions AS session SET acting_as = %(seller)s WHERE hash = %(hash)s AND {LIVE}"
ALL = f"SELECT {COLUMNS} FROM sessions AS session WHERE {LIVE} ORDER BY session.last_seen_at DESC"
END = f"DELETE FROM sessions AS session WHERE {{which}} AND {LIVE} RETURNING {COLUMNS}"
END_MINE = END.format(which="hash = %(hash)s")
END_ONE = END.format(which="id::text = %(id)s")
END_NAMED = END.format(which="name = %(name)s")
# The key is revoked in the same transaction, so its sessions no longer count as valid.
END_OF_KEY = f"DELETE FROM sessions AS session WHERE key_id = %(key_id)s RETURNING {COLUMNS}"
FORGET = "DELETE FROM sessions WHERE expires_at <= %(now)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A browser that is logged in; `prefix` is its key's beginning, None if it came by a link."""

    id: str
    """The session's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    name: str
    """The name of its key or link. Example: `ada`"""
    role: Role
    seller: SellerId | None
    """The seller it belongs to; null if it belongs to none. Example: `acme`"""
    prefix: str | None
    """How its key begins; null if it came by a link. Example: `hw_1f0c9a2b`"""
    address: str
    """The address it was last used from. Example: `192.0.2.7`"""
    created_at: datetime
    last_seen_at: datetime
    """When it was last used."""
    expires_at: datetime


class Sessions(Queries):
    """Table `sessions`; `clock` dates the events, else it is the instant that a verb is given."""

    def __init__(self, pool: Pool, *, clock: Clock | None = None) -> None:
        super().__init__(pool)
        self._clock = clock

    def begin(
        self,
        grantee: Principal | AccessGrant,
        *,
        expires_at: datetime,
        now: datetime,
        address: str = "",
    ) -> str:
        """Log a browser in; return the secret that its cookie holds."""
        secret = fresh_secret()
        key_id = grantee.key_id if isinstance(grantee, Principal) else None
        values = {**granted(grantee), "id": fresh_id(), "hash": digest(secret), "key_id": key_id}
        values |= {"expires_at": expires_at, "now": now, "address": address}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(FORGET, values)
            (begun,) = read_as(connection, BrowserSession, ADD, values)
            facts = {**_facts(begun), "expires_at": expires_at}
            seller, at = begun.seller, self._at(now)
            add_event(connection, "session_begun", facts, seller=seller, at=at, actor=begun.name)
        return secret

    def find(self, secret: str, *, now: datetime) -> Principal | None:
        """Return who is logged in with this cookie; None if the session is unknown or expired."""
        if len(secret) != SECRET_CHARS:
            return None
        before = now - USE_WRITTEN
        values = {"hash": digest(secret), "now": now, "before": before}
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(FIND, values).fetchone()
            if row is None or not hmac.compare_digest(bytes(row[5]), digest(secret)):
                return None
            id_, name, role, user_id, key_id, _, seen_at, acting_as = row
            if seen_at <= before:
                connection.execute(SEE, {**values, "id": id_})
        principal = Principal(
            id=f"session:{id_}", name=name, role=Role(role), seller=user_id, key_id=key_id
        )
        return principal if acting_as is None else principal.acting_as(acting_as)

    def act_as(self, secret: str, seller: SellerId | None, *, now: datetime) -> None:
        """Let a browser show another shop of its owner; None for the seller's own."""
        self._write(ACT_AS, {"hash": digest(secret), "seller": seller, "now": now})

    def live(self, *, now: datetime) -> list[BrowserSession]:
        """Return every valid session, last used first."""
        return self._read(BrowserSession, ALL, {"now": now})

    def log_out(self, secret: str, *, now: datetime) -> None:
        """End the session of a browser that logs out."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            values = {"hash": digest(secret), "now": now}
            ended = read_as(connection, BrowserSession, END_MINE, values)
            _add_end_events(connection, ended, LOGGED_OUT, at=self._at(now), is_own=True)

    def end(self, id_: str, *, now: datetime) -> BrowserSession | None:
        """End one session; None if there is no valid one."""
        return next(iter(self._end(END_ONE, {"id": id_, "now": now}, now)), None)

    def end_named(self, name: str, *, now: datetime) -> list[BrowserSession]:
        """End all sessions of a person, by the name that the audit log shows."""
        return self._end(END_NAMED, {"name": name, "now": now}, now)

    def _end(
        self, statement: str, values: Mapping[str, Any], now: datetime
    ) -> list[BrowserSession]:
        with guarded(), self._pool.connection() as connection, connection.transaction():
            ended = read_as(connection, BrowserSession, statement, values)
            _add_end_events(connection, ended, ENDED, at=self._at(now))
        return ended

    def _at(self, now: datetime) -> datetime:
        return now if self._clock is None else self._clock.now()


def end_of_key(connection: Connection[TupleRow], key_id: str, *, at: datetime) -> None:
    """End the sessions of a key, in the transaction in which it is revoked."""
    ended = read_as(connection, BrowserSession, END_OF_KEY, {"key_id": key_id})
    _add_end_events(connection, ended, KEY_REVOKED, at=at)


def _add_end_events(
    connection: Connection[TupleRow],
    ended: Sequence[BrowserSession],
    why: str,
    *,
    at: datetime,
    is_own: bool = False,
) -> None:
    for session in ended:
        add_event(
            connection,
            "session_ended",
            {**_facts(session), "why": why},
            seller=session.seller,
            at=at,
            actor=session.name if is_own else None,
        )


def _facts(session: BrowserSession) -> dict[str, Any]:
    """Return the details of a session for its event."""
    facts = asdict(session)
    return {
        "session": session.id,
        **{name: facts[name] for name in ("name", "role", "address")},
        "by": "a link" if session.prefix is None else f"key {session.prefix}",
    }
