"""Every world: repeatable, in order, as busy as the documents say; and each as its name says."""

from collections import Counter

import pytest

from headway.core.timetable.optimum import DAY_MIN
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.world import DAY_S, World
from headway_lab.simulation.worlds import WORLDS, faults_of

every_world = pytest.mark.parametrize("name", WORLDS)


def drawn(name: str, *, products: int = 400, days: float = 10, seed: int = 3) -> World:
    return WORLDS[name](products=products, days=days, seed=seed)


@every_world
def test_the_same_seed_gives_the_same_world_and_another_seed_another(name: str) -> None:
    assert drawn(name) == drawn(name)
    assert drawn(name) != drawn(name, seed=4)


@every_world
def test_a_world_is_called_by_its_name_and_starts_with_the_catalog_of_its_seed(name: str) -> None:
    world = drawn(name)
    assert world.name == name
    assert list(world.start) == list(drawn("steady").start)


@every_world
@pytest.mark.parametrize("days", (0.3, 10))
def test_changes_come_in_order_within_the_days_and_each_moves_something(
    name: str, days: float
) -> None:
    world = drawn(name, products=1500, days=days)
    parts, last_s = dict(world.start), 0.0
    for change in world.changes:
        old = parts[change.part.sku]
        assert last_s <= change.at_s <= days * DAY_S
        assert (change.part.net_price, change.part.stock) != (old.net_price, old.stock)
        assert change.part.family == old.family
        assert change.part.net_price > 0
        parts[change.part.sku], last_s = change.part, change.at_s


@every_world
def test_about_one_part_in_twenty_changes_within_a_day(name: str) -> None:
    worlds = [drawn(name, products=2500, days=20, seed=seed) for seed in range(4)]
    days = [
        {(change.part.sku, change.at_s // DAY_S) for change in world.changes} for world in worlds
    ]
    assert sum(map(len, days)) / 4 / 2500 / 20 == pytest.approx(0.05, rel=0.3)


def test_the_hour_of_the_day_matters_in_a_diurnal_world_and_not_in_a_steady_one() -> None:
    def share_by_day(name: str) -> float:
        changes = drawn(name, products=3000, days=10).changes
        return sum(8 <= change.at_s % DAY_S / 3600 < 18 for change in changes) / len(changes)

    assert share_by_day("steady") == pytest.approx(10 / 24, abs=0.05)
    assert share_by_day("diurnal") > 0.7


def test_true_rates_are_known_where_they_are_numbers() -> None:
    known = {name for name in WORLDS if drawn(name).rates_per_day is not None}
    assert known == {"steady", "diurnal", "equal", "faulty"}
    rates = drawn("equal").rates_per_day
    assert rates is not None
    assert len(set(rates.values())) == 1


def test_in_a_drifting_world_a_busy_part_does_not_stay_busy() -> None:
    def busiest_later(name: str) -> float:
        """Return the share of later changes that the busiest parts of the first days make."""
        changes = drawn(name, products=3000, days=40).changes
        early = Counter(change.part.sku for change in changes if change.at_s < 10 * DAY_S)
        late = Counter(change.part.sku for change in changes if change.at_s > 30 * DAY_S)
        return sum(late[sku] for sku, _ in early.most_common(150)) / sum(late.values())

    assert busiest_later("steady") > 0.2
    assert busiest_later("drifting") < 0.12


def test_rates_that_drift_are_unequal_all_the_same() -> None:
    def busiest(name: str) -> float:
        counts = Counter(change.part.sku for change in drawn(name, products=3000, days=10).changes)
        return sum(count for _, count in counts.most_common(50)) / counts.total()

    assert busiest("drifting") > 1.5 * busiest("equal")


def test_a_faulty_world_is_the_steady_one_with_a_stated_mix_of_faults() -> None:
    faulty, steady = drawn("faulty"), drawn("steady")
    assert (faulty.start, faulty.changes) == (steady.start, steady.changes)
    faults = parse_faults(faulty.faults)
    assert sum(faults.shares.values()) == pytest.approx(0.02)
    assert {outage.end_s - outage.start_s for outage in faults.outages} == {90 * 60}
    assert [outage.start_s // DAY_S for outage in faults.outages] == [0, 3, 6, 9]
    assert faults.vanish == ((1, 6 * 3600),)
    assert not steady.faults


@pytest.mark.parametrize(("products", "days"), ((1, 0.01), (5, 1), (28_800, 365)))
def test_the_faults_fit_any_catalog_and_any_days(products: int, days: float) -> None:
    faults = parse_faults(faults_of(products, days))
    assert all(outage.start_s < days * DAY_S for outage in faults.outages)
    assert 1 <= faults.vanish[0][0] <= products


def test_days_are_the_same_everywhere() -> None:
    assert DAY_MIN * 60 == DAY_S
