"""Rehearsals of shops: the listings of a report, another read of the shop, and the start."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from headway.core.catalog.listings import SellerId
from headway.core.catalog.rehearsal import ListingOnStage
from headway.core.catalog.storefront import Change, Shop
from headway.core.dispatch import STOREFRONT
from headway.store.catalog.changes import CHANGES, read_change
from headway.store.pause_sql import is_listing_paused
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

LISTINGS = f"""
SELECT row.sku, coalesce(product.shop_sku, staging.shop_sku, row.sku) AS shop_sku,
  coalesce(nullif(product.title, ''), staging.title, '') AS title, state.held_reason,
  (state.proposed ->> 'price')::numeric AS proposed_price,
  coalesce(row.last_error, '') AS error, row.last_sync_at IS NOT NULL AS was_asked,
  NOT row.is_active AS is_off, {is_listing_paused("row")} AS is_paused,
  coalesce(%(is_in_rehearsal)s AND state.push_at <= %(now)s, false) AS is_due,
  greatest(state.desired_at, state.applied_at, state.held_at) AS changed_at
FROM product_sync_schedule AS row LEFT JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN product USING (user_id, sku) LEFT JOIN product_staging AS staging USING (user_id, sku)
WHERE row.user_id = %(user_id)s ORDER BY row.sku
"""
PROGRESS = """
SELECT count(*), count(*) FILTER (WHERE state.desired IS NULL AND state.held_reason IS NULL
    AND row.is_active AND row.last_sync_at IS NULL),
  count(*) FILTER (WHERE state.desired IS NOT NULL AND coalesce(state.push_failures, 0) = 0
    AND (state.applied IS NULL OR state.push_at <= %(now)s))
FROM product_sync_schedule AS row LEFT JOIN listing_state AS state USING (user_id, sku)
WHERE row.user_id = %(user_id)s
"""
CHANGES_OF = CHANGES + "ORDER BY state.sku"
# In the order of keys, as all others lock these rows.
WAKE = """
WITH asleep AS (
  SELECT state.user_id, state.sku FROM listing_state AS state
  WHERE state.user_id = %(user_id)s AND state.desired IS NOT NULL AND {which}
  ORDER BY state.user_id, state.sku FOR UPDATE
)
UPDATE listing_state AS state SET push_at = %(now)s FROM asleep
WHERE state.user_id = asleep.user_id AND state.sku = asleep.sku
"""
ALL, UNWRITTEN = "true", "state.push_at IS NOT NULL"
LOOK_AGAIN = f"""
UPDATE connected_accounts SET locations_at = NULL, updated_at = %(now)s
WHERE user_id = %(user_id)s AND platform = '{STOREFRONT}' AND push_started_at IS NULL
"""
START = f"""
WITH started AS (
  UPDATE connected_accounts SET push_started_at = %(now)s, updated_at = %(now)s
  WHERE user_id = %(user_id)s AND platform = '{STOREFRONT}' AND push_started_at IS NULL
  RETURNING user_id
)
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, error_message,
  created_at)
SELECT user_id, %(now)s, 'shop_started', %(report)s::jsonb, nullif(%(reason)s, ''), %(now)s
FROM started
"""


class Rehearsals(Queries):
    """Shops that are read and not written, and what would be written there."""

    def listings(self, shop: Shop, *, now: datetime) -> list[ListingOnStage]:
        """Return all listings of a shop's seller."""
        values = {"user_id": shop.user_id, "is_in_rehearsal": shop.is_in_rehearsal, "now": now}
        with guarded(), self._pool.connection() as connection:
            rows = read_as(connection, ListingOnStage, LISTINGS, values)
            changes = read_as(connection, read_change, CHANGES_OF, values)
        by_sku: Mapping[str, Change] = {change.sku: change for change in changes}
        return [replace(row, change=by_sku.get(row.sku)) for row in rows]

    def progress(self, user_id: SellerId, *, now: datetime) -> tuple[int, int, int]:
        """Count listings: all, those the supplier was not asked for, those the shop was not."""
        listings, unread, reading = self._one(PROGRESS, {"user_id": user_id, "now": now})
        return listings, unread, reading

    def read_again(self, user_id: SellerId, *, now: datetime) -> int:
        """Make all listings of a shop in rehearsal due to be read; return how many."""
        values = {"user_id": user_id, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if not connection.execute(LOOK_AGAIN, values).rowcount:
                return 0
            return connection.execute(WAKE.format(which=ALL), values).rowcount

    def start(
        self, user_id: SellerId, report: Mapping[str, Any], *, reason: str, now: datetime
    ) -> bool:
        """Let a shop be written from now on; return False if it was started before."""
        values = {
            "user_id": user_id,
            "report": json.dumps(dict(report)),
            "reason": reason,
            "now": now,
        }
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if not connection.execute(START, values).rowcount:
                return False
            connection.execute(WAKE.format(which=UNWRITTEN), values)
        return True
