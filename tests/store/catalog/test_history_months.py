"""Monthly partitions of the history: created ahead, read across, dropped whole."""

from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg_pool import ConnectionPool

from headway.store.catalog.history import PAGE
from headway.store.catalog.history_months import HistoryMonths, months_before

NOW = datetime(2031, 3, 15, 12, tzinfo=UTC)
INSERT = """INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)
VALUES (%s, %s, %s, 'price_changed')"""
PARTS = "SELECT tableoid::regclass::text, count(*) FROM sync_audit_log GROUP BY 1 ORDER BY 1"
MONTHS = "SELECT name FROM history_months WHERE name LIKE 'sync_audit_log_2%' ORDER BY 1"


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
    assert [months.maintain(NOW), months.maintain(NOW)] == [0, 0]
    made = [name for name in ask(pool, MONTHS) if name not in before]
    assert made == [(month("2031_03"),), (month("2031_04"),)]


def test_an_event_of_any_date_is_taken_and_moves_to_its_month_once_that_is_made(
    pool: ConnectionPool,
) -> None:
    happen(pool, NOW)
    happen(pool, NOW + timedelta(days=4000))
    assert ask(pool, PARTS) == [(month("other"), 2)]
    HistoryMonths(pool, months=0).maintain(NOW)
    assert dict(ask(pool, PARTS)) == {month("2031_03"): 1, month("other"): 1}


def test_events_of_a_month_in_which_nothing_ran_move_to_their_month_and_leave_with_it(
    pool: ConnectionPool,
) -> None:
    happen(pool, datetime(2030, 7, 4, tzinfo=UTC))
    HistoryMonths(pool, months=0).maintain(NOW)
    assert ask(pool, PARTS) == [(month("2030_07"), 1)]
    for back in range(3):
        happen(pool, months_before(NOW, back))
    HistoryMonths(pool, months=2).maintain(NOW)
    HistoryMonths(pool, months=2).maintain(NOW)
    assert month("2030_07") not in dict(ask(pool, PARTS))


def test_a_clock_that_is_years_ahead_drops_no_month(pool: ConnectionPool) -> None:
    for back in range(3):
        at = months_before(NOW, back)
        HistoryMonths(pool, months=0).maintain(at)
        happen(pool, at)
    ahead = NOW.replace(year=NOW.year + 3)
    happen(pool, ahead)
    HistoryMonths(pool, months=3).maintain(ahead)
    kept = [month("2031_01"), month("2031_02"), month("2031_03"), month("2034_03")]
    assert [name for (name, _) in ask(pool, PARTS)] == kept


def test_months_begin_at_midnight_utc_wherever_the_session_is(pool: ConnectionPool) -> None:
    with pool.connection() as connection:
        connection.execute("SET LOCAL TimeZone = 'Pacific/Auckland'")
        connection.execute("SELECT make_history_month(%s)", [NOW])
    bounds = ask(
        pool, "SELECT since, until FROM history_months WHERE name = %s", [month("2031_03")]
    )
    assert bounds == [(datetime(2031, 3, 1, tzinfo=UTC), datetime(2031, 4, 1, tzinfo=UTC))]


def test_whole_months_beyond_the_retention_are_dropped_and_nothing_else(
    pool: ConnectionPool,
) -> None:
    for back in range(5):
        at = months_before(NOW, back)
        HistoryMonths(pool, months=0).maintain(at)
        happen(pool, at)
    assert HistoryMonths(pool, months=2).maintain(NOW) >= 2
    kept = [name for (name, _) in ask(pool, PARTS)]
    assert kept == [month("2031_01"), month("2031_02"), month("2031_03")]
    assert HistoryMonths(pool, months=2).maintain(NOW) == 0


def test_months_are_counted_across_the_end_of_a_year() -> None:
    assert months_before(NOW, 3) == datetime(2030, 12, 1, tzinfo=UTC)
    assert months_before(NOW, 24) == datetime(2029, 3, 1, tzinfo=UTC)


def test_a_life_across_months_is_read_by_index_in_every_part(pool: ConnectionPool) -> None:
    for back in range(12):
        at = months_before(NOW, back)
        HistoryMonths(pool, months=0).maintain(at)
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
