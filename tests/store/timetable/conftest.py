"""Fixtures for tests of the schedule: one supplier's rows, and SQL to look at them."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.store.timetable.schedule import Schedule

Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def schedule(pool: ConnectionPool) -> Schedule:
    return Schedule(pool)


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def query(sql: str, *values: object) -> list[tuple[Any, ...]]:
        with pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    return query
