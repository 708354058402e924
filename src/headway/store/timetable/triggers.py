"""Manual triggers: listings become due at once, before all others.

One transaction with its events. A repeated trigger changes nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.review import Ruling, trigger
from headway.core.pauses import longest
from headway.errors import NotFoundError
from headway.store.pauses import active_pauses
from headway.store.pool import guarded
from headway.store.queries import Queries

NAMED_MAX = 5

ASK = """
SELECT sku, sync_status, is_active, priority = 'manual' AND next_sync_at <= %(now)s
FROM product_sync_schedule WHERE user_id = %(user_id)s AND sku = ANY(%(skus)s)
ORDER BY id FOR UPDATE
"""
TRIGGER = """
WITH triggered AS (
  UPDATE product_sync_schedule SET priority = 'manual', next_sync_at = %(now)s, swept_from = NULL,
    updated_at = %(now)s
  WHERE user_id = %(user_id)s AND sku = ANY(%(skus)s)
  RETURNING user_id, sku
)
INSERT INTO sync_audit_log
  (user_id, sku, sync_timestamp, event_type, error_message, created_at)
SELECT user_id, sku, %(now)s, 'sync_triggered', %(reason)s, %(now)s FROM triggered
"""


class Triggers(Queries):
    """Triggers by a person: due times moved to now."""

    def trigger(
        self, user_id: SellerId, skus: Sequence[Sku], *, reason: str, now: datetime
    ) -> list[Ruling]:
        """Make listings due for the next call; return a result for each SKU.

        A paused listing goes first when it is resumed. Raises NotFoundError for unknown SKUs; then
        nothing is changed.
        """
        chosen = list(dict.fromkeys(skus))
        values = {"user_id": user_id, "skus": chosen, "reason": reason or None, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            rows = {row[0]: row for row in connection.execute(ASK, values)}
            _assert_listed(user_id, chosen, rows)
            pauses = active_pauses(connection, now, seller=user_id)
            rulings = [
                trigger(
                    (user_id, sku),
                    status=status,
                    is_active=is_active,
                    is_first=is_first,
                    pause=longest(pause for pause in pauses if pause.covers(user_id, sku)),
                    now=now,
                )
                for sku, status, is_active, is_first in (rows[sku] for sku in chosen)
            ]
            done = [ruling.sku for ruling in rulings if ruling.is_done]
            if done:
                connection.execute(TRIGGER, {**values, "skus": done})
        return rulings


def _assert_listed(user_id: SellerId, skus: Sequence[Sku], rows: dict[Sku, Any]) -> None:
    unknown = [sku for sku in skus if sku not in rows]
    if unknown:
        more = f" and {len(unknown) - NAMED_MAX} more" if len(unknown) > NAMED_MAX else ""
        named = ", ".join(unknown[:NAMED_MAX])
        raise NotFoundError(f"{user_id} does not list {named}{more}; nothing was done")
