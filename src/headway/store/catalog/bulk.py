"""Bulk price updates of a shop: waiting listings, the intent, and its progress.

The rows are those of `push_intent` with the kind 'bulk'; a shop has at most one that is open.
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from headway.core.catalog.listings import Sku
from headway.core.catalog.storefront import (
    BulkIntent,
    BulkProgress,
    Change,
    Intent,
    PriceWrite,
    PushLease,
)
from headway.store.catalog.changes import CHANGES, read_change
from headway.store.pause_sql import is_listing_paused
from headway.store.queries import Queries

PROGRESS: TypeAdapter[BulkProgress] = TypeAdapter(BulkProgress)
WRITES_OF: TypeAdapter[list[PriceWrite]] = TypeAdapter(list[PriceWrite])
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
    AND push_started_at IS NOT NULL
  RETURNING user_id
), listed AS (
  SELECT row.sku FROM ours JOIN listing_state AS row USING (user_id)
  WHERE row.sku = ANY (%(asleep)s::text[]) ORDER BY row.sku FOR UPDATE OF row
), slept AS (
  UPDATE listing_state AS row SET push_at = %(until)s
  FROM ours, listed JOIN unnest(%(asleep)s::text[], %(versions)s::bigint[]) AS sleeper(sku, version)
    USING (sku)
  WHERE row.user_id = ours.user_id AND row.sku = sleeper.sku
    AND row.desired_version = sleeper.version
)
SELECT count(*) FROM ours
"""
NOTE = """
UPDATE push_intent AS row SET progress = %(progress)s::jsonb FROM connected_accounts AS account
WHERE row.id = %(intent)s AND row.state = 'open' AND account.id = %(id)s
  AND row.account_id = account.id AND account.push_fence = %(fence)s
  AND account.push_owner IS NOT NULL
"""


class Bulks(Queries):
    """The bulk intents of `push_intent` behind the engine's port."""

    def count(self, push_lease: PushLease, *, now: datetime, limit: int) -> int:
        """Count the listings of this shop that are due, up to a limit."""
        values = {"user_id": push_lease.shop.user_id, "now": now, "limit": limit}
        return int(self._one(COUNT, values)[0])

    def waiting(self, push_lease: PushLease, *, now: datetime, limit: int) -> list[Change]:
        """Return the listings of this shop whose price is due to be written, oldest first."""
        values = {"user_id": push_lease.shop.user_id, "now": now, "limit": limit}
        return self._read(read_change, WAITING, values)

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
        return self._first(INTEND, values) == (1,)

    def note(self, push_lease: PushLease, bulk: BulkIntent) -> bool:
        """Store the progress before a call; return False if the push lease was lost."""
        values = {
            "id": push_lease.shop.id,
            "fence": push_lease.fence,
            "intent": bulk.id,
            "progress": json.dumps(plain_progress(bulk.progress)),
        }
        return self._write(NOTE, values) == 1

    def writes(self, bulk: BulkIntent) -> list[PriceWrite]:
        """Return all writes of a bulk intent, in the order of its lines."""
        row = self._first(WRITES, {"intent": bulk.id})
        return WRITES_OF.validate_python(row[0]) if row else []

    def changes(self, push_lease: PushLease, skus: Collection[Sku]) -> list[Change]:
        """Return these listings of the shop as they are now."""
        values = {"user_id": push_lease.shop.user_id, "skus": list(skus)}
        return self._read(read_change, OF, values)


def read_bulk(row: Sequence[Any] | None) -> BulkIntent | None:
    """Read a row that `OPEN_BULK` finds."""
    if row is None:
        return None
    id_, skus, created_at, progress = row
    return BulkIntent(
        id=id_,
        skus=frozenset(skus),
        created_at=created_at,
        progress=PROGRESS.validate_python(progress or {}),
    )


def plain_progress(progress: BulkProgress) -> dict[str, Any]:
    """Return the progress of a bulk operation in the form of the column."""
    stored: dict[str, Any] = PROGRESS.dump_python(progress, mode="json", exclude_none=True)
    return stored
