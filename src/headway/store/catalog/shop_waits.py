"""Shops that are left alone for now: refused, suspended, or they do not answer.

A seller's connection cannot read circuit breakers, so this is read on an unrestricted one.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.catalog.change_outcomes import ShopWait
from headway.core.catalog.listings import SellerId
from headway.core.dispatch import STOREFRONT
from headway.store.queries import read_as

WAITS_MAX = 1_000

# Of several reasons the one that lasts longest; a shop has a breaker for each kind of call.
SHOP_WAITS = f"""
SELECT DISTINCT ON (user_id) user_id, until, reason FROM (
  SELECT user_id, wait_until AS until, wait_reason AS reason
  FROM connected_accounts WHERE platform = '{STOREFRONT}' AND wait_until > %(now)s
  UNION ALL
  SELECT account.user_id, breaker.open_until, breaker.reason
  FROM breaker JOIN connected_accounts AS account ON account.platform = '{STOREFRONT}'
    AND account.shop = regexp_replace(breaker.limit_key, '^.*:', '')
  WHERE breaker.open_until > %(now)s AND starts_with(breaker.limit_key, '{STOREFRONT}')
) AS wait
"""
OF_ALL = f"{SHOP_WAITS} ORDER BY user_id, until DESC LIMIT {WAITS_MAX}"
OF_SELLER = f"{SHOP_WAITS} WHERE user_id = %(seller)s ORDER BY user_id, until DESC"


def shop_waits(
    connection: Connection[Any], now: datetime, *, seller: SellerId | None = None
) -> Mapping[SellerId, ShopWait]:
    """Return why each shop waits, and until when; of all sellers or of one."""
    statement = OF_ALL if seller is None else OF_SELLER
    return dict(read_as(connection, _wait, statement, {"now": now, "seller": seller}))


def _wait(user_id: SellerId, **columns: Any) -> tuple[SellerId, ShopWait]:  # noqa: ANN401 - a row
    return user_id, ShopWait(**columns)
