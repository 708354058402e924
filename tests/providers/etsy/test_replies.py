"""What Etsy says in any shape: a bad row is set aside whole, a bad page is refused."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.accounts.pagination import Page
from headway.core.accounts.warehouse import LineItem, Payment, Refund, Shipment, ShopListing
from headway.errors import UnreadableError
from headway.providers.etsy.replies import (
    find_error,
    read_ledger,
    read_listings,
    read_payments,
    read_receipt,
    read_receipts,
    read_self,
    read_title,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PLACED_S = int((NOW - timedelta(days=2)).timestamp())


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, tz=UTC)


def money(amount: Any, divisor: Any = 100, currency: Any = "USD") -> dict[str, Any]:
    return {"amount": amount, "divisor": divisor, "currency_code": currency}


def receipt(**changed: Any) -> dict[str, Any]:
    row = {
        "receipt_id": 12,
        "status": "Paid",
        "buyer_user_id": 5,
        "buyer_email": None,
        "name": "Ada",
        "country_iso": "GB",
        "is_paid": True,
        "is_shipped": False,
        "created_timestamp": PLACED_S,
        "updated_timestamp": PLACED_S + 60,
        "grandtotal": money(2599),
        "subtotal": money(2000),
        "total_shipping_cost": money(399),
        "total_tax_cost": money(150),
        "total_vat_cost": money(50),
        "discount_amt": money(0),
        "transactions": [transaction()],
        "shipments": [],
        "refunds": [],
    }
    return {**row, **changed}


def transaction(**changed: Any) -> dict[str, Any]:
    row = {"transaction_id": 3, "quantity": 2, "price": money(1000), "sku": None, "title": "Mug"}
    return {**row, "listing_id": 0, **changed}


def page_of(*rows: Any, **more: Any) -> bytes:
    return json.dumps({"count": len(rows), "results": rows, **more}).encode()


def read(*rows: Any, now: datetime = NOW) -> Page:
    return read_receipts(page_of(*rows), sort_on="updated", now=now)


def test_a_receipt_is_an_order_with_all_its_parts() -> None:
    sent = {
        "receipt_shipping_id": 9,
        "carrier_name": "ups",
        "tracking_code": "T1",
        "shipment_notification_timestamp": PLACED_S + 5,
    }
    refunds = [
        {"amount": money(amount), "created_timestamp": PLACED_S + 7, "reason": None, "status": "ok"}
        for amount in (5, 6)
    ]
    page = read(receipt(shipments=[sent], refunds=refunds))
    (order,) = page.records.orders
    assert (order.external_id, order.number, order.status) == ("12", "12", "paid")
    assert (order.total, order.tax, order.currency) == (Decimal("25.99"), Decimal(2), "USD")
    assert order.line_items == (
        LineItem(external_id="3", quantity=2, price=Decimal(10), currency="USD", title="Mug"),
    )
    assert order.shipments == (
        Shipment(
            external_id="9",
            status="shipped",
            carrier="ups",
            tracking="T1",
            shipped_at=at(PLACED_S + 5),
        ),
    )
    assert [refund.external_id for refund in order.refunds] == [
        str(PLACED_S + 7),
        f"{PLACED_S + 7}-2",
    ]
    assert order.refunds[1] == Refund(
        external_id=f"{PLACED_S + 7}-2",
        amount=Decimal("0.06"),
        currency="USD",
        status="ok",
        refunded_at=at(PLACED_S + 7),
    )
    (customer,) = page.records.customers
    assert (customer.name, customer.email, customer.country) == ("Ada", "", "GB")
    assert (page.ids, page.stamps, page.total) == (("12",), (at(PLACED_S + 60),), 1)


@pytest.mark.parametrize(
    ("changed", "age", "is_open"),
    (
        ({}, timedelta(days=2), True),
        ({}, timedelta(days=181), False),
        ({"is_shipped": True}, timedelta(days=29), True),
        ({"is_shipped": True}, timedelta(days=31), False),
        ({"status": "Canceled"}, timedelta(days=1), False),
        ({"status": "fully refunded"}, timedelta(days=1), False),
        ({"status": "partially refunded"}, timedelta(days=1), True),
    ),
)
def test_an_order_is_open_while_it_may_still_change(
    *, changed: dict[str, Any], age: timedelta, is_open: bool
) -> None:
    (order,) = read(receipt(**changed), now=at(PLACED_S) + age).records.orders
    assert order.is_open is is_open


def test_the_stamps_are_those_that_the_walk_sorts_by() -> None:
    body = page_of(receipt())
    assert read_receipts(body, sort_on="created", now=NOW).stamps == (at(PLACED_S),)
    assert read_receipt(json.dumps(receipt()).encode(), now=NOW).ids == ("12",)


@pytest.mark.parametrize(
    ("changed", "reason"),
    (
        ({"grandtotal": None}, "grandtotal is null"),
        ({"grandtotal": money("2599")}, "amount is"),
        ({"grandtotal": money(2599, 0)}, "divisor is 0"),
        ({"grandtotal": money(100, 3)}, "grandtotal is"),
        ({"grandtotal": money(1, 1, "usd")}, "currency_code is"),
        ({"grandtotal": money(amount=True)}, "amount is true"),
        ({"grandtotal": money(10**16)}, "amount is"),
        ({"subtotal": money(1, 100, "EUR")}, "subtotal is"),
        ({"created_timestamp": "yesterday"}, "created_timestamp is"),
        ({"created_timestamp": 5}, "created_timestamp is 5"),
        ({"created_timestamp": 4_102_444_801}, "created_timestamp is 4102444801"),
        ({"updated_timestamp": None}, "updated_timestamp is null"),
        ({"status": 7}, "status is 7"),
        ({"status": "a\0b"}, "status is"),
        ({"is_paid": "yes"}, "is_paid is"),
        ({"buyer_user_id": [1]}, "buyer_user_id is"),
        ({"transactions": {}}, "transactions is"),
        ({"transactions": [7]}, "transactions.0 is 7"),
        ({"transactions": [transaction(quantity=-1)]}, "quantity is -1"),
        ({"transactions": [transaction(quantity="2")]}, "quantity is"),
        ({"transactions": [transaction(quantity=2**31)]}, "quantity is"),
        ({"transactions": [transaction(transaction_id=None)]}, "transaction_id is null"),
        ({"refunds": [{"amount": money(5)}]}, "created_timestamp is missing"),
        ({"shipments": [{"carrier_name": 5}]}, "carrier_name is 5"),
    ),
)
def test_a_bad_receipt_is_set_aside_and_spoils_no_other(
    changed: dict[str, Any], reason: str
) -> None:
    page = read(receipt(receipt_id=11), receipt(**changed), receipt(receipt_id=13))
    assert [order.external_id for order in page.records.orders] == ["11", "13"]
    (bad,) = page.records.unreadable
    assert (bad.kind, bad.external_id) == ("orders", "12")
    assert reason in bad.reason
    assert set(bad.raw) == set(receipt())
    assert page.ids == ("11", "12", "13")
    assert len(page.stamps) == 3


def test_a_row_without_an_id_is_identified_by_its_hash() -> None:
    page = read({"receipt_id": "x"}, 7, "text", None)
    assert [bad.external_id[:1] for bad in page.records.unreadable] == ["?"] * 4
    assert len({bad.external_id for bad in page.records.unreadable}) == 4
    assert page.ids == tuple(bad.external_id for bad in page.records.unreadable)
    assert page.stamps == ()
    assert page == read({"receipt_id": "x"}, 7, "text", None)


def test_what_no_table_takes_is_kept_readable() -> None:
    row = receipt(name="a\0b\ud800", status="\0", note="\\u0000 \\\0")
    (bad,) = read(row).records.unreadable
    assert bad.raw["name"] == "a?b?"
    assert bad.raw["note"] == "\\u0000 \\?"
    assert "\0" not in bad.reason


def test_numbers_that_are_none_cost_only_their_row() -> None:
    body = b'{"count": 2, "results": [{"receipt_id": 5, "a": NaN, "b": 1e999}, Infinity]}'
    first, second = read_receipts(body, sort_on="updated", now=NOW).records.unreadable
    assert first.raw == {"receipt_id": 5, "a": "NaN", "b": "1e999"}
    assert second.raw == {"row": "Infinity"}


def test_a_number_of_ten_thousand_digits_costs_only_its_row() -> None:
    rows = receipt(receipt_id=11), receipt(grandtotal=money("HUGE")), receipt(receipt_id=13)
    body = page_of(*rows).replace(b'"HUGE"', b"9" * 10_000)
    page = read_receipts(body, sort_on="updated", now=NOW)
    assert [order.external_id for order in page.records.orders] == ["11", "13"]
    (bad,) = page.records.unreadable
    assert bad.external_id == "12"
    assert bad.reason.startswith('grandtotal.amount is "999')


def test_a_strange_buyer_does_not_cost_the_order() -> None:
    page = read(receipt(name=5, buyer_email="\ud800", country_iso="a\0"))
    assert len(page.records.orders) == 1
    (customer,) = page.records.customers
    assert (customer.name, customer.email, customer.country) == ("", "", "")
    (customer,) = read(receipt(buyer_email=None)).records.customers
    assert customer.email == ""
    page = read(receipt(buyer_user_id=None))
    assert page.records.customers == ()
    assert page.records.orders[0].customer_id is None


def test_the_newest_order_of_a_buyer_has_the_name() -> None:
    newer = receipt(receipt_id=14, name="Ada L.", created_timestamp=PLACED_S + 9)
    for rows in ((newer, receipt()), (receipt(), newer)):
        assert [customer.name for customer in read(*rows).records.customers] == ["Ada L."]


def test_of_two_rows_with_one_id_the_last_stands() -> None:
    page = read(receipt(status="paid"), receipt(status="completed"))
    assert [order.status for order in page.records.orders] == ["completed"]
    page = read(receipt(status="paid"), receipt(status=5))
    assert page.records.orders == ()
    two = [transaction(quantity=1), transaction(quantity=4)]
    (order,) = read(receipt(transactions=two)).records.orders
    assert [line.quantity for line in order.line_items] == [4]


def test_entities_in_texts_are_characters() -> None:
    row = {
        "listing_id": 77,
        "state": "removed",
        "title": "Women&#39;s &amp; men&#39;s mug",
        "skus": [],
        "quantity": 3,
        "price": money(1050),
        "updated_timestamp": PLACED_S,
    }
    (listing,) = read_listings(page_of(row)).records.listings
    assert (listing.title, listing.state) == ("Women's & men's mug", "removed")


def test_a_listing_is_read() -> None:
    row = {
        "listing_id": "77",
        "state": "active",
        "title": "Mug",
        "skus": ["M1", "M2"],
        "quantity": 3,
        "price": money(1050),
        "updated_timestamp": PLACED_S,
    }
    draft = {**row, "listing_id": 78, "price": None, "skus": []}
    page = read_listings(page_of(row, {**row, "listing_id": 79, "quantity": -1}, draft))
    assert page.records.listings == (
        ShopListing(
            external_id="77",
            state="active",
            title="Mug",
            sku="M1",
            quantity=3,
            price=Decimal("10.50"),
            currency="USD",
            modified_at=at(PLACED_S),
        ),
        ShopListing(
            external_id="78", state="active", title="Mug", quantity=3, modified_at=at(PLACED_S)
        ),
    )
    assert [bad.external_id for bad in page.records.unreadable] == ["79"]
    assert page.ids == ("77", "79", "78")


@pytest.mark.parametrize(
    ("amount", "currency", "exact"),
    ((-1999, "USD", "-19.99"), (500, "JPY", "500"), (1234, "KWD", "1.234"), (0, "EUR", "0")),
)
def test_an_entry_of_the_ledger_is_exact_in_its_currency(
    amount: int, currency: str, exact: str
) -> None:
    row = {
        "entry_id": 5,
        "amount": amount,
        "currency": currency,
        "ledger_type": "PAYMENT",
        "reference_type": "receipt",
        "reference_id": "12",
        "created_timestamp": PLACED_S,
    }
    last = {**row, "entry_id": 7}
    page = read_ledger(page_of(row, {**row, "entry_id": 6, "amount": money(5)}, last))
    assert page.ids == ("5", "6", "7")
    assert [payment.external_id for payment in page.records.payments] == ["5", "7"]
    assert page.records.payments[:1] == (
        Payment(
            external_id="5",
            kind="PAYMENT",
            amount=Decimal(exact),
            currency=currency,
            paid_at=at(PLACED_S),
            order_id="12",
            reference_type="receipt",
            reference_id="12",
        ),
    )
    assert [bad.external_id for bad in page.records.unreadable] == ["6"]


@pytest.mark.parametrize(
    ("kind", "reference", "line_item_id", "link", "is_transfer"),
    (
        ("PAYMENT", "shop_payment", None, "81", False),
        ("transaction", "transaction", "81", None, False),
        ("REFUND_GROSS", "payment_adjustment", None, "82", False),
        ("listing", "listing", None, None, False),
        ("offsite_ads_fee", "etsy", None, None, False),
        ("PAYMENT_PROCESSING_FEE", "processing_fee", None, None, False),
        ("DISBURSE2", "disbursement", None, None, True),
        ("disburse", "etsy", None, None, True),
    ),
)
def test_an_entry_keeps_what_it_refers_to_and_payouts_are_marked(
    kind: str, reference: str, line_item_id: str | None, link: str | None, *, is_transfer: bool
) -> None:
    row = {
        "entry_id": 5,
        "amount": 100,
        "currency": "USD",
        "ledger_type": kind,
        "reference_type": reference,
        "reference_id": "81",
        "created_timestamp": PLACED_S,
        "payment_adjustments": [{"payment_id": 82}] if reference == "payment_adjustment" else [],
    }
    page = read_ledger(page_of(row, {**row, "entry_id": 6, "reference_id": None}))
    payment, odd = page.records.payments
    assert (payment.reference_type, payment.reference_id) == (reference, "81")
    assert (payment.order_id, payment.line_item_id) == (None, line_item_id)
    assert payment.is_transfer is is_transfer
    assert odd.reference_id is None
    assert page.links[:1] == ((("5", link),) if link else ())


def test_payments_name_the_orders_of_the_entries_that_refer_to_them() -> None:
    rows = [{"payment_id": 81, "receipt_id": 12}, {"payment_id": 82, "receipt_id": None}]
    page = read_payments(page_of(*rows), [["5", "81"], ["6", "82"], ["7", "81"], ["8", "99"]])
    orders = {row.external_id: row.order_id for row in page.records.payment_orders}
    assert orders == {"5": "12", "7": "12"}
    assert page.records.unreadable == ()


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"<html>",
        b'{"count": 1, "results": [{"receipt_id": 1',
        b'{"error": "Something went wrong"}',
        b'{"count": 1}',
        b'{"results": {}}',
        b"[]",
        b"null",
        b"[" * 50_000,
        b'{"results": ' + b"[" * 900 + b"]" * 900 + b"}" * 2,
        b"\xff\xfe",
    ),
)
def test_a_page_that_is_none_is_refused(body: bytes) -> None:
    for reader in (read_listings, read_ledger):
        with pytest.raises(UnreadableError, match="etsy's reply has"):
            reader(body)
    with pytest.raises(UnreadableError):
        read_receipts(body, sort_on="created", now=NOW)
    with pytest.raises(UnreadableError):
        read_receipt(body, now=NOW)


def test_a_count_that_makes_no_sense_is_no_count() -> None:
    for count in (-1, "7", None, True):
        assert read_listings(page_of(count=count)).total is None


def test_who_a_token_belongs_to() -> None:
    assert read_self(b'{"user_id": 5, "shop_id": 77}') == ("5", "77")
    assert read_self(b'{"user_id": 5, "shop_id": 0}') == ("5", None)
    assert read_title(b'{"shop_name": "Mugs"}') == "Mugs"
    assert read_title(b"{}") == ""
    with pytest.raises(UnreadableError, match="user_id is missing"):
        read_self(b'{"shop_id": 5}')


def test_an_errors_words_are_one_plain_line() -> None:
    body = b'{"error": "invalid_token", "error_description": "a\\nb"}'
    assert find_error(body) == "invalid_token a b"
    assert [find_error(body) for body in (b"<html>", b"[]", b'{"error": 5}')] == ["", "", ""]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(sorted([*receipt(), "amount", "divisor", "quantity"]))


@settings(max_examples=300, deadline=None)
@given(changed=st.dictionaries(FIELDS, JSON, max_size=4), nested=st.booleans())
def test_any_row_is_either_an_order_or_set_aside(*, changed: dict[str, Any], nested: bool) -> None:
    row = receipt(transactions=[transaction(**changed)]) if nested else receipt(**changed)
    page = read(row)
    assert len(page.records.orders) + len(page.records.unreadable) == 1
    for bad in page.records.unreadable:
        assert "\0" not in json.dumps(bad.raw, ensure_ascii=False)
        json.dumps(bad.raw, ensure_ascii=False).encode()
    for reader in (read_listings, read_ledger):
        records = reader(page_of(row)).records
        assert len(records.unreadable) == 1
