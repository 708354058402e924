"""A small deployment in real time: a supplier, shops and platforms over sockets, one database."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool

from headway import config
from headway.app import App, build
from headway.app.accounts import connect_account
from headway.app.providers import shared_vault
from headway.clock import SystemClock
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import Priority, SellerId, Sku
from headway.operations.callers import OperatorCaller, operator
from headway.operations.listings import TriggerBody, trigger
from headway.providers.shopify.storefront import shop_limit_key
from headway.providers.token_store import token_key
from headway.providers.tokens import store_tokens
from headway.store.accounts.credentials import Credentials
from headway_lab.platforms import ETSY, PRINTIFY, SHOPIFY
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.etsy.simulator import EtsyApp, EtsySimulator
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import serve
from headway_lab.virtual_clock import VirtualClock

CLOCK = SystemClock()
CALLS_PER_MIN = 600
QUICK_S = (0.005, 0.03)
SHOP_DELAY_S = (0.15, 0.6)
PLACES = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ")
# Long enough ago that no limit remembers anything.
LONG_AGO = timedelta(days=2)


class ShownListing:
    """The supplier's catalog."""

    def __init__(self) -> None:
        self.parts: dict[str, SupplierPart] = {}

    def stock(self, sku: str, price: str = "10", quantity: int = 5) -> None:
        self.parts[sku] = SupplierPart(
            sku=sku, list_price=Decimal(price), net_price=None, stock={"Miami FL": quantity}
        )

    def lookup(self, sku: str) -> SupplierPart | None:
        return self.parts.get(sku)


@dataclass(kw_only=True)
class Deployment:
    """The simulators and our database, from which a test reads the results."""

    environ: dict[str, str] = field(repr=False)
    app: App
    pool: ConnectionPool
    catalog: ShownListing
    supplier: BoeingSimulator
    shops: ShopifySimulator
    etsy: EtsySimulator
    printify: PrintifySimulator
    calls_per_min: int = CALLS_PER_MIN
    # (seller, platform) → the id of the shop.
    shop_ids: dict[tuple[str, str], int] = field(default_factory=dict)
    # (seller, SKU) of every listing.
    listed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def operator(self) -> OperatorCaller:
        return operator(self.app, "test")

    def add_seller(self, seller: str, *skus: str, stock: int | None = None) -> None:
        """Add a seller with parts and a shop that sells them, with stock everywhere if given."""
        domain, now = self.domain(seller), CLOCK.now()
        for sku in skus:
            self.catalog.stock(sku)
            shop_listings = {} if stock is None else dict.fromkeys(PLACES, stock)
            self.shops.seed_product(domain, sku, price=Decimal("1.00"), quantities=shop_listings)
        self.listed += [(seller, sku) for sku in skus]
        keys = [(SellerId(seller), Sku(sku)) for sku in skus]
        self.app.listings.add(keys, policy=self.app.policy, now=now, priority=Priority.ONBOARDING)
        self._connect(seller, SHOPIFY, domain, access="sim-static-token")

    def trade(self, seller: str, sku: str, *, orders: int) -> None:
        """Give a seller that many orders on every platform, to be pulled now."""
        etsy = self.etsy.add_shop(name=seller).owner.shop_id
        printify = self.printify.add_shop(account=seller, title=seller)
        self.shop_ids |= {(seller, "etsy"): etsy, (seller, "printify"): printify}
        self.etsy.add_listing(etsy)
        self.printify.add_product(printify)
        for _ in range(orders):
            self.sell(seller, sku)
        pair = self.etsy.grant(etsy)
        access = {"access": pair.access, "refresh": pair.refresh}
        self._connect(seller, ETSY, str(etsy), **access)
        token = self.printify.personal_token(seller)
        self._connect(seller, PRINTIFY, str(printify), access=token)
        self.do("UPDATE sync_jobs SET next_run_at = %s", CLOCK.now())

    def trigger(self, seller: str, skus: Sequence[str]) -> list[str]:
        """Trigger parts; return those that will be read and are not in a call now."""
        body = TriggerBody(skus=[Sku(sku) for sku in skus], seller=SellerId(seller))
        results = trigger(self.operator, body).listings
        return [result.sku for result in results if re.search("(next|first) call", result.message)]

    def sell(self, seller: str, sku: str) -> None:
        """Let a customer buy in each of a seller's shops."""
        self.etsy.place_order(self.shop_ids[seller, "etsy"])
        self.printify.place_order(self.shop_ids[seller, "printify"])
        self.shops.place_order(self.domain(seller), [(sku, 1)])

    def domain(self, seller: str) -> str:
        return f"{seller}.myshopify.com"

    def _connect(self, seller: str, platform: PlatformName, shop: str, **tokens: Any) -> None:
        limit_key = shop_limit_key("", shop) if platform == SHOPIFY else token_key(platform, shop)
        vault, catalog = shared_vault(self.app.settings), Credentials(self.pool)
        store_tokens(catalog, vault, limit_key, clock=CLOCK, **tokens)
        owner_id = shop if platform == PRINTIFY else ""
        connect_account(
            self.pool,
            SellerId(seller),
            shop,
            platform=platform,
            owner_id=owner_id,
            rehearses=False,
            now=CLOCK.now(),
        )

    def one(self, sql: str, *values: object) -> Any:
        with self.pool.connection() as connection:
            row = connection.execute(sql, values).fetchone()
        return row and row[0]

    def do(self, sql: str, *values: object) -> None:
        with self.pool.connection() as connection:
            connection.execute(sql, values)

    def price(self, seller: str, sku: str) -> Decimal:
        """Return the price that the shop shows."""
        view = self.shops.shown(self.domain(seller), sku)
        assert view is not None
        return view.price

    def is_read(self, *skus: str) -> bool:
        return not self.one(
            "SELECT count(*) FROM product_sync_schedule"
            " WHERE sku = ANY (%s) AND last_successful_sync IS NULL",
            list(skus),
        )

    def is_pulled(self) -> bool:
        return not self.one("SELECT count(*) FROM sync_jobs WHERE completed_at IS NULL")

    @property
    def refusals(self) -> list[int]:
        """Return how many calls each simulator refused."""
        return [
            self.supplier.refusals,
            self.shops.refusals,
            self.etsy.log.refusals.total(),
            self.printify.refusals,
        ]


@contextmanager
def open_deployment(
    database: str,
    pool: ConnectionPool,
    folder: Path,
    sellers: tuple[str, ...],
    *,
    calls_per_min: int = CALLS_PER_MIN,
    shop_delay_s: tuple[float, float] = SHOP_DELAY_S,
) -> Iterator[Deployment]:
    """Open a deployment with empty shops of these sellers."""
    catalog, sign_in, etsy_app = ShownListing(), SignIn(), EtsyApp()
    supplier = BoeingSimulator(catalog, CLOCK, limit=calls_per_min, delay_s=QUICK_S)
    setups = [ShopSetup(domain=f"{seller}.myshopify.com", locations=PLACES) for seller in sellers]
    shops = ShopifySimulator(CLOCK, shops=setups, delay_s=shop_delay_s)
    etsy, printify = EtsySimulator(CLOCK, delay_s=QUICK_S), PrintifySimulator(CLOCK)
    with ExitStack() as stack:

        def serve_handler(handle: Callable[..., Any]) -> str:
            return stack.enter_context(serve(handle, CLOCK)).url

        environ = {
            "DATABASE_URL": database,
            "HEADWAY_DATA_DIR": str(folder),
            "HEADWAY_POLICY": "rolling",
            "HEADWAY_ORDER_QUOTAS": "free=5000",
            "HEADWAY_GUARD_SHARE": "1",
            "HEADWAY_GUARD_MOVE": "1000",
            "HEADWAY_BOEING_URL": serve_handler(supplier.handle),
            "HEADWAY_BOEING_CLIENT_ID": sign_in.client_id,
            "HEADWAY_BOEING_CLIENT_SECRET": sign_in.client_secret,
            "HEADWAY_BOEING_USERNAME": sign_in.username,
            "HEADWAY_BOEING_PASSWORD": sign_in.password,
            "SYNC_BOEING_RATE_LIMIT_TOKENS": str(calls_per_min),
            "SYNC_BOEING_RATE_LIMIT_REFILL": "0",
            "HEADWAY_SHOPIFY_URL": f"{serve_handler(shops.handle)}/{{shop}}",
            "HEADWAY_ETSY_URL": serve_handler(etsy.handle),
            "HEADWAY_ETSY_KEYSTRING": etsy_app.keystring,
            "HEADWAY_ETSY_SHARED_SECRET": etsy_app.shared_secret,
            "HEADWAY_PRINTIFY_URL": serve_handler(printify.handle),
        }
        settings = config.load(environ)
        # A limiter without history waits for a minute; pretend that this has passed.
        past = build(settings, VirtualClock(CLOCK.now() - LONG_AGO), pool)
        for key in list(past.limiter.resources):
            past.limiter.pause(key, 0, "")
        yield Deployment(
            environ=environ,
            app=build(settings, CLOCK, pool),
            pool=pool,
            catalog=catalog,
            supplier=supplier,
            shops=shops,
            etsy=etsy,
            printify=printify,
            calls_per_min=calls_per_min,
        )
