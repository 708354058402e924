"""A database for one run on an existing server: created under its own name, dropped afterwards.

A run that is killed leaves its database behind; the next run drops databases without a connection
for an hour. The name holds the time of creation.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg import Connection, errors, sql
from psycopg.conninfo import make_conninfo

from headway.clock import fresh_id
from headway.errors import ConfigError
from headway.store.pool import guarded, open_pool

PREFIX = "headway_sim"
NAME = f"SELECT '{PREFIX}_' || extract(epoch FROM now())::bigint || '_' || %s"
CREATE = "CREATE DATABASE {}"
DROP = "DROP DATABASE IF EXISTS {} WITH (FORCE)"
# A live run has a connection; without FORCE a database that was created just now is safe.
ABANDONED = f"""
SELECT datname FROM pg_database WHERE datname ~ '^{PREFIX}_[0-9]+_'
  AND split_part(datname, '_', 3)::bigint < extract(epoch FROM now()) - 3600
  AND NOT EXISTS (SELECT FROM pg_stat_activity AS who WHERE who.datname = pg_database.datname)
"""
DROP_ABANDONED = "DROP DATABASE IF EXISTS {}"


@contextmanager
def scratch_database(dsn: str) -> Iterator[str]:
    """Yield the address of a fresh, empty database on the same server; touches no other."""
    with open_pool(dsn, size=1) as pool:
        with guarded(), pool.connection() as connection:
            _sweep(connection)
            name = _create(connection)
        try:
            yield make_conninfo(dsn, dbname=name)
        finally:
            with guarded(), pool.connection() as connection:
                connection.execute(sql.SQL(DROP).format(sql.Identifier(name)))


def _create(connection: Connection) -> str:
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


def _sweep(connection: Connection) -> None:
    """Drop the databases of killed runs; those of other users stay."""
    for (name,) in connection.execute(ABANDONED).fetchall():
        with suppress(errors.ObjectInUse, errors.InsufficientPrivilege):
            connection.execute(sql.SQL(DROP_ABANDONED).format(sql.Identifier(name)))
