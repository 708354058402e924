"""Who runs on a database: heard of while it lives, forgotten when silent, its clock compared."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.store.monitoring.processes import Presence, Processes, clock_offset
from headway_lab.virtual_clock import VirtualClock

CLOCK = SystemClock()
MINE = Presence(verb="worker", settings={"policy": "a1"}, host="one", pid=7)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_process_is_heard_of_until_it_leaves(pool: ConnectionPool) -> None:
    processes = Processes(pool)
    processes.see(MINE, CLOCK)
    processes.see(MINE, CLOCK)
    [process] = processes.alive()
    assert (process.id, process.name, process.settings) == (
        MINE.id,
        "worker one:7",
        {"policy": "a1"},
    )
    assert process.seen_at > process.started_at
    processes.leave(MINE)
    assert processes.alive() == []


def test_who_is_silent_does_not_count_and_is_forgotten_in_the_end(pool: ConnectionPool) -> None:
    processes = Processes(pool)
    processes.see(MINE, CLOCK)
    with pool.connection() as connection:
        connection.execute("UPDATE processes SET seen_at = seen_at - interval '3 minutes'")
    assert processes.alive() == []
    other = Presence(verb="api", settings={}, host="two", pid=8)
    processes.see(other, CLOCK)
    assert _count(pool) == 2, "it may only have paused"
    with pool.connection() as connection:
        connection.execute("UPDATE processes SET seen_at = seen_at - interval '1 hour'")
    processes.see(other, CLOCK)
    assert _count(pool) == 1


def test_a_host_whose_clock_is_off_is_seen_alive_and_seen_to_be_off(pool: ConnectionPool) -> None:
    behind = VirtualClock(CLOCK.now() - timedelta(hours=5))
    Processes(pool).see(MINE, behind)
    [process] = Processes(pool).alive()
    assert process.clock_ahead_ms == pytest.approx(-5 * 3600_000, abs=60_000)


@pytest.mark.parametrize(
    ("answered_s", "offset_s"), ((-3, -3), (0, 0), (1, 0), (2, 0), (7, 5)), ids=str
)
def test_what_lies_between_question_and_answer_is_no_offset(answered_s: int, offset_s: int) -> None:
    answered_at = NOON + timedelta(seconds=answered_s)
    offset = clock_offset(answered_at, asked_at=NOON, answered_at=NOON + timedelta(seconds=2))
    assert offset == timedelta(seconds=offset_s)


def _count(pool: ConnectionPool) -> int:
    with pool.connection() as connection:
        return int(connection.execute("SELECT count(*) FROM processes").fetchall()[0][0])
