"""Monthly partitions of the history: created ahead, dropped whole once they are too old."""

from datetime import datetime

from psycopg import sql
from psycopg.errors import LockNotAvailable

from headway.core.accounts.jobs import next_month
from headway.store.pool import Pool, guarded

MAKE = "SELECT make_history_month(%(now)s), make_history_month(%(next)s)"
# Readers and writers lock the table only briefly; if one does not, the next hour will do.
PATIENCE = "SET LOCAL lock_timeout = '3s'"
OVER = "SELECT name FROM history_months WHERE until <= %(before)s ORDER BY until"


class HistoryMonths:
    """The partitions of `sync_audit_log`; `months` full ones are kept, or all if it is 0."""

    def __init__(self, pool: Pool, *, months: int) -> None:
        self._pool = pool
        self._months = months

    def maintain(self, now: datetime) -> int:
        """Create this month and the next, and drop old ones; return how many were dropped."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(MAKE, {"now": now, "next": next_month(now)})
        if not self._months:
            return 0
        with guarded():
            try:
                return self._drop(months_before(now, self._months))
            except LockNotAvailable:
                return 0

    def _drop(self, before: datetime) -> int:
        with self._pool.connection() as connection, connection.transaction():
            connection.execute(PATIENCE)
            over = connection.execute(OVER, {"before": before}).fetchall()
            for (name,) in over:
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
        return len(over)


def months_before(now: datetime, months: int) -> datetime:
    """Return the first instant of the month this many months before an instant."""
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    return datetime(year, month + 1, 1, tzinfo=now.tzinfo)
