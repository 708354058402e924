"""Statements that a test executes beside the code under test."""

from typing import Any

from psycopg_pool import ConnectionPool


class Statements:
    """A fixture with a pool: `ask` returns all rows, and `one` the only row or its only value."""

    pool: ConnectionPool

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def one(self, sql: str, *values: object) -> Any:
        (row,) = self.ask(sql, *values)
        return row[0] if len(row) == 1 else row
