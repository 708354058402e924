"""A person pauses: fetch, push and pull stop where they must, go on later, and lose nothing."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.pull_setup import make_pulls, page_of
from tests.engine.shop_setup import make_shops, wanted

from headway.app.supplier_queue import supplier_queue
from headway.core.catalog.listings import SellerId, Sku, Wait
from headway.core.pauses import Pause, PauseKind
from headway.core.reasons import ListingState
from headway.engine.explain import in_shop, reasons
from headway.store.pauses import Pauses
from headway.store.timetable.positions import ListingPositions
from headway.store.timetable.triggers import Triggers
from headway_lab.virtual_clock import VirtualClock

HOUR = timedelta(hours=1)
SKUS = tuple(f"P{n}" for n in range(10))
ALL, SUPPLIER, SELLER, LISTING = PauseKind
EVERYBODYS = (ALL, SUPPLIER)
POLICIES = ("rolling", "adaptive")


def pause(where: Any, kind: PauseKind, seller: str = "", sku: str = "", **rest: Any) -> None:
    now = where.clock.now()
    of = {"seller": SellerId(seller) if seller else None, "sku": Sku(sku) if sku else None}
    paused = Pause(kind=kind, since=now, actor="Ada", reason="stock-taking", **of, **rest)
    Pauses(where.pool).pause(paused, now)


def resume(where: Any, kind: PauseKind, seller: str = "", sku: str = "") -> None:
    of = (SellerId(seller) if seller else None, Sku(sku) if sku else None)
    assert Pauses(where.pool).resume(kind, *of, now=where.clock.now()).is_done


def for_an_hour(rig: Any, fetch: Any) -> None:
    until = rig.clock.monotonic() + 3600
    rig.drive(fetch, lambda: rig.clock.monotonic() > until)


def answer(rig: Any, sku: str) -> Any:
    now = rig.clock.now()
    (standing,) = ListingPositions(rig.pool).of_sku(Sku(sku), now)
    return reasons(standing, supplier_queue(rig.app, now), now)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", EVERYBODYS)
def test_no_call_leaves_while_everything_or_the_supplier_is_paused_and_then_they_do(
    make_rig: Any, kind: PauseKind, policy: str
) -> None:
    rig = make_rig(policy=policy)
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    rig.drive(fetch, lambda: rig.one("SELECT count(*) FROM listing_state") == 10)
    pause(rig, kind)
    rig.make_due(*SKUS)
    calls, permits = rig.supplier.calls.copy(), "SELECT count(*) FROM call_ledger"
    for_an_hour(rig, fetch)
    spent = rig.one(permits + " WHERE status <> 'unsent'")
    assert rig.supplier.calls == calls, "and no worker signed in again"
    assert rig.one(permits) <= spent + 1, "the one permit that was asked for before"
    assert rig.one("SELECT count(*) FROM product_sync_schedule WHERE lease_owner <> ''") == 0
    assert answer(rig, "P1").state is ListingState.PAUSED
    resume(rig, kind)
    rig.read(fetch)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_worker_that_starts_in_a_pause_neither_metrics_in_nor_takes_more_than_one_permit(
    make_rig: Any, policy: str
) -> None:
    rig = make_rig(policy=policy)
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    pause(rig, ALL, until=rig.clock.now() + HOUR)
    fetch = rig.app.fetch("w1")
    for_an_hour(rig, fetch)
    assert rig.one("SELECT count(*) FROM call_ledger WHERE status <> 'unsent'") == 0
    assert rig.one("SELECT count(*) FROM call_ledger") <= 1
    rig.read(fetch)


def test_the_seats_of_a_paused_seller_go_to_others_and_a_shared_part_is_read_for_them(
    rig: Any,
) -> None:
    rig.add(*SKUS, seller="a")
    rig.add("P0", "P1", seller="b")
    rig.make_due(*SKUS, priority="manual")
    pause(rig, SELLER, "a")
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    rig.drive(fetch, lambda: rig.one("SELECT count(*) FROM listing_state") == 2)
    assert rig.ask("SELECT DISTINCT user_id FROM listing_state") == [("b",)]
    assert rig.one("SELECT cardinality(skus) FROM call_ledger WHERE cardinality(skus) > 0") == 2


def test_a_pause_that_runs_out_ends_by_itself_with_the_next_round(rig: Any) -> None:
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    pause(rig, SELLER, "a", until=rig.clock.now() + HOUR)
    fetch, tick = rig.app.fetch("w1"), rig.app.tick()
    tick.step()
    for_an_hour(rig, fetch)
    assert rig.price_calls() == 0
    assert answer(rig, "P1").until > rig.clock.now(), "the round that lets it go on"
    again = tick.step()
    assert again.until - rig.clock.now() <= timedelta(seconds=1), "there was something to unmark"
    rig.read(fetch)


def test_a_listing_in_call_when_the_pause_comes_is_settled_and_its_push_waits(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    for sku in ("A-1", "A-2"):
        shops.list(sku)
    pause(shops, LISTING, "acme", "A-1")
    for sku in ("A-1", "A-2"):
        shops.want(sku, wanted("12.10", 5))
    push = shops.push()
    shops.drive(push, lambda: shops.shown("A-2").price == Decimal("12.10"))
    shops.drive(push, lambda: shops.one("SELECT channels_at FROM connected_accounts"))
    quiet_from = clock.monotonic() + 60
    permits = shops.one("SELECT count(*) FROM call_ledger")
    shops.drive(push, lambda: clock.monotonic() > quiet_from)
    assert shops.one("SELECT count(*) FROM call_ledger") == permits, "nobody asks to call for it"
    assert shops.shown("A-1").price == Decimal("11.00")
    now = clock.now()
    (standing,) = ListingPositions(pool).of_sku(Sku("A-1"), now)
    assert "A-1 of acme is paused by Ada" in in_shop(standing, now)
    resume(shops, LISTING, "acme", "A-1")
    shops.drive(push)
    assert shops.shown("A-1").price == Decimal("12.10")


@pytest.mark.parametrize("kind", (ALL, SELLER))
def test_a_paused_shop_is_left_alone_with_its_changes_drift_checks_and_places(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, kind: PauseKind
) -> None:
    shops = make_shops(pool, clock, tmp_path, sellers=("acme", "bolt"))
    for seller in ("acme", "bolt"):
        shops.list("A-1", seller=seller)
        shops.want("A-1", wanted("12.10", 5), seller=seller)
    pause(shops, kind, "acme" if kind is SELLER else "")
    push = shops.push()
    over = clock.monotonic() + 25 * 3600
    push_poll = timedelta(minutes=10)
    while clock.monotonic() < over:
        if isinstance(push.step(), Wait):
            clock.sleep(push_poll.total_seconds())
    assert shops.one("SELECT count(*) FROM connected_accounts WHERE push_fence > 0") == (
        kind is SELLER
    )
    assert shops.shown("A-1", "acme").price == Decimal("11.00")
    others = Decimal("11.00" if kind is ALL else "12.10")
    assert shops.shown("A-1", "bolt").price == others
    resume(shops, kind, "acme" if kind is SELLER else "")
    shops.drive(push)
    assert shops.shown("A-1", "acme").price == Decimal("12.10")


def test_what_is_known_still_reaches_the_shops_while_the_supplier_is_paused(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path)
    shops.list("A-1")
    shops.want("A-1", wanted("12.10", 5))
    pause(shops, SUPPLIER)
    shops.drive(shops.push())
    assert shops.shown("A-1").price == Decimal("12.10")


def test_prices_that_would_go_in_bulk_leave_the_paused_ones_behind(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    shops = make_shops(pool, clock, tmp_path, bulk_from=5)
    names = [f"A-{n}" for n in range(12)]
    for sku in names:
        shops.list(sku)
        shops.want(sku, wanted("12.10", 5))
    pause(shops, LISTING, "acme", "A-3")
    shops.drive(shops.push(), lambda: shops.shown("A-11").price == Decimal("12.10"))
    assert shops.shown("A-3").price == Decimal("11.00")
    assert shops.one("SELECT count(*) FROM push_intent WHERE 'A-3' = ANY (skus)") == 0


@pytest.mark.parametrize("kind", (ALL, SELLER))
def test_a_run_under_way_yields_at_its_next_page_and_goes_on_there(
    pool: ConnectionPool, kind: PauseKind
) -> None:
    pulls = make_pulls(pool)
    pulls.rows.add("a", tier="starter")
    subject = "a" if kind is SELLER else ""

    def stop() -> Any:
        pause(pulls.rows, kind, subject)
        return page_of("2", more=True)

    pulls.script.answers = [page_of("1", more=True), stop, page_of("3")]
    pulls.drive("paused")
    assert pulls.rows.ask("SELECT external_id FROM orders ORDER BY 1") == [("1",), ("2",)]
    assert pulls.rows.day() == (2, 0), "what was reserved of the day is free again"
    assert isinstance(pulls.pull.step(), Wait)
    assert len(pulls.script.asks) == 2
    resume(pulls.rows, kind, subject)
    pulls.drive("done")
    assert [ask.values["page"] for _, ask in pulls.script.asks] == [1, 2, 3]


def test_the_jobs_of_a_paused_seller_let_others_go_first(pool: ConnectionPool) -> None:
    pulls = make_pulls(pool)
    pulls.rows.add("a", tier="pro")
    pulls.rows.add("b", tier="free")
    pause(pulls.rows, SELLER, "a")
    pulls.drive("done")
    assert isinstance(pulls.pull.step(), Wait)
    assert pulls.rows.ask("SELECT user_id FROM sync_jobs WHERE status = 'completed'") == [("b",)]


def test_a_triggered_part_joins_call_the_next_call_and_asking_again_changes_nothing(
    rig: Any,
) -> None:
    rig.add(*SKUS)
    triggers = Triggers(rig.pool)

    def trigger(*skus: str) -> list[tuple[bool, str]]:
        now = rig.clock.now()
        results = triggers.trigger(SellerId("a"), [*map(Sku, skus)], reason="a call", now=now)
        return [(result.is_done, result.message) for result in results]

    assert trigger("P3") == [(True, "is in the next call")]
    assert trigger("P3") == [(False, "is in the next call")]
    assert rig.ask(
        "SELECT sku, error_message FROM sync_audit_log WHERE event_type = 'sync_triggered'"
    ) == [("P3", "a call")]
    rig.ask(
        "UPDATE product_sync_schedule SET sync_status = 'parked', is_active = false"
        " WHERE sku = 'P4'"
    )
    assert trigger("P4") == [(False, "parked; revive it")]
    rig.app.schedule.claim(
        [Sku("P5")], now=rig.clock.now(), owner="w9", lease_until=rig.clock.now() + HOUR
    )
    assert trigger("P5") == [(False, "is in a call now")]
    pause(rig, LISTING, "a", "P6")
    ((is_done, message),) = trigger("P6")
    assert is_done
    assert message.startswith(
        "paused by Ada since 00:00:00 UTC until somebody resumes: stock-taking"
    )
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    rig.drive(fetch, lambda: rig.one("SELECT count(*) FROM listing_state") > 0)
    assert rig.one(
        "SELECT 'P3' = ANY (skus) AND NOT 'P6' = ANY (skus) FROM call_ledger"
        " WHERE cardinality(skus) > 0"
    )
    resume(rig, LISTING, "a", "P6")
    assert answer(rig, "P6").state is not ListingState.PAUSED
