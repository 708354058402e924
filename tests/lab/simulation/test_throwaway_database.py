"""Throw-away databases: dropped after the run, and those of killed runs an hour later."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headway.clock import SystemClock, fresh_id
from headway_lab.simulation.throwaway_database import scratch_database

HOUR_S = 3600


def names(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE '%sim%'")
        return {name for (name,) in rows}


@contextmanager
def abandoned_database(dsn: str, age_s: float) -> Iterator[str]:
    """Make a database like that of a run that began then; drop what is left of it at the end."""
    began_s = int(SystemClock().now().timestamp() - age_s)
    name = f"headway_sim_{began_s}_{fresh_id().replace('-', '')}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield name
        finally:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))


def test_it_is_a_separate_database_and_dropped_afterwards(database: str) -> None:
    with scratch_database(database) as dsn:
        name = conninfo_to_dict(dsn)["dbname"]
        assert names(database) == {name}
    assert names(database) == set()


def test_the_database_of_a_killed_run_is_dropped_by_the_next(database: str) -> None:
    with (
        abandoned_database(database, 2 * HOUR_S) as old,
        abandoned_database(database, HOUR_S / 2) as young,
        abandoned_database(database, 2 * HOUR_S) as in_use,
        psycopg.connect(make_conninfo(database, dbname=in_use)),
        scratch_database(database),
    ):
        kept = names(database)
        assert old not in kept
        assert {young, in_use} < kept
