"""Steps of the housekeeping: one that fails stops no other, is named, and is tried again."""

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from headway.app.monitoring import alert_metrics_now, alert_monitor
from headway.core.monitoring.rules import current_alerts
from headway.engine.step_runner import StepRunner
from headway.errors import StoreError, StoreUnavailableError
from headway.store.monitoring.housekeeping import Housekeeping

SKUS = tuple(f"P{n}" for n in range(10))


def failing_steps(rig: Any) -> list[str]:
    return [step.name for step in Housekeeping(rig.app.pool).failing()]


def run_rounds(rig: Any, tick: Any, rounds: int) -> None:
    for _ in range(rounds):
        tick.step()
        rig.clock.sleep(60)


def forbid_writes(rig: Any, table: str) -> None:
    rig.ask(
        "CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE 'no more rows'; END $$"
    )
    rig.ask(f"CREATE TRIGGER forbid BEFORE UPDATE OR INSERT ON {table} EXECUTE FUNCTION forbid()")


def test_steps_that_always_fail_stop_no_other_and_are_named(rig: Any) -> None:
    rig.add(*SKUS)
    tick = rig.app.tick(watch=alert_monitor(rig.app))
    rig.ask("ALTER TABLE call_ledger RENAME TO call_ledger_away")
    run_rounds(rig, tick, 20)
    assert failing_steps(rig) == ["alerts", "job intervals", "old calls"]
    assert rig.one("SELECT count(*) FROM freshness_samples") == 4
    assert rig.one("SELECT listing_count FROM profiles") == 10
    rig.ask("ALTER TABLE call_ledger_away RENAME TO call_ledger")
    run_rounds(rig, tick, 60)
    assert failing_steps(rig) == []


def test_a_failing_step_raises_an_alert_with_its_name_and_reason(rig: Any) -> None:
    rig.add(*SKUS)
    forbid_writes(rig, "profiles")
    run_rounds(rig, rig.app.tick(watch=alert_monitor(rig.app)), 12)
    metrics = alert_metrics_now(rig.app, rig.clock.now(), pauses=())
    (alert,) = (alert for alert in current_alerts(metrics) if alert.name == "housekeeping")
    assert alert.subject == "catalog sizes"
    assert "no more rows" in alert.sentence
    fired = rig.ask("SELECT name, subject FROM alert_states WHERE name = 'housekeeping'")
    assert fired == [("housekeeping", "catalog sizes")]


def test_one_error_in_a_supplier_s_housekeeping_does_not_end_it(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig(policy="adaptive")
    rig.add(*SKUS)
    tick = rig.app.tick()
    rig.ask("ALTER TABLE market RENAME TO market_away")
    tick.step()
    assert failing_steps(rig) == ["supplier main"]
    rig.ask("ALTER TABLE market_away RENAME TO market")
    run_rounds(rig, tick, 2)
    assert failing_steps(rig) == []


def test_a_failing_step_is_run_again_with_growing_intervals(rig: Any) -> None:
    runner, runs = StepRunner(Housekeeping(rig.app.pool)), []

    def step(now: datetime) -> datetime:
        runs.append(now)
        raise StoreError("always")

    due_at = rig.clock.now()
    for _ in range(9):
        rig.clock.sleep((due_at - rig.clock.now()).total_seconds())
        due_at = runner.run("x", step, rig.clock.now())
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise([*runs, due_at])]
    assert gaps == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_a_lost_connection_ends_the_round_and_blames_no_step(rig: Any, database: str) -> None:
    tick = rig.app.tick()
    tick.step()
    with psycopg.connect(database, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    with pytest.raises(StoreUnavailableError):
        tick.step()
    while True:
        try:
            tick.step()
        except StoreUnavailableError:
            continue  # another connection of the pool was lost as well
        break
    assert failing_steps(rig) == []


def test_a_step_that_failed_in_a_process_that_is_gone_is_cleared_by_the_next(rig: Any) -> None:
    forbid_writes(rig, "freshness_samples")
    rig.add(*SKUS)
    rig.app.tick().step()
    assert failing_steps(rig) == ["freshness samples"]
    rig.ask("DROP TRIGGER forbid ON freshness_samples")
    rig.app.tick().step()
    assert failing_steps(rig) == []


def test_silence_of_the_tick_is_an_alert(rig: Any) -> None:
    def alerts() -> list[str]:
        metrics = alert_metrics_now(rig.app, rig.clock.now(), pauses=())
        return [alert.name for alert in current_alerts(metrics)]

    assert "no_tick" not in alerts(), "nobody has ever ticked: it was just installed"
    rig.app.tick().step()
    rig.clock.sleep(300)
    assert "no_tick" not in alerts()
    rig.clock.sleep(1)
    assert "no_tick" in alerts()
