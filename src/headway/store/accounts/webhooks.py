"""Verified webhooks: each is taken once, and wakes the one job that reads its record.

A delivery stays open until a run has read what it names. However many come, the job runs once
for all of them; one that comes while it runs makes it run again.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg import Connection

from headway.core.accounts.jobs import Account, JobStatus, JobType
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.store.accounts.connections import disconnect
from headway.store.accounts.job_rows import lock_seller
from headway.store.pool import Pool, guarded

# Deliveries without a job: about the account itself, and about privacy.
NO_JOB = {WebhookEffect.DISCONNECT: "account", WebhookEffect.UNINSTALL: "account"}
PRIVACY = "privacy"

FIND = """
SELECT id::text, user_id, shop FROM connected_accounts
WHERE platform = %(platform)s AND shop = %(shop)s
"""
TAKE = """
INSERT INTO webhook_deliveries
  (platform, delivery_id, account_id, topic, kind, external_id, received_at, handled_at)
VALUES (%(platform)s, %(delivery_id)s, %(account_id)s, %(topic)s, %(kind)s, %(external_id)s,
  %(now)s, CASE WHEN %(is_wanted)s THEN NULL ELSE %(now)s::timestamptz END)
ON CONFLICT DO NOTHING
"""
# The job's row is locked even if nothing is left to change: a later claim then sees this delivery,
# and an earlier one is marked. A failed job keeps its backoff, and goes first when that is over:
# else a burst would use up all its retries. A run in progress may be past what changed: another
# follows it. After many such runs the job waits until `wake_from`, and reads all of them together.
WAKE = f"""
WITH job AS (
  SELECT id, user_id, status, is_late,
    CASE WHEN is_late AND woken_at IS NULL THEN false WHEN status = '{JobStatus.RUNNING}' THEN true
      ELSE job_type = '{JobType.WEBHOOK}' AND status <> '{JobStatus.COMPLETED}'
        AND (next_run_at <= greatest(%(now)s, wake_from) OR status = '{JobStatus.FAILED}')
    END AS is_awake
  FROM sync_jobs
  CROSS JOIN LATERAL (SELECT status = '{JobStatus.RUNNING}' OR cursor ? 'run' AS is_late) AS run
  WHERE account_id = %(account_id)s AND kind = %(kind)s AND NOT is_backfill AND status IN
    ('{JobStatus.QUEUED}', '{JobStatus.RUNNING}', '{JobStatus.COMPLETED}', '{JobStatus.FAILED}')
  FOR NO KEY UPDATE OF sync_jobs
), woken AS (
  UPDATE sync_jobs SET
    job_type = '{JobType.WEBHOOK}',
    score = score / 10 * 10 + {JobType.WEBHOOK.weight},
    status = CASE sync_jobs.status WHEN '{JobStatus.COMPLETED}' THEN '{JobStatus.QUEUED}'
      ELSE sync_jobs.status END,
    next_run_at = CASE WHEN sync_jobs.status IN ('{JobStatus.RUNNING}', '{JobStatus.FAILED}')
      THEN next_run_at ELSE least(next_run_at, greatest(%(now)s, wake_from)) END,
    wait_reason = CASE WHEN wake_from > %(now)s THEN 'many webhooks: one run reads them together'
      ELSE wait_reason END,
    woken_at = CASE WHEN is_late THEN %(now)s ELSE woken_at END,
    updated_at = %(now)s
  FROM job WHERE sync_jobs.id = job.id AND NOT is_awake
  RETURNING sync_jobs.*
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT woken.user_id, woken.id, %(now)s, 'job_woken',
  jsonb_build_object('platform', woken.platform, 'kind', woken.kind, 'job_type', woken.job_type,
    'tier', woken.tier, 'topic', %(topic)s::text, 'external_id', %(external_id)s::text), %(now)s
FROM woken
"""
# The shop is asked soon, by its next job and by a drift check; only its refusal disconnects it.
UNINSTALL = """
WITH soonest AS (
  SELECT id FROM sync_jobs WHERE account_id = %(account_id)s AND NOT is_backfill
    AND status IN ('queued', 'completed') AND next_run_at > %(now)s
  ORDER BY next_run_at, id LIMIT 1 FOR NO KEY UPDATE
), job AS (
  UPDATE sync_jobs SET next_run_at = %(now)s, updated_at = %(now)s
  FROM soonest WHERE sync_jobs.id = soonest.id
)
UPDATE connected_accounts SET uninstalled_at = %(now)s, drift_check_at = %(now)s,
  updated_at = %(now)s
WHERE id = %(account_id)s AND status = 'connected'
"""
# Names and addresses only; the orders are the seller's to keep.
REDACT = """
UPDATE customers SET name = '', email = '', updated_at = %(now)s
WHERE account_id = %(account_id)s AND (%(external_id)s::text IS NULL
  OR external_id = %(external_id)s) AND (name <> '' OR email <> '')
"""
# Stored as received, so with the names in them.
REDACT_RAW = """
DELETE FROM unreadable_records
WHERE account_id = %(account_id)s AND (%(external_id)s::text IS NULL
  OR (kind = 'customers' AND external_id = %(external_id)s)
  OR (kind = 'orders' AND external_id = ANY(%(order_ids)s)))
"""
FORGET = """
DELETE FROM webhook_deliveries WHERE received_at < %s AND handled_at IS NOT NULL
"""


class DeliveryResult(StrEnum):
    """Result of a delivery."""

    TAKEN = "taken"
    REPEATED = "repeated"
    UNKNOWN_SHOP = "unknown shop"


class Webhooks:
    """Table `webhook_deliveries`, and the effects of a delivery."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def take(self, hook: Webhook, *, now: datetime) -> DeliveryResult:
        """Store a delivery and act on it in one transaction; skip one that was stored before."""
        values = {
            "platform": hook.platform,
            "delivery_id": hook.delivery_id,
            "shop": hook.shop,
            "topic": hook.topic,
            "kind": hook.kind or NO_JOB.get(hook.effect, PRIVACY),
            "external_id": hook.external_id,
            "order_ids": list(hook.order_ids),
            # A person must answer a request for data.
            "is_wanted": hook.effect in {WebhookEffect.WAKE, WebhookEffect.RECORD},
            "now": now,
        }
        with guarded(), self._pool.connection() as connection, connection.transaction():
            row = connection.execute(FIND, values).fetchone()
            if row is None:
                return DeliveryResult.UNKNOWN_SHOP
            account = Account(id=row[0], user_id=row[1], platform=hook.platform, shop=row[2])
            values["account_id"] = account.id
            if hook.effect in NO_JOB:
                # Before the delivery's row locks the account's: the same order as in a connect.
                lock_seller(connection, account.user_id)
            if not connection.execute(TAKE, values).rowcount:
                return DeliveryResult.REPEATED
            _act(connection, hook, account, values)
        return DeliveryResult.TAKEN

    def forget(self, before: datetime) -> int:
        """Remove deliveries that were handled and came before then; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FORGET, (before,)).rowcount


def _act(
    connection: Connection, hook: Webhook, account: Account, values: Mapping[str, Any]
) -> None:
    if hook.effect is WebhookEffect.WAKE:
        connection.execute(WAKE, values)
    elif hook.effect is WebhookEffect.DISCONNECT:
        disconnect(connection, account, hook.reason, is_leaving=True, now=values["now"])
    elif hook.effect is WebhookEffect.UNINSTALL:
        connection.execute(UNINSTALL, values)
    elif hook.effect in {WebhookEffect.REDACT_CUSTOMER, WebhookEffect.REDACT_SHOP}:
        connection.execute(REDACT, values)
        connection.execute(REDACT_RAW, values)
