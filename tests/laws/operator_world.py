"""Small random worlds: the real engine, a supplier, shops, and workers that may be killed.

What people do in them is in `operator_people`. An action has a name and a number from which it
draws its details, so that a list of actions can be repeated and shortened. Some happen while a call
to the supplier or to a shop is under way.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from psycopg_pool import ConnectionPool
from tests.laws.operator_checks import Checks
from tests.statements import Statements

from headway.app import App, build
from headway.clock import Rng, fresh_id, rng
from headway.config import Settings
from headway.core.catalog.intake import ImportRow
from headway.core.catalog.listings import SellerId, Sku, Wait
from headway.core.catalog.storefront import Gid
from headway.errors import RequestError
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.products import Products
from headway_lab.simulation.crashes import Crashed, CrashingPool, CrashingTransport, FaultInjector
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 5, tzinfo=UTC)
PLACES = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ")
ELSEWHERE = "Germany CSC"
POLICIES = ("rolling", "rolling", "split", "adaptive", "packed", "anchored")
EMPTY = """
TRUNCATE product_sync_schedule, listing_state, product, product_staging, connected_accounts,
  push_intent, sync_audit_log, call_ledger, limiter, breaker, credential, credential_refresh,
  pauses, profiles, boeing_raw_data, market, family, timetable, listing_search, notices, outbox,
  housekeeping, freshness_samples, supplier_locations CASCADE
"""
CONNECT = """
INSERT INTO connected_accounts (user_id, platform, shop, push_started_at)
VALUES (%s, 'shopify', %s, %s)
"""
MAKE_DUE = """
UPDATE product_sync_schedule SET next_sync_at = %s, priority = 'scheduled'
WHERE is_active AND sync_status <> 'syncing'
"""
UNREAD = """
SELECT count(*) FROM product_sync_schedule
WHERE is_active AND NOT is_paused AND coalesce(last_sync_at, '-infinity') < %s
"""
UNPUSHED = "SELECT count(*) FROM listing_state WHERE push_at <= %s"
STEPS_MAX = 80
PATIENCE = timedelta(minutes=20)
# Longer than any lease, and than the clocks of two hosts may differ.
LEASES_OVER_S = 60 + 180 + 61


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What somebody does, drawn from a number, and whether a call is under way meanwhile."""

    name: str
    number: int
    is_during_call: bool = False


class Gate(httpx.BaseTransport):
    """A connection that may be down, and during whose calls something may happen."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self.is_down = False
        self.meanwhile: list[Callable[[], None]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("connection refused", request=request)
        before = self.meanwhile and self.meanwhile.pop()
        if before:
            before()
        return self._inner.handle_request(request)


class Catalog:
    """What the supplier sells; it remembers what it has quoted."""

    def __init__(self) -> None:
        self.parts: dict[str, SupplierPart] = {}
        self.quoted: dict[str, list[SupplierPart]] = {}

    def lookup(self, sku: str) -> SupplierPart | None:
        part = self.parts.get(sku)
        if part is not None:
            self.quoted.setdefault(sku, []).append(part)
        return part


class OperatorWorld(Statements):
    """One or two sellers with a few parts, the engine, and a number that tells it all."""

    def __init__(self, pool: ConnectionPool, folder: Path, seed: int) -> None:
        self.pool, self.clock, self.catalog = pool, VirtualClock(START), Catalog()
        draw, self._seed, self._folder = rng(f"operator world {seed}"), seed, folder
        self.ask(EMPTY)
        self._ids = rng(f"ids {seed}")
        sellers = ("acme", "bolts") if draw.random() < 0.3 else ("acme",)
        self.domains = {seller: f"{seller}.myshopify.com" for seller in sellers}
        self.in_rehearsal = {seller for seller in sellers if draw.random() < 0.2}
        setups = [self._open_shop(draw, domain) for domain in self.domains.values()]
        self.supplier = BoeingSimulator(self.catalog, self.clock, seed=seed)
        self.shop = ShopifySimulator(self.clock, shops=setups, seed=seed)
        self.gates = {
            "supplier": Gate(SimTransport(self.supplier.handle, self.clock, seed=seed)),
            "shop": Gate(SimTransport(self.shop.handle, self.clock, seed=seed)),
        }
        self._policy = draw.choice(POLICIES)
        self.app = self._build(pool)
        for (seller, domain), setup in zip(self.domains.items(), setups, strict=True):
            started_at = None if seller in self.in_rehearsal else self.clock.now()
            self.ask(CONNECT, seller, domain, started_at)
            store_tokens(
                Credentials(pool),
                open_vault(None, folder),
                shop_limit_key(self.app.settings.shopify_client_id, domain),
                clock=self.clock,
                access=setup.access_token,
            )
        self.workers = 0
        self._hire()
        self.checks, self.is_in_call = Checks(self), False
        self._enter(draw)

    def _open_shop(self, draw: Rng, domain: str) -> ShopSetup:
        """Open a shop; some lack locations that the supplier has."""
        count = draw.choice((4, 4, 4, 3, 3, 0))
        places = draw.sample(PLACES, count) or ["Main street"]
        return ShopSetup(domain=domain, locations=places, search_lag_s=1.0)

    def _build(self, pool: Any, injector: FaultInjector | None = None) -> App:
        """Put the product together; with an injector it may be killed at any moment."""
        sign_in = SignIn()
        settings = Settings(
            policy=self._policy,
            boeing_url="http://supplier.test",
            boeing_client_id=sign_in.client_id,
            boeing_client_secret=sign_in.client_secret,
            boeing_username=sign_in.username,
            boeing_password=sign_in.password,
            shopify_url="http://shop.test/{shop}",
            data_dir=self._folder,
            drift_check_h=1,
        )
        gates: list[httpx.BaseTransport] = [self.gates["supplier"], self.gates["shop"]]
        if injector is not None:
            pool = CrashingPool(pool, injector)
            gates = [CrashingTransport(gate, injector) for gate in gates]
        return build(
            settings,
            self.clock,
            pool,
            transport=gates[0],
            shop_transport=gates[1],
            ids=lambda: fresh_id(self._ids),
        )

    def _hire(self) -> None:
        """Start a worker process, after the one before it was killed."""
        self.workers += 1
        self.injector = FaultInjector(self.clock)
        app, name = self._build(self.pool, self.injector), self.workers
        self.worker = {"fetch": app.fetch(f"f{name}"), "push": app.push(f"p{name}"),
                       "tick": app.tick()}  # fmt: skip

    # -- the beginning -----------------------------------------------------------------------

    def _enter(self, draw: Rng) -> None:
        """Enter the parts: most are taken over from the shop, some are new at the supplier."""
        count = draw.choice((3, 5, 8, 12, 26, 40))
        rows = []
        for number in range(count):
            sku, price = f"P-{number:02}", Decimal(draw.randrange(500, 50_000)) / 100
            stock = {place: draw.randrange(4) for place in draw.sample(PLACES, 2)}
            if draw.random() < 0.1:
                stock[ELSEWHERE] = draw.randrange(4)
            self.catalog.parts[sku] = SupplierPart(
                sku=sku,
                list_price=price,
                net_price=(price * Decimal("0.8")).quantize(Decimal("0.01")),
                stock=stock,
            )
            for seller in self.domains:
                if seller == "acme" or draw.random() < 0.5:
                    factor = draw.choice(("1.1", "1.1", "1.3", "0.9", "3"))
                    gids = self.put_in_shop(draw, seller, sku, price * Decimal(factor))
                    rows.append(import_row(len(rows), seller, sku, gids))
        self.model = self.catalog.parts["P-00"]
        self.take_in(rows)
        for number in range(draw.randrange(3)):  # not imported
            sku = f"N-{number:02}"
            self.catalog.parts[sku] = replace(self.model, sku=sku)

    def put_in_shop(self, draw: Rng, seller: str, sku: str, price: Decimal) -> tuple[Gid, Gid, Gid]:
        """Let the merchant make a product; return its ids."""
        domain = self.domains[seller]
        places = [location.name for location in self.shop.shop(domain).locations.values()]
        ids = self.shop.seed_product(
            domain, sku, price=price.quantize(Decimal("0.01")),
            quantities={place: draw.randrange(4) for place in places},
        )  # fmt: skip
        return Gid(ids.product), Gid(ids.variant), Gid(ids.item)

    def take_in(self, rows: Sequence[ImportRow]) -> None:
        """Import parts as a merchant's file names them."""
        products, now = Products(self.app.pool), self.clock.now()
        products.take_in(rows, form=self.app.settings.shop_sku, policy=self.app.policy, now=now)
        self.app.sellers.count_catalogs(now)

    # -- what happens ------------------------------------------------------------------------

    def do(self, action: Action) -> None:
        """Let something happen, now or during the next call, and check the laws."""
        draw = rng(f"{action.name} {action.number}")
        deed = getattr(self, f"_{action.name}")

        def happen() -> None:
            with suppress(RequestError):  # refused: nothing was done
                deed(draw)
            self.checks.check()

        def meanwhile() -> None:
            self.is_in_call = True
            happen()
            self.is_in_call = False

        if action.is_during_call:
            self.gates[draw.choice(("supplier", "shop"))].meanwhile.append(meanwhile)
        else:
            happen()

    def round(self) -> None:
        """Let the engine read everything and write what is to be written; check as it goes."""
        self.clock.sleep(1)  # so that what was read before is older
        began = self.clock.now()
        self.ask(MAKE_DUE, began)
        self._work("fetch", lambda: self.ask(UNREAD, began)[0][0] == 0)
        self._step("tick")
        self._work("push", lambda: self.ask(UNPUSHED, self.clock.now())[0][0] == 0)
        self.checks.check()
        self.checks.check_settled(began)

    def _work(self, verb: str, is_over: Callable[[], bool]) -> None:
        until = self.clock.now() + PATIENCE
        for _ in range(STEPS_MAX):
            if is_over():
                return
            result = self._step(verb)
            self.checks.check()
            if isinstance(result, Wait):
                if result.until > until:
                    return
                self.clock.sleep((result.until - self.clock.now()).total_seconds())

    def _step(self, verb: str) -> Any:
        """Do one step; a worker that is killed is replaced, once its leases are over."""
        try:
            return self.worker[verb].step()
        except Crashed:
            self.is_in_call = False
            self.checks.check()
            self._hire()
            self.clock.sleep(LEASES_OVER_S)
            return self.worker["tick"].step() and None

    def _kill(self, draw: Rng) -> None:
        """Kill the worker a few operations from now."""
        self.injector.crash_after(draw.randrange(30))


def import_row(line: int, seller: str, sku: str, gids: tuple[Gid, Gid, Gid] | None) -> ImportRow:
    """Return a row of a merchant's file."""
    names = ("shopify_product_id", "shopify_variant_id", "shopify_inventory_item_id")
    ids = {} if gids is None else dict(zip(names, gids, strict=True))
    return ImportRow(line=line, sku=Sku(sku), seller=SellerId(seller), **ids)  # type: ignore[arg-type]
