"""Every call is seen once, where its permit is, whatever it was for and however it ended."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from headway_lab.simulators.faults import FaultPlan

SKUS = tuple(f"P{n}" for n in range(10))


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(f"headway_{name}", labels) or 0.0


def test_a_supplier_call_is_counted_with_its_seats_and_the_wait_for_its_permit(rig: Any) -> None:
    rig.add(*SKUS[:7])
    rig.make_due(*SKUS[:7], priority="manual")
    rig.read(rig.app.fetch("w1"))
    rig.clock.sleep(1)
    own, labels = rig.app.process_metrics.metrics.own, {"provider": "boeing", "verb": "fetch"}
    ledger = rig.ask("SELECT begun_at, result FROM call_ledger ORDER BY begun_at")
    assert value(own, "calls_total", **labels, ended="answered") == len(ledger) == 3
    assert (value(own, "seats_used_total"), value(own, "seats_paid_total")) == (7, 10)
    # The first call waits out a window, since nobody knows what came before; the others, their gap.
    assert value(own, "permit_wait_seconds_count", **labels) == 3
    waited_s = value(own, "permit_wait_seconds_sum", **labels)
    assert waited_s >= (ledger[-1][0] - ledger[0][0]).total_seconds() * 0.9


def test_a_failed_call_is_counted_by_how_it_failed(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(faults=FaultPlan(1, rates={"error": 1.0}))
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch = rig.app.fetch("w1")
    rig.drive(fetch, lambda: rig.one("SELECT count(*) FROM call_ledger") >= 2)
    own, labels = rig.app.process_metrics.metrics.own, {"provider": "boeing", "verb": "fetch"}
    assert value(own, "calls_total", **labels, ended="failed") >= 1
    assert value(own, "calls_total", **labels, ended="answered") == 0


def test_a_permit_that_another_hand_asked_for_is_counted_with_its_whole_wait(rig: Any) -> None:
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    first, second = rig.app.fetch("w1"), rig.app.fetch("w2")
    rig.read(first)
    rig.make_due(*SKUS)
    while first._permit is None:
        first.step()
    own, labels = rig.app.process_metrics.metrics.own, {"provider": "boeing", "verb": "fetch"}
    before_s, permit = value(own, "permit_wait_seconds_sum", **labels), first.detach()
    assert permit.wait_s > 20
    rig.clock.sleep(permit.wait_s)
    second.resume(permit)
    second.step()
    waited_s = value(own, "permit_wait_seconds_sum", **labels) - before_s
    assert waited_s == pytest.approx(permit.wait_s)


def test_leases_that_a_tick_rescued_are_counted(rig: Any) -> None:
    rig.add(*SKUS)
    now = rig.clock.now()
    until = now + timedelta(seconds=90)
    rig.app.schedule.claim(list(SKUS), now=now, owner="gone", lease_until=until)
    rig.clock.sleep(271)
    rig.app.tick().step()
    assert value(rig.app.process_metrics.metrics.own, "leases_rescued_total", what="listing") == 10
