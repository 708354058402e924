"""Who may come in: keys, sessions of browsers, links that work once, and the count of wrong tries.

Keys, session ids and links are random, and kept as SHA-256 digests: a digest is found by the index,
so how long a look takes says nothing of how near a guess was. Instants are a
person's, never those of a demo's faster clock.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.errors import UniqueViolation

from headway.clock import fresh_id, fresh_secret
from headway.core.access import Principal, Role
from headway.core.model import SellerId
from headway.errors import ConflictError, TooManyError
from headway.store.pool import Pool, guarded

MARK = "hw_"
PREFIX_CHARS = len(MARK) + 8
SECRET_CHARS = 64
# A link is typed and shown in narrow places, and works once: 128 bits are enough.
LINK_CHARS = 32
TRIES_MAX = 10
TRIES_SPAN = timedelta(minutes=15)
# A last use is written at most that often: a key is used far more often than anybody looks.
USE_WRITTEN = timedelta(minutes=1)

KEY_COLUMNS = """id::text, name, prefix, role, user_id, created_at, expires_at, last_used_at,
  revoked_at"""
ADD_KEY = """
INSERT INTO access_keys (id, name, prefix, hash, role, user_id, created_at, expires_at)
VALUES (%(id)s, %(name)s, %(prefix)s, %(hash)s, %(role)s, %(user_id)s, %(now)s, %(expires_at)s)
"""
KEYS = f"SELECT {KEY_COLUMNS} FROM access_keys ORDER BY revoked_at IS NOT NULL, name, created_at"
FIND_KEY = """
SELECT id::text, name, role, user_id, hash, last_used_at FROM access_keys
WHERE hash = %(hash)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %(now)s)
"""
USE_KEY = """
UPDATE access_keys SET last_used_at = %(now)s
WHERE id = %(id)s AND (last_used_at IS NULL OR last_used_at <= %(before)s)
"""
REVOKE = f"""
UPDATE access_keys SET revoked_at = %(now)s
WHERE (id::text = %(which)s OR name = %(which)s OR prefix = %(which)s) AND revoked_at IS NULL
RETURNING {KEY_COLUMNS}
"""
ADD_LINK = """
INSERT INTO login_links (hash, name, role, user_id, created_at, expires_at)
VALUES (%(hash)s, %(name)s, %(role)s, %(user_id)s, %(now)s, %(expires_at)s)
"""
TAKE_LINK = """
DELETE FROM login_links WHERE hash = %(hash)s AND expires_at > %(now)s
RETURNING name, role, user_id
"""
FORGET_LINKS = "DELETE FROM login_links WHERE expires_at <= %(now)s"
ADD_SESSION = """
INSERT INTO sessions (id, hash, key_id, name, role, user_id, created_at, expires_at, last_seen_at)
VALUES (%(id)s, %(hash)s, %(key_id)s, %(name)s, %(role)s, %(user_id)s, %(now)s, %(expires_at)s,
  %(now)s)
"""
FIND_SESSION = """
SELECT session.id::text, session.name, session.role, session.user_id, session.hash,
  session.last_seen_at
FROM sessions AS session LEFT JOIN access_keys AS key ON key.id = session.key_id
WHERE session.hash = %(hash)s AND session.expires_at > %(now)s AND (session.key_id IS NULL
  OR key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > %(now)s))
"""
SEE_SESSION = """
UPDATE sessions SET last_seen_at = %(now)s WHERE id = %(id)s AND last_seen_at <= %(before)s
"""
END_SESSION = "DELETE FROM sessions WHERE hash = %(hash)s"
FORGET_SESSIONS = "DELETE FROM sessions WHERE expires_at <= %(now)s"
TRY = """
INSERT INTO login_tries AS row (address, tries, begun_at) VALUES (%(address)s, 1, %(now)s)
ON CONFLICT (address) DO UPDATE SET
  tries = CASE WHEN row.begun_at <= %(before)s THEN 1 ELSE row.tries + 1 END,
  begun_at = CASE WHEN row.begun_at <= %(before)s THEN %(now)s ELSE row.begun_at END
RETURNING tries, begun_at
"""
FORGIVE = "DELETE FROM login_tries WHERE address = %(address)s OR begun_at <= %(before)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as people see it: never the key itself."""

    id: str
    name: str
    prefix: str
    role: Role
    user_id: SellerId | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a key or a link lets its holder be."""

    name: str
    role: Role
    seller: SellerId | None = None
    expires_at: datetime | None = None


class Access:
    """Tables `access_keys`, `sessions`, `login_links` and `login_tries`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add_key(self, grant: Grant, *, now: datetime) -> tuple[Key, str]:
        """Make a key; return how people see it, and the key, which is nowhere afterwards."""
        secret = MARK + fresh_secret()
        values = {**_granted(grant), "id": fresh_id(), "hash": digest(secret), "now": now}
        values |= {"prefix": secret[:PREFIX_CHARS], "expires_at": grant.expires_at}
        try:
            with guarded(), self._pool.connection() as connection:
                connection.execute(ADD_KEY, values)
        except Exception as error:
            if isinstance(error.__cause__, UniqueViolation):
                told = f"there is a key named {grant.name}; revoke it, or choose another name"
                raise ConflictError(told) from None
            raise
        return next(each for each in self.all_keys() if each.id == values["id"]), secret

    def all_keys(self) -> list[Key]:
        """Return every key, those that were revoked last."""
        with guarded(), self._pool.connection() as connection:
            return _keys(connection.execute(KEYS).fetchall())

    def has_operator(self, *, now: datetime) -> bool:
        """Return whether any operator has a key that works."""
        return any(
            each.role is Role.OPERATOR
            and each.revoked_at is None
            and (each.expires_at is None or each.expires_at > now)
            for each in self.all_keys()
        )

    def revoke_key(self, which: str, *, now: datetime) -> Key | None:
        """Let a key named by its name, prefix or id open nothing; None if there is none."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(REVOKE, {"which": which, "now": now}).fetchall()
        return _keys(rows)[0] if rows else None

    def find_key(self, secret: str, *, now: datetime) -> Principal | None:
        """Return whom a key stands for, and write down its use; None if it opens nothing."""
        if len(secret) != len(MARK) + SECRET_CHARS or not secret.startswith(MARK):
            return None
        values = {"hash": digest(secret), "now": now, "before": now - USE_WRITTEN}
        return self._found(FIND_KEY, USE_KEY, values, kind="key")

    def add_link(self, grant: Grant, *, expires_at: datetime, now: datetime) -> str:
        """Make a link's secret, which lets one browser in, once."""
        secret = fresh_secret()[:LINK_CHARS]
        values = {**_granted(grant), "hash": digest(secret), "expires_at": expires_at, "now": now}
        with guarded(), self._pool.connection() as connection:
            connection.execute(FORGET_LINKS, values)
            connection.execute(ADD_LINK, values)
        return secret

    def take_link(self, secret: str, *, now: datetime) -> Grant | None:
        """Return what a link grants, and use it up; None if it is unknown, used or too old."""
        with guarded(), self._pool.connection() as connection:
            values = {"hash": digest(secret), "now": now}
            row = connection.execute(TAKE_LINK, values).fetchone()
        if row is None:
            return None
        name, role, user_id = row
        return Grant(name=name, role=Role(role), seller=user_id)

    def begin_session(self, who: Principal | Grant, *, expires_at: datetime, now: datetime) -> str:
        """Log a browser in; return the secret that its cookie holds."""
        secret = fresh_secret()
        key_id = who.id.removeprefix("key:") if isinstance(who, Principal) else None
        values = {**_granted(who), "id": fresh_id(), "hash": digest(secret), "key_id": key_id}
        values |= {"expires_at": expires_at, "now": now}
        with guarded(), self._pool.connection() as connection:
            connection.execute(FORGET_SESSIONS, values)
            connection.execute(ADD_SESSION, values)
        return secret

    def find_session(self, secret: str, *, now: datetime) -> Principal | None:
        """Return who is logged in with this cookie; None if nobody is, or not any more."""
        if len(secret) != SECRET_CHARS:
            return None
        values = {"hash": digest(secret), "now": now, "before": now - USE_WRITTEN}
        return self._found(FIND_SESSION, SEE_SESSION, values, kind="session")

    def end_session(self, secret: str) -> None:
        """Log a browser out."""
        with guarded(), self._pool.connection() as connection:
            connection.execute(END_SESSION, {"hash": digest(secret)})

    def count_try(self, address: str, *, now: datetime) -> None:
        """Count a login before it is looked at; raises TooManyError after too many wrong ones."""
        values = {"address": address, "now": now, "before": now - TRIES_SPAN}
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(TRY, values).fetchone()
        assert row is not None, "the statement always answers"
        tries, begun_at = row
        if tries > TRIES_MAX:
            wait_s = max(1.0, (begun_at + TRIES_SPAN - now).total_seconds())
            raise TooManyError(
                f"too many wrong logins from this address; try again in {_minutes(wait_s)}",
                retry_after_s=wait_s,
            )

    def forgive(self, address: str, *, now: datetime) -> None:
        """Forget the wrong tries of an address that has logged in, and all that are long over."""
        values = {"address": address, "before": now - TRIES_SPAN}
        with guarded(), self._pool.connection() as connection:
            connection.execute(FORGIVE, values)

    def _found(self, find: str, use: str, values: dict[str, Any], *, kind: str) -> Principal | None:
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(find, values).fetchone()
            if row is None or not hmac.compare_digest(bytes(row[4]), values["hash"]):
                return None
            id_, name, role, user_id, _, used_at = row
            if used_at is None or used_at <= values["before"]:
                connection.execute(use, {**values, "id": id_})
        return Principal(id=f"{kind}:{id_}", name=name, role=Role(role), seller=user_id)


def digest(secret: str) -> bytes:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _granted(who: Principal | Grant) -> dict[str, Any]:
    return {"name": who.name, "role": who.role, "user_id": who.seller}


def _keys(rows: Sequence[Sequence[Any]]) -> list[Key]:
    told = [dict(zip(Key.__dataclass_fields__, row, strict=True)) for row in rows]
    return [Key(**{**one, "role": Role(one["role"])}) for one in told]


def _minutes(wait_s: float) -> str:
    minutes = max(1, round(wait_s / 60))
    return "a minute" if minutes == 1 else f"{minutes} minutes"
