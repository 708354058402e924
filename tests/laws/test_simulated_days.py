"""Simulated days on the real engine and store: the laws hold under every fault outside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.store.monitoring.law_checks import LawChecks as StoreLaws
from headway.store.pool import Pool
from headway_lab.simulation.changes import read_changes
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.scenario import Plan, Scenario
from headway_lab.simulation.world import seeded_world

Run = Callable[..., Scenario]
LAWS_IN_PLAY = {"L1", "L2", "L3", "L5", "L6", "L7", "L8", "L9", "L10", "L13"}
# Most parts change before they are read, so that most reads are pushed.
PAUSED: dict[str, Any] = {"products": 300, "days": 0.25, "share_per_day": 2.0}
BUSY: dict[str, Any] = {"products": 400, "days": 0.5, "share_per_day": 4.0}


@pytest.fixture
def run(pool: Pool, tmp_path: Path) -> Run:
    def run_it(
        *faults: str,
        seed: int = 1,
        policy: str = "rolling",
        products: int = 300,
        days: float = 0.7,
        share_per_day: float = 0.05,
        **more: int,
    ) -> Scenario:
        world = seeded_world(products=products, days=days, seed=seed, share_per_day=share_per_day)
        plan = Plan(
            world=world,
            policy=policy,
            days=days,
            seed=seed,
            faults=parse_faults(faults),
            **more,
        )
        scenario = Scenario(plan, pool, tmp_path)
        scenario.run()
        return scenario

    return run_it


def assert_lawful(scenario: Scenario) -> None:
    broken = [str(example) for example in scenario.violations.examples]
    assert not broken, f"seed {scenario.plan.seed}: {broken}"
    in_play = LAWS_IN_PLAY | ({"L4"} if scenario.plan.policy == "split" else set())
    faults = scenario.plan.faults
    in_play |= {"L16"} if faults.shop_poison or faults.poison else set()
    assert scenario.violations.counts.keys() == in_play
    assert scenario.simulator.refusals == 0
    assert scenario.simulator.max_calls_in_window <= 2
    assert scenario.shops.simulator.refusals == 0
    assert scenario.shops.simulator.double_writes() == []
    assert scenario.lost == 0


def assert_lawful_tables(laws: StoreLaws, scenario: Scenario) -> None:
    """Check that `headway check` finds nothing in the tables after a run."""
    now = scenario.clock.now()
    verdicts = (
        laws.lost(now),
        laws.doubled(),
        laws.harmful("USD"),
        laws.strays(now),
        laws.blamed(),
    )
    assert [verdict.examples for verdict in verdicts] == [()] * 5


@pytest.mark.parametrize(
    "policy", ("rolling", pytest.param("anchored", marks=pytest.mark.campaign))
)
def test_two_quiet_days_need_about_a_tenth_of_a_call_per_listing_and_day(
    run: Run, policy: str
) -> None:
    scenario = run(policy=policy, days=2, seed=2)
    assert_lawful(scenario)
    calls = len(scenario.log.price_calls)
    assert 57 <= calls <= 70
    assert scenario.log.seats_used >= 0.99 * 10 * calls
    assert scenario.deadlines.worst_age_s <= 25 * 3600


def test_an_outage_parks_no_listing_and_counts_no_failure(run: Run) -> None:
    scenario = run("outage:6h@10:00", seed=3, days=1.2)
    assert_lawful(scenario)
    assert scenario.simulator.faults.injected.total() > 10
    assert scenario.laws.parked == []


def test_workers_may_crash_at_any_step(run: Run) -> None:
    scenario = run("crash:6/h", seed=4)
    assert_lawful(scenario)
    assert scenario.workers.crashes > 30
    assert scenario.laws.rescued > 0


def test_workers_may_all_be_away_for_hours(run: Run) -> None:
    scenario = run("away:3h@02:00", seed=4, days=0.4)
    assert_lawful(scenario)
    calls_h = [price_call.at_s / 3600 for price_call in scenario.log.price_calls]
    assert not any(2 < at_h < 5 for at_h in calls_h)
    assert sum(at_h > 5 for at_h in calls_h) >= 3
    assert scenario.workers.crashes == 0, "who is away did not crash"


def test_a_settle_of_a_worker_that_froze_is_rejected(run: Run) -> None:
    scenario = run("stall:2/h", seed=5)
    assert_lawful(scenario)
    assert scenario.laws.refused > 0


def test_calls_may_fail_in_every_way_at_once(run: Run) -> None:
    scenario = run(
        "timeout:5%", "error:5%", "slow:10%", "truncate:2%", "html:2%", "drop:2%",
        "duplicate:5%", "crash:1/h", seed=6,
    )  # fmt: skip
    assert_lawful(scenario)
    assert len(scenario.simulator.faults.injected) >= 5
    assert scenario.laws.parked == []


def test_failures_count_only_against_the_skus_with_a_fault(run: Run) -> None:
    scenario = run("vanish:3@02:00", "badprice:4@02:00", seed=7, days=1.5)
    assert_lawful(scenario)
    struck = {*scenario.affected.vanish, *scenario.affected.badprice}
    assert {row.sku for row in scenario.laws.parked} <= struck
    assert {row.sku for row in scenario.laws.held} & set(scenario.affected.badprice)
    gone = [
        shop_listing
        for shop_listing in scenario.shops.shop_listings.values()
        if shop_listing.sku in scenario.affected.vanish
    ]
    stock = [value for row in gone for facet, value in row.shop_fields.items() if "stock" in facet]
    assert set(stock) == {0}


def test_a_price_list_holds_no_stock_back(pool: Pool, tmp_path: Path) -> None:
    skus = [f"WF33{number:04d}=7A" for number in range(40)]
    repriced = [f"30,{sku},110,5" for sku in skus[:20]]
    # One of them moves too far and runs out, and so do one with a new price and one without.
    emptied = [f"60,{skus[0]},200,0", f"60,{skus[1]},111,0", f"60,{skus[30]},100,0"]
    changes = tmp_path / "changes.csv"
    rows = ["t_min,sku,price,quantity", *(f"0,{sku},100,5" for sku in skus), *repriced, *emptied]
    changes.write_text("\n".join(rows))
    plan = Plan(world=read_changes(changes), policy="adaptive", days=0.1, seed=1)
    scenario = Scenario(plan, pool, tmp_path)
    scenario.run()
    assert_lawful(scenario)
    held = {row.sku: row.held_reason or "" for row in scenario.laws.held}
    assert {skus[0], skus[1]} <= held.keys()
    assert not any("out of stock" in reason for reason in held.values())


def test_lines_that_contradict_themselves_are_held_and_renamed_locations_lose_no_stock(
    run: Run,
) -> None:
    scenario = run("contradict:8@01:00", "rename:2@02:00", "no-currency:1h@03:00", seed=3, days=0.2)
    assert_lawful(scenario)
    held = {row.sku for row in scenario.laws.held}
    assert held & set(scenario.affected.contradict)
    assert held - set(scenario.affected.contradict), "those at the renamed location"
    assert scenario.laws.failing == []


def test_a_sku_that_makes_calls_fail_is_found_in_few_calls(run: Run) -> None:
    scenario = run("poison:1", seed=3)
    assert_lawful(scenario)
    (poison,) = scenario.affected.poison
    failed = scenario.simulator.faults.injected["poison"]
    assert 5 <= failed <= 15
    charged = {row.sku for row in scenario.laws.failing}
    assert charged == {poison}


def test_products_that_spoil_every_call_to_their_shop_delay_no_other(run: Run) -> None:
    scenario = run("shop-poison:3", seed=3, sellers=2, **BUSY)
    assert_lawful(scenario)
    assert scenario.violations.counts["L16"] == 0
    assert scenario.shops.simulator.faults.injected["poison"] > 0


def test_worker_clocks_may_be_wrong(run: Run) -> None:
    assert_lawful(run("clock:90s", "crash:2/h", seed=10))


def test_a_sku_that_two_sellers_list_takes_one_seat(run: Run) -> None:
    scenario = run(sellers=2, seed=8)
    assert_lawful(scenario)
    assert scenario.listings == 360
    assert len(scenario.log.price_calls) <= 24


def test_without_faults_a_change_is_in_the_shop_within_seconds(run: Run) -> None:
    scenario = run(seed=11, sellers=3, **BUSY)
    assert_lawful(scenario)
    waits_s = sorted(scenario.versions.push_s)
    assert len(waits_s) > 40
    assert waits_s[int(0.95 * len(waits_s))] < 5


@pytest.mark.parametrize(
    "faults",
    (
        pytest.param(("shop-lost-reply:15%", "crash:6/h"), marks=pytest.mark.campaign),
        ("shop-lost-request:10%", "shop-error:10%", "shop-html:10%", "shop-slow:10%", "stall:6/h"),
        ("shop-stale:150@02:00", "shop-throttle:20%"),
        ("shop-outage:2h@10:00", "shop-lost-reply:10%", "timeout:5%"),
        ("shop-edit:60/d", "shop-sale:200/d", "shop-lost-reply:10%"),
        ("clock:90s", "crash:6/h", "shop-lost-reply:10%"),
    ),
)
def test_each_change_reaches_the_shop_once_under_every_fault(
    run: Run, pool: Pool, faults: tuple[str, ...]
) -> None:
    scenario = run(*faults, seed=12, sellers=2, **BUSY)
    assert_lawful(scenario)
    assert_lawful_tables(StoreLaws(pool), scenario)
    assert scenario.versions.pushed > 20
    happened = scenario.shops.simulator.faults.injected.total() + scenario.people.edits
    assert happened > 5


def test_a_settle_of_a_pusher_that_froze_is_rejected(run: Run) -> None:
    scenario = run("stall:10/h", seed=13, **BUSY)
    assert_lawful(scenario)
    assert scenario.shop_laws.refused > 0


@pytest.mark.campaign
@pytest.mark.parametrize("policy", ("packed", "split", "anchored", "rolling"))
@pytest.mark.parametrize(
    "faults",
    (
        (),
        ("outage:6h@10:00",),
        ("outage:3h@02:00", "outage:5h@1d20:00", "crash:1/h"),
        ("timeout:5%", "error:5%", "slow:10%", "crash:2/h"),
        ("truncate:3%", "html:3%", "drop:3%", "duplicate:5%"),
        ("poison:2", "timeout:2%"),
        # Seven parts at the supplier and three in the shop are one of each form.
        ("poison:7", "shop-poison:3"),
        ("poison:7", "shop-poison:6", "crash:1/h", "timeout:2%", "shop-lost-reply:3%"),
        ("vanish:5@10:00", "badprice:5@1d05:00", "crash:1/h"),
        ("stall:2/h", "crash:1/h", "timeout:5%"),
        ("shop-lost-reply:5%", "crash:1/h", "shop-stale:55@10:00"),
        ("shop-lost-reply:5%", "crash:1/h", "shop-outage:2h@10:00", "clock:90s"),
        ("shop-edit:30/d", "shop-sale:200/d", "shop-error:5%", "stall:1/h", "vanish:5@10:00"),
    ),
)
@pytest.mark.parametrize("seed", range(100, 106))
def test_many_days_under_many_seeds(
    run: Run, policy: str, faults: tuple[str, ...], seed: int
) -> None:
    assert_lawful(
        run(*faults, seed=seed, policy=policy, products=1000, days=7, workers=4, sellers=2)
    )


@pytest.mark.parametrize(
    ("kind", "policy"),
    (
        ("pause", "split"),
        pytest.param("pause", "adaptive", marks=pytest.mark.campaign),
        ("pause-supplier", "rolling"),
        ("pause-seller", "rolling"),
    ),
)
def test_a_pause_stops_calls_and_is_caught_up_with_afterwards(
    run: Run, kind: str, policy: str
) -> None:
    scenario = run(f"{kind}:2h@02:00", "crash:2/h", policy=policy, sellers=2, **PAUSED)
    assert_lawful(scenario)
    calls_h = [price_call.at_s / 3600 for price_call in scenario.log.price_calls]
    assert any(2 < at_h < 4 for at_h in calls_h) is (kind == "pause-seller")
    assert sum(at_h > 4 for at_h in calls_h) >= 3
    assert scenario.app.pauses.active(scenario.clock.now()) == []
