"""Programs that keep a copy of the records miss nothing, whatever is committed in which order."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg import Rollback
from psycopg_pool import ConnectionPool

from headway.app.accounts import connect_account
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, InvalidError
from headway.store import cursors
from headway.store.accounts.records import (
    DELETIONS_KEPT,
    KINDS,
    RecordChanges,
    RecordFilter,
    RecordRows,
)
from headway_lab.platforms import ETSY
from headway_lab.virtual_clock import VirtualClock

ACME, BEST = SellerId("acme"), SellerId("best")
KINDS_OF_PARTS = (str, str, datetime, str, str, str, str, int)
ORDER = """
INSERT INTO orders (account_id, external_id, user_id, platform, status, is_open, currency,
  placed_at, checked_at, created_at, updated_at)
SELECT id, %(id)s, user_id, platform, 'open', true, 'USD', %(at)s, %(at)s, %(at)s, %(at)s
FROM connected_accounts WHERE user_id = %(seller)s
"""
LINE = """
INSERT INTO line_items (account_id, order_id, external_id, user_id, quantity, currency)
SELECT account_id, external_id, %(line)s, user_id, 1, 'USD' FROM orders WHERE external_id = %(id)s
"""
SHIP = "UPDATE orders SET status = 'shipped', updated_at = %(at)s WHERE external_id = %(id)s"


class Reader:
    """A program that reads one kind, and keeps the cursor of what it has read."""

    def __init__(
        self, pool: ConnectionPool, clock: VirtualClock, name: str = "orders", **chosen: Any
    ) -> None:
        self.changes, self.clock, self.name = RecordChanges(pool), clock, name
        self.filters, self.cursor = RecordFilter(**chosen), None
        self.copy: dict[tuple[str, str], dict[str, Any]] = {}

    def page(self, limit: int = 100) -> RecordRows:
        page = self.changes.page(
            self.name, self.filters, cursor=self.cursor, limit=limit, now=self.clock.now()
        )
        self.cursor = page.cursor
        for row in page.rows:
            key = row["account_id"], row["id"]
            if row["is_deleted"]:
                self.copy.pop(key, None)
            else:
                self.copy[key] = row
        return page

    def ids(self, limit: int = 100) -> list[str]:
        return [row["id"] for row in self.page(limit).rows]


@pytest.fixture(autouse=True)
def accounts(pool: ConnectionPool, clock: VirtualClock) -> None:
    for number, seller in enumerate((ACME, BEST), start=101):
        connect_account(pool, seller, str(number), platform=ETSY, now=clock.now())


@pytest.fixture
def write(pool: ConnectionPool, clock: VirtualClock) -> Callable[..., None]:
    def run(statement: str, id_: str = "", seller: str = ACME, **more: Any) -> None:
        values = {"id": id_, "seller": seller, "at": clock.now(), **more}
        with pool.connection() as connection:
            connection.execute(statement, values)

    return run


def test_a_row_that_is_committed_late_is_not_skipped(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    reader = Reader(pool, clock)
    values = {"seller": ACME, "at": clock.now()}
    with pool.connection() as first, pool.connection() as second:
        with first.transaction():
            first.execute(ORDER, {**values, "id": "early"})
            with second.transaction():
                second.execute(ORDER, {**values, "id": "late"})
            assert reader.ids() == [], "an earlier transaction is still open"
            assert reader.ids() == []
        assert sorted(reader.ids()) == ["early", "late"]
        assert reader.ids() == []


def test_a_transaction_that_ends_without_a_commit_holds_nobody_up(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    reader = Reader(pool, clock)
    values = {"seller": ACME, "at": clock.now()}
    with pool.connection() as first, pool.connection() as second:
        with first.transaction():
            first.execute(ORDER, {**values, "id": "never"})
            with second.transaction():
                second.execute(ORDER, {**values, "id": "one"})
            raise Rollback
        assert reader.ids() == ["one"]


def test_pages_of_one_transaction_are_cut_without_a_gap(
    pool: ConnectionPool, clock: VirtualClock, write: Callable[..., None]
) -> None:
    many = ORDER.replace("%(id)s", "'o' || number").replace(
        "FROM connected_accounts", "FROM connected_accounts, generate_series(1, 25) AS number"
    )
    write(many)
    write(many, seller=BEST)
    reader = Reader(pool, clock)
    pages = [reader.page(limit=7) for _ in range(8)]
    assert [len(page.rows) for page in pages] == [7] * 7 + [1]
    assert [page.has_more for page in pages] == [True] * 7 + [False]
    assert len(reader.copy) == 50
    seller = Reader(pool, clock, seller=BEST)
    assert len(seller.ids()) == 25


def test_what_was_only_looked_at_again_is_not_changed(
    pool: ConnectionPool, clock: VirtualClock, write: Callable[..., None]
) -> None:
    write(ORDER, "1")
    write(ORDER, "2")
    reader = Reader(pool, clock)
    assert reader.ids() == ["1", "2"]
    clock.sleep(60)
    write("UPDATE orders SET checked_at = %(at)s")
    assert reader.ids() == []
    write(SHIP, "1")
    assert [row["status"] for row in reader.page().rows] == ["shipped"]
    since = Reader(pool, clock, changed_since=clock.now())
    assert since.ids() == ["1"]
    later = Reader(pool, clock, since=clock.now())
    assert later.ids() == [], "both were placed before"


def test_deletions_come_as_rows_and_parts_with_their_order(
    pool: ConnectionPool, clock: VirtualClock, write: Callable[..., None]
) -> None:
    write(ORDER, "1")
    write(LINE, "1", line="a")
    write(LINE, "1", line="b")
    reader, orders = Reader(pool, clock, "line_items"), Reader(pool, clock)
    assert [(row["id"], row["order_id"], row["platform"]) for row in reader.page().rows] == [
        ("a", "1", "etsy"),
        ("b", "1", "etsy"),
    ]
    orders.page()
    write("DELETE FROM line_items WHERE external_id = 'a'")
    (row,) = reader.page().rows
    assert (row["id"], row["is_deleted"], row["order_id"], row["sku"]) == ("a", True, "1", None)
    write(LINE, "1", line="a")
    assert [row["is_deleted"] for row in reader.page().rows] == [False]
    write("DELETE FROM orders")
    assert [(row["id"], row["is_deleted"]) for row in reader.page().rows] == [
        ("a", True),
        ("b", True),
    ]
    assert [(row["id"], row["is_deleted"]) for row in orders.page().rows] == [("1", True)]
    assert (reader.copy, orders.copy) == ({}, {})


def test_a_record_that_is_deleted_and_stored_again_in_one_transaction_stays(
    pool: ConnectionPool, clock: VirtualClock, write: Callable[..., None]
) -> None:
    write(ORDER, "1")
    reader = Reader(pool, clock)
    reader.page()
    values = {"seller": ACME, "at": clock.now(), "id": "1"}
    with pool.connection() as connection, connection.transaction():
        connection.execute("DELETE FROM orders")
        connection.execute(ORDER, values)
    assert [row["is_deleted"] for row in reader.page(limit=1).rows] == [True]
    assert [row["is_deleted"] for row in reader.page(limit=1).rows] == [False]
    assert len(reader.copy) == 1


def test_nothing_is_left_of_the_deletions_of_an_account_that_is_gone(
    pool: ConnectionPool, write: Callable[..., None]
) -> None:
    write(ORDER, "1")
    write(ORDER, "2")
    write("DELETE FROM orders WHERE external_id = '1'")
    write("DELETE FROM connected_accounts WHERE user_id = 'acme'")
    with pool.connection() as connection:
        assert connection.execute("SELECT count(*) FROM record_deletions").fetchall() == [(0,)]


def test_a_cursor_of_another_list_or_another_past_is_refused(
    pool: ConnectionPool, clock: VirtualClock, write: Callable[..., None]
) -> None:
    write(ORDER, "1")
    reader, payments = Reader(pool, clock), Reader(pool, clock, "payments")
    reader.page()
    payments.cursor = reader.cursor
    with pytest.raises(InvalidError, match="another list"):
        payments.page()
    name, lineage, at, *place = cursors.decode(str(reader.cursor), *KINDS_OF_PARTS)
    for odd in (["9" * 30, *place[1:]], ["one", *place[1:]], [place[0], "no account", *place[2:]]):
        payments.cursor = cursors.encode("payments", lineage, at, *odd)
        with pytest.raises(InvalidError, match="another list"):
            payments.page()
    payments.cursor = cursors.encode("payments", f"{lineage} restored", at, *place)
    with pytest.raises(ConflictError, match="restored or failed over"):
        payments.page()
    assert name == "orders"
    clock.sleep((DELETIONS_KEPT + timedelta(seconds=1)).total_seconds())
    with pytest.raises(ConflictError, match="deletions are kept for 90 days"):
        reader.page()


def test_rows_of_a_restored_dump_are_read_again_once_they_are_renumbered(
    pool: ConnectionPool, clock: VirtualClock, write: Callable[..., None]
) -> None:
    write(ORDER, "1")
    write("UPDATE orders SET change_xid = '999999999999'")
    reader = Reader(pool, clock)
    assert reader.ids() == [], "a number that no transaction here has had"
    reader.changes.forget(clock.now() - DELETIONS_KEPT)
    assert reader.ids() == ["1"]
    reader.changes.forget(clock.now() - DELETIONS_KEPT)
    assert reader.ids() == []


@pytest.mark.parametrize("table", KINDS)
def test_the_triggers_know_every_column_that_may_change(pool: ConnectionPool, table: str) -> None:
    watched = (
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger"
        " WHERE tgrelid = %s::regclass AND tgname = 'note_change'"
    )
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
    with pool.connection() as connection:
        ((definition,),) = connection.execute(watched, (table,)).fetchall()
        names = {name for (name,) in connection.execute(columns, (table,)).fetchall()}
    keys = {"account_id", "order_id"} if KINDS[table].is_part else {"account_id"}
    for name in names - keys - {"change_xid", "checked_at", "created_at"}:
        assert f"new.{name}" in definition.lower(), f"{table}.{name}: add it to the trigger"
