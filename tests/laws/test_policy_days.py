"""Days of each policy of the documents on the real engine and store, and law L4 under `split`."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from headway.app import App
from headway.core.catalog.listings import Sku
from headway.core.timetable.policies import Policy
from headway.core.timetable.policies.hours import Opening
from headway.core.timetable.policies.policy import EMPTY, CatalogSummary, Placement
from headway.core.timetable.policies.split import Split
from headway.store.pool import Pool
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.report import figures
from headway_lab.simulation.scenario import Parts, Plan, Scenario
from headway_lab.simulation.world import seeded_world

Run = Callable[..., Scenario]
DOCUMENTED = ("packed", "split", "anchored", "rolling")
FAULTS = (
    ("outage:5h@06:00", "timeout:3%"),
    ("vanish:8@02:00", "badprice:3@05:00", "error:3%"),
    ("crash:3/h", "stall:1/h", "clock:90s"),
)


@pytest.fixture
def run(pool: Pool, tmp_path: Path) -> Run:
    def run_it(
        policy: str,
        *faults: str,
        products: int = 120,
        days: float = 1.5,
        sellers: int = 1,
        seed: int = 1,
        parts: Parts | None = None,
    ) -> Scenario:
        plan = Plan(
            world=seeded_world(products=products, days=days, seed=seed, share_per_day=0.2),
            policy=policy,
            days=days,
            seed=seed,
            faults=parse_faults(faults),
            sellers=sellers,
        )
        scenario = Scenario(plan, pool, tmp_path, parts)
        scenario.run()
        return scenario

    return run_it


def broken(scenario: Scenario) -> list[str]:
    return [str(example) for example in scenario.violations.examples]


def mixes() -> Iterator[Any]:
    """Yield every policy with every mix of faults: one of each always, the others in a campaign."""
    for mix, policy in product(range(len(FAULTS)), range(len(DOCUMENTED))):
        marks = () if policy % len(FAULTS) == mix else (pytest.mark.campaign,)
        yield pytest.param(DOCUMENTED[policy], FAULTS[mix], marks=marks)


@pytest.mark.parametrize(("policy", "faults"), tuple(mixes()))
def test_every_policy_keeps_every_law_under_every_fault(
    run: Run, policy: str, faults: tuple[str, ...]
) -> None:
    scenario = run(policy, *faults, sellers=2)
    assert broken(scenario) == []
    assert scenario.lost == 0
    assert ("L4" in scenario.violations.counts) is (policy == "split")


@pytest.mark.parametrize(
    "faults",
    (
        pytest.param(("outage:2h@02:00", "timeout:3%"), marks=pytest.mark.campaign),
        pytest.param(
            ("vanish:8@02:00", "badprice:3@03:00", "error:3%"), marks=pytest.mark.campaign
        ),
        ("crash:3/h", "stall:1/h", "clock:90s"),
    ),
)
def test_the_adaptive_policy_keeps_every_law_under_every_fault(
    run: Run, faults: tuple[str, ...]
) -> None:
    scenario = run("adaptive", *faults, days=0.2, sellers=2)
    assert broken(scenario) == []
    assert scenario.lost == 0


@pytest.mark.parametrize("policy", (pytest.param("packed", marks=pytest.mark.campaign), "split"))
def test_hourly_policies_need_a_tenth_of_a_call_per_listing_and_day(run: Run, policy: str) -> None:
    scenario = run(policy, products=245, days=1.5)
    assert broken(scenario) == []
    report = figures(scenario, real_seconds=1.0)
    assert 36 <= report["calls"] <= 38
    assert report["fill"] == 1
    assert report["worst_age_h"] <= 25
    assert max(report["calls_by_hour"]) - min(report["calls_by_hour"]) <= 1


def test_retries_beyond_the_cap_of_a_window_wait_for_the_next(run: Run) -> None:
    scenario = run("split", "vanish:80@02:00", products=300, days=1.2)
    assert broken(scenario) == []
    windows = figures(scenario, real_seconds=1.0)["retries_per_window"]
    assert max(windows) == 50
    assert len([seats for seats in windows if seats >= 40]) >= 2


def with_policy(policy: Policy) -> Parts:
    """Return parts of an engine with another policy `split`."""

    def build(app: App) -> App:
        return replace(app, policy=policy, judge=replace(app.judge, policy=policy))

    return Parts(app=build)


class Boundless(Split):
    def openings(self, listings: int) -> tuple[Opening, ...]:
        return tuple(replace(opening, seats_max=1000) for opening in super().openings(listings))


class Lopsided(Split):
    def place(self, sku: Sku, now: datetime, catalog: CatalogSummary = EMPTY) -> Placement:
        del catalog
        return self.placed(sku, 7, now)


def test_l4_notices_a_window_that_has_no_cap(run: Run) -> None:
    scenario = run(
        "split", "vanish:200@02:00", products=300, days=0.5, parts=with_policy(Boundless())
    )
    assert scenario.violations.counts["L4"] > 0


def test_l4_notices_hours_that_are_not_equal(run: Run) -> None:
    scenario = run("split", products=120, days=0.5, parts=with_policy(Lopsided()))
    assert scenario.violations.counts["L4"] > 0
