"""New listings enter the schedule here: many at once, none twice."""

from collections.abc import Iterable
from datetime import datetime

from psycopg_pool import ConnectionPool

from headway.core.model import SellerId, Sku
from headway.core.policies import Policy
from headway.store.pool import guarded

STAGE = """
CREATE TEMPORARY TABLE arriving (
  user_id text, sku text, hour_bucket smallint, minute_offset smallint, next_sync_at timestamptz
) ON COMMIT DROP
"""
ENTER = """
INSERT INTO product_sync_schedule
  (user_id, sku, hour_bucket, minute_offset, next_sync_at, created_at, updated_at)
SELECT user_id, sku, hour_bucket, minute_offset, next_sync_at, %(now)s, %(now)s FROM arriving
ON CONFLICT (user_id, sku) DO NOTHING
"""


class Listings:
    """The way into `product_sync_schedule`."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def add(self, keys: Iterable[tuple[SellerId, Sku]], *, policy: Policy, now: datetime) -> int:
        """Give each new listing its slot; those already there stay as they are."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            cursor = connection.cursor()
            cursor.execute(STAGE)
            with cursor.copy("COPY arriving FROM STDIN") as copy:
                for user_id, sku in keys:
                    place = policy.place(sku, now)
                    copy.write_row(
                        (
                            user_id,
                            sku,
                            place.hour_bucket,
                            place.minute_offset,
                            place.next_sync_at,
                        )
                    )
            return cursor.execute(ENTER, {"now": now}).rowcount
