"""Removals of listings that are held: their list, and what a person decides about them."""

import json
from dataclasses import dataclass
from datetime import datetime

from headway.core.accounts.jobs import PlatformName
from headway.core.accounts.removals import WALKS_MIN
from headway.core.catalog.listings import CLOCKS_APART_MAX, SellerId
from headway.store import cursors
from headway.store.accounts.warehouse_sql import REMOVED
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

HELD = """
SELECT account.user_id AS seller, account.platform, account.shop, walk.known, walk.missing,
  walk.held_reason AS reason, walk.held_since AS since
FROM listing_walks AS walk JOIN connected_accounts AS account ON account.id = walk.account_id
WHERE walk.held_reason IS NOT NULL AND account.status = 'connected'
  AND (%(user_id)s::text IS NULL OR account.user_id = %(user_id)s)
"""
SOME = f"""{HELD}
  AND (%(after_user)s::text IS NULL
    OR (account.user_id, account.platform) > (%(after_user)s, %(after_platform)s))
ORDER BY account.user_id, account.platform LIMIT %(limit)s
"""
# The commit of a page locks its job first.
LOCK_JOBS = """
SELECT FROM sync_jobs WHERE user_id = %(user_id)s AND platform = %(platform)s AND kind = 'listings'
ORDER BY id FOR UPDATE
"""
LOCK_WALKS = """
SELECT walk.account_id, walk.walks
FROM listing_walks AS walk JOIN connected_accounts AS account ON account.id = walk.account_id
WHERE account.user_id = %(user_id)s AND account.platform = %(platform)s FOR UPDATE OF walk
"""
ONE = f"{HELD} AND account.platform = %(platform)s"
DECIDED = """
UPDATE listing_walks SET walks = %(walks)s, known = known - %(removed)s, missing = 0,
  held_reason = NULL, held_since = NULL, updated_at = %(now)s
WHERE account_id = %(account_id)s
"""
EVENT = """
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, error_message,
  created_at)
VALUES (%(user_id)s, %(now)s, %(event)s, %(value)s::jsonb, nullif(%(reason)s, ''), %(now)s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRemoval:
    """Listings of an account that its platform no longer shows, and why they are not removed.

    `missing` of the `known` listings were not in the last two complete pulls.
    """

    seller: SellerId
    platform: PlatformName
    shop: str
    known: int
    """Listings that are stored."""
    missing: int
    """Listings that the platform no longer shows."""
    reason: str
    """Why they are not removed by themselves. Example: `15 of 20 listings are gone at once`"""
    since: datetime
    """When they were first missed."""

    @property
    def cursor(self) -> str:
        """Where a list goes on after this one."""
        return cursors.encode(self.seller, self.platform)


class Removals(Queries):
    """Held removals, and the decisions about them."""

    def some(
        self, user_id: SellerId | None, *, cursor: str | None = None, limit: int
    ) -> list[HeldRemoval]:
        """Return held removals by seller."""
        user, platform = (None, None) if cursor is None else cursors.decode(cursor, str, str)
        values = {"user_id": user_id, "after_user": user, "after_platform": platform}
        return self._read(HeldRemoval, SOME, {**values, "limit": limit})

    def decide(
        self,
        user_id: SellerId,
        platform: PlatformName,
        *,
        missing: int,
        is_confirmed: bool,
        reason: str,
        now: datetime,
    ) -> tuple[HeldRemoval | None, int]:
        """Remove the missing listings, or begin to count pulls again; return how many were removed.

        Nothing happens if other than `missing` listings are missing now: somebody decided about
        another hold. The hold is returned as it was; None if there is none.
        """
        owner = {"user_id": user_id, "platform": platform, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(LOCK_JOBS, owner)
            account_id, walks = connection.execute(LOCK_WALKS, owner).fetchone() or (None, [])
            hold = next(iter(read_as(connection, HeldRemoval, ONE, owner)), None)
            if hold is None or hold.missing != missing:
                return hold, 0
            values, removed = {**owner, "account_id": account_id}, 0
            if is_confirmed:
                since = walks[-WALKS_MIN:][0] - CLOCKS_APART_MAX
                removed = connection.execute(REMOVED, {**values, "since": since}).rowcount
            counted = walks if is_confirmed else []
            connection.execute(DECIDED, {**values, "walks": counted, "removed": removed})
            value = {"platform": platform, "shop": hold.shop, "missing": missing}
            event = {
                "event": "removal_confirmed" if is_confirmed else "removal_dismissed",
                "value": json.dumps({**value, "removed": removed}),
                "reason": reason,
            }
            connection.execute(EVENT, {**values, **event})
        return hold, removed
