"""Shared by keys, links and sessions: how a secret is stored, and the events of access.

An event names a key by its name and prefix, and never contains a secret.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from headway.core.access import AccessGrant, Principal
from headway.core.catalog.listings import SellerId

SECRET_CHARS = 64
# The last use is written at most this often, since a key is used far more often.
USE_WRITTEN = timedelta(minutes=1)
AccessEvent = Literal[
    "key_created", "key_revoked", "link_created", "session_begun", "session_ended"
]
# The actor is the person who logs in or out, otherwise the actor of the transaction.
ADD_EVENT = """
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, actor, created_at)
VALUES (coalesce(%(user_id)s, ''), %(at)s, %(kind)s, %(new)s,
  coalesce(%(actor)s, nullif(current_setting('headway.actor', true), '')), %(at)s)
"""


def add_event(
    connection: Connection[TupleRow],
    kind: AccessEvent,
    facts: Mapping[str, Any],
    *,
    seller: SellerId | None,
    at: datetime,
    actor: str | None = None,
) -> None:
    """Store an event in the caller's transaction."""
    details = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in facts.items()
    }
    values = {"user_id": seller, "at": at, "kind": kind, "new": Jsonb(details), "actor": actor}
    connection.execute(ADD_EVENT, values)


def digest(secret: str) -> bytes:
    """Return the digest of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def granted(grantee: Principal | AccessGrant) -> dict[str, Any]:
    """Return the columns of an identity."""
    return {"name": grantee.name, "role": grantee.role, "user_id": grantee.seller}
