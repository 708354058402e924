"""List shops; read and set tiers."""

import pytest
from tests.operations.sample import ACME, BEST, SampleDeployment

from headway.core.accounts.jobs import Tier
from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError, NotFoundError
from headway.operations.shops import TierBody, set_tier, shops, tier
from headway_lab.platforms import ETSY, SHOPIFY


def test_shops_are_listed_by_seller_and_a_seller_sees_only_its_own(
    sample: SampleDeployment,
) -> None:
    all_shops = shops(sample.operator, limit=10).items
    assert [(shop.seller, shop.platform) for shop in all_shops] == [
        (seller, platform) for seller in (ACME, BEST) for platform in (SHOPIFY, ETSY)
    ]
    assert (all_shops[0].tally is None, all_shops[1].tally is None) == (False, True)
    for number, shop in enumerate(all_shops, start=1):
        assert shops(sample.operator, limit=10, cursor=shop.cursor).items == all_shops[number:]
    assert shops(sample.seller(BEST), limit=10).items == all_shops[2:]
    assert shops(sample.seller(BEST), limit=10, cursor=all_shops[2].cursor).items == all_shops[3:]
    with pytest.raises(InvalidError, match="cursor"):
        shops(sample.operator, limit=10, cursor="acme")
    with pytest.raises(NotFoundError, match="no seller nobody"):
        shops(sample.operator, seller=SellerId("nobody"), limit=10)


def test_a_new_tier_applies_at_once_and_is_logged_with_its_actor(sample: SampleDeployment) -> None:
    assert (
        tier(sample.seller(ACME), ACME).tier,
        tier(sample.operator, BEST).tier,
    ) == (
        Tier.FREE,
        Tier.FREE,
    )
    for _ in range(2):
        view = set_tier(sample.operator, ACME, TierBody(tier=Tier.PRO))
    assert (view.tier, view.orders_quota, view.interval_min) == (Tier.PRO, 5000, 5)
    assert tier(sample.seller(ACME), ACME) == view
    query = "SELECT actor, old_value, new_value FROM sync_audit_log WHERE event_type = 'tier_set'"
    assert sample.execute(query) == [("tester", {"tier": "free"}, {"tier": "pro"})]
