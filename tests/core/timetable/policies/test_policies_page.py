"""The page about policies stays true: its tables are read and computed again."""

import math
from datetime import timedelta
from pathlib import Path

import pytest
from tests.core.timetable.replay import MIDNIGHT, placed, replay

from headway.core.timetable.policies import POLICIES, Policy
from headway.core.timetable.policies.anchored import Anchored
from headway.core.timetable.policies.packed import Packed, slots_wanted
from headway.core.timetable.policies.policy import SERVICE
from headway.core.timetable.policies.split import Split

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "policies.md"
PER_DAY, PER_HOUR, SEATS = 2880, 120, 10
MINUTE = timedelta(minutes=1)


def rows(section: str) -> list[list[str]]:
    """Return the cells of a section's first table, without its head."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2]
    lines = text.partition("\n## ")[0].splitlines()
    table = [line for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def number(cell: str) -> float:
    return float(cell.replace(",", "").removesuffix("min").removesuffix("%").strip())


@pytest.mark.parametrize("row", rows("packed"), ids=lambda row: row[0])
def test_the_capacity_table_of_packed_is_true(row: list[str]) -> None:
    products, slots, calls, share = map(number, row)
    assert slots == slots_wanted(int(products))
    assert calls == math.ceil(products / SEATS)
    assert share == pytest.approx(100 * calls / PER_DAY, abs=0.05)
    if products <= 5000:
        done = replay(Packed(), placed(Packed(), int(products)), days=2)
        assert sum(done.per_hour(1)) == calls


@pytest.mark.parametrize("row", rows("split"), ids=lambda row: row[0])
def test_the_load_table_of_split_is_true(row: list[str]) -> None:
    products, per_hour, calls, minutes, more_calls, more_minutes, share = map(number, row)
    window = Split().retry_window(MIDNIGHT + timedelta(hours=10.5), int(products))
    assert window is not None
    assert per_hour == round(products / 24)
    assert calls == math.ceil(math.ceil(products / 24) / SEATS)
    assert more_calls == calls + window.seats_max // SEATS
    assert (minutes, more_minutes) == (calls / 2, more_calls / 2)
    assert share == pytest.approx(100 * more_calls / PER_HOUR, abs=0.05)


def test_the_parts_of_the_deadline_add_up() -> None:
    early, slack, service, together = (
        [number(cell) * MINUTE for cell in row[1:]] for row in rows("Why reads stay a day apart")
    )
    for column, policy in enumerate((Packed(), Anchored())):
        spare = policy.age_max - timedelta(days=1)
        assert slack[column] == policy.slack
        assert service[column] == SERVICE
        assert together[column] == early[column] + slack[column] + service[column] <= spare
    assert early == [timedelta(hours=1) - Packed().slack - SERVICE, Anchored().early]
    assert (Split().slack, Split().age_max) == (Packed().slack, Packed().age_max)


def test_the_comparison_names_slack_and_deadline_of_every_once_a_day_policy() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("\n## The four compared\n")[2]
    head, *lines = [line for line in text.splitlines() if line.startswith("|")][:11]
    names = [cell.strip(" `") for cell in head.strip("|").split("|")][1:]
    cells = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in lines
    }
    policies: list[Policy] = [POLICIES[name] for name in names]
    assert cells["slack"] == [f"{policy.slack // MINUTE} min" for policy in policies]
    hours = [f"{policy.age_max // timedelta(hours=1)} h" for policy in policies]
    assert cells["oldest read (law L3)"] == hours
    assert set(names) == {policy.name for policy in POLICIES.values() if not policy.is_eager}
