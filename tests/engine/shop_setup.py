"""A shop in virtual time for the tests of push: real store, real connector, simulated Shopify."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool
from tests.statements import Statements

from headway.app import App, build
from headway.clock import fresh_id, rng
from headway.config import Settings
from headway.core.catalog.listings import Done, Wait
from headway.engine.push import Push
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.shopify.apps import AppSecret
from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.simulators.shopify.shop import ShopScreen, ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

APP = AppSecret()
PLACES = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ")


def wanted(price: str = "11.00", *stock: int, cost: str = "9.5", **more: Any) -> dict[str, Any]:
    """Return a desired state with that stock at the first places, and none at the others."""
    quantities = dict(zip(PLACES, [*stock, 0, 0, 0, 0], strict=False))
    return {
        "price": price,
        "cost": cost,
        "currency": "USD",
        "compare_at": None,
        "quantities": quantities,
        **more,
    }


@dataclass
class Shops(Statements):
    """Sellers' shops, the database behind them, and a pusher's hands."""

    app: App
    clock: VirtualClock
    pool: ConnectionPool
    simulator: ShopifySimulator

    def domain(self, seller: str) -> str:
        return f"{seller}.myshopify.com"

    def list(
        self,
        sku: str,
        *,
        seller: str = "acme",
        shows: Mapping[str, Any] | None = None,
        knows_ids: bool = True,
    ) -> None:
        """Put a listing in the tables and in the shop, both showing the same."""
        shows = shows or wanted("11.00", 5)
        ids = self.simulator.seed_product(
            self.domain(seller),
            sku,
            price=Decimal(shows["price"]),
            cost=Decimal(shows["cost"]),
            quantities=shows["quantities"],
        )
        self.ask(
            "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
            " VALUES (%s, %s, 0, %s)",
            seller,
            sku,
            self.clock.now(),
        )
        self.ask(
            "INSERT INTO listing_state (user_id, sku, desired, desired_version, applied,"
            " applied_version, verified_at) VALUES (%s, %s, %s, 1, %s, 1, %s)",
            seller,
            sku,
            json.dumps(shows),
            json.dumps(shows) if knows_ids else None,
            self.clock.now(),
        )
        if knows_ids:
            self.ask(
                "INSERT INTO product (user_id, sku, shop_sku, shopify_product_id,"
                " shopify_variant_id, shopify_inventory_item_id) VALUES (%s, %s, %s, %s, %s, %s)",
                seller,
                sku,
                sku,
                ids.product,
                ids.variant,
                ids.item,
            )

    def stage(self, sku: str, **more: Any) -> None:
        """Put a part where a good onboarding read leaves it."""
        self.ask(
            "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
            " VALUES ('acme', %s, 0, %s)",
            sku,
            self.clock.now(),
        )
        self.ask(
            "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id, status, title)"
            " VALUES ('acme', %s, %s, gen_random_uuid(), 'normalized', 'A bolt')",
            sku,
            sku,
        )
        self.ask("INSERT INTO listing_state (user_id, sku) VALUES ('acme', %s)", sku)
        self.want(sku, wanted("11.55", 4, **more))

    def want(self, sku: str, state: Mapping[str, Any], *, seller: str = "acme") -> None:
        """Desire another state, as a read of the supplier does."""
        self.ask(
            "UPDATE listing_state SET desired = %s, desired_version = desired_version + 1,"
            " desired_at = %s, push_at = %s WHERE user_id = %s AND sku = %s",
            json.dumps(state),
            self.clock.now(),
            self.clock.now(),
            seller,
            sku,
        )

    def shown(self, sku: str, seller: str = "acme") -> ShopScreen:
        view = self.simulator.shown(self.domain(seller), sku)
        assert view is not None
        return view

    def one(self, sql: str, *values: object) -> Any:
        return self.ask(sql, *values)[0][0]

    def waiting(self) -> int:
        """How many listings are due for a push now."""
        return int(
            self.one("SELECT count(*) FROM listing_state WHERE push_at <= %s", self.clock.now())
        )

    def drive(
        self, push: Push, until: Callable[[], bool] | None = None, steps: int = 400
    ) -> "list[Done | Wait]":
        """Step a pusher, letting it wait as it asks, until nothing is due, or `until` is true."""
        results: list[Done | Wait] = []
        is_over = until or (lambda: self.waiting() == 0)
        while not is_over():
            assert len(results) < steps, f"no end in sight: {results[-5:]}"
            result = push.step()
            results.append(result)
            if isinstance(result, Wait):
                self.clock.sleep((result.until - self.clock.now()).total_seconds())
        return results

    def push(self, owner: str = "w") -> Push:
        return self.app.push(owner)


def make_shops(
    pool: ConnectionPool,
    clock: VirtualClock,
    folder: Path,
    *,
    sellers: tuple[str, ...] = ("acme",),
    faults: ShopFaultPlan | None = None,
    refresh: str | None = None,
    search_lag_s: float = 10.0,
    rehearses: bool = False,
    setup: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Shops:
    """Open a shop for each seller, connected, with nothing in it; `setup` is more of ShopSetup."""
    more = {"locations": PLACES, "search_lag_s": search_lag_s, **(setup or {})}
    setups = [ShopSetup(domain=f"{seller}.myshopify.com", **more) for seller in sellers]
    simulator = ShopifySimulator(clock, shops=setups, faults=faults, seed=1)
    chosen = Settings(
        shopify_url="http://shop.test/{shop}",
        shopify_client_id=APP.client_id if refresh else "",
        shopify_client_secret=APP.client_secret if refresh else "",
        data_dir=folder,
        **settings,
    )
    ids = rng("test")
    app = build(
        chosen,
        clock,
        pool,
        shop_transport=SimTransport(simulator.handle, clock, seed=1),
        ids=lambda: fresh_id(ids),
    )
    shops = Shops(app=app, clock=clock, pool=pool, simulator=simulator)
    for opened, seller in zip(setups, sellers, strict=True):
        shops.ask(
            "INSERT INTO connected_accounts (user_id, platform, shop, push_started_at)"
            " VALUES (%s, 'shopify', %s, %s)",
            seller,
            opened.domain,
            None if rehearses else clock.now(),
        )
        store_tokens(
            Credentials(pool),
            open_vault(None, folder),
            shop_limit_key(chosen.shopify_client_id, opened.domain),
            clock=clock,
            access=opened.access_token,
            refresh=refresh,
            expires_at=clock.now() if refresh else None,
        )
    return shops
