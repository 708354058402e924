"""The warehouse against the truth: every kind of difference is found, and named."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Payment,
    Records,
    Refund,
    ShopListing,
)
from headway_lab.simulation.accounts.comparison import compare, rows_of

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def an_order(number: str, **more: Any) -> Order:
    line = LineItem(external_id="1", quantity=2, price=Decimal("9.90"), currency="USD")
    usual = {"status": "paid", "is_open": True, "currency": "USD", "total": Decimal("19.80")}
    return Order(external_id=number, placed_at=NOON, line_items=(line,), **{**usual, **more})


TRUE = Records(
    orders=(an_order("1"), an_order("2")),
    listings=(ShopListing(external_id="7", state="active", price=Decimal(5)),),
    customers=(Customer(external_id="c", name="Ada"),),
)


def test_equal_rows_have_no_difference_whatever_other_columns_hold() -> None:
    rows = rows_of(TRUE)
    rows["orders"]["1",]["checked_at"] = NOON
    assert compare(rows, rows_of(TRUE)) == compare({}, rows_of(Records()))


def test_a_row_that_is_missing_wrong_or_too_many_is_named() -> None:
    first, second = TRUE.orders
    refund = Refund(external_id="r", amount=Decimal(1), currency="USD")
    second = replace(second, total=Decimal("19.81"), refunds=(refund,), line_items=())
    rows = rows_of(replace(TRUE, orders=(first, second), customers=()))
    difference = compare(rows, rows_of(TRUE))
    assert difference.missing == ("line_items 2/1", "customers c")
    assert difference.extra == ("refunds 2/r",)
    (wrong,) = difference.wrong
    assert wrong.startswith("orders 2: total is Decimal('19.81')")


def test_money_is_compared_as_a_number_and_not_as_text() -> None:
    rows = rows_of(replace(TRUE, orders=(an_order("1", total=Decimal("19.8")), TRUE.orders[1])))
    assert compare(rows, rows_of(TRUE)).wrong == ()


def test_a_listing_known_to_be_removed_is_not_extra() -> None:
    rows = rows_of(TRUE)
    gone = ShopListing(external_id="8", state="removed")
    with_gone = rows_of(replace(TRUE, listings=(*TRUE.listings, gone)))
    assert compare(with_gone, rows) == compare(rows, rows)
    still = rows_of(replace(TRUE, listings=(*TRUE.listings, replace(gone, state="active"))))
    assert compare(still, rows).extra == ("listings 8",)


def test_what_a_platform_hides_may_be_missing_but_not_wrong() -> None:
    horizon = NOON + timedelta(minutes=1)
    rows = rows_of(replace(TRUE, orders=()))
    difference = compare(rows, rows_of(TRUE), horizon_at=horizon)
    assert (difference.missing, difference.hidden) == ((), 4)
    wrong = rows_of(replace(TRUE, orders=(an_order("1", status="lost"), TRUE.orders[1])))
    assert len(compare(wrong, rows_of(TRUE), horizon_at=horizon).wrong) == 1


def test_a_payment_is_hidden_with_its_order() -> None:
    paid = Payment(
        external_id="p", amount=Decimal(1), currency="USD", paid_at=NOON, order_id="1", kind="sale"
    )
    true = rows_of(replace(TRUE, payments=(paid,)))
    rows = rows_of(replace(TRUE, orders=()))
    assert compare(rows, true, horizon_at=NOON + timedelta(minutes=1)).missing == ()
    assert compare(rows_of(TRUE), true).missing == ("payments p",)
