"""Samples of tables: all of a small one, an even share of the pages of a large one.

Counting a sample costs the same at any size, and is accurate to about one percent.
"""

from dataclasses import dataclass

from psycopg import Connection

# Up to this many rows are all counted; of larger tables, about this many.
WHOLE_MAX = 10_000
ROWS = 5_000

SIZE = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = %(table)s::regclass"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleShare:
    """How much of a table is counted, in per cent, and how many rows it has, as last estimated."""

    percent: float
    size: int

    @property
    def weight(self) -> float:
        """How many rows each counted row stands for."""
        return 100.0 / self.percent

    @property
    def is_estimate(self) -> bool:
        """True if some rows are left out."""
        return self.weight > 1


def share_of(connection: Connection, table: str) -> SampleShare:
    """Choose how much of a table to count."""
    size = connection.execute(SIZE, {"table": table}).fetchall()[0][0]
    return SampleShare(percent=100.0 if size <= WHOLE_MAX else 100.0 * ROWS / size, size=size)
