"""The series of a report: one number for each hour of the run, and together the whole figure."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.store.pool import Pool
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.hours import Hourly, hours_in
from headway_lab.simulation.report import figures
from headway_lab.simulation.scenario import Plan, Scenario
from headway_lab.simulation.world import DAY_S, seeded_world

HOURS = 50
SECONDS = st.floats(min_value=0, max_value=HOURS * 3600.0)
STRETCHES = st.lists(st.tuples(SECONDS, SECONDS).map(sorted), max_size=20)


def slowly(stretches: list[list[float]], hour: int) -> float:
    """Add up what falls into one hour, stretch by stretch."""
    first_s, last_s = hour * 3600.0, (hour + 1) * 3600.0
    return math.fsum(
        max(0.0, min(to_s, last_s) - max(from_s, first_s)) for from_s, to_s in stretches
    )


@given(STRETCHES)
def test_each_hour_holds_what_fell_into_it(stretches: list[list[float]]) -> None:
    hourly = Hourly()
    for from_s, to_s in stretches:
        hourly.add(from_s, to_s)
    hours = hourly.until(HOURS * 3600.0)
    assert hours == pytest.approx([slowly(stretches, hour) for hour in range(HOURS)], abs=1e-6)
    whole_s = math.fsum(to_s - from_s for from_s, to_s in stretches)
    assert math.fsum(hours) == pytest.approx(whole_s, abs=1e-6)


def test_a_span_may_begin_and_end_on_the_hour() -> None:
    hourly = Hourly()
    hourly.add(3600, 7200)
    hourly.add(7200, 7200)
    assert hourly.until(7200) == (0, 3600)
    assert hourly.until(7201) == (0, 3600, 0)


def test_a_part_of_an_hour_counts_as_one() -> None:
    assert [hours_in(end_s) for end_s in (1, 3600, 3601, DAY_S)] == [1, 1, 2, 24]


def run(pool: Pool, folder: Path, *faults: str, days: float, sellers: int = 1) -> Any:
    world = seeded_world(products=200, days=days, seed=9, share_per_day=4)
    plan = Plan(world=world, days=days, seed=9, faults=parse_faults(faults), sellers=sellers)
    scenario = Scenario(plan, pool, folder)
    scenario.run()
    return figures(scenario, real_seconds=1)


@pytest.mark.parametrize(
    ("days", "hours", "faults"),
    (
        (0.25, 6, ("outage:2h@03:00", "crash:6/h", "shop-lost-reply:10%", "shop-edit:20/d")),
        (0.3, 8, ()),
        (0.01, 1, ()),
    ),
)
def test_the_series_add_up_to_the_figures(
    pool: Pool, tmp_path: Path, days: float, hours: int, faults: tuple[str, ...]
) -> None:
    report = run(pool, tmp_path, *faults, days=days, sellers=2)
    stale_min, calls = report["staleness_by_hour"], report["calls_by_hour"]
    assert len(stale_min) == len(calls) == hours
    assert sum(calls) == report["calls"]
    assert sum(stale_min) / days == pytest.approx(
        report["staleness_min_per_listing_day"], abs=0.001
    )
    assert all(0 <= minutes <= 60 for minutes in stale_min)


def test_an_outage_is_seen_in_both_series(pool: Pool, tmp_path: Path) -> None:
    report = run(pool, tmp_path, "outage:3h@03:00", days=0.5)
    calls, stale_min = report["calls_by_hour"], report["staleness_by_hour"]
    assert max(calls[4:6]) < min(calls[0:2] + calls[6:8])
    assert stale_min[5] > stale_min[3] > stale_min[1]
