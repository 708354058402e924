"""A price list is read row by row: bad rows are set aside, truncated lists are refused."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from headway.core.catalog.listings import Sku, SuppliedDetails
from headway.errors import ConfigError, UnreadableError
from headway.providers.feed.price_list import PriceList, read_list
from headway.providers.feed.settings import FeedOptions, check_address, read_options

HEADER = "sku,price,quantity\n"


def options(url: str = "https://x.test/p.csv", **chosen: Any) -> FeedOptions:
    return read_options(url, {"currency": "USD", **chosen})


def read(text: str, **chosen: Any) -> PriceList:
    return read_list(text.splitlines(keepends=True), options(**chosen))


def test_rows_become_quotes_and_unknown_skus_are_missing() -> None:
    reply = read(HEADER + "A1,10.50,3\nb2,0,0\n").reply([Sku("a1"), Sku("B2"), Sku("C3")])
    first = reply.quotes[Sku("a1")]
    assert (first.net_price, first.list_price) == (Decimal("10.5"), Decimal("10.5"))
    assert (first.currency, first.quantities) == ("USD", {"default": 3})
    assert reply.quotes[Sku("B2")].net_price is None, "zero means no price"
    assert reply.missing == {Sku("C3")}


def test_columns_delimiter_and_stock_are_as_the_operator_says() -> None:
    text = "PartNo;Liste;Netto;Da;Ort;Titel\nA1;20;10;yes;Dallas;Bolt\nA1;20;10;no;Miami;Bolt\n"
    columns = {
        "sku": "PartNo", "price": "Netto", "list_price": "Liste", "in_stock": "Da",
        "location": "Ort", "name": "Titel",
    }  # fmt: skip
    quote = read(text, delimiter=";", columns=columns).reply([Sku("A1")]).quotes[Sku("A1")]
    assert (quote.list_price, quote.net_price, quote.name) == (20, 10, "Bolt")
    assert quote.quantities == {"Dallas": 1, "Miami": 0}


def test_texts_and_details_are_read_from_columns_that_the_operator_names() -> None:
    text = "sku,price,quantity,lb,from,what,uom\nA1,10,3,0.5,US,\x1fA\x1fbolt,hd\nB2,1,1,,,,\n"
    columns = {"weight": "lb", "origin": "from", "description": "what", "unit": "uom"}
    reply = read(text, columns=columns).reply([Sku("A1"), Sku("B2")])
    quote = reply.quotes[Sku("A1")]
    assert quote.details == SuppliedDetails(weight="0.5", origin="US")
    assert (quote.description, quote.unit, quote.name) == ("A bolt", "HD", "")
    assert reply.raw[Sku("A1")]["weight"] == "0.5"
    assert reply.quotes[Sku("B2")].details == SuppliedDetails()


def test_two_rows_of_a_part_by_different_units_are_set_aside() -> None:
    text = "sku,price,quantity,location,uom\nA1,10,3,Dallas,EA\nA1,10,3,Miami,HD\n"
    prices = read(text, columns={"unit": "uom", "location": "location"})
    assert "two different rows" in prices.bad_rows[0]


@pytest.mark.parametrize(
    ("row", "reason"),
    (
        ("A1,ten,3", "line 2: price is not a number"),
        ("A1,1,2.5", "line 2: quantity is not a whole number"),
        ("A1,1,", "line 2: quantity is not a number"),
        (",1,1", "line 2: no SKU"),
        ("A1,1,1,1", "line 2: 4 columns instead of 3"),
    ),
)
def test_a_bad_row_is_set_aside_with_its_line_number(row: str, reason: str) -> None:
    prices = read(f"{HEADER}{row}\nB2,5,1\n")
    assert prices.bad_rows[0].startswith(reason)
    assert len(prices) == 1
    reply = prices.reply([Sku("A1"), Sku("B2")])
    assert set(reply.quotes) == {Sku("B2")}
    if row.startswith("A1,") and row.count(",") == 2:
        assert reply.faulty[Sku("A1")].startswith(reason)


@pytest.mark.parametrize("price", ("-1", "1000000000000", "0.00001", "0", ""))
def test_a_number_that_cannot_be_a_price_is_none_and_its_stock_is_read(price: str) -> None:
    prices = read(f"{HEADER}A1,{price},3\n")
    quote = prices.reply([Sku("A1")]).quotes[Sku("A1")]
    assert (quote.list_price, quote.net_price) == (None, None)
    assert list(quote.quantities.values()) == [3]


def test_two_different_rows_of_one_sku_make_it_bad_and_equal_rows_do_not() -> None:
    prices = read(HEADER + "A1,5,1\nA1,6,1\nA1,5,1\nB2,5,1\nB2,5,1\n")
    reply = prices.reply([Sku("A1"), Sku("B2")])
    assert reply.faulty == {Sku("A1"): "line 3: two different rows for this SKU"}
    assert set(reply.quotes) == {Sku("B2")}
    assert prices.bad_count == 1


@pytest.mark.parametrize(
    "text",
    (
        HEADER + "A1,5,1\nB2,",
        HEADER + 'A1,5,1\nB2,5,"1',
        HEADER + "A1,5,1\nB2",
    ),
)
def test_a_list_that_ends_inside_a_row_is_truncated(text: str) -> None:
    with pytest.raises(UnreadableError, match="truncated"):
        read(text)


def test_a_trailer_must_be_there_and_count_the_rows() -> None:
    assert len(read(HEADER + "A1,5,1\nEND,1\n", trailer="END")) == 1
    with pytest.raises(UnreadableError, match="does not end with END"):
        read(HEADER + "A1,5,1\n", trailer="END")
    with pytest.raises(UnreadableError, match="counts 2 rows, it has 1"):
        read(HEADER + "A1,5,1\nEND,2\n", trailer="END")


def test_a_missing_column_is_named() -> None:
    with pytest.raises(UnreadableError, match=r"no column quantity .*: sku, price"):
        read("sku,price\nA1,5\n")
    with pytest.raises(UnreadableError, match="no column sku"):
        read("<html><body>Sorry</body></html>")


ROW = '{"sku": "A1", "price": 5.10, "quantity": 3}'


@pytest.mark.parametrize(
    ("text", "chosen"),
    (
        (f"[{ROW}]", {}),
        (f"[{ROW},\n {ROW}]", {}),
        (f"{ROW}\n{ROW}\n", {}),
        (f'{{"at": 1, "rows": [{ROW}]}}', {"items": "rows"}),
    ),
)
def test_json_is_read_as_an_array_as_lines_or_below_a_key(
    text: str, chosen: Mapping[str, Any]
) -> None:
    for size in (1, 7, 10_000):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        prices = read_list(pieces, options(format="json", **chosen))
        quote = prices.reply([Sku("A1")]).quotes[Sku("A1")]
        assert (quote.net_price, quote.quantities) == (Decimal("5.1"), {"default": 3})


@pytest.mark.parametrize("text", (f"[{ROW}", f"[{ROW}, {ROW[:9]}", f"{ROW}\n{ROW[:9]}", "[", "{"))
def test_json_that_ends_inside_a_row_is_truncated(text: str) -> None:
    with pytest.raises(UnreadableError, match="truncated"):
        read_list([text], options(format="json"))


@pytest.mark.parametrize("text", ("", "<html>", "null", '"text"', "\x00\x01"))
def test_what_is_not_a_list_of_rows_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_list([text], options(format="json"))


def test_bad_rows_of_json_are_counted_by_position() -> None:
    text = f'[{ROW}, 7, {{"sku": "B2", "price": {{}}, "quantity": 1}}]'
    prices = read_list([text], options(format="json"))
    assert [row.split(" (")[0] for row in prices.bad_rows] == [
        "line 2: not an object",
        "line 3: price is not a number",
    ]


@pytest.mark.parametrize(
    ("chosen", "reason"),
    (
        ({"colour": "red"}, "no option colour"),
        ({"currency": "dollars"}, "currency"),
        ({"interval": "never"}, "interval"),
        ({"interval": "1s"}, "interval"),
        ({"format": "xml"}, "format"),
        ({"delimiter": ";;"}, "delimiter"),
        ({"columns": {"color": "c"}}, "columns"),
        ({"seats": "0"}, "seats"),
        ({"shrink": "2"}, "shrink"),
    ),
)
def test_options_that_make_no_sense_are_refused(chosen: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        options(**chosen)


@pytest.mark.parametrize(
    ("url", "reason"),
    (
        ("http://parts.example/p.csv", "use https"),
        ("https://user:pass@parts.example/p.csv", "leave the password out"),
        ("ftp://parts.example/p.csv", "write https"),
        ("/no/such/file.csv", "there is no file /no/such/file.csv"),
        ("prices.csv", "write https"),
    ),
)
def test_only_https_this_machine_and_existing_files_are_read(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_address(url)
    check_address("https://parts.example/p.csv")
    check_address("http://127.0.0.1:8000/p.csv")
    check_address("http://localhost/p.csv")
