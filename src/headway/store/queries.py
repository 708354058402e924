"""Run statements, each on a connection of its own, and read rows as dataclasses."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from psycopg import Connection
from psycopg.rows import BaseRowFactory, class_row, kwargs_row

from headway.store.pool import Pool, guarded

T = TypeVar("T")
Row = tuple[Any, ...]
Values = Mapping[str, Any] | Sequence[Any] | None


class Queries:
    """Statements over a pool, each on a connection of its own."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def _rows(self, statement: str, values: Values = None) -> list[Row]:
        """Return all rows."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(statement, values).fetchall()

    def _first(self, statement: str, values: Values = None) -> Row | None:
        """Return the first row, if there is one."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(statement, values).fetchone()

    def _one(self, statement: str, values: Values = None) -> Row:
        """Return the row of a statement that always returns one, such as a count."""
        row = self._first(statement, values)
        assert row is not None, "the statement returns a row"
        return row

    def _write(self, statement: str, values: Values = None) -> int:
        """Execute a statement; return how many rows it affected."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(statement, values).rowcount

    def _read(self, kind: Callable[..., T], statement: str, values: Values = None) -> list[T]:
        """Return all rows as dataclasses."""
        with guarded(), self._pool.connection() as connection:
            return read_as(connection, kind, statement, values)

    def _find(self, kind: Callable[..., T], statement: str, values: Values = None) -> T | None:
        """Return the first row as a dataclass, if there is one."""
        return next(iter(self._read(kind, statement, values)), None)


def read_as(
    connection: Connection[Any], kind: Callable[..., T], statement: str, values: Values = None
) -> list[T]:
    """Return the rows of a statement as dataclasses, whose fields its columns name."""
    with connection.cursor(row_factory=record_row(kind)) as cursor:
        return cursor.execute(statement, values).fetchall()


def record_row(kind: Callable[..., T]) -> BaseRowFactory[T]:
    """Return the row factory of a dataclass, or of a function of the columns."""
    return _dataclass_row(kind) if isinstance(kind, type) else kwargs_row(kind)


@cache
def _dataclass_row(kind: type[T]) -> BaseRowFactory[T]:
    """Return the row factory of a dataclass; columns become enums and tuples where fields are."""
    hints = {name: _plain(hint) for name, hint in get_type_hints(kind).items()}
    kinds = {
        name: hint
        for name, hint in hints.items()
        if hint is tuple or (isinstance(hint, type) and issubclass(hint, Enum))
    }
    if not kinds:
        return class_row(kind)

    def make(**columns: Any) -> T:  # noqa: ANN401 - a row
        for name, convert in kinds.items():
            if columns.get(name) is not None:
                columns[name] = convert(columns[name])
        return kind(**columns)

    return kwargs_row(make)


def _plain(hint: Any) -> Any:  # noqa: ANN401 - a type hint
    """Return the type of an optional field, and `tuple` for any tuple."""
    if get_origin(hint) in {Union, UnionType}:
        parts = [part for part in get_args(hint) if part is not type(None)]
        hint = parts[0] if len(parts) == 1 else None
    return tuple if get_origin(hint) is tuple else hint


def is_uuid(text: str) -> bool:
    """Return True if a text is a UUID."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True
