"""A simulated shop in virtual time with the real application behind it, for `bench.push`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from bench.services import CLOCK, migrated
from headway.app import App, build
from headway.app.accounts import connect_account
from headway.clock import fresh_id, rng
from headway.config import Settings
from headway.core.catalog.listings import SellerId, Wait
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 5, tzinfo=UTC)
# By then the bucket is full, and our limiter, which began without a past, believes it.
FULL_S = 60.0
SELLER = SellerId("acme")
SHOP = "acme.myshopify.com"
TOKEN = "bench-access-token"
PLACES = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ")
State = dict[str, Any]

ENTER_PRODUCTS = """
COPY product (user_id, sku, shop_sku, shopify_product_id, shopify_variant_id,
  shopify_inventory_item_id) FROM STDIN
"""
ENTER = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)
SELECT user_id, sku, 0, %(now)s FROM product
"""
ENTER_STATES = """
INSERT INTO listing_state (user_id, sku, desired, desired_version, applied, applied_version,
  verified_at)
SELECT user_id, sku, %(state)s, 1, %(state)s, 1, %(now)s FROM product
"""
CHANGE = """
UPDATE listing_state SET desired_version = 2, desired_at = %(now)s, push_at = %(now)s,
  desired = CASE WHEN right(sku, 1)::int %% 2 = 0 THEN %(even)s::jsonb ELSE %(odd)s::jsonb END
"""
WAITING = "SELECT count(*) FROM listing_state WHERE push_at IS NOT NULL"


def state(price: str, cost: str, *stock: int) -> State:
    """Return a desired state with that stock at the first places, and five at the others."""
    quantities = dict(zip(PLACES, [*stock, 5, 5, 5, 5], strict=False))
    money = {"price": price, "cost": cost, "currency": "USD", "compare_at": None}
    return {**money, "quantities": quantities}


BEFORE = state("11.00", "9.5")


@dataclass(slots=True, kw_only=True)
class Wire:
    """The simulated shop, its real time, and when it last answered in virtual time."""

    simulator: ShopifySimulator
    real_s: float = 0.0
    answered_s: float = 0.0

    def handle(self, *request: Any) -> SimReply:  # noqa: ANN401 - as the simulator takes it
        """Pass a request on."""
        at_s = CLOCK.monotonic()
        reply = self.simulator.handle(*request)
        self.real_s += CLOCK.monotonic() - at_s
        self.answered_s = self.simulator.elapsed_s() + reply.delay_s
        return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A shop whose listings are in the tables, and the application that writes to it."""

    app: App
    clock: VirtualClock
    transport: Wire
    skus: Sequence[str]

    def change(self, even: State, odd: State) -> None:
        """Desire another state of every listing, as reads of the supplier do."""
        values = {"now": self.clock.now(), "even": Jsonb(even), "odd": Jsonb(odd)}
        with self.app.pool.connection() as connection:
            connection.execute(CHANGE, values)

    def count_wrong(self, even: State, odd: State) -> int:
        """Count the listings of which the shop shows anything else."""
        views = (self.transport.simulator.shown(SHOP, sku) for sku in self.skus)
        shown = [view and (view.price, view.cost, view.quantities) for view in views]
        expected = [
            (Decimal(state["price"]), Decimal(state["cost"]), state["quantities"])
            for state in (even, odd)
        ]
        return sum(state != expected[number % 2] for number, state in enumerate(shown))

    def push(self) -> float:
        """Run one pusher until nothing waits; return the real seconds of its steps."""
        push, real_s = self.app.push("bench"), 0.0
        while True:
            at_s = CLOCK.monotonic()
            result = push.step()
            real_s += CLOCK.monotonic() - at_s
            if isinstance(result, Wait):
                if self.transport.simulator.requests and not self._waiting():
                    return real_s
                self.clock.sleep((result.until - self.clock.now()).total_seconds())

    def _waiting(self) -> bool:
        with self.app.pool.connection() as connection:
            return connection.execute(WAITING).fetchone() != (0,)


@contextmanager
def open_world(
    server: EmbeddedServer, folder: Path, listings: int, *, bulk_from: int
) -> Iterator[World]:
    """Fill shop and tables alike, connect them, and let the engine read the shop."""
    clock, ids = VirtualClock(START), rng("bench")
    setup = ShopSetup(domain=SHOP, locations=PLACES, access_token=TOKEN)
    transport = Wire(simulator=ShopifySimulator(clock, shops=[setup], seed=1))
    skus = [f"P{number:08}" for number in range(listings)]
    with open_pool(migrated(server, f"push_{fresh_id()}"), size=2) as pool:
        app = build(
            Settings(shopify_url="http://shop.test/{shop}", data_dir=folder, bulk_from=bulk_from),
            clock,
            pool,
            shop_transport=SimTransport(transport.handle, clock, seed=1),
            ids=lambda: fresh_id(ids),
        )
        with pool.connection() as connection:
            _fill(connection, transport.simulator, skus)
        connect_account(pool, SELLER, SHOP, rehearses=False, now=START)
        vault, limit_key = open_vault(None, folder), shop_limit_key("", SHOP)
        store_tokens(Credentials(pool), vault, limit_key, clock=clock, access=TOKEN)
        world = World(app=app, clock=clock, transport=transport, skus=skus)
        world.push()
        clock.sleep(FULL_S)
        yield world


def _fill(connection: Connection, simulator: ShopifySimulator, skus: Sequence[str]) -> None:
    price, cost = Decimal(BEFORE["price"]), Decimal(BEFORE["cost"])
    with connection.cursor() as cursor, cursor.copy(ENTER_PRODUCTS) as file:
        for sku in skus:
            ids = simulator.seed_product(
                SHOP, sku, price=price, cost=cost, quantities=BEFORE["quantities"]
            )
            file.write_row((SELLER, sku, sku, ids.product, ids.variant, ids.item))
    for statement in (ENTER, ENTER_STATES):
        connection.execute(statement, {"now": START, "state": Jsonb(BEFORE)})
    connection.execute("ANALYZE")
