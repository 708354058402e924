"""Price lists change about half of a family at once; stock moves come in bursts."""

from collections import Counter, defaultdict

from headway_lab.simulation.world import World
from headway_lab.simulation.worlds import bursty_world, mislabelled_world


def big_moments(world: World) -> list[Counter[str]]:
    """Return, for each moment at which many parts moved, how many of each family did."""
    moments: dict[float, Counter[str]] = defaultdict(Counter)
    for change in world.changes:
        moments[change.at_s][change.part.family] += 1
    return [families for families in moments.values() if families.total() >= 10]


def sizes(world: World) -> Counter[str]:
    return Counter(part.family for part in world.start.values())


def test_a_list_hits_about_half_of_one_family_by_one_factor() -> None:
    world = bursty_world(products=5000, days=10, seed=1)
    lists = big_moments(world)
    assert len(lists) > 5
    assert all(len(families) == 1 for families in lists)
    hits = sum(families.total() for families in lists)
    members = sum(sizes(world)[family] for families in lists for family in families)
    assert 0.45 < hits / members < 0.55


def test_about_a_third_of_all_changes_come_from_lists() -> None:
    worlds = [bursty_world(products=3000, days=20, seed=seed) for seed in range(4)]
    listed = sum(families.total() for world in worlds for families in big_moments(world))
    assert 0.25 < listed / sum(len(world.changes) for world in worlds) < 0.45


def test_families_differ_in_size_and_none_is_nearly_everything() -> None:
    counts = sorted(sizes(bursty_world(products=5000, days=0.1, seed=1)).values())
    assert len(counts) > 20
    assert counts[-1] > 8 * counts[0]
    assert counts[-1] < 1000


def test_a_part_whose_stock_moved_moves_again_soon() -> None:
    world = bursty_world(products=4000, days=20, seed=2)
    listed = {at_s for at_s, count in Counter(c.at_s for c in world.changes).items() if count > 1}
    last_s: dict[str, float] = {}
    gaps_s = []
    for change in world.changes:
        if change.at_s in listed:
            continue
        sku = change.part.sku
        if sku in last_s:
            gaps_s.append(change.at_s - last_s[sku])
        last_s[sku] = change.at_s
    assert sum(gap_s < 6 * 3600 for gap_s in gaps_s) > len(gaps_s) / 2


def test_wrong_labels_do_not_show_which_parts_move_together() -> None:
    bursty = bursty_world(products=5000, days=10, seed=1)
    wrong = mislabelled_world(products=5000, days=10, seed=1)
    assert sizes(wrong) == sizes(bursty)
    assert [change.at_s for change in wrong.changes] == [change.at_s for change in bursty.changes]
    assert [change.part.stock for change in wrong.changes] == [
        change.part.stock for change in bursty.changes
    ]
    largest = [max(families.values()) / families.total() for families in big_moments(wrong)]
    assert max(largest) < 0.6
