"""The document's edge case on the real engine: a hundred products of slot 10 fail at once."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.conftest import START
from tests.engine.conftest import EngineRig, RigMaker

from headway.app.supplier_queue import supplier_queue
from headway.core.catalog.listings import Priority, Wait
from headway.engine.explain import reasons
from headway.engine.fetch import Fetch
from headway.engine.tick import Tick
from headway.store.timetable.positions import ListingPositions

HOUR = timedelta(hours=1)
SKUS = [f"P{number:03}" for number in range(208)]
WAITING = "SELECT count(*) FROM product_sync_schedule WHERE priority = 'retry' AND is_active"
NEXT_IN_LINE = """
SELECT sku FROM product_sync_schedule WHERE priority = 'retry' AND is_active
ORDER BY consecutive_failures, last_sync_at, next_sync_at LIMIT 50
"""


@pytest.fixture
def rig(make_rig: RigMaker) -> EngineRig:
    """Stock slot 10 with 208 products, of which the supplier does not know a hundred any more."""
    rig = make_rig(policy="split")
    rig.add(*SKUS)
    rig.ask(
        "UPDATE product_sync_schedule SET hour_bucket = 10,"
        " next_sync_at = %s + (next_sync_at - date_trunc('hour', next_sync_at))",
        START + 10 * HOUR,
    )
    for sku in SKUS[:100]:
        del rig.catalog.parts[sku]
    return rig


def live(rig: EngineRig, fetch: Fetch, tick: Tick, until_h: float) -> None:
    """Let fetch and tick work until that hour."""
    end, tick_at = START + until_h * HOUR, rig.clock.now()
    while (now := rig.clock.now()) < end:
        if now >= tick_at:
            tick_at = tick.step().until
        result = fetch.step()
        if isinstance(result, Wait):
            wake_at = min(result.until, tick_at, end)
            rig.clock.sleep(max(0.0, (wake_at - rig.clock.now()).total_seconds()))


def test_a_hundred_failures_go_through_the_windows_as_the_document_walks_them(
    rig: EngineRig,
) -> None:
    fetch, tick = rig.app.fetch("w"), replace(rig.app, tick_every=timedelta(minutes=5)).tick()
    live(rig, fetch, tick, 10.4)
    assert rig.price_calls() == 21
    assert rig.one(WAITING) == 100
    left = []
    for opens_h, recovered in ((10.5, 40), (14.5, 45), (18.5, 12), (22.5, 2), (26.5, 0)):
        live(rig, fetch, tick, opens_h - 0.05)
        calls = rig.price_calls()
        seat_rule = [sku for (sku,) in rig.ask(NEXT_IN_LINE)]
        for sku in seat_rule[:recovered]:
            rig.catalog.stock(sku)
        live(rig, fetch, tick, opens_h + 0.4)
        in_call = "SELECT sku FROM product_sync_schedule WHERE retried_at >= %s"
        in_window = {sku for (sku,) in rig.ask(in_call, START + opens_h * HOUR)}
        # Those who failed in one call are equals: any of them may be the last to find a seat.
        assert len(in_window) == len(seat_rule)
        assert in_window >= set(seat_rule[:recovered])
        assert rig.price_calls() - calls <= 5
        left.append(rig.one(WAITING))
    assert left == [60, 15, 3, 1, 0]
    parked = "SELECT count(*), max(consecutive_failures) FROM product_sync_schedule"
    assert rig.ask(f"{parked} WHERE NOT is_active") == [(1, 5)]
    slots = "SELECT count(*) FROM product_sync_schedule WHERE is_active AND hour_bucket = 10"
    assert rig.one(slots) == 207


def test_a_part_that_two_sellers_list_takes_one_seat_of_the_window(make_rig: RigMaker) -> None:
    rig = make_rig(policy="split")
    for seller in ("a", "b"):
        rig.add("GONE", *SKUS[:20], seller=seller)
    del rig.catalog.parts["GONE"]
    rig.ask("UPDATE product_sync_schedule SET priority = 'retry' WHERE sku = 'GONE'")
    rig.make_due("GONE", priority="retry")
    live(rig, rig.app.fetch("w"), replace(rig.app, tick_every=timedelta(minutes=5)).tick(), 1)
    assert rig.one("SELECT count(*) FROM product_sync_schedule WHERE retried_at IS NOT NULL") == 2
    assert rig.app.schedule.retried_since(START) == 1


def test_a_retry_without_a_seat_in_a_window_shows_when_the_next_one_opens(rig: EngineRig) -> None:
    fetch, tick = rig.app.fetch("w"), replace(rig.app, tick_every=timedelta(minutes=5)).tick()
    live(rig, fetch, tick, 10.9)
    now = rig.clock.now()
    waiting = [
        listing
        for listing in ListingPositions(rig.pool).sample(now)
        if listing.priority is Priority.RETRY
    ]
    explanations = {
        waiter.sku: reasons(waiter, supplier_queue(rig.app, now), now)
        for waiter in waiting
        if waiter.next_sync_at <= now
    }
    assert explanations
    assert {explanation.until for explanation in explanations.values()} == {START + 14.5 * HOUR}
    assert all(
        "no seat left for retries" in explanation.sentence for explanation in explanations.values()
    )
