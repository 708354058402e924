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


def test_a_supplier_call_is_counted_with_its_seats_and_the_wait_for_its_permit(line: Any) -> None:
    line.add(*SKUS[:7])
    line.make_due(*SKUS[:7], priority="manual")
    line.read(line.app.fetch("w1"))
    line.clock.sleep(1)
    own, whose = line.app.process_metrics.metrics.own, {"provider": "boeing", "verb": "fetch"}
    ledger = line.ask("SELECT begun_at, result FROM call_ledger ORDER BY begun_at")
    assert value(own, "calls_total", **whose, ended="answered") == len(ledger) == 3
    assert (value(own, "seats_used_total"), value(own, "seats_paid_total")) == (7, 10)
    # The first call waits out a window, since nobody knows what came before; the others, their gap.
    assert value(own, "permit_wait_seconds_count", **whose) == 3
    waited_s = value(own, "permit_wait_seconds_sum", **whose)
    assert waited_s >= (ledger[-1][0] - ledger[0][0]).total_seconds() * 0.9


def test_a_failed_call_is_counted_by_how_it_failed(make_line: Callable[..., Any]) -> None:
    line = make_line(faults=FaultPlan(1, rates={"error": 1.0}))
    line.add(*SKUS)
    line.make_due(*SKUS)
    fetch = line.app.fetch("w1")
    line.drive(fetch, lambda: line.one("SELECT count(*) FROM call_ledger") >= 2)
    own, whose = line.app.process_metrics.metrics.own, {"provider": "boeing", "verb": "fetch"}
    assert value(own, "calls_total", **whose, ended="failed") >= 1
    assert value(own, "calls_total", **whose, ended="answered") == 0


def test_a_permit_that_another_hand_asked_for_is_counted_with_its_whole_wait(line: Any) -> None:
    line.add(*SKUS)
    line.make_due(*SKUS)
    first, second = line.app.fetch("w1"), line.app.fetch("w2")
    line.read(first)
    line.make_due(*SKUS)
    while first._permit is None:
        first.step()
    own, whose = line.app.process_metrics.metrics.own, {"provider": "boeing", "verb": "fetch"}
    before_s, permit = value(own, "permit_wait_seconds_sum", **whose), first.detach()
    assert permit.wait_s > 20
    line.clock.sleep(permit.wait_s)
    second.resume(permit)
    second.step()
    waited_s = value(own, "permit_wait_seconds_sum", **whose) - before_s
    assert waited_s == pytest.approx(permit.wait_s)


def test_leases_that_a_tick_rescued_are_counted(line: Any) -> None:
    line.add(*SKUS)
    now = line.clock.now()
    until = now + timedelta(seconds=90)
    line.app.schedule.claim(list(SKUS), now=now, owner="gone", lease_until=until)
    line.clock.sleep(271)
    line.app.tick().step()
    assert value(line.app.process_metrics.metrics.own, "leases_rescued_total", what="listing") == 10
