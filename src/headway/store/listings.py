"""New listings enter the schedule here: many at once, none twice, none without a proper name."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from psycopg import Cursor
from psycopg_pool import ConnectionPool

from headway.core.intake import seller_of, sku_of
from headway.core.model import SellerId, Sku, Turn
from headway.core.policies import Policy
from headway.core.seats import URGENT
from headway.store.pool import guarded

STAGE = """
CREATE TEMPORARY TABLE arriving (
  user_id text, sku text, hour_bucket smallint, minute_offset smallint, next_sync_at timestamptz
) ON COMMIT DROP
"""
ENTER = """
INSERT INTO product_sync_schedule
  (user_id, sku, hour_bucket, minute_offset, next_sync_at, turn, created_at, updated_at)
SELECT user_id, sku, hour_bucket, minute_offset, next_sync_at, %(turn)s, %(now)s, %(now)s
FROM arriving
ON CONFLICT (user_id, sku) DO NOTHING
"""


class Listings:
    """The way into `product_sync_schedule`."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def add(
        self,
        keys: Iterable[tuple[SellerId, Sku]],
        *,
        policy: Policy,
        now: datetime,
        turn: Turn = Turn.SCHEDULED,
    ) -> int:
        """Give each new listing its slot; those already there stay as they are.

        Raises InvalidError that shows a seller or a part number that cannot be one; then none is
        added.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            return enter(connection.cursor(), keys, policy=policy, now=now, turn=turn)


def enter(
    cursor: Cursor[tuple[Any, ...]],
    keys: Iterable[tuple[SellerId, Sku]],
    *,
    policy: Policy,
    now: datetime,
    turn: Turn,
) -> int:
    """Add listings inside the caller's transaction; an urgent turn is due at once."""
    cursor.execute(STAGE)
    with cursor.copy("COPY arriving FROM STDIN") as copy:
        for user_id, sku in keys:
            name = sku_of(sku)
            place = policy.place(name, now)
            due_at = now if turn in URGENT else place.next_sync_at
            slot = (place.hour_bucket, place.minute_offset, due_at)
            copy.write_row((seller_of(user_id), name, *slot))
    return cursor.execute(ENTER, {"now": now, "turn": turn.value}).rowcount
