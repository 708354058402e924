"""Sales channels: how they are found, how a product gets onto them, and what a reply may hide."""

from datetime import UTC, datetime

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.storefront import Gid, InventoryPolicy, PublishWrite, Shop, ShopChannels
from headway.errors import UnreadableError
from headway.providers.shopify.channel_replies import SCOPES, read_channels, read_published
from headway.providers.shopify.replies import read_reply
from headway.providers.shopify.storefront import (
    ShopAccess,
    ShopifyStorefront,
    shop_limit_key,
    store_tokens,
)
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.shopify.shop import SCOPES as ALL_SCOPES
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

DOMAIN = "acme.myshopify.com"
START = datetime(2026, 1, 1, tzinfo=UTC)
VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
ONLINE, POS = Gid("gid://shopify/Publication/1"), Gid("gid://shopify/Publication/2")
WRITES = [
    PublishWrite(sku=Sku("WF1"), product=Gid("gid://shopify/Product/1"), channels=[ONLINE]),
    PublishWrite(sku=Sku("WF2"), product=Gid("gid://shopify/Product/2"), channels=[ONLINE]),
]
GRANTED = '"currentAppInstallation":{"accessScopes":[{"handle":"read_publications"}]}'


class Opened:
    """A simulated shop and a client in front of it."""

    def __init__(self, pool: ConnectionPool, **setup: object) -> None:
        clock = VirtualClock(START)
        self.simulator = ShopifySimulator(clock, shops=[ShopSetup(domain=DOMAIN, **setup)])
        shelf = Credentials(pool)
        store_tokens(
            shelf, VAULT, shop_limit_key("", DOMAIN), clock=clock, access="sim-static-token"
        )
        self.client = ShopifyStorefront(
            Shop(id="1", user_id=SellerId("acme"), domain=DOMAIN),
            url="http://shops.test/{shop}",
            access=ShopAccess(),
            token_store=shelf,
            vault=VAULT,
            clock=clock,
            transport=SimTransport(self.simulator.handle, clock),
        )


@pytest.fixture
def opened(pool: ConnectionPool) -> Opened:
    return Opened(pool)


def channels(nodes: str) -> ShopChannels:
    page = f'{{"nodes":[{nodes}],"pageInfo":{{"hasNextPage":false}}}}'
    text = f'{{"data":{{{GRANTED},"publications":{page}}}}}'
    return read_channels(read_reply(text.encode()))


def test_a_product_is_visible_once_it_is_published_and_not_before(opened: Opened) -> None:
    ids = opened.simulator.seed_product(DOMAIN, "WF1")
    opened.simulator.shop(DOMAIN).edit_channels("WF1", ())
    found = opened.client.channels()
    assert (list(found.ids), found.missing_scopes) == (["Online Store", "Point of Sale"], ())
    gids = list(found.ids.values())
    [hidden] = opened.client.read([Gid(ids.variant)], locations=1, channels=gids)
    assert hidden is not None
    assert hidden.channels == frozenset()
    write = PublishWrite(sku=Sku("WF1"), product=Gid(ids.product), channels=gids[:1])
    [result] = opened.client.publish([write])
    assert result.verdict == "done"
    [shown] = opened.client.find(["WF1"], locations=1, channels=gids).shown["WF1"]
    assert shown.channels == {found.ids["Online Store"]}


def test_a_draft_takes_a_publication_but_is_not_confirmed_as_visible(opened: Opened) -> None:
    ids = opened.simulator.seed_product(DOMAIN, "WF1", status="DRAFT")
    opened.simulator.shop(DOMAIN).edit_channels("WF1", ())
    gid = opened.client.channels().ids["Online Store"]
    write = PublishWrite(sku=Sku("WF1"), product=Gid(ids.product), channels=[gid])
    [result] = opened.client.publish([write])
    assert (result.verdict, "does not show" in result.reason) == ("stale", True)


def test_variants_of_one_product_share_one_publication(opened: Opened) -> None:
    ids = opened.simulator.seed_product(DOMAIN, "WF1")
    opened.simulator.shop(DOMAIN).edit_channels("WF1", ())
    gid = opened.client.channels().ids["Online Store"]
    write = PublishWrite(sku=Sku("WF1"), product=Gid(ids.product), channels=[gid])
    assert [result.verdict for result in opened.client.publish([write, write])] == ["done"] * 2
    assert opened.simulator.double_writes() == []


@pytest.mark.parametrize(
    ("scopes", "missing"),
    (((), SCOPES), (("read_publications",), ("write_publications",))),
)
def test_a_shop_without_the_scopes_names_them_and_is_not_taken_for_refusing_us(
    pool: ConnectionPool, scopes: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    others = [scope for scope in ALL_SCOPES if "publications" not in scope]
    shop = Opened(pool, scopes=[*others, *scopes])
    assert shop.client.channels().missing_scopes == missing
    result = shop.client.publish(WRITES)[0]
    assert (result.verdict, "write_publications" in result.reason) == ("refused", True)


def test_a_variant_that_sells_at_zero_is_read_as_one(opened: Opened) -> None:
    continues = opened.simulator.seed_product(DOMAIN, "WF1", policy="CONTINUE")
    untracked = opened.simulator.seed_product(DOMAIN, "WF2", tracked=False)
    strict = opened.simulator.seed_product(DOMAIN, "WF3")
    gids = [Gid(ids.variant) for ids in (continues, untracked, strict)]
    shown = [variant for variant in opened.client.read(gids, locations=1) if variant]
    assert [variant.inventory_policy for variant in shown] == ["CONTINUE", "DENY", "DENY"]
    assert [variant.sells_at_zero for variant in shown] == [True, True, False]
    assert InventoryPolicy.DENY is shown[2].inventory_policy


def test_the_online_store_is_known_by_its_app_however_it_is_called() -> None:
    app = '{"apps":{"nodes":[{"handle":"online_store"}]},"title":"Channel Catalog 1"}'
    renamed = f'{{"id":"{ONLINE}","name":"Webshop","catalog":{app}}}'
    plain = f'{{"id":"{POS}","name":"Point of Sale","catalog":null}}'
    assert channels(f"{renamed},{plain}").ids == {"Online Store": ONLINE, "Point of Sale": POS}


def test_channels_of_one_name_go_by_their_ids_and_a_shop_may_have_none() -> None:
    first, second = (f'{{"id":"{gid}","name":"Shop"}}' for gid in (ONLINE, POS))
    assert channels(f"{first},{second}").ids == {ONLINE: ONLINE, POS: POS}
    assert channels("").ids == {}
    assert channels("").missing_scopes == ("write_publications",)


def test_a_publication_that_is_gone_does_not_look_like_a_product_that_is_gone() -> None:
    fault = (
        '{"field":["input","0","publicationId"],'
        '"message":"Publication does not exist or is not publishable"}'
    )
    done = '{"publishable":{"c0":true},"userErrors":[]}'
    gone = f'{{"publishable":{{"c0":false}},"userErrors":[{fault}]}}'
    text = f'{{"data":{{"p0":{done},"p1":{gone}}}}}'
    assert [result.verdict for result in read_published(read_reply(text.encode()), WRITES)] == [
        "done",
        "refused",
    ]


def test_a_channel_that_makes_no_sense_is_not_believed() -> None:
    with pytest.raises(UnreadableError):
        channels('{"id":7,"name":"Online Store"}')
