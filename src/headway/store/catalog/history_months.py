"""Monthly partitions of the history: created ahead, dropped whole once they are too old."""

from datetime import datetime

from psycopg import sql
from psycopg.errors import LockNotAvailable

from headway.core.accounts.jobs import next_month
from headway.store.pool import Pool, guarded

MAKE = "SELECT make_history_month(%(now)s), make_history_month(%(next)s)"
# Readers and writers lock the table only briefly; if one does not, the next hour will do.
PATIENCE = "SET LOCAL lock_timeout = '3s'"
# A month of which nobody made a partition: nothing ran in it, or nothing that keeps house.
STRAYS = """
SELECT make_history_month(month) FROM (
  SELECT DISTINCT date_trunc('month', sync_timestamp, 'UTC') AS month FROM sync_audit_log_other
  WHERE sync_timestamp < %(now)s) AS stray
"""
# A month goes only if as many later ones that are over hold events as are kept: a clock that is
# years ahead makes every month look old.
OVER = """
SELECT name FROM history_months AS month
WHERE until <= %(before)s AND %(kept)s <= (
  SELECT count(*) FROM history_months AS later
  WHERE later.since >= month.until AND later.until <= %(now)s AND EXISTS (SELECT FROM sync_audit_log
    WHERE sync_timestamp >= later.since AND sync_timestamp < later.until))
ORDER BY until
"""


class HistoryMonths:
    """The partitions of `sync_audit_log`; `months` full ones are kept, or all if it is 0."""

    def __init__(self, pool: Pool, *, months: int) -> None:
        self._pool = pool
        self._months = months

    def maintain(self, now: datetime) -> int:
        """Create this month, the next and those of stray events; drop old ones, and count them."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(MAKE, {"now": now, "next": next_month(now)})
            connection.execute(STRAYS, {"now": now})
        if not self._months:
            return 0
        with guarded():
            try:
                return self._drop(now)
            except LockNotAvailable:
                return 0

    def _drop(self, now: datetime) -> int:
        with self._pool.connection() as connection, connection.transaction():
            connection.execute(PATIENCE)
            before = months_before(now, self._months)
            values = {"before": before, "kept": self._months, "now": now}
            over = connection.execute(OVER, values).fetchall()
            for (name,) in over:
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
        return len(over)


def months_before(now: datetime, months: int) -> datetime:
    """Return the first instant of the month this many months before an instant."""
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    return datetime(year, month + 1, 1, tzinfo=now.tzinfo)
