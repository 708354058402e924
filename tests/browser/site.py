"""A small deployment for the browser: real database, engine and page, simulated supplier and shops.

Its past is minutes on virtual time, so that everything was read once; then a fast clock goes on.
The engine stands still until a test lets it run, so that what a page shows first is known.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool
from pydantic import SecretStr

from headway.app import App, build
from headway.app.accounts import connect_account
from headway.cli.speed import build_fast
from headway.clock import ScaledClock, SystemClock
from headway.config import Settings
from headway.core.access import AccessGrant, Role
from headway.core.catalog.listings import SellerId, Sku
from headway.engine.rules import TICK_EVERY
from headway.operations.callers import operator
from headway.operations.listings import TriggerBody, trigger
from headway.runners.embedded import EmbeddedRunner, run_steps
from headway.store.access.keys import ApiKeys
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.demo.shops import SELLERS, DemoShops, domain_of, open_shops
from headway_lab.demo.world import SwitchingClock
from headway_lab.platforms import ETSY
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

ACME, NORTHWIND, SKYLINE = SELLERS
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
# A call every second and a half.
SPEED = 20.0
PAST = timedelta(minutes=5)
PRICES_MOVE_AT = timedelta(minutes=3.5)
PARTS = 30
ODD = "WF 338/10=K3"
HELD, DOUBTED, PARKED = "AN960-0003", "AN960-0006", "AN960-0009"
CLOCK = SystemClock()
REFRESH_S = 0.3
SIGN_IN = SignIn()


@dataclass
class SupplierCatalog:
    """The supplier's catalog; tests change it."""

    parts: dict[str, SupplierPart] = field(default_factory=dict)

    def lookup(self, sku: str) -> SupplierPart | None:
        return self.parts.get(sku)

    def move(self, sku: str, factor: str) -> None:
        """Multiply the prices of a part."""
        part, by = self.parts[sku], Decimal(factor)
        assert part.list_price is not None
        assert part.net_price is not None
        self.parts[sku] = replace(
            part, list_price=part.list_price * by, net_price=part.net_price * by
        )


def catalog() -> SupplierCatalog:
    """Return every part at its first price; the unusual one belongs to the first seller."""
    skus = [ODD, *(f"AN960-{number:04}" for number in range(1, PARTS))]
    parts = [
        SupplierPart(
            sku=sku,
            list_price=Decimal(10 + number),
            net_price=Decimal(8 + number),
            stock={"Dallas Central": number + 1},
        )
        for number, sku in enumerate(skus)
    ]
    return SupplierCatalog({part.sku: part for part in parts})


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The simulated outside: the supplier's catalog, the supplier and the shops."""

    catalog: SupplierCatalog
    supplier: BoeingSimulator
    floor: DemoShops


@dataclass(kw_only=True)
class LiveSite:
    """The application, its server and engine, and queries to the simulated outside."""

    app: App
    pool: ConnectionPool
    clock: ScaledClock
    world: World
    port: int = 0
    server: SiteServer | None = None
    runner: EmbeddedRunner | None = None
    site: Any = None

    @property
    def catalog(self) -> SupplierCatalog:
        return self.world.catalog

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def open(self) -> None:
        """Serve the page, on the same port as before."""
        listener = listen("127.0.0.1", self.port)
        self.port = int(address(listener).rstrip("/").rpartition(":")[2])
        self.site = create(self.app, refresh_s=REFRESH_S)
        self.server = SiteServer(self.site, listener)
        self.server.start()

    def close(self) -> None:
        """Stop serving the page."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def run(self) -> None:
        """Start the engine."""
        bell, every = self.clock.event(), max(TICK_EVERY, timedelta(seconds=SPEED))
        self.runner = EmbeddedRunner(self.clock)
        self.runner.start(
            bells={"push": bell},
            tick=replace(self.app, tick_every=every).tick().step,
            fetch=self.app.fetch("house", wake_push=bell.set).step,
            push=self.app.push("house").step,
        )

    def halt(self) -> None:
        """Stop the engine, and raise its errors."""
        if self.runner is not None:
            self.runner.stop()
            self.runner.check()
            self.runner = None

    def link(self, role: Role = Role.OPERATOR, seller: SellerId | None = None) -> str:
        """Return a one-time login link, as printed at the start."""
        now = CLOCK.now()
        grant = AccessGrant(name=str(role), role=role, seller=seller)
        secret = ApiKeys(self.pool).add_link(grant, expires_at=now + timedelta(days=1), now=now)
        return f"{self.url}login/{secret}"

    def key(self, role: Role = Role.OPERATOR, seller: SellerId | None = None) -> str:
        """Return a new key."""
        grant = AccessGrant(name=str(role), role=role, seller=seller)
        return ApiKeys(self.pool).add_key(grant, now=CLOCK.now())[1]

    def price_in_shop(self, sku: str) -> Decimal:
        """Return the price that the shop shows."""
        view = self.world.floor.shops.shown(domain_of(self.owner(sku)), sku)
        assert view is not None
        return view.price

    def owner(self, sku: str) -> SellerId:
        return next(seller for seller, listed, _ in self.world.floor.sold if listed == sku)

    def price_calls(self) -> int:
        """Return the number of price calls that the supplier counted."""
        return self.world.supplier.calls["price"]

    def execute(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def build_site(pool: ConnectionPool, folder: Path) -> Iterator[LiveSite]:
    """Build a site on an empty database, simulate its past, and serve its page."""
    with ExitStack() as stack:
        settings = _settings(folder)
        virtual = VirtualClock(START - PAST)
        switching_clock, sold = SwitchingClock(virtual), catalog()
        supplier = BoeingSimulator(sold, switching_clock, seed=1, sign_in=SIGN_IN)
        floor = open_shops(
            switching_clock,
            settings,
            sold=list(sold.parts.values()),
            newcomers=[],
            seed=1,
            speed=SPEED,
        )
        world = World(catalog=sold, supplier=supplier, floor=floor)
        _live_past(settings, virtual, pool, world)
        clock = ScaledClock(SPEED, start=START)
        switching_clock.switch_to(clock)
        app = _application(stack, settings, pool, world, clock)
        live_site = LiveSite(app=app, pool=pool, clock=clock, world=world)
        stack.callback(live_site.close)
        stack.callback(live_site.halt)
        live_site.open()
        yield live_site


def _settings(folder: Path) -> Settings:
    return Settings(
        data_dir=folder,
        boeing_client_id=SIGN_IN.client_id,
        boeing_client_secret=SecretStr(SIGN_IN.client_secret),
        boeing_username=SIGN_IN.username,
        boeing_password=SecretStr(SIGN_IN.password),
        boeing_url="http://127.0.0.1",
        shopify_url="http://127.0.0.1/{shop}",
        policy="adaptive",
        drift="off",
    )


def _live_past(settings: Settings, clock: VirtualClock, pool: ConnectionPool, world: World) -> None:
    """Read everything once, and then two prices that are held."""
    app = build(
        settings,
        clock,
        pool,
        transport=SimTransport(world.supplier.handle, clock, seed=1),
        shop_transport=SimTransport(world.floor.shops.handle, clock, seed=1),
    )
    app = replace(app, shop_restore_per_s=world.floor.restore_per_s)
    app.adopt()
    world.floor.set_up(app)
    caller = operator(app, "past")
    trigger(caller, TriggerBody(skus=list(map(Sku, world.catalog.parts))))
    for number, seller in enumerate((ACME, NORTHWIND), start=1):
        shop = f"10{number}"
        connect_account(pool, seller, shop, platform=ETSY, now=clock.now())
    bell = clock.event()
    for name, step, rung in (
        ("fetch", app.fetch("past", wake_push=bell.set).step, None),
        ("push", app.push("past").step, bell),
        ("tick", app.tick().step, None),
    ):
        clock.spawn(
            partial(run_steps, step, clock, threading.Event(), lambda _n, _t: None, name, wake=rung)
        )
    clock.run(PRICES_MOVE_AT.total_seconds())
    world.catalog.move(HELD, "2.5")
    world.catalog.move(DOUBTED, "3")
    trigger(caller, TriggerBody(skus=[Sku(HELD), Sku(DOUBTED)]))
    clock.run(PAST.total_seconds())
    _park(pool, Sku(PARKED))


def _park(pool: ConnectionPool, sku: Sku) -> None:
    """Park a part, as many failures would do over days."""
    with pool.connection() as connection:
        connection.execute(
            "UPDATE product_sync_schedule SET is_active = false, sync_status = 'parked',"
            " consecutive_failures = 5, last_error = 'the supplier does not know it'"
            " WHERE sku = %s",
            (sku,),
        )


def _application(
    stack: ExitStack, settings: Settings, pool: ConnectionPool, world: World, clock: ScaledClock
) -> App:
    supplied = stack.enter_context(serve(world.supplier.handle, clock))
    shops = stack.enter_context(serve(world.floor.shops.handle, clock))
    changes = {
        "boeing_url": supplied.url,
        "boeing_timeout_s": settings.boeing_timeout_s * SPEED,
        "shopify_url": f"{shops.url}/{{shop}}",
        "shopify_timeout_s": settings.shopify_timeout_s * SPEED,
    }
    return build_fast(stack, settings.model_copy(update=changes), clock, pool)
