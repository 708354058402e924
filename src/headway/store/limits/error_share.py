"""The share of error replies of a limit key, from the call ledger."""

from datetime import datetime

from headway.core.limits.error_budget import SPAN, pause_for
from headway.store.queries import Queries

# A call without a reply has no status and is not counted.
COUNT = """
SELECT count(*) FILTER (WHERE http_status >= 400), count(*) FROM call_ledger
WHERE limit_key = %s AND begun_at > %s AND http_status IS NOT NULL
"""


class ErrorShare(Queries):
    """Table `call_ledger`, read for the share of errors."""

    def pause_for(self, key: str, *, now: datetime) -> float | None:
        """Return for how many seconds calls with this limit key must pause; None for not at all."""
        return pause_for(*self.count(key, since=now - SPAN))

    def count(self, key: str, *, since: datetime) -> tuple[int, int]:
        """Return the error replies and all replies of calls that began after that."""
        errors, replies = self._one(COUNT, (key, since))
        return errors, replies
