"""The schema's versions: numbered files applied in order, each in one transaction, up and down.

Any number of processes may upgrade at once: they queue at a lock that ends with the transaction.
While old and new processes run together, only what both tolerate may be applied; the first line
of a file says so, see `MigrationKind`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable

import psycopg
from psycopg import Connection

from headway.clock import Clock
from headway.errors import ConfigError, InvariantError, StoreError
from headway.store.pool import Pool, guarded

FOLDER = files("headway.store") / "migrations"
LOCK_KEY = 0x68656164776179  # "headway"
# The SQLSTATE a migration raises if a person must do something before it can be applied.
PERSON_NEEDED = "HW001"
# A user who does not own the tables would see no rows, and no error.
IS_HIDDEN = "SELECT row_security_active('product_sync_schedule')"
FILE_NAME = re.compile(r"(\d{4})_(\w+)\.(up|down)\.sql")
KIND_LINE = re.compile(rb"-- (pre|post): ")
RECORDS = b"""
CREATE TABLE IF NOT EXISTS headway_migration (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL);
ALTER TABLE headway_migration ADD COLUMN IF NOT EXISTS kind text NOT NULL DEFAULT 'plain';
"""
RECORD = "INSERT INTO headway_migration (version, name, applied_at, kind) VALUES (%s, %s, %s, %s)"
FIRST = "SELECT name FROM headway_migration WHERE version = 1"
# A table that had no kinds yet holds plain migrations only.
UNTOLERATED = """
SELECT count(*) FROM headway_migration AS row
WHERE version > %s AND coalesce(to_jsonb(row) ->> 'kind', 'plain') <> 'pre'
"""


class MigrationKind(StrEnum):
    """Which processes tolerate a migration.

    A plain one needs all processes stopped. After `pre`, old processes run on, and new ones need
    it; new ones run without `post`, and old ones cannot run with it.
    """

    PLAIN = "plain"
    PRE = "pre"
    POST = "post"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    up: bytes
    down: bytes

    @property
    def label(self) -> str:
        """The name of its files."""
        return f"{self.version:04}_{self.name}"

    @property
    def kind(self) -> MigrationKind:
        """Which processes tolerate it, by its first line."""
        matched = KIND_LINE.match(self.up)
        return MigrationKind(matched[1].decode()) if matched else MigrationKind.PLAIN


def load(folder: Traversable = FOLDER) -> list[Migration]:
    """Read all migrations in order; a gap or a missing half is a bug."""
    halves: dict[tuple[int, str], dict[str, bytes]] = {}
    for file in folder.iterdir():
        matched = FILE_NAME.fullmatch(file.name)
        if matched:
            number, name, half = matched.groups()
            halves.setdefault((int(number), name), {})[half] = file.read_bytes()
    migrations = []
    for expected, ((version, name), texts) in enumerate(sorted(halves.items()), start=1):
        if version != expected or texts.keys() != {"up", "down"}:
            raise InvariantError(f"migration {version:04}_{name} is out of order or lacks a half")
        migrations.append(Migration(version=version, name=name, **texts))
    return migrations


def current(pool: Pool) -> int:
    """Return the version the database is at; 0 if it is empty."""
    with guarded(), pool.connection() as conn:
        return version_of(conn)


def pending(pool: Pool, *, folder: Traversable = FOLDER) -> list[Migration]:
    """Return the migrations that an upgrade would apply."""
    migrations = load(folder)
    with guarded(), pool.connection() as conn:
        version = version_of(conn)
        _refuse_unknown(conn, version, migrations)
    return migrations[version:]


def require_current(pool: Pool, place: str, *, folder: Traversable = FOLDER) -> None:
    """Raise StoreError unless this code works with the schema; `place` names the database."""
    missing = [
        migration
        for migration in pending(pool, folder=folder)
        if migration.kind is not MigrationKind.POST
    ]
    if missing:
        raise StoreError(
            f"{place} lacks {len(missing)} migration(s), next {missing[0].label};"
            " run: headway db upgrade"
        )
    with guarded(), pool.connection() as conn:
        if conn.execute(IS_HIDDEN).fetchone() == (True,):
            raise ConfigError(
                f"{place} shows its rows to the tables' owner alone; connect as the user who ran"
                " headway db upgrade"
            )


def upgrade(
    pool: Pool,
    clock: Clock,
    to: int | None = None,
    *,
    only_pre: bool = False,
    folder: Traversable = FOLDER,
) -> list[str]:
    """Apply what is missing, up to the given version or the newest; return what was applied.

    With `only_pre` it stops at the first that old processes do not tolerate.
    """
    migrations = load(folder)
    target = _known(len(migrations) if to is None else to, migrations)
    applied: list[str] = []
    with guarded(), pool.connection() as conn:
        while True:
            with conn.transaction():
                version = lock(conn)
                _refuse_unknown(conn, version, migrations)
                if version >= target:
                    return applied
                step = migrations[version]
                if only_pre and step.kind is not MigrationKind.PRE:
                    return applied
                apply(conn, step, step.up)
                record(conn, step, clock)
            applied.append(step.label)


def downgrade(pool: Pool, clock: Clock, to: int, *, folder: Traversable = FOLDER) -> list[str]:
    """Undo migrations, newest first, until the given version; return what was undone."""
    del clock  # the record of an undone migration goes with it
    migrations = load(folder)
    target = _known(to, migrations)
    undone: list[str] = []
    with guarded(), pool.connection() as conn:
        while True:
            with conn.transaction():
                version = lock(conn)
                _refuse_unknown(conn, version, migrations, is_strict=True)
                if version <= target:
                    if version == 0:
                        conn.execute("DROP TABLE headway_migration")
                    return undone
                step = migrations[version - 1]
                apply(conn, step, step.down)
                conn.execute("DELETE FROM headway_migration WHERE version = %s", (version,))
            undone.append(step.label)


def lock(conn: Connection) -> int:
    """Wait for other upgraders, then return the version as they left it."""
    conn.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_KEY,))
    conn.execute(RECORDS)
    return version_of(conn)


def record(conn: Connection, step: Migration, clock: Clock) -> None:
    """Record that a migration was applied."""
    conn.execute(RECORD, (step.version, step.name, clock.now(), step.kind))


def version_of(conn: Connection) -> int:
    """Return the version the database is at; 0 if it is empty."""
    exists = conn.execute("SELECT to_regclass('headway_migration') IS NOT NULL").fetchone()
    if exists != (True,):
        return 0
    row = conn.execute("SELECT coalesce(max(version), 0) FROM headway_migration").fetchone()
    assert row is not None
    return int(row[0])


def apply(conn: Connection, step: Migration, statements: bytes) -> None:
    """Execute one half of a migration, in the caller's transaction."""
    try:
        with guarded():
            conn.execute(statements)
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, psycopg.Error) and cause.sqlstate == PERSON_NEEDED:
            raise ConfigError(str(cause.diag.message_primary)) from None
        raise StoreError(f"migration {step.label} failed and was undone: {error}") from error


def _known(version: int, migrations: list[Migration]) -> int:
    if not 0 <= version <= len(migrations):
        raise ConfigError(f"there is no migration {version}; the newest is {len(migrations)}")
    return version


def _refuse_unknown(
    conn: Connection, version: int, migrations: list[Migration], *, is_strict: bool = False
) -> None:
    """Raise StoreError if the database has migrations that this code does not tolerate."""
    first = version and conn.execute(FIRST).fetchone()
    if first and migrations and first != (migrations[0].name,):
        raise StoreError(
            f"the database was created by an earlier development version ({version} migrations,"
            f" the first is {first[0]}), which cannot be upgraded; set DATABASE_URL or"
            " HEADWAY_DATA_DIR to a new database, connect the shops and accounts again, and import"
        )
    if version <= len(migrations):
        return
    if is_strict or conn.execute(UNTOLERATED, (len(migrations),)).fetchone() != (0,):
        raise StoreError(
            f"the database is at migration {version} but this headway knows only"
            f" {len(migrations)}; install a newer headway"
        )
