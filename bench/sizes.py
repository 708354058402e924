"""Bytes that a listing, an event and a call take in every table and index, and the cost of upkeep.

The tables are those of `bench.views`, just filled: no bloat. Processor time is also given per
million rows, so that larger tables can be estimated; sorting and cold disks come on top.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from bench.processor import seconds_of
from bench.services import CLOCK, postgres, scratch, version
from bench.table import report_progress, show
from bench.views import EVENTS_EACH, SETTINGS, filled
from headway.store.server.embedded import EmbeddedServer
from headway.store.server.launch import find_programs

ROWS = 100_000
LISTED = ("product_sync_schedule", "listing_state", "listing_search", "product")
TABLES = (*LISTED, "sync_audit_log", "call_ledger")
# Of a table in parts the parts are measured; pg_partition_tree knows none of any other.
WHOLE = """coalesce((SELECT sum({size}(relid)) FROM pg_partition_tree({of})), {size}({of}))"""
SIZES = f"""
SELECT 1, 'table, all of it',
  {WHOLE.format(size="pg_total_relation_size", of="%(table)s::regclass")},
  (SELECT count(*) FROM {{table}})
UNION ALL
SELECT 2, 'rows alone', {WHOLE.format(size="pg_relation_size", of="%(table)s::regclass")}, 0
UNION ALL
SELECT 3, 'index ' || indexrelid::regclass,
  {WHOLE.format(size="pg_relation_size", of="indexrelid::regclass")}, 0
FROM pg_index WHERE indrelid = %(table)s::regclass
ORDER BY 1, 3 DESC
"""
MOVE = """
UPDATE product_sync_schedule SET next_sync_at = next_sync_at + interval '1 day', fence = fence + 1
"""
VACUUM = "VACUUM product_sync_schedule"
INDEX = """
CREATE INDEX CONCURRENTLY bench ON product_sync_schedule (priority, next_sync_at)
WHERE is_active AND sync_status <> 'syncing'
"""
COLUMN = "ALTER TABLE product_sync_schedule ADD COLUMN bench integer NOT NULL DEFAULT 0"
CHECK = "ALTER TABLE product_sync_schedule ADD CONSTRAINT bench CHECK (fence >= 0)"


def run(*, rows: int = ROWS) -> None:
    """Fill, measure, print."""
    with scratch() as folder, postgres(folder / "sizes", SETTINGS) as server:
        pool = filled(server, rows)
        try:
            sizes = [row for table in TABLES for row in _sizes(pool, table)]
            upkeep = _upkeep(server, pool, folder, rows)
        finally:
            pool.close()
        show(
            f"sizes: {rows:,} listings, {rows * EVENTS_EACH:,} events, just filled (bytes a row)",
            ("table or index", "bytes a row"),
            sizes,
            version(server),
        )
        show(
            f"upkeep of these {rows:,} listings",
            ("what", "took s", "processor s", "processor s a million"),
            upkeep,
            "processor: of the server alone; dump: of everything, with the events, uncompressed",
        )


def _sizes(pool: ConnectionPool, table: str) -> list[tuple[str, str]]:
    with pool.connection() as connection:
        rows = connection.execute(SIZES.format(table=table).encode(), {"table": table}).fetchall()
    count = rows[0][3]
    return [
        (table if kind == 1 else f"  {name}", f"{size / count:,.0f}")
        for kind, name, size, _ in rows
    ]


def _upkeep(
    server: EmbeddedServer, pool: ConnectionPool, folder: Path, rows: int
) -> list[tuple[str, ...]]:
    def run_statement(statement: str) -> Callable[[], object]:
        def do() -> None:
            with pool.connection() as connection:
                connection.execute(statement.encode())

        return do

    steps: dict[str, Callable[[], object]] = {
        "move every due time once": run_statement(MOVE),
        "vacuum after that": run_statement(VACUUM),
        "build the claim's index, concurrently": run_statement(INDEX),
        "add a column with a default": run_statement(COLUMN),
        "add a check, reading all rows": run_statement(CHECK),
        "dump": lambda: _dump(server.dsn(f"views_{rows}"), folder / "dump"),
    }
    table: list[tuple[str, ...]] = []
    for name, do in steps.items():
        report_progress(name)
        at_s, spent_s = CLOCK.monotonic(), seconds_of(server.pid)
        do()
        took_s, spent_s = CLOCK.monotonic() - at_s, seconds_of(server.pid) - spent_s
        figures = (f"{took_s:.2f}", f"{spent_s:.2f}", f"{spent_s * 1e6 / rows:,.1f}")
        table.append((name, *figures))
    return table


def _dump(dsn: str, file: Path) -> None:
    """Dump a database; its password is in the environment, where no process list shows it."""
    parameters = conninfo_to_dict(dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
    environ = {names[name]: str(value) for name, value in parameters.items() if name in names}
    command = [
        str(find_programs().path("pg_dump")),
        "-Fc",
        "-Z0",
        "-f",
        str(file),
        "-d",
        str(parameters["dbname"]),
    ]
    subprocess.run(command, env={**os.environ, **environ}, check=True)
    report_progress(f"the dump has {file.stat().st_size / 1e6:,.0f} MB")
