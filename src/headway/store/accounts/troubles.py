"""Accounts that are refused or suspended: the evidence, kept where every worker sees it.

While an account waits, nothing is asked of it: its jobs are postponed, and its shop is left alone.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.accounts import refusals
from headway.core.accounts.jobs import Account
from headway.core.accounts.refusals import AccountTrouble, Peers, RefusalVerdict
from headway.store.accounts.job_rows import lock_seller, postpone
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

LOAD = """
SELECT refusals, refused_since, refused_at, suspensions, wait_until, wait_reason, uninstalled_at
FROM connected_accounts WHERE id = %(id)s
"""
PEERS = """
SELECT count(*) AS connected,
  count(*) FILTER (WHERE id = %(id)s OR refused_at > %(recent)s) AS refused,
  EXISTS (SELECT FROM sync_jobs WHERE platform = %(platform)s AND account_id <> %(id)s
    AND completed_at > %(since)s) AS is_answered
FROM connected_accounts WHERE platform = %(platform)s AND status = 'connected'
"""
SAVE = """
UPDATE connected_accounts SET refusals = %(refusals)s, refused_since = %(refused_since)s,
  refused_at = %(refused_at)s, suspensions = %(suspensions)s, wait_until = %(wait_until)s,
  wait_reason = %(wait_reason)s, updated_at = %(now)s
WHERE id = %(id)s AND status = 'connected'
"""
ACCEPT = """
UPDATE connected_accounts AS account SET refusals = 0, refused_since = NULL, refused_at = NULL,
  suspensions = 0, wait_until = NULL, wait_reason = '', uninstalled_at = NULL, updated_at = %(now)s
FROM (SELECT id, wait_reason FROM connected_accounts WHERE id = %(id)s) AS before
WHERE account.id = before.id
  AND (account.wait_until IS NOT NULL OR account.uninstalled_at IS NOT NULL)
RETURNING before.wait_reason
"""
# Its other jobs need not wait any longer.
HURRY = """
WITH ours AS (
  SELECT id FROM sync_jobs WHERE account_id = %(id)s AND wait_reason = %(reason)s
    AND status IN ('queued', 'completed', 'failed') AND next_run_at > %(now)s
  ORDER BY id FOR NO KEY UPDATE
)
UPDATE sync_jobs AS job SET next_run_at = %(now)s, wait_reason = '', updated_at = %(now)s
FROM ours WHERE job.id = ours.id
"""


class AccountTroubles(Queries):
    """The columns of `connected_accounts` that say why an account waits."""

    def refuse(self, account: Account, reason: str, *, now: datetime) -> RefusalVerdict:
        """Count a refusal of an account's token, and let the account wait unless it ends."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, account.user_id)
            (trouble,) = read_as(connection, AccountTrouble, LOAD, {"id": account.id})
            values = {
                "id": account.id,
                "platform": account.platform,
                "recent": now - refusals.TOGETHER,
                "since": trouble.refused_since or now,
            }
            (peers,) = read_as(connection, Peers, PEERS, values)
            verdict = refusals.refused(trouble, reason, now, peers)
            self._save(connection, account, verdict.trouble, now)
        return verdict

    def suspend(self, account: Account, reason: str, *, now: datetime) -> datetime:
        """Let an account wait that its platform has suspended; return until when."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, account.user_id)
            (before,) = read_as(connection, AccountTrouble, LOAD, {"id": account.id})
            trouble = refusals.suspended(before, reason, now)
            self._save(connection, account, trouble, now)
        assert trouble.wait_until is not None, "a suspended account waits"
        return trouble.wait_until

    def accept(self, account: Account, *, now: datetime) -> None:
        """Forget the trouble of an account that got a good answer, and resume its jobs."""
        values = {"id": account.id, "now": now}
        row = self._first(ACCEPT, values)
        if row is not None and row[0]:
            self._write(HURRY, {**values, "reason": row[0]})

    def _save(
        self, connection: Connection[Any], account: Account, trouble: AccountTrouble, now: datetime
    ) -> None:
        assert trouble.wait_until is not None, "an account in trouble waits"
        # Jobs before their account: the order in which a page is committed.
        postpone(connection, account, trouble.wait_until, trouble.wait_reason, now=now)
        connection.execute(SAVE, {"id": account.id, "now": now, **asdict(trouble)})
