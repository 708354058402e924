"""A seller has one shop and a shop one seller, however its address is written."""

import pytest
from psycopg_pool import ConnectionPool

from headway.app.accounts import connect_account
from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.policies.rolling import Rolling
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.providers.shopify.shops import shop_domain
from headway.store.accounts.connections import ConnectedShops, ShopTally
from headway.store.catalog.listings import Listings
from headway_lab.virtual_clock import VirtualClock

A, B = SellerId("a"), SellerId("b")
FOO = "foo.myshopify.com"


@pytest.fixture
def accounts(pool: ConnectionPool) -> ConnectedShops:
    return ConnectedShops(pool)


@pytest.mark.parametrize(
    "written",
    (
        "foo.myshopify.com",
        " Foo.MyShopify.com. ",
        "https://Foo.myshopify.com/admin",
        "http://foo.myshopify.com?x=1",
        "https://admin.shopify.com/store/foo/products/1",
    ),
)
def test_a_shop_is_known_by_its_host_name(written: str) -> None:
    assert shop_domain(written) == FOO


@pytest.mark.parametrize(
    "written",
    (
        "", "foo", "my shop.myshopify.com", "-foo.myshopify.com", "a@foo.myshopify.com",
        f"{'a' * 64}.myshopify.com", "www.foo.com", "foo.myshopify.co", "foo.myshopify.com.evil.io",
    ),
)  # fmt: skip
def test_what_is_no_shops_address_is_refused_and_gets_no_token(written: str) -> None:
    with pytest.raises(InvalidError, match=r"write it as name\.myshopify\.com"):
        shop_domain(written)


def test_connecting_twice_is_connecting_once(
    accounts: ConnectedShops, pool: ConnectionPool, clock: VirtualClock
) -> None:
    first = connect_account(pool, A, "https://Foo.myshopify.com/admin", now=clock.now())
    assert (first.seller, first.shop, first.status, first.locations) == (A, FOO, "connected", None)
    assert connect_account(pool, A, FOO, now=clock.now()) == first
    assert accounts.list() == [first]
    assert accounts.of_seller(A) == first


def test_a_shop_of_another_seller_is_refused_by_name(
    accounts: ConnectedShops, pool: ConnectionPool, clock: VirtualClock
) -> None:
    connect_account(pool, A, FOO, now=clock.now())
    with pytest.raises(ConflictError, match=r"foo\.myshopify\.com is the shop of a;"):
        connect_account(pool, B, FOO, now=clock.now())
    assert [shop.seller for shop in accounts.list()] == [A]


def test_a_seller_cannot_exchange_a_shop_whose_parts_are_known(
    accounts: ConnectedShops, clock: VirtualClock, pool: ConnectionPool
) -> None:
    connect_account(pool, A, FOO, now=clock.now())
    _know_a_part_of_a(pool, clock)
    connect_account(pool, B, "bar.myshopify.com", now=clock.now())
    accounts.disconnect(A, "closed", now=clock.now())
    for domain in ("bar.myshopify.com", "new.myshopify.com"):
        with pytest.raises(ConflictError, match=r"a has the shop foo\.myshopify\.com; connect"):
            connect_account(pool, A, domain, now=clock.now())
    assert accounts.of_seller(A).status == "disconnected"
    with pytest.raises(ConflictError, match=r"foo\.myshopify\.com is the shop of a;"):
        connect_account(pool, SellerId("c"), FOO, now=clock.now())


def test_a_mistyped_shop_or_seller_is_put_right_by_connecting_again(
    accounts: ConnectedShops, pool: ConnectionPool, clock: VirtualClock
) -> None:
    connect_account(pool, A, "fooo.myshopify.com", now=clock.now())
    with pytest.raises(ConflictError, match=r"a has the shop fooo\.myshopify\.com; connect"):
        connect_account(pool, A, FOO, now=clock.now())
    accounts.disconnect(A, "it is not there", now=clock.now())
    assert connect_account(pool, A, FOO, now=clock.now()).shop == FOO
    accounts.disconnect(A, "of somebody else", now=clock.now())
    assert connect_account(pool, B, FOO, now=clock.now()).seller == B
    assert [(shop.seller, shop.shop) for shop in accounts.list()] == [(B, FOO)]


def test_a_refused_exchange_leaves_the_mistake_as_it_was(
    accounts: ConnectedShops, pool: ConnectionPool, clock: VirtualClock
) -> None:
    connect_account(pool, A, FOO, now=clock.now())
    accounts.disconnect(A, "it is not there", now=clock.now())
    connect_account(pool, B, "bar.myshopify.com", now=clock.now())
    with pytest.raises(ConflictError, match=r"bar\.myshopify\.com is the shop of b;"):
        connect_account(pool, A, "bar.myshopify.com", now=clock.now())
    assert accounts.of_seller(A).reason == "it is not there"


def _know_a_part_of_a(pool: ConnectionPool, clock: VirtualClock) -> None:
    Listings(pool).add([(A, Sku("P0"))], policy=Rolling(), now=clock.now())
    with pool.connection() as connection:
        connection.execute(
            "INSERT INTO listing_state (user_id, sku, applied) VALUES ('a', 'P0', '{}')"
        )


def test_a_disconnected_shop_says_why_and_can_be_connected_again(
    accounts: ConnectedShops, pool: ConnectionPool, clock: VirtualClock
) -> None:
    connect_account(pool, A, FOO, now=clock.now())
    connect_account(pool, B, "bar.myshopify.com", now=clock.now())
    gone = accounts.disconnect(A, "moved away", now=clock.now())
    assert (gone.status, gone.reason) == ("disconnected", "moved away")
    assert accounts.of_seller(B).status == "connected"
    again = connect_account(pool, A, FOO, now=clock.now())
    assert (again.id, again.status, again.reason) == (gone.id, "connected", "")


def test_the_error_for_a_seller_without_a_shop_shows_how_to_connect_one(
    accounts: ConnectedShops, clock: VirtualClock
) -> None:
    message = "a has no shop; connect one with: headway connect SHOP --seller a"
    with pytest.raises(NotFoundError, match=message):
        accounts.of_seller(A)
    with pytest.raises(NotFoundError, match=message):
        accounts.disconnect(A, "", now=clock.now())


def test_what_waits_is_counted_for_each_seller(
    accounts: ConnectedShops, clock: VirtualClock, pool: ConnectionPool
) -> None:
    connect_account(pool, A, FOO, now=clock.now())
    connect_account(pool, B, "bar.myshopify.com", now=clock.now())
    Listings(pool).add([(A, Sku(f"P{n}")) for n in range(5)], policy=Rolling(), now=clock.now())
    states = """
        INSERT INTO listing_state (user_id, sku, push_at, push_failures, held_reason) VALUES
        ('a', 'P0', now(), 0, NULL), ('a', 'P1', now(), 2, NULL), ('a', 'P2', now(), 0, 'why'),
        ('a', 'P3', NULL, 1, 'why')
    """
    with pool.connection() as connection:
        connection.execute(states)
        connection.execute("INSERT INTO product (user_id, sku, shop_sku) VALUES ('a', 'P0', 'P0')")
    assert accounts.tally({A, B}) == {
        A: ShopTally(products=1, waiting=3, failing=1, held=2),
        B: ShopTally(products=0, waiting=0, failing=0, held=0),
    }
