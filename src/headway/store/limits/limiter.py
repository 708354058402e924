"""The limiter in PostgreSQL: one row per resource is both its state and its lock.

An operation on one key reads its row and the clock (the server's, unless time is virtual), applies
a pure transition, and writes in one statement that counts only if the row is still the one that
was read: two round trips, and no lock is held between them. An operation that loses that race,
needs several keys or finds anything unusual takes one short transaction: lock the rows in key
order, then read the clock, apply, write. Any database error surfaces as StoreError and nothing is
granted.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from headway.clock import Clock, fresh_id
from headway.core.limits.base_limiter import Generator, LimiterVerbs, Transition
from headway.core.limits.state import (
    LedgerCall,
    LimitState,
    Note,
    at_us,
    dump,
    dump_rules,
    instant,
    load,
)
from headway.core.limits.status import RECENT_CALLS, LimitStatus, show
from headway.core.limits.transitions import CallReport, Resource, enter, find_keys, find_step_us
from headway.errors import StoreError
from headway.store.pool import Pool, guarded
from headway.store.queries import read_as
from headway.store.sql_files import read_sql

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
COMPACT = json.JSONEncoder(separators=(",", ":"))

CREATE = """
INSERT INTO limiter (limit_key, rules, state, lineage, updated_at)
SELECT limit_key, '[]', '{}', '', %s
FROM unnest(%s::text[]) AS requested (limit_key) ORDER BY limit_key
ON CONFLICT (limit_key) DO NOTHING
"""
READ = """
SELECT limit_key, rules, state, lineage, pg_postmaster_start_time() FROM limiter
WHERE limit_key = ANY (%(limit_keys)s) ORDER BY limit_key
"""
LOCK = read_sql("limits", "permit_lock")
PEEK = read_sql("limits", "permit_peek")
SWAP = read_sql("limits", "permit_write")
SWAP_BEGAN = read_sql("limits", "permit_begin")
SWAP_ENDED = read_sql("limits", "permit_end")
# A separate statement: in the locking one it would show the time before the wait.
CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
WRITE = """
UPDATE limiter SET state = %s::jsonb, lineage = %s, updated_at = %s WHERE limit_key = %s
"""
WRITE_RULES = "UPDATE limiter SET rules = %s::jsonb WHERE limit_key = %s"
BEGAN = """
INSERT INTO call_ledger (owner, purpose, cost, begun_at, lease_until, permit_id, limit_key)
VALUES (%(owner)s, %(purpose)s, %(cost)s, %(begun_at)s, %(lease_until)s, %(permit_id)s,
  %(limit_key)s)
"""
ENDED = """
UPDATE call_ledger SET status = %(status)s, finished_at = %(finished_at)s,
  arrived_by = %(arrived_by)s, result = %(result)s, http_status = %(http_status)s,
  seats_paid = %(seats_paid)s, skus = %(skus)s
WHERE permit_id = %(permit_id)s AND limit_key = %(limit_key)s
"""
# Under contention locks are faster; after a lost race an operation takes them this many times.
LOCKS_AFTER_RACE = 32
LOST = """
UPDATE call_ledger SET status = 'lost', arrived_by = %s
WHERE permit_id = %s AND limit_key = %s AND status = 'begun'
"""
LEDGER = """
SELECT permit_id::text, limit_key AS key, owner, purpose, cost, begun_at, lease_until,
  finished_at, arrived_by, status
FROM call_ledger WHERE limit_key = %s
"""
FORGET = """
DELETE FROM call_ledger
WHERE limit_key = ANY (ARRAY(SELECT limit_key FROM limiter)) AND begun_at < %s
  AND status <> 'begun'
"""
MAY_READ_CONTROL = "SELECT has_function_privilege('pg_control_system()', 'execute')"
# The timeline of the WAL that is being written. The control file names the timeline of the last
# checkpoint, which after a promotion stays the old one for seconds or minutes.
TIMELINE = "('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int"
# A server that may lose commits in a crash gets a new lineage after every start.
FRAGILE = """
CASE WHEN 'off' IN (current_setting('fsync'), current_setting('synchronous_commit'))
     THEN pg_postmaster_start_time()::text ELSE '' END
"""
LINEAGE = (
    f"SELECT concat_ws(' ', system_identifier, {TIMELINE}, {FRAGILE}) FROM pg_control_system()"
)
# Without permission to read the control file, a copy on the same timeline looks like its original:
# the database's oid is the best there is.
LINEAGE_GUESS = f"""
SELECT concat_ws(' ', oid, {TIMELINE}, {FRAGILE})
FROM pg_database WHERE datname = current_database()
"""


def read_lineage(connection: Connection) -> str:
    """Return what tells this database's past from that of a restored or promoted copy."""
    may_read = connection.execute(MAY_READ_CONTROL).fetchone() == (True,)
    row = connection.execute(LINEAGE if may_read else LINEAGE_GUESS).fetchone()
    assert row is not None, "one row is always answered"
    return str(row[0])


@dataclass(frozen=True, slots=True)
class _PeekedRow:
    """A row read without a lock, our clock before the read, and the server's clock."""

    state: LimitState
    lineage: str
    started_at: datetime
    xmin: str
    before_s: float
    server_us: int


@dataclass(frozen=True, slots=True)
class _Row:
    rules: Any
    state: LimitState | None
    lineage: str
    started_at: datetime


class PostgresLimiter(LimiterVerbs):
    """A limiter whose states and ledger are tables, shared by any number of processes."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        resources: Iterable[Resource],
        *,
        ids: Callable[[], str] = fresh_id,
        jitter: Generator | None = None,
    ) -> None:
        self.resources = {resource.key: resource for resource in resources}
        self.ids = ids
        self.jitter = jitter
        self._pool = pool
        self._clock = clock
        self._rules = {key: _rules(limited) for key, limited in self.resources.items()}
        self._created: set[str] = set()
        self._clocks: dict[str, tuple[float, int]] = {}
        self._lineage: tuple[datetime, str] | None = None
        self._locks_left: dict[str, int] = {}
        self._kept: dict[str, _PeekedRow] = {}

    def know(self, resource: Resource) -> None:
        """Add a resource after the start, such as a shop's bucket."""
        if resource.key not in self.resources:
            self._rules[resource.key] = _rules(resource)
            self.resources[resource.key] = resource

    def run(
        self, keys: tuple[str, ...], transition: Transition[T], report: CallReport | None = None
    ) -> T:
        """Apply the transition in one transaction; its answer is valid once this returns."""
        try:
            with guarded():
                self.create(keys)
                done = self._swap(keys, transition, report)
                if done is None:
                    with self._pool.connection() as conn, conn.transaction():
                        done = self._operate(conn, keys, transition, report)
        except StoreError:
            self._doubt()
            raise
        answer, clocks = done
        self._clocks.update(dict.fromkeys(keys, clocks))
        return answer

    def within(self, connection: Connection) -> "LimiterWithin":
        """Return the same limiter inside the caller's transaction.

        The rows stay locked until that transaction ends; `create` must have made them before.
        """
        return LimiterWithin(self, connection)

    def run_in(
        self,
        connection: Connection,
        keys: tuple[str, ...],
        transition: Transition[T],
        report: CallReport | None = None,
    ) -> T:
        """Apply the transition in the caller's transaction."""
        try:
            with guarded():
                answer, clocks = self._operate(connection, keys, transition, report)
        except StoreError:
            self._doubt()
            raise
        self._clocks.update(dict.fromkeys(keys, clocks))
        return answer

    def create(self, keys: Sequence[str]) -> None:
        """Create the rows of these keys, if they are missing."""
        if self._created.issuperset(keys):
            return
        # A separate transaction, so that rows are only ever locked in key order.
        with guarded(), self._pool.connection() as conn:
            conn.execute(CREATE, [self._clock.now(), list(keys)])
        self._created.update(keys)

    def status(self, key: str) -> LimitStatus:
        """Return the status of one key, for people; locks nothing."""
        keys = find_keys(self.resources, [key])
        with guarded(), self._pool.connection() as conn, conn.transaction():
            rows = _read(conn, READ, keys)
            _, now_us = self._look(conn)
            last = LEDGER + "ORDER BY begun_at DESC, permit_id DESC LIMIT %s"
            recent = tuple(read_as(conn, LedgerCall, last, [key, RECENT_CALLS]))
        state = rows[key].state if key in rows else None
        opened = enter(self.resources, {key: state}, now_us=now_us)
        return show(self.resources[key], opened.states[key], recent=recent, now_us=opened.answer)

    def calls_since(self, key: str, since: datetime) -> list[LedgerCall]:
        """Return the ledger of one key from an instant on, in the order of begin."""
        with guarded(), self._pool.connection() as conn:
            later = LEDGER + "AND begun_at >= %s ORDER BY begun_at, permit_id"
            return read_as(conn, LedgerCall, later, [key, since])

    def forget(self, before: datetime) -> int:
        """Delete finished calls that began before that instant; return how many."""
        with guarded(), self._pool.connection() as conn:
            return conn.execute(FORGET, [before]).rowcount

    def _doubt(self) -> None:
        """Clear the cache: another server, or an older copy, may answer next."""
        self._lineage = None
        self._created.clear()

    def _swap(
        self, keys: tuple[str, ...], transition: Transition[T], report: CallReport | None
    ) -> tuple[T, tuple[float, int]] | None:
        """Apply the transition without a lock; None if that is not possible, or a race was lost."""
        key, *others = keys
        locks_left = self._locks_left.get(key, 0)
        if others or locks_left:
            self._locks_left[key] = max(0, locks_left - 1)
            return None
        with self._pool.connection() as conn:
            # With a virtual clock the row we wrote last is enough, if it is still the same.
            kept = self._kept.pop(key, None)
            done = self._exchange(conn, key, self._now(kept), transition, report) if kept else None
            if done is None:
                row = self._peek(conn, key)
                done = self._exchange(conn, key, row, transition, report) if row else None
                if row is not None and done is None:
                    self._locks_left[key] = LOCKS_AFTER_RACE
        return done

    def _exchange(
        self,
        conn: Connection,
        key: str,
        row: _PeekedRow,
        transition: Transition[T],
        report: CallReport | None,
    ) -> tuple[T, tuple[float, int]] | None:
        """Write the result of the transition if the row is still the same; None if not."""
        step_us = find_step_us(self._clocks.get(key), self._clock.monotonic(), row.server_us)
        opened = enter(
            self.resources, {key: row.state}, now_us=row.server_us, steps_us={key: step_us}
        )
        moved = transition(opened.states, opened.answer)
        notes = (*opened.notes, *moved.notes)
        if len(notes) > 1 or any(note.status == "lost" for note in notes):
            return None
        state = {**opened.states, **moved.states}[key]
        statement, call = _statement(notes, report or CallReport())
        values = {
            **call,
            "limit_key": key,
            "xmin": row.xmin,
            "started_at": row.started_at,
            "state": _text(dump(state)),
            "lineage": row.lineage,
            "updated_at": instant(opened.answer),
        }
        swapped = conn.execute(statement, values).fetchone()
        if swapped is None:
            return None
        if not self._clock.is_real:
            self._kept[key] = replace(row, state=state, xmin=swapped[0])
        return moved.answer, (row.before_s, row.server_us)

    def _peek(self, conn: Connection, key: str) -> _PeekedRow | None:
        """Read the row and the clock; None if anything about it is unusual."""
        before_s = self._clock.monotonic()
        row = conn.execute(PEEK, {"limit_key": key}).fetchone()
        if row is None:
            return None
        rules, stored, lineage, started_at, xmin, server_us = row
        is_known = (started_at, lineage) == self._lineage and rules == self._rules[key]
        if not is_known or not stored:
            return None
        peeked = _PeekedRow(load(stored), lineage, started_at, xmin, before_s, server_us)
        return peeked if self._clock.is_real else self._now(peeked)

    def _now(self, row: _PeekedRow) -> _PeekedRow:
        """Return the row with the current time of a virtual clock."""
        clock = self._clock
        return replace(row, before_s=clock.monotonic(), server_us=at_us(clock.now()))

    def _operate(
        self,
        conn: Connection,
        keys: tuple[str, ...],
        transition: Transition[T],
        report: CallReport | None,
    ) -> tuple[T, tuple[float, int]]:
        for key in keys:
            self._kept.pop(key, None)
        rows = _read(conn, LOCK, keys)
        if len(rows) < len(keys):
            raise StoreError("the limiter's rows are missing and will be created again; try again")
        clocks = self._look(conn)
        # From before the last reading to after this one: a slow reply must not look like a jump.
        after_s, now_us = self._clock.monotonic(), clocks[1]
        lineage = self._find_lineage(conn, rows)
        opened = enter(
            self.resources,
            {key: row.state for key, row in rows.items()},
            now_us=now_us,
            strange=[key for key, row in rows.items() if row.lineage != lineage],
            steps_us={key: find_step_us(self._clocks.get(key), after_s, now_us) for key in keys},
        )
        moved = transition(opened.states, opened.answer)
        self._write(conn, rows, {**opened.states, **moved.states}, lineage, opened.answer)
        for note in (*opened.notes, *moved.notes):
            _note(conn, note, report or CallReport())
        return moved.answer, clocks

    def _look(self, conn: Connection) -> tuple[float, int]:
        """Return our monotonic seconds just before reading the clock, and the clock's time."""
        before_s = self._clock.monotonic()
        if not self._clock.is_real:
            return before_s, at_us(self._clock.now())
        row = conn.execute(CLOCK).fetchone()
        assert row is not None
        return before_s, int(row[0])

    def _find_lineage(self, conn: Connection, rows: Mapping[str, _Row]) -> str:
        """Return the lineage of this server; read again only if another server answers."""
        started_at = next(iter(rows.values())).started_at
        if self._lineage is None or self._lineage[0] != started_at:
            self._lineage = (started_at, read_lineage(conn))
        return self._lineage[1]

    def _write(
        self,
        conn: Connection,
        rows: Mapping[str, _Row],
        states: Mapping[str, LimitState],
        lineage: str,
        now_us: int,
    ) -> None:
        for key, state in states.items():
            conn.execute(WRITE, [_text(dump(state)), lineage, instant(now_us), key])
            if rows[key].rules != self._rules[key]:
                conn.execute(WRITE_RULES, [_text(self._rules[key]), key])


class LimiterWithin(LimiterVerbs):
    """A limiter whose operations are all part of one transaction; see `within`."""

    def __init__(self, limiter: PostgresLimiter, connection: Connection) -> None:
        self.resources = limiter.resources
        self.ids = limiter.ids
        self.jitter = limiter.jitter
        self._limiter = limiter
        self._connection = connection

    def run(
        self, keys: tuple[str, ...], transition: Transition[T], report: CallReport | None = None
    ) -> T:
        """Apply the transition; its answer is valid once the transaction is committed."""
        return self._limiter.run_in(self._connection, keys, transition, report)

    def status(self, key: str) -> LimitStatus:
        """Return the status of one key as it was before the transaction."""
        return self._limiter.status(key)


def _read(conn: Connection, statement: str, keys: Sequence[str]) -> dict[str, _Row]:
    return {
        key: _Row(rules, load(state) if state else None, lineage, started_at)
        for key, rules, state, lineage, started_at in conn.execute(
            statement, {"limit_keys": list(keys)}
        )
    }


def _statement(notes: Sequence[Note], report: CallReport) -> tuple[str, dict[str, Any]]:
    """Return the statement that also writes the one call of the notes, if any, and its values."""
    if not notes:
        return SWAP, {}
    note = notes[0]
    return SWAP_BEGAN if isinstance(note, LedgerCall) else SWAP_ENDED, _values(note, report)


def _note(conn: Connection, note: Note, report: CallReport) -> None:
    if isinstance(note, LedgerCall):
        conn.execute(BEGAN, _values(note, report))
    elif note.status == "lost":
        conn.execute(LOST, [note.arrived_by, note.permit_id, note.key])
    else:
        conn.execute(ENDED, _values(note, report))


def _values(note: Note, report: CallReport) -> dict[str, Any]:
    """Return the columns of a call in the ledger."""
    call = {"permit_id": note.permit_id, "limit_key": note.key}
    if isinstance(note, LedgerCall):
        return call | {
            "owner": note.owner,
            "purpose": note.purpose,
            "cost": note.cost,
            "begun_at": note.begun_at,
            "lease_until": note.lease_until,
        }
    return call | {
        "status": note.status,
        "finished_at": note.finished_at,
        "arrived_by": note.arrived_by,
        "result": report.result or None,
        "http_status": report.http_status,
        "seats_paid": report.seats_paid,
        "skus": list(report.skus),
    }


def _rules(resource: Resource) -> Any:  # noqa: ANN401 - JSON, as the table holds it
    return json.loads(_text(dump_rules(resource)))


def _text(value: object) -> str:
    return COMPACT.encode(value)
