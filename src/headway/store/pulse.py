"""The last hour of the line, counted: calls, reads, what is overdue, what nobody rescues.

Each count is a short range of an index or has a bound, so that a look each minute costs little.
"""

from datetime import datetime, timedelta

from headway.core.model import AuthStep, Scope
from headway.core.signs import HourSign
from headway.store.pool import Pool, guarded

HOUR = timedelta(hours=1)
# The documents' number: so long after its lease nobody can be at it any more.
STUCK_AFTER = timedelta(minutes=10)
COUNT_MAX = 10_000

# A call that was not sent asked nobody; one that is under way has not failed.
PULSE = """
WITH calls AS (
  SELECT coalesce(cardinality(skus), 0) AS seats,
    status = 'sent' AND result = ANY(%(good)s) AS is_good
  FROM call_ledger
  WHERE key = %(key)s AND begun_at > %(hour_ago)s AND begun_at <= %(now)s
    AND status IN ('sent', 'lost')
)
SELECT count(*), count(*) FILTER (WHERE NOT is_good),
  coalesce(sum(seats) FILTER (WHERE is_good), 0),
  (SELECT count(*) FROM sync_audit_log
   WHERE sync_timestamp > %(hour_ago)s AND sync_timestamp <= %(now)s
     AND event_type = 'sync_failed'),
  (SELECT count(*) FROM (SELECT FROM product_sync_schedule WHERE is_active
     AND sync_status <> 'syncing' AND NOT is_paused
     AND turn IN ('manual', 'onboarding', 'scheduled', 'retry') AND next_sync_at < %(hour_ago)s
     LIMIT %(most)s) AS overdue),
  (SELECT count(*) FROM product_sync_schedule
   WHERE sync_status = 'syncing' AND lease_until < %(stuck)s)
  + (SELECT count(*) FROM sync_jobs WHERE status = 'running' AND lease_until < %(stuck)s)
FROM calls
"""


class Pulse:
    """What the watch counts each minute."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def read(self, now: datetime, *, scope: Scope, permit_wait_s: float) -> HourSign:
        """Count the last hour of a supplier."""
        values = {
            "key": scope,
            "now": now,
            "hour_ago": now - HOUR,
            "stuck": now - STUCK_AFTER,
            "good": ["ok", *(step.value for step in AuthStep)],
            "most": COUNT_MAX,
        }
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(PULSE, values).fetchall()[0]
        calls, calls_failed, reads, reads_failed, overdue, stuck = row
        return HourSign(
            calls=calls,
            calls_failed=calls_failed,
            reads=int(reads),
            reads_failed=reads_failed,
            overdue=overdue,
            stuck=stuck,
            permit_wait_s=permit_wait_s,
        )
