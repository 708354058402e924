"""Causes in a simulated day of the account lane, and their alerts."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from headway.core.accounts.jobs import JobStatus
from headway.core.monitoring.alert_state import AlertPhase
from headway.operations.callers import operator
from headway.operations.jobs import jobs, revive_job
from headway.store.pool import Pool
from headway_lab.platforms import PRINTIFY
from headway_lab.simulation.accounts.faults import parse_account_faults
from headway_lab.simulation.accounts.printify import SimulatedPrintify
from headway_lab.simulation.accounts.scenario import START, AccountPlan, AccountScenario
from headway_lab.simulation.accounts.world import account_world
from headway_lab.simulators.printify.simulator import PER_PAGE_MAX, PrintifySimulator

SOON_MIN = 5
ONCE = (AlertPhase.FIRED, AlertPhase.RESOLVED)
Act = Callable[[AccountScenario], None]


def run_story(
    pool: Pool,
    folder: Path,
    *faults: str,
    acts: Mapping[float, Act] | None = None,
    sellers: int = 3,
    days: float,
) -> AccountScenario:
    plan = AccountPlan(
        world=account_world(sellers=sellers, days=days, seed=1),
        days=days,
        faults=parse_account_faults(faults),
        looks_h=(),
        is_watched=True,
    )
    scenario = AccountScenario(plan, pool, folder)
    for minute, act in (acts or {}).items():
        scenario.workers.spawn_at(minute * 60, partial(act, scenario))
    scenario.run()
    return scenario


def phases_of(scenario: AccountScenario, name: str) -> list[tuple[AlertPhase, float]]:
    """Return the phases of one alert, by minute."""
    return [
        (alert.phase, alert.at_s / 60) for alert in scenario.alerts.entries if alert.name == name
    ]


def minute_of(pool: Pool, query: str) -> float:
    with pool.connection() as connection:
        ((at,),) = connection.execute(query.encode()).fetchall()
    assert isinstance(at, datetime)
    return (at - START).total_seconds() / 60


@pytest.mark.campaign
def test_a_platform_outage_raises_one_alert_for_all_sellers(pool: Pool, tmp_path: Path) -> None:
    plan = AccountPlan(
        world=account_world(sellers=8, days=0.2, seed=1),
        days=0.2,
        faults=parse_account_faults(["etsy-outage:1h@02:00"]),
        looks_h=(),
        is_watched=True,
    )
    scenario = AccountScenario(plan, pool, tmp_path)
    scenario.run()
    phases = [
        (alert.phase, alert.at_s / 60)
        for alert in scenario.alerts.entries
        if alert.subject == "etsy"
    ]
    (fired, fired_at), (over, over_at) = phases
    assert (fired, over) == ONCE
    # Three accounts must fail, each at its own hour; then the alert fires soon.
    assert 120 <= fired_at <= 180
    assert 180 <= over_at <= 200
    counts = Counter((alert.subject, alert.phase) for alert in scenario.alerts.entries)
    assert set(counts.values()) == {1}, "an account was reported twice"


def printify(scenario: AccountScenario) -> PrintifySimulator:
    simulated = scenario.platforms[PRINTIFY]
    assert isinstance(simulated, SimulatedPrintify)
    return simulated.simulator


def narrow(scenario: AccountScenario) -> None:
    """Let Printify refuse pages of the size we request, from now on."""
    printify(scenario).per_page_max = {"orders": 2, "products": 2}


def restore(scenario: AccountScenario) -> None:
    """Accept them again, and revive the dead jobs."""
    printify(scenario).per_page_max = dict(PER_PAGE_MAX)
    caller = operator(scenario.app, "ops")
    for job in jobs(caller, status=JobStatus.DEAD).jobs:
        revive_job(caller, job.id)


@pytest.mark.campaign
def test_dead_jobs_raise_one_alert_that_resolves_when_they_are_revived(
    pool: Pool, tmp_path: Path
) -> None:
    scenario = run_story(pool, tmp_path, acts={60: narrow, 360: restore}, days=0.26)
    (fired, fired_at), (over, over_at) = phases_of(scenario, "dead_jobs")
    assert (fired, over) == ONCE
    first = minute_of(
        pool, "SELECT min(sync_timestamp) FROM sync_audit_log WHERE event_type = 'job_dead'"
    )
    assert first <= fired_at <= first + SOON_MIN
    assert 360 <= over_at <= 364


def spend_etsy(scenario: AccountScenario) -> None:
    """Let others of the same app use up the daily quota."""
    simulator = scenario.etsy.simulator
    simulator.meter.spend(simulator.meter.per_day, simulator.elapsed_s())


@pytest.mark.campaign
def test_a_used_up_daily_quota_raises_one_alert_that_resolves_when_there_is_room(
    pool: Pool, tmp_path: Path
) -> None:
    scenario = run_story(pool, tmp_path, acts={120: spend_etsy}, days=1.3)
    (fired, fired_at), (over, over_at) = phases_of(scenario, "quota_spent")
    assert (fired, over) == ONCE
    first = minute_of(
        pool,
        "SELECT min(begun_at) FROM call_ledger WHERE limit_key LIKE 'etsy:%'"
        f" AND begun_at > timestamptz '{START.isoformat()}' + interval '120 minutes'",
    )
    assert first <= fired_at <= first + SOON_MIN
    # What others used is known to have left by the end of its hour.
    assert 120 + 1440 <= over_at <= 120 + 1440 + 65
