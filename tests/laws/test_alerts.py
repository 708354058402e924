"""Alerts in simulated days: each fires once, soon after its cause, and resolves."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.core.monitoring.alert_state import AlertPhase
from headway.store.pool import Pool
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.scenario import Plan, Scenario
from headway_lab.simulation.world import seeded_world

Watch = Callable[..., Scenario]
SOON_MIN = 5


@pytest.fixture
def watch(pool: Pool, tmp_path: Path) -> Watch:
    def run_it(
        *faults: str,
        policy: str = "adaptive",
        products: int = 100,
        days: float,
        share_per_day: float = 0.05,
    ) -> Scenario:
        world = seeded_world(products=products, days=days, seed=1, share_per_day=share_per_day)
        plan = Plan(
            world=world,
            policy=policy,
            days=days,
            faults=parse_faults(faults),
            is_watched=True,
        )
        scenario = Scenario(plan, pool, tmp_path)
        scenario.run()
        return scenario

    return run_it


def spans(scenario: Scenario) -> dict[str, list[tuple[float, AlertPhase]]]:
    """Return the phases of each alert, by minute."""
    phases: dict[str, list[tuple[float, AlertPhase]]] = {}
    for alert in scenario.alerts.entries:
        phases.setdefault(alert.name, []).append((alert.at_s / 60, alert.phase))
    return phases


def test_each_fault_raises_one_alert_within_five_minutes_and_it_resolves(
    watch: Watch,
) -> None:
    scenario = watch(
        "outage:30m@00:30",
        "pause-supplier:30m@01:40",
        "shop-outage:30m@02:50",
        days=0.16,
        share_per_day=4.0,
    )
    phases = spans(scenario)
    assert phases.keys() == {"supplier_down", "paused", "shop_refused"}
    # For us an outage ends with a successful probe: at most a quarter of an hour later.
    for name, begins, ends_by in (
        ("supplier_down", 30, 60 + 15 + 3),
        ("paused", 100, 130),
        ("shop_refused", 170, 200 + 15 + 3),
    ):
        (fired_at, fired), (resolved_at, resolved) = phases[name]
        assert (fired, resolved) == (AlertPhase.FIRED, AlertPhase.RESOLVED)
        assert begins <= fired_at <= begins + SOON_MIN, name
        assert begins + 30 <= resolved_at <= ends_by + 1, name


def test_intermittent_errors_raise_one_alert_and_no_others(watch: Watch) -> None:
    scenario = watch("error:15%", days=0.1)
    ((name, (first, *more)),) = spans(scenario).items()
    assert (name, first[1]) == ("error_share", AlertPhase.FIRED)
    assert {word for _, word in more} <= {AlertPhase.WORSE}
    assert len(more) <= 1


@pytest.mark.parametrize(("policy", "days"), (("rolling", 0.2), ("adaptive", 0.06)))
def test_a_quiet_morning_raises_no_alert(watch: Watch, policy: str, days: float) -> None:
    assert spans(watch(policy=policy, days=days)) == {}


@pytest.mark.campaign
@pytest.mark.parametrize("policy", ("adaptive", "packed", "split", "anchored", "rolling"))
def test_a_quiet_week_raises_no_alert(watch: Watch, policy: str) -> None:
    assert spans(watch(policy=policy, products=500, days=7)) == {}
