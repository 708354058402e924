"""Counters for alerts, read each minute: the last hour of calls, and open problems.

Each count is a short range of an index or has a bound, so that it costs little at any size; and
problems are found however many rows have none.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from psycopg import Connection

from headway.core.accounts.jobs import PlatformName
from headway.core.accounts.refusals import TOGETHER, are_refused_together
from headway.core.catalog.listings import AuthStep, LimitKey
from headway.core.monitoring.alerts import NAMES_SHOWN
from headway.core.monitoring.metrics import (
    ConnectionMetric,
    HourMetric,
    LocationMetric,
    OversellMetric,
    RemovalMetric,
    TroubleNames,
    UnreadableMetric,
    VisibilityMetric,
)
from headway.store.catalog.suppliers import overdue_count
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

HOUR = timedelta(hours=1)
# The documents' number: this long after its lease no worker can still have it.
STUCK_AFTER = timedelta(minutes=10)
LOCATION_KEPT = timedelta(hours=26)
COUNT_MAX = 10_000
NAMED_MAX = 100
# So many accounts that are lost within an hour for the same reason have one cause, and one message.
LOST_TOGETHER = 5

# Calls that were not sent, or are in progress, have not failed.
PULSE = f"""
WITH calls AS (
  SELECT coalesce(cardinality(skus), 0) AS seats,
    status = 'sent' AND result = ANY(%(good)s) AS is_good
  FROM call_ledger
  WHERE limit_key = ANY(%(keys)s) AND begun_at > %(hour_ago)s AND begun_at <= %(now)s
    AND status IN ('sent', 'lost')
)
SELECT count(*) AS calls, count(*) FILTER (WHERE NOT is_good) AS calls_failed,
  coalesce(sum(seats) FILTER (WHERE is_good), 0) AS reads,
  (SELECT count(*) FROM sync_audit_log
   WHERE sync_timestamp > %(hour_ago)s AND sync_timestamp <= %(now)s
     AND event_type = 'sync_failed') AS reads_failed,
  {overdue_count("%(hour_ago)s")} AS overdue,
  (SELECT count(*) FROM product_sync_schedule
   WHERE sync_status = 'syncing' AND lease_until < %(stuck)s)
  + (SELECT count(*) FROM sync_jobs WHERE status = 'running' AND lease_until < %(stuck)s)
  AS stuck,
  %(permit_wait_s)s::float8 AS permit_wait_s
FROM calls
"""

TROUBLES = """
SELECT * FROM (
  SELECT count(*) AS held, min(held_at) AS held_since FROM (
    SELECT held_at FROM listing_state WHERE held_reason IS NOT NULL LIMIT %(most)s) AS few
) AS held CROSS JOIN (
  SELECT count(*) AS refused, coalesce(max(push_failures), 0) AS refusals_in_a_row FROM (
    SELECT push_failures FROM listing_state WHERE push_at IS NOT NULL AND push_failures > 0
    LIMIT %(most)s) AS few
) AS refused CROSS JOIN (
  SELECT count(*) AS dead_jobs FROM (
    SELECT FROM sync_jobs WHERE status = 'dead' LIMIT %(most)s) AS few
) AS dead CROSS JOIN (
  SELECT count(*) AS disconnected FROM (
    SELECT FROM connected_accounts WHERE status = 'disconnected' AND NOT is_leaving
      AND reason <> '' LIMIT %(most)s) AS few
) AS lost
"""
# A disconnection that somebody asked for, here or in another program's rows, is no trouble.
# An open breaker that waits for its probe is still open. A shop has one for what is written there,
# an account one for what is read, a platform one for all sellers.
CONNECTIONS = """
WITH open AS (SELECT limit_key, reason FROM breaker WHERE open_until IS NOT NULL
), lost AS (
  SELECT *, date_trunc('hour', updated_at, 'UTC') AS hour,
    count(*) OVER same AS members, row_number() OVER (same ORDER BY updated_at, id) AS place
  FROM (SELECT * FROM connected_accounts WHERE status = 'disconnected' AND NOT is_leaving
        AND reason <> '' LIMIT %(most)s) AS few
  WINDOW same AS (PARTITION BY platform, reason, date_trunc('hour', updated_at, 'UTC'))
)
(SELECT NULL AS seller, platform AS name, false AS is_connected, reason AS trouble,
   members AS count, hour AS at FROM lost WHERE members >= %(together)s AND place = 1
 ORDER BY hour, platform, reason LIMIT %(named)s)
UNION ALL
(SELECT user_id, platform || ' ' || shop, false, reason, 1,
   CASE WHEN members >= %(together)s THEN hour END FROM lost
 WHERE members < %(together)s OR place < %(together)s ORDER BY updated_at DESC, id LIMIT %(named)s)
UNION ALL
(SELECT NULL, limit_key, true, reason, 1, NULL FROM open WHERE limit_key = ANY(%(platforms)s)
 ORDER BY limit_key)
UNION ALL
(SELECT user_id, platform || ' ' || shop, true, wait_reason, 1, NULL FROM connected_accounts
 WHERE status = 'connected' AND wait_until IS NOT NULL ORDER BY user_id, platform LIMIT %(named)s)
UNION ALL
(SELECT DISTINCT ON (account.user_id, account.platform) account.user_id,
   account.platform || ' ' || account.shop, true, open.reason, 1, NULL::timestamptz
 FROM open JOIN connected_accounts AS account ON account.status = 'connected'
   AND account.wait_until IS NULL
   AND account.platform = split_part(open.limit_key, ':', 1)
   AND CASE WHEN split_part(open.limit_key, ':', 2) = 'account'
     THEN account.id::text = split_part(open.limit_key, ':', 3)
     ELSE account.shop = regexp_replace(open.limit_key, '^.*:', '') END
 ORDER BY account.user_id, account.platform, open.limit_key LIMIT %(named)s)
"""
# Platforms that refuse accounts; see core/accounts/refusals.py.
REFUSED = """
SELECT account.platform, count(*) FILTER (WHERE account.refused_at > %(recent)s) AS refused,
  count(*) AS connected, max(account.wait_reason) AS reason
FROM connected_accounts AS account
WHERE account.status = 'connected' AND EXISTS (SELECT FROM connected_accounts AS waiting
  WHERE waiting.platform = account.platform AND waiting.wait_until IS NOT NULL)
GROUP BY account.platform ORDER BY account.platform
"""


# The first few by name; each is read from an index.
NAMES = """
SELECT
  array(SELECT sku || ' of ' || user_id FROM product_sync_schedule WHERE sync_status = 'parked'
    ORDER BY user_id, sku LIMIT %(shown)s) AS parked,
  array(SELECT sku || ' of ' || user_id FROM product_sync_schedule
    WHERE is_active AND consecutive_failures > 0 AND sync_status <> 'syncing' AND NOT is_paused
    ORDER BY user_id, sku LIMIT %(shown)s) AS failing,
  array(SELECT sku || ' of ' || user_id FROM (
      SELECT user_id, sku, push_failures FROM listing_state
      WHERE push_at IS NOT NULL AND push_failures > 0 LIMIT %(most)s) AS few
    ORDER BY push_failures DESC, user_id, sku LIMIT %(shown)s) AS refused,
  array(SELECT user_id || '/' || platform || '/' || kind
      || CASE WHEN is_backfill THEN '/history' ELSE '' END
    FROM sync_jobs WHERE status = 'dead' ORDER BY updated_at DESC, id LIMIT %(shown)s) AS dead_jobs
"""
UNREADABLE = """
SELECT account.user_id AS seller, account.platform || ' ' || account.shop AS name, few.kind,
  count(*) AS count, (array_agg(few.external_id ORDER BY few.external_id))[:%(shown)s] AS examples,
  (array_agg(few.reason ORDER BY few.seen_at DESC, few.external_id))[1] AS reason
FROM (SELECT * FROM unreadable_records LIMIT %(most)s) AS few
JOIN connected_accounts AS account ON account.id = few.account_id
GROUP BY account.id, few.kind ORDER BY account.user_id, account.platform, few.kind LIMIT %(named)s
"""
REMOVALS = """
SELECT walk.user_id AS seller, account.platform, account.platform || ' ' || account.shop AS name,
  walk.missing, walk.known, walk.held_reason AS reason, walk.held_since AS since
FROM listing_walks AS walk JOIN connected_accounts AS account ON account.id = walk.account_id
WHERE walk.held_reason IS NOT NULL AND account.status = 'connected'
ORDER BY walk.held_since, name LIMIT %(named)s
"""
# What waits for its shop's scopes or channels; the reason is that of core/catalog/channels.py.
UNPUBLISHED = """
SELECT account.user_id AS seller, account.platform || ' ' || account.shop AS name,
  count(*) AS count, min(few.push_error) AS reason
FROM (SELECT user_id, push_error FROM listing_state
      WHERE push_at IS NOT NULL AND push_error LIKE 'not published: %%' LIMIT %(most)s) AS few
JOIN connected_accounts AS account
  ON account.user_id = few.user_id AND account.locations IS NOT NULL
WHERE account.status = 'connected'
GROUP BY account.id ORDER BY account.user_id LIMIT %(named)s
"""
OVERSOLD = """
SELECT account.user_id AS seller, account.platform || ' ' || account.shop AS name,
  count(*) AS count, (array_agg(few.sku ORDER BY few.sku))[:%(shown)s] AS examples
FROM (SELECT user_id, sku FROM product
      WHERE (NOT tracked OR inventory_policy = 'CONTINUE') AND status = 'ACTIVE'
      LIMIT %(most)s) AS few
JOIN connected_accounts AS account
  ON account.user_id = few.user_id AND account.locations IS NOT NULL
WHERE account.status = 'connected'
GROUP BY account.id ORDER BY account.user_id LIMIT %(named)s
"""


# A part is read at least once a day, so a name that was not seen for longer is gone.
LOCATIONS = """
SELECT supplier, name, first_seen_at AS since FROM supplier_locations
WHERE last_seen_at > %(day_ago)s ORDER BY supplier, name LIMIT %(named)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """Open problems with changes, shops and jobs of all sellers."""

    held: int
    held_since: datetime | None
    refused: int
    refusals_in_a_row: int
    dead_jobs: int
    disconnected: int
    connections: Sequence[ConnectionMetric]
    names: TroubleNames
    unreadable: Sequence[UnreadableMetric]
    removals: Sequence[RemovalMetric]
    locations: Sequence[LocationMetric]
    unpublished: Sequence[VisibilityMetric]
    oversold: Sequence[OversellMetric]


class MinuteCounters(Queries):
    """Queries of the alert counters."""

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
            "permit_wait_s": permit_wait_s,
        }
        (hour,) = self._read(HourMetric, PULSE, values)
        return hour

    def troubles(self, platforms: Collection[PlatformName], now: datetime) -> Troubles:
        """Count open problems, and return the shops, accounts and platforms concerned."""
        values = {
            "most": COUNT_MAX,
            "named": NAMED_MAX,
            "together": LOST_TOGETHER,
            "shown": NAMES_SHOWN,
            "platforms": list(platforms),
            "recent": now - TOGETHER,
            "day_ago": now - LOCATION_KEPT,
        }
        with guarded(), self._pool.connection() as connection:
            (names,) = read_as(connection, TroubleNames, NAMES, values)
            named = partial(
                Troubles,
                connections=_connections(connection, values),
                names=names,
                locations=read_as(connection, LocationMetric, LOCATIONS, values),
                removals=read_as(connection, RemovalMetric, REMOVALS, values),
                unpublished=read_as(connection, VisibilityMetric, UNPUBLISHED, values),
                oversold=read_as(connection, OversellMetric, OVERSOLD, values),
                unreadable=read_as(connection, UnreadableMetric, UNREADABLE, values),
            )
            (troubles,) = read_as(connection, named, TROUBLES, values)
        return troubles


def _connections(
    connection: Connection[Any], values: Mapping[str, object]
) -> list[ConnectionMetric]:
    """Return platforms that refuse many accounts at once, then single shops and platforms."""
    together = [
        ConnectionMetric(seller=None, name=name, is_connected=True, trouble=reason, refused=refused)
        for name, refused, connected, reason in connection.execute(REFUSED, values)
        if are_refused_together(refused, connected)
    ]
    names = {metric.name for metric in together}
    others = read_as(connection, ConnectionMetric, CONNECTIONS, values)
    return [*together, *(metric for metric in others if metric.name not in names)]
