"""Printify's replies, whatever they hold: bad rows are set aside, bad pages are refused."""

import contextlib
import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts.pagination import Page
from headway.core.accounts.warehouse import Order
from headway.errors import UnreadableError
from headway.providers.printify.replies import (
    read_message,
    read_order,
    read_orders,
    read_products,
    read_shops,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LINE = {
    "product_id": "p1",
    "variant_id": 7,
    "quantity": 2,
    "cost": 900,
    "metadata": {"title": "Tee", "price": 2200, "sku": "TEE-7"},
}
ORDER = {
    "id": "5a96f649b2439217d070f507",
    "address_to": {"first_name": "Ada", "last_name": "Ash", "email": "ADA@x.org", "country": "US"},
    "line_items": [LINE],
    "metadata": {"shop_order_id": 1370762297, "shop_order_label": "#17"},
    "total_price": 4400,
    "total_shipping": 405,
    "total_tax": 0,
    "status": "fulfilled",
    "shipments": [
        {
            "carrier": "usps",
            "number": "94001",
            "url": "u",
            "delivered_at": "2026-02-02 10:00:00+02:00",
        }
    ],
    "created_at": "2026-01-18 13:24:28+00:00",
    "fulfilled_at": "2026-01-25 13:24:28+00:00",
}
VARIANT = {"id": 7, "sku": "TEE-7", "title": "M", "price": 2200, "is_enabled": True}
PRODUCT = {
    "id": "p1",
    "title": "Tee",
    "visible": True,
    "is_locked": False,
    "updated_at": "2026-02-01 08:00:00+00:00",
    "variants": [VARIANT, {**VARIANT, "id": 8, "is_enabled": False}],
}
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.sampled_from(["", "x", "\x00", "\ud800", "2026-01-01", "0001-01-01T00:00:00+14:00"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "price", "a"]), inner)
    ),
    max_leaves=4,
)


def page(*rows: Any, **envelope: Any) -> bytes:
    whole = {"current_page": 1, "last_page": 1, "total": len(rows), "data": rows}
    return json.dumps({**whole, **envelope}).encode()


def orders(*rows: Any, **envelope: Any) -> Page:
    return read_orders(page(*rows, **envelope), limit=10, now=NOW)


def order(**changes: Any) -> Order:
    [read] = orders({**ORDER, **changes}).records.orders
    return read


def test_an_order_is_read_in_the_sellers_view() -> None:
    read = order()
    assert (read.number, read.status, read.currency) == ("#17", "fulfilled", "USD")
    assert (read.total, read.shipping, read.tax) == (
        Decimal("44.00"),
        Decimal("4.05"),
        Decimal("0.00"),
    )
    assert read.placed_at == datetime(2026, 1, 18, 13, 24, 28, tzinfo=UTC)
    [line] = read.line_items
    assert (line.external_id, line.listing_id, line.price) == ("p1:7", "p1:7", Decimal("22.00"))
    assert (line.sku, line.title, line.quantity) == ("TEE-7", "Tee", 2)
    [shipment] = read.shipments
    assert (shipment.external_id, shipment.status, shipment.tracking) == (
        "usps:94001",
        "delivered",
        "94001",
    )
    assert shipment.delivered_at == datetime(2026, 2, 2, 8, tzinfo=UTC)


def test_a_line_without_a_retail_price_shows_its_cost() -> None:
    [line] = order(line_items=[{**LINE, "metadata": None}]).line_items
    assert line.price == Decimal("9.00")


def test_lines_and_shipments_of_one_kind_have_different_ids() -> None:
    shipment = {"carrier": "dhl", "number": ""}
    read = order(line_items=[LINE, LINE, LINE], shipments=[shipment, shipment])
    assert [line.external_id for line in read.line_items] == ["p1:7", "p1:7:2", "p1:7:3"]
    assert [shipment.external_id for shipment in read.shipments] == ["dhl:", "dhl::2"]


@pytest.mark.parametrize(
    ("status", "is_open"),
    (
        ("pending", True),
        ("on-hold", True),
        ("has-issues", True),
        ("payment-not-received", True),
        ("a status of tomorrow", True),
        ("canceled", False),
        ("cancelled", False),
        ("unfulfillable", False),
    ),
)
def test_a_status_says_whether_anything_can_still_happen(status: str, is_open: bool) -> None:  # noqa: FBT001
    assert order(status=status).is_open == is_open


@pytest.mark.parametrize(
    ("shipments", "days", "is_open"),
    (
        ([{"carrier": "dhl", "number": "1", "delivered_at": "2026-02-28"}], 1, False),
        ([{"carrier": "dhl", "number": "1"}], 29, True),
        ([{"carrier": "dhl", "number": "1"}], 31, False),
        ([], 29, True),
        (None, 31, False),
    ),
)
def test_a_fulfilled_order_waits_a_month_for_its_delivery(
    shipments: Any,
    days: int,
    is_open: bool,  # noqa: FBT001
) -> None:
    fulfilled_at = (NOW - timedelta(days=days)).isoformat()
    assert order(shipments=shipments, fulfilled_at=fulfilled_at).is_open == is_open


def test_a_buyer_is_known_by_email_or_by_name_and_address() -> None:
    def buyer(**address: Any) -> str | None:
        return order(address_to=address).customer_id

    assert buyer(email="ADA@x.org ") == buyer(email="ada@x.org", first_name="Other")
    assert buyer(email="ada@x.org") != buyer(email="eve@x.org")
    assert buyer(first_name="Ada", zip="1") == buyer(first_name="ADA", zip="1")
    assert buyer(first_name="Ada", zip="1") != buyer(first_name="Ada", zip="2")
    assert buyer() is None
    assert order(address_to=None).customer_id is None
    [customer] = orders(ORDER, {**ORDER, "id": "other"}).records.customers
    assert (customer.name, customer.email, customer.country) == ("Ada Ash", "ADA@x.org", "US")


def test_only_variants_that_are_on_offer_are_listings() -> None:
    read = read_products(page(PRODUCT), limit=50)
    [listing] = read.records.listings
    assert (listing.external_id, listing.sku, listing.title) == ("p1:7", "TEE-7", "Tee - M")
    assert (listing.price, listing.currency, listing.quantity) == (Decimal("22.00"), "USD", None)
    assert listing.modified_at == datetime(2026, 2, 1, 8, tzinfo=UTC)
    assert read.ids == ("p1",)


@pytest.mark.parametrize(
    ("changes", "state"),
    (
        ({}, "visible"),
        ({"visible": False}, "hidden"),
        ({"is_locked": True}, "visible"),
        ({"is_locked": True, "visible": False}, "locked"),
    ),
)
def test_a_listing_has_the_state_of_its_product(changes: dict[str, Any], state: str) -> None:
    [listing] = read_products(page({**PRODUCT, **changes}), limit=50).records.listings
    assert listing.state == state


def test_a_variant_that_cannot_be_printed_now_is_unavailable_whatever_its_product_is() -> None:
    variants = [{**row, "is_available": False} for row in PRODUCT["variants"]]
    [listing] = read_products(page({**PRODUCT, "variants": variants}), limit=50).records.listings
    assert listing.state == "unavailable"


def test_both_spellings_of_a_canceled_order_are_one_status() -> None:
    assert order(status="cancelled").status == order(status="canceled").status == "canceled"


@pytest.mark.parametrize("count", (3, 2))
def test_a_list_without_its_numbers_is_read_as_far_as_it_goes(count: int) -> None:
    for name in ("total", "last_page"):
        assert orders(ORDER, **{name: None}).ids == (ORDER["id"],)
    rows = [{**PRODUCT, "id": f"p{number}"} for number in range(count)]
    read = read_products(json.dumps({"data": rows}).encode(), limit=3)
    assert (len(read.ids), read.total) == (count, None)
    assert (read.next is None) == (count < 3), "a full page may not be the last"


@pytest.mark.parametrize(
    ("changes", "reason"),
    (
        ({"status": 7.5}, "status is 7.5"),
        ({"total_price": "4400"}, 'total_price is "4400"'),
        ({"created_at": None}, "created_at is null"),
        ({"total_tax": -1}, "total_tax is -1"),
        ({"total_shipping": True}, "total_shipping is true"),
        ({"created_at": "yesterday"}, 'created_at is "yesterday"'),
        ({"created_at": "9999-12-31T23:59:59-12:00"}, 'created_at is "9999-12-31T23:59:59-12:00"'),
        ({"created_at": "1969-12-31T23:59:59Z"}, 'created_at is "1969-12-31T23:59:59Z"'),
        ({"line_items": None}, "line_items is null"),
        ({"line_items": [3]}, "line_items.0 is 3"),
        ({"line_items": [LINE, {**LINE, "quantity": "two"}]}, 'line_items.1.quantity is "two"'),
        ({"line_items": [{**LINE, "product_id": ""}]}, 'line_items.0.product_id is ""'),
        ({"metadata": {"shop_order_label": []}}, "metadata.shop_order_label is []"),
    ),
)
def test_a_bad_row_is_kept_in_printifys_words_and_the_others_are_read(
    changes: dict[str, Any], reason: str
) -> None:
    bad = {**ORDER, **changes}
    read = orders({**ORDER, "id": "first"}, bad, {**ORDER, "id": "last"})
    assert [row.external_id for row in read.records.orders] == ["first", "last"]
    [kept] = read.records.unreadable
    assert (kept.kind, kept.external_id, kept.reason) == ("orders", ORDER["id"], reason)
    assert kept.raw == bad
    assert read.ids == ("first", ORDER["id"], "last")


@pytest.mark.parametrize("row", (None, 7, "x", [], {**ORDER, "status": "a\x00b"}, {"a": "\ud800"}))
def test_a_row_that_no_table_takes_is_kept_without_what_cannot_be_stored(row: Any) -> None:
    [kept] = orders(row).records.unreadable
    clean = json.loads(json.dumps(row).replace("\\u0000", "?").replace("\\ud800", "?"))
    assert kept.raw == (clean if isinstance(row, dict) else {"row": row})
    has_id = isinstance(row, dict) and "id" in row
    assert (
        kept.external_id == ORDER["id"]
        if has_id
        else re.fullmatch(r"\?[0-9a-f]{16}", kept.external_id)
    )


@pytest.mark.parametrize("name", sorted(set(ORDER) - {"id", "created_at", "line_items"}))
def test_an_order_is_read_though_a_field_is_null_or_missing(name: str) -> None:
    """Without lines it is set aside: those that are stored would be removed."""
    assert order(**{name: None}).external_id == ORDER["id"]
    row = {key: value for key, value in ORDER.items() if key != name}
    assert [read.external_id for read in orders(row).records.orders] == [ORDER["id"]]


@pytest.mark.parametrize("name", sorted(set(LINE) - {"quantity"}))
def test_a_line_is_read_though_any_field_but_its_quantity_is_null_or_missing(name: str) -> None:
    row = {key: value for key, value in LINE.items() if key != name}
    read = order(line_items=[row, {**LINE, name: None}])
    assert [line.quantity for line in read.line_items] == [2, 2]


def test_an_order_as_the_vendors_schema_describes_it_is_read_without_the_rest() -> None:
    line = {"product_id": "p1", "quantity": 2, "variant_id": 7}
    row = {name: ORDER[name] for name in ("id", "status", "address_to", "total_price")}
    rest = {"created_at": ORDER["created_at"], "total_shipping": 405, "shipping_method": 1}
    [read] = orders({**row, **rest, "line_items": [line]}).records.orders
    assert (read.total, read.shipping, read.tax) == (Decimal("44.00"), Decimal("4.05"), None)
    [item] = read.line_items
    assert (item.quantity, item.price, item.listing_id) == (2, None, "p1:7")


def test_an_amount_with_parts_of_a_cent_is_unknown_and_its_order_is_read() -> None:
    """Such a number may be dollars: a guess could be wrong a hundred times over."""
    read = order(total_price=44.5, total_tax=0.5, line_items=[{**LINE, "metadata": {"price": 9.5}}])
    assert (read.total, read.tax, read.shipping) == (None, None, Decimal("4.05"))
    assert [line.price for line in read.line_items] == [Decimal("9.00")], "the cost is known"


def test_a_variant_without_a_price_is_a_listing_without_one() -> None:
    read = read_products(page({**PRODUCT, "variants": [{**VARIANT, "price": None}]}), limit=50)
    assert [listing.price for listing in read.records.listings] == [None]


def test_an_order_with_nulls_and_whole_floats_is_read() -> None:
    line = {**LINE, "product_id": None}
    read = order(total_tax=None, total_shipping=None, total_price=4400.0, line_items=[line, line])
    assert (read.total, read.shipping, read.tax) == (Decimal("44.00"), None, None)
    assert [(item.external_id, item.listing_id) for item in read.line_items] == [
        (":7", None),
        (":7:2", None),
    ]


@pytest.mark.parametrize(
    ("currency", "expected"), (("EUR", "EUR"), (None, "USD"), ("euro", "USD"), (7, "USD"))
)
def test_an_order_has_the_currency_that_it_names_else_dollars(
    currency: object, expected: str
) -> None:
    read = order(currency=currency)
    assert read.currency == expected
    assert {item.currency for item in read.line_items} == {expected}


def test_a_bad_product_in_the_middle_of_a_page_costs_only_itself() -> None:
    rows = [{**PRODUCT, "id": "p0"}, {**PRODUCT, "title": ["x"]}, {**PRODUCT, "id": "p2"}]
    read = read_products(page(*rows), limit=50)
    assert [listing.external_id for listing in read.records.listings] == ["p0:7", "p2:7"]
    [kept] = read.records.unreadable
    assert (kept.kind, kept.external_id, kept.reason) == ("listings", "p1", 'title is ["x"]')
    assert read.ids == ("p0", "p1", "p2")


def test_a_number_of_ten_thousand_digits_costs_only_its_row() -> None:
    body = page(ORDER, {**ORDER, "id": "huge", "total_price": "HUGE"}, {**ORDER, "id": "last"})
    read = read_orders(body.replace(b'"HUGE"', b"9" * 10_000), limit=10, now=NOW)
    assert [row.external_id for row in read.records.orders] == [ORDER["id"], "last"]
    [kept] = read.records.unreadable
    assert kept.external_id == "huge"
    assert kept.reason.startswith('total_price is "999')


def test_a_text_that_only_speaks_of_nul_is_no_nul() -> None:
    assert order(status="\\u0000").status == "\\u0000"


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"<html>",
        b"[]",
        b'{"status":"error","message":"no"}',
        b"[" * 100_000,
        page(ORDER, total="1"),
        page(ORDER, data={}),
        page(*[ORDER] * 11),
        page(ORDER, per_page=5),
    ),
    ids=range(9),
)
def test_a_bad_page_is_refused_whole(body: bytes) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_orders(body, limit=10, now=NOW)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 250


@pytest.mark.parametrize("depth", (100, 500, 900, 990, 5000))
def test_a_row_that_is_nested_without_end_does_no_harm(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    body = page("NESTED").replace(b'"NESTED"', b'{"id": "x", "a": ' + nested + b"}")
    with contextlib.suppress(UnreadableError):
        assert read_orders(body, limit=10, now=NOW).records.orders == ()


@pytest.mark.parametrize("body", (b"[]", b"3", b'{"status":"error"}'))
def test_what_is_no_order_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableError, match="no order"):
        read_order(body, now=NOW)


def test_a_page_refers_to_the_next_one() -> None:
    assert orders(ORDER, current_page=2, last_page=5).next == "3"
    assert orders(ORDER, current_page=5, last_page=5).next is None
    assert orders(current_page=2, last_page=5).next is None
    assert orders(ORDER, total=41).total == 41


def test_stamps_and_ids_are_of_the_rows_as_they_stood() -> None:
    read = orders(ORDER, {**ORDER, "id": "b", "status": None}, {"created_at": "?"})
    assert read.ids == (ORDER["id"], "b")
    assert read.stamps == (datetime(2026, 1, 18, 13, 24, 28, tzinfo=UTC),) * 2


def test_an_order_that_is_on_a_page_twice_is_read_once() -> None:
    read = orders(ORDER, {**ORDER, "status": "pending"})
    assert [row.status for row in read.records.orders] == ["fulfilled"]


def test_the_smallest_shop_stands_for_the_account() -> None:
    rows = [{"id": 92, "title": "B"}, {"id": 7, "title": None, "sales_channel": "x"}]
    shops = read_shops(json.dumps(rows).encode())
    assert [(shop.id, shop.title, shop.owner_id) for shop in shops] == [
        ("7", "", "7"),
        ("92", "B", "7"),
    ]
    assert read_shops(b"[]") == ()
    for body in (b"{}", b"[3]", b'[{"id":"x"}]'):
        with pytest.raises(UnreadableError):
            read_shops(body)


@pytest.mark.parametrize(
    ("body", "message"),
    (
        (b'{"message":"Not found.","errors":{"reason":"No order"}}', "Not found.: No order"),
        (b'{"message":"No\\nway"}', "No way"),
        (b'{"errors":[]}', '{"errors":[]}'),
        (b"<p>Oops", "<p>Oops"),
        (b"3", "3"),
    ),
)
def test_an_error_reply_is_shown_in_one_line(body: bytes, message: str) -> None:
    assert read_message(body) == message


@given(
    changes=st.dictionaries(st.sampled_from([*ORDER, *PRODUCT, "extra"]), json_values, max_size=3)
)
def test_whatever_a_row_holds_it_is_read_or_kept(changes: dict[str, Any]) -> None:
    read = orders({**ORDER, **changes}).records
    assert len(read.orders) + len(read.unreadable) == 1
    products = read_products(page({**PRODUCT, **changes}), limit=50).records
    assert len(products.unreadable) <= 1
    for kept in (*read.unreadable, *products.unreadable):
        text = json.dumps(kept.raw, allow_nan=False, ensure_ascii=False)
        assert b"\\u0000" not in text.encode().replace(b"\\\\", b"")
        assert kept.external_id
