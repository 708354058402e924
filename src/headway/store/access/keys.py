"""API keys, one-time login links, and the count of failed logins.

Keys and links are random, and kept as SHA-256 digests: a digest is found by the index, so how long
a lookup takes reveals nothing about a guess. Instants are real time, never those of a demo's faster
clock; only events use the deployment's clock, as all events do.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from psycopg.errors import UniqueViolation

from headway.clock import Clock, fresh_id, fresh_secret
from headway.core.access import AccessGrant, Principal, Role
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, TooManyError
from headway.store.access.secrets import SECRET_CHARS, USE_WRITTEN, add_event, digest, granted
from headway.store.access.sessions import end_of_key
from headway.store.pool import Pool, guarded
from headway.store.queries import Queries, read_as

MARK = "hw_"
PREFIX_CHARS = len(MARK) + 8
# A link is typed and shown where space is short, and works once: 128 bits are enough.
LINK_CHARS = 32
TRIES_MAX = 10
TRIES_SPAN = timedelta(minutes=15)

KEY_COLUMNS = """id::text, name, prefix, role, user_id AS seller, created_at, expires_at,
  last_used_at, revoked_at"""
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
# The key is identified before anything is changed: a name may look like a prefix.
MEANT = f"""
SELECT {KEY_COLUMNS} FROM access_keys
WHERE (id::text = %(which)s OR name = %(which)s OR prefix = %(which)s) AND revoked_at IS NULL
ORDER BY name FOR UPDATE
"""
REVOKE = "UPDATE access_keys SET revoked_at = %(now)s WHERE id = %(id)s"
ADD_LINK = """
INSERT INTO login_links (hash, name, role, user_id, created_at, expires_at)
VALUES (%(hash)s, %(name)s, %(role)s, %(user_id)s, %(now)s, %(expires_at)s)
"""
TAKE_LINK = """
DELETE FROM login_links WHERE hash = %(hash)s AND expires_at > %(now)s
RETURNING name, role, user_id AS seller
"""
FORGET_LINKS = "DELETE FROM login_links WHERE expires_at <= %(now)s"
TRY = """
INSERT INTO login_attempts AS row (address, attempts, begun_at) VALUES (%(address)s, 1, %(now)s)
ON CONFLICT (address) DO UPDATE SET
  attempts = CASE WHEN row.begun_at <= %(before)s THEN 1 ELSE row.attempts + 1 END,
  begun_at = CASE WHEN row.begun_at <= %(before)s THEN %(now)s ELSE row.begun_at END
RETURNING attempts, begun_at
"""
FORGIVE = "DELETE FROM login_attempts WHERE address = %(address)s OR begun_at <= %(before)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key without its secret."""

    id: str
    """The key's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    name: str
    """The key's name. Example: `acme-app`"""
    prefix: str
    """How the key begins. Example: `hw_1f0c9a2b`"""
    role: Role
    seller: SellerId | None
    """The seller it belongs to; null if it belongs to none. Example: `acme`"""
    created_at: datetime
    expires_at: datetime | None
    """When it expires; null if it does not."""
    last_used_at: datetime | None
    """When it was last used; null if it was not."""
    revoked_at: datetime | None
    """When it was revoked; null if it is valid."""


class ApiKeys(Queries):
    """Tables `access_keys`, `login_links` and `login_attempts`.

    `clock` dates the events; without one it is the instant that a verb is given.
    """

    def __init__(self, pool: Pool, *, clock: Clock | None = None) -> None:
        super().__init__(pool)
        self._clock = clock

    def add_key(self, grant: AccessGrant, *, now: datetime) -> tuple[ApiKey, str]:
        """Create a key; return it with its secret, which is not stored."""
        secret = MARK + fresh_secret()
        values = {**granted(grant), "id": fresh_id(), "hash": digest(secret), "now": now}
        values |= {"prefix": secret[:PREFIX_CHARS], "expires_at": grant.expires_at}
        facts = {name: values[name] for name in ("name", "prefix", "role", "expires_at")}
        try:
            with guarded(), self._pool.connection() as connection, connection.transaction():
                connection.execute(ADD_KEY, values)
                add_event(connection, "key_created", facts, seller=grant.seller, at=self._at(now))
        except Exception as error:
            if isinstance(error.__cause__, UniqueViolation):
                message = f"there is a key named {grant.name}; revoke it, or choose another name"
                raise ConflictError(message) from None
            raise
        return next(key for key in self.all_keys() if key.id == values["id"]), secret

    def all_keys(self) -> list[ApiKey]:
        """Return every key, revoked ones last."""
        return self._read(ApiKey, KEYS)

    def has_operator(self, *, now: datetime) -> bool:
        """Return True if an operator has a valid key."""
        return any(
            key.role is Role.OPERATOR
            and key.revoked_at is None
            and (key.expires_at is None or key.expires_at > now)
            for key in self.all_keys()
        )

    def revoke_key(self, which: str, *, now: datetime) -> ApiKey | None:
        """Revoke a key by its id, name or prefix, and end its sessions.

        None if there is none; raises ConflictError if the word means several.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            key = _meant(which, read_as(connection, ApiKey, MEANT, {"which": which}))
            if key is None:
                return None
            connection.execute(REVOKE, {"id": key.id, "now": now})
            at = self._at(now)
            facts = {"name": key.name, "prefix": key.prefix, "role": key.role}
            add_event(connection, "key_revoked", facts, seller=key.seller, at=at)
            end_of_key(connection, key.id, at=at)
        return replace(key, revoked_at=now)

    def find_key(self, secret: str, *, now: datetime) -> Principal | None:
        """Return the principal of a key, and record its use; None if the key is invalid."""
        if len(secret) != len(MARK) + SECRET_CHARS or not secret.startswith(MARK):
            return None
        before = now - USE_WRITTEN
        values = {"hash": digest(secret), "now": now, "before": before}
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(FIND_KEY, values).fetchone()
            if row is None or not hmac.compare_digest(bytes(row[4]), digest(secret)):
                return None
            id_, name, role, user_id, _, used_at = row
            if used_at is None or used_at <= before:
                connection.execute(USE_KEY, {**values, "id": id_})
        return Principal(id=f"key:{id_}", name=name, role=Role(role), seller=user_id, key_id=id_)

    def add_link(self, grant: AccessGrant, *, expires_at: datetime, now: datetime) -> str:
        """Create the secret of a login link, which logs one browser in, once."""
        secret = fresh_secret()[:LINK_CHARS]
        values = {**granted(grant), "hash": digest(secret), "expires_at": expires_at, "now": now}
        facts = {name: values[name] for name in ("name", "role", "expires_at")}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(FORGET_LINKS, values)
            connection.execute(ADD_LINK, values)
            add_event(connection, "link_created", facts, seller=grant.seller, at=self._at(now))
        return secret

    def take_link(self, secret: str, *, now: datetime) -> AccessGrant | None:
        """Return the grant of a link, and use it up; None if it is unknown, used or expired."""
        return self._find(AccessGrant, TAKE_LINK, {"hash": digest(secret), "now": now})

    def count_try(self, address: str, *, now: datetime) -> None:
        """Count a login before it is checked; raise TooManyError after too many failed ones."""
        values = {"address": address, "now": now, "before": now - TRIES_SPAN}
        attempts, begun_at = self._one(TRY, values)
        if attempts > TRIES_MAX:
            wait_s = max(1.0, (begun_at + TRIES_SPAN - now).total_seconds())
            raise TooManyError(
                f"too many wrong logins from this address; try again in {_minutes(wait_s)}",
                retry_after_s=wait_s,
            )

    def forgive(self, address: str, *, now: datetime) -> None:
        """Delete the count of an address that has logged in, and counts of past windows."""
        values = {"address": address, "before": now - TRIES_SPAN}
        self._write(FORGIVE, values)

    def _at(self, now: datetime) -> datetime:
        return now if self._clock is None else self._clock.now()


def _meant(which: str, keys: Sequence[ApiKey]) -> ApiKey | None:
    """Return the key that a text names; an id means one key, whatever the others are called."""
    of_id = [key for key in keys if key.id == which]
    if len(of_id or keys) > 1:
        named = ", ".join(f"{key.name} ({key.prefix}, id {key.id})" for key in keys)
        raise ConflictError(f"{which} means several keys: {named}; name one by its id")
    return next(iter(of_id or keys), None)


def _minutes(wait_s: float) -> str:
    minutes = max(1, round(wait_s / 60))
    return "a minute" if minutes == 1 else f"{minutes} minutes"
