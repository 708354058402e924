"""Webhooks that were verified: each is taken once, and wakes the one job that looks.

A delivery stays wanted until a run has read what it names. However many come, the job runs once
for all of them; one that comes while it runs makes it run again.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from psycopg import Connection
from psycopg_pool import ConnectionPool

from headway.core.hooks import REASONS, Effect, Hook
from headway.core.jobs import JobStatus, JobType
from headway.store.pool import guarded

# Deliveries of no job: what the platform says of the account itself, and of people's privacy.
NO_JOB = {Effect.DISCONNECT: "account"}
PRIVACY = "privacy"

FIND = """
SELECT id::text FROM connected_accounts WHERE platform = %(platform)s AND shop = %(shop)s
"""
TAKE = """
INSERT INTO webhook_deliveries
  (platform, delivery_id, account_id, topic, kind, external_id, received_at, handled_at)
VALUES (%(platform)s, %(delivery_id)s, %(account_id)s, %(topic)s, %(kind)s, %(external_id)s,
  %(now)s, CASE WHEN %(is_wanted)s THEN NULL ELSE %(now)s::timestamptz END)
ON CONFLICT DO NOTHING
"""
# The job's row is locked even if nothing is left to change: whoever claims it then sees this
# delivery, and whoever claimed it before is told. What failed keeps its backoff, and goes
# first when that is over: else a burst would use up all its tries.
WAKE = f"""
WITH job AS (
  SELECT id, user_id, status, status = '{JobStatus.RUNNING}' AS is_running,
    CASE WHEN status = '{JobStatus.RUNNING}' THEN woken_at IS NOT NULL
      ELSE job_type = '{JobType.WEBHOOK}' AND status <> '{JobStatus.COMPLETED}'
        AND (next_run_at <= %(now)s OR status = '{JobStatus.FAILED}') END AS is_awake
  FROM sync_jobs
  WHERE account_id = %(account_id)s AND kind = %(kind)s AND NOT is_backfill AND status IN
    ('{JobStatus.QUEUED}', '{JobStatus.RUNNING}', '{JobStatus.COMPLETED}', '{JobStatus.FAILED}')
  FOR NO KEY UPDATE
), woken AS (
  UPDATE sync_jobs SET
    job_type = '{JobType.WEBHOOK}',
    score = score / 10 * 10 + {JobType.WEBHOOK.weight},
    status = CASE sync_jobs.status WHEN '{JobStatus.COMPLETED}' THEN '{JobStatus.QUEUED}'
      ELSE sync_jobs.status END,
    next_run_at = CASE WHEN sync_jobs.status IN ('{JobStatus.RUNNING}', '{JobStatus.FAILED}')
      THEN next_run_at ELSE least(next_run_at, %(now)s) END,
    woken_at = CASE WHEN is_running THEN %(now)s ELSE woken_at END,
    updated_at = %(now)s
  FROM job WHERE sync_jobs.id = job.id AND NOT is_awake
  RETURNING sync_jobs.id
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'job_woken',
  jsonb_build_object('topic', %(topic)s::text, 'external_id', %(external_id)s::text), %(now)s
FROM job JOIN woken USING (id)
"""
# A running job's worker is refused by the fence. A history that was pulled stays pulled, and the
# dead stay dead.
DISCONNECT = f"""
WITH ended AS (
  UPDATE connected_accounts SET status = 'disconnected', reason = %(reason)s, updated_at = %(now)s
  WHERE id = %(account_id)s AND status = 'connected'
  RETURNING id, user_id, platform, shop
), cancelled AS (
  UPDATE sync_jobs SET status = '{JobStatus.CANCELLED}', next_run_at = NULL, lease_owner = NULL,
    lease_until = NULL, fence = fence + 1, wait_reason = %(reason)s, updated_at = %(now)s
  FROM ended WHERE account_id = ended.id
    AND sync_jobs.status NOT IN ('{JobStatus.DEAD}', '{JobStatus.CANCELLED}')
    AND NOT (is_backfill AND sync_jobs.status = '{JobStatus.COMPLETED}')
  RETURNING sync_jobs.id, sync_jobs.user_id
), told AS (
  INSERT INTO notices (user_id, topic, subject, text, created_at)
  SELECT user_id, 'account_disconnected', id || ' ' || %(now)s::timestamptz,
    platform || ' ' || shop || ' is disconnected: ' || %(reason)s, %(now)s
  FROM ended
  ON CONFLICT DO NOTHING
)
INSERT INTO sync_audit_log
  (user_id, job_id, sync_timestamp, event_type, error_message, created_at)
SELECT user_id, NULL::uuid, %(now)s, 'account_disconnected', %(reason)s, %(now)s FROM ended
UNION ALL SELECT user_id, id, %(now)s, 'job_cancelled', %(reason)s, %(now)s FROM cancelled
"""
# People's own names only; what they bought is the seller's to keep.
REDACT = """
UPDATE customers SET name = '', email = '', updated_at = %(now)s
WHERE account_id = %(account_id)s AND (%(external_id)s::text IS NULL
  OR external_id = %(external_id)s) AND (name <> '' OR email <> '')
"""
# Kept in the platform's own words, so with whatever names stand in them.
REDACT_RAW = """
DELETE FROM unreadable_records
WHERE account_id = %(account_id)s AND (%(external_id)s::text IS NULL
  OR (kind = 'customers' AND external_id = %(external_id)s)
  OR (kind = 'orders' AND external_id = ANY(%(order_ids)s)))
"""
FORGET = """
DELETE FROM webhook_deliveries WHERE received_at < %s AND handled_at IS NOT NULL
"""


class Fate(StrEnum):
    """What became of a delivery."""

    TAKEN = "taken"
    REPEATED = "repeated"
    UNKNOWN_SHOP = "unknown shop"


class Hooks:
    """Table `webhook_deliveries`, and what a delivery sets going."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def take(self, hook: Hook, *, now: datetime) -> Fate:
        """Keep a delivery and act on it in one transaction; one that was taken before is left."""
        values = {
            "platform": hook.platform,
            "delivery_id": hook.delivery_id,
            "shop": hook.shop,
            "topic": hook.topic,
            "kind": hook.kind or NO_JOB.get(hook.effect, PRIVACY),
            "external_id": hook.external_id,
            "order_ids": list(hook.order_ids),
            # A request for somebody's data is a person's to answer.
            "is_wanted": hook.effect in {Effect.WAKE, Effect.RECORD},
            "now": now,
        }
        with guarded(), self._pool.connection() as connection, connection.transaction():
            row = connection.execute(FIND, values).fetchone()
            if row is None:
                return Fate.UNKNOWN_SHOP
            values["account_id"] = row[0]
            if not connection.execute(TAKE, values).rowcount:
                return Fate.REPEATED
            _act(connection, hook, values)
        return Fate.TAKEN

    def forget(self, before: datetime) -> int:
        """Remove deliveries that were handled and came before then; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FORGET, (before,)).rowcount


def _act(connection: Connection, hook: Hook, values: Mapping[str, object]) -> None:
    if hook.effect is Effect.WAKE:
        connection.execute(WAKE, values)
    elif hook.effect is Effect.DISCONNECT:
        connection.execute(DISCONNECT, {**values, "reason": REASONS[hook.platform]})
    elif hook.effect in {Effect.REDACT_CUSTOMER, Effect.REDACT_SHOP}:
        connection.execute(REDACT, values)
        connection.execute(REDACT_RAW, values)
