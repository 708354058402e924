"""Counters for alerts, read each minute: the last hour of calls, and open problems.

Each count is a short range of an index or has a bound, so that it costs little at any size; and
problems are found however many rows have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import AuthStep, LimitKey, SellerId
from headway.core.monitoring.metrics import ConnectionMetric, HourMetric
from headway.store.catalog.suppliers import LINES
from headway.store.pool import Pool, guarded

HOUR = timedelta(hours=1)
# The documents' number: this long after its lease no worker can still have it.
STUCK_AFTER = timedelta(minutes=10)
COUNT_MAX = 10_000
NAMED_MAX = 100

# Calls that were not sent, or are in progress, have not failed.
PULSE = f"""
WITH calls AS (
  SELECT coalesce(cardinality(skus), 0) AS seats,
    status = 'sent' AND result = ANY(%(good)s) AS is_good
  FROM call_ledger
  WHERE limit_key = ANY(%(keys)s) AND begun_at > %(hour_ago)s AND begun_at <= %(now)s
    AND status IN ('sent', 'lost')
)
SELECT count(*), count(*) FILTER (WHERE NOT is_good),
  coalesce(sum(seats) FILTER (WHERE is_good), 0),
  (SELECT count(*) FROM sync_audit_log
   WHERE sync_timestamp > %(hour_ago)s AND sync_timestamp <= %(now)s
     AND event_type = 'sync_failed'),
  (SELECT count(*) FROM (SELECT FROM {LINES} CROSS JOIN LATERAL (
     SELECT FROM product_sync_schedule WHERE supplier = line.name AND is_active
       AND sync_status <> 'syncing' AND NOT is_paused
       AND priority IN ('manual', 'onboarding', 'scheduled', 'retry')
       AND next_sync_at < %(hour_ago)s
     LIMIT %(most)s) AS late LIMIT %(most)s) AS overdue),
  (SELECT count(*) FROM product_sync_schedule
   WHERE sync_status = 'syncing' AND lease_until < %(stuck)s)
  + (SELECT count(*) FROM sync_jobs WHERE status = 'running' AND lease_until < %(stuck)s)
FROM calls
"""

HELD = """
SELECT count(*), min(held_at) FROM (
  SELECT held_at FROM listing_state WHERE held_reason IS NOT NULL LIMIT %(most)s) AS few
"""
REFUSED = """
SELECT count(*), coalesce(max(push_failures), 0) FROM (
  SELECT push_failures FROM listing_state WHERE push_at IS NOT NULL AND push_failures > 0
  LIMIT %(most)s) AS few
"""
DEAD = """
SELECT count(*) FROM (SELECT FROM sync_jobs WHERE status = 'dead' LIMIT %(most)s) AS few
"""
# An open breaker that waits for its probe is still open. A shop has one for what is written there,
# an account one for what is read, a platform one for all sellers.
CONNECTIONS = """
WITH open AS (SELECT limit_key, reason FROM breaker WHERE open_until IS NOT NULL)
(SELECT user_id, platform || ' ' || shop, false, coalesce(reason, '') FROM connected_accounts
 WHERE status = 'disconnected' ORDER BY user_id, platform LIMIT %(named)s)
UNION ALL
(SELECT NULL, limit_key, true, reason FROM open WHERE limit_key = ANY(%(platforms)s) ORDER BY
  limit_key)
UNION ALL
(SELECT DISTINCT ON (account.user_id, account.platform) account.user_id,
   account.platform || ' ' || account.shop, true, open.reason
 FROM open JOIN connected_accounts AS account ON account.status = 'connected'
   AND account.platform = split_part(open.limit_key, ':', 1)
   AND CASE WHEN split_part(open.limit_key, ':', 2) = 'account'
     THEN account.id::text = split_part(open.limit_key, ':', 3)
     ELSE account.shop = regexp_replace(open.limit_key, '^.*:', '') END
 ORDER BY account.user_id, account.platform, open.limit_key LIMIT %(named)s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """Open problems with changes, shops and jobs of all sellers."""

    held: int
    held_since: datetime | None
    refused: int
    refusals_in_a_row: int
    dead_jobs: int
    connections: Sequence[ConnectionMetric]


class MinuteCounters:
    """Queries of the alert counters."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def read(
        self, now: datetime, *, limit_keys: Sequence[LimitKey], permit_wait_s: float
    ) -> HourMetric:
        """Count the last hour of these suppliers."""
        values = {
            "keys": list(limit_keys),
            "now": now,
            "hour_ago": now - HOUR,
            "stuck": now - STUCK_AFTER,
            "good": ["ok", *(step.value for step in AuthStep)],
            "most": COUNT_MAX,
        }
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(PULSE, values).fetchall()[0]
        calls, calls_failed, reads, reads_failed, overdue, stuck = row
        return HourMetric(
            calls=calls,
            calls_failed=calls_failed,
            reads=int(reads),
            reads_failed=reads_failed,
            overdue=overdue,
            stuck=stuck,
            permit_wait_s=permit_wait_s,
        )

    def troubles(self) -> Troubles:
        """Count open problems, and return the shops and accounts concerned."""
        platforms = [platform.value for platform in PlatformName]
        values = {"most": COUNT_MAX, "named": NAMED_MAX, "platforms": platforms}
        with guarded(), self._pool.connection() as connection:
            held, held_since = connection.execute(HELD, values).fetchall()[0]
            refused, in_a_row = connection.execute(REFUSED, values).fetchall()[0]
            dead_jobs = connection.execute(DEAD, values).fetchall()[0][0]
            rows = connection.execute(CONNECTIONS, values).fetchall()
        return Troubles(
            held=held,
            held_since=held_since,
            refused=refused,
            refusals_in_a_row=in_a_row,
            dead_jobs=dead_jobs,
            connections=tuple(
                ConnectionMetric(
                    seller=None if seller is None else SellerId(seller),
                    name=name,
                    is_connected=is_connected,
                    trouble=trouble,
                )
                for seller, name, is_connected, trouble in rows
            ),
        )
