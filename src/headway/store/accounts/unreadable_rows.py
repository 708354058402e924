"""Find the rows that the database refuses: a group is halved until each culprit is alone.

Every group is written in a savepoint, so that a refusal undoes nothing else.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg

from headway.store.pool import first_line

# Classes of SQLSTATE that the values of a row cause: cardinality, data, integrity, check option,
# program limits (such as the size of an index entry). Others are trouble of the database.
ROW_CLASSES = frozenset({"21", "22", "23", "44", "54"})
REASON_CHARS_MAX = 300
Row = TypeVar("Row")


def is_rows_fault(error: BaseException | None) -> bool:
    """Return True if the values of a row caused this error: it would be so every time."""
    if not isinstance(error, psycopg.Error):
        return False
    # The driver refuses some values by itself, without a code.
    return isinstance(error, psycopg.DataError) or (error.sqlstate or "")[:2] in ROW_CLASSES


def write_rows(
    connection: psycopg.Connection[Any],
    rows: Sequence[Row],
    write: Callable[[Sequence[Row]], None],
) -> list[tuple[Row, str]]:
    """Write all rows that the database takes; return the others, each with the reason."""
    try:
        with connection.transaction():
            write(rows)
    except psycopg.Error as error:
        if not is_rows_fault(error):
            raise
        if len(rows) == 1:
            return [(rows[0], f"the database refuses it: {first_line(error)[:REASON_CHARS_MAX]}")]
        middle = len(rows) // 2
        halves = (rows[:middle], rows[middle:])
        return [refused for half in halves for refused in write_rows(connection, half, write)]
    return []
