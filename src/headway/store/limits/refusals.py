"""Calls that a supplier refused though Headway kept its limit, from the call ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headway.core.catalog.listings import LimitKey
from headway.core.limits.shared_key import REMEMBERED
from headway.store.queries import Queries

# A part may be what a supplier refuses: that explains a refusal until every part of the call was
# read well since. A token request has no parts.
REFUSED = """
SELECT limit_key, begun_at FROM call_ledger AS call
WHERE {keys} AND http_status = 429 AND begun_at > %(since)s AND NOT EXISTS (
  SELECT FROM product_sync_schedule AS row WHERE row.sku = ANY(call.skus)
  GROUP BY row.sku HAVING coalesce(max(row.last_successful_sync) < call.begun_at, true))
"""
UNEXPLAINED = REFUSED.format(keys="limit_key = %(limit_key)s")
COUNT = f"""
SELECT limit_key AS key, count(*) AS count, min(begun_at) AS since, max(begun_at) AS last_at
FROM ({REFUSED.format(keys="limit_key = ANY(%(limit_keys)s)")}) AS refused
GROUP BY limit_key ORDER BY limit_key
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexplainedRefusals:
    """The refusals under one limit key that no call and no part of ours explains."""

    key: LimitKey
    count: int
    since: datetime
    last_at: datetime


class RefusedCalls(Queries):
    """Table `call_ledger`, read for refusals."""

    def unexplained(
        self, limit_keys: Sequence[LimitKey], now: datetime
    ) -> list[UnexplainedRefusals]:
        """Return the unexplained refusals of the last day, of the limit keys that have any."""
        values = {"limit_keys": list(limit_keys), "since": now - REMEMBERED}
        return self._read(UnexplainedRefusals, COUNT, values)
