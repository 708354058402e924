"""Bulk price updates of a shop: waiting listings, the intent, and its progress.

The rows are those of `push_intent` with the kind 'bulk'; a shop has at most one that is open.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from headway.core.catalog.listings import Sku
from headway.core.catalog.storefront import (
    BulkIntent,
    BulkProgress,
    Change,
    Intent,
    Phase,
    PriceWrite,
    PushLease,
    UploadTarget,
)
from headway.store.catalog.changes import CHANGES, read_changes
from headway.store.pause_sql import is_listing_paused
from headway.store.pool import Pool, guarded

OPEN_BULK = """
SELECT id::text, skus, created_at, progress FROM push_intent
WHERE account_id = %(id)s AND state = 'open' AND kind = 'bulk'
"""
# Texts that differ may still be the same number; the caller compares again.
WAITING = (
    CHANGES
    + f"""AND state.push_at <= %(now)s AND state.push_failures = 0
  AND NOT {is_listing_paused("state")}
  AND state.applied IS NOT NULL AND product.shopify_variant_id IS NOT NULL
  AND (state.desired ->> 'price', state.desired ->> 'cost', state.desired ->> 'compare_at')
    IS DISTINCT FROM
    (state.applied ->> 'price', state.applied ->> 'cost', state.applied ->> 'compare_at')
ORDER BY state.push_at, state.sku LIMIT %(limit)s"""
)
COUNT = f"""
SELECT count(*) FROM (SELECT FROM listing_state AS state WHERE user_id = %(user_id)s
  AND push_at <= %(now)s AND NOT {is_listing_paused("state")} LIMIT %(limit)s) AS due
"""
OF = CHANGES + "AND state.sku = ANY (%(skus)s) ORDER BY state.sku"
WRITES = "SELECT writes FROM push_intent WHERE id = %(intent)s"
# A listing whose desired state has changed since it was read must not sleep.
INTEND = """
WITH ours AS (
  INSERT INTO push_intent (id, account_id, user_id, kind, fence, skus, writes, created_at)
  SELECT %(intent)s, id, user_id, 'bulk', push_fence, %(skus)s, %(writes)s::jsonb, %(now)s
  FROM connected_accounts WHERE id = %(id)s AND push_fence = %(fence)s AND push_owner IS NOT NULL
  RETURNING user_id
), listed AS (
  SELECT row.sku FROM ours JOIN listing_state AS row USING (user_id)
  WHERE row.sku = ANY (%(asleep)s::text[]) ORDER BY row.sku FOR UPDATE OF row
), slept AS (
  UPDATE listing_state AS row SET push_at = %(until)s
  FROM ours, listed JOIN unnest(%(asleep)s::text[], %(versions)s::bigint[]) AS told(sku, version)
    USING (sku)
  WHERE row.user_id = ours.user_id AND row.sku = told.sku AND row.desired_version = told.version
)
SELECT count(*) FROM ours
"""
NOTE = """
UPDATE push_intent AS row SET progress = %(progress)s::jsonb FROM connected_accounts AS account
WHERE row.id = %(intent)s AND row.state = 'open' AND account.id = %(id)s
  AND row.account_id = account.id AND account.push_fence = %(fence)s
  AND account.push_owner IS NOT NULL
"""


class Bulks:
    """The bulk intents of `push_intent` behind the engine's port."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def count(self, push_lease: PushLease, *, now: datetime, limit: int) -> int:
        """Count the listings of this shop that are due, up to a limit."""
        values = {"user_id": push_lease.shop.user_id, "now": now, "limit": limit}
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(COUNT, values).fetchone()
        return int(row[0]) if row else 0

    def waiting(self, push_lease: PushLease, *, now: datetime, limit: int) -> list[Change]:
        """Return the listings of this shop whose price is due to be written, oldest first."""
        values = {"user_id": push_lease.shop.user_id, "now": now, "limit": limit}
        with guarded(), self._pool.connection() as connection:
            return read_changes(connection, WAITING, values)

    def intend(
        self,
        push_lease: PushLease,
        intent: Intent,
        *,
        asleep: Sequence[Change],
        until: datetime,
        now: datetime,
    ) -> bool:
        """Store an intent and postpone its listings; return False if the push lease was lost."""
        values = {
            "id": push_lease.shop.id,
            "fence": push_lease.fence,
            "intent": intent.id,
            "skus": list(intent.skus),
            "writes": json.dumps(list(intent.writes)),
            "asleep": [listing.sku for listing in asleep],
            "versions": [listing.desired_version for listing in asleep],
            "until": until,
            "now": now,
        }
        with guarded(), self._pool.connection() as connection:
            return connection.execute(INTEND, values).fetchone() == (1,)

    def note(self, push_lease: PushLease, bulk: BulkIntent) -> bool:
        """Store the progress before a call; return False if the push lease was lost."""
        values = {
            "id": push_lease.shop.id,
            "fence": push_lease.fence,
            "intent": bulk.id,
            "progress": json.dumps(plain_progress(bulk.progress)),
        }
        with guarded(), self._pool.connection() as connection:
            return connection.execute(NOTE, values).rowcount == 1

    def writes(self, bulk: BulkIntent) -> list[PriceWrite]:
        """Return all writes of a bulk intent, in the order of its lines."""
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(WRITES, {"intent": bulk.id}).fetchone()
        return [_write(write) for write in row[0]] if row else []

    def changes(self, push_lease: PushLease, skus: Collection[Sku]) -> list[Change]:
        """Return these listings of the shop as they are now."""
        values = {"user_id": push_lease.shop.user_id, "skus": list(skus)}
        with guarded(), self._pool.connection() as connection:
            return read_changes(connection, OF, values)


def read_bulk(row: Sequence[Any] | None) -> BulkIntent | None:
    """Read a row that `OPEN_BULK` finds."""
    if row is None:
        return None
    id_, skus, created_at, progress = row
    return BulkIntent(
        id=id_, skus=frozenset(skus), created_at=created_at, progress=_progress(progress or {})
    )


def plain_progress(progress: BulkProgress) -> dict[str, Any]:
    """Return the progress of a bulk operation in the form of the column."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(progress).items()
        if value
    }


def _progress(stored: Mapping[str, Any]) -> BulkProgress:
    target = stored.get("target")
    place = target and UploadTarget(
        url=target["url"], parameters=tuple((name, value) for name, value in target["parameters"])
    )
    instants = {
        name: datetime.fromisoformat(stored[name])
        for name in ("asked_at", "poll_at")
        if name in stored
    }
    phase = Phase(stored.get("phase", Phase.NEW))
    return BulkProgress(**{**stored, **instants, "phase": phase, "target": place})


def _write(stored: Mapping[str, Any]) -> PriceWrite:
    numbers = {
        name: None if stored[name] is None else Decimal(stored[name])
        for name in ("price", "compare_at", "cost")
    }
    return PriceWrite(**{**stored, **numbers})
