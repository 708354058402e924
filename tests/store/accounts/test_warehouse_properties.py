"""After any pages, in any order and with repeats, each record is as it came last."""

import itertools
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg_pool import ConnectionPool

from headway.core.accounts.jobs import Account, DataKind, PlatformName, Tier
from headway.core.accounts.pagination import Page, PageStep
from headway.core.accounts.warehouse import (
    LineItem,
    Order,
    Payment,
    Records,
    Refund,
    Shipment,
    ShopListing,
    Unreadable,
)
from headway.core.catalog.listings import SellerId
from headway.store.accounts.warehouse import Warehouse, write

START = datetime(2026, 1, 30, 22, tzinfo=UTC)
PARTS = ("line_items", "shipments", "refunds")
TABLES = ("orders", "listings", "payments", *PARTS)
runs = itertools.count()

ids = st.sampled_from("123")
words = st.sampled_from(("", "a", "b"))
money = st.sampled_from((Decimal("0.10"), Decimal("1.1"), Decimal("-3.333"), Decimal(10)))
instants = st.integers(-6, 6).map(lambda steps: START + timedelta(hours=8 * steps))
maybe_instants = st.none() | instants
lines = st.builds(
    LineItem, external_id=ids, quantity=st.integers(0, 2), price=money, currency=words, sku=words
)
push_batches = st.builds(Shipment, external_id=ids, status=words, shipped_at=maybe_instants)
refunds = st.builds(Refund, external_id=ids, amount=money, currency=words)


def few(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


orders = st.builds(
    Order,
    external_id=ids,
    status=words,
    is_open=st.booleans(),
    currency=words,
    total=money,
    tax=st.none() | money,
    placed_at=instants,
    modified_at=maybe_instants,
    line_items=few(lines),
    shipments=few(push_batches),
    refunds=few(refunds),
)
listings = st.builds(ShopListing, external_id=ids, state=words, price=st.none() | money)
payments = st.builds(
    Payment, external_id=ids, kind=words, amount=money, currency=words, paid_at=instants
)
unreadable = st.builds(
    Unreadable,
    kind=st.sampled_from(("orders", "listings")),
    external_id=ids,
    reason=words,
    raw=st.just({"odd": 1}),
)
pages = st.builds(
    Records,
    orders=few(orders),
    listings=few(listings),
    payments=few(payments),
    unreadable=few(unreadable),
)
# Which of two accounts, how many hours after the page before, and the page.
moves = st.tuples(st.integers(0, 1), st.sampled_from((0, 1, 30)), pages)


@pytest.fixture
def ready(pool: ConnectionPool) -> ConnectionPool:
    """Return a pool that opens no more connections: it draws by chance, and hypothesis minds."""
    pool.wait()
    return pool


class Model:
    """The last state of each record of one account, kept the plain way."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[str, ...], Any]] = {table: {} for table in TABLES}
        self.unreadable: set[tuple[str, str]] = set()
        self.changed: dict[str, datetime] = {}

    def take(self, records: Records, now: datetime) -> None:
        """Take a page: a record that stands on it twice counts as it stands there last."""
        orders = {order.external_id: order for order in records.orders}
        for order in orders.values():
            bare = replace(order, line_items=(), shipments=(), refunds=())
            parts = {part: {e.external_id: e for e in getattr(order, part)} for part in PARTS}
            if self._order(order.external_id) != (bare, parts):
                self.changed[order.external_id] = now
            self.rows["orders"][order.external_id,] = bare
            for part in PARTS:
                for key in [key for key in self.rows[part] if key[0] == order.external_id]:
                    del self.rows[part][key]
                for name, row in parts[part].items():
                    self.rows[part][order.external_id, name] = row
        for table in ("listings", "payments"):
            for item in getattr(records, table):
                self.rows[table][item.external_id,] = item
        read = {("orders", name) for name in orders}
        read |= {("listings", listing.external_id) for listing in records.listings}
        self.unreadable -= read
        self.unreadable |= {(record.kind, record.external_id) for record in records.unreadable}

    def _order(self, name: str) -> tuple[Any, Any]:
        held = {
            part: {key[1]: row for key, row in self.rows[part].items() if key[0] == name}
            for part in PARTS
        }
        return self.rows["orders"].get((name,)), held


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(trace=st.lists(moves, min_size=1, max_size=8))
def test_the_tables_hold_the_last_state_of_each_record_and_the_count_is_a_recount(
    ready: ConnectionPool, trace: list[tuple[int, int, Records]]
) -> None:
    seller, warehouse, now = SellerId(f"seller {next(runs)}"), Warehouse(ready), START
    accounts = [_account(ready, seller, platform) for platform in ("etsy", "printify")]
    models = [Model(), Model()]
    for owner, hours, records in trace:
        now += timedelta(hours=hours)
        with ready.connection() as connection, connection.transaction():
            write(
                connection,
                accounts[owner],
                Page(records=records),
                PageStep(cursor={}),
                kind=DataKind.ORDERS,
                asked_at=now,
                now=now,
            )
        models[owner].take(records, now)
    for account, model in zip(accounts, models, strict=True):
        _compare(warehouse.rows(account.id), model)
    _recount(ready, accounts, models, now)


def _account(pool: ConnectionPool, seller: SellerId, platform: str) -> Account:
    with pool.connection() as connection:
        row = connection.execute(
            "INSERT INTO connected_accounts (user_id, platform, shop) VALUES (%s, %s, %s)"
            " RETURNING id::text",
            (seller, platform, seller),
        ).fetchone()
    assert row is not None
    return Account(id=row[0], user_id=seller, platform=PlatformName(platform), shop=seller)


def _compare(rows: dict[str, Any], model: Model) -> None:
    for table in TABLES:
        assert set(rows[table]) == set(model.rows[table])
        for key, record in model.rows[table].items():
            names = [field.name for field in fields(record) if field.name not in PARTS]
            stored = {name: rows[table][key][name] for name in names}
            assert stored == {name: getattr(record, name) for name in names}
    assert set(rows["unreadable_records"]) == model.unreadable
    for name, at in model.changed.items():
        assert rows["orders"][name,]["updated_at"] == at


def _recount(
    pool: ConnectionPool, accounts: list[Account], models: list[Model], now: datetime
) -> None:
    """Compare the count with one made by hand, by what it leaves of a quota and where it stands."""
    months = [
        (order.placed_at.year, order.placed_at.month)
        for model in models
        for order in model.rows["orders"].values()
    ]
    count = months.count((now.year, now.month))
    for account in accounts:
        left = Warehouse(pool).orders_left(account, now=now, quotas=dict.fromkeys(Tier, 100))
        assert left == 100 - count
    with pool.connection() as connection:
        row = connection.execute(
            "SELECT orders_count FROM profiles WHERE user_id = %s AND orders_month = %s",
            (accounts[0].user_id, now.replace(day=1).date()),
        ).fetchone()
    assert row is None or row[0] == count
