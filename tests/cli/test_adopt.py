"""The commands adopt and db upgrade, on a database of a design document."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.documents.databases import PLAN_V2, ROWS, create

from headway.clock import SystemClock
from headway.store.server.embedded import EmbeddedServer


@pytest.fixture
def former(postgres: EmbeddedServer) -> Iterator[str]:
    """Yield the address of a database that a document made."""
    postgres.ensure_database("test_former")
    dsn = postgres.dsn("test_former")
    with psycopg.connect(dsn, autocommit=True) as connection:
        create(connection, PLAN_V2, SystemClock().now())
    yield dsn
    postgres.drop_database("test_former")


def test_a_dry_run_describes_it_and_db_upgrade_takes_it_over(
    headway_in_process: Callable[..., Any], former: str
) -> None:
    def headway(*arguments: str) -> Any:
        return headway_in_process(*arguments, DATABASE_URL=former)

    dry = headway("adopt", "--dry-run")
    assert dry.code == 0
    assert "This database was made by: implementation-plan-v2" in dry.out
    assert "last_sync_error → last_error" in dry.out
    assert "carried along  id, list_price, warehouse_note" in dry.out
    assert "HEADWAY_POLICY=anchored" in dry.out
    assert "This was a dry run: nothing was changed." in dry.out
    assert headway("adopt", "--dry-run", "--json").object()["tables"][0]["rows"] == ROWS
    assert headway("db", "status", "--json").object()["version"] == 0

    upgraded = headway("db", "upgrade")
    assert upgraded.code == 0, upgraded.err
    assert "The former tables are in the schema before_headway." in upgraded.out
    assert headway("db", "status", "--json").object()["pending"] == []
    again = headway("adopt")
    assert "has no tables of the design documents to take over" in again.error(2)
    assert headway("backfill", "--json").object() == {"added": 10}


def test_what_is_impossible_is_said_and_the_exit_code_is_1(
    headway_in_process: Callable[..., Any], former: str
) -> None:
    with psycopg.connect(former, autocommit=True) as connection:
        connection.execute("CREATE TABLE profiles (id uuid)")
    dry = headway_in_process("adopt", "--dry-run", DATABASE_URL=former)
    assert dry.code == 1
    assert "impossible: profiles exists, and Headway has a table of that name" in dry.out
    refused = headway_in_process("db", "upgrade", DATABASE_URL=former)
    assert refused.code == 2
    assert "nothing was done: profiles exists" in refused.err
