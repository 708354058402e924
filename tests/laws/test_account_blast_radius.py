"""Law L16 on simulated days of the account lane: faults of one shop are nobody else's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.app.monitoring import alert_metrics_now
from headway.core.monitoring.rules import current_alerts
from headway.store.pool import Pool
from headway_lab.simulation.accounts.faults import CulpritKind, parse_account_faults
from headway_lab.simulation.accounts.scenario import AccountPlan, AccountScenario
from headway_lab.simulation.accounts.world import account_world

Run = Callable[..., AccountScenario]
MIXES = (
    ("poison:6",),
    ("wrong-403:30m", "page-poison:2", "endless:2", "error:2%", "stall:1/h"),
    ("page-poison:3", "webhook-flood:500"),
    ("endless:3", "poison:2"),
    ("wrong-403:10m", "poison:3", "crash:1/h"),
    ("etsy-poison:3", "etsy-webhook-flood:2000", "error:2%", "timeout:1%"),
    ("printify-poison:3", "shopify-page-poison", "etsy-wrong-403:30m", "slow:5%", "html:1%"),
    ("poison:5", "page-poison:2", "endless:2", "wrong-403:10m", "webhook-flood:1000", "stall:1/h"),
)


@pytest.fixture
def run(pool: Pool, tmp_path: Path) -> Run:
    def run_it(*faults: str, sellers: int, days: float, seed: int) -> AccountScenario:
        plan = AccountPlan(
            world=account_world(sellers=sellers, days=days, seed=seed),
            days=days,
            seed=seed,
            faults=parse_account_faults(faults),
        )
        scenario = AccountScenario(plan, pool, tmp_path)
        scenario.run()
        return scenario

    return run_it


def assert_lawful(scenario: AccountScenario) -> None:
    broken = [str(example) for example in scenario.violations.examples]
    assert not broken, f"seed {scenario.plan.seed}: {broken}"
    assert scenario.violations.counts["L16"] == 0
    assert scenario.outcome.tally.is_equal


def test_poisoned_orders_pages_and_lists_of_some_shops_are_nobody_elses(run: Run) -> None:
    scenario = run(
        "etsy-poison:1", "printify-poison:1", "printify-page-poison", "etsy-endless",
        sellers=4, days=0.1, seed=2,
    )  # fmt: skip
    assert_lawful(scenario)
    injected = {
        kind for simulated in scenario.platforms.values() for kind in simulated.server.injected
    }
    assert injected == {"poison", "page-poison", "endless"}
    assert scenario.people.grants_lost == 0
    assert_named(scenario)


def assert_named(scenario: AccountScenario) -> None:
    """Check that an alert and `explain` name every poisoned order's account, and why."""
    app, now = scenario.app, scenario.clock.now()
    alerts = current_alerts(alert_metrics_now(app, now, pauses=()))
    unreadable = {alert.subject: alert.sentence for alert in alerts if alert.name == "unreadable"}
    for culprit in scenario.blast.culprits:
        if culprit.kind is not CulpritKind.POISON:
            continue
        shop = culprit.shop
        name = scenario.platforms[shop.platform].name(shop)
        sentence = unreadable[f"{shop.seller} {shop.platform} {name} orders"]
        assert "cannot be read" in sentence
        job = app.account_queries.job(now, f"{shop.seller}/{shop.platform}/orders")
        assert job is not None
        assert "cannot be read, and all others are" in job.reason


@pytest.mark.campaign
@pytest.mark.parametrize("faults", MIXES)
@pytest.mark.parametrize("seed", range(200, 204))
def test_many_mixes_of_tied_faults_under_many_seeds(
    run: Run, faults: tuple[str, ...], seed: int
) -> None:
    assert_lawful(run(*faults, sellers=30, days=2, seed=seed))
