"""Every page of every list: each listing once, none forgotten, found by just what it holds."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import ProductState, SellerId, Sku
from headway.errors import InvalidError
from headway.store.access.isolation import TenantPool
from headway.store.catalog.product_list import ProductQueries, ProductView
from headway.store.catalog.search import Search

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WAYS = {
    "looked up": Search(probe=1, common=0),
    "on the way": Search(probe=0),
    "as it is": Search(),
}

ENTER = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, last_successful_sync,
  consecutive_failures, is_active, sync_status, lease_owner, lease_until, is_paused,
  removed_at)
VALUES (%(user_id)s, %(sku)s, 3, %(now)s, %(read_at)s, %(failures)s, %(is_active)s, %(status)s,
  %(owner)s, %(lease_until)s, %(is_paused)s, %(removed_at)s)
"""
STOPPED = {ProductState.PARKED, ProductState.REMOVED, ProductState.INACTIVE}
NAME = "INSERT INTO product (user_id, sku, shop_sku, title) VALUES (%s, %s, %s, %s)"
TRUTH = """
SELECT row.user_id, row.sku FROM product_sync_schedule AS row LEFT JOIN product USING (user_id, sku)
WHERE (row.sku ILIKE %(like)s OR product.shop_sku ILIKE %(like)s OR product.title ILIKE %(like)s)
"""
Key = tuple[str, str]

pieces = st.text("aAbB1=/ %_", max_size=5)
skus = st.text("aAbB1=/ %_", min_size=1, max_size=6).filter(lambda text: text == text.strip())
rows = st.fixed_dictionaries(
    {
        "user_id": st.sampled_from(("acme", "Bolt", "cargo")),
        "sku": skus,
        "shop_sku": skus,
        "title": pieces,
        "state": st.sampled_from(ProductState),
        "age_h": st.sampled_from((0, 1, 23, 24, 25, 100)),
    }
)
catalogs = st.lists(rows, max_size=25, unique_by=lambda row: (row["user_id"], row["sku"]))


def enter(pool: ConnectionPool, row: dict[str, Any]) -> None:
    state, is_unread = row["state"], row["state"] is ProductState.UNREAD
    aged = {ProductState.FRESH: 1, ProductState.STALE: 24 + row["age_h"]}.get(state, row["age_h"])
    values = {
        "user_id": row["user_id"],
        "sku": row["sku"],
        "now": NOW,
        "read_at": None if is_unread else NOW - aged * HOUR,
        "failures": 2
        if state in {ProductState.FAILING, ProductState.PARKED, ProductState.PAUSED}
        else 0,
        "is_active": state not in STOPPED,
        "removed_at": NOW if state is ProductState.REMOVED else None,
        "status": {ProductState.PARKED: "parked", ProductState.READING: "syncing"}.get(
            state, "success"
        ),
        "owner": "w" if state is ProductState.READING else None,
        "lease_until": NOW if state is ProductState.READING else None,
        # Whatever it was doing: it is what a person did that counts.
        "is_paused": state is ProductState.PAUSED,
    }
    with pool.connection() as connection:
        connection.execute(ENTER, values)


def fill(pool: ConnectionPool, catalog: list[dict[str, Any]]) -> None:
    with pool.connection() as connection:
        connection.execute("TRUNCATE product_sync_schedule, product, product_staging CASCADE")
        names: set[Key] = set()
        for number, row in enumerate(catalog):
            key = (row["user_id"], row["shop_sku"])
            # Some names come before their listing does, as an import brings them; some after it.
            if number % 2:
                enter(pool, row)
            if number % 3 and key not in names:
                names.add(key)
                connection.execute(
                    NAME, (row["user_id"], row["sku"], row["shop_sku"], row["title"])
                )
            if not number % 2:
                enter(pool, row)


def leaf(views: ProductQueries, **filters: Any) -> Iterator[ProductView]:
    """Go through all pages."""
    cursor: str | None = None
    for _ in range(500):
        page = views.page(NOW, cursor=cursor, **filters)
        assert len(page.items) <= filters["limit"]
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
    raise AssertionError("it never ends")


def keys(views: list[ProductView]) -> list[Key]:
    return [(view.seller, view.sku) for view in views]


@pytest.mark.parametrize("way", WAYS)
@given(
    catalog=catalogs,
    q=pieces,
    state=st.none() | st.sampled_from(ProductState),
    seller=st.sampled_from((None, SellerId("acme"), SellerId("Bolt"), SellerId("nobody"))),
    limit=st.integers(1, 7),
    walk=st.integers(1, 9),
)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_pages_hold_each_listing_once_and_find_what_ilike_finds(
    pool: ConnectionPool,
    *,
    way: str,
    catalog: list[dict[str, Any]],
    q: str,
    state: ProductState | None,
    seller: SellerId | None,
    limit: int,
    walk: int,
) -> None:
    fill(pool, catalog)
    escaped = q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    with pool.connection() as connection:
        held = set(connection.execute(TRUTH, {"like": f"%{escaped}%"}).fetchall())
    expected = [
        (row["user_id"], row["sku"])
        for row in catalog
        if (row["user_id"], row["sku"]) in held
        and (state is None or row["state"] is state)
        and seller in {None, row["user_id"]}
    ]
    views = ProductQueries(pool, search=WAYS[way], walk_max=walk)
    products = list(leaf(views, q=q, state=state, seller=seller, limit=limit))
    assert sorted(keys(products)) == sorted(expected)
    states = {(row["user_id"], row["sku"]): row["state"] for row in catalog}
    assert all(view.state is states[view.seller, view.sku] for view in products)


def test_a_listing_shows_both_sides_and_what_comes_next(pool: ConnectionPool) -> None:
    enter(pool, {"user_id": "acme", "sku": "P=1/2", "state": ProductState.STALE, "age_h": 1})
    with pool.connection() as connection:
        connection.execute(NAME, ("acme", "P=1/2", "P", "Bolt"))
        connection.execute(
            """INSERT INTO listing_state (user_id, sku, desired, applied, held_reason, push_at)
            VALUES ('acme', 'P=1/2', '{"price": "12.50", "quantities": {"Dallas": 1, "Miami": 2}}',
              '{"price": "11.00", "quantities": {"Dallas": 4}}', 'why', %s)""",
            (NOW,),
        )
    (view,) = ProductQueries(pool).of_sku(NOW, Sku("P=1/2"), seller=SellerId("acme"))
    assert (view.shop_sku, view.title, view.slot, view.state) == ("P", "Bolt", "03:00", "stale")
    assert (str(view.shop_price), view.shop_quantity) == ("11.00", 4)
    assert (str(view.desired_price), view.desired_quantity) == ("12.50", 3)
    assert (view.held_reason, view.push_at, view.due_at) == ("why", NOW, NOW)
    assert ProductQueries(pool).of_sku(NOW, Sku("P=1/2"), seller=SellerId("bolt")) == ()


def test_what_begins_with_the_text_comes_first(pool: ConnectionPool) -> None:
    for sku in ("XAB1", "AB2", "ab1", "C"):
        enter(pool, {"user_id": "acme", "sku": sku, "state": ProductState.FRESH, "age_h": 1})
    for search in WAYS.values():
        page = ProductQueries(pool, search=search).page(NOW, q="AB")
        assert [view.sku for view in page.items] == ["ab1", "AB2", "XAB1"]


def test_a_part_on_its_way_into_the_shop_is_found_by_its_title(pool: ConnectionPool) -> None:
    enter(pool, {"user_id": "acme", "sku": "P1", "state": ProductState.UNREAD, "age_h": 0})
    with pool.connection() as connection:
        connection.execute(
            "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id, title)"
            " VALUES ('acme', 'P1', 'S1', gen_random_uuid(), 'Hex bolt')"
        )
        assert [view.title for view in ProductQueries(pool).page(NOW, q="x BO").items] == [
            "Hex bolt"
        ]
        connection.execute("DELETE FROM product_staging")
    assert ProductQueries(pool).page(NOW, q="x BO").items == ()


def test_a_cursor_of_another_list_is_refused(pool: ConnectionPool) -> None:
    for sku in ("P1", "P2"):
        enter(pool, {"user_id": "acme", "sku": sku, "state": ProductState.FRESH, "age_h": 1})
    views = ProductQueries(pool)
    cursor = views.page(NOW, state=ProductState.FRESH, limit=1).next_cursor
    for filters in ({"state": ProductState.STALE}, {"q": "P"}, {"seller": SellerId("acme")}, {}):
        with pytest.raises(InvalidError, match=r"^cursor: "):
            views.page(NOW, cursor=cursor, **filters)


@pytest.mark.parametrize("q", ("a" * 201, "a\0b", "a\nb", "\ud800"))
def test_what_cannot_be_searched_for_is_refused(pool: ConnectionPool, q: str) -> None:
    with pytest.raises(InvalidError, match=r"^q: "):
        ProductQueries(pool).page(NOW, q=q)


@pytest.mark.parametrize("q", ("é", "\\", "%", "'", "_", "日本", "🙂"))
def test_any_printable_text_may_be_searched_for(pool: ConnectionPool, q: str) -> None:
    enter(pool, {"user_id": "acme", "sku": f"P{q}", "state": ProductState.FRESH, "age_h": 1})
    enter(pool, {"user_id": "acme", "sku": q, "state": ProductState.FRESH, "age_h": 1})
    for search in WAYS.values():
        page = ProductQueries(pool, search=search).page(NOW, q=q)
        assert [view.sku for view in page.items] == [q, f"P{q}"]


def test_tenant_isolation_hides_other_sellers_even_if_the_query_names_none(
    pool: ConnectionPool,
) -> None:
    for seller in ("acme", "bolt"):
        for sku in ("XPART1", "PART2"):
            enter(pool, {"user_id": seller, "sku": sku, "state": ProductState.FRESH, "age_h": 1})
    acme = SellerId("acme")
    walled = TenantPool(pool, actor="test", seller=acme)
    for search in WAYS.values():
        views = ProductQueries(walled, search=search)
        for state, seller in itertools.product((None, ProductState.FRESH), (None, acme)):
            products = list(leaf(views, q="part", state=state, seller=seller, limit=1))
            assert sorted(keys(products)) == [("acme", "PART2"), ("acme", "XPART1")]
            assert not list(leaf(views, q="part", seller=SellerId("bolt"), limit=1))
    with TenantPool(pool, actor="test", seller=SellerId("")).connection() as connection:
        products = connection.execute(
            "SELECT * FROM listing_search_matches('part', NULL)"
        ).fetchall()
    assert products == []


def test_a_seller_who_publishes_is_found_by_the_new_name(pool: ConnectionPool) -> None:
    enter(pool, {"user_id": "acme", "sku": "P1", "state": ProductState.UNREAD, "age_h": 0})
    with TenantPool(pool, actor="test", seller=SellerId("acme")).connection() as connection:
        connection.execute(
            "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id)"
            " VALUES ('acme', 'P1', 'MINE-1', gen_random_uuid())"
        )
    assert len(ProductQueries(pool).page(NOW, q="ine-").items) == 1


@pytest.mark.parametrize("state", (None, ProductState.FRESH))
def test_a_page_that_looked_far_enough_says_where_to_go_on(
    pool: ConnectionPool, state: ProductState | None
) -> None:
    for number in range(12):
        enter(
            pool, {"user_id": "acme", "sku": f"xp{number}", "state": ProductState.FRESH, "age_h": 1}
        )
    views = ProductQueries(pool, search=WAYS["on the way"], walk_max=3)
    none = views.page(NOW, q="p1x", state=state, limit=2)
    assert none.items == ()
    assert none.next_cursor is not None
    for limit in (1, 2, 3, 4, 20):
        products = list(leaf(views, q="p", state=state, limit=limit))
        assert sorted(keys(products)) == sorted(("acme", f"xp{number}") for number in range(12))
    assert not list(leaf(views, q="p1x", state=state, limit=2))


def test_a_day_old_to_the_second_is_stale_in_the_list_and_by_name(pool: ConnectionPool) -> None:
    enter(pool, {"user_id": "acme", "sku": "P1", "state": ProductState.STALE, "age_h": 0})
    views = ProductQueries(pool)
    assert [view.state for view in views.page(NOW, state=ProductState.STALE).items] == [
        ProductState.STALE
    ]
    assert views.page(NOW, state=ProductState.FRESH).items == ()
    just_before = NOW - timedelta(microseconds=1)
    assert [view.state for view in views.page(just_before, state=ProductState.FRESH).items] == [
        "fresh"
    ]
