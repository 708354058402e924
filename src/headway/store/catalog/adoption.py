"""Take over a database that was made by one of the design documents, in one transaction.

The tables move into the schema `before_headway`, as they are. Ours are made, and filled from them;
columns that Headway does not know are added to ours. Views follow, and every role that could read
a table can read ours. If anything fails, nothing has happened.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from headway.clock import Clock
from headway.core.catalog.adoption import (
    HISTORY,
    SCHEDULE,
    TABLES,
    AdoptionPlan,
    DesignDocument,
    TableAdoption,
    TableShape,
    plan_adoption,
    recognize,
)
from headway.errors import ConfigError, ConflictError, InvariantError
from headway.store import migrate
from headway.store.catalog.adoption_sql import ASIDE, copy_rows
from headway.store.pool import Pool, guarded

Conn = Connection[tuple[Any, ...]]
REHEARSAL = "headway_rehearsal"

SHAPES = """
SELECT relation.relname, column_.attname, format_type(column_.atttypid, column_.atttypmod),
  CASE relation.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view'
    WHEN 'f' THEN 'foreign table' ELSE 'table' END
FROM pg_class AS relation
JOIN pg_attribute AS column_ ON column_.attrelid = relation.oid
WHERE relation.relnamespace = current_schema()::regnamespace
  AND relation.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND column_.attnum > 0 AND NOT column_.attisdropped AND column_.attgenerated = ''
ORDER BY relation.relname, column_.attnum
"""
# What the database knows to be in the way, each as a sentence.
OBSTACLES = """
SELECT format('the foreign key %%s of %%s refers to %%s: drop it first',
  conname, conrelid::regclass, confrelid::regclass)
FROM pg_constraint
WHERE contype = 'f' AND confrelid = ANY(%(oids)s) AND conrelid <> ALL(%(oids)s)
UNION ALL
SELECT format('you are not the owner of %%s: run this as %%s', oid::regclass,
  pg_get_userbyid(relowner))
FROM pg_class WHERE oid = ANY(%(oids)s) AND NOT pg_has_role(relowner, 'USAGE')
UNION ALL
SELECT format('there is a schema %%s already: rename or drop it', nspname)
FROM pg_namespace WHERE nspname = %(aside)s
UNION ALL
SELECT format('the materialized view %%s reads %%s: drop it first', view.oid::regclass,
  dependency.refobjid::regclass)
FROM pg_depend AS dependency JOIN pg_rewrite AS rule ON rule.oid = dependency.objid
  JOIN pg_class AS view ON view.oid = rule.ev_class
WHERE dependency.refobjid = ANY(%(oids)s) AND view.relkind = 'm'
"""
OIDS = """
SELECT coalesce(array_agg(oid), '{}') FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(%s)
"""
NAMES = f"SELECT user_id::text, sku::text FROM {SCHEDULE}"
# Their definitions are read before the tables move: then they name the tables without a schema.
VIEWS = """
SELECT DISTINCT view.oid::regclass::text, pg_get_viewdef(view.oid)
FROM pg_depend AS dependency JOIN pg_rewrite AS rule ON rule.oid = dependency.objid
  JOIN pg_class AS view ON view.oid = rule.ev_class
WHERE dependency.classid = 'pg_rewrite'::regclass AND dependency.refobjid = ANY(%s)
  AND view.relkind = 'v'
"""
# Row-level security of theirs is carried over as far as it names roles; ours adds its own.
READERS = """
SELECT relation.relname, role.rolname, relation.relrowsecurity, relation.relname, NULL
FROM pg_class AS relation CROSS JOIN LATERAL aclexplode(relation.relacl) AS acl
JOIN pg_roles AS role ON role.oid = acl.grantee
WHERE relation.oid = ANY(%s) AND acl.privilege_type = 'SELECT' AND role.oid <> relation.relowner
"""
POLICIES = """
SELECT tablename, policyname, roles::text[], qual FROM pg_policies
WHERE schemaname = current_schema() AND tablename = ANY(%s) AND cmd IN ('SELECT', 'ALL')
  AND permissive = 'PERMISSIVE' AND NOT 'public' = ANY(roles) AND qual IS NOT NULL
"""
# What stays behind: triggers, other policies, and what binds a column that is carried along.
NOT_CARRIED = """
WITH carried AS (
  SELECT relation.oid AS relation, column_.attnum, column_.attname, column_.attnotnull,
    column_.atthasdef
  FROM jsonb_to_recordset(%(carried)s) AS chosen(name text, columns jsonb)
  JOIN pg_class AS relation ON relation.relname = chosen.name AND relation.oid = ANY(%(oids)s)
  JOIN pg_attribute AS column_ ON column_.attrelid = relation.oid
    AND chosen.columns ? column_.attname::text
)
SELECT format('the trigger %%s of %%s', tgname, tgrelid::regclass)
FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
WHERE tgrelid = ANY(%(oids)s) AND NOT tgisinternal AND proname <> 'set_sync_schedule_updated_at'
UNION ALL
SELECT format('the policy %%s of %%s (%%s for %%s)', policyname, tablename, cmd,
  array_to_string(roles, ', '))
FROM pg_policies
WHERE schemaname = current_schema() AND tablename = ANY(%(tables)s) AND (
  cmd NOT IN ('SELECT', 'ALL') OR permissive <> 'PERMISSIVE' OR 'public' = ANY(roles)
  OR qual IS NULL)
UNION ALL
SELECT format('NOT NULL of %%s.%%s, which has no default', relation::regclass, attname)
FROM carried WHERE attnotnull AND NOT atthasdef
UNION ALL
SELECT DISTINCT format('the constraint %%s of %%s: %%s', conname, conrelid::regclass,
  pg_get_constraintdef(oid))
FROM pg_constraint JOIN carried ON relation = conrelid AND attnum = ANY(conkey)
WHERE contype <> 'n'
UNION ALL
SELECT DISTINCT format('the index %%s of %%s', indexrelid::regclass, indrelid::regclass)
FROM pg_index JOIN carried ON relation = indrelid AND attnum = ANY(indkey)
WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
ORDER BY 1
"""
PROCEDURES = """
SELECT oid::regprocedure::text FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace AND proname IN (
  'set_sync_schedule_updated_at', 'dispatch_sync_bucket', 'dispatch_sync_catchup',
  'calculate_next_sync_at')
"""
DEFAULTS = """
SELECT pg_get_expr(adbin, adrelid), attnotnull FROM pg_attrdef JOIN pg_attribute
  ON attrelid = adrelid AND attnum = adnum
WHERE adrelid = format('%%I.%%I', %(schema)s::text, %(table)s::text)::regclass
  AND attname = %(column)s AND pg_get_expr(adbin, adrelid) NOT LIKE 'nextval%%'
"""
# Some hosts grant every new table to roles of theirs by default.
REVOKE_DEFAULTS = """
SELECT DISTINCT format('REVOKE ALL ON %%s FROM %%s', relation.oid::regclass,
  CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(role.rolname) END)
FROM pg_class AS relation CROSS JOIN LATERAL aclexplode(relation.relacl) AS acl
LEFT JOIN pg_roles AS role ON role.oid = acl.grantee
WHERE relation.relnamespace = current_schema()::regnamespace AND relation.relkind IN ('r', 'p', 'v')
  AND relation.oid <> ALL(%s) AND acl.grantee <> relation.relowner
  AND coalesce(role.rolname, '') <> 'headway_seller'
"""
MONTHS = f"""
SELECT make_history_month(month) FROM (
  SELECT DISTINCT date_trunc('month', sync_timestamp AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS month
  FROM {ASIDE}.{HISTORY} WHERE sync_timestamp IS NOT NULL) AS months
"""
COUNT_SELLERS = """
INSERT INTO profiles (user_id, listing_count, created_at, updated_at)
SELECT user_id, count(*) FILTER (WHERE is_active), %(now)s, %(now)s
FROM product_sync_schedule GROUP BY user_id
"""
# Each counted failure has an event that says where it comes from.
FAILURES = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, new_value, error_message,
  error_code, created_at)
SELECT user_id, sku, greatest(last_sync_at, last_successful_sync, created_at), 'sync_failed',
  jsonb_build_object('failures', consecutive_failures),
  'taken over with ' || consecutive_failures || ' failures: ' || coalesce(last_error, 'no reason'),
  'TAKEN_OVER', %(now)s
FROM product_sync_schedule WHERE consecutive_failures > 0
"""
PLACED = "INSERT INTO timetable (policy, adopted_at) VALUES (%s, %s)"
RECORD = "INSERT INTO adoption (document, adopted_at, report) VALUES (%s, %s, %s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A takeover: the plan it followed, and what it wrote."""

    plan: AdoptionPlan
    rows: Mapping[str, int]
    left: Mapping[str, int]
    migrations: tuple[str, ...]


def find_plan(pool: Pool) -> AdoptionPlan | None:
    """Return what a takeover of the database would do; None if no document made it.

    Changes nothing.
    """
    with guarded(), pool.connection() as conn:
        if migrate.version_of(conn) > 0 or recognize(_shapes(conn)) is None:
            return None
        theirs, obstacles, names = _survey(conn)
        plan = plan_adoption(theirs, _rehearse(conn), obstacles=obstacles, names=names)
        return plan and _with_losses(conn, plan)


def adopt(pool: Pool, clock: Clock) -> Adopted:
    """Take the database over, with all migrations; raises ConflictError if that is impossible."""
    with guarded(), pool.connection() as conn, conn.transaction():
        version = migrate.lock(conn)
        theirs, obstacles, names = _survey(conn, is_locked=True)
        if version > 0 or recognize(theirs) is None:
            raise ConflictError("no design document made this database; see: headway db status")
        ours = _rehearse(conn)
        plan = plan_adoption(theirs, ours, obstacles=obstacles, names=names)
        assert plan is not None
        plan = _with_losses(conn, plan)
        if plan.impossible:
            raise ConflictError("nothing was done: " + "; ".join(plan.impossible))
        with _moved_aside(conn, theirs) as kept:
            labels = [_migrate(conn, step, clock) for step in migrate.load()]
            for (statement,) in conn.execute(REVOKE_DEFAULTS, (kept,)).fetchall():
                conn.execute(statement.encode())
            rows = {
                table.table: _fill(
                    conn,
                    table,
                    (theirs[table.table], ours[table.table]),
                    document=plan.document,
                    now=clock.now(),
                )
                for table in plan.tables
            }
        _record(conn, plan, rows, clock)
    left = {table.table: table.rows - rows[table.table] for table in plan.tables}
    return Adopted(plan=plan, rows=rows, left=left, migrations=tuple(labels))


def _survey(
    conn: Conn, *, is_locked: bool = False
) -> tuple[dict[str, TableShape], list[str], list[tuple[str, str]]]:
    """Return their tables with row counts, what is in the way, and the schedule's names."""
    theirs = _shapes(conn)
    tables = [name for name in TABLES if name in theirs and theirs[name].kind == "table"]
    for name in tables:
        if is_locked:
            conn.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
        (rows,) = conn.execute(f"SELECT count(*) FROM {name}").fetchone() or (0,)
        theirs[name] = TableShape(columns=theirs[name].columns, rows=int(rows))
    values = {"oids": _oids(conn, tables), "aside": ASIDE}
    obstacles = [sentence for (sentence,) in conn.execute(OBSTACLES, values)]
    schedule = theirs.get(SCHEDULE)
    is_keyed = schedule is not None and {"user_id", "sku"} <= schedule.columns.keys()
    names = conn.execute(NAMES).fetchall() if is_keyed else []
    return theirs, obstacles, [(seller or "", sku or "") for seller, sku in names]


def _with_losses(conn: Conn, plan: AdoptionPlan) -> AdoptionPlan:
    """Return the plan with what of the former tables ours do not get."""
    tables = [table.table for table in plan.tables]
    carried = [
        {"name": table.table, "columns": [theirs for theirs, _ in table.carried]}
        for table in plan.tables
    ]
    values = {"oids": _oids(conn, tables), "tables": tables, "carried": Jsonb(carried)}
    losses = conn.execute(NOT_CARRIED, values).fetchall()
    return replace(plan, not_carried=tuple(sentence for (sentence,) in losses))


def _rehearse(conn: Conn) -> dict[str, TableShape]:
    """Return our tables: make them in a schema of their own, and undo it."""
    with conn.transaction(force_rollback=True):
        conn.execute(f"CREATE SCHEMA {REHEARSAL}")
        conn.execute(f"SET LOCAL search_path TO {REHEARSAL}")
        for step in migrate.load():
            migrate.apply(conn, step, step.up)
        return _shapes(conn)


def _shapes(conn: Conn) -> dict[str, TableShape]:
    shapes: dict[str, TableShape] = {}
    for table, column, type_, kind in conn.execute(SHAPES):
        known = shapes.get(table)
        columns = {**(known.columns if known else {}), column: type_}
        shapes[table] = TableShape(columns=columns, kind=kind)
    shapes.pop("headway_migration", None)
    return shapes


def _oids(conn: Conn, tables: list[str]) -> list[int]:
    row = conn.execute(OIDS, (tables,)).fetchone()
    return list(row[0]) if row else []


@contextmanager
def _moved_aside(conn: Conn, theirs: Mapping[str, TableShape]) -> Iterator[list[int]]:
    """Move their tables and procedures into their schema; then restore views and readers."""
    tables = [name for name in TABLES if name in theirs and theirs[name].kind == "table"]
    oids = _oids(conn, tables)
    views = conn.execute(VIEWS, (oids,)).fetchall()
    readers = conn.execute(READERS, (oids,)).fetchall()
    policies = conn.execute(POLICIES, (tables,)).fetchall()
    kept = _oids(conn, list(theirs))
    conn.execute(f"CREATE SCHEMA IF NOT EXISTS {ASIDE}")
    for table in tables:
        conn.execute(f"ALTER TABLE {table} SET SCHEMA {ASIDE}")
    for (procedure,) in conn.execute(PROCEDURES).fetchall():
        conn.execute(f"ALTER FUNCTION {procedure} SET SCHEMA {ASIDE}")
    yield kept
    for view, definition in views:
        _replace_view(conn, view, definition)
    for table, role, is_restricted, *_ in readers:
        names = {"table": sql.Identifier(table), "role": sql.Identifier(role)}
        conn.execute(sql.SQL("GRANT SELECT ON {table} TO {role}").format(**names))
        if not is_restricted:
            policy = sql.Identifier(f"reader_{role}")
            conn.execute(
                sql.SQL("CREATE POLICY {policy} ON {table} FOR SELECT TO {role} USING (true)")
                .format(policy=policy, **names)
            )  # fmt: skip
    for table, policy, roles, condition in policies:
        conn.execute(
            sql.SQL("CREATE POLICY {} ON {} FOR SELECT TO {} USING ({})").format(
                sql.Identifier(f"{policy} (before Headway)"),
                sql.Identifier(table),
                sql.SQL(", ").join(map(sql.Identifier, roles)),
                sql.SQL(condition),
            )
        )


def _replace_view(conn: Conn, view: str, definition: str) -> None:
    try:
        conn.execute(f"CREATE OR REPLACE VIEW {view} AS {definition}".encode())
    except psycopg.Error as error:
        raise ConflictError(
            f"nothing was done: the view {view} does not fit the new tables"
            f" ({error.diag.message_primary}); drop it first, and create it again after"
        ) from None


def _migrate(conn: Conn, step: migrate.Migration, clock: Clock) -> str:
    migrate.apply(conn, step, step.up)
    migrate.record(conn, step, clock)
    return step.label


def _fill(
    conn: Conn,
    table: TableAdoption,
    shapes: tuple[TableShape, TableShape],
    *,
    document: DesignDocument,
    now: datetime,
) -> int:
    """Add their own columns to one of our tables and copy its rows; return how many."""
    name, (theirs, ours) = table.table, shapes
    for column, new_name in table.carried:
        _add_column(conn, name, column, new_name, theirs.columns[column])
    if name == HISTORY:
        conn.execute(MONTHS)
    statement = copy_rows(table, theirs, ours, document)
    try:
        count = conn.execute(statement.encode(), {"now": now}).rowcount
    except psycopg.DataError as error:
        raise ConfigError(
            f"nothing was done: a row of {name} cannot be taken over:"
            f" {error.diag.message_primary}; correct it and run this again"
        ) from None
    if name == SCHEDULE and count != theirs.rows:
        raise InvariantError(f"{theirs.rows} rows of {name} became {count}")
    return count


def _add_column(conn: Conn, table: str, column: str, new_name: str, type_: str) -> None:
    values = {"schema": ASIDE, "table": table, "column": column}
    default = conn.execute(DEFAULTS, values).fetchone()
    conn.execute(
        sql.SQL("ALTER TABLE {} ADD COLUMN {} {} {}").format(
            sql.Identifier(table),
            sql.Identifier(new_name),
            sql.SQL(type_),
            # Headway does not fill it: without a default it must be allowed to be empty.
            sql.SQL(f"DEFAULT {default[0]}{' NOT NULL' * default[1]}" if default else ""),
        )
    )
    conn.execute(
        sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(
            sql.Identifier(table),
            sql.Identifier(new_name),
            sql.Literal("Kept from the database that was taken over; Headway does not use it."),
        )
    )


def _record(conn: Conn, plan: AdoptionPlan, rows: Mapping[str, int], clock: Clock) -> None:
    now = clock.now()
    conn.execute(COUNT_SELLERS, {"now": now})
    conn.execute(FAILURES, {"now": now})
    if plan.policy is not None:
        conn.execute(PLACED, (plan.policy, now))
    conn.execute(RECORD, (plan.document.value, now, Jsonb({**asdict(plan), "copied": dict(rows)})))
