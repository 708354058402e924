"""Days of the account lane on the real engine and store: the laws hold, and violations are found.

Each wrong part below breaks one thing that keeps rows complete or limits kept, and is noticed by
the law that it breaks.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.core.accounts.jobs import Job, JobStatus
from headway.core.accounts.pagination import Page, PageStep, Paginator
from headway.engine.pull import Pull
from headway.providers.etsy.pagination import ReceiptsWalk
from headway.store.pool import Pool
from headway_lab.simulation.account_command import figures
from headway_lab.simulation.accounts.faults import parse_account_faults
from headway_lab.simulation.accounts.scenario import (
    LOOKS_H,
    AccountParts,
    AccountPlan,
    AccountScenario,
)
from headway_lab.simulation.accounts.world import account_world

Run = Callable[..., AccountScenario]
LAWS_IN_PLAY = {"L1", "L5", "L6", "L7", "L10", "L11", "L12", "L13"}


@pytest.fixture
def run(pool: Pool, tmp_path: Path) -> Run:
    def run_it(
        *faults: str,
        sellers: int = 6,
        days: float = 0.5,
        seed: int = 1,
        parts: AccountParts | None = None,
        looks_h: tuple[float, ...] = LOOKS_H,
    ) -> AccountScenario:
        plan = AccountPlan(
            world=account_world(sellers=sellers, days=days, seed=seed),
            days=days,
            seed=seed,
            faults=parse_account_faults(faults),
            looks_h=looks_h,
        )
        scenario = AccountScenario(plan, pool, tmp_path, parts)
        scenario.run()
        return scenario

    return run_it


def assert_lawful(scenario: AccountScenario) -> dict[str, Any]:
    broken = [str(example) for example in scenario.violations.examples]
    assert not broken, f"seed {scenario.plan.seed}: {broken}"
    assert scenario.violations.counts.keys() == LAWS_IN_PLAY
    report = figures(scenario, real_seconds=0)
    assert set(report["refusals_by_provider"].values()) == {0}
    assert report["peak_quota_share"] <= 1
    assert report["etsy_day_limit"] < report["etsy_demand_per_day"], "of the days that are judged"
    assert (report["rows_missing"], report["rows_wrong"], report["starved"]) == (0, 0, 0)
    return report


def broken_by(scenario: AccountScenario) -> set[str]:
    return {law for law, count in scenario.violations.counts.items() if count}


def test_hours_with_crashes_end_with_correct_rows(run: Run) -> None:
    report = assert_lawful(run("crash:4/h", sellers=4, days=0.25, seed=2))
    assert report["faults_injected"]["crash"] > 10
    assert report["rescued"] > 0
    assert report["rows"] > 500


@pytest.mark.campaign
def test_two_days_with_crashes_end_with_correct_rows(run: Run) -> None:
    report = assert_lawful(run("crash:1/h", sellers=12, days=2, seed=2))
    assert report["faults_injected"]["crash"] > 20
    assert report["rescued"] > 0
    assert report["rows"] > 3000
    assert min(report["calls_by_provider"].values()) > 50


# -- violations are detected -------------------------------------------------------------------


class PassThrough:
    """Jobs that pass everything on; a subclass does one thing wrong."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class CursorWithoutPage(PassThrough):
    """Moves the cursor though the page is not written."""

    def commit(self, job: Job, page: Page, step: PageStep, **more: Any) -> Job | None:
        return self.inner.commit(job, Page(total=page.total), step, **more)


class Unfenced(PassThrough):
    """Accepts late writes."""

    def commit(self, job: Job, page: Page, step: PageStep, **more: Any) -> Job | None:
        taken = self.inner.commit(job, page, step, **more)
        return job if taken is None else taken

    def settle(self, job: Job, status: JobStatus, **more: Any) -> bool:
        return self.inner.settle(job, status, **more) or True


def test_l6_notices_a_cursor_that_moves_without_its_page(run: Run) -> None:
    scenario = run(sellers=2, days=0.05, parts=AccountParts(jobs=CursorWithoutPage), looks_h=(1,))
    assert "L6" in broken_by(scenario)
    assert any("missing" in example.text for example in scenario.violations.examples)


def test_l5_notices_a_late_commit_that_is_accepted(run: Run) -> None:
    scenario = run(
        "stall:30/h", sellers=3, days=0.1, parts=AccountParts(jobs=Unfenced), looks_h=(1,)
    )
    assert "L5" in broken_by(scenario)
    assert any(
        "late" in example.text for example in scenario.violations.examples if example.law == "L5"
    )


def unreserved(jobs: Any) -> Any:
    """Let jobs be claimed without their share of a platform's daily quota."""
    jobs._days = {}
    return jobs


@pytest.mark.campaign
def test_l1_notices_a_claim_without_its_quota_reservation(run: Run) -> None:
    scenario = run(sellers=3, days=0.7, parts=AccountParts(jobs=unreserved), looks_h=(1,))
    assert "L1" in broken_by(scenario)
    assert any(
        "etsy" in example.text for example in scenario.violations.examples if example.law == "L1"
    )


def hasty(pull: Pull) -> Pull:
    """Let Etsy's orders be read from where the last run ended, and never again."""
    usual = pull._walk_of

    def paginator_of(job: Job) -> Paginator:
        walk = usual(job)
        if isinstance(walk, ReceiptsWalk) and not walk.is_backfill:
            return replace(walk, overlap_s=0, recent_every_s=10**9)
        return walk

    pull._walk_of = paginator_of
    return pull


@pytest.mark.campaign
def test_l6_notices_a_pull_without_overlap_that_misses_late_rows(run: Run) -> None:
    scenario = run(sellers=4, days=1, seed=3, parts=AccountParts(pull=hasty))
    assert "L6" in broken_by(scenario)
    assert any(
        "etsy" in example.text for example in scenario.violations.examples if example.law == "L6"
    )


@pytest.mark.campaign
@pytest.mark.parametrize("faults", ((), ("crash:1/h",)), ids=("quiet", "crashes"))
def test_a_week_of_two_hundred_sellers(run: Run, faults: tuple[str, ...]) -> None:
    report = assert_lawful(run(*faults, sellers=200, days=7, seed=1))
    served = report["etsy_served_by_tier"]
    assert min(served["starter"], served["growth"], served["pro"]) > 0.9
    assert served["free"] > 0.1


@pytest.mark.campaign
def test_everything_at_once(run: Run) -> None:
    scenario = run(
        "crash:2/h", "stall:2/h", "clock:30s", "outage:2h@10:00", "etsy-outage:1h@1d02:00",
        "error:2%", "timeout:1%", "slow:3%", "html:1%", sellers=40, days=3, seed=5,
    )  # fmt: skip
    assert_lawful(scenario)
