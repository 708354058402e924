"""A price list as a supplier, through the engine: read, unchanged, and held back without harm."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.conftest import EngineRig, FakeCatalog

from headway.app import App, build
from headway.app.suppliers import add_supplier
from headway.clock import fresh_id, rng
from headway.config import Settings
from headway.core.catalog.listings import SellerId, Sku, SupplierName, Wait
from headway.errors import ConflictError, InvalidError
from headway.operations.callers import operator
from headway.operations.suppliers import accept_list, suppliers
from headway.providers.provider import SupplierSetup
from headway.store.catalog.suppliers import Suppliers
from headway_lab.simulators.boeing import BoeingSimulator
from headway_lab.virtual_clock import VirtualClock

NAME, SELLER = SupplierName("list"), SellerId("acme")
SKUS = tuple(Sku(f"P{number}") for number in range(30))
STATES = """
SELECT count(*) FILTER (WHERE last_successful_sync IS NULL), sum(consecutive_failures),
  count(*) FILTER (WHERE NOT is_active) FROM product_sync_schedule
"""
INTERVAL = timedelta(hours=1)
CHANGED = "SELECT count(*) FROM listing_state WHERE observed ->> 'list_price' = '12'"
PRICES = "SELECT DISTINCT observed ->> 'list_price' FROM listing_state"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "prices.csv"
    write(target, "10", len(SKUS))
    return target


def write(path: Path, price: str, count: int) -> None:
    rows = "".join(f"{sku},{price},1\n" for sku in SKUS[:count])
    path.write_text(f"sku,price,quantity\n{rows}")


@pytest.fixture
def rig(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, path: Path) -> EngineRig:
    return make_rig(pool, clock, tmp_path, path)


def make_rig(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, path: Path, policy: str = "rolling"
) -> EngineRig:
    settings = Settings(data_dir=tmp_path, policy=policy)
    catalog, ids = FakeCatalog(), rng("feed")
    app = build(settings, clock, pool, ids=lambda: fresh_id(ids))
    app = replace(app, rule=replace(app.rule, poll=timedelta(minutes=1)))
    setup = SupplierSetup(kind="feed", url=str(path), options={"currency": "USD"})
    assert add_supplier(app, NAME, setup)
    Suppliers(pool).give(NAME, SELLER, now=clock.now())
    app.listings.add([(SELLER, sku) for sku in SKUS], policy=app.policy, now=clock.now())
    supplier = BoeingSimulator(catalog, clock, seed=1)
    return EngineRig(app=app, clock=clock, catalog=catalog, supplier=supplier, pool=pool)


def drive(app: App, clock: VirtualClock, until: Callable[[], bool], steps: int = 400) -> None:
    fetch = app.for_supplier(NAME).fetch("worker")
    for _ in range(steps):
        if until():
            return
        result = fetch.step()
        if isinstance(result, Wait):
            clock.sleep((result.until - clock.now()).total_seconds())
    raise AssertionError("it did not come to an end")


def test_a_whole_catalog_is_read_from_one_download(rig: EngineRig) -> None:
    rig.make_due(*SKUS)
    drive(rig.app, rig.clock, lambda: rig.one(STATES) == 0)
    assert rig.ask(PRICES) == [("10",)]
    calls = rig.ask("SELECT result, count(*) FROM call_ledger GROUP BY result ORDER BY result")
    assert calls == [("list", 1), ("ok", 1)]


def test_a_change_in_the_list_reaches_its_listing_within_the_interval(
    rig: EngineRig, path: Path
) -> None:
    """No listing is due for hours, so only the list itself is a reason to read."""
    rig.make_due(*SKUS)
    drive(rig.app, rig.clock, lambda: rig.one(STATES) == 0)
    read_at, text = rig.clock.now(), path.read_text()
    path.write_text(text.replace("P7,10,", "P7,12,").replace("P8,10,1\n", ""))
    drive(rig.app, rig.clock, lambda: rig.one(CHANGED) == 1)
    assert rig.clock.now() - read_at < INTERVAL + timedelta(minutes=5)
    missing = "SELECT missing_count FROM product_sync_schedule WHERE sku = 'P8'"
    assert rig.one(missing) == 1, "a part that left the list is a change"


def test_an_eager_policy_reads_a_list_no_more_often_than_it_changes(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, path: Path
) -> None:
    rig = make_rig(pool, clock, tmp_path, path, policy="adaptive")
    rig.make_due(*SKUS)
    fetch, end_at = rig.app.for_supplier(NAME).fetch("worker"), clock.now() + timedelta(hours=12)
    while clock.now() < end_at:
        result = fetch.step()
        if isinstance(result, Wait):
            clock.sleep((result.until - clock.now()).total_seconds())
    calls = dict(rig.ask("SELECT result, count(*) FROM call_ledger GROUP BY result"))
    assert calls["list"] in {12, 13}
    assert calls["ok"] <= 2


def test_a_list_that_shrinks_harms_no_listing_until_it_is_accepted(
    rig: EngineRig, path: Path
) -> None:
    app, clock, caller = rig.app, rig.clock, operator(rig.app, "test")
    rig.make_due(*SKUS)
    drive(app, clock, lambda: rig.one(STATES) == 0)
    with pytest.raises(ConflictError, match="no price list is held"):
        accept_list(caller, NAME)
    write(path, "11", 10)
    clock.sleep(3700)
    rig.make_due(*SKUS)
    limit_key = app.for_supplier(NAME).limit_key
    drive(app, clock, lambda: app.breakers.load(limit_key).failures >= 2)
    assert "10 usable rows, the last good one had 30" in app.breakers.load(limit_key).reason
    assert rig.ask(STATES) == [(0, 0, 0)], "nobody is charged, nobody is parked"
    assert rig.ask(PRICES) == [("10",)]
    assert "10 rows are accepted" in accept_list(caller, NAME).message
    drive(app, clock, lambda: ("11",) in rig.ask(PRICES))


def test_a_forecast_uses_the_sign_in_lead_of_its_own_supplier(rig: EngineRig) -> None:
    assert rig.app.sign_in_early > timedelta(0)
    assert rig.app.for_supplier(NAME).sign_in_early == timedelta(0), "a list needs no sign-in"


def test_a_feed_is_listed_with_its_kind_and_its_limit(rig: EngineRig) -> None:
    _, view = suppliers(operator(rig.app, "test"), limit=10).items
    assert (view.name, view.kind) == ("list", "feed")
    with pytest.raises(InvalidError, match="there is no file"):
        add_supplier(rig.app, SupplierName("gone"), SupplierSetup(kind="feed", url="/gone.csv"))
    with pytest.raises(InvalidError, match="there is no provider nothing"):
        add_supplier(rig.app, SupplierName("gone"), SupplierSetup(kind="nothing"))
