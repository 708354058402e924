"""The engine in virtual time: real store, real client, simulated supplier in process."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.statements import Statements

from headway.app import App, build
from headway.clock import fresh_id, rng
from headway.config import Settings
from headway.core.catalog.listings import Done, SellerId, Sku, Wait
from headway.engine.fetch import Fetch
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.faults import FaultPlan
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock


class FakeCatalog:
    """A supplier catalog that a test can change."""

    def __init__(self) -> None:
        self.parts: dict[str, SupplierPart] = {}

    def stock(self, sku: str, *, price: str = "10", quantity: int = 5) -> None:
        self.parts[sku] = SupplierPart(
            sku=sku,
            list_price=Decimal(price),
            net_price=None,
            stock={"Miami FL": quantity},
        )

    def lookup(self, sku: str) -> SupplierPart | None:
        return self.parts.get(sku)


@dataclass
class EngineRig(Statements):
    app: App
    clock: VirtualClock
    catalog: FakeCatalog
    supplier: BoeingSimulator
    pool: ConnectionPool

    def add(self, *skus: str, seller: str = "a", stocked: bool = True) -> None:
        for sku in skus:
            if stocked:
                self.catalog.stock(sku)
        keys = [(SellerId(seller), Sku(sku)) for sku in skus]
        self.app.listings.add(keys, policy=self.app.policy, now=self.clock.now())

    def make_due(self, *skus: str, priority: str = "scheduled") -> None:
        self.ask(
            "UPDATE product_sync_schedule SET next_sync_at = %s, priority = %s WHERE sku = ANY(%s)",
            self.clock.now(),
            priority,
            list(skus),
        )

    def one(self, sql: str, *values: object) -> Any:
        return self.ask(sql, *values)[0][0]

    def drive(self, fetch: Fetch, until: Callable[[], bool], steps: int = 400) -> list[Done | Wait]:
        """Step a worker, letting it wait as it asks, until the condition holds."""
        results: list[Done | Wait] = []
        while not until():
            assert len(results) < steps, f"no end in sight: {results[-5:]}"
            result = fetch.step()
            results.append(result)
            if isinstance(result, Wait):
                self.clock.sleep((result.until - self.clock.now()).total_seconds())
        return results

    def price_calls(self) -> int:
        return self.supplier.calls["price"]

    def read(self, fetch: Fetch, calls: int = 1) -> None:
        """Let that many price calls go and be settled."""
        target = self.price_calls() + calls
        self.drive(fetch, lambda: self.price_calls() >= target)


RigMaker = Callable[..., EngineRig]


@pytest.fixture
def make_rig(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> RigMaker:
    def make(
        *, faults: FaultPlan | None = None, policy: Any = "rolling", **settings: Any
    ) -> EngineRig:
        sign_in = SignIn()
        chosen = Settings(
            policy=policy,
            boeing_url="http://supplier.test",
            boeing_client_id=sign_in.client_id,
            boeing_client_secret=sign_in.client_secret,
            boeing_username=sign_in.username,
            boeing_password=sign_in.password,
            data_dir=tmp_path,
            **settings,
        )
        catalog = FakeCatalog()
        supplier = BoeingSimulator(catalog, clock, faults=faults, seed=1)
        ids = rng("test")
        app = build(
            chosen,
            clock,
            pool,
            transport=SimTransport(supplier.handle, clock, seed=1),
            ids=lambda: fresh_id(ids),
        )
        app = replace(app, rule=replace(app.rule, poll=timedelta(minutes=1)))
        return EngineRig(app=app, clock=clock, catalog=catalog, supplier=supplier, pool=pool)

    return make


@pytest.fixture
def rig(make_rig: RigMaker) -> EngineRig:
    return make_rig()
