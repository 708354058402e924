"""Listings are called removed only if complete walks agree; a mass removal is held."""

from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.narrowing_setup import Shop, make_shop

from headway.store.accounts.removals import Removals
from headway_lab.platforms import ETSY, PRINTIFY

WALK_EVERY_S = 6 * 3600


def add_listings(shop: Shop, count: int) -> list[Any]:
    is_etsy = hasattr(shop.simulator, "add_listing")
    add = shop.simulator.add_listing if is_etsy else shop.simulator.add_product
    return [add(shop.number) for _ in range(count)]


def remove(shop: Shop, listing_id: Any) -> None:
    is_etsy = hasattr(shop.simulator, "add_listing")
    end = shop.simulator.remove_listing if is_etsy else shop.simulator.remove_product
    end(shop.number, listing_id)


def walk(shop: Shop, count: int = 1) -> None:
    """Let the job walk through the shop, six hours after its last run."""
    for _ in range(count):
        shop.pulls.rows.clock.sleep(WALK_EVERY_S)
        shop.run(hours=0.05)


def removed(shop: Shop) -> set[str]:
    rows = shop.pulls.rows.ask("SELECT external_id FROM listings WHERE state = 'removed'")
    return {id_.partition(":")[0] for (id_,) in rows}


def hold(shop: Shop) -> str | None:
    return shop.pulls.rows.one("SELECT max(held_reason) FROM listing_walks")


@pytest.fixture(params=(ETSY, PRINTIFY))
def shop(request: pytest.FixtureRequest, pool: ConnectionPool) -> Shop:
    return make_shop(pool, request.param)


def begin(shop: Shop, count: int) -> list[Any]:
    ids = add_listings(shop, count)
    shop.add_job("listings")
    shop.run(hours=0.05)
    return ids


def test_a_listing_is_removed_once_two_walks_have_not_shown_it(shop: Shop) -> None:
    ids = begin(shop, 12)
    remove(shop, ids[3])
    walk(shop)
    assert removed(shop) == set(), "one walk is no proof"
    walk(shop)
    assert removed(shop) == {str(ids[3])}
    assert hold(shop) is None


def test_a_list_that_repeats_and_omits_rows_removes_nothing(pool: ConnectionPool) -> None:
    shop = make_shop(pool, ETSY)
    begin(shop, 240)
    shop.simulator.shop(shop.number).has_loose_order = True
    walk(shop, 8)
    assert removed(shop) == set()
    assert shop.pulls.rows.one("SELECT count(*) FROM listings") == 240


@pytest.mark.parametrize("count", (5, 60))
def test_a_list_that_is_served_empty_for_half_a_day_removes_nothing(shop: Shop, count: int) -> None:
    ids = begin(shop, count)
    sick = shop.simulator.shop(shop.number)
    empty = sick.empty_states if hasattr(sick, "empty_states") else sick.empty_lists
    empty.update({"active", "products"})
    if hasattr(sick, "empty_states"):
        shop.simulator.add_listing(shop.number, state="expired")
    walk(shop, 3)
    assert removed(shop) == set()
    reason = hold(shop)
    assert reason
    assert "empty" in reason
    empty.clear()
    walk(shop)
    assert (removed(shop), hold(shop)) == (set(), None)
    remove(shop, ids[0])
    walk(shop, 2)
    assert removed(shop) == {str(ids[0])}


def test_a_mass_removal_is_held_until_five_walks_agree(shop: Shop) -> None:
    ids = begin(shop, 20)
    for listing_id in ids[:15]:
        remove(shop, listing_id)
    walk(shop, 4)
    assert removed(shop) == set()
    reason = hold(shop)
    assert reason
    assert "five complete walks" in reason
    walk(shop)
    assert removed(shop) == set(map(str, ids[:15]))
    assert hold(shop) is None


def decide(shop: Shop, *, is_confirmed: bool) -> int:
    rows = shop.pulls.rows
    (held,) = Removals(rows.pool).some(None, limit=2)
    _, count = Removals(rows.pool).decide(
        held.seller,
        held.platform,
        missing=held.missing,
        is_confirmed=is_confirmed,
        reason="",
        now=rows.clock.now(),
    )
    return count


def test_a_person_who_confirms_a_held_removal_ends_it_at_once(shop: Shop) -> None:
    ids = begin(shop, 20)
    for listing_id in ids[:15]:
        remove(shop, listing_id)
    walk(shop, 2)
    assert decide(shop, is_confirmed=True) >= 15
    assert (removed(shop), hold(shop)) == (set(map(str, ids[:15])), None)
    walk(shop)
    assert (removed(shop), hold(shop)) == (set(map(str, ids[:15])), None)


def test_a_person_who_dismisses_a_held_removal_keeps_the_listings_until_two_more_walks(
    shop: Shop,
) -> None:
    ids = begin(shop, 20)
    for listing_id in ids[:15]:
        remove(shop, listing_id)
    walk(shop, 4)
    assert decide(shop, is_confirmed=False) == 0
    assert (removed(shop), hold(shop)) == (set(), None)
    walk(shop)
    assert (removed(shop), hold(shop)) == (set(), None), "the fifth walk is the first again"
    walk(shop)
    assert removed(shop) == set()
    assert hold(shop)


def test_listings_that_come_back_end_a_hold_and_the_few_that_do_not_are_removed(
    pool: ConnectionPool,
) -> None:
    shop = make_shop(pool, ETSY)
    ids = begin(shop, 40)
    for listing_id in ids[:30]:
        shop.simulator.edit_listing(shop.number, listing_id, state="edit")  # in no list
    walk(shop, 3)
    assert hold(shop)
    for listing_id in ids[5:30]:
        shop.simulator.edit_listing(shop.number, listing_id, state="active")
    walk(shop)
    assert removed(shop) == set(map(str, ids[:5]))
    assert hold(shop) is None


def test_walks_within_four_hours_count_as_one(shop: Shop) -> None:
    ids = begin(shop, 12)
    remove(shop, ids[3])
    for _ in range(3):
        shop.pulls.rows.ask("UPDATE sync_jobs SET next_run_at = %s", shop.pulls.rows.clock.now())
        shop.run(hours=0.2)
    assert removed(shop) == set()
