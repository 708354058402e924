import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config import Settings
from headway.core.catalog.listings import BelievedStock, Reply, Sku, SuppliedDetails
from headway.errors import UnreadableError
from headway.providers.boeing.api import api_of
from headway.providers.boeing.replies import parse_reply

FORM = api_of(Settings()).form
A, B = Sku("WF338109=K3"), Sku("2D2019-5=E9")
LINE = {
    "aviallPartNumber": "WF338109=K3",
    "productCode": "WF338109",
    "listPrice": 20.5,
    "netPrice": "10.25",
    "quantity": 7,
    "inStock": True,
    "locationAvailabilities": [
        {"location": "Dallas Central", "availQuantity": 5},
        {"location": "Germany CSC", "availQuantity": "2"},
    ],
}


def reply_to(*lines: object, skus: tuple[Sku, ...] = (A,), currency: object = "USD") -> Reply:
    return parse_reply(json.dumps({"currency": currency, "lineItems": lines}).encode(), skus, FORM)


def line(**changes: object) -> dict[str, Any]:
    return {**LINE, **changes}


def places(*quantities: object) -> list[dict[str, object]]:
    return [{"location": "Dallas Central", "availQuantity": quantity} for quantity in quantities]


def test_a_good_line_becomes_a_quote_with_its_suffix_kept() -> None:
    quote = reply_to(LINE).quotes[A]
    assert quote.sku == "WF338109=K3"
    assert (quote.list_price, quote.net_price) == (Decimal("20.5"), Decimal("10.25"))
    assert quote.currency == "USD"
    assert quote.quantities == {"Dallas Central": 5, "Germany CSC": 2}


def test_a_list_price_of_zero_is_no_list_price() -> None:
    for zero in (0, 0.0, "0", "0.00", None, ""):
        quote = reply_to(line(listPrice=zero)).quotes[A]
        assert quote.list_price is None
        assert quote.net_price == Decimal("10.25")


def test_a_price_has_one_spelling() -> None:
    for spelling in ("1000", "1000.00", 1000, 1e3, "+1000", " 1000 ", 1000.00000000000001):
        price = reply_to(line(netPrice=spelling)).quotes[A].net_price
        assert str(price) == "1000"
    assert reply_to(line(netPrice=70.74000000000001)).quotes[A].net_price == Decimal("70.74")


@pytest.mark.parametrize(
    "price",
    (-1, "-0.01", "n/a", "1,234.50", "$5", "1_000", "١٢", True, [], {}, 1e10, 1e-9, "1e3",
     float("nan"), float("inf"), "NaN", "Infinity"),
)  # fmt: skip
def test_a_price_nobody_can_mean_is_no_price_and_a_reason_to_hold_the_part(price: object) -> None:
    reply = reply_to(line(netPrice=price), line(aviallPartNumber=B), skus=(A, B))
    assert (set(reply.faulty), set(reply.quotes)) == (set(), {A, B})
    quote = reply.quotes[A]
    assert quote.net_price is None
    assert [doubt.kind for doubt in quote.doubts] == ["net price"]
    assert quote.doubts[0].reason.startswith("the net price is not usable: ")
    assert quote.quantities, "stock flows all the same"
    assert reply.quotes[B].doubts == ()


@pytest.mark.parametrize(
    ("changes", "kind", "reason", "stock"),
    (
        ({"inStock": False, "quantity": 0}, "stock",
         "not in stock by the line, yet Dallas Central has 5", "none"),
        ({"inStock": False}, "stock",
         "not in stock by the line, yet Dallas Central has 5", "fallen"),
        ({"inStock": None, "quantity": 0}, "stock",
         "not in stock by the line, yet Dallas Central has 5", "none"),
        ({"locationAvailabilities": [{"location": "Dallas Central", "availQuantity": 0}]}, "stock",
         "in stock by the line, yet no location has any", "fallen"),
        ({"currency": "EUR"}, "currency EUR", "the line is in EUR, the reply in USD", "as read"),
        ({"currencyCode": "US$"}, "currency US$",
         "the line is in US$, the reply in USD", "as read"),
        ({"errorMessage": "no\nluck"}, "error",
         "the supplier reports an error beside the price: no luck", "kept"),
        ({"error": "try later"}, "error",
         "the supplier reports an error beside the price: try later", "kept"),
        ({"status": "ERROR"}, "error",
         "the supplier reports an error beside the price: status ERROR", "kept"),
        ({"supersededBy": "WF400=K3"}, "superseded WF400=K3", "superseded by WF400=K3", "fallen"),
        ({"aviallPartNumber": "WF400=K3", "productCode": A}, "superseded WF400=K3",
         "the supplier quotes another part, WF400=K3", "fallen"),
    ),
)  # fmt: skip
def test_a_line_that_contradicts_itself_is_quoted_with_the_doubt(
    changes: dict[str, object], kind: str, reason: str, stock: str
) -> None:
    (doubt,) = reply_to(line(**changes)).quotes[A].doubts
    assert (doubt.kind, doubt.reason, doubt.stock) == (kind, reason, stock)


@pytest.mark.parametrize(
    "changes",
    (
        {"currency": "usd "}, {"status": "OK"}, {"errorMessage": ""}, {"error": None},
        {"supersededBy": ""}, {"supersededBy": "wf338109=k3"}, {"quantity": 0},
        {"inStock": None, "quantity": None},
    ),
)  # fmt: skip
def test_a_line_that_agrees_with_itself_raises_no_doubt(changes: dict[str, object]) -> None:
    assert reply_to(line(**changes)).quotes[A].doubts == ()


def test_a_part_asked_for_without_its_suffix_is_no_other_part() -> None:
    base = Sku("WF338109")
    assert reply_to(LINE, skus=(base,)).quotes[base].doubts == ()


def test_a_reply_without_a_currency_has_that_of_its_lines_or_of_the_setting() -> None:
    for missing in (None, ""):
        reply = reply_to(
            line(currency="EUR"), line(aviallPartNumber=B), skus=(A, B), currency=missing
        )
        assert [reply.quotes[sku].currency for sku in (A, B)] == ["EUR", "USD"]
        assert reply.quotes[A].doubts == ()


def test_unit_and_minimum_order_are_read_by_any_of_their_names() -> None:
    quote = reply_to(line(baseUOM=" hd ", minOrderQty="10")).quotes[A]
    assert (quote.unit, quote.minimum) == ("HD", 10)
    plain = reply_to(line(baseUOM=5, minimumOrderQuantity="many")).quotes[A]
    assert (plain.unit, plain.minimum) == ("", 1)


def test_details_of_a_product_are_read_as_text_whatever_they_are() -> None:
    details = reply_to(
        line(
            weight=0.5,
            weightUOM=" LB\n",
            countryOfOrigin=["US"],
            scheduleBCode=8803300010,
            conditionCode="NE",
            thumbnailImage="https://images.example.com/a.jpg",
        )
    )
    assert details.quotes[A].details == SuppliedDetails(
        weight="0.5",
        weight_unit="LB",
        origin="(not a text or a number)",
        tariff_code="8803300010",
        condition="NE",
        image="https://images.example.com/a.jpg",
    )
    assert reply_to(LINE).quotes[A].details == SuppliedDetails()


def test_lines_that_differ_only_in_their_details_are_one_quote() -> None:
    quote = reply_to(line(weight=1), line(weight=2)).quotes[A]
    assert quote.details.weight == "1"


def test_the_names_of_fields_are_settings() -> None:
    renamed = Settings(boeing_fields={"list_price": "unitPrice", "lines": "items"})
    body = {"currency": "USD", "items": [{**LINE, "unitPrice": 99}]}
    form = api_of(renamed).form
    assert parse_reply(json.dumps(body).encode(), [A], form).quotes[A].list_price == Decimal(99)


@pytest.mark.parametrize(
    "quantity",
    (-1, "-3", 1.5, "1.5", 10**9 + 1, True, None, "many", "", [], float("nan"), float("inf")),
)
def test_a_quantity_nobody_can_mean_makes_its_sku_faulty(quantity: object) -> None:
    assert set(reply_to(line(locationAvailabilities=places(quantity))).faulty) == {A}


def test_a_location_named_twice_holds_the_sum() -> None:
    quote = reply_to(line(locationAvailabilities=places(3, "4", 2.0))).quotes[A]
    assert quote.quantities == {"Dallas Central": 9}


def test_a_sum_beyond_reason_is_faulty() -> None:
    assert A in reply_to(line(locationAvailabilities=places(10**9, 1))).faulty


@pytest.mark.parametrize("name", ("", "  ", None, 5, "nul\0", "\ud800", "x" * 201))
def test_a_location_without_a_usable_name_is_faulty(name: object) -> None:
    place = [{"location": name, "availQuantity": 1}]
    assert A in reply_to(line(locationAvailabilities=place)).faulty


def test_no_stock_anywhere_is_believed_when_the_line_says_so() -> None:
    for empty in ([], None):
        sold_out = line(locationAvailabilities=empty, inStock=False, quantity=0)
        assert reply_to(sold_out).quotes[A].quantities == {}


def test_stock_without_a_location_is_doubted_and_changes_no_stock() -> None:
    for changes in (
        {"locationAvailabilities": [], "inStock": True, "quantity": 0},
        {"locationAvailabilities": [], "inStock": False, "quantity": 3},
        {"locationAvailabilities": None, "inStock": True, "quantity": 3},
        {"locationAvailabilities": None, "inStock": None, "quantity": None},
    ):
        [doubt] = reply_to(line(**changes)).quotes[A].doubts
        assert (doubt.kind, doubt.stock) == ("stock", BelievedStock.KEPT), changes


def test_locations_that_are_no_list_make_their_sku_faulty() -> None:
    for changes in (
        {"locationAvailabilities": {"Dallas Central": 5}},
        {"locationAvailabilities": "Dallas Central"},
    ):
        assert A in reply_to(line(**changes)).faulty


def test_name_description_and_vendor_are_plain_lines_of_bounded_length() -> None:
    quote = reply_to(
        line(name=" Seal\n\0 ring ", description="d" * 9000, supplierName="Acme\ud800")
    ).quotes[A]
    assert (quote.name, quote.vendor) == ("Seal ring", "Acme")
    assert quote.description == "d" * 5000
    plain = reply_to(line(name=5, description=None, supplierName=["x"])).quotes[A]
    assert (plain.name, plain.description, plain.vendor) == ("", "", "")


def test_lines_that_differ_in_words_only_are_one() -> None:
    assert A in reply_to(line(name="Seal"), line(name="seal, ring")).quotes


def test_the_raw_line_of_a_quote_is_kept_digit_by_digit() -> None:
    raw = reply_to(line(weight=0.1, hazmatCode=None, dim="1 x 2")).raw[A]
    assert raw == {
        **LINE,
        "listPrice": "20.5",
        "quantity": "7",
        "weight": "0.1",
        "hazmatCode": None,
        "dim": "1 x 2",
        "locationAvailabilities": [
            {"location": "Dallas Central", "availQuantity": "5"},
            {"location": "Germany CSC", "availQuantity": "2"},
        ],
    }


def test_lines_about_other_parts_are_not_kept_raw() -> None:
    reply = reply_to(
        LINE, line(aviallPartNumber=B, netPrice="n/a"), line(aviallPartNumber="X"), skus=(A, B)
    )
    assert set(reply.raw) == {A, B}


def test_a_raw_line_is_bounded_and_fit_for_the_database_whatever_it_holds() -> None:
    endless: list[Any] = []
    for _ in range(200):
        endless = [endless, "nul\0", "\ud800"]
    fields = {f"field{n}\0": "x" * 10_000 for n in range(200)}
    text = json.dumps(reply_to(line(dim=endless, **fields)).raw[A], ensure_ascii=False)
    assert len(text) < 100 * 5100
    assert text.count("[") <= 4
    assert "\0" not in text
    text.encode()


def test_skus_match_without_regard_to_case_but_exactly() -> None:
    lower = Sku("wf338109=k3")
    assert reply_to(LINE, skus=(lower,)).quotes[lower].sku == lower
    assert reply_to(LINE, skus=(Sku("WF338109=K"),)).missing == {"WF338109=K"}


def test_a_sku_listed_with_spaces_around_it_is_not_taken_for_missing() -> None:
    spaced = Sku(f" {A} ")
    reply = reply_to(line(), skus=(spaced,))
    assert (set(reply.quotes), reply.missing) == ({spaced}, frozenset())


def test_the_part_number_matches_before_the_product_code() -> None:
    base = Sku("WF338109")
    assert set(reply_to(LINE, skus=(base,)).quotes) == {base}
    both = reply_to(LINE, skus=(A, base))
    assert set(both.quotes) == {A}
    assert both.missing == {base}


def test_two_variants_under_one_product_code_are_not_mixed_up() -> None:
    other = line(aviallPartNumber="WF338109=E9", netPrice=99)
    assert reply_to(LINE, other, skus=(Sku("WF338109"),)).faulty == {
        "WF338109": "two different lines"
    }
    assert reply_to(LINE, other).quotes[A].net_price == Decimal("10.25")


def test_equal_lines_are_one_and_different_lines_are_faulty() -> None:
    shuffled = line(locationAvailabilities=LINE["locationAvailabilities"][::-1])
    assert A in reply_to(LINE, shuffled).quotes
    assert reply_to(LINE, line(netPrice=11)).faulty == {A: "two different lines"}


def test_lines_nobody_asked_for_are_ignored_and_absent_ones_are_missing() -> None:
    reply = reply_to(LINE, skus=(B,))
    assert reply.missing == {B}
    assert not reply.quotes


def test_beside_a_line_without_a_number_no_sku_is_called_missing() -> None:
    for nameless in ({}, None, 5, "text", {"aviallPartNumber": 5}):
        reply = reply_to(LINE, nameless, skus=(A, B))
        assert set(reply.unclear) == {B}
        assert set(reply.quotes) == {A}
        assert not reply.missing


def test_an_error_inside_a_line_is_about_that_sku() -> None:
    reply = reply_to(line(error="not\x00sold\nhere", listPrice=0, netPrice=0))
    assert reply.faulty == {A: "the supplier says: not sold here"}


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"<html>maintenance</html>",
        b'{"currency":"USD","lineItems":[{"aviallPartN',
        b'{"currency":"USD"}',
        b'{"currency":"USD","lineItems":null}',
        b'{"currency":"USD","lineItems":{}}',
        b'{"currency":"US$","lineItems":[]}',
        b'{"currency":5,"lineItems":[]}',
        b'{"error":"internal","status":500}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ),
)
def test_a_reply_that_breaks_its_promise_is_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableError) as raised:
        parse_reply(body, [A], FORM)
    assert len(str(raised.value)) <= 250
    assert str(raised.value).isprintable()


def test_numbers_beyond_all_bounds_harm_only_their_own_line() -> None:
    huge = b'{"currency":"USD","lineItems":[{"productCode":"%s","netPrice":%s}]}'
    for number in (b"1e99999999999999999999", b"9" * 10_000, b"1e-99999999999999999999"):
        quote = parse_reply(huge % (A.encode(), number), [A], FORM).quotes[A]
        assert (quote.net_price, quote.doubts[0].kind) == (None, "net price")


def is_sound(reply: Reply, skus: list[Sku]) -> bool:
    prices = [
        price
        for quote in reply.quotes.values()
        for price in (quote.list_price, quote.net_price)
        if price is not None
    ]
    stock = [quantity for quote in reply.quotes.values() for quantity in quote.quantities.values()]
    json.dumps(dict(reply.raw), ensure_ascii=False).encode()
    sorted_once = sorted([*reply.quotes, *reply.missing, *reply.faulty, *reply.unclear]) == sorted(
        skus
    )
    return (
        sorted_once
        and all(price.is_finite() and price > 0 for price in prices)
        and all(type(quantity) is int and 0 <= quantity <= 10**9 for quantity in stock)
    )


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.decimals().map(str)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)
some_places = st.lists(
    st.fixed_dictionaries({"location": scalars, "availQuantity": scalars}), max_size=3
)
some_lines = st.fixed_dictionaries(
    {},
    optional={
        "aviallPartNumber": st.sampled_from([A, B, A.lower(), "other"]) | scalars,
        "productCode": st.sampled_from([A, B]) | scalars,
        "listPrice": values,
        "netPrice": values,
        "quantity": values,
        "inStock": values,
        "locationAvailabilities": some_places | values,
        "error": values,
        "name": values,
        "dim": values,
    },
)
documents = st.fixed_dictionaries(
    {"currency": st.sampled_from(["USD", "eur"]) | values},
    optional={"lineItems": st.lists(some_lines | values, max_size=4) | values},
)


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_a_reply_or_an_unreadable_one(body: bytes) -> None:
    try:
        reply = parse_reply(body, [A, B], FORM)
    except UnreadableError:
        return
    assert is_sound(reply, [A, B])


@given(documents, st.integers(min_value=0))
def test_any_document_whole_or_cut_is_a_sound_reply_or_an_unreadable_one(
    document: dict[str, Any], cut: int
) -> None:
    body = json.dumps(document).encode()
    for text in (body, body[: cut % (len(body) + 1)]):
        try:
            reply = parse_reply(text, [A, B], FORM)
        except UnreadableError:
            continue
        assert is_sound(reply, [A, B])
