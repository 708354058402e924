"""Migrations against a real PostgreSQL, both ways."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from headway.errors import ConfigError, InvariantError, StoreError
from headway.store import migrate
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

SCHEMA = """
    SELECT 'column', table_name, column_name, data_type, is_nullable, column_default
      FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL
    SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', ''
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'index', tablename, indexname, indexdef, '', ''
      FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 'relation', relname, relkind::text, '', '', ''
      FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'function', proname, pg_get_functiondef(oid), '', '', ''
      FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'type', typname, '', '', '', ''
      FROM pg_type WHERE typnamespace = 'public'::regnamespace
    ORDER BY 1, 2, 3, 4"""

HALVES = ("up", "down")
ALLOWED = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s"
ALLOW = """
ALTER DOMAIN audit_event_type DROP CONSTRAINT audit_event_type_check;
ALTER DOMAIN audit_event_type ADD CONSTRAINT audit_event_type_check {check};
"""
LATER_UP = "ALTER TABLE product_sync_schedule ADD COLUMN note text NOT NULL DEFAULT 'none';"
LATER_DOWN = """
DELETE FROM sync_audit_log WHERE event_type = 'later';
ALTER TABLE product_sync_schedule DROP COLUMN note;
"""
FILL = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)
SELECT 'acme', 'P' || n, n % 24, now() FROM generate_series(1, 1000) AS n;
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)
SELECT 'acme', 'P' || n, now() - n * interval '1 hour', 'price_changed'
FROM generate_series(1, 1000) AS n;
"""
LISTINGS = "SELECT user_id, sku, hour_bucket FROM product_sync_schedule ORDER BY sku"
EVENT = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)
VALUES ('acme', 'P1', now(), %s)
"""


def schema(pool: ConnectionPool) -> list[tuple[str, ...]]:
    with pool.connection() as conn:
        return conn.execute(SCHEMA).fetchall()


@pytest.fixture
def empty(postgres: EmbeddedServer) -> Iterator[ConnectionPool]:
    """A pool on a database that was never migrated."""
    postgres.ensure_database("test_empty")
    with open_pool(postgres.dsn("test_empty")) as opened:
        yield opened
    postgres.drop_database("test_empty")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small migrations of our own."""
    files = {
        "0001_first.up.sql": "CREATE TABLE one (a int); CREATE TABLE two (b int DEFAULT 5 % 3);",
        "0001_first.down.sql": "DROP TABLE one; DROP TABLE two;",
        "0002_second.up.sql": "CREATE TABLE three (c int);",
        "0002_second.down.sql": "DROP TABLE three;",
        "README.md": "not a migration",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_up_down_and_up_again_gives_the_same_schema_and_down_leaves_nothing(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    labels = [migration.label for migration in migrate.load()]
    assert migrate.pending(empty) == migrate.load()
    assert migrate.upgrade(empty, clock) == labels
    before = schema(empty)
    assert any("product_sync_schedule" in row for row in before)
    assert migrate.current(empty) == len(labels)
    assert migrate.pending(empty) == []

    assert migrate.downgrade(empty, clock, 0) == labels[::-1]
    assert schema(empty) == []
    assert migrate.current(empty) == 0

    assert migrate.upgrade(empty, clock) == labels
    assert schema(empty) == before


def test_every_single_step_down_undoes_exactly_its_step_up(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    schemas = [[]]
    for migration in migrate.load():
        migrate.upgrade(empty, clock, migration.version)
        schemas.append(schema(empty))
    for version in reversed(range(1, len(schemas) - 1)):
        migrate.downgrade(empty, clock, version)
        assert schema(empty) == schemas[version]


def extended(folder: Path, check: str) -> Path:
    """Write the shipped migrations, and one more that adds a column and an event type."""
    known = migrate.load()
    files = {
        f"{step.label}.{half}": getattr(step, half).decode() for step in known for half in HALVES
    }
    label = f"{len(known) + 1:04}_later"
    wider = check.replace("ARRAY[", "ARRAY['later'::text, ")
    files[f"{label}.up"] = LATER_UP + ALLOW.format(check=wider)
    files[f"{label}.down"] = LATER_DOWN + ALLOW.format(check=check)
    for name, text in files.items():
        (folder / f"{name}.sql").write_text(text)
    return folder


def test_a_later_migration_keeps_the_data_up_and_down(
    empty: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    def rows(statement: str, *values: object) -> list[tuple[str, ...]]:
        with empty.connection() as conn:
            return conn.execute(statement, values).fetchall()

    migrate.upgrade(empty, clock)
    with empty.connection() as conn:
        conn.execute(FILL)
    before, listings = schema(empty), rows(LISTINGS)
    later = extended(tmp_path, rows(ALLOWED, "audit_event_type_check")[0][0])
    (label,) = migrate.upgrade(empty, clock, folder=later)
    assert rows(LISTINGS) == listings
    assert rows("SELECT DISTINCT note FROM product_sync_schedule") == [("none",)]
    with empty.connection() as conn:
        conn.execute("UPDATE product_sync_schedule SET note = 'new'")
        conn.execute(EVENT, ("later",))
    assert migrate.downgrade(empty, clock, len(migrate.load()), folder=later) == [label]
    assert schema(empty) == before
    assert rows(LISTINGS) == listings
    assert rows("SELECT event_type FROM sync_audit_log") == [("price_changed",)] * 1000
    with empty.connection() as conn, pytest.raises(psycopg.errors.CheckViolation):
        conn.execute(EVENT, ("later",))


def test_an_upgrade_records_name_and_instant_and_may_stop_midway(
    empty: ConnectionPool, clock: VirtualClock, folder: Path
) -> None:
    assert migrate.upgrade(empty, clock, 1, folder=folder) == ["0001_first"]
    assert [migration.label for migration in migrate.pending(empty, folder=folder)] == [
        "0002_second"
    ]
    with empty.connection() as conn:
        rows = conn.execute("SELECT version, name, applied_at FROM headway_migration").fetchall()
    assert rows == [(1, "first", clock.now())]
    assert migrate.upgrade(empty, clock, folder=folder) == ["0002_second"]
    assert migrate.upgrade(empty, clock, folder=folder) == []
    assert migrate.downgrade(empty, clock, 1, folder=folder) == ["0002_second"]
    assert migrate.current(empty) == 1


def test_a_failing_migration_leaves_nothing_of_itself_and_names_itself(
    empty: ConnectionPool, clock: VirtualClock, folder: Path
) -> None:
    (folder / "0002_second.up.sql").write_text("CREATE TABLE three (c int); SELECT nonsense;")
    with pytest.raises(StoreError, match=r"0002_second .*nonsense") as caught:
        migrate.upgrade(empty, clock, folder=folder)
    assert "\n" not in str(caught.value)
    assert migrate.current(empty) == 1
    assert not [row for row in schema(empty) if "three" in row]


def test_a_migration_and_its_record_stand_or_fall_together(
    empty: ConnectionPool, clock: VirtualClock, folder: Path
) -> None:
    # The second migration takes the place of its own record, so recording it must fail.
    (folder / "0002_second.up.sql").write_text(
        "CREATE TABLE three (c int); INSERT INTO headway_migration VALUES (2, 'second', now());"
    )
    with pytest.raises(StoreError, match="duplicate key"):
        migrate.upgrade(empty, clock, folder=folder)
    assert migrate.current(empty) == 1
    assert not [row for row in schema(empty) if "three" in row]


def test_several_upgraders_at_once_apply_each_migration_once(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    start = threading.Barrier(4)
    results: list[list[str]] = []

    def upgrade() -> None:
        start.wait()
        results.append(migrate.upgrade(empty, clock))

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert sorted(itertools.chain(*results)) == [migration.label for migration in migrate.load()]


def test_a_database_ahead_of_the_code_is_refused_with_advice(
    empty: ConnectionPool, clock: VirtualClock, folder: Path
) -> None:
    migrate.upgrade(empty, clock, folder=folder)
    for half in ("up", "down"):
        (folder / f"0002_second.{half}.sql").unlink()
    for act in (
        lambda: migrate.upgrade(empty, clock, folder=folder),
        lambda: migrate.downgrade(empty, clock, 0, folder=folder),
        lambda: migrate.pending(empty, folder=folder),
    ):
        with pytest.raises(StoreError, match=r"at migration 2 .* only 1; install a newer"):
            act()
    assert migrate.current(empty) == 2


def test_a_database_from_before_the_baseline_is_refused_with_advice(
    empty: ConnectionPool, clock: VirtualClock, folder: Path
) -> None:
    migrate.upgrade(empty, clock, folder=folder)
    for act in (
        lambda: migrate.upgrade(empty, clock),
        lambda: migrate.downgrade(empty, clock, 0),
        lambda: migrate.require_current(empty, "this database"),
    ):
        with pytest.raises(StoreError, match=r"\(2 migrations, .* first\).*to a new database,"):
            act()
    assert migrate.current(empty) == 2


@pytest.fixture
def halves(folder: Path) -> Path:
    """A rename in two halves: `pre` adds the new column, `post` drops the old one."""
    files = {
        "0003_rename.up.sql": "-- pre: old code goes on with c\nALTER TABLE three ADD d int;",
        "0003_rename.down.sql": "ALTER TABLE three DROP d;",
        "0004_renamed.up.sql": "-- post: nobody asks for c\nALTER TABLE three DROP c;",
        "0004_renamed.down.sql": "ALTER TABLE three ADD c int;",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def older(folder: Path, known: int) -> Path:
    """The migrations that older code knows."""
    copy = folder / f"known-{known}"
    copy.mkdir()
    for file in folder.glob("*.sql"):
        if int(file.name[:4]) <= known:
            (copy / file.name).write_text(file.read_text())
    return copy


def can_run(pool: ConnectionPool, folder: Path) -> bool:
    try:
        missing = migrate.pending(pool, folder=folder)
    except StoreError:
        return False
    return all(item.kind is migrate.MigrationKind.POST for item in missing)


def test_old_and_new_code_run_together_between_the_halves_of_a_change(
    empty: ConnectionPool, clock: VirtualClock, halves: Path
) -> None:
    old, new = older(halves, 2), halves
    migrate.upgrade(empty, clock, folder=old)
    assert (can_run(empty, old), can_run(empty, new)) == (True, False)
    assert migrate.upgrade(empty, clock, folder=new, only_pre=True) == ["0003_rename"]
    assert (can_run(empty, old), can_run(empty, new)) == (True, True)
    assert migrate.upgrade(empty, clock, folder=old) == [], "there is nothing for it to do"
    assert migrate.upgrade(empty, clock, folder=new) == ["0004_renamed"]
    assert (can_run(empty, old), can_run(empty, new)) == (False, True)


def test_old_code_undoes_nothing_that_it_does_not_know(
    empty: ConnectionPool, clock: VirtualClock, halves: Path
) -> None:
    migrate.upgrade(empty, clock, folder=halves, to=3)
    with pytest.raises(StoreError, match=r"at migration 3 .* only 2; install a newer"):
        migrate.downgrade(empty, clock, 1, folder=older(halves, 2))
    assert migrate.current(empty) == 3


def test_a_plain_migration_ends_what_may_be_applied_beside_running_processes(
    empty: ConnectionPool, clock: VirtualClock, halves: Path
) -> None:
    assert migrate.upgrade(empty, clock, folder=halves, only_pre=True) == []
    assert migrate.current(empty) == 0


def test_a_record_from_before_there_were_kinds_counts_as_plain(
    empty: ConnectionPool, clock: VirtualClock, halves: Path
) -> None:
    migrate.upgrade(empty, clock, folder=halves, to=3)
    with empty.connection() as conn:
        conn.execute("ALTER TABLE headway_migration DROP COLUMN kind")
    assert not can_run(empty, older(halves, 2))
    migrate.upgrade(empty, clock, folder=halves)
    assert can_run(empty, older(halves, 3)) is False


def test_an_unknown_version_is_refused_and_the_newest_is_named(
    empty: ConnectionPool, clock: VirtualClock, folder: Path
) -> None:
    with pytest.raises(ConfigError, match="no migration 3; the newest is 2"):
        migrate.upgrade(empty, clock, 3, folder=folder)
    with pytest.raises(ConfigError, match="no migration -1"):
        migrate.downgrade(empty, clock, -1, folder=folder)


@pytest.mark.parametrize("name", ("0001_first.down.sql", "0001_first.up.sql"))
def test_a_missing_half_is_a_bug(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InvariantError, match="0001_first"):
        migrate.load(folder)


def test_a_gap_and_a_number_used_twice_are_bugs(folder: Path) -> None:
    for half in ("up", "down"):
        (folder / f"0004_fourth.{half}.sql").write_text("SELECT 1")
    with pytest.raises(InvariantError, match="0004_fourth"):
        migrate.load(folder)
    for half in ("up", "down"):
        (folder / f"0004_fourth.{half}.sql").rename(folder / f"0002_again.{half}.sql")
    with pytest.raises(InvariantError, match="0002_second"):
        migrate.load(folder)


def test_a_downgrade_of_an_empty_database_does_nothing(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    assert migrate.downgrade(empty, clock, 0) == []
    assert schema(empty) == []


def test_an_upgrade_waits_for_an_upgrader_elsewhere(
    empty: ConnectionPool, clock: VirtualClock, folder: Path
) -> None:
    with empty.connection() as other:
        with other.transaction():
            migrate.lock(other)
            upgrader = threading.Thread(
                target=migrate.upgrade, args=(empty, clock), kwargs={"folder": folder}
            )
            upgrader.start()
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            looks = (other.execute(waiting).fetchone() == (1,) for _ in range(5000))
            assert any(looks), "nobody waits for the lock"
            with pytest.raises(psycopg.errors.UndefinedTable), other.transaction():
                other.execute("SELECT FROM one")
        upgrader.join()
    assert migrate.current(empty) == 2
