"""A run as a whole: repeatable to the byte, traceable, and able to replay a recorded world."""

import csv
import json
from decimal import Decimal
from pathlib import Path

import pytest

from headway.store.migrate import upgrade
from headway.store.pool import Pool, open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.simulation.changes import read_changes
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.report import figures, write_trace
from headway_lab.simulation.scenario import Plan, Scenario
from headway_lab.simulation.world import World, seeded_world

FAULTS = (
    "crash:6/h", "timeout:5%", "duplicate:5%", "outage:2h@03:00", "shop-lost-reply:10%",
    "shop-sale:60/d", "shop-edit:20/d", "shop-stale:50@02:00",
)  # fmt: skip


def run(
    pool: Pool,
    folder: Path,
    *faults: str,
    world: World | None = None,
    sellers: int = 1,
    days: float = 0.5,
) -> Scenario:
    plan = Plan(
        world=world or seeded_world(products=200, days=days, seed=9),
        days=days,
        seed=9,
        faults=parse_faults(faults),
        sellers=sellers,
    )
    scenario = Scenario(plan, pool, folder)
    scenario.run()
    return scenario


def test_the_same_seed_gives_the_same_report_and_trace_to_the_byte(
    pool: Pool, postgres: EmbeddedServer, tmp_path: Path
) -> None:
    postgres.ensure_database("simulated_again")
    try:
        with open_pool(postgres.dsn("simulated_again")) as again:
            world = seeded_world(products=200, days=0.25, seed=9, share_per_day=4)
            scenarios = [run(pool, tmp_path, *FAULTS, world=world, sellers=3, days=0.25)]
            upgrade(again, scenarios[0].clock)
            scenarios.append(run(again, tmp_path, *FAULTS, world=world, sellers=3, days=0.25))
    finally:
        postgres.drop_database("simulated_again")
    texts = []
    for number, scenario in enumerate(scenarios):
        write_trace(scenario, tmp_path / f"{number}.csv")
        report = json.dumps(figures(scenario, real_seconds=1))
        texts.append((report, (tmp_path / f"{number}.csv").read_bytes()))
    assert texts[0] == texts[1]
    assert scenarios[0].workers.crashes > 10


def test_the_trace_holds_every_seat_of_every_call_and_whether_it_was_read(
    pool: Pool, tmp_path: Path
) -> None:
    scenario = run(pool, tmp_path, "error:20%")
    write_trace(scenario, tmp_path / "trace.csv")
    with (tmp_path / "trace.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["t_min", "call", "sku", "ok"]
    assert len(rows) == scenario.log.seats_used
    assert {row["ok"] for row in rows} == {"0", "1"}
    calls = [int(row["call"]) for row in rows]
    assert calls == sorted(calls)
    assert calls[-1] == scenario.simulator.calls["price"]
    minutes = [float(row["t_min"]) for row in rows]
    assert minutes == sorted(minutes)
    assert minutes[-1] < 720


def test_a_recorded_world_is_replayed_and_its_changes_are_detected(
    pool: Pool, tmp_path: Path
) -> None:
    rows = [f"0,P{number},10,5," for number in range(60)]
    rows += [f"{number * 10 + 1},P{number},12.5,4," for number in range(30)]
    path = tmp_path / "recorded.csv"
    path.write_text("t_min,sku,price,quantity,family\n" + "\n".join(rows), encoding="utf-8")
    scenario = run(pool, tmp_path, world=read_changes(path))
    assert scenario.violations.examples == []
    assert scenario.tally.changes == 30
    detected = len(scenario.tally.detection_s)
    assert 5 < detected < 30
    with pool.connection() as connection:
        prices = {
            Decimal(row[0])
            for row in connection.execute("SELECT desired ->> 'price' FROM listing_state")
        }
    assert prices == {Decimal("11.00"), Decimal("13.75")}


def test_prices_finer_than_a_cent_are_in_the_shop_once(pool: Pool, tmp_path: Path) -> None:
    rows = [f"0,P{number},10.123,5," for number in range(60)]
    rows += [f"1,P{number},10.457,{number % 2}," for number in range(0, 60, 3)]
    path = tmp_path / "recorded.csv"
    path.write_text("t_min,sku,price,quantity,family\n" + "\n".join(rows), encoding="utf-8")
    scenario = run(pool, tmp_path, "shop-lost-reply:50%", world=read_changes(path))
    assert scenario.violations.examples == []
    assert scenario.shops.simulator.faults.injected.total() > 2
    assert scenario.versions.pushed > 5


def test_a_crash_may_lose_a_reply_that_the_supplier_has_counted(pool: Pool, tmp_path: Path) -> None:
    scenario = run(pool, tmp_path, "crash:60/h")
    assert scenario.violations.examples == []
    unread = [price_call for price_call in scenario.log.price_calls if not price_call.read]
    assert unread, "no crash struck between a request and its settle"
    assert scenario.simulator.calls["price"] == len(scenario.log.price_calls)
    with pool.connection() as connection:
        lost = connection.execute("SELECT count(*) FROM call_ledger WHERE status = 'lost'")
        assert lost.fetchone() != (0,)


@pytest.mark.parametrize("days", (0.02,))
def test_a_run_too_short_for_any_call_still_has_figures(
    pool: Pool, tmp_path: Path, days: float
) -> None:
    plan = Plan(world=seeded_world(products=5, days=days, seed=1), days=days)
    scenario = Scenario(plan, pool, tmp_path)
    scenario.run()
    report = figures(scenario, real_seconds=0)
    assert report["fill"] is None
    assert report["detection_p50_min"] is None
    assert sum(report["laws"].values()) == 0
