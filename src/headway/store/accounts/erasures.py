"""Erasures: tables `erasures` and `tombstones`, and the deletion itself, in short transactions.

A request stores whom to erase, with the hashes that keep the data from coming back, and stops the
account, in one transaction. Then rows are deleted in batches. A process that is killed between two
of them leaves the rest to the next one. When no worker of before can still write, everything is
looked for once more, and the request itself is emptied.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection, sql

from headway.core.accounts.erasure import (
    SWEEP_AFTER,
    ErasedAccount,
    Erasure,
    ErasureKind,
    ErasureProof,
    ErasureStatus,
    ErasureSubject,
    proof_of,
    unpacked_subject,
)
from headway.core.catalog.listings import SellerId
from headway.core.dispatch import STOREFRONT
from headway.store import cursors
from headway.store.accounts.customer_erasure import (
    CUSTOMER_STEPS,
    customer_counts,
    customer_subject,
)
from headway.store.accounts.erasure_requests import (
    COLUMNS,
    bound_values,
    enter,
    stop_accounts,
    whole_subject,
)
from headway.store.accounts.erasure_tables import DELETED, KEYED, ErasedTable
from headway.store.accounts.erasure_texts import TEXTS, Texts, mentions, replace_words
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

ROWS = 1000

LOAD = f"SELECT {COLUMNS}, subject FROM erasures WHERE id = %(id)s"
TURN = """
SELECT FROM erasures WHERE id = %(id)s AND status = %(status)s FOR UPDATE
"""
DELETE = """
DELETE FROM {table} USING (
  SELECT tableoid AS part, ctid AS place FROM {table} WHERE {where} LIMIT %(rows)s
) AS doomed
WHERE {table}.tableoid = doomed.part AND {table}.ctid = doomed.place
"""
COUNT = "SELECT count(*) FROM {table} WHERE {where}"
ADD_COUNT = """
UPDATE erasures SET counts = counts || jsonb_build_object(
  %(name)s::text, coalesce((counts ->> %(name)s)::bigint, 0) + %(count)s)
WHERE id = %(id)s
"""
# The parts of a shop that is erased stay listed, as if a person had removed them.
REMOVE_PARTS = """
WITH doomed AS (
  SELECT sku FROM listing_state WHERE user_id = %(user_id)s
    AND (applied IS NOT NULL OR shown IS NOT NULL OR desired IS NOT NULL) LIMIT %(rows)s
), stopped AS (
  UPDATE product_sync_schedule AS row SET removed_at = coalesce(removed_at, %(now)s),
    is_active = false, sync_status = 'pending', fence = fence + 1, lease_owner = NULL,
    lease_until = NULL, priority = 'scheduled', swept_from = NULL, consecutive_failures = 0,
    missing_count = 0, suspicion = 0, last_error = NULL, updated_at = %(now)s
  FROM doomed WHERE row.user_id = %(user_id)s AND row.sku = doomed.sku
)
UPDATE listing_state AS row SET applied = NULL, applied_at = NULL,
  applied_version = desired_version, shown = NULL, desired = NULL, desired_at = NULL,
  observed = NULL, verified_at = NULL, moved_at = NULL, emptied_at = NULL, push_at = NULL,
  push_failures = 0, push_error = NULL, push_suspicion = NULL, held_reason = NULL, held_at = NULL,
  proposed = NULL, rejected = NULL
FROM doomed WHERE row.user_id = %(user_id)s AND row.sku = doomed.sku
"""
# What was erased for a seller earlier stays proven, without the seller's name.
NAMELESS = "UPDATE erasures SET user_id = NULL WHERE user_id = %(user_id)s AND status = 'done'"
ERASED = f"""
UPDATE erasures SET status = 'sweeping', erased_at = %(now)s, sweep_at = %(sweep_at)s
WHERE id = %(id)s AND status = 'running' RETURNING {COLUMNS}
"""
# The seller may have been erased after this was requested.
IS_GONE = """
EXISTS (SELECT FROM tombstones WHERE kind = 'seller' AND lifted_at IS NULL
  AND hash = erased_hash('seller', '', %(user_id)s))
"""
DONE = f"""
UPDATE erasures SET status = 'done', done_at = %(now)s, subject = NULL,
  user_id = CASE WHEN kind <> 'seller' AND NOT {IS_GONE} THEN user_id END
WHERE id = %(id)s AND status = 'sweeping'
"""
EVENT = f"""
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, actor, created_at)
VALUES (CASE WHEN {IS_GONE} THEN '' ELSE %(user_id)s END, %(now)s, 'data_erased',
  %(value)s::jsonb, nullif(%(actor)s, ''), %(now)s)
"""
STONES = """
SELECT kind || ' ' || encode(hash, 'hex') FROM tombstones WHERE erasure_id = %(id)s ORDER BY 1
"""
DUE = """
SELECT id::text FROM erasures
WHERE status = 'running' OR (status = 'sweeping' AND sweep_at <= %(now)s)
ORDER BY requested_at LIMIT %(limit)s
"""
LIST = f"""
SELECT {COLUMNS} FROM erasures
WHERE (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
  AND (%(after)s::timestamptz IS NULL OR (requested_at, id) < (%(after)s, %(after_id)s::uuid))
ORDER BY requested_at DESC, id DESC LIMIT %(limit)s
"""
FIND = f"""
SELECT {COLUMNS} FROM erasures
WHERE id::text = %(id)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
"""
OPEN_SINCE = "SELECT count(*), min(requested_at) FROM erasures WHERE status <> 'done'"
Values = dict[str, Any]
Step = Callable[[Connection[Any], Values], int]


class Erasures(Queries):
    """What was erased, and what is being erased."""

    def whole(self, user_id: SellerId, account_id: str | None = None) -> ErasureSubject:
        """Return a seller with all accounts, or one account, as what to erase."""
        with guarded(), self._pool.connection() as connection:
            return whole_subject(connection, user_id, account_id)

    def customer(
        self,
        user_id: SellerId,
        accounts: Sequence[ErasedAccount],
        *,
        customer_id: str = "",
        email: str = "",
    ) -> ErasureSubject:
        """Return a customer of these accounts, by id or address, as what to erase."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            return customer_subject(
                connection,
                user_id,
                accounts,
                customer_ids=[customer_id] if customer_id else [],
                emails=[email] if email else [],
            )

    def request(self, subject: ErasureSubject, *, cause: str, actor: str, now: datetime) -> Erasure:
        """Store what is to be erased and stop its accounts; the same request twice is one."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if subject.kind is ErasureKind.CUSTOMER:  # again, now that no page is being stored
                subject = customer_subject(
                    connection,
                    subject.user_id,
                    subject.accounts,
                    customer_ids=subject.customer_ids,
                    emails=subject.emails,
                    order_ids=subject.order_ids,
                )
            return enter(connection, subject, cause=cause, actor=actor, now=now)

    def run(
        self, id_: str, *, now: datetime, goes_on: Callable[[], bool] = lambda: True
    ) -> Erasure:
        """Delete batch after batch, while `goes_on`; return how far it is.

        Any number of processes may run the same erasure: each batch is one's.
        """
        (erasure, subject) = self._load(id_)
        is_sweep = erasure.status is ErasureStatus.SWEEPING
        is_due = not is_sweep or (erasure.sweep_at is not None and erasure.sweep_at <= now)
        if erasure.status is ErasureStatus.DONE or subject is None or not is_due:
            return erasure
        values = {**bound_values(subject, now), "id": id_, "status": erasure.status, "rows": ROWS}
        for name, step, is_repeated in _steps(subject.kind, is_sweep=is_sweep):
            count = ROWS
            while count >= ROWS:
                count = self._batch(values, name, step)
                # Only after progress: looking through what is empty may take long, too.
                if count and not goes_on():
                    return self._load(id_)[0]
                count *= is_repeated
        for texts in TEXTS:
            self._scrub(values, texts)
        self._finish(values, is_sweep=is_sweep)
        return self._load(id_)[0]

    def work(
        self, now: datetime, *, goes_on: Callable[[], bool] = lambda: True, limit: int = 10
    ) -> bool:
        """Continue the erasures that are due, the oldest first; return True if some are left."""
        due = [id_ for (id_,) in self._rows(DUE, {"now": now, "limit": limit})]
        for id_ in due:
            erasure = self.run(id_, now=now, goes_on=goes_on)
            if erasure.status is ErasureStatus.RUNNING or not goes_on():
                return True
        return len(due) == limit

    def preview(self, subject: ErasureSubject, *, now: datetime) -> dict[str, int]:
        """Count the rows that an erasure would delete or empty, by table."""
        values = bound_values(subject, now)
        with guarded(), self._pool.connection() as connection:
            if subject.kind is ErasureKind.CUSTOMER:
                return customer_counts(connection, values)
            counts: dict[str, int] = {}
            for table in (*DELETED, *KEYED):
                where = getattr(table, subject.kind.value)
                if where is not None:
                    query = sql.SQL(COUNT.format(table=table.name, where=where))
                    row = connection.execute(query, values).fetchone()
                    assert row is not None, "a count always answers"
                    counts[table.name] = counts.get(table.name, 0) + row[0]
        return {name: count for name, count in counts.items() if count}

    def proof(self, erasure: Erasure) -> ErasureProof:
        """Return the proof of an erasure whose rows are deleted."""
        stones = [row[0] for row in self._rows(STONES, {"id": erasure.id})]
        return proof_of(erasure, stones)

    def some(
        self, user_id: SellerId | None, *, cursor: str | None = None, limit: int
    ) -> list[Erasure]:
        """Return erasures, the newest first."""
        after, after_id = (None, None) if cursor is None else cursors.decode(cursor, datetime, UUID)
        values = {"user_id": user_id, "after": after, "after_id": after_id, "limit": limit}
        return self._read(Erasure, LIST, values)

    def find(self, id_: str, *, user_id: SellerId | None = None) -> Erasure | None:
        """Return an erasure, of any seller or of one."""
        return self._find(Erasure, FIND, {"id": id_, "user_id": user_id})

    def open_since(self) -> tuple[int, datetime | None]:
        """Return how many erasures are not done, and when the first of them was requested."""
        count, since = self._one(OPEN_SINCE)
        return count, since

    def _load(self, id_: str) -> tuple[Erasure, ErasureSubject | None]:
        with guarded(), self._pool.connection() as connection:
            (erasure,) = read_as(connection, Erasure, LOAD.replace(", subject ", " "), {"id": id_})
            row = connection.execute("SELECT subject FROM erasures WHERE id = %s", [id_]).fetchone()
        fields = None if row is None else row[0]
        return erasure, None if fields is None else unpacked_subject(fields)

    def _batch(self, values: Values, name: str, step: Step) -> int:
        """Do one batch in a transaction of its own, unless another process ended the erasure."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if connection.execute(TURN, values).fetchone() is None:
                return 0
            count = step(connection, values)
            if count:
                connection.execute(ADD_COUNT, {**values, "name": name, "count": count})
        return count

    def _scrub(self, values: Values, texts: Texts) -> None:
        """Replace the words of an erasure in the texts of a table, batch by batch."""
        after: tuple[Any, ...] | None = None
        while values["words"]:
            with guarded(), self._pool.connection() as connection, connection.transaction():
                if connection.execute(TURN, values).fetchone() is None:
                    return
                rows = connection.execute(*mentions(texts, values, after)).fetchall()
                count = sum(replace_words(connection, texts, row, values["words"]) for row in rows)
                if count:
                    connection.execute(ADD_COUNT, {**values, "name": texts.table, "count": count})
            if len(rows) < ROWS:
                return
            after = tuple(rows[-1][: len(texts.key)])

    def _finish(self, values: Values, *, is_sweep: bool) -> None:
        """Record that all rows are deleted, with the proof as an event; or that it is done."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if is_sweep:
                connection.execute(DONE, values)
                return
            due = {**values, "sweep_at": values["now"] + SWEEP_AFTER}
            for erasure in read_as(connection, Erasure, ERASED, due):
                stones = [row[0] for row in connection.execute(STONES, {"id": erasure.id})]
                proof = proof_of(erasure, stones)
                value = {
                    "erasure": erasure.id,
                    "kind": erasure.kind,
                    "counts": dict(erasure.counts),
                    "sha256": proof.sha256,
                }
                event = {
                    "user_id": values["user_id"],
                    "value": json.dumps(value),
                    "actor": erasure.actor,
                    "now": values["now"],
                }
                connection.execute(EVENT, event)


def _steps(kind: ErasureKind, *, is_sweep: bool) -> Iterator[tuple[str, Step, bool]]:
    """Yield the steps of an erasure: what each counts, and whether it goes on until it is done."""
    if kind is ErasureKind.CUSTOMER:
        for name, step in CUSTOMER_STEPS:
            # Programs that keep a copy must have time to read that the customer is deleted.
            if is_sweep or name != "record_deletions":
                yield name, step, False
        return
    yield "connections", _stopping, False
    if kind is ErasureKind.ACCOUNT:
        yield "listing_state", _removing_parts, True
    for table in (*DELETED, *(KEYED if is_sweep else ())):
        where = getattr(table, kind.value)
        if where is not None:
            yield table.name, _deleting(table, where), True
    if kind is ErasureKind.SELLER:
        yield "erasures", _naming_nobody, False


def _stopping(connection: Connection[Any], values: Values) -> int:
    stop_accounts(connection, values["subject"], now=values["now"])
    return 0


def _removing_parts(connection: Connection[Any], values: Values) -> int:
    if STOREFRONT not in values["platforms"]:
        return 0
    return connection.execute(REMOVE_PARTS, values).rowcount


def _naming_nobody(connection: Connection[Any], values: Values) -> int:
    return connection.execute(NAMELESS, values).rowcount


def _deleting(table: ErasedTable, where: str) -> Step:
    query = sql.SQL(DELETE.format(table=table.name, where=where))  # nothing of it comes from users

    def delete(connection: Connection[Any], values: Values) -> int:
        return connection.execute(query, values).rowcount

    return delete
