"""Statuses and tiers that other programs set by SQL: the tick makes jobs follow them.

`connected_accounts.jobs_status` and `profiles.jobs_tier` hold what the jobs follow. Headway's own
commands set both columns; another program sets one, and the row is then found by an index.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.accounts.jobs import DataKind, JobRule, PlatformName, Tier
from headway.store.accounts import job_rows
from headway.store.accounts.connections import (
    ConnectedShop,
    accounts_by_id,
    add_account_event,
)
from headway.store.pool import Pool, guarded

# The rest is left to the next round, so that a round stays short.
ROWS_MAX = 200
ACCOUNTS = """
SELECT id::text, user_id FROM connected_accounts WHERE status IS DISTINCT FROM jobs_status
ORDER BY id LIMIT %(most)s
"""
# Read again under the seller's lock: a command may have been faster.
FOLLOWED = """
UPDATE connected_accounts SET jobs_status = status
WHERE id = %(account_id)s AND status IS DISTINCT FROM jobs_status RETURNING id::text
"""
SELLERS = """
SELECT user_id FROM profiles WHERE tier IS DISTINCT FROM jobs_tier
ORDER BY user_id LIMIT %(most)s
"""
TIER = """
WITH before AS (SELECT user_id, jobs_tier FROM profiles WHERE user_id = %(user_id)s FOR UPDATE)
UPDATE profiles SET jobs_tier = tier FROM before
WHERE profiles.user_id = before.user_id AND tier IS DISTINCT FROM before.jobs_tier
RETURNING tier, before.jobs_tier
"""
TIER_EVENT = """
INSERT INTO sync_audit_log
  (user_id, sync_timestamp, event_type, old_value, new_value, created_at)
VALUES (%(user_id)s, %(now)s, 'tier_set', jsonb_build_object('tier', %(old)s::text),
  jsonb_build_object('tier', %(tier)s::text, 'by', 'sql'), %(now)s)
"""
REASON = "disconnected by another program"


class ExternalWrites:
    """Rows whose status or tier was set by another program."""

    def __init__(
        self, pool: Pool, rule: JobRule, *, kinds: Mapping[PlatformName, Sequence[DataKind]]
    ) -> None:
        self._pool = pool
        self._rule = rule
        self._kinds = kinds

    def follow(self, now: datetime) -> int:
        """Make the jobs of some such rows follow; return how many rows that were."""
        with guarded(), self._pool.connection() as connection:
            accounts = connection.execute(ACCOUNTS, {"most": ROWS_MAX}).fetchall()
            sellers = connection.execute(SELLERS, {"most": ROWS_MAX}).fetchall()
        for account_id, user_id in accounts:
            with guarded(), self._pool.connection() as connection, connection.transaction():
                job_rows.lock_seller(connection, user_id)
                for account in accounts_by_id(connection, [account_id]):
                    self._follow_status(connection, account, now)
        for (user_id,) in sellers:
            with guarded(), self._pool.connection() as connection, connection.transaction():
                job_rows.lock_seller(connection, user_id)
                self._follow_tier(connection, {"user_id": user_id, "now": now})
        return len(accounts) + len(sellers)

    def _follow_status(
        self, connection: Connection[Any], account: ConnectedShop, now: datetime
    ) -> None:
        # Jobs are locked before their account, as the commit of a page does.
        is_connected = account.status == "connected"
        if is_connected:
            job_rows.resume(connection, account.bare, now=now)
        else:
            job_rows.cancel(connection, account.bare, account.reason or REASON, now=now)
        if connection.execute(FOLLOWED, {"account_id": account.id}).fetchone() is None:
            return
        if is_connected:
            kinds = self._kinds.get(account.platform, ())
            job_rows.enlist(connection, account.bare, kinds, now=now)
        event = "account_connected" if is_connected else "account_disconnected"
        add_account_event(connection, account, event, now=now)

    def _follow_tier(self, connection: Connection[Any], values: dict[str, Any]) -> None:
        connection.execute(job_rows.LOCK_JOBS, values)
        row = connection.execute(TIER, values).fetchone()
        if row is None:
            return
        tier, old = Tier(row[0]), row[1]
        user_id, now = values["user_id"], values["now"]
        quota = self._rule.order_quotas[tier]
        job_rows.set_tier(connection, user_id, tier, quota=quota, now=now)
        if (old or Tier.FREE.value) != tier.value:
            connection.execute(TIER_EVENT, {**values, "old": old, "tier": tier.value})
