"""Jobs over the life of their account: added, cancelled, resumed, revived, given a tier.

Each is part of its caller's transaction. Rows are locked in the order jobs, account, profile, as
the commit of a page does; commands on one seller are serialized by a lock.
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from psycopg import Connection

from headway.core.accounts.claims import SCORES_BY_TIER
from headway.core.accounts.jobs import BACKFILLED, Account, DataKind, JobType, Tier
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, NotFoundError
from headway.store.pool import Pool, guarded

# The first runs of accounts that are connected together are spread over this time.
SPREAD = timedelta(minutes=3)

LOCK_SELLER = "SELECT pg_advisory_xact_lock(hashtextextended('headway seller ' || %(user_id)s, 0))"
ENLIST = """
INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, tier, score, next_run_at,
  created_at, updated_at)
SELECT account.id, account.user_id, account.platform, new.kind, new.job_type, tier.name,
  (%(scores)s::jsonb -> tier.name ->> new.job_type)::smallint, %(first_at)s, %(now)s, %(now)s
FROM connected_accounts AS account
CROSS JOIN unnest(%(kinds)s::text[], %(types)s::text[]) AS new (kind, job_type)
CROSS JOIN LATERAL (
  SELECT coalesce((SELECT tier FROM profiles WHERE user_id = account.user_id), 'free') AS name
) AS tier
WHERE account.id = %(account_id)s AND account.user_id = %(user_id)s
ON CONFLICT ON CONSTRAINT sync_jobs_account_kind_unique DO NOTHING
"""
# What the events of a job name it by.
FACTS = """jsonb_build_object(
  'platform', platform, 'kind', kind, 'job_type', job_type, 'tier', tier)"""
# They continue from their cursors, and past failures no longer count.
RESUME = f"""
WITH ours AS (
  SELECT id, status FROM sync_jobs WHERE account_id = %(account_id)s AND user_id = %(user_id)s
    AND status IN ('cancelled', 'failed', 'dead') ORDER BY id FOR UPDATE
), resumed AS (
  UPDATE sync_jobs AS job SET status = 'queued', next_run_at = %(first_at)s, retry_count = 0,
    last_error = NULL, wait_reason = '', revive_at = NULL, updated_at = %(now)s
  FROM ours WHERE job.id = ours.id RETURNING job.*, ours.status AS former_status
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'job_revived', {FACTS} || '{{"by": "its connection"}}', %(now)s
FROM resumed WHERE former_status = 'dead'
"""
# A new fence refuses the worker that runs it. A completed backfill needs no cancelling.
CANCEL = f"""
WITH ours AS (
  SELECT id FROM sync_jobs WHERE account_id = %(account_id)s AND user_id = %(user_id)s
    AND status NOT IN ('dead', 'cancelled', 'paused') AND NOT (status = 'completed' AND is_backfill)
  ORDER BY id FOR UPDATE
), cancelled AS (
  UPDATE sync_jobs AS job SET status = 'cancelled', fence = fence + 1, next_run_at = NULL,
    woken_at = NULL, lease_owner = NULL, lease_until = NULL, wait_reason = '', revive_at = NULL,
    updated_at = %(now)s
  FROM ours WHERE job.id = ours.id RETURNING job.*
)
INSERT INTO sync_audit_log
  (user_id, job_id, sync_timestamp, event_type, new_value, error_message, created_at)
SELECT user_id, id, %(now)s, 'job_cancelled', {FACTS}, %(reason)s, %(now)s FROM cancelled
"""
POSTPONE = """
WITH ours AS (
  SELECT id FROM sync_jobs WHERE account_id = %(account_id)s
    AND status IN ('queued', 'completed', 'failed') AND next_run_at < %(until)s
  ORDER BY id FOR NO KEY UPDATE
)
UPDATE sync_jobs AS job SET next_run_at = %(until)s, wait_reason = %(reason)s,
  updated_at = %(now)s
FROM ours WHERE job.id = ours.id
"""
REVIVE = f"""
WITH ours AS (
  SELECT job.id FROM sync_jobs AS job JOIN connected_accounts AS account
    ON account.id = job.account_id AND account.status = 'connected'
  WHERE (job.id::text = %(id)s OR job.account_id::text = %(id)s)
    AND (%(user_id)s::text IS NULL OR job.user_id = %(user_id)s)
    AND job.status = 'dead' ORDER BY job.id FOR UPDATE OF job
), revived AS (
  UPDATE sync_jobs AS job SET status = 'queued', next_run_at = %(now)s, retry_count = 0,
    last_error = NULL, wait_reason = '', revive_at = NULL, updated_at = %(now)s
  FROM ours WHERE job.id = ours.id RETURNING job.*
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'job_revived', {FACTS} || '{{"by": "a person"}}', %(now)s FROM revived
"""
# A job that has waited keeps its place.
HURRY = f"""
WITH ours AS (
  SELECT job.id FROM sync_jobs AS job JOIN connected_accounts AS account
    ON account.id = job.account_id AND account.status = 'connected'
  WHERE job.id = ANY (%(ids)s::uuid[]) AND job.status IN ('queued', 'completed', 'failed')
    AND job.next_run_at IS NOT NULL
    AND (%(user_id)s::text IS NULL OR job.user_id = %(user_id)s)
  ORDER BY job.id FOR UPDATE OF job
), due AS (
  UPDATE sync_jobs AS job SET status = 'queued', next_run_at = least(next_run_at, %(now)s),
    wait_reason = '', updated_at = %(now)s
  FROM ours WHERE job.id = ours.id RETURNING job.*
), noted AS (
  INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
  SELECT user_id, id, %(now)s, 'job_woken', {FACTS} || '{{"by": "a person"}}', %(now)s FROM due
)
SELECT id::text FROM due
"""
# A new fence refuses the worker that runs it. What a seller paused stays so while disconnected.
PAUSE = """
WITH ours AS (
  SELECT id FROM sync_jobs WHERE account_id = %(account_id)s AND user_id = %(user_id)s
    AND kind = ANY (%(kinds)s) AND status NOT IN ('dead', 'cancelled', 'paused')
    AND NOT (status = 'completed' AND is_backfill)
  ORDER BY id FOR UPDATE
), paused AS (
  UPDATE sync_jobs AS job SET status = 'paused', fence = fence + 1, next_run_at = NULL,
    woken_at = NULL, lease_owner = NULL, lease_until = NULL, wait_reason = %(reason)s,
    revive_at = NULL, updated_at = %(now)s
  FROM ours WHERE job.id = ours.id RETURNING job.id, job.user_id
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, error_message, created_at)
SELECT user_id, id, %(now)s, 'sync_paused', nullif(%(reason)s, ''), %(now)s FROM paused
"""
RESUME_PAUSED = """
WITH ours AS (
  SELECT id FROM sync_jobs WHERE account_id = %(account_id)s AND user_id = %(user_id)s
    AND kind = ANY (%(kinds)s) AND status = 'paused' ORDER BY id FOR UPDATE
), resumed AS (
  UPDATE sync_jobs AS job SET status = 'queued', next_run_at = %(now)s, retry_count = 0,
    last_error = NULL, wait_reason = '', updated_at = %(now)s
  FROM ours WHERE job.id = ours.id RETURNING job.id, job.user_id
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, created_at)
SELECT user_id, id, %(now)s, 'sync_resumed', %(now)s FROM resumed
"""
# Everything is read again, history too. Nothing stored is deleted: records are written over.
RESYNC = """
WITH ours AS (
  SELECT id FROM sync_jobs WHERE account_id = %(account_id)s AND user_id = %(user_id)s
    AND kind = ANY (%(kinds)s) AND status NOT IN ('cancelled', 'paused') ORDER BY id FOR UPDATE
), begun AS (
  UPDATE sync_jobs AS job SET status = 'queued', cursor = '{}', fence = fence + 1,
    next_run_at = %(now)s, completed_at = NULL, woken_at = NULL, lease_owner = NULL,
    lease_until = NULL, retry_count = 0, last_error = NULL, wait_reason = '', revive_at = NULL,
    run_calls = 0, updated_at = %(now)s
  FROM ours WHERE job.id = ours.id RETURNING job.id, job.user_id
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'sync_triggered', '{"resync": true}', %(now)s FROM begun
"""
STATUSES = """
SELECT job.status, account.status FROM sync_jobs AS job
JOIN connected_accounts AS account ON account.id = job.account_id
WHERE (job.id::text = %(id)s OR job.account_id::text = %(id)s)
  AND (%(user_id)s::text IS NULL OR job.user_id = %(user_id)s)
"""
# In a statement of its own: one that waits here and then writes would first try, and be refused, a
# row that is half of before and half of after.
LOCK_JOBS = "SELECT FROM sync_jobs WHERE user_id = %(user_id)s ORDER BY id FOR UPDATE"
# If the new quota allows more orders this month, jobs set aside for it continue at once.
SET_TIER = """
WITH ours AS (
  SELECT job.id, job.status = 'plan_limit_reached' AND coalesce((
    SELECT profile.orders_count FROM profiles AS profile
    WHERE profile.user_id = job.user_id AND profile.orders_month = %(month)s::date), 0)
    < %(quota)s AS is_lifted
  FROM sync_jobs AS job WHERE job.user_id = %(user_id)s
), moved AS (
  UPDATE sync_jobs AS job SET tier = %(tier)s,
    score = (%(scores)s::jsonb -> %(tier)s::text ->> job.job_type)::smallint,
    status = CASE WHEN ours.is_lifted THEN 'queued' ELSE job.status END,
    next_run_at = CASE WHEN ours.is_lifted THEN %(now)s ELSE job.next_run_at END,
    wait_reason = CASE WHEN ours.is_lifted THEN '' ELSE job.wait_reason END,
    updated_at = %(now)s
  FROM ours WHERE job.id = ours.id RETURNING job.id, job.user_id, ours.is_lifted
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'plan_limit_lifted', jsonb_build_object('tier', %(tier)s::text),
  %(now)s
FROM moved WHERE is_lifted
"""


def first_run_at(account_id: str, now: datetime) -> datetime:
    """Return when an account's first runs are due: each account's own instant, always the same."""
    share = int.from_bytes(sha256(account_id.encode()).digest()[:4], "big") / 2**32
    return now + SPREAD * share


def lock_seller(connection: Connection[Any], user_id: SellerId) -> None:
    """Lock a seller against connecting, disconnecting and changes of tier."""
    connection.execute(LOCK_SELLER, {"user_id": user_id})


def resume(connection: Connection[Any], account: Account, *, now: datetime) -> None:
    """Resume cancelled jobs; call this before the account's row is locked."""
    connection.execute(
        RESUME, {**_values_of(account, now), "first_at": first_run_at(account.id, now)}
    )


def enlist(
    connection: Connection[Any], account: Account, kinds: Sequence[DataKind], *, now: datetime
) -> None:
    """Give a connected account the jobs it lacks: for each of these kinds."""
    jobs = [(kind, JobType.INCREMENTAL) for kind in kinds]
    jobs += [(kind, JobType.BACKFILL) for kind in kinds if kind in BACKFILLED]
    values = {
        **_values_of(account, now),
        "first_at": first_run_at(account.id, now),
        "kinds": [kind.value for kind, _ in jobs],
        "types": [job_type.value for _, job_type in jobs],
        "scores": _scores(),
    }
    connection.execute(ENLIST, values)


def cancel(connection: Connection[Any], account: Account, reason: str, *, now: datetime) -> int:
    """Stop all jobs of an account, running ones too; return how many that were."""
    values = {**_values_of(account, now), "reason": reason}
    return connection.execute(CANCEL, values).rowcount


def postpone(
    connection: Connection[Any], account: Account, until: datetime, reason: str, *, now: datetime
) -> int:
    """Let no waiting job of an account run before then; return how many have to wait."""
    values = {**_values_of(account, now), "until": until, "reason": reason}
    return connection.execute(POSTPONE, values).rowcount


def set_tier(
    connection: Connection[Any], user_id: SellerId, tier: Tier, *, quota: int, now: datetime
) -> int:
    """Set the tier of all jobs of a seller; return how many may continue under the new quota."""
    values = {
        "user_id": user_id,
        "tier": tier.value,
        "quota": quota,
        "scores": _scores(),
        "month": now.replace(day=1).date(),
        "now": now,
    }
    connection.execute(LOCK_JOBS, values)
    return connection.execute(SET_TIER, values).rowcount


class JobRows:
    """People's commands on jobs."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def revive(self, id_: str, *, user_id: SellerId | None = None, now: datetime) -> int:
        """Queue a dead job, or all dead ones of an account; return how many.

        Raises NotFoundError, and ConflictError while the account is disconnected.
        """
        values = {"id": id_, "user_id": user_id, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            revived = connection.execute(REVIVE, values).rowcount
            statuses = connection.execute(STATUSES, values).fetchall()
        if not statuses:
            raise NotFoundError(f"there is no job and no account {id_}")
        if not revived and any(account != "connected" for _, account in statuses):
            raise ConflictError("the account is disconnected; connect it again, its jobs go on")
        return revived

    def pause(
        self, account: Account, kinds: Collection[DataKind], reason: str, *, now: datetime
    ) -> int:
        """Pause the jobs of an account, running ones too; return how many that were."""
        return self._change(PAUSE, account, kinds, now, reason=reason)

    def resume(self, account: Account, kinds: Collection[DataKind], *, now: datetime) -> int:
        """Queue the paused jobs of an account again; return how many that were."""
        return self._change(RESUME_PAUSED, account, kinds, now)

    def resync(self, account: Account, kinds: Collection[DataKind], *, now: datetime) -> int:
        """Let an account's jobs read everything again, from the beginning; return how many."""
        return self._change(RESYNC, account, kinds, now)

    def _change(
        self,
        statement: str,
        account: Account,
        kinds: Collection[DataKind],
        now: datetime,
        **more: str,
    ) -> int:
        values = {**_values_of(account, now), "kinds": [kind.value for kind in kinds], **more}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, account.user_id)
            return connection.execute(statement, values).rowcount

    def hurry(
        self, ids: Collection[str], *, user_id: SellerId | None = None, now: datetime
    ) -> set[str]:
        """Make these jobs due now; return those that were waiting, the others stay as they are."""
        values = {"ids": sorted(ids), "user_id": user_id, "now": now}
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(HURRY, values).fetchall()
        return {id_ for (id_,) in rows}


def _values_of(account: Account, now: datetime) -> dict[str, Any]:
    return {"account_id": account.id, "user_id": account.user_id, "now": now}


def _scores() -> str:
    return json.dumps(SCORES_BY_TIER)
