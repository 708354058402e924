"""A page goes into the warehouse whole, any number of times, and only into its own account."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection
from psycopg_pool import ConnectionPool

from headway.core.accounts.jobs import Account, DataKind, PlatformName, Tier
from headway.core.accounts.pagination import Page, PageStep
from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Payment,
    Records,
    Refund,
    Shipment,
    ShopListing,
    Unreadable,
)
from headway.core.catalog.listings import CLOCKS_APART_MAX, SellerId
from headway.errors import InvariantError
from headway.store.accounts.warehouse import Warehouse, write
from headway_lab.platforms import SHOPIFY

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
QUOTAS = {Tier.FREE: 5, Tier.STARTER: 300, Tier.GROWTH: 1500, Tier.PRO: 5000}
LINE = LineItem(external_id="L1", quantity=2, price=Decimal("4.50"), currency="EUR", sku="S")
PUSH_BATCH = Shipment(external_id="P1", carrier="dhl", shipped_at=NOW)
REFUND = Refund(external_id="R1", amount=Decimal("1.10"), currency="EUR")
ORDER = Order(
    external_id="1",
    status="paid",
    is_open=True,
    currency="EUR",
    total=Decimal("9.00"),
    placed_at=NOW - DAY,
    line_items=(LINE,),
    shipments=(PUSH_BATCH,),
    refunds=(REFUND,),
)
LISTING = ShopListing(external_id="7", state="active", price=Decimal("4.5"), quantity=3)


def account(pool: ConnectionPool, seller: str = "a", platform: str = "etsy") -> Account:
    with pool.connection() as connection:
        row = connection.execute(
            "INSERT INTO connected_accounts (user_id, platform, shop) VALUES (%s, %s, %s)"
            " RETURNING id::text",
            (seller, platform, f"{seller}-{platform}"),
        ).fetchone()
    assert row is not None
    return Account(
        id=row[0],
        user_id=SellerId(seller),
        platform=PlatformName(platform),
        shop=f"{seller}-{platform}",
    )


@pytest.fixture
def mine(pool: ConnectionPool) -> Account:
    return account(pool)


@pytest.fixture
def warehouse(pool: ConnectionPool) -> Warehouse:
    return Warehouse(pool)


def put(
    pool: ConnectionPool,
    owner: Account,
    *,
    now: datetime = NOW,
    kind: DataKind = DataKind.ORDERS,
    missing: Sequence[str] = (),
    step: PageStep | None = None,
    asked_at: datetime | None = None,
    **records: Any,
) -> None:
    page = Page(records=Records(**records), missing=tuple(missing))
    with pool.connection() as connection, connection.transaction():
        write(
            connection, owner, page, step or PageStep(cursor={}), kind=kind,
            asked_at=asked_at or now,
            now=now,
        )  # fmt: skip


def counted(connection: Connection[Any]) -> tuple[Any, ...] | None:
    return connection.execute("SELECT orders_month, orders_count FROM profiles").fetchone()


def test_an_order_is_stored_with_all_it_holds_and_its_money_exact(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    put(pool, mine, orders=(replace(ORDER, total=Decimal("12345678901234567.89")),))
    rows = warehouse.rows(mine.id)
    order = rows["orders"]["1",]
    assert (order["total"], order["placed_at"]) == (Decimal("12345678901234567.89"), NOW - DAY)
    assert (order["user_id"], order["platform"], order["subtotal"]) == ("a", "etsy", None)
    assert order["checked_at"] == order["created_at"] == order["updated_at"] == NOW
    assert rows["line_items"]["1", "L1"]["price"] == Decimal("4.50")
    assert rows["shipments"]["1", "P1"]["shipped_at"] == NOW
    assert rows["refunds"]["1", "R1"]["amount"] == Decimal("1.10")


def test_what_an_order_no_longer_holds_is_deleted_and_others_keep_theirs(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    other = replace(ORDER, external_id="2")
    put(pool, mine, orders=(ORDER, other))
    changed = replace(ORDER, line_items=(replace(LINE, external_id="L2"),), refunds=())
    put(pool, mine, orders=(changed,), now=NOW + MINUTE)
    rows = warehouse.rows(mine.id)
    assert sorted(rows["line_items"]) == [("1", "L2"), ("2", "L1")]
    assert sorted(rows["refunds"]) == [("2", "R1")]
    assert rows["orders"]["1",]["updated_at"] == NOW + MINUTE
    assert rows["orders"]["2",]["updated_at"] == NOW


def test_a_repeat_moves_no_time_but_that_of_the_last_look_at_what_is_open(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    closed = replace(ORDER, external_id="2", is_open=False)
    payment = Payment(external_id="9", kind="sale", amount=Decimal(1), currency="EUR", paid_at=NOW)
    page: dict[str, Any] = {
        "orders": (ORDER, closed),
        "listings": (LISTING,),
        "customers": (Customer(external_id="5", name="Ada"),),
        "payments": (payment,),
    }
    put(pool, mine, **page)
    before = warehouse.rows(mine.id)
    written = "SELECT ctid::text FROM {} WHERE external_id = '{}'"
    places = [("orders", "2"), ("line_items", "L1"), ("customers", "5"), ("payments", "9")]
    with pool.connection() as connection:
        was = [connection.execute(written.format(*place)).fetchall() for place in places]
        put(pool, mine, now=NOW + MINUTE, **page)
        now = [connection.execute(written.format(*place)).fetchall() for place in places]
    assert was == now, "an unchanged row was written again"
    before["orders"]["1",]["checked_at"] = NOW + MINUTE
    before["listings"]["7",]["checked_at"] = NOW + MINUTE
    assert warehouse.rows(mine.id) == before


def test_a_page_may_show_a_record_twice_and_the_later_one_counts(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    twice = (ORDER, replace(ORDER, status="shipped", line_items=(LINE, replace(LINE, quantity=3))))
    put(pool, mine, orders=twice)
    rows = warehouse.rows(mine.id)
    assert rows["orders"]["1",]["status"] == "shipped"
    assert rows["line_items"]["1", "L1"]["quantity"] == 3


def test_an_older_word_of_a_customer_does_not_replace_a_newer_one(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    new = Customer(external_id="5", name="Ada Lovelace", modified_at=NOW)
    old = Customer(external_id="5", name="Ada Byron", modified_at=NOW - DAY)
    put(pool, mine, customers=(new, old))
    put(pool, mine, customers=(old,), now=NOW + MINUTE)
    row = warehouse.rows(mine.id)["customers"]["5",]
    assert (row["name"], row["updated_at"]) == ("Ada Lovelace", NOW)
    put(pool, mine, customers=(Customer(external_id="5", name="Countess"),), now=NOW + MINUTE)
    row = warehouse.rows(mine.id)["customers"]["5",]
    assert (row["name"], row["modified_at"]) == ("Countess", NOW)


def test_what_makes_no_sense_is_kept_as_it_came_and_leaves_once_it_reads_well(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    raw = {"id": 1, "name": "nul \x00 and half \ud800", "x": [float("nan"), None]}
    bad = Unreadable(kind="orders", external_id="1", reason="no total", raw=raw)
    put(pool, mine, orders=(ORDER,))
    put(pool, mine, unreadable=(bad, replace(bad, external_id="2")), now=NOW + MINUTE)
    unreadable = warehouse.unreadable(mine)
    assert [(item.kind, item.external_id, item.reason) for item in unreadable] == [
        ("orders", "1", "no total"), ("orders", "2", "no total"),
    ]  # fmt: skip
    assert unreadable[0].raw == {"id": 1, "name": "nul \ufffd and half \ufffd", "x": ["nan", None]}
    row = warehouse.rows(mine.id)["orders"]["1",]
    assert (row["status"], row["checked_at"]) == ("paid", NOW + MINUTE)
    put(pool, mine, orders=(ORDER,), missing=("2",))
    assert warehouse.unreadable(mine) == []


def test_a_text_that_the_database_cannot_hold_does_not_hold_up_the_page(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    odd = replace(ORDER, external_id="1\x00", number="\ud800", line_items=(LINE,))
    put(pool, mine, orders=(odd,), missing=("\x00",))
    put(pool, mine, orders=(odd,))
    assert warehouse.rows(mine.id)["orders"]["1\ufffd",]["number"] == "\ufffd"


def test_listings_that_two_whole_walks_have_not_seen_are_removed_and_may_come_back(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    others = account(pool, "b")
    names = ("7", "8", "9")
    every = tuple(replace(LISTING, external_id=name) for name in names)
    for owner in (mine, others):
        put(pool, owner, kind=DataKind.LISTINGS, listings=every)
    walk = NOW + CLOCKS_APART_MAX + MINUTE
    bad = Unreadable(kind="listings", external_id="8", reason="no price", raw={})

    def walk_through(owner: Account, at: datetime) -> None:
        end = PageStep(cursor={}, is_done=True, gone_since=at)
        put(
            pool, owner, kind=DataKind.LISTINGS, listings=every[:1], unreadable=(bad,),
            now=at, step=end
        )  # fmt: skip

    def states(owner: Account) -> list[str]:
        rows = warehouse.rows(owner.id)["listings"]
        return [rows[name,]["state"] for name in names]

    walk_through(mine, walk)
    assert states(mine) == ["active"] * 3, "one walk is no proof"
    walk_through(mine, walk + DAY)
    assert states(mine) == ["active", "active", "removed"]
    assert states(others) == ["active"] * 3
    put(pool, mine, kind=DataKind.LISTINGS, listings=every[2:], missing=("7",), now=walk + 2 * DAY)
    assert states(mine) == ["removed", "active", "active"]


def test_a_listing_seen_by_a_clock_that_is_behind_is_not_called_gone(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    both = (LISTING, replace(LISTING, external_id="8"))
    put(pool, mine, kind=DataKind.LISTINGS, listings=both)
    for walk in (NOW + MINUTE, NOW + DAY):
        end = PageStep(cursor={}, is_done=True, gone_since=walk)
        put(pool, mine, kind=DataKind.LISTINGS, listings=both[1:], now=walk, step=end)
    states = {row["state"] for row in warehouse.rows(mine.id)["listings"].values()}
    assert states == {"active"}


def test_an_order_that_is_no_longer_there_is_closed_as_gone_open_or_not(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    shut = replace(ORDER, external_id="2", is_open=False)
    put(pool, mine, orders=(ORDER, shut), listings=(replace(LISTING, external_id="1"),))
    put(pool, mine, kind=DataKind.LISTINGS, missing=("2",))
    assert warehouse.rows(mine.id)["orders"]["2",]["status"] == "paid"
    put(pool, mine, missing=("1", "2", "3"), now=NOW + MINUTE)
    rows = warehouse.rows(mine.id)
    assert (rows["orders"]["1",]["status"], rows["orders"]["1",]["is_open"]) == ("gone", False)
    assert (rows["orders"]["2",]["status"], rows["listings"]["1",]["state"]) == ("gone", "active")
    assert sorted(rows["orders"]) == [("1",), ("2",)]


def test_the_horizon_is_kept_on_the_account(pool: ConnectionPool, mine: Account) -> None:
    put(pool, mine, step=PageStep(cursor={}, horizon_at=NOW - 60 * DAY))
    put(pool, mine)
    with pool.connection() as connection:
        row = connection.execute("SELECT horizon_at FROM connected_accounts").fetchone()
    assert row == (NOW - 60 * DAY,)


def test_webhooks_are_handled_by_what_was_read_after_they_came(
    pool: ConnectionPool, mine: Account
) -> None:
    others = account(pool, "b")
    deliveries = {
        "read": ("orders", "1", NOW), "bad": ("orders", "2", NOW), "gone": ("orders", "3", NOW),
        "late": ("orders", "1", NOW + MINUTE), "unread": ("orders", "4", NOW),
        "kind": ("listings", "1", NOW), "nameless": ("orders", None, NOW),
    }  # fmt: skip
    add = (
        "INSERT INTO webhook_deliveries (platform, delivery_id, account_id, topic, kind,"
        " external_id, received_at) VALUES ('etsy', %s, %s, '', %s, %s, %s)"
    )

    def handled() -> set[str]:
        with pool.connection() as connection:
            rows = connection.execute(
                "SELECT delivery_id FROM webhook_deliveries WHERE handled_at = %s",
                [NOW + 2 * MINUTE],
            )
            return {row[0] for row in rows}

    with pool.connection() as connection:
        for name, values in deliveries.items():
            connection.execute(add, (name, mine.id, *values))
        connection.execute(add, ("other", others.id, "orders", "1", NOW))
    bad = Unreadable(kind="orders", external_id="2", reason="", raw={})
    when: dict[str, Any] = {"now": NOW + 2 * MINUTE, "asked_at": NOW}
    put(pool, mine, orders=(ORDER,), unreadable=(bad,), missing=("3",), **when)
    assert handled() == {"read", "bad", "gone"}
    put(pool, mine, step=PageStep(cursor={}, is_done=True), **when)
    assert handled() == {"read", "bad", "gone", "nameless"}


def test_the_month_counts_new_orders_of_all_accounts_placed_in_it_and_starts_again(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    second, others = account(pool, platform="printify"), account(pool, "b")
    old = replace(ORDER, external_id="old", placed_at=datetime(2026, 2, 28, 23, 59, tzinfo=UTC))
    early = replace(ORDER, external_id="early", placed_at=datetime(2026, 4, 1, tzinfo=UTC))
    assert warehouse.orders_left(mine, now=NOW, quotas=QUOTAS) == 5
    put(pool, mine, orders=(old,))
    with pool.connection() as connection:
        assert counted(connection) is None
        for _ in range(2):
            put(pool, mine, orders=(ORDER, old, early))
        put(pool, second, orders=(ORDER,))
        assert counted(connection) == (datetime(2026, 3, 1, tzinfo=UTC).date(), 2)
        assert warehouse.orders_left(mine, now=NOW, quotas=QUOTAS) == 3
        assert warehouse.orders_left(others, now=NOW, quotas=QUOTAS) == 5
        moved = replace(ORDER, placed_at=old.placed_at)
        put(pool, mine, orders=(moved,))
        assert counted(connection) == (datetime(2026, 3, 1, tzinfo=UTC).date(), 1)
        april = datetime(2026, 4, 2, tzinfo=UTC)
        assert warehouse.orders_left(mine, now=april, quotas=QUOTAS) == 4
        put(
            pool, mine, orders=(replace(ORDER, external_id="new", placed_at=april),), now=april
        )  # fmt: skip
        assert counted(connection) == (datetime(2026, 4, 1, tzinfo=UTC).date(), 2)


def test_orders_beyond_the_quota_leave_none_and_a_better_tier_leaves_more(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    put(pool, mine, orders=tuple(replace(ORDER, external_id=str(n)) for n in range(7)))
    assert warehouse.orders_left(mine, now=NOW, quotas=QUOTAS) == 0
    with pool.connection() as connection:
        connection.execute("UPDATE profiles SET tier = 'starter'")
    assert warehouse.orders_left(mine, now=NOW, quotas=QUOTAS) == 293


def test_open_orders_come_the_longest_unseen_first_and_only_from_their_account(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    others = account(pool, "b")
    put(pool, others, orders=(replace(ORDER, external_id="x"),))
    for number in (3, 1, 2):
        order = replace(ORDER, external_id=str(number))
        put(pool, mine, orders=(order,), now=NOW + number * MINUTE)
    put(pool, mine, orders=(replace(ORDER, external_id="shut", is_open=False),))

    def unseen(before: datetime, limit: int = 9) -> list[str]:
        return warehouse.open_orders(mine, checked_before=before, limit=limit)

    assert unseen(NOW + DAY) == ["1", "2", "3"]
    assert unseen(NOW + 3 * MINUTE) == ["1", "2"]
    assert unseen(NOW + DAY, 1) == ["1"]


def test_no_page_is_written_through_anothers_account(
    pool: ConnectionPool, mine: Account, warehouse: Warehouse
) -> None:
    others = account(pool, "b")
    put(pool, mine, orders=(ORDER,), listings=(LISTING,))
    before = warehouse.rows(mine.id)
    for forged in (
        replace(mine, user_id=others.user_id),
        replace(mine, platform=SHOPIFY),
        replace(others, user_id=mine.user_id),
    ):
        with pytest.raises(InvariantError, match="is not"):
            put(pool, forged, orders=(replace(ORDER, status="stolen"),))
    # The same ids on another account are other records, and what is gone there is not gone here.
    end = PageStep(cursor={}, gone_since=NOW + DAY, horizon_at=NOW)
    put(pool, others, orders=(replace(ORDER, status="theirs", line_items=()),), step=end)
    put(pool, others, missing=("1",), now=NOW + MINUTE)
    put(pool, others, kind=DataKind.LISTINGS, missing=("7",), now=NOW + MINUTE)
    assert warehouse.rows(mine.id) == before
    assert warehouse.open_orders(
        replace(mine, user_id=others.user_id), checked_before=NOW + DAY, limit=9
    ) == []  # fmt: skip
    assert warehouse.counts(replace(mine, user_id=others.user_id)).orders == 0
    assert warehouse.counts(mine).orders == 1
