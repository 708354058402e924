"""The limiter in PostgreSQL: one row per resource is both its state and its lock.

An operation is one short transaction: lock the rows in key order, then read the clock (the
server's, unless time is virtual), apply a pure transition, write. Any database error surfaces as
StoreError and nothing is granted.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg_pool import ConnectionPool

from headway.clock import Clock, fresh_id
from headway.core.limit_state import (
    LedgerCall,
    Note,
    State,
    at_us,
    dump,
    dump_rules,
    instant,
    load,
)
from headway.core.limit_status import RECENT_CALLS, Status, show
from headway.core.limit_verbs import Generator, LimiterVerbs, Transition
from headway.core.limits import CallReport, Resource, enter, find_keys, find_step_us
from headway.errors import StoreError
from headway.store.pool import guarded

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

CREATE = """
INSERT INTO limiter (key, rules, state, lineage, updated_at)
SELECT key, '[]', '{}', '', %s FROM unnest(%s::text[]) AS wanted (key) ORDER BY key
ON CONFLICT (key) DO NOTHING
"""
READ = """
SELECT key, rules, state, lineage, pg_postmaster_start_time() FROM limiter
WHERE key = ANY (%s) ORDER BY key
"""
LOCK = READ + "FOR UPDATE"
# Read in a statement of its own: in the locking one it would show the time before the wait. The
# timeout frees the rows if our host vanishes in the middle; it ends with the transaction.
CLOCK = """
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       set_config('idle_in_transaction_session_timeout', '10s', true)
"""
WRITE = """
UPDATE limiter SET state = %s::jsonb, lineage = %s, updated_at = %s WHERE key = %s
"""
WRITE_RULES = "UPDATE limiter SET rules = %s::jsonb WHERE key = %s"
BEGAN = """
INSERT INTO call_ledger (ticket_id, key, owner, purpose, cost, begun_at, lease_until)
VALUES (%s, %s, %s, %s, %s, %s, %s)
"""
ENDED = """
UPDATE call_ledger SET status = %s, finished_at = %s, arrived_by = %s,
       result = %s, http_status = %s, seats_paid = %s, skus = %s
WHERE ticket_id = %s AND key = %s
"""
LOST = """
UPDATE call_ledger SET status = 'lost', arrived_by = %s
WHERE ticket_id = %s AND key = %s AND status = 'begun'
"""
LINES = """
SELECT ticket_id::text, key, owner, purpose, cost, begun_at, lease_until, finished_at, arrived_by,
       status
FROM call_ledger WHERE key = %s
"""
FORGET = """
DELETE FROM call_ledger WHERE key = ANY (ARRAY(SELECT key FROM limiter)) AND begun_at < %s
  AND status <> 'begun'
"""
MAY_READ_LINEAGE = """
SELECT has_function_privilege('pg_control_system()', 'execute')
   AND has_function_privilege('pg_control_checkpoint()', 'execute')
"""
# A server that may lose commits in a crash has a new past after every start.
FRAGILE = """
CASE WHEN 'off' IN (current_setting('fsync'), current_setting('synchronous_commit'))
     THEN pg_postmaster_start_time()::text ELSE '' END
"""
LINEAGE = f"""
SELECT concat_ws(' ', system_identifier, timeline_id, {FRAGILE})
FROM pg_control_system(), pg_control_checkpoint()
"""
# Without leave to read the control file a restored copy cannot be told from its original; the
# database's own number is the best there is, and only a dump loaded elsewhere is noticed.
LINEAGE_GUESS = f"""
SELECT concat_ws(' ', oid, {FRAGILE}) FROM pg_database WHERE datname = current_database()
"""


@dataclass(frozen=True, slots=True)
class _Row:
    rules: Any
    state: State | None
    lineage: str
    started_at: datetime


class PostgresLimiter(LimiterVerbs):
    """A limiter whose states and ledger are tables, shared by any number of processes."""

    def __init__(
        self,
        pool: ConnectionPool,
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
        self._rules = {key: _rules(one) for key, one in self.resources.items()}
        self._created: set[str] = set()
        self._seen: dict[str, tuple[float, int]] = {}
        self._lineage: tuple[datetime, str] | None = None

    def know(self, resource: Resource) -> None:
        """Learn of a resource that came after the start, such as a shop's bucket."""
        if resource.key not in self.resources:
            self._rules[resource.key] = _rules(resource)
            self.resources[resource.key] = resource

    def run(
        self, keys: tuple[str, ...], transition: Transition[T], report: CallReport | None = None
    ) -> T:
        """Apply the transition in one transaction; what it answers holds once this returns."""
        try:
            with guarded():
                if not self._created.issuperset(keys):
                    self._create(keys)
                with self._pool.connection() as conn, conn.transaction():
                    answer, seen = self._operate(conn, keys, transition, report)
        except StoreError:
            # Whoever answers next may be another server, or an older copy of this one.
            self._lineage = None
            self._created.clear()
            raise
        self._seen.update(dict.fromkeys(keys, seen))
        return answer

    def status(self, key: str) -> Status:
        """Return what a person is shown of one key; locks nothing."""
        keys = find_keys(self.resources, [key])
        with guarded(), self._pool.connection() as conn, conn.transaction():
            rows = _read(conn, READ, keys)
            _, now_us = self._look(conn)
            recent = conn.execute(
                LINES + "ORDER BY begun_at DESC, ticket_id DESC LIMIT %s", [key, RECENT_CALLS]
            ).fetchall()
        state = rows[key].state if key in rows else None
        opened = enter(self.resources, {key: state}, now_us=now_us)
        return show(
            self.resources[key],
            opened.states[key],
            recent=tuple(_line(line) for line in recent),
            now_us=opened.answer,
        )

    def calls_since(self, key: str, since: datetime) -> list[LedgerCall]:
        """Return the ledger of one key from an instant on, in the order of begin."""
        with guarded(), self._pool.connection() as conn:
            lines = conn.execute(
                LINES + "AND begun_at >= %s ORDER BY begun_at, ticket_id", [key, since]
            ).fetchall()
        return [_line(line) for line in lines]

    def forget(self, before: datetime) -> int:
        """Remove calls that are over and began before that instant; return how many."""
        with guarded(), self._pool.connection() as conn:
            return conn.execute(FORGET, [before]).rowcount

    def _create(self, keys: Sequence[str]) -> None:
        # In a transaction of its own, so that rows are only ever locked in key order.
        with self._pool.connection() as conn:
            conn.execute(CREATE, [self._clock.now(), list(keys)])
        self._created.update(keys)

    def _operate(
        self,
        conn: Connection,
        keys: tuple[str, ...],
        transition: Transition[T],
        report: CallReport | None,
    ) -> tuple[T, tuple[float, int]]:
        rows = _read(conn, LOCK, keys)
        if len(rows) < len(keys):
            raise StoreError("the limiter's rows have vanished; they are made anew, try again")
        seen = self._look(conn)
        # From before the last look to after this one: a slow reply must not pass for a jump.
        after_s, now_us = self._clock.monotonic(), seen[1]
        lineage = self._find_lineage(conn, rows)
        opened = enter(
            self.resources,
            {key: row.state for key, row in rows.items()},
            now_us=now_us,
            strange=[key for key, row in rows.items() if row.lineage != lineage],
            steps_us={key: find_step_us(self._seen.get(key), after_s, now_us) for key in keys},
        )
        moved = transition(opened.states, opened.answer)
        self._write(conn, rows, {**opened.states, **moved.states}, lineage, opened.answer)
        for note in (*opened.notes, *moved.notes):
            _note(conn, note, report or CallReport())
        return moved.answer, seen

    def _look(self, conn: Connection) -> tuple[float, int]:
        """Return our monotonic seconds just before the look at the clock, and what it showed."""
        before_s = self._clock.monotonic()
        if not self._clock.is_real:
            return before_s, at_us(self._clock.now())
        told = conn.execute(CLOCK).fetchone()
        assert told is not None
        return before_s, int(told[0])

    def _find_lineage(self, conn: Connection, rows: Mapping[str, _Row]) -> str:
        """Return which past this server has; asked anew only when another server answers."""
        started_at = next(iter(rows.values())).started_at
        if self._lineage is None or self._lineage[0] != started_at:
            may_read = conn.execute(MAY_READ_LINEAGE).fetchone() == (True,)
            told = conn.execute(LINEAGE if may_read else LINEAGE_GUESS).fetchone()
            assert told is not None
            self._lineage = (started_at, str(told[0]))
        return self._lineage[1]

    def _write(
        self,
        conn: Connection,
        rows: Mapping[str, _Row],
        states: Mapping[str, State],
        lineage: str,
        now_us: int,
    ) -> None:
        for key, state in states.items():
            conn.execute(WRITE, [_text(dump(state)), lineage, instant(now_us), key])
            if rows[key].rules != self._rules[key]:
                conn.execute(WRITE_RULES, [_text(self._rules[key]), key])


def _read(conn: Connection, statement: str, keys: Sequence[str]) -> dict[str, _Row]:
    return {
        key: _Row(rules, load(state) if state else None, lineage, started_at)
        for key, rules, state, lineage, started_at in conn.execute(statement, [list(keys)])
    }


def _note(conn: Connection, note: Note, report: CallReport) -> None:
    if isinstance(note, LedgerCall):
        conn.execute(
            BEGAN,
            [
                note.ticket_id,
                note.key,
                note.owner,
                note.purpose,
                note.cost,
                note.begun_at,
                note.lease_until,
            ],
        )
    elif note.status == "lost":
        conn.execute(LOST, [note.arrived_by, note.ticket_id, note.key])
    else:
        conn.execute(
            ENDED,
            [
                note.status,
                note.finished_at,
                note.arrived_by,
                report.result or None,
                report.http_status,
                report.seats_paid,
                list(report.skus),
                note.ticket_id,
                note.key,
            ],
        )


def _line(values: Sequence[Any]) -> LedgerCall:
    names = LedgerCall.__slots__
    return LedgerCall(**dict(zip(names, values, strict=True)))


def _rules(resource: Resource) -> Any:  # noqa: ANN401 - JSON, as the table holds it
    return json.loads(_text(dump_rules(resource)))


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
