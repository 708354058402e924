"""The relay in virtual time: real store, real hands, and a broker that may lose or repeat."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.conftest import EngineRig
from tests.engine.pull_setup import make_pulls, page_of
from tests.engine.shop_setup import make_shops
from tests.engine.supplier_setup import Broker, DispatchRig

from headway.app.dispatch import dispatch_rule, new_tick_loop
from headway.core.catalog.listings import Done, Wait
from headway.core.dispatch import Subject, Verb, WorkerState
from headway.core.limits.transitions import Permit
from headway.engine.dispatch import Dispatcher, DispatchRule, Worker
from headway.errors import InvariantError, StoreError
from headway.store.dispatch import DispatchLeases
from headway_lab.virtual_clock import VirtualClock

FETCH = Subject(verb=Verb.FETCH, provider="boeing", which="1")


@pytest.fixture
def dispatch_rig(rig: EngineRig) -> DispatchRig:
    rig.add(*(f"P{number}" for number in range(30)))
    rig.make_due(*(f"P{number}" for number in range(30)))
    return DispatchRig(rig=rig, broker=Broker(rig.clock))


def unread(rig: EngineRig) -> int:
    return int(
        rig.one("SELECT count(*) FROM product_sync_schedule WHERE last_successful_sync IS NULL")
    )


def test_everything_due_is_read_within_the_limit_and_no_worker_sleeps_with_a_permit(
    dispatch_rig: DispatchRig,
) -> None:
    dispatch_rig.open("a", "b")
    took = dispatch_rig.run(lambda: unread(dispatch_rig.rig) == 0)
    supplier = dispatch_rig.rig.supplier
    assert (dispatch_rig.rig.price_calls(), supplier.refusals) == (3, 0)
    # A minute of caution, then two tokens and three calls, thirty seconds apart.
    assert took < 60 + 5 * 30
    assert dispatch_rig.rig.one("SELECT count(DISTINCT owner) FROM call_ledger") <= 2


def test_a_broker_that_loses_everything_costs_a_dispatch_lease_s_life_and_nothing_else(
    dispatch_rig: DispatchRig,
) -> None:
    dispatch_rig.open("a", "b")
    dispatch_rig.run(lambda: dispatch_rig.rig.price_calls() >= 1)
    dispatch_rig.broker.waiting.clear()
    dispatch_rig.run(lambda: unread(dispatch_rig.rig) == 0, seconds=300)
    assert dispatch_rig.rig.supplier.refusals == 0


def test_messages_that_are_delivered_twice_start_nothing_twice(dispatch_rig: DispatchRig) -> None:
    dispatch_rig.broker.copies = 3
    dispatch_rig.open("a", "b")
    dispatch_rig.run(lambda: unread(dispatch_rig.rig) == 0)
    sent = dispatch_rig.broker.sent
    assert dispatch_rig.rig.price_calls() == 3
    # One chain of messages: about one for each permit, none for the copies.
    assert sent < 20


def test_a_worker_that_must_stop_hands_its_permit_to_the_next(
    dispatch_rig: DispatchRig,
) -> None:
    rig = dispatch_rig.rig
    dispatch_rig.open("a")
    carried = "SELECT count(*) FROM dispatch_leases WHERE carried IS NOT NULL"
    dispatch_rig.run(lambda: bool(rig.one(carried)))
    (waiting,) = rig.ask("SELECT carried ->> 'id' FROM dispatch_leases WHERE carried IS NOT NULL")
    dispatch_rig.stops["a"].set()
    dispatch_rig.stops["b"] = threading.Event()
    rig.clock.spawn(dispatch_rig.worker("b"))
    dispatch_rig.run(lambda: unread(rig) == 0)
    used = rig.ask("SELECT 1 FROM call_ledger WHERE permit_id = %s", waiting[0])
    assert used, "the permit was used, not lost"


@dataclass
class Toy:
    """A hand that does what a test says."""

    does: Callable[[], Done | Wait]
    held: WorkerState | None = None

    def step(self) -> Done | Wait:
        return self.does()

    def detach(self) -> WorkerState | None:
        return self.held

    def resume(self, carried: WorkerState) -> None:
        self.held = carried


@dataclass
class DispatchSetup:
    new_dispatcher: Dispatcher
    dispatch_leases: DispatchLeases
    broker: Broker
    reports: list[tuple[str, str]]

    def message(self) -> None:
        for dispatch_lease in self.dispatch_leases.take([FETCH], life=timedelta(seconds=15)):
            self.new_dispatcher.carry(dispatch_lease)


@pytest.fixture
def make_setup(pool: ConnectionPool, clock: VirtualClock) -> Callable[[Worker], DispatchSetup]:
    def make(worker: Worker) -> DispatchSetup:
        dispatch_leases, broker, reports = (
            DispatchLeases(pool, clock),
            Broker(clock),
            list[tuple[str, str]](),
        )
        one = Dispatcher(
            clock=clock,
            dispatch_leases=dispatch_leases,
            new_worker=lambda _subject: worker,
            send=broker.send,
            rule=DispatchRule(),
            report=lambda *line: reports.append(line),
            stopping=threading.Event(),
        )
        return DispatchSetup(
            new_dispatcher=one, dispatch_leases=dispatch_leases, broker=broker, reports=reports
        )

    return make


def test_trouble_is_reported_in_one_line_and_tried_again_later(
    make_setup: Callable[[Worker], DispatchSetup], clock: VirtualClock
) -> None:
    def step() -> Wait:
        raise StoreError("the database is away")

    operations = make_setup(Toy(step))
    operations.message()
    operations.message()
    assert operations.reports == [("fetch", "the database is away")]
    clock.sleep(10)
    operations.message()
    assert len(operations.reports) == 2


def test_a_bug_is_not_swallowed(make_setup: Callable[[Worker], DispatchSetup]) -> None:
    def step() -> Wait:
        raise InvariantError("two owners")

    with pytest.raises(InvariantError, match="two owners"):
        make_setup(Toy(step)).message()


def test_a_worker_keeps_one_subject_for_a_time_and_then_queues_it_again(
    make_setup: Callable[[Worker], DispatchSetup], clock: VirtualClock
) -> None:
    def step() -> Done:
        clock.sleep(1)
        return Done(what="did it")

    operations = make_setup(Toy(step))
    operations.message()
    assert len(operations.reports) == 5
    assert operations.broker.sent == 1


def test_copies_of_a_message_do_not_become_chains_of_their_own(
    make_setup: Callable[[Worker], DispatchSetup], clock: VirtualClock
) -> None:
    permit = Permit(id="t", keys=("k",), wait_s=2, start_at=clock.now(), position=0)
    operations = make_setup(
        Toy(lambda: Wait(until=clock.now() + timedelta(seconds=2)), held=permit)
    )
    operations.broker.copies = 2
    operations.message()
    for _ in range(5):
        clock.sleep(2)
        while (dispatch_lease := operations.broker.next()) is not None:
            operations.new_dispatcher.carry(dispatch_lease)
    assert operations.broker.sent == 6


def test_a_wait_with_nothing_in_hand_is_left_to_the_tick(
    make_setup: Callable[[Worker], DispatchSetup], clock: VirtualClock
) -> None:
    operations = make_setup(Toy(lambda: Wait(until=clock.now() + timedelta(seconds=2))))
    operations.message()
    assert operations.broker.sent == 0
    assert operations.dispatch_leases.living(Verb.FETCH) == [FETCH]
    clock.sleep(2)
    assert operations.dispatch_leases.living(Verb.FETCH) == []


def test_one_worker_ticks_for_all_and_another_when_it_falls_silent(
    dispatch_rig: DispatchRig,
) -> None:
    app, clock = dispatch_rig.rig.app, dispatch_rig.rig.clock
    first, second = (
        new_tick_loop(app, send=dispatch_rig.broker.send, rule=dispatch_rule(app)) for _ in range(2)
    )
    assert first.step().why == "next round"
    assert second.step().why == "another worker ticks"
    clock.sleep(5)
    assert second.step().why == "next round"
    assert first.step().why == "another worker ticks"
    second.give_way()
    assert first.step().why == "next round"


def test_a_job_half_read_goes_on_in_another_hand_where_it_was(pool: ConnectionPool) -> None:
    pulls = make_pulls(pool)
    pulls.rows.add("a")
    pulls.script.answers = [page_of("1", more=True), page_of("2", more=True), page_of("3")]
    first, second = pulls.worker("a"), pulls.worker("b")
    pulls.drive("1 rows", first)
    carried = first.detach()
    assert carried is not None
    second.resume(carried)
    pulls.drive("done", second)
    assert [ask.values["page"] for _, ask in pulls.script.asks] == [1, 2, 3]
    assert first.detach() is None


def test_a_job_that_was_rescued_meanwhile_is_not_gone_on_with(pool: ConnectionPool) -> None:
    pulls = make_pulls(pool)
    pulls.rows.add("a")
    first, second = pulls.worker("a"), pulls.worker("b")
    first.step()
    carried = first.detach()
    assert carried is not None
    pulls.rows.jobs.rescue(pulls.rows.clock.now() + timedelta(hours=1))
    second.resume(carried)
    assert second.detach() is None


@pytest.mark.parametrize("is_ours", (True, False))
def test_a_job_s_permit_lapses_where_nobody_opened_its_account(
    pool: ConnectionPool, *, is_ours: bool
) -> None:
    pulls = make_pulls(pool)
    pulls.rows.add("a")
    first, second = pulls.worker("a"), pulls.worker("b")
    first.step()
    carried = first.detach()
    assert carried is not None
    if not is_ours:
        pulls.rows.jobs.rescue(pulls.rows.clock.now() + timedelta(hours=1))
    second.resume(replace(carried, permit=foreign_permit(pulls.rows.clock)))
    second.give_back()
    assert second.detach() is None


def test_a_job_claimed_under_another_key_is_given_back_at_once(pool: ConnectionPool) -> None:
    pulls = make_pulls(pool)
    pulls.rows.add("a")
    first, second = pulls.worker("a"), pulls.worker("b")
    first.step()
    carried = first.detach()
    assert carried is not None
    second.resume(replace(carried, day=foreign_permit(pulls.rows.clock)))
    assert second.detach() is None
    pulls.drive("done", second)


def test_a_permit_for_a_supplier_under_another_name_lapses_by_itself(rig: EngineRig) -> None:
    fetch = rig.app.fetch("a")
    fetch.resume(foreign_permit(rig.clock))
    assert fetch.detach() is None


def test_a_permit_for_a_shop_that_nobody_opened_here_lapses_by_itself(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    push = shops.app.push("a", only=shops.one("SELECT id::text FROM connected_accounts LIMIT 1"))
    push.resume(foreign_permit(shops.clock))
    shops.drive(push)
    push.resume(foreign_permit(shops.clock))
    shops.ask(
        "UPDATE connected_accounts SET locations = '{}', locations_at = %s, channels = '{}',"
        " channels_at = %s",
        clock.now(),
        clock.now(),
    )
    assert isinstance(push.step(), Wait)
    assert push.detach() is None


def foreign_permit(clock: VirtualClock) -> Permit:
    """Return a permit of a limit that only another process knows."""
    keys = ("shopify:other:elsewhere.myshopify.com",)
    return Permit(id="1", keys=keys, wait_s=1, start_at=clock.now(), position=1)
