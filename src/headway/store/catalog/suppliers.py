"""Suppliers besides the one in the settings, and which seller buys from which."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from headway.core.catalog.listings import MAIN, SellerId, SupplierName
from headway.core.dispatch import SUPPLIER, Verb
from headway.errors import ConflictError, NotFoundError
from headway.store.catalog.listings import LOCK
from headway.store.dispatch import is_resting
from headway.store.pool import guarded
from headway.store.queries import Queries

COLUMNS = "name, client_id, username, url, kind, options"
ALL = f"SELECT {COLUMNS} FROM suppliers WHERE removed_at IS NULL ORDER BY name"
ONE = f"SELECT {COLUMNS} FROM suppliers WHERE name = %(name)s AND removed_at IS NULL"
# Workers cache the credential and the address of a supplier: these never change.
ADD = """
WITH before AS (SELECT removed_at FROM suppliers WHERE name = %(name)s)
INSERT INTO suppliers AS row (name, client_id, username, url, kind, options, created_at)
VALUES (%(name)s, %(client_id)s, %(username)s, %(url)s, %(kind)s, %(options)s, %(now)s)
ON CONFLICT (name) DO UPDATE SET username = excluded.username, options = excluded.options,
  removed_at = NULL
WHERE row.client_id = excluded.client_id AND row.kind = excluded.kind
  AND excluded.url IN ('', row.url)
RETURNING NOT EXISTS (SELECT FROM before WHERE removed_at IS NULL)
"""
REMOVE = "UPDATE suppliers SET removed_at = %(now)s WHERE name = %(name)s"
UNPAUSE = "DELETE FROM pauses WHERE supplier = %(name)s"
BUYERS = "SELECT user_id FROM profiles WHERE supplier = %(name)s ORDER BY user_id LIMIT 3"
BOUGHT_FROM = "SELECT user_id, supplier FROM profiles WHERE user_id = ANY(%(user_ids)s)"
CHOOSE = """
INSERT INTO profiles (user_id, supplier, created_at, updated_at)
VALUES (%(user_id)s, %(name)s, %(now)s, %(now)s)
ON CONFLICT (user_id) DO UPDATE SET supplier = excluded.supplier, updated_at = excluded.updated_at
"""
# A listing that is being read from the former supplier is not settled by that reply.
MOVE = """
WITH listings AS (
  SELECT id FROM product_sync_schedule WHERE user_id = %(user_id)s ORDER BY id FOR UPDATE
)
UPDATE product_sync_schedule AS row SET supplier = %(name)s, fence = row.fence + 1,
  lease_owner = NULL, lease_until = NULL, swept_from = NULL, updated_at = %(now)s,
  sync_status = CASE WHEN row.sync_status <> 'syncing' THEN row.sync_status
    WHEN last_sync_status IN ('pending', 'failed') THEN last_sync_status ELSE 'success' END
FROM listings WHERE row.id = listings.id
"""
ADD_EVENT = """
INSERT INTO sync_audit_log
  (user_id, sync_timestamp, event_type, old_value, new_value, created_at)
VALUES (%(user_id)s, %(now)s, %(kind)s, %(old)s, %(new)s, %(now)s)
"""
IDLE = f"""
SELECT name FROM suppliers
WHERE removed_at IS NULL AND NOT {is_resting(Verb.FETCH, f"'{SUPPLIER}:' || name")}
ORDER BY name LIMIT %(limit)s
"""


def overdue_count(bound: str) -> str:
    """Return the expression that counts listings due before `bound`, up to `%(most)s`.

    The queue of each supplier is one range of an index.
    """
    return f"""(SELECT count(*) FROM (
    SELECT FROM (SELECT '{MAIN}' AS name
      UNION ALL SELECT name FROM suppliers WHERE removed_at IS NULL) AS queue
    CROSS JOIN LATERAL (
      SELECT FROM product_sync_schedule WHERE supplier = queue.name AND is_active
        AND sync_status <> 'syncing' AND NOT is_paused
        AND priority IN ('manual', 'onboarding', 'scheduled', 'retry') AND next_sync_at < {bound}
      LIMIT %(most)s) AS late LIMIT %(most)s) AS overdue)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierRow:
    """A supplier: its credential, its address, its kind, and what an operator chose for it.

    An empty address or kind means the one in the settings.
    """

    name: SupplierName
    """The supplier's name. Example: `east`"""
    client_id: str
    username: str
    url: str = ""
    kind: str = ""
    """The kind of supplier, as `headway providers` lists it; empty for the usual one.
    Example: `feed`
    """
    options: Mapping[str, Any] = field(default_factory=dict)


class Suppliers(Queries):
    """Table `suppliers`, and which of them sellers buy from."""

    def all(self) -> list[SupplierRow]:
        """Return them by name, without the one of the settings."""
        return self._read(SupplierRow, ALL)

    def names(self) -> list[SupplierName]:
        """Return their names, the one in the settings first."""
        return [MAIN, *(supplier.name for supplier in self.all())]

    def find(self, name: SupplierName) -> SupplierRow:
        """Return one by its name; raise NotFoundError if it is unknown."""
        row = self._find(SupplierRow, ONE, {"name": name})
        if row is not None:
            return row
        close = get_close_matches(name, self.names(), n=1)
        hint = f"did you mean {close[0]}?" if close else "see: headway supplier list"
        raise NotFoundError(f"there is no supplier {name}; {hint}")

    def idle(self, now: datetime, *, limit: int) -> list[SupplierName]:
        """Return those without a dispatched worker, except the one in the settings."""
        return [name for (name,) in self._rows(IDLE, {"now": now, "limit": limit})]

    def of_sellers(self, user_ids: Collection[SellerId]) -> Mapping[SellerId, SupplierName]:
        """Return the supplier of each of these sellers."""
        chosen: dict[str, str] = dict(self._rows(BOUGHT_FROM, {"user_ids": list(user_ids)}))
        return {user_id: SupplierName(chosen.get(user_id, MAIN)) for user_id in user_ids}

    def add(self, row: SupplierRow, *, now: datetime) -> bool:
        """Store a supplier, or its new login; return True if it is new.

        Raises ConflictError if another has the same credential: they would share its limit; and if
        this name has another one.
        """
        values = {**asdict(row), "options": Jsonb(row.options), "now": now}
        details = {"name": row.name, "client_id": row.client_id}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            try:
                added = connection.execute(ADD, values).fetchone()
            except UniqueViolation:
                raise ConflictError(
                    f"another supplier has the client id {row.client_id}; one limit binds both"
                ) from None
            if added is None:
                raise ConflictError(
                    f"{row.name} has, or had, another client id or another address; add"
                    " this one under another name"
                )
            connection.execute(ADD_EVENT, _event("supplier_added", new=details, now=now))
        return bool(added[0])

    def remove(self, name: SupplierName, *, now: datetime) -> None:
        """Remove a supplier; raise NotFoundError, or ConflictError while a seller buys there."""
        self.find(name)
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(LOCK)
            buyers = [row[0] for row in connection.execute(BUYERS, {"name": name}).fetchall()]
            if buyers:
                raise ConflictError(
                    f"{', '.join(buyers)} buys from {name}; first: headway supplier give main"
                    f" --seller {buyers[0]}"
                )
            connection.execute(UNPAUSE, {"name": name})
            connection.execute(REMOVE, {"name": name, "now": now})
            connection.execute(ADD_EVENT, _event("supplier_removed", old={"name": name}, now=now))

    def give(self, name: SupplierName, user_id: SellerId, *, now: datetime) -> int:
        """Assign a supplier to a seller; return how many listings that changed.

        Due times stay, so this causes no burst of calls; each shows the new supplier's quote
        when it is next read.
        """
        if name != MAIN:
            self.find(name)
        values = {"name": name, "user_id": user_id, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(LOCK)
            row = connection.execute(BOUGHT_FROM, {"user_ids": [user_id]}).fetchone()
            old = MAIN if row is None else row[1]
            if old == name:
                return 0
            connection.execute(CHOOSE, values)
            moved = connection.execute(MOVE, values).rowcount
            event = _event("supplier_chosen", old={"name": old}, new={"name": name}, now=now)
            connection.execute(ADD_EVENT, {**event, "user_id": user_id})
        return moved


def _event(
    kind: str,
    *,
    now: datetime,
    old: Mapping[str, str] | None = None,
    new: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "user_id": "",
        "kind": kind,
        "old": None if old is None else Jsonb(old),
        "new": None if new is None else Jsonb(new),
        "now": now,
    }
