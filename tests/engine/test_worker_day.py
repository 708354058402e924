"""Law L16: a worker's day with a failing step and a failing supplier; all else is as usual."""

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.engine.test_housekeeping import failing_steps, forbid_writes
from tests.engine.test_suppliers import ACME, SuppliersRig, make_suppliers_rig  # noqa: F401

from headway.app.monitoring import alert_monitor
from headway.app.suppliers import fetch_all_suppliers
from headway.core.catalog.listings import MAIN
from headway.operations.alerts import alerts
from headway.operations.callers import operator
from headway.runners.embedded import run_steps
from headway_lab.simulation.workers import with_ports
from headway_lab.simulators.faults import FaultPlan, Interval

DAY_S = 86_400.0
SKUS = tuple(f"P{number}" for number in range(40))
OF_SELLER = """
SELECT min(last_successful_sync), max(consecutive_failures), bool_and(is_active)
FROM product_sync_schedule WHERE user_id = %s
"""


def live_a_day(suppliers: SuppliersRig) -> None:
    """Run tick and fetch for a day and an hour, as one process does."""
    clock, stop = suppliers.rig.clock, threading.Event()
    rule = replace(suppliers.app.rule, poll=timedelta(minutes=10))
    app = with_ports(suppliers.app, tick_every=timedelta(minutes=4), rule=rule)
    tick = app.tick(watch=alert_monitor(app))
    fetch = fetch_all_suppliers(app, "w", wake_push=lambda: None)
    for name, step in (("tick", tick.step), ("fetch", fetch.step)):
        clock.spawn(lambda name=name, step=step: run_steps(step, clock, stop, report, name))
    clock.run(DAY_S + 3600)
    stop.set()
    clock.run(DAY_S + 7200)


def report(_name: str, _text: str) -> None:
    """Ignore what a step reports."""


@pytest.fixture
def suppliers(request: pytest.FixtureRequest) -> Any:
    outage = FaultPlan(1, outage=[Interval(start_s=0, end_s=2 * DAY_S)])
    made: SuppliersRig = request.getfixturevalue("make_suppliers_rig")("rolling", outage)
    made.open(ACME)
    made.list("a", MAIN, *SKUS, price="10")
    made.list("b", ACME, *SKUS, price="20")
    return made


def test_a_failing_step_and_a_failing_supplier_leave_the_rest_of_a_day_as_usual(
    suppliers: SuppliersRig,
) -> None:
    rig = suppliers.rig
    forbid_writes(rig, "profiles")
    live_a_day(suppliers)
    now = rig.clock.now()
    oldest_read_at, failures, is_active = rig.ask(OF_SELLER, "b")[0]
    assert now - oldest_read_at < timedelta(hours=25), "the other supplier is read as always"
    assert (failures, is_active) == (0, True)
    assert suppliers.suppliers[ACME].calls["price"] <= 10, "with no more calls than it takes"
    assert suppliers.refusals() == 0
    assert rig.ask(OF_SELLER, "a")[0] == (None, 0, True), "an outage charges and parks nobody"
    assert failing_steps(rig) == ["catalog sizes", "external writes"], "both write profiles"
    assert rig.one("SELECT count(*) FROM freshness_samples") >= 24 * 7
    names = {(alert.name, alert.subject) for alert in alerts(operator(rig.app, "test")).alerts}
    assert {("supplier_down", ""), ("housekeeping", "catalog sizes")} <= names
    fired = rig.ask("SELECT name, count(*) FROM alert_states WHERE fired_at IS NOT NULL GROUP BY 1")
    # What the sellers of the supplier that is down are promised is broken, of course.
    assert dict(fired) == {"supplier_down": 1, "housekeeping": 2, "promise_burning": 1}
