"""Verified webhooks: each is taken once, and wakes the one job that reads its record.

A delivery stays open until a run has read what it names. However many come, the job runs once
for all of them; one that comes while it runs makes it run again.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg import Connection

from headway.core.accounts.erasure import ErasureSubject
from headway.core.accounts.jobs import Account, DataKind, JobStatus, JobType
from headway.core.accounts.privacy import ANSWER_WITHIN
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.store.accounts.connections import disconnect
from headway.store.accounts.customer_erasure import customer_subject
from headway.store.accounts.erasure_requests import enter, whole_subject
from headway.store.accounts.job_rows import lock_seller
from headway.store.accounts.tombstones import CUSTOMER, erased_among
from headway.store.pool import Pool, guarded

# Deliveries without a job: about the account itself, and about privacy.
NO_JOB = {WebhookEffect.DISCONNECT: "account", WebhookEffect.UNINSTALL: "account"}
PRIVACY = "privacy"
PRIVATE = {WebhookEffect.RECORD, WebhookEffect.REDACT_CUSTOMER, WebhookEffect.REDACT_SHOP}

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
# A person answers it; see store/accounts/privacy_requests.py.
REQUEST = """
INSERT INTO privacy_requests
  (account_id, user_id, platform, customer_id, order_ids, requested_at, due_at)
VALUES (%(account_id)s, %(user_id)s, %(platform)s, %(external_id)s, %(order_ids)s, %(now)s,
  %(due_at)s) RETURNING id::text
"""
REQUESTED = """
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, created_at)
VALUES (%(user_id)s, %(now)s, 'data_request_received', jsonb_build_object(
  'request', %(id)s::text, 'platform', %(platform)s::text, 'due', %(due_at)s::timestamptz), %(now)s)
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
            "is_wanted": hook.effect is WebhookEffect.WAKE,
            "now": now,
        }
        with guarded(), self._pool.connection() as connection, connection.transaction():
            row = connection.execute(FIND, values).fetchone()
            if row is None:
                return DeliveryResult.UNKNOWN_SHOP
            account = Account(id=row[0], user_id=row[1], platform=hook.platform, shop=row[2])
            values["account_id"] = account.id
            values["user_id"] = account.user_id
            if hook.effect in NO_JOB or hook.effect in PRIVATE:
                # Before the delivery's row locks the account's: the same order as in a connect.
                lock_seller(connection, account.user_id)
            is_erased = _is_erased(connection, hook)
            # Whom a request about privacy names is stored for as long as it takes, and not here.
            is_named = not is_erased and hook.effect not in PRIVATE
            delivery = values if is_named else {**values, "external_id": None, "is_wanted": False}
            if not connection.execute(TAKE, delivery).rowcount:
                return DeliveryResult.REPEATED
            if not is_erased:
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
    elif hook.effect is WebhookEffect.RECORD:
        due = {**values, "due_at": values["now"] + ANSWER_WITHIN}
        row = connection.execute(REQUEST, due).fetchone()
        assert row is not None, "an insert returns its row"
        connection.execute(REQUESTED, {**due, "id": row[0]})
    elif hook.effect in PRIVATE:
        enter(connection, _subject(connection, hook, account), cause=hook.topic, now=values["now"])


def _is_erased(connection: Connection, hook: Webhook) -> bool:
    """Return True if a delivery names a customer who was erased: nothing is stored of it."""
    is_customer = hook.kind is DataKind.CUSTOMERS or hook.effect is WebhookEffect.RECORD
    if not is_customer or hook.external_id is None:
        return False
    named = {(CUSTOMER, hook.external_id)}
    return bool(erased_among(connection, hook.platform, hook.shop, named))


def _subject(connection: Connection, hook: Webhook, account: Account) -> ErasureSubject:
    """Return whom a delivery asks to erase."""
    whole = whole_subject(connection, account.user_id, account.id)
    if hook.effect is WebhookEffect.REDACT_SHOP:
        return whole
    assert hook.external_id is not None, "the parser asks for it"
    return customer_subject(
        connection,
        account.user_id,
        whole.accounts,
        customer_ids=[hook.external_id],
        order_ids=hook.order_ids,
    )
