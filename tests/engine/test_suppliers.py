"""Several suppliers in virtual time: each by its own credential, under its own limit."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg_pool import ConnectionPool
from tests.engine.conftest import EngineRig, FakeCatalog
from tests.engine.supplier_setup import Broker, DispatchRig

from headway.app import App, build
from headway.app.suppliers import add_supplier, fetch_all_suppliers, remove_supplier
from headway.clock import fresh_id, rng
from headway.config import Settings
from headway.core.catalog.listings import MAIN, Done, SellerId, Sku, SupplierName, Wait
from headway.core.pauses import Pause, PauseKind
from headway.engine.fetch_all import FetchAll
from headway.errors import ConflictError, NotFoundError
from headway.operations.alerts import alerts
from headway.operations.callers import operator, seller_or_operator
from headway.operations.deployment import status
from headway.operations.laws import LAWS
from headway.operations.limits import ledger, limits
from headway.operations.listings import explain
from headway.providers.provider import SupplierSetup
from headway.store.catalog.suppliers import Suppliers
from headway.store.monitoring.law_checks import LawChecks
from headway.store.timetable.positions import ListingPositions
from headway_lab.simulators.boeing import BoeingSimulator, SignIn
from headway_lab.simulators.faults import FaultPlan, Interval
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

ACME = SupplierName("acme")
SECRETS = {"client_secret": "s", "password": "p"}
SKUS = tuple(f"P{number}" for number in range(12))
UNREAD = "SELECT count(*) FROM product_sync_schedule WHERE last_successful_sync IS NULL"


class Street(httpx.BaseTransport):
    """Carries a request to the supplier whose address it names."""

    def __init__(self) -> None:
        self.houses: dict[str, SimTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.houses[request.url.host].handle_request(request)


@dataclass
class SuppliersRig:
    """Suppliers side by side; seller `a` buys from `main`, `b` from the supplier under test."""

    rig: EngineRig
    transport: Street
    suppliers: dict[SupplierName, BoeingSimulator]
    shelves: dict[SupplierName, FakeCatalog]

    @property
    def app(self) -> App:
        return self.rig.app

    def open(self, name: SupplierName, *, faults: FaultPlan | None = None) -> SignIn:
        clock, catalog = self.rig.clock, FakeCatalog()
        sign_in = SignIn(
            client_id=f"{name}-id", client_secret=f"{name}-secret", username=f"{name}-user",
            password=f"{name}-password",
        )  # fmt: skip
        simulator = BoeingSimulator(catalog, clock, seed=2, sign_in=sign_in, faults=faults)
        self.transport.houses[f"{name}.test"] = SimTransport(simulator.handle, clock, seed=2)
        self.suppliers[name], self.shelves[name] = simulator, catalog
        setup = SupplierSetup(
            client_id=sign_in.client_id,
            username=sign_in.username,
            url=f"http://{name}.test",
            secrets={"client_secret": sign_in.client_secret, "password": sign_in.password},
        )
        add_supplier(self.app, name, setup)
        return sign_in

    def list(self, seller: str, supplier: SupplierName, *skus: str, price: str) -> None:
        for sku in skus:
            self.shelves[supplier].stock(sku, price=price)
        Suppliers(self.app.pool).give(supplier, SellerId(seller), now=self.rig.clock.now())
        keys = [(SellerId(seller), Sku(sku)) for sku in skus]
        self.app.listings.add(keys, policy=self.app.policy, now=self.rig.clock.now())
        self.rig.make_due(*skus)

    def read_all(self, lines: FetchAll, steps: int = 2000) -> None:
        self.drive(lines, lambda: self.rig.one(UNREAD) == 0, steps)

    def drive(self, lines: FetchAll, until: Callable[[], bool], steps: int = 2000) -> None:
        for _ in range(steps):
            if until():
                return
            result = lines.step()
            if isinstance(result, Wait):
                self.rig.clock.sleep((result.until - self.rig.clock.now()).total_seconds())
        raise AssertionError("no end in sight")

    def prices(self, seller: str) -> set[str]:
        query = "SELECT DISTINCT observed ->> 'list_price' FROM listing_state WHERE user_id = %s"
        return {price for (price,) in self.rig.ask(query, seller)}

    def refusals(self) -> int:
        return sum(supplier.refusals for supplier in self.suppliers.values())


SuppliersRigMaker = Callable[..., SuppliersRig]


@pytest.fixture
def make_suppliers_rig(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> SuppliersRigMaker:
    def make(policy: Any = "adaptive", faults: FaultPlan | None = None) -> SuppliersRig:
        sign_in, catalog, transport = SignIn(), FakeCatalog(), Street()
        settings = Settings(
            policy=policy,
            boeing_url="http://main.test",
            boeing_client_id=sign_in.client_id,
            boeing_client_secret=sign_in.client_secret,
            boeing_username=sign_in.username,
            boeing_password=sign_in.password,
            data_dir=tmp_path,
        )
        simulator = BoeingSimulator(catalog, clock, seed=1, faults=faults)
        transport.houses["main.test"] = SimTransport(simulator.handle, clock, seed=1)
        ids = rng("test")
        app = build(settings, clock, pool, transport=transport, ids=lambda: fresh_id(ids))
        app = replace(app, rule=replace(app.rule, poll=timedelta(minutes=1)))
        rig = EngineRig(app=app, clock=clock, catalog=catalog, supplier=simulator, pool=pool)
        return SuppliersRig(
            rig=rig, transport=transport, suppliers={MAIN: simulator}, shelves={MAIN: catalog}
        )

    return make


@pytest.mark.parametrize("policy", ("adaptive", "rolling", "packed"))
def test_each_supplier_is_asked_for_its_own_parts_alone(
    make_suppliers_rig: SuppliersRigMaker, policy: str
) -> None:
    suppliers_rig = make_suppliers_rig(policy)
    suppliers_rig.open(ACME)
    # The same part numbers: a call to the wrong supplier would return the other's price.
    suppliers_rig.list("a", MAIN, *SKUS, price="10")
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    suppliers_rig.read_all(fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None))
    assert (suppliers_rig.prices("a"), suppliers_rig.prices("b")) == ({"10"}, {"20"})
    assert suppliers_rig.refusals() == 0
    assert {supplier.calls["price"] for supplier in suppliers_rig.suppliers.values()} == {2}


def test_suppliers_spend_their_limits_side_by_side(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig()
    for number in range(4):
        name = SupplierName(f"s{number}")
        suppliers_rig.open(name)
        suppliers_rig.list(f"seller{number}", name, *SKUS, price="10")
    began = suppliers_rig.rig.clock.now()
    suppliers_rig.read_all(fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None))
    # A minute of caution, then two tokens and two calls, thirty seconds apart: for all at once.
    assert suppliers_rig.rig.clock.now() - began < timedelta(minutes=4)
    assert suppliers_rig.refusals() == 0


def test_a_supplier_that_is_down_stops_no_other(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig(
        faults=FaultPlan(1, outage=[Interval(start_s=0, end_s=7200)])
    )
    suppliers_rig.open(ACME)
    suppliers_rig.list("a", MAIN, *SKUS, price="10")
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    lines = fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None)
    unread_of_b = f"{UNREAD} AND user_id = 'b'"
    suppliers_rig.drive(lines, lambda: suppliers_rig.rig.one(unread_of_b) == 0)
    assert suppliers_rig.app.breakers.load(suppliers_rig.app.limit_key).failures > 0
    assert (
        suppliers_rig.app.breakers.load(suppliers_rig.app.for_supplier(ACME).limit_key).failures
        == 0
    )
    assert suppliers_rig.rig.one(f"{UNREAD} AND user_id = 'a'") == len(SKUS)


def test_a_pause_of_one_supplier_stops_no_other_and_ends_where_it_began(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.list("a", MAIN, *SKUS, price="10")
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    clock, lines = (
        suppliers_rig.rig.clock,
        fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None),
    )
    stopped = Pause(kind=PauseKind.SUPPLIER, supplier=ACME, since=clock.now(), actor="Ada")
    suppliers_rig.app.pauses.pause(stopped, clock.now())
    suppliers_rig.drive(lines, lambda: suppliers_rig.rig.one(f"{UNREAD} AND user_id = 'a'") == 0)
    assert suppliers_rig.suppliers[ACME].calls.total() == 0, "nor did anybody sign in there"
    now = clock.now()
    assert suppliers_rig.app.for_supplier(ACME).ahead.queue(now) == []
    (prices_a,), (prices_b,) = (
        ListingPositions(suppliers_rig.app.pool).of_sku(Sku("P1"), now, seller=SellerId(name))
        for name in "ab"
    )
    assert (prices_a.pauses, prices_b.pauses) == ((), (stopped,))
    assert suppliers_rig.app.pauses.active(now, seller=SellerId("a")) == []
    for supplier, is_done in ((None, False), (MAIN, False), (ACME, True)):
        resumed = suppliers_rig.app.pauses.resume(PauseKind.SUPPLIER, supplier=supplier, now=now)
        assert resumed.is_done is is_done
    suppliers_rig.read_all(lines)
    assert (suppliers_rig.prices("b"), suppliers_rig.refusals()) == ({"20"}, 0)


def test_a_pause_of_one_supplier_excuses_what_is_read_there_alone(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.list("a", MAIN, "P1", price="10")
    suppliers_rig.list("b", ACME, "P1", price="20")
    clock, day = suppliers_rig.rig.clock, timedelta(days=1)
    paused = Pause(kind=PauseKind.SUPPLIER, supplier=ACME, since=clock.now(), actor="Ada")
    suppliers_rig.app.pauses.pause(paused, clock.now())
    clock.sleep((2 * day).total_seconds())
    suppliers_rig.app.pauses.resume(PauseKind.SUPPLIER, supplier=ACME, now=clock.now())
    late = {
        name: LawChecks(suppliers_rig.app.pool)
        .ages(clock.now(), supplier=name, age_max=day, outages=())
        .late
        for name in (MAIN, ACME)
    }
    assert (late[MAIN].count, late[ACME].count) == (1, 0)


def test_who_goes_takes_the_pause_along(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    now = suppliers_rig.rig.clock.now()
    paused = Pause(kind=PauseKind.SUPPLIER, supplier=ACME, since=now, actor="Ada")
    suppliers_rig.app.pauses.pause(paused, now)
    remove_supplier(suppliers_rig.app, ACME)
    suppliers_rig.open(ACME)
    assert suppliers_rig.app.pauses.active(now) == []


def test_workers_serve_every_supplier_without_a_process_each(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig("rolling")
    names = [SupplierName(f"s{number}") for number in range(8)]
    for number, name in enumerate(names):
        suppliers_rig.open(name)
        suppliers_rig.list(f"seller{number}", name, *SKUS[:10], price="10")
    dispatch_rig = DispatchRig(rig=suppliers_rig.rig, broker=Broker(suppliers_rig.rig.clock))
    dispatch_rig.open("a", "b")
    took_s = dispatch_rig.run(lambda: suppliers_rig.rig.one(UNREAD) == 0)
    # A minute of caution, then two tokens and a call, thirty seconds apart: for all at once.
    assert took_s < 60 + 4 * 30
    assert suppliers_rig.refusals() == 0


def test_the_tick_guards_the_deadline_of_every_supplier(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    suppliers_rig.read_all(fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None))
    far = suppliers_rig.rig.clock.now() + timedelta(days=30)
    suppliers_rig.rig.ask("UPDATE product_sync_schedule SET next_sync_at = %s", far)
    suppliers_rig.rig.clock.sleep(timedelta(hours=23).total_seconds())
    suppliers_rig.app.tick().step()
    due = "SELECT count(*) FROM product_sync_schedule WHERE next_sync_at < %s"
    assert suppliers_rig.rig.one(due, suppliers_rig.rig.clock.now()) > 0


def test_a_supplier_that_comes_or_goes_is_noticed_without_a_restart(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    lines = fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None)
    for _ in range(5):
        lines.step()
    suppliers_rig.open(ACME)
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    suppliers_rig.read_all(lines)
    Suppliers(suppliers_rig.app.pool).give(MAIN, SellerId("b"), now=suppliers_rig.rig.clock.now())
    remove_supplier(suppliers_rig.app, ACME)
    calls = suppliers_rig.suppliers[ACME].calls.total()
    suppliers_rig.drive(lines, lambda: suppliers_rig.suppliers[MAIN].calls["price"] >= 3)
    assert suppliers_rig.suppliers[ACME].calls.total() <= calls + 1


def test_who_changes_the_supplier_hears_no_more_of_the_one_before(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    now, schedule = suppliers_rig.rig.clock.now(), suppliers_rig.app.for_supplier(ACME).schedule
    until = now + timedelta(minutes=1)
    in_call = schedule.claim([Sku(sku) for sku in SKUS], now=now, owner="w", lease_until=until)
    assert len(in_call) == len(SKUS)
    assert Suppliers(suppliers_rig.app.pool).give(MAIN, SellerId("b"), now=now) == len(SKUS)
    assert schedule.release(in_call, suspicion={}) == 0
    assert suppliers_rig.app.schedule.front(now, limit=1) != []
    assert schedule.front(now, limit=1) == []


def test_two_suppliers_cannot_share_a_credential(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    setup = SupplierSetup(client_id="acme-id", username="u", secrets=SECRETS)
    with pytest.raises(ConflictError, match="acme-id"):
        add_supplier(suppliers_rig.app, SupplierName("other"), setup)
    main = replace(setup, client_id=suppliers_rig.app.settings.boeing_client_id)
    with pytest.raises(ConflictError, match="main"):
        add_supplier(suppliers_rig.app, SupplierName("other"), main)
    assert Suppliers(suppliers_rig.app.pool).names() == [MAIN, ACME]
    assert (
        suppliers_rig.rig.one(
            "SELECT count(*) FROM credential WHERE credential_key = 'supplier:other'"
        )
        == 0
    )


def test_a_supplier_that_is_bought_from_is_not_removed(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.list("b", ACME, "P1", price="20")
    with pytest.raises(ConflictError, match="b buys from acme"):
        remove_supplier(suppliers_rig.app, ACME)
    with pytest.raises(NotFoundError, match="did you mean acme"):
        remove_supplier(suppliers_rig.app, SupplierName("acne"))
    Suppliers(suppliers_rig.app.pool).give(MAIN, SellerId("b"), now=suppliers_rig.rig.clock.now())
    remove_supplier(suppliers_rig.app, ACME)
    assert (
        suppliers_rig.rig.one(
            "SELECT count(*) FROM credential WHERE credential_key LIKE 'supplier:%%'"
        )
        == 0
    )


def test_secrets_of_a_supplier_are_encrypted_and_in_no_event(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    events = str(suppliers_rig.rig.ask("SELECT * FROM sync_audit_log"))
    kept = b"".join(bytes(row[0]) for row in suppliers_rig.rig.ask("SELECT secret FROM credential"))
    for secret in ("acme-secret", "acme-password"):
        assert secret not in events
        assert secret.encode() not in kept
    assert "supplier_added" in events


def test_a_step_says_which_line_is_in_trouble(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.rig.ask("DELETE FROM credential WHERE credential_key = 'supplier:acme'")
    lines = fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None)
    messages = [result.what for _ in range(6) if isinstance(result := lines.step(), Done)]
    assert any("acme: the supplier acme has no secrets" in what for what in messages)


def test_a_part_is_explained_on_the_line_of_its_supplier(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig(
        faults=FaultPlan(1, outage=[Interval(start_s=0, end_s=7200)])
    )
    suppliers_rig.open(ACME)
    suppliers_rig.list("a", MAIN, *SKUS, price="10")
    suppliers_rig.list("b", ACME, "P1", price="20")
    lines = fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None)
    suppliers_rig.drive(
        lines, lambda: suppliers_rig.app.breakers.load(suppliers_rig.app.limit_key).is_open
    )
    suppliers_rig.rig.make_due("P1")
    listings = explain(operator(suppliers_rig.app, "test"), Sku("P1")).listings
    assert [listing.seller for listing in listings] == ["a", "b"]
    assert "does not answer" in listings[0].explanation.sentence
    assert "does not answer" not in listings[1].explanation.sentence
    # Listings of the other supplier are not counted before it.
    assert listings[1].explanation.place == "1"


def test_a_seller_sees_the_line_of_the_own_supplier(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.list("a", MAIN, *SKUS, price="10")
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    suppliers_rig.read_all(fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None))
    own = seller_or_operator(suppliers_rig.app, "test", SellerId("b"))
    own_status = status(own)
    assert (own_status.supplier, own_status.spent.day_count) == (
        ACME,
        suppliers_rig.suppliers[ACME].calls.total(),
    )
    # Whatever a seller asks for, another's line is not shown.
    assert status(own, MAIN).supplier == ACME
    everybody = operator(suppliers_rig.app, "test")
    assert status(everybody).supplier == MAIN
    assert status(everybody, ACME).spent == own_status.spent
    with pytest.raises(NotFoundError, match="no supplier nobody"):
        status(everybody, SupplierName("nobody"))


def test_a_supplier_that_is_down_is_named(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME, faults=FaultPlan(1, outage=[Interval(start_s=0, end_s=7200)]))
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    limit_key = suppliers_rig.app.for_supplier(ACME).limit_key
    lines = fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None)
    suppliers_rig.drive(lines, lambda: suppliers_rig.app.breakers.load(limit_key).is_open)
    by_subject = {
        alert.subject: alert for alert in alerts(operator(suppliers_rig.app, "test")).alerts
    }
    assert by_subject["acme"].name == "supplier_down"
    assert by_subject["acme"].sentence.startswith("The supplier acme has not answered for")


def test_the_laws_are_asked_of_every_line(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.list("a", MAIN, *SKUS, price="10")
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    suppliers_rig.read_all(fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None))
    suppliers_rig.rig.clock.sleep(timedelta(hours=20).total_seconds())
    stale = suppliers_rig.rig.clock.now() - timedelta(hours=30)
    aged = "UPDATE product_sync_schedule SET last_successful_sync = %s WHERE user_id = 'b'"
    suppliers_rig.rig.ask(aged, stale)
    deadline = next(checked for law in LAWS if (checked := law(suppliers_rig.app)).law == "L3")
    assert (deadline.verdict, deadline.violations) == ("broken", len(SKUS))
    assert deadline.note.startswith("acme: good reads older than")


def test_limits_are_shown_by_the_names_of_their_suppliers(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    suppliers_rig.list("b", ACME, "P1", price="20")
    suppliers_rig.read_all(fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None))
    caller = operator(suppliers_rig.app, "test")
    assert {"boeing", "boeing:acme"} <= {view.name for view in limits(caller, limit=20).items}
    assert ledger(caller, name="boeing:acme", limit=5).items != ()


def test_a_name_stands_for_one_credential_for_ever(make_suppliers_rig: SuppliersRigMaker) -> None:
    suppliers_rig = make_suppliers_rig()
    suppliers_rig.open(ACME)
    setup = SupplierSetup(client_id="new-id", username="u", url="http://acme.test", secrets=SECRETS)
    for _ in range(2):  # a worker may still have the one before in mind
        with pytest.raises(ConflictError, match="under another name"):
            add_supplier(suppliers_rig.app, ACME, setup)
        if ACME in Suppliers(suppliers_rig.app.pool).names():
            remove_supplier(suppliers_rig.app, ACME)
    same = replace(setup, client_id="acme-id")
    assert add_supplier(suppliers_rig.app, ACME, same)
    assert not add_supplier(suppliers_rig.app, ACME, same)


def test_new_secrets_are_used_from_the_next_sign_in_on(
    make_suppliers_rig: SuppliersRigMaker,
) -> None:
    suppliers_rig = make_suppliers_rig()
    sign_in = suppliers_rig.open(ACME)
    suppliers_rig.list("b", ACME, *SKUS, price="20")
    setup = SupplierSetup(
        client_id=sign_in.client_id,
        username=sign_in.username,
        url="http://acme.test",
        secrets={"client_secret": "wrong", "password": sign_in.password},
    )
    add_supplier(suppliers_rig.app, ACME, setup)
    lines = fetch_all_suppliers(suppliers_rig.app, "w", wake_push=lambda: None)
    suppliers_rig.drive(lines, lambda: suppliers_rig.suppliers[ACME].calls["oauth"] > 0)
    secrets = {"client_secret": sign_in.client_secret, "password": sign_in.password}
    add_supplier(suppliers_rig.app, ACME, replace(setup, secrets=secrets))
    suppliers_rig.read_all(lines)
