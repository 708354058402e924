"""The world of the account lane: the same for the same seed, and shaped as sellers are."""

from collections import Counter, defaultdict

import pytest

from headway.core.accounts.jobs import Tier
from headway_lab.platforms import ETSY, PRINTIFY, SHOPIFY
from headway_lab.simulation.accounts.world import (
    DAY_S,
    QUOTAS,
    AccountEventKind,
    AccountWorld,
    account_world,
)


@pytest.fixture(scope="module")
def world() -> AccountWorld:
    return account_world(sellers=200, days=7, seed=1)


def test_one_seed_makes_one_world() -> None:
    first, again, other = (account_world(sellers=10, days=1, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_tiers_and_platforms_come_in_their_shares(world: AccountWorld) -> None:
    tiers = Counter(world.tiers.values())
    assert tiers == {Tier.FREE: 120, Tier.STARTER: 40, Tier.GROWTH: 30, Tier.PRO: 10}
    platforms = Counter(shop.platform for shop in world.shops.values())
    assert 100 <= platforms[ETSY] <= 140
    assert 70 <= platforms[SHOPIFY] <= 110
    assert 55 <= platforms[PRINTIFY] <= 90
    assert {shop.seller for shop in world.shops.values()} == set(world.tiers)


@pytest.mark.parametrize("sellers", (1, 2, 3, 5, 12))
def test_a_small_world_has_as_many_sellers_as_asked_for(sellers: int) -> None:
    assert len(account_world(sellers=sellers, days=1, seed=3).tiers) == sellers


def test_few_sellers_exceed_their_quota_and_some_of_them_upgrade(world: AccountWorld) -> None:
    per_day: Counter[str] = Counter()
    for shop in world.shops.values():
        per_day[shop.seller] += shop.orders_per_day  # type: ignore[assignment]
    greedy = {seller for seller, rate in per_day.items() if rate * 30 > QUOTAS[world.tiers[seller]]}
    assert 3 <= len(greedy) <= 20
    assert {world.tiers[seller] for seller in greedy} == {Tier.FREE}
    upgrades = [event for event in world.events if event.kind is AccountEventKind.UPGRADE]
    assert {world.shops[event.shop].seller for event in upgrades} <= greedy


def test_an_order_is_placed_first_and_a_cancelled_one_never_ships(world: AccountWorld) -> None:
    kinds_by_order: dict[tuple[str, int], list[AccountEventKind]] = defaultdict(list)
    for event in world.events:
        if event.kind in (
            AccountEventKind.ORDER,
            AccountEventKind.SHIP,
            AccountEventKind.DELIVER,
            AccountEventKind.CANCEL,
            AccountEventKind.REFUND,
        ):
            kinds_by_order[event.shop, event.number].append(event.kind)
    assert all(kinds[0] is AccountEventKind.ORDER for kinds in kinds_by_order.values())
    cancelled = [kinds for kinds in kinds_by_order.values() if AccountEventKind.CANCEL in kinds]
    assert 0.02 < len(cancelled) / len(kinds_by_order) < 0.04
    assert all(kinds == [AccountEventKind.ORDER, AccountEventKind.CANCEL] for kinds in cancelled)
    assert any(AccountEventKind.REFUND in kinds for kinds in kinds_by_order.values())


def test_only_what_is_on_offer_is_bought_edited_or_removed(world: AccountWorld) -> None:
    offered: dict[str, set[int]] = defaultdict(set)
    for event in world.events:
        shop_listing = offered[event.shop]
        if event.kind is AccountEventKind.LIST:
            shop_listing.add(event.number)
        elif event.kind is AccountEventKind.EDIT:
            assert event.number in shop_listing
        elif event.kind is AccountEventKind.REMOVE:
            shop_listing.remove(event.number)
            assert shop_listing, "a shop never sells nothing"
        elif event.kind is AccountEventKind.ORDER:
            assert {listing for listing, _ in event.lines} <= shop_listing


def test_history_has_no_webhooks_and_some_of_the_future_come_late_twice_or_never(
    world: AccountWorld,
) -> None:
    assert not any(event.hooks_s for event in world.history)
    assert world.future[-1].at_s < 7 * DAY_S + 10 * 3600
    deliveries = Counter(len(event.hooks_s) for event in world.future)
    assert min(deliveries[0], deliveries[1], deliveries[2]) > 100
    assert max(delay for event in world.future for delay in event.hooks_s) > 3600
