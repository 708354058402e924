"""Law L14: what was erased on request is stored nowhere, and every erasure ends."""

from datetime import datetime

from psycopg import sql

from headway.core.accounts.erasure import OVERDUE_AFTER
from headway.store.accounts.erasure_tables import DELETED, OF_ACCOUNT, OF_SELLER
from headway.store.monitoring.law_checks import EXAMPLES, Findings
from headway.store.queries import Queries

COUNT = "SELECT count(*) FROM erasures"
# An erased seller has no row, an erased account none with its id, whoever wrote it.
OF_SELLERS = """
SELECT count(*) FROM (SELECT DISTINCT user_id FROM {table}) AS found
JOIN tombstones AS stone ON stone.kind = 'seller' AND stone.lifted_at IS NULL
  AND stone.hash = erased_hash('seller', '', found.user_id)
JOIN erasures AS erasure ON erasure.id = stone.erasure_id AND erasure.status = 'done'
"""
OF_ACCOUNTS = """
SELECT count(*) FROM {table} AS row
JOIN tombstones AS stone ON stone.kind = 'account' AND stone.account_id = row.account_id
JOIN erasures AS erasure ON erasure.id = stone.erasure_id AND erasure.status = 'done'
"""
HAS_SELLERS = """
SELECT EXISTS (SELECT FROM tombstones WHERE kind = 'seller' AND lifted_at IS NULL)
"""
# Only shops with erased customers are looked through.
SHOPS = """
SELECT account.id, account.platform, erased_hash('shop', account.platform, account.shop) AS hash
FROM connected_accounts AS account
WHERE erased_hash('shop', account.platform, account.shop) IN (SELECT shop_hash FROM tombstones)
"""
CUSTOMERS = f"""
WITH shop AS MATERIALIZED ({SHOPS}), stone AS (
  SELECT tombstones.kind, tombstones.shop_hash, tombstones.hash FROM tombstones
  JOIN erasures AS erasure ON erasure.id = tombstones.erasure_id AND erasure.status = 'done'
  WHERE tombstones.kind IN ('customer', 'email', 'order')
)
SELECT 'customers', count(*) FROM shop JOIN customers AS row ON row.account_id = shop.id
WHERE EXISTS (SELECT FROM stone WHERE stone.shop_hash = shop.hash
  AND stone.hash IN (erased_hash('customer', shop.platform, row.external_id),
    erased_hash('email', shop.platform, lower(row.email))))
UNION ALL
SELECT 'orders', count(*) FROM shop JOIN orders AS row ON row.account_id = shop.id
WHERE row.customer_id IS NOT NULL AND EXISTS (SELECT FROM stone WHERE stone.shop_hash = shop.hash
  AND stone.hash IN (erased_hash('customer', shop.platform, row.customer_id),
    erased_hash('order', shop.platform, row.external_id)))
UNION ALL
SELECT 'shipments', count(*) FROM shop JOIN shipments AS row ON row.account_id = shop.id
WHERE row.tracking <> '' AND EXISTS (SELECT FROM stone WHERE stone.shop_hash = shop.hash
  AND stone.hash = erased_hash('order', shop.platform, row.order_id))
UNION ALL
SELECT 'webhook_deliveries', count(*) FROM shop
JOIN webhook_deliveries AS row ON row.account_id = shop.id
WHERE row.kind = 'customers' AND EXISTS (SELECT FROM stone WHERE stone.shop_hash = shop.hash
  AND stone.hash = erased_hash('customer', shop.platform, row.external_id))
"""
OVERDUE = """
SELECT id::text, requested_at FROM erasures
WHERE status <> 'done' AND requested_at < %(before)s ORDER BY requested_at
"""


class ErasureChecks(Queries):
    """What was erased, compared with what is stored."""

    def erased(self, now: datetime) -> tuple[int, Findings]:
        """Return how many erasures there are, and what came back or was never deleted."""
        (count,) = self._one(COUNT)
        if not count:
            return 0, Findings(count=0, examples=())
        found = {f"{table} of an erased customer": rows for table, rows in self._rows(CUSTOMERS)}
        for name in (table.name for table in DELETED if (table.account or "") == OF_ACCOUNT):
            found[f"{name} of an erased account"] = self._count(OF_ACCOUNTS, name)
        if self._one(HAS_SELLERS)[0]:
            for name in (table.name for table in DELETED if OF_SELLER in (table.seller or "")):
                if name not in {"idempotency", "outbox", "credential"}:
                    found[f"{name} of an erased seller"] = self._count(OF_SELLERS, name)
        examples = [f"{what}: {rows:,} rows" for what, rows in found.items() if rows]
        overdue = self._rows(OVERDUE, {"before": now - OVERDUE_AFTER})
        examples += [f"erasure {id_} of {at:%Y-%m-%d %H:%M} UTC is not done" for id_, at in overdue]
        total = sum(found.values()) + len(overdue)
        return count, Findings(count=total, examples=tuple(examples[:EXAMPLES]))

    def _count(self, query: str, table: str) -> int:
        row = self._one(sql.SQL(query).format(table=sql.Identifier(table)).as_string())
        return int(row[0])
