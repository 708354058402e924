"""Raw replies of the supplier for published parts, kept for a while."""

from datetime import datetime

from headway.store.pool import Pool, guarded

FORGET = "DELETE FROM boeing_raw_data WHERE created_at < %(before)s"


class RawReplies:
    """`boeing_raw_data`; the schedule's settle writes it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def forget(self, before: datetime) -> int:
        """Remove what is older than that instant; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FORGET, {"before": before}).rowcount
