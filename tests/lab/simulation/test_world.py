"""The steady world: repeatable, believable, and never the same part twice."""

import hashlib
import re
from dataclasses import replace

from headway_lab.simulation.world import MAPPED, UNMAPPED, seeded_world
from headway_lab.simulators.boeing import SupplierPart


def test_the_same_seed_gives_the_same_world_and_another_seed_another() -> None:
    assert seeded_world(products=50, days=2, seed=7) == seeded_world(products=50, days=2, seed=7)
    assert seeded_world(products=50, days=2, seed=7) != seeded_world(products=50, days=2, seed=8)


def test_a_seed_gives_the_same_world_in_every_release() -> None:
    world = seeded_world(products=50, days=2, seed=7)
    facts = [
        (change.at_s, change.part.sku, change.part.net_price, sorted(change.part.stock.items()))
        for change in world.changes
    ]
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()
    assert (world.name, len(facts), digest[:16]) == ("steady", 5, "1bdb186bafca5bbe")


def test_part_numbers_differ_and_look_like_the_suppliers() -> None:
    world = seeded_world(products=2000, days=0.01, seed=1)
    assert len(world.start) == 2000
    assert all(re.fullmatch(r"[0-9A-Z-]+(=[0-9A-Z]{2})?", sku) for sku in world.start)
    assert sum("=" in sku for sku in world.start) > 1000


def test_about_one_part_in_twenty_changes_a_day_and_a_few_change_all_the_time() -> None:
    world = seeded_world(products=4000, days=10, seed=1)
    per_part = dict.fromkeys(world.start, 0)
    for change in world.changes:
        per_part[change.part.sku] += 1
    days = {(change.part.sku, change.at_s // 86_400) for change in world.changes}
    assert 0.045 < len(days) / 4000 / 10 < 0.055
    assert sum(count == 0 for count in per_part.values()) > 2500
    assert max(per_part.values()) >= 6


def test_changes_come_in_order_each_moves_something_and_prices_stay_above_zero() -> None:
    world = seeded_world(products=1000, days=10, seed=3)
    parts = dict(world.start)
    last_s = 0.0
    for change in world.changes:
        assert last_s <= change.at_s < 10 * 86_400
        assert change.part != parts[change.part.sku]
        assert change.part.net_price > 0
        assert change.part.list_price > 0
        parts[change.part.sku] = change.part
        last_s = change.at_s


def test_the_true_rates_are_those_of_the_changes_that_a_shop_shows() -> None:
    world = seeded_world(products=4000, days=20, seed=2)
    assert world.rates_per_day is not None
    assert world.rates_per_day.keys() == world.start.keys()
    parts = dict(world.start)
    shown = 0
    for change in world.changes:
        shown += shop_fields(parts[change.part.sku]) != shop_fields(change.part)
        parts[change.part.sku] = change.part
    expected = sum(world.rates_per_day.values()) * 20
    assert shown < len(world.changes)
    assert abs(shown - expected) < 4 * expected**0.5


def shop_fields(part: SupplierPart) -> tuple[object, ...]:
    return part.net_price, {place: part.stock.get(place, 0) for place in MAPPED}


def test_some_stock_is_at_places_where_the_shop_does_not_sell() -> None:
    world = seeded_world(products=300, days=0.01, seed=1)
    places = {place for part in world.start.values() for place in part.stock}
    assert places == {*MAPPED, UNMAPPED}


def test_what_happens_after_the_end_is_left_out() -> None:
    world = seeded_world(products=500, days=4, seed=1)
    cut = world.until(86_400)
    assert 0 < len(cut.changes) < len(world.changes)
    assert replace(cut, changes=world.changes) == world
