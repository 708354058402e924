"""Laws L6 and L7 while a pusher crashes at every operation on database or network."""

import itertools
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.shop_setup import Shops, make_shops, wanted

from headway.app import build
from headway.core.catalog.listings import Wait
from headway_lab.simulation.crashes import Crashed, CrashingPool, CrashingTransport, FaultInjector
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

LISTINGS = 4
LEASE_OVER_S = 60 + 180 + 1


def prices(number: int) -> str:
    """Return a price that is new each round and close to the last."""
    return f"{11 + number / 100:.2f}"


def run_pusher(shops: Shops, injector: FaultInjector) -> None:
    """Run a pusher until the work is done; raises Crashed when it crashes."""
    transport = SimTransport(shops.simulator.handle, shops.clock, seed=1)
    app = build(
        shops.app.settings,
        shops.clock,
        CrashingPool(shops.pool, injector),  # type: ignore[arg-type]
        shop_transport=CrashingTransport(transport, injector),
    )
    push = app.push("crashing")
    while shops.one("SELECT count(*) FROM listing_state WHERE push_at IS NOT NULL"):
        result = push.step()
        if isinstance(result, Wait):
            shops.clock.sleep((result.until - shops.clock.now()).total_seconds())


def begin_round(shops: Shops, number: int) -> None:
    """Change every listing in price and stock, publish a new part, and make some ids stale."""
    for index in range(LISTINGS):
        shops.want(f"A-{index}", wanted(prices(number), 1 + number % 7, number % 3))
    shops.simulator.renumber(shops.domain("acme"), "A-0")
    shops.stage(f"N-{number}")


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    shops = make_shops(pool, clock, tmp_path)
    for index in range(LISTINGS):
        shops.list(f"A-{index}", shows=wanted(prices(0), 1, 0))
    return shops


def test_each_change_is_applied_once_wherever_the_pusher_crashes(shops: Shops) -> None:
    for touches in itertools.count():
        number = touches + 1
        known = len(shops.simulator.effects)
        begin_round(shops, number)
        injector = FaultInjector(shops.clock)
        injector.crash_after(touches)
        try:
            run_pusher(shops, injector)
            has_survived = True
        except Crashed:
            has_survived = False
            shops.clock.sleep(LEASE_OVER_S)
            run_pusher(shops, FaultInjector(shops.clock))
        check_round(shops, number, known)
        if has_survived:
            assert touches > 40, "the pusher touched far fewer things than it must"
            return


def check_round(shops: Shops, number: int, known: int) -> None:
    for index in range(LISTINGS):
        view = shops.shown(f"A-{index}")
        assert view.price == Decimal(prices(number)), f"lost at touch {number - 1}"
        assert view.quantities["Dallas Central"] == 1 + number % 7
    assert len(shops.simulator.shop(shops.domain("acme")).by_sku(f"N-{number}")) == 1
    assert shops.simulator.double_writes() == [], f"written twice at touch {number - 1}"
    written = Counter(
        (effect.kind, effect.id, effect.location)
        for effect in shops.simulator.effects[known:]
        if effect.kind != "create"
    )
    assert set(written.values()) <= {1}, f"two effects of one change at touch {number - 1}"
    assert shops.one("SELECT count(*) FROM push_intent WHERE state = 'open'") == 0
    assert shops.one("SELECT count(*) FROM listing_state WHERE applied <> desired") == 0
    assert shops.simulator.refusals == 0
