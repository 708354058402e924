"""The database of a simulation: a throw-away PostgreSQL in memory, or a database on a server.

A run that is killed leaves its database behind; the next run drops databases without a connection
for an hour.
"""

import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from psycopg import Connection, errors, sql
from psycopg.conninfo import make_conninfo

from headway.clock import SystemClock, fresh_id
from headway.errors import ConfigError
from headway.store.migrate import upgrade
from headway.store.pool import Pool, SoloPool, guarded, open_pool
from headway.store.server.embedded import EmbeddedServer

PREFIX = "headway-sim-"
DATABASE = "simulation"
POLL_S = 0.2
IDLE_COLUMN = 4
SOCKET_PATH_MAX = 80
# A run keeps a whole world in memory; scanning it for garbage all the time is a twentieth of the
# run. Objects that live for one call have no cycles.
GC_THRESHOLD = (100_000, 50, 100)
# Nothing here must outlive the run. Autovacuum works by the real clock, and would make two runs of
# one seed differ; the scenario vacuums at moments of its own.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    # No one monitors this server.
    "track_activities": "off",
    "track_counts": "off",
    "update_process_title": "off",
    # The same few statements all day; a plan for each call costs as much as the statement.
    "plan_cache_mode": "force_generic_plan",
}
# A database on a server has this in its name, and the time of creation.
NAME_PREFIX = "headway_sim"
NAME = f"SELECT '{NAME_PREFIX}_' || extract(epoch FROM now())::bigint || '_' || %s"
CREATE = "CREATE DATABASE {}"
DROP = "DROP DATABASE IF EXISTS {} WITH (FORCE)"
# A live run has a connection; without FORCE a database that was created just now is safe.
ABANDONED = f"""
SELECT datname FROM pg_database WHERE datname ~ '^{NAME_PREFIX}_[0-9]+_'
  AND split_part(datname, '_', 3)::bigint < extract(epoch FROM now()) - 3600
  AND NOT EXISTS (SELECT FROM pg_stat_activity AS who WHERE who.datname = pg_database.datname)
"""
DROP_ABANDONED = "DROP DATABASE IF EXISTS {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrowawayDatabase:
    """An empty, migrated database, and a folder for what must be a file."""

    pool: Pool
    data_dir: Path


@contextmanager
def open_throwaway_database(database_url: str | None = None) -> Iterator[ThrowawayDatabase]:
    """Open a database that only this run uses and that is dropped at its end."""
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        if database_url is not None:
            dsn = stack.enter_context(scratch_database(database_url))
        else:
            stack.enter_context(_one_core())
            stack.callback(gc.set_threshold, *gc.get_threshold())
            gc.set_threshold(*GC_THRESHOLD)
            settings = {**FAST, "unix_socket_directories": _socket_folder(folder / "db" / "pg")}
            server = EmbeddedServer(folder / "db", clock=SystemClock(), settings=settings)
            stack.enter_context(server)
            server.ensure_database(DATABASE)
            dsn = server.dsn(DATABASE)
        pool = stack.enter_context(closing(SoloPool(dsn)))
        upgrade(pool, SystemClock())
        yield ThrowawayDatabase(pool=pool, data_dir=folder)


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep this thread and the server that it starts on one core, where the system allows it.

    They only ever alternate, twenty times a call; waking a process on another core takes longer
    than most of the statements.
    """
    if sys.platform == "linux":
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {_idlest(cores)})
        try:
            yield
        finally:
            os.sched_setaffinity(0, cores)
    else:
        yield


def _socket_folder(pg: Path) -> str:
    """Return the folder of the server's socket, a third faster than loopback; empty if too long.

    The system limits the length of a socket's path.
    """
    return str(pg) if len(str(pg)) < SOCKET_PATH_MAX else ""


def _idlest(cores: set[int]) -> int:
    """Return the core that has had the least to do just now."""
    before = _idle_ticks()
    SystemClock().sleep(POLL_S)
    after = _idle_ticks()
    return max(sorted(cores), key=lambda core: after.get(core, 0) - before.get(core, 0))


def _idle_ticks() -> dict[int, int]:
    """Return how long each core has been idle since the system started."""
    rows = [row.split() for row in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
    cores = [row for row in rows if re.fullmatch(r"cpu\d+", row[0])]
    return {int(row[0].removeprefix("cpu")): int(row[IDLE_COLUMN]) for row in cores}


@contextmanager
def _folder() -> Iterator[Path]:
    home = _memory()
    _sweep(home)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=home))
    # The server may run as another user, who must be able to pass through.
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory() -> Path:
    shared = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    return shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _sweep(home: Path) -> None:
    """Remove the folders of killed runs."""
    for folder in home.glob(f"{PREFIX}*"):
        try:
            os.kill(int(folder.name.removeprefix(PREFIX).partition("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (PermissionError, ValueError):
            continue


@contextmanager
def scratch_database(dsn: str) -> Iterator[str]:
    """Yield the address of a fresh, empty database on the same server; touches no other."""
    with open_pool(dsn, size=1) as pool:
        with guarded(), pool.connection() as connection:
            _drop_abandoned(connection)
            name = _create_database(connection)
        try:
            yield make_conninfo(dsn, dbname=name)
        finally:
            with guarded(), pool.connection() as connection:
                connection.execute(sql.SQL(DROP).format(sql.Identifier(name)))


def _create_database(connection: Connection) -> str:
    row = connection.execute(NAME, [fresh_id().replace("-", "")]).fetchone()
    assert row is not None
    name = str(row[0])
    try:
        connection.execute(sql.SQL(CREATE).format(sql.Identifier(name)))
    except errors.InsufficientPrivilege:
        raise ConfigError(
            "the user of this database may not create one for the simulation; give it"
            " CREATEDB, or unset DATABASE_URL to simulate on the embedded server"
        ) from None
    return name


def _drop_abandoned(connection: Connection) -> None:
    """Drop the databases of killed runs; those of other users stay."""
    for (name,) in connection.execute(ABANDONED).fetchall():
        with suppress(errors.ObjectInUse, errors.InsufficientPrivilege):
            connection.execute(sql.SQL(DROP_ABANDONED).format(sql.Identifier(name)))
