"""Tokens shared by all workers, and the lease under which one of them refreshes.

What comes here is encrypted already. A version is never used twice, so that a worker which was
refused can kill the token it used and never a newer one: the first is made of the time, so that it
differs from those of a token that was deleted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import LimitKey, SellerId
from headway.core.monitoring.metrics import TokenMetric
from headway.store.pool import Pool, guarded

ENDING_SHOWN = 20

LOAD = """
SELECT name, secret, expires_at, version FROM credential WHERE credential_key = %s ORDER BY name
"""

# The lease is the fence: a worker that lost it may not overwrite what its successor fetched.
# Locking its row keeps a successor from starting between the check and the write.
SAVE = """
WITH lease AS (
  SELECT credential_key FROM credential_refresh
  WHERE credential_key = %(key)s AND owner = %(owner)s FOR UPDATE
), kept AS (
  INSERT INTO credential (credential_key, name, secret, expires_at, version)
  SELECT credential_key, %(name)s, %(secret)s, %(expires_at)s,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM lease
  ON CONFLICT (credential_key, name) DO UPDATE SET secret = excluded.secret,
    expires_at = excluded.expires_at, version = credential.version + 1
  RETURNING version
), noted AS (
  INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, created_at)
  SELECT account.user_id, %(renewed_at)s::timestamptz, 'token_refreshed', jsonb_build_object(
      'platform', account.platform, 'shop', account.shop, 'until', %(expires_at)s::timestamptz),
    %(renewed_at)s::timestamptz
  FROM kept JOIN connected_accounts AS account
    ON account.platform = split_part(%(key)s::text, ':', 1)
    AND account.shop = regexp_replace(%(key)s::text, '^.*:', '')
  WHERE %(renewed_at)s::timestamptz IS NOT NULL
)
SELECT version FROM kept
"""

INVALIDATE = """
UPDATE credential SET expires_at = least(credential.expires_at, %(now)s)
FROM unnest(%(names)s::text[], %(versions)s::bigint[]) AS used (name, version)
WHERE credential.credential_key = %(key)s
  AND credential.name = used.name AND credential.version = used.version
"""

RENAME = """
WITH renamed AS (
  UPDATE connected_accounts AS account SET shop = %(shop)s, locations = NULL, locations_at = NULL,
    updated_at = %(now)s
  WHERE platform = split_part(%(key)s::text, ':', 1)
    AND shop = regexp_replace(%(key)s::text, '^.*:', '') AND status = 'connected'
    AND NOT EXISTS (SELECT FROM connected_accounts AS other
      WHERE other.platform = account.platform AND other.shop = %(shop)s)
  RETURNING id, user_id, platform
), stones AS (
  UPDATE tombstones SET shop_hash = erased_hash('shop', renamed.platform, %(shop)s)
  FROM renamed WHERE tombstones.account_id = renamed.id
)
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, old_value, new_value, created_at)
SELECT user_id, %(now)s, 'account_renamed',
  jsonb_build_object('shop', regexp_replace(%(key)s::text, '^.*:', '')),
  jsonb_build_object('platform', platform, 'shop', %(shop)s::text), %(now)s
FROM renamed
"""
# Tokens of an earlier connection of the new name are not valid any more.
MOVE = """
WITH former AS (DELETE FROM credential WHERE credential_key = %(new_key)s RETURNING name, version)
INSERT INTO credential (credential_key, name, secret, expires_at, version)
SELECT %(new_key)s, name, secret, expires_at,
  version + coalesce((SELECT max(former.version) FROM former), 0)
FROM credential WHERE credential_key = %(key)s
"""

BEGIN_REFRESH = """
INSERT INTO credential_refresh AS held (credential_key, owner, lease_until)
VALUES (%(key)s, %(owner)s, %(lease_until)s)
ON CONFLICT (credential_key) DO UPDATE SET owner = excluded.owner,
  lease_until = excluded.lease_until
WHERE held.lease_until <= %(now)s
RETURNING owner
"""

END_REFRESH = "DELETE FROM credential_refresh WHERE credential_key = %s AND owner = %s"

# A grant ends with the longer-lived of its tokens: the one that renews the other.
ENDING = """
SELECT account.user_id, account.platform || ' ' || account.shop, max(credential.expires_at)
FROM connected_accounts AS account
JOIN unnest(%(platforms)s::text[], %(prefixes)s::text[]) AS platform (name, key_prefix)
  ON platform.name = account.platform
JOIN credential ON credential.credential_key = platform.key_prefix || account.shop
WHERE account.status = 'connected' AND (%(seller)s::text IS NULL OR account.user_id = %(seller)s)
GROUP BY account.user_id, account.platform, account.shop
HAVING max(credential.expires_at) < %(before)s
ORDER BY 3 LIMIT %(limit)s
"""
FORGET = "DELETE FROM credential WHERE credential_key = %s"
# Token keys begin with the platform and end with the shop.
DELETE_TOKENS = """
DELETE FROM credential WHERE (split_part(credential_key, ':', 1),
  regexp_replace(credential_key, '^.*:', '')) IN (
  SELECT * FROM unnest(%(key_platforms)s::text[], %(key_names)s::text[]))
"""
LOAD_ALL = """
SELECT credential_key, name, version, secret FROM credential ORDER BY credential_key, name
"""
REPLACE = """
UPDATE credential SET secret = %s
WHERE credential_key = %s AND name = %s AND version = %s AND secret = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One stored token; its secret is encrypted, and must not be printed even so."""

    name: str
    secret: bytes = field(repr=False)
    expires_at: datetime
    version: int


class Credentials:
    """Tables `credential` and `credential_refresh` behind the connectors' port."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def load(self, limit_key: LimitKey) -> list[Credential]:
        """Return the tokens stored under this key, expired ones too."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(LOAD, (limit_key,)).fetchall()
        return [
            Credential(name=name, secret=bytes(secret), expires_at=expires_at, version=version)
            for name, secret, expires_at, version in rows
        ]

    def save(
        self,
        limit_key: LimitKey,
        name: str,
        *,
        secret: bytes,
        expires_at: datetime,
        owner: str,
        renewed_at: datetime | None = None,
    ) -> int | None:
        """Store a token and return its version; None if the owner's lease was taken over.

        That it was renewed, if it was, is an event of its account's seller.
        """
        values = {
            "key": limit_key,
            "name": name,
            "secret": secret,
            "expires_at": expires_at,
            "owner": owner,
            "renewed_at": renewed_at,
        }
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(SAVE, values).fetchone()
        return None if row is None else int(row[0])

    def invalidate(
        self, limit_key: LimitKey, versions: Mapping[str, int], *, now: datetime
    ) -> None:
        """Invalidate exactly these versions, by name; newer ones stay valid."""
        values = {
            "key": limit_key,
            "names": list(versions),
            "versions": list(versions.values()),
            "now": now,
        }
        with guarded(), self._pool.connection() as connection:
            connection.execute(INVALIDATE, values)

    def move(self, limit_key: LimitKey, new_key: LimitKey, *, now: datetime) -> bool:
        """Rename the shop of these tokens; False if the new name is another account's."""
        shop = new_key.rpartition(":")[2]
        values = {"key": limit_key, "new_key": new_key, "shop": shop, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if not connection.execute(RENAME, values).rowcount:
                return False
            connection.execute(MOVE, values)
            connection.execute(FORGET, (limit_key,))
        return True

    def begin_refresh(
        self, limit_key: LimitKey, *, owner: str, now: datetime, lease_until: datetime
    ) -> bool:
        """Take the lease to refresh; False while another holds it."""
        values = {"key": limit_key, "owner": owner, "now": now, "lease_until": lease_until}
        with guarded(), self._pool.connection() as connection:
            return connection.execute(BEGIN_REFRESH, values).fetchone() is not None

    def end_refresh(self, limit_key: LimitKey, *, owner: str) -> None:
        """Release the lease, if this owner still has it."""
        with guarded(), self._pool.connection() as connection:
            connection.execute(END_REFRESH, (limit_key, owner))

    def ending(
        self,
        before: datetime,
        *,
        prefixes: Mapping[PlatformName, str],
        seller: SellerId | None = None,
        limit: int = ENDING_SHOWN,
    ) -> list[TokenMetric]:
        """Return the grants that end before an instant, of one seller or of all.

        The token key of an account is its platform's prefix, followed by the shop.
        """
        values = {
            "before": before,
            "platforms": list(prefixes),
            "prefixes": list(prefixes.values()),
            "seller": seller,
            "limit": limit,
        }
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(ENDING, values).fetchall()
        return [
            TokenMetric(seller=SellerId(seller), name=name, expires_at=expires_at)
            for seller, name, expires_at in rows
        ]

    def forget(self, limit_key: LimitKey) -> None:
        """Delete the secrets under this key."""
        with guarded(), self._pool.connection() as connection:
            connection.execute(FORGET, (limit_key,))

    def secrets(self) -> list[bytes]:
        """Return every secret, as it is stored."""
        with guarded(), self._pool.connection() as connection:
            return [bytes(row[-1]) for row in connection.execute(LOAD_ALL).fetchall()]

    def reencrypt(self, rotate: Callable[[bytes], bytes | None]) -> int:
        """Replace every secret by the result of `rotate`, None to leave it; return how many.

        Each is written by itself, and only if it is still what was read: a worker that saves a
        token meanwhile neither waits nor loses it.
        """
        written = 0
        with guarded(), self._pool.connection() as connection:
            for limit_key, name, version, secret in connection.execute(LOAD_ALL).fetchall():
                rotated = rotate(bytes(secret))
                if rotated is not None:
                    values = (rotated, limit_key, name, version, secret)
                    written += connection.execute(REPLACE, values).rowcount
        return written
