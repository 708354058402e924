"""Many shops with one listing each, as Headway's tables have them; workers write to them.

Each shop is like one that Headway has long known: its locations read, its token stored, its bucket
of points full. One call each does not reach their limits.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from bench.services import CLOCK
from bench.shop import BEFORE, PLACES, TOKEN, State
from headway.app import build
from headway.app.providers import shared_vault
from headway.config import Settings
from headway.providers.shopify.storefront import shop_limit_key, shop_resource, store_tokens
from headway.store.accounts.credentials import Credentials
from headway_lab.virtual_clock import VirtualClock

# Long enough ago that a bucket which began empty then is full.
LONG_AGO = timedelta(days=2)

ENTER = (
    """
INSERT INTO connected_accounts (user_id, platform, shop, locations, locations_at, drift_check_at,
  push_started_at)
SELECT 'seller-' || n, 'shopify', 'shop-' || n || '.myshopify.com', %(locations)s, %(now)s,
  %(now)s + interval '1 day', %(now)s FROM generate_series(1, %(shops)s) AS n
""",
    """
INSERT INTO product (user_id, sku, shop_sku, shopify_product_id, shopify_variant_id,
  shopify_inventory_item_id)
SELECT 'seller-' || n, 'P' || n, 'P' || n, 'gid://shopify/Product/' || n,
  'gid://shopify/ProductVariant/' || n, 'gid://shopify/InventoryItem/' || n
FROM generate_series(1, %(shops)s) AS n
""",
    """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)
SELECT user_id, sku, 0, %(now)s + interval '1 day' FROM product
""",
    """
INSERT INTO listing_state (user_id, sku, desired, desired_version, applied, applied_version,
  verified_at)
SELECT user_id, sku, %(state)s, 1, %(state)s, 1, %(now)s FROM product
""",
    "ANALYZE",
)
# As reads of the supplier do: another quantity at one place.
CHANGE = """
UPDATE listing_state AS state SET desired_version = desired_version + 1, desired_at = now(),
  push_at = now(), desired = jsonb_set(desired, ARRAY['quantities', %(place)s],
    to_jsonb((desired_version + 1) %% 1000))
FROM (SELECT user_id FROM connected_accounts ORDER BY shop LIMIT %(shops)s) AS chosen
WHERE state.user_id = chosen.user_id
"""
WAITING = "SELECT count(*) FROM listing_state WHERE push_at IS NOT NULL"
ROUNDS_OF_DISPATCH_LEASES = "DELETE FROM dispatch_leases"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyShops:
    """The shops, and how to make each due for a push."""

    pool: ConnectionPool

    def change(self, shops: int) -> None:
        """Desire another quantity in that many shops, all at once."""
        with self.pool.connection() as connection:
            connection.execute(CHANGE, {"shops": shops, "place": PLACES[0]})

    def waiting(self) -> int:
        """Count the shops that still wait for a push."""
        with self.pool.connection() as connection:
            row = connection.execute(WAITING).fetchone()
        return int(row[0]) if row else 0

    def forget_dispatch_leases(self) -> None:
        """Let later workers not wait for the leases of earlier ones."""
        with self.pool.connection() as connection:
            connection.execute(ROUNDS_OF_DISPATCH_LEASES)


def open_shops(pool: ConnectionPool, folder: Path, shops: int) -> ManyShops:
    """Enter the shops."""
    locations = {name: f"gid://shopify/Location/{place}" for place, name in enumerate(PLACES)}
    state: State = BEFORE
    values = {"shops": shops, "now": CLOCK.now(), "locations": Jsonb(locations)}
    with pool.connection() as connection, connection.transaction():
        for statement in ENTER:
            connection.execute(statement, {**values, "state": Jsonb(state)})
    settings = Settings(data_dir=folder)
    vault, shop_listing = shared_vault(settings), Credentials(pool)
    past = build(settings, VirtualClock(CLOCK.now() - LONG_AGO), pool).limiter
    for number in range(1, shops + 1):
        limit_key = shop_limit_key("", f"shop-{number}.myshopify.com")
        store_tokens(shop_listing, vault, limit_key, clock=CLOCK, access=TOKEN)
        past.know(shop_resource(limit_key))
        past.pause(limit_key, 0, "")
    return ManyShops(pool=pool)
