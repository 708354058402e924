"""What keys, links and sessions share: how a secret is kept, and the events about who is let in.

An event tells of a key by its name and beginning, and never a secret.
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
# A last use is written at most that often: a key is used far more often than anybody looks.
USE_WRITTEN = timedelta(minutes=1)
AccessEvent = Literal[
    "key_created", "key_revoked", "link_created", "session_begun", "session_ended"
]
# Whoever logs in or out is named; else it is who works at the desk that the transaction knows of.
TELL = """
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, actor, created_at)
VALUES (coalesce(%(user_id)s, ''), %(at)s, %(kind)s, %(new)s,
  coalesce(%(actor)s, nullif(current_setting('headway.actor', true), '')), %(at)s)
"""


def tell(
    connection: Connection[TupleRow],
    kind: AccessEvent,
    facts: Mapping[str, Any],
    *,
    seller: SellerId | None,
    at: datetime,
    actor: str | None = None,
) -> None:
    """Write down that it happened, in the transaction in which it does."""
    details = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in facts.items()
    }
    values = {"user_id": seller, "at": at, "kind": kind, "new": Jsonb(details), "actor": actor}
    connection.execute(TELL, values)


def digest(secret: str) -> bytes:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def granted(grantee: Principal | AccessGrant) -> dict[str, Any]:
    """Return the columns that say who somebody is."""
    return {"name": grantee.name, "role": grantee.role, "user_id": grantee.seller}
