"""Law L16: a row that the database refuses is set aside, and the rest of its page is stored."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.job_fixtures import NOW, Rows, make_rows

from headway.clock import rng
from headway.core.accounts.jobs import DataKind
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
from headway.errors import StoreError
from headway.store.accounts import warehouse_sql as sql

# Too long for any index, and too irregular to be compressed.
LONG = "".join(rng(7).choices("abcdefghijklmnopqrstuvwxyzäöüßéèñçåøæ0123456789", k=4500))
HUGE = Decimal("1E+200000")
LINE = LineItem(external_id="L", quantity=1, price=Decimal(2), currency="EUR")
SHIPMENT = Shipment(external_id="P", shipped_at=NOW)
REFUND = Refund(external_id="R", amount=Decimal(1), currency="EUR")
ORDER = Order(
    external_id="1",
    status="paid",
    is_open=True,
    currency="EUR",
    total=Decimal(9),
    placed_at=NOW,
    line_items=(LINE,),
    shipments=(SHIPMENT,),
    refunds=(REFUND,),
)
LISTING = ShopListing(external_id="1", state="active", quantity=3)
CUSTOMER = Customer(external_id="1", name="Ada")
PAYMENT = Payment(external_id="1", kind="sale", amount=Decimal(1), currency="EUR", paid_at=NOW)
UNREADABLE = Unreadable(kind="orders", external_id="1", reason="nonsense", raw={"a": 1})
SOUND = {
    "orders": ORDER,
    "line_items": ORDER,
    "shipments": ORDER,
    "refunds": ORDER,
    "listings": LISTING,
    "customers": CUSTOMER,
    "payments": PAYMENT,
    "unreadable_records": UNREADABLE,
}
FIELDS = {"unreadable_records": "unreadable", **dict.fromkeys(sql.PARTS, "orders")}
NONE: Any = None
# Every table, with a value that it refuses: one too long for an index (a program limit), null (an
# integrity error), or a number beyond its type (a data error).
BAD: dict[str, list[Any]] = {
    "orders": [
        replace(ORDER, external_id=LONG),
        replace(ORDER, external_id="x", status=NONE),
        replace(ORDER, external_id="x", total=HUGE),
    ],
    "line_items": [
        replace(ORDER, external_id="x", line_items=(LINE, replace(LINE, external_id=LONG))),
        replace(ORDER, external_id="x", line_items=(replace(LINE, currency=NONE),)),
        replace(ORDER, external_id="x", line_items=(replace(LINE, quantity=2**40),)),
    ],
    "shipments": [
        replace(ORDER, external_id="x", shipments=(replace(SHIPMENT, external_id=LONG),)),
        replace(ORDER, external_id="x", shipments=(replace(SHIPMENT, carrier=NONE),)),
    ],
    "refunds": [
        replace(ORDER, external_id="x", refunds=(replace(REFUND, external_id=LONG),)),
        replace(ORDER, external_id="x", refunds=(replace(REFUND, currency=NONE),)),
        replace(ORDER, external_id="x", refunds=(replace(REFUND, amount=HUGE),)),
    ],
    "listings": [
        replace(LISTING, external_id="x", sku=LONG),
        replace(LISTING, external_id="x", state=NONE),
        replace(LISTING, external_id="x", quantity=2**40),
    ],
    "customers": [
        replace(CUSTOMER, external_id=LONG),
        replace(CUSTOMER, external_id="x", name=NONE),
    ],
    "payments": [
        replace(PAYMENT, external_id=LONG),
        replace(PAYMENT, external_id="x", kind=NONE),
        replace(PAYMENT, external_id="x", amount=HUGE),
    ],
    "unreadable_records": [
        replace(UNREADABLE, external_id=LONG),
        replace(UNREADABLE, external_id="x", reason=NONE),
        replace(UNREADABLE, external_id="x", raw={"n": HUGE}),
    ],
}
CASES = [(table, record) for table, records in BAD.items() for record in records]


@pytest.fixture
def rows(pool: ConnectionPool) -> Rows:
    return make_rows(pool)


def commit(rows: Rows, records: Records) -> Any:
    kind = next((name for name in DataKind if getattr(records, name.value)), DataKind.ORDERS)
    rows.add("a", kind=kind.value)
    job, _ = rows.claim()
    page = Page(records=records, ids=("1",))
    step, now = PageStep(cursor={"mark": "2"}), rows.clock.now()
    return rows.jobs.commit(job, page, step, calls=1, asked_at=now, now=now)


def count(rows: Rows, table: str) -> int:
    return int(rows.one(f"SELECT count(*) FROM {table}"))


def test_every_table_of_the_warehouse_is_tried() -> None:
    assert set(BAD) == set(SOUND) == set(sql.KEYS)


@pytest.mark.parametrize(("table", "bad"), CASES)
def test_a_refused_row_is_set_aside_and_the_rest_of_its_page_is_stored(
    rows: Rows, table: str, bad: Any
) -> None:
    sound = [replace(SOUND[table], external_id=str(number)) for number in range(1, 12)]
    sound.insert(5, bad)
    records = Records(**{FIELDS.get(table, table): tuple(sound)})
    job = commit(rows, records)
    assert job is not None
    assert rows.one("SELECT cursor ->> 'mark', run_calls FROM sync_jobs") == ("2", 1)
    assert rows.one("SELECT used FROM rate_budgets") == 1, "the call is counted"
    is_bad_row_unreadable = table == "unreadable_records"
    assert count(rows, table) == (12 if is_bad_row_unreadable else 11)
    if is_bad_row_unreadable:
        return
    kind, name, reason = rows.one("SELECT kind, external_id, reason FROM unreadable_records")
    assert (kind, name[:50]) == (FIELDS.get(table, table), bad.external_id[:50])
    assert reason.startswith("the database refuses it: ")
    assert rows.one("SELECT raw ->> 'external_id' FROM unreadable_records") == bad.external_id


def test_a_page_of_refused_rows_of_all_kinds_still_moves_the_cursor(rows: Rows) -> None:
    kinds: dict[str, list[Any]] = {}
    for table, records in BAD.items():
        if table in ("orders", "listings", "customers", "payments"):
            names = (f"{table}{number}" for number in range(9))
            kinds[table] = [
                record if record.external_id == LONG else replace(record, external_id=name)
                for name, record in zip(names, records, strict=False)
            ]
    assert commit(rows, Records(**{name: tuple(bad) for name, bad in kinds.items()})) is not None
    assert count(rows, "unreadable_records") == sum(map(len, kinds.values()))
    assert [count(rows, table) for table in kinds] == [0, 0, 0, 0]


def test_a_row_that_the_database_takes_later_is_no_longer_unreadable(rows: Rows) -> None:
    job = commit(rows, Records(listings=(replace(LISTING, sku=LONG),)))
    assert count(rows, "unreadable_records") == 1
    page, step = Page(records=Records(listings=(LISTING,)), ids=("1",)), PageStep(cursor={})
    now = rows.clock.now()
    assert rows.jobs.commit(job, page, step, calls=1, asked_at=now, now=now) is not None
    assert (count(rows, "unreadable_records"), count(rows, "listings")) == (0, 1)


def test_a_listing_that_is_refused_today_is_not_taken_for_gone(rows: Rows) -> None:
    other = replace(LISTING, external_id="2")
    job = commit(rows, Records(listings=(LISTING, other, replace(LISTING, external_id="3"))))
    page = Page(records=Records(listings=(replace(LISTING, sku=LONG), other)), ids=("1", "2"))
    for _ in range(2):
        rows.clock.sleep(24 * 3600)
        now = rows.clock.now()
        step = PageStep(cursor={}, is_done=True, gone_since=now)
        job = rows.jobs.commit(job, page, step, calls=1, asked_at=now, now=now)
    states = rows.ask("SELECT external_id, state FROM listings ORDER BY external_id")
    assert states == [("1", "active"), ("2", "active"), ("3", "removed")]


def test_orders_of_a_page_that_is_stored_in_parts_are_counted_once(rows: Rows) -> None:
    orders = [replace(ORDER, external_id=str(number)) for number in range(9)]
    commit(rows, Records(orders=(*orders, replace(ORDER, external_id=LONG))))
    assert rows.one("SELECT orders_count FROM profiles") == 9


@pytest.mark.parametrize("state", ("57014", "53100", "40P01", "XX000"))
def test_trouble_of_the_database_is_no_rows_fault(rows: Rows, state: str) -> None:
    body = f"BEGIN RAISE EXCEPTION 'trouble' USING ERRCODE = '{state}'; END"
    rows.ask(f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    rows.ask("CREATE TRIGGER t BEFORE INSERT ON listings EXECUTE FUNCTION fail()")
    with pytest.raises(StoreError):
        commit(rows, Records(listings=(LISTING,)))
    rows.ask("DROP FUNCTION fail() CASCADE")
    assert count(rows, "unreadable_records") == 0
    assert rows.one("SELECT cursor FROM sync_jobs") == {}, "the page is asked for again"
