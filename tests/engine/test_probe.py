"""A probe of the supplier: one call in the ledger, nothing changed, everything shown."""

from collections.abc import Callable
from typing import Any

import pytest

from headway.core.catalog.listings import MAIN, Sku
from headway.core.pauses import Pause, PauseKind
from headway.errors import ConflictError
from headway.operations.callers import operator
from headway.operations.probe import ProbeBody, probe_supplier
from headway_lab.simulators.faults import Contradiction, FaultPlan, Interval, Poison

SKUS = [Sku("P1=K3"), Sku("P2=K3"), Sku("NOSUCH")]
FOREVER = Interval(start_s=0, end_s=10**9)


def probe(rig: Any) -> Any:
    return probe_supplier(operator(rig.app, "ann"), MAIN, ProbeBody(skus=SKUS))


def test_a_probe_is_one_call_of_the_ledger_and_changes_no_listing(rig: Any) -> None:
    rig.add(*SKUS[:2])
    rig.supplier.faults = FaultPlan(
        contradict={SKUS[1]: (Contradiction.STATUS, FOREVER)},
        renames={"Miami FL": ("Miami Florida", FOREVER)},
    )
    rows = "SELECT * FROM product_sync_schedule ORDER BY sku"
    before = rig.ask(rows)
    good, doubtful, missing = probe(rig).items
    assert rig.ask(rows) == before
    assert rig.one("SELECT count(*) FROM listing_state WHERE observed IS NOT NULL") == 0
    calls = "SELECT result, skus FROM call_ledger WHERE purpose = 'probe' AND result = 'ok'"
    assert rig.ask(calls) == [("ok", SKUS)]
    assert rig.price_calls() == 1
    assert rig.supplier.max_calls_in_window <= 2
    assert good.raw["aviallPartNumber"] == "P1=K3"
    assert (good.understood["list_price"], good.understood["unit"]) == ("10", "EA")
    assert (good.unknown_locations, good.contradictions) == (("Miami Florida",), ())
    assert good.unknown_fields == ()
    assert doubtful.contradictions == (
        "the supplier reports an error beside the price: status ERROR",
    )
    assert missing.problem == "not in the supplier's reply"


def test_a_pause_of_the_supplier_refuses_a_probe(rig: Any) -> None:
    now = rig.clock.now()
    rig.app.pauses.pause(Pause(kind=PauseKind.ALL, since=now), now)
    with pytest.raises(ConflictError, match="resume"):
        probe(rig)
    assert not rig.supplier.calls


def test_a_probe_beyond_the_daily_ceiling_is_refused_and_not_sent(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig(boeing_day_limit=4)
    probe(rig)  # two tokens and a call
    probe(rig)
    with pytest.raises(ConflictError, match="limit"):
        probe(rig)
    assert sum(rig.supplier.calls.values()) == 4


def test_a_probe_that_meets_a_limit_of_the_supplier_makes_workers_wait_too(rig: Any) -> None:
    probe(rig)
    rig.supplier.faults = FaultPlan(poison={SKUS[0]: Poison.THROTTLED})
    with pytest.raises(ConflictError):
        probe(rig)
    status = rig.app.limiter.status(rig.app.limit_key)
    assert status.reason == "rate limited by the provider"
