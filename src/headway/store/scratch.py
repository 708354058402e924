"""A database for one run on somebody's server: made under its own name, and gone afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from headway.clock import fresh_id
from headway.errors import ConfigError
from headway.store.pool import guarded, open_pool


@contextmanager
def scratch_database(dsn: str) -> Iterator[str]:
    """Yield the address of a fresh, empty database on the same server; touches no other."""
    name = f"headway_sim_{fresh_id().replace('-', '')}"
    create, drop = (
        sql.SQL(statement).format(sql.Identifier(name))
        for statement in ("CREATE DATABASE {}", "DROP DATABASE IF EXISTS {} WITH (FORCE)")
    )
    with open_pool(dsn, size=1) as pool:
        with guarded(), pool.connection() as connection:
            try:
                connection.execute(create)
            except errors.InsufficientPrivilege:
                raise ConfigError(
                    "the user of this database may not create one for the simulation; give it"
                    " CREATEDB, or unset DATABASE_URL to simulate on the embedded server"
                ) from None
        try:
            yield make_conninfo(dsn, dbname=name)
        finally:
            with guarded(), pool.connection() as connection:
                connection.execute(drop)
