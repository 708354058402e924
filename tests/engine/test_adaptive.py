"""The adaptive policy on a whole line: it spends every permit, learns, sweeps and guards."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from headway.app.supplier_queue import supplier_queue
from headway.core.catalog.listings import Wait
from headway.core.timetable.market import initial_price
from headway.core.timetable.next_call import NextCallReason, next_call
from headway_lab.simulators.faults import FaultPlan, Interval

HOUR = timedelta(hours=1)
IN_CALL = "SELECT count(*) FROM product_sync_schedule WHERE sync_status = 'syncing'"
SKUS = tuple(f"P{n}=K3" for n in range(30))


@pytest.fixture
def rig(make_rig: Any) -> Any:
    return make_rig(policy="adaptive", seat_value_s=0)


def all_read(rig: Any, fetch: Any, calls: int) -> None:
    """Let so many calls go, and the last of them be settled."""
    rig.read(fetch, calls)
    rig.drive(fetch, lambda: rig.one(IN_CALL) == 0)


def read_since(rig: Any, since: datetime) -> set[str]:
    rows = rig.ask("SELECT sku FROM product_sync_schedule WHERE last_successful_sync > %s", since)
    return {sku for (sku,) in rows}


def test_a_call_leaves_at_every_permit_though_nobody_is_due(rig: Any) -> None:
    rig.add(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    rig.read(fetch, 3)
    rig.ask("UPDATE product_sync_schedule SET next_sync_at = next_sync_at + interval '9 h'")
    began = rig.clock.now()
    rig.read(fetch, 4)
    assert rig.clock.now() - began < timedelta(minutes=2, seconds=20)
    assert rig.supplier.refusals == 0


def test_a_small_catalog_leaves_most_calls_to_others(make_rig: Any) -> None:
    rig = make_rig(policy="adaptive")
    rig.add(*SKUS[:12])
    fetch = rig.app.fetch("w1")
    rig.drive(fetch, lambda: rig.clock.monotonic() > 3600)  # each part is placed and read once
    calls, began = rig.price_calls(), rig.clock.monotonic()
    rig.drive(fetch, lambda: rig.clock.monotonic() > began + 3 * 3600)
    assert 20 <= rig.price_calls() - calls <= 45, "of 360 that the limit allows"

    def next_reason() -> NextCallReason:
        return next_call(supplier_queue(rig.app, rig.clock.now()), rig.clock.now()).why

    rig.drive(fetch, lambda: next_reason() is NextCallReason.WORTH)
    oldest = rig.one("SELECT min(last_successful_sync) FROM product_sync_schedule")
    assert rig.clock.now() - oldest < timedelta(minutes=25)


def test_an_urgent_part_does_not_wait_until_a_call_is_worth_it(make_rig: Any) -> None:
    rig = make_rig(policy="adaptive")
    rig.add(*SKUS[:12])
    fetch = rig.app.fetch("w1")
    rig.drive(fetch, lambda: rig.clock.monotonic() > 3600)
    rig.make_due(SKUS[3], priority="manual")
    began = rig.clock.now()
    rig.read(fetch)
    assert rig.clock.now() - began < timedelta(minutes=2)


def refuse_calls(rig: Any, *skus: str) -> None:
    rig.ask(
        "INSERT INTO call_ledger (permit_id, limit_key, owner, cost, status, begun_at,"
        " lease_until, http_status, skus) VALUES (gen_random_uuid(), %s, 'w', 1, 'sent', %s, %s,"
        " 429, %s)",
        rig.app.limit_key, rig.clock.now(), rig.clock.now(), list(skus),
    )  # fmt: skip


def test_a_refusal_that_nothing_explains_halves_the_share_until_six_hours_were_calm(
    rig: Any,
) -> None:
    rig.add(*SKUS)
    fetch = rig.app.fetch("w1")
    rig.drive(fetch, lambda: rig.clock.monotonic() > 1200)
    refuse_calls(rig, *SKUS[:10])
    assert rig.app.markets.load((), rig.clock.now()).share == 1, "a part may be to blame"
    all_read(rig, fetch, 8)
    assert rig.app.markets.load((), rig.clock.now()).share == 0.5
    began, calls = rig.clock.now(), rig.price_calls()
    rig.drive(fetch, lambda: rig.clock.now() - began > HOUR)
    assert 55 <= rig.price_calls() - calls <= 61
    assert supplier_queue(rig.app, rig.clock.now()).pace == timedelta(minutes=1)
    assert rig.app.markets.load((), began + 6 * HOUR).share == 1


def test_room_for_others_never_costs_a_deadline(rig: Any) -> None:
    rig.add(*SKUS)
    all_read(rig, rig.app.fetch("w1"), 4)
    for _ in range(3):
        refuse_calls(rig)
        rig.clock.sleep(3600)
    assert rig.app.markets.load((), rig.clock.now()).share == 0.125
    rig.ask("UPDATE market SET listings = 20000")
    assert rig.app.markets.load((), rig.clock.now()).share > 0.8


def test_the_next_permit_is_reserved_with_the_end_of_a_call_and_lapses_with_its_holder(
    rig: Any,
) -> None:
    rig.add(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    (call,) = rig.ask("SELECT status FROM call_ledger WHERE seats_paid IS NOT NULL")
    assert call == ("sent",)
    (waiting,) = rig.ask("SELECT jsonb_array_length(state -> 'waiting') FROM limiter")
    assert waiting == (1,)
    rig.read(rig.app.fetch("w2"))  # w1 is gone, and the limiter does not know it
    assert rig.supplier.refusals == 0


def test_nobody_metrics_in_at_the_supplier_as_long_as_nothing_is_listed(rig: Any) -> None:
    fetch = rig.app.fetch("w1")
    rig.drive(fetch, lambda: rig.clock.monotonic() > 1800)
    assert not +rig.supplier.calls
    rig.add(SKUS[0])
    rig.read(fetch)


def test_a_share_of_the_budget_paces_the_calls_and_an_urgent_one_goes_at_once(
    make_rig: Any,
) -> None:
    rig = make_rig(policy="adaptive", budget_share=0.1)
    rig.add(*SKUS)
    fetch = rig.app.fetch("w1")
    all_read(rig, fetch, 1)
    began = rig.clock.now()
    rig.read(fetch, 3)
    assert timedelta(minutes=14) < rig.clock.now() - began < timedelta(minutes=17)
    rig.make_due(SKUS[3], priority="manual")
    began = rig.clock.now()
    rig.read(fetch)
    assert rig.clock.now() - began < timedelta(minutes=2)


def test_a_waiting_worker_gets_the_pace_of_the_share(make_rig: Any) -> None:
    rig = make_rig(policy="adaptive", budget_share=0.1)
    assert supplier_queue(rig.app, rig.clock.now()).pace == timedelta(minutes=5)


def test_several_workers_together_spend_no_more_than_their_share_of_the_budget(
    make_rig: Any,
) -> None:
    rig = make_rig(policy="adaptive", budget_share=0.5, seat_value_s=0)
    rig.add(*SKUS)
    workers = [rig.app.fetch(f"w{n}") for n in range(3)]
    all_read(rig, workers[0], 1)
    queue = [(rig.clock.now(), fetch) for fetch in workers]
    calls, began = rig.price_calls(), rig.clock.now()
    while rig.clock.now() - began < HOUR / 2:
        wakes_at, fetch = queue.pop(0)
        rig.clock.sleep(max(0.0, (wakes_at - rig.clock.now()).total_seconds()))
        result = fetch.step()
        wakes_at = result.until if isinstance(result, Wait) else rig.clock.now()
        # After those that wake at the same instant: all of them check before one of them calls.
        queue = sorted([*queue, (wakes_at, fetch)], key=lambda entry: entry[0])
    assert 25 <= rig.price_calls() - calls <= 31


def test_a_clock_that_was_ahead_for_a_while_does_not_stop_the_line(make_rig: Any) -> None:
    rig = make_rig(policy="adaptive", budget_share=0.5, seat_value_s=0)
    rig.add(*SKUS)
    fetch = rig.app.fetch("w1")
    all_read(rig, fetch, 1)
    rig.ask("UPDATE market SET updated_at = %s", rig.clock.now() + 24 * HOUR)
    began = rig.clock.now()
    all_read(rig, fetch, 2)
    assert rig.clock.now() - began < timedelta(minutes=4)
    assert rig.one("SELECT updated_at FROM market") <= rig.clock.now()


def test_a_part_that_changes_is_looked_at_sooner_than_one_that_does_not(rig: Any) -> None:
    rig.add(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    all_read(rig, fetch, 1)
    rig.ask("UPDATE market SET listings = 5000, log_price = 1")
    for price in range(11, 16):
        rig.catalog.stock(SKUS[0], price=str(price))
        all_read(rig, fetch, 1)
    rows = dict(
        rig.ask("SELECT sku, next_sync_at - last_successful_sync FROM product_sync_schedule")
    )
    assert rows[SKUS[0]] < min(gap for sku, gap in rows.items() if sku != SKUS[0]) / 2
    changes_seen = rig.one("SELECT changes_seen FROM product_sync_schedule WHERE sku = %s", SKUS[0])
    assert changes_seen > 3
    others = "SELECT max(changes_seen) FROM product_sync_schedule WHERE sku <> %s"
    assert rig.one(others, SKUS[0]) == 0


def test_what_the_shop_would_not_show_is_no_change(rig: Any) -> None:
    rig.add(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    all_read(rig, fetch, 1)
    part = rig.catalog.parts[SKUS[0]]
    rig.catalog.parts[SKUS[0]] = type(part)(
        sku=part.sku,
        list_price=part.list_price,
        net_price=part.net_price,
        stock={**part.stock, "Germany CSC": 900},
    )
    all_read(rig, fetch, 1)
    assert rig.one("SELECT sum(changes_seen) FROM product_sync_schedule") == 0
    assert rig.one("SELECT min(watched_days) FROM product_sync_schedule") > 0


def test_a_failed_call_teaches_nothing(make_rig: Any) -> None:
    outage = FaultPlan(1, outage=(Interval(start_s=200.0, end_s=3600.0),))
    rig = make_rig(policy="adaptive", faults=outage)
    rig.add(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    rig.drive(fetch, lambda: rig.clock.monotonic() > 200 and rig.one(IN_CALL) == 0)
    before = rig.ask("SELECT * FROM market")
    watched = rig.ask("SELECT sku, watched_days FROM product_sync_schedule ORDER BY sku")
    rig.drive(fetch, lambda: rig.clock.monotonic() > 1800)
    assert rig.ask("SELECT sku, watched_days FROM product_sync_schedule ORDER BY sku") == watched
    assert rig.ask("SELECT * FROM market") == before


def test_the_guard_lets_the_oldest_join_call_first_when_too_many_would_pass_the_deadline(
    rig: Any,
) -> None:
    rig.add(*SKUS)
    tick, now = rig.app.tick(), rig.clock.now()
    rig.ask(
        "UPDATE product_sync_schedule SET next_sync_at = %s, last_successful_sync = %s",
        now + 9 * HOUR,
        now - HOUR,
    )
    tick.step()
    early = "SELECT sku FROM product_sync_schedule WHERE next_sync_at <= last_successful_sync"
    assert rig.ask(early) == [], "nobody is near the deadline"
    rig.ask(
        "UPDATE product_sync_schedule SET last_successful_sync = %s WHERE sku = ANY(%s)",
        now - 21.99 * HOUR,
        list(SKUS[7:12]),
    )
    rig.clock.sleep(700)
    assert isinstance(tick.step(), Wait)
    assert {sku for (sku,) in rig.ask(early)} >= set(SKUS[7:12])


def test_a_maker_named_by_the_supplier_becomes_the_family_of_a_part_that_has_none(
    rig: Any,
) -> None:
    rig.add(*SKUS[:10])
    for sku in SKUS[:10]:
        rig.catalog.parts[sku] = replace(rig.catalog.parts[sku], family="ACME")
    rig.ask("UPDATE product_sync_schedule SET family = 'own list' WHERE sku = %s", SKUS[0])
    fetch = rig.app.fetch("w1")
    all_read(rig, fetch, 1)
    families = dict(rig.ask("SELECT sku, family FROM product_sync_schedule"))
    assert families.pop(SKUS[0]) == "own list"
    assert set(families.values()) == {"ACME"}


def test_the_lateness_of_the_queue_is_measured_by_the_listing_a_part_is_read_for(rig: Any) -> None:
    rig.add(*SKUS[:10])
    rig.add(*SKUS[:10], seller="b")
    fetch = rig.app.fetch("w1")
    all_read(rig, fetch, 1)
    now = rig.clock.now()
    rig.ask("UPDATE market SET listings = 5000, log_price = 1, updated_at = %s", now)
    due = "UPDATE product_sync_schedule SET next_sync_at = %s WHERE user_id = %s"
    for early, late in ("ab", "ba"):
        rig.ask("UPDATE product_sync_schedule SET last_successful_sync = %s", now - 9 * HOUR)
        rig.ask(due, now, early)
        rig.ask(due, now + 9 * HOUR, late)
        before = rig.one("SELECT log_price FROM market")
        all_read(rig, fetch, 1)
        assert rig.one("SELECT log_price FROM market") > before, "it was read late"


def test_a_first_read_for_another_seller_is_no_change_of_the_part(rig: Any) -> None:
    rig.add(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    all_read(rig, fetch, 1)
    rig.add(*SKUS[:10], seller="b")
    rig.ask("UPDATE product_sync_schedule SET family = 'ACME'")
    all_read(rig, fetch, 1)
    assert rig.one("SELECT count(*) FROM product_sync_schedule WHERE changes_seen > 0") == 0
    assert rig.ask("SELECT name FROM family") == []


def test_urgent_listings_fill_a_call_though_the_queue_is_late(rig: Any) -> None:
    rig.add(*SKUS)
    now, fetch = rig.clock.now(), rig.app.fetch("w1")
    overdue = "UPDATE product_sync_schedule SET last_successful_sync = %s, next_sync_at = %s"
    rig.ask(overdue, now - 9 * HOUR, now - HOUR / 2)
    urgent = SKUS[10:20]
    rig.make_due(*urgent, priority="onboarding")
    all_read(rig, fetch, 1)
    assert read_since(rig, now) == set(urgent)


def test_many_urgent_listings_leave_the_seats_to_those_near_their_deadline(
    rig: Any,
) -> None:
    rig.add(*SKUS)
    now, fetch = rig.clock.now(), rig.app.fetch("w1")
    aged = "UPDATE product_sync_schedule SET last_successful_sync = %s, next_sync_at = %s"
    rig.ask(aged, now - 22 * HOUR, now)
    rig.make_due(*SKUS[10:], priority="onboarding")
    rig.app.tick().step()
    all_read(rig, fetch, 1)
    assert len(read_since(rig, now) & set(SKUS[:10])) == 8


def test_an_import_into_an_empty_catalog_is_priced_within_minutes(rig: Any) -> None:
    tick, fetch = rig.app.tick(), rig.app.fetch("w1")
    tick.step()
    rig.add(*(f"Q{n:04}" for n in range(1000)))
    rig.drive(fetch, lambda: rig.clock.monotonic() > 601)
    tick.step()
    market = rig.app.markets.load((), rig.clock.now())
    assert market.listings == 1000
    assert market.going_price == initial_price(1000, market.seats_per_min, market.prior)
