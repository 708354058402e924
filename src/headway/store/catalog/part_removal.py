"""Remove parts that a person no longer wants: not read and not written any more, but not forgotten.

The row and the history stay, and `revive` brings a part back. What the shop shows is taken off sale
by one more push, or left as it is.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from headway.core.catalog.change_detection import THEIRS
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.review import Ruling
from headway.core.dispatch import STOREFRONT
from headway.store.catalog.review import require_listed
from headway.store.pool import guarded
from headway.store.queries import Queries

InShop = Literal["draft", "keep"]

# In the order that everybody keeps: the rows, then their states.
LOCK = """
SELECT sku, removed_at IS NOT NULL FROM product_sync_schedule
WHERE user_id = %(user_id)s AND sku = ANY(%(skus)s) ORDER BY id FOR UPDATE
"""
# A read in progress settles nothing any more: its fence is taken.
STOP = """
UPDATE product_sync_schedule SET removed_at = %(now)s, is_active = false, sync_status = 'pending',
  fence = fence + 1, lease_owner = NULL, lease_until = NULL, priority = 'scheduled',
  swept_from = NULL, consecutive_failures = 0, missing_count = 0, suspicion = 0, last_error = NULL,
  updated_at = %(now)s
WHERE user_id = %(user_id)s AND sku = ANY(%(skus)s)
"""
# A push in progress would settle what it did; it is read back instead.
END_VISIT = f"""
UPDATE connected_accounts SET push_fence = push_fence + 1
WHERE platform = '{STOREFRONT}' AND user_id = %(user_id)s
"""
# Only what the shop confirmed is taken off sale, at the price that it has, which is the merchant's
# from now on: a change that waits, or is held, is not wanted any more. What never came to a shop
# leaves nothing to be shown.
DRAFT = "%(in_shop)s = 'draft' AND old.applied IS NOT NULL AND product.status = 'ACTIVE'"
SHOW = f"""
WITH old AS (
  SELECT * FROM listing_state WHERE user_id = %(user_id)s AND sku = ANY(%(skus)s)
  ORDER BY user_id, sku FOR UPDATE
), new AS (
  SELECT old.sku, old.desired AS was, CASE WHEN {DRAFT} THEN old.applied || jsonb_build_object(
      'status', 'DRAFT', '{THEIRS}', true, 'quantities', (
        SELECT coalesce(jsonb_object_agg(key, 0), '{{}}')
        FROM jsonb_each(old.applied -> 'quantities')))
    ELSE old.applied END AS desired, {DRAFT} AS is_drafted
  FROM old LEFT JOIN product USING (user_id, sku)
)
UPDATE listing_state AS row SET desired = new.desired, desired_at = %(now)s,
  desired_version = CASE WHEN new.is_drafted THEN row.desired_version + 1
                    ELSE row.applied_version END,
  observed = CASE WHEN new.desired IS NOT NULL THEN row.observed END,
  push_at = CASE WHEN new.is_drafted THEN %(now)s END, push_failures = 0, push_error = NULL,
  held_reason = NULL, held_at = NULL, proposed = NULL, rejected = NULL
FROM new WHERE row.user_id = %(user_id)s AND row.sku = new.sku
RETURNING row.sku, new.was, new.desired, new.is_drafted
"""
# Whatever is left in the shop belongs to nobody here; another part number may take it.
FORGET = """
WITH staged AS (
  DELETE FROM product_staging WHERE user_id = %(user_id)s AND sku = ANY(%(skus)s)
)
DELETE FROM product WHERE user_id = %(user_id)s AND sku = ANY(%(skus)s) AND sku <> ALL(%(drafted)s)
"""
EVENT = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
  error_message, created_at)
SELECT %(user_id)s, sku, %(now)s, 'listing_removed', NULL,
  jsonb_build_object('in_shop', CASE WHEN sku = ANY(%(drafted)s) THEN 'draft' ELSE 'kept' END),
  %(reason)s, %(now)s
FROM unnest(%(skus)s::text[]) AS removed(sku)
"""


class PartRemoval(Queries):
    """Listings that a person removes."""

    def remove(
        self,
        user_id: SellerId,
        skus: Sequence[Sku],
        *,
        in_shop: InShop,
        reason: str = "",
        now: datetime,
    ) -> list[Ruling]:
        """Remove these listings in one transaction; return what was done with each.

        Raises NotFoundError for part numbers that the seller does not list; then nothing was done.
        """
        chosen = list(dict.fromkeys(skus))
        values = {"user_id": user_id, "skus": chosen, "now": now, "in_shop": in_shop}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            removed: dict[Sku, bool] = dict(connection.execute(LOCK, values).fetchall())
            require_listed([(user_id, sku) for sku in chosen if sku not in removed])
            values["skus"] = [sku for sku in chosen if not removed[sku]]
            connection.execute(STOP, values)
            connection.execute(END_VISIT, values)
            shown = {row[0]: row[1:] for row in connection.execute(SHOW, values).fetchall()}
            drafted = [sku for sku, (_, _, is_drafted) in shown.items() if is_drafted]
            values |= {"drafted": drafted, "reason": reason or None}
            connection.execute(FORGET, values)
            connection.execute(EVENT, values)
        return [
            Ruling(
                seller=user_id,
                sku=sku,
                is_done=not removed[sku],
                message=_message(is_removed=removed[sku], is_drafted=sku in drafted),
                old=shown.get(sku, (None, None))[0],
                new=shown.get(sku, (None, None))[1],
            )
            for sku in chosen
        ]


def _message(*, is_removed: bool, is_drafted: bool) -> str:
    if is_removed:
        return "removed already; to leave its product otherwise, revive it and remove it again"
    return (
        "removed; its product becomes a draft" if is_drafted else "removed; the shop is as it was"
    )
