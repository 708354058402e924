"""Migration 0004: accounts and jobs of any platform, up and down, with rows in the tables."""

from collections.abc import Iterator
from typing import Any, LiteralString

import pytest
from psycopg import errors
from psycopg_pool import ConnectionPool

from headway.errors import HeadwayError
from headway.store import migrate
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

BEFORE, AFTER = 3, 4
ACCOUNT = """
INSERT INTO connected_accounts (user_id, platform, shop) VALUES ('acme', %s, 'mugs') RETURNING id
"""
JOB = """
INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, score, next_run_at)
VALUES (%s, 'acme', %s, 'listings', 'incremental', 12, now())
"""
LISTING = """
INSERT INTO listings
  (account_id, user_id, platform, external_id, state, checked_at, created_at, updated_at)
VALUES (%s, 'acme', %s, '1', 'active', now(), now(), now())
"""
ACCOUNTS = "SELECT platform FROM connected_accounts ORDER BY platform"
JOBS = "SELECT platform FROM sync_jobs ORDER BY platform"
DISCONNECT = "UPDATE connected_accounts SET status = 'disconnected' WHERE platform = 'example'"


@pytest.fixture
def database(postgres: EmbeddedServer, clock: VirtualClock) -> Iterator[ConnectionPool]:
    """A pool on a database before the migration, with an account on Etsy and its job."""
    postgres.ensure_database("test_platforms")
    with open_pool(postgres.dsn("test_platforms")) as opened:
        migrate.upgrade(opened, clock, BEFORE)
        add_account(opened, "etsy")
        yield opened
    postgres.drop_database("test_platforms")


def execute(pool: ConnectionPool, statement: LiteralString, *values: object) -> list[Any]:
    with pool.connection() as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def add_account(pool: ConnectionPool, platform: str) -> str:
    account_id = execute(pool, ACCOUNT, platform)[0][0]
    execute(pool, JOB, account_id, platform)
    return account_id


def test_only_the_built_in_platforms_fit_before(database: ConnectionPool) -> None:
    with pytest.raises(errors.CheckViolation):
        add_account(database, "example")


def test_any_well_formed_name_fits_after_and_rows_stay(
    database: ConnectionPool, clock: VirtualClock
) -> None:
    assert migrate.upgrade(database, clock, AFTER) == ["0004_open_platforms"]
    add_account(database, "example")
    assert execute(database, ACCOUNTS) == [("etsy",), ("example",)]
    assert execute(database, JOBS) == [("etsy",), ("example",)]
    for name in ("", "Example", "2nd", "ex ample", "x" * 32, "ex:ample"):
        with pytest.raises(errors.CheckViolation):
            add_account(database, name)


def test_the_way_back_refuses_while_such_an_account_is_connected(
    database: ConnectionPool, clock: VirtualClock
) -> None:
    migrate.upgrade(database, clock, AFTER)
    account_id = add_account(database, "example")
    execute(database, LISTING, account_id, "example")
    with pytest.raises(HeadwayError, match="headway disconnect --seller SELLER --platform NAME"):
        migrate.downgrade(database, clock, BEFORE)
    assert execute(database, ACCOUNTS) == [("etsy",), ("example",)]
    execute(database, DISCONNECT)
    assert migrate.downgrade(database, clock, BEFORE) == ["0004_open_platforms"]
    assert execute(database, ACCOUNTS) == [("etsy",)]
    assert execute(database, JOBS) == [("etsy",)]
    assert execute(database, "SELECT count(*) FROM listings") == [(0,)]
    with pytest.raises(errors.CheckViolation):
        add_account(database, "example")
