"""The months of the history: made ahead, read across, dropped whole, converted without a loss."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.store import migrate
from headway.store.catalog.history import PAGE
from headway.store.catalog.history_months import HistoryMonths, months_before
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

NOW = datetime(2031, 3, 15, 12, tzinfo=UTC)
BEFORE = 13
INSERT = """INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)
VALUES (%s, %s, %s, 'price_changed')"""
PARTS = "SELECT tableoid::regclass::text, count(*) FROM sync_audit_log GROUP BY 1 ORDER BY 1"
MONTHS = "SELECT name FROM history_months WHERE name LIKE 'sync_audit_log_2%' ORDER BY 1"
ROWS = "SELECT * FROM sync_audit_log ORDER BY id"
GRANTS = """
SELECT grantee, privilege_type FROM information_schema.role_table_grants
WHERE table_name = 'sync_audit_log' AND grantee = 'headway_seller' ORDER BY 1, 2
"""


def ask(pool: ConnectionPool, statement: str, values: Any = None) -> list[Any]:
    with pool.connection() as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def happen(pool: ConnectionPool, at: datetime, *, sku: str = "A") -> None:
    ask(pool, INSERT, ("acme", sku, at))


def month(name: str) -> str:
    return f"sync_audit_log_{name}"


def test_this_month_and_the_next_are_made_once(pool: ConnectionPool) -> None:
    months = HistoryMonths(pool, months=0)
    before = ask(pool, MONTHS)
    assert [months.tend(NOW), months.tend(NOW)] == [0, 0]
    made = [name for name in ask(pool, MONTHS) if name not in before]
    assert made == [(month("2031_03"),), (month("2031_04"),)]


def test_an_event_of_any_date_is_taken_and_moves_to_its_month_once_that_is_made(
    pool: ConnectionPool,
) -> None:
    happen(pool, NOW)
    happen(pool, NOW - timedelta(days=4000))
    assert ask(pool, PARTS) == [(month("other"), 2)]
    HistoryMonths(pool, months=0).tend(NOW)
    assert dict(ask(pool, PARTS)) == {month("2031_03"): 1, month("other"): 1}


def test_months_begin_at_midnight_utc_wherever_the_session_is(pool: ConnectionPool) -> None:
    with pool.connection() as connection:
        connection.execute("SET LOCAL TimeZone = 'Pacific/Auckland'")
        connection.execute("SELECT make_history_month(%s)", [NOW])
    found = ask(pool, "SELECT since, until FROM history_months WHERE name = %s", [month("2031_03")])
    assert found == [(datetime(2031, 3, 1, tzinfo=UTC), datetime(2031, 4, 1, tzinfo=UTC))]


def test_whole_months_beyond_the_retention_are_dropped_and_nothing_else(
    pool: ConnectionPool,
) -> None:
    for back in range(5):
        at = months_before(NOW, back)
        HistoryMonths(pool, months=0).tend(at)
        happen(pool, at)
    assert HistoryMonths(pool, months=2).tend(NOW) >= 2
    kept = [name for (name, _) in ask(pool, PARTS)]
    assert kept == [month("2031_01"), month("2031_02"), month("2031_03")]
    assert HistoryMonths(pool, months=2).tend(NOW) == 0


def test_months_are_counted_over_the_turn_of_the_year() -> None:
    assert months_before(NOW, 3) == datetime(2030, 12, 1, tzinfo=UTC)
    assert months_before(NOW, 24) == datetime(2029, 3, 1, tzinfo=UTC)


def test_a_life_across_months_is_read_by_index_in_every_part(pool: ConnectionPool) -> None:
    for back in range(12):
        at = months_before(NOW, back)
        HistoryMonths(pool, months=0).tend(at)
        with pool.connection() as connection, connection.cursor() as cursor:
            rows = [("acme", f"P{n % 200}", at + timedelta(minutes=n)) for n in range(2000)]
            cursor.executemany(INSERT, rows)
    ask(pool, "ANALYZE sync_audit_log")
    plan = "\n".join(
        line for (line,) in ask(pool, "EXPLAIN " + PAGE.format(more=""), {"sku": "P7", "rows": 51})
    )
    scanned = [line for line in plan.splitlines() if "Seq Scan" in line]
    assert all(month("other") in line or "_202" in line for line in scanned), plan
    assert plan.count("Index Cond: (sku = ") >= 12, plan


@pytest.fixture
def older(postgres: EmbeddedServer) -> Iterator[ConnectionPool]:
    """A database as it was before the months."""
    postgres.ensure_database("test_months")
    with open_pool(postgres.dsn("test_months")) as opened:
        migrate.upgrade(opened, VirtualClock(NOW), BEFORE)
        yield opened
    postgres.drop_database("test_months")


def test_what_was_written_before_is_there_after_both_ways(older: ConnectionPool) -> None:
    clock = VirtualClock(NOW)
    for days in (0, 40, 400):
        happen(older, datetime(2026, 5, 20, tzinfo=UTC) - timedelta(days=days), sku=f"P{days}")
    rows, grants = ask(older, ROWS), ask(older, GRANTS)
    migrate.upgrade(older, clock)
    assert ask(older, ROWS) == rows
    assert ask(older, GRANTS) == grants
    happen(older, NOW, sku="NEW")
    HistoryMonths(older, months=0).tend(NOW)
    parts = dict(ask(older, PARTS))
    assert parts == {month("before"): 3, month("2031_03"): 1}
    rows = ask(older, ROWS)
    migrate.downgrade(older, clock, BEFORE)
    assert ask(older, ROWS) == rows
    assert ask(older, GRANTS) == grants
