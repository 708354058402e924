"""Status, page, explain, outlook and fetch give one answer to "when is the next call?"."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from headway.app.supplier_queue import queue_ahead
from headway.clock import rng
from headway.core.catalog.listings import Sku
from headway.core.timetable.policies import POLICIES
from headway.operations.callers import operator
from headway.operations.listings import explain
from headway.operations.status import look

MINUTE = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)
IN_CALL = "SELECT count(*) FROM product_sync_schedule WHERE sync_status = 'syncing'"
LAST_CALL = "SELECT max(begun_at) FROM call_ledger WHERE seats_paid IS NOT NULL"
DUE_AT = "UPDATE product_sync_schedule SET next_sync_at = %s WHERE sku = %s"
SKUS = tuple(f"P{n}=K3" for n in range(30))


def started(make_rig: Any, **settings: Any) -> tuple[Any, Any]:
    """Return 30 listings and a worker that has signed in and made a first call."""
    rig = make_rig(**settings)
    rig.add(*SKUS)
    rig.make_due(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    rig.drive(fetch, lambda: rig.one(IN_CALL) == 0)
    return rig, fetch


def next_call_of(rig: Any, fetch: Any) -> datetime:
    """Let the next call go, and return when it began."""
    rig.read(fetch)
    rig.drive(fetch, lambda: rig.one(IN_CALL) == 0)
    began: datetime = rig.one(LAST_CALL)
    return began


def explained_until(app: Any, sku: Sku) -> datetime | None:
    """Return until when `explain` says that a part waits."""
    (listing,) = explain(operator(app, "test"), sku).listings
    return listing.explanation.until


@pytest.mark.parametrize("share", (0.1, 0.6, 1.0))
@pytest.mark.parametrize("policy", POLICIES)
def test_status_explain_and_outlook_show_the_instant_at_which_fetch_makes_the_next_call(
    make_rig: Any, policy: str, share: float
) -> None:
    rig, fetch = started(make_rig, policy=policy, budget_share=share)
    random = rng(f"{policy} {share}")
    for _ in range(4):
        for sku in SKUS:
            rig.ask(DUE_AT, rig.clock.now() + random.uniform(-5, 40) * MINUTE, sku)
        call = look(rig.app).next_call
        assert call.leaves_at is not None
        assert call.seats
        skus = [seat.sku for seat in call.seats if seat.sku is not None]
        assert {explained_until(rig.app, sku) for sku in skus} == {call.leaves_at}
        foreseen = queue_ahead(rig.app, rig.clock.now(), skus).joins_call
        assert foreseen == dict.fromkeys(skus, call.leaves_at)
        assert abs(next_call_of(rig, fetch) - call.leaves_at) < MILLISECOND
