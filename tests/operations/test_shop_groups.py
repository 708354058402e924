"""Shops of one owner: who may act for which, their totals, and publishing in several."""

import pytest
from pydantic import SecretStr
from tests.operations.sample import ACME, BEST, SampleDeployment

from headway.core.access import Principal, Role
from headway.core.accounts.jobs import Tier
from headway.core.catalog.listings import SellerId, Sku
from headway.errors import ConflictError, ForbiddenError, NotFoundError
from headway.operations.callers import caller_of
from headway.operations.listings import products
from headway.operations.publishing import PublishInShopsBody, publish_in_shops
from headway.operations.shop_groups import GroupBody, my_shops, set_shop_group, shop_group
from headway.operations.shops import ConnectBody, TierBody, connect, set_tier, tier

EU, UK = SellerId("acme/eu"), SellerId("acme/uk")
WITH_ACME = GroupBody(main_seller=ACME)
EVENTS = """
SELECT user_id, old_value ->> 'main_seller', new_value ->> 'main_seller', actor
FROM sync_audit_log WHERE event_type = 'shop_grouped' ORDER BY sync_timestamp, user_id
"""


def connect_second(sample: SampleDeployment, seller: SellerId = EU, **more: object) -> None:
    body = {
        "shop": f"{seller.replace('/', '-')}.myshopify.com",
        "seller": seller,
        "main_seller": ACME,
        "access_token": SecretStr("shpat_1"),
        "check": False,
        **more,
    }
    connect(sample.operator, ConnectBody.model_validate(body))


def test_a_second_shop_of_an_owner_is_a_seller_in_the_group_of_the_first(
    sample: SampleDeployment,
) -> None:
    set_tier(sample.operator, ACME, TierBody(tier=Tier.PRO))
    connect_second(sample)
    group = shop_group(sample.operator, EU)
    assert group == my_shops(sample.seller(ACME))
    assert [(shop.seller, shop.is_main, shop.shop) for shop in group.shops] == [
        (ACME, True, group.shops[0].shop),
        (EU, False, "acme-eu.myshopify.com"),
    ]
    assert group.shops[0].tally.waiting > 0
    assert group.totals.waiting == sum(shop.tally.waiting for shop in group.shops)
    assert group.totals.held == group.shops[0].tally.held > 0
    assert tier(sample.operator, EU).tier is Tier.PRO, "it begins with what its owner pays for"
    assert sample.execute(EVENTS) == [(EU, None, ACME, "tester")]
    connect_second(sample)  # a new token changes nothing about the group
    assert len(sample.execute(EVENTS)) == 1


def test_a_key_of_the_main_seller_acts_for_one_shop_at_a_time_and_others_for_none(
    sample: SampleDeployment,
) -> None:
    connect_second(sample)
    acme, best = sample.seller(ACME), sample.seller(BEST)
    eu = acme.for_shop(EU)
    assert (eu.seller, eu.principal.main, eu.for_shop(ACME).seller) == (EU, ACME, ACME)
    assert products(eu, limit=10).items == ()
    assert {row.seller for row in products(acme, limit=200).items} == {ACME}
    for stranger, shop in ((best, EU), (acme, BEST), (sample.seller(EU), ACME)):
        with pytest.raises(ForbiddenError, match="has no shop"):
            stranger.for_shop(shop)
    assert [shop.seller for shop in my_shops(sample.seller(EU)).shops] == [EU]
    reader = Principal(id="r", name="r", role=Role.READER, seller=ACME)
    assert not caller_of(sample.app, reader).for_shop(EU).principal.may("write")
    set_shop_group(sample.operator, EU, GroupBody())
    with pytest.raises(ForbiddenError, match="has no shop"):
        acme.for_shop(EU)


def test_a_group_has_one_level_and_one_main_seller(sample: SampleDeployment) -> None:
    operator = sample.operator
    set_shop_group(operator, EU, WITH_ACME)
    for seller, main, message in (
        (ACME, ACME, "cannot be a shop of itself"),
        (UK, EU, f"{EU} is a shop of {ACME}"),
        (ACME, BEST, f"{ACME} has shops of its own"),
        (EU, BEST, f"{EU} is a shop of {ACME}; separate it first"),
    ):
        with pytest.raises(ConflictError, match=message):
            set_shop_group(operator, seller, GroupBody(main_seller=main))
    with pytest.raises(NotFoundError, match="no seller nobody"):
        set_shop_group(operator, UK, GroupBody(main_seller=SellerId("nobody")))
    with pytest.raises(NotFoundError, match=f"no seller {UK}"):
        shop_group(operator, UK)


def test_a_shop_that_cannot_be_in_the_group_is_not_connected(sample: SampleDeployment) -> None:
    with pytest.raises(ConflictError, match="cannot be a shop of itself"):
        connect_second(sample, ACME, shop="other.myshopify.com")
    with pytest.raises(ConflictError, match="is the shop of"):
        connect_second(sample, EU, shop=shop_group(sample.operator, BEST).shops[0].shop)
    assert [shop.seller for shop in my_shops(sample.seller(ACME)).shops] == [ACME]


def test_parts_are_published_in_several_shops_and_the_supplier_is_read_once(
    sample: SampleDeployment,
) -> None:
    connect_second(sample)
    acme = sample.seller(ACME)
    body = PublishInShopsBody(part_numbers=[Sku("NEW=1")], sellers=[ACME, EU, EU])
    shops = publish_in_shops(acme, body).shops
    assert [(shop.seller, shop.error) for shop in shops] == [(ACME, ""), (EU, "")]
    seats = sample.execute(
        "SELECT count(*), count(DISTINCT sku) FROM product_sync_schedule WHERE sku = 'NEW=1'"
    )
    assert seats == [(2, 1)]
    set_shop_group(sample.operator, UK, WITH_ACME)
    some = PublishInShopsBody(part_numbers=[Sku("NEW=2")], sellers=[UK, EU])
    first, second = publish_in_shops(acme, some).shops
    assert (first.batch, "connect a shop first" in first.error) == (None, True)
    assert second.batch is not None
    with pytest.raises(ConflictError, match=f"{UK}: .*connect a shop first"):
        publish_in_shops(acme, PublishInShopsBody(part_numbers=[Sku("NEW=3")], sellers=[UK]))


def test_nothing_is_published_if_one_of_the_shops_is_anothers(sample: SampleDeployment) -> None:
    body = PublishInShopsBody(part_numbers=[Sku("NEW=1")], sellers=[ACME, BEST])
    with pytest.raises(ForbiddenError):
        publish_in_shops(sample.seller(ACME), body)
    assert sample.execute("SELECT count(*) FROM product_staging WHERE sku = 'NEW=1'") == [(0,)]
