"""Sellers by name, page by page, with what they have."""

from dataclasses import dataclass
from datetime import date, datetime

from headway.core.accounts.jobs import Tier
from headway.core.catalog.listings import SellerId
from headway.store.queries import Queries

CREATE = """
INSERT INTO profiles (user_id, created_at, updated_at) VALUES (%(seller)s, %(now)s, %(now)s)
ON CONFLICT DO NOTHING
"""
# A seller may begin with an account, without a profile.
ROWS = """
SELECT seller.user_id AS seller, coalesce(profile.tier, 'free') AS tier,
  account.total AS accounts, account.connected, coalesce(profile.listing_count, 0) AS listings,
  CASE WHEN profile.orders_month = %(month)s THEN profile.orders_count ELSE 0 END AS orders_used,
  profile.created_at
FROM ({names}) AS seller
LEFT JOIN profiles AS profile ON profile.user_id = seller.user_id
CROSS JOIN LATERAL (
  SELECT count(*) AS total, count(*) FILTER (WHERE status = 'connected') AS connected
  FROM connected_accounts WHERE connected_accounts.user_id = seller.user_id) AS account
ORDER BY seller.user_id
"""
# Each of the two is one range of an index. Whoever has listings has a profile that counts them.
NAMES = """
SELECT user_id FROM (
  (SELECT user_id FROM profiles WHERE {where} ORDER BY user_id LIMIT %(limit)s)
  UNION
  (SELECT DISTINCT user_id FROM connected_accounts WHERE {where} ORDER BY user_id LIMIT %(limit)s)
) AS named
ORDER BY user_id LIMIT %(limit)s
"""
ALL = ROWS.format(
    names=NAMES.format(where="user_id > %(after)s AND (%(own)s::text IS NULL OR user_id = %(own)s)")
)
ONE = ROWS.format(names="SELECT %(seller)s::text AS user_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class SellerRow:
    """A seller with counts of what belongs to the seller."""

    seller: SellerId
    tier: Tier
    accounts: int
    connected: int
    listings: int
    orders_used: int
    created_at: datetime | None


class SellerList(Queries):
    """Sellers, read by their names."""

    def create(self, seller: SellerId, *, now: datetime) -> bool:
        """Add a seller; return False if there is one of that name."""
        return self._write(CREATE, {"seller": seller, "now": now}) > 0

    def some(
        self, own: SellerId | None, *, after: str | None, limit: int, now: datetime
    ) -> list[SellerRow]:
        """Return sellers after this name, or only this one."""
        values = {"own": own, "after": after or "", "limit": limit, "month": _month(now)}
        return self._read(SellerRow, ALL, values)

    def find(self, seller: SellerId, *, now: datetime) -> SellerRow:
        """Return a seller; zeros for one that has nothing."""
        row = self._find(SellerRow, ONE, {"seller": seller, "month": _month(now)})
        assert row is not None, "one row is always answered"
        return row


def _month(now: datetime) -> date:
    return now.replace(day=1).date()
