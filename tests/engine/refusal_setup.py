"""Accounts of every platform over the real application, each platform behind an edge."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from psycopg_pool import ConnectionPool
from tests.statements import Statements

from headway.app import App, build
from headway.app.accounts import connect_account
from headway.app.providers import shared_vault, token_key_of
from headway.config import Settings
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId, Wait
from headway.engine.pull import Pull
from headway.engine.rules import PullRule
from headway.providers.tokens import store_tokens
from headway.store.accounts.credentials import Credentials
from headway_lab.platforms import ETSY, PRINTIFY, SHOPIFY
from headway_lab.simulators.edge import EdgeServer
from headway_lab.simulators.etsy.simulator import EtsyApp, EtsySimulator
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.shopify.apps import AppSecret
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

APP, KEYS = AppSecret(), EtsyApp()
STATIC, REFRESH = "shpat_simulated", "shprt_simulated"


@dataclass(frozen=True)
class ByHost(httpx.BaseTransport):
    """Delivers each request to the platform of its host."""

    transports: dict[str, httpx.BaseTransport]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.transports[request.url.host].handle_request(request)


@dataclass
class Platforms(Statements):
    """Connected accounts, the simulators behind them, and a worker."""

    app: App
    clock: VirtualClock
    pool: ConnectionPool
    simulators: dict[PlatformName, Any]
    edges: dict[PlatformName, EdgeServer]
    pull: Pull

    def connect(self, platform: PlatformName, seller: str, *, refreshes: bool = False) -> str:
        """Connect a shop of its own to a seller, at the pro tier; return its name."""
        self.ask(
            "INSERT INTO profiles (user_id, tier) VALUES (%s, 'pro') ON CONFLICT DO NOTHING", seller
        )
        simulator, refresh = self.simulators[platform], None
        if platform == SHOPIFY:
            shop = f"{seller}.myshopify.com"
            access, refresh = STATIC, REFRESH if refreshes else None
        elif platform == ETSY:
            number = simulator.add_shop().owner.shop_id
            simulator.place_order(number)
            pair = simulator.grant(number)
            shop, access, refresh = str(number), pair.access, pair.refresh
        else:
            number = simulator.add_shop(account=seller)
            simulator.place_order(number)
            shop, access = str(number), simulator.personal_token(seller)
        store_tokens(
            Credentials(self.pool),
            shared_vault(self.app.settings),
            token_key_of(self.app.settings, platform, shop),
            clock=self.clock,
            access=access,
            refresh=refresh,
        )
        now = self.clock.now()
        connect_account(
            self.pool, SellerId(seller), shop, platform=platform, owner_id=seller, now=now
        )
        return shop

    def run(self, hours: float, pull: Pull | None = None) -> None:
        until = self.clock.now() + timedelta(hours=hours)
        while self.clock.now() < until:
            result = (pull or self.pull).step()
            if isinstance(result, Wait):
                self.clock.sleep((result.until - self.clock.now()).total_seconds())

    def statuses(self) -> set[str]:
        return {status for (status,) in self.ask("SELECT status FROM connected_accounts")}

    def late_since(self, at: datetime) -> list[tuple[Any, ...]]:
        """Return the jobs that read orders and have not completed a run since then."""
        return self.ask(
            "SELECT platform, status, last_error, wait_reason FROM sync_jobs"
            " WHERE NOT is_backfill AND kind = 'orders' AND (completed_at > %s) IS NOT TRUE",
            at,
        )


def make_platforms(pool: ConnectionPool, clock: VirtualClock, folder: Path) -> Platforms:
    setups = [
        ShopSetup(domain=f"s{number}.myshopify.com", access_token=STATIC, refresh_token=REFRESH)
        for number in range(8)
    ]
    simulators: dict[PlatformName, Any] = {
        SHOPIFY: ShopifySimulator(clock, shops=setups, app=APP),
        ETSY: EtsySimulator(clock, app=KEYS, per_second=1000),
        PRINTIFY: PrintifySimulator(clock),
    }
    edges = {name: EdgeServer(simulator.handle) for name, simulator in simulators.items()}
    transport = ByHost({f"{name}.test": SimTransport(edge, clock) for name, edge in edges.items()})
    settings = Settings(
        shopify_url="http://shopify.test/{shop}",
        shopify_client_id=APP.client_id,
        shopify_client_secret=APP.client_secret,
        etsy_url="http://etsy.test",
        etsy_keystring=KEYS.keystring,
        etsy_shared_secret=KEYS.shared_secret,
        printify_url="http://printify.test",
        data_dir=folder,
    )
    app = build(settings, clock, pool, shop_transport=transport, platform_transport=transport)
    app = replace(app, pull_rule=PullRule(poll=timedelta(minutes=2)))
    return Platforms(app, clock, pool, simulators, edges, app.pull("w"))
