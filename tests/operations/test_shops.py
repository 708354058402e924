"""Shops and tiers."""

import pytest
from tests.operations.room import ACME, BEST, Room

from headway.core.accounts.jobs import PlatformName, Tier
from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError, NotFoundError
from headway.operations.shops import TierBody, set_tier, shops, tier


def test_shops_are_listed_seller_by_seller_and_to_a_seller_the_own(room: Room) -> None:
    whole = shops(room.operator, limit=10).items
    assert [(each.seller, each.platform) for each in whole] == [
        (seller, platform)
        for seller in (ACME, BEST)
        for platform in (PlatformName.SHOPIFY, PlatformName.ETSY)
    ]
    assert (whole[0].tally is None, whole[1].tally is None) == (False, True)
    for number, each in enumerate(whole, start=1):
        assert shops(room.operator, limit=10, cursor=each.cursor).items == whole[number:]
    assert shops(room.seller(BEST), limit=10).items == whole[2:]
    assert shops(room.seller(BEST), limit=10, cursor=whole[2].cursor).items == whole[3:]
    with pytest.raises(InvalidError, match="cursor"):
        shops(room.operator, limit=10, cursor="acme")
    with pytest.raises(NotFoundError, match="no seller nobody"):
        shops(room.operator, seller=SellerId("nobody"), limit=10)


def test_a_new_tier_acts_at_once_and_is_an_event_with_who_set_it(room: Room) -> None:
    assert (
        tier(room.seller(ACME), ACME).tier,
        tier(room.operator, BEST).tier,
    ) == (
        Tier.FREE,
        Tier.FREE,
    )
    for _ in range(2):
        view = set_tier(room.operator, ACME, TierBody(tier=Tier.PRO))
    assert (view.tier, view.orders_quota, view.interval_min) == (Tier.PRO, 5000, 5)
    assert tier(room.seller(ACME), ACME) == view
    told = "SELECT actor, old_value, new_value FROM sync_audit_log WHERE event_type = 'tier_set'"
    assert room.ask(told) == [("tester", {"tier": "free"}, {"tier": "pro"})]
