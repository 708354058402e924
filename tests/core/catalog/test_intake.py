"""What may come in, and what a file's rows are read as."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.intake import (
    COLUMNS,
    TIERS,
    WEIGHT_MAX,
    WEIGHT_MIN,
    ImportedPart,
    ImportRow,
    RefusedRow,
    gid_of,
    handle_of,
    intake_message,
    read_at,
    read_rows,
    seller_of,
    shop_sku,
    sku_of,
    text_lines,
    weigh,
)
from headway.core.catalog.listings import SellerId, Sku
from headway.core.limits.breaker import Breaker
from headway.core.timetable.next_call import SupplierQueue
from headway.core.timetable.seats import SeatRule
from headway.errors import InvalidError

ACME = SellerId("acme")
amounts = st.none() | st.floats(min_value=0, max_value=1e6)
tiers = st.none() | st.sampled_from(list(TIERS))
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


def rows(text: str | bytes, *, only: str | None = None, otherwise: str | None = "acme") -> list:
    raw = text.encode() if isinstance(text, str) else text
    return list(
        read_rows(
            raw.splitlines(keepends=True),
            only=None if only is None else SellerId(only),
            otherwise=None if otherwise is None else SellerId(otherwise),
        )
    )


def reasons(imported: list[ImportRow | RefusedRow]) -> dict[int, str]:
    return {row.line: row.reason for row in imported if isinstance(row, RefusedRow)}


@pytest.mark.parametrize("sku", ("WF338109=K3", "AN 960/10L", "3/4\" bolt 'x'", "-3", "ü" * 255))
def test_a_part_number_may_hold_whatever_can_be_printed(sku: str) -> None:
    assert sku_of(f"  {sku}\t") == sku


@pytest.mark.parametrize(
    ("sku", "why"),
    (
        ("", "is empty"),
        (" \t\n", "is empty"),
        ("A\nB", "cannot be printed"),
        ("A\x00B", "cannot be printed"),
        ("A\x1b[2JB", "cannot be printed"),
        ("A\ud800", "cannot be printed"),
        ("A\u200bB", "cannot be printed"),
        ("x" * 256, "256 characters; at most 255"),
    ),
)
def test_what_cannot_be_a_part_number_is_shown_without_harm(sku: str, why: str) -> None:
    with pytest.raises(InvalidError, match=why) as caught:
        sku_of(sku)
    assert str(caught.value).isprintable()
    with pytest.raises(InvalidError, match="seller"):
        seller_of(sku)


@pytest.mark.parametrize(
    ("sku", "base"),
    (
        ("WF338109=K3", "WF338109"),
        ("WF338109", "WF338109"),
        ("=K3", "=K3"),
        ("A=B=K3", "A=B"),
        ("A =K3", "A"),
    ),
)
def test_the_shop_sku_is_the_same_or_goes_without_its_suffix(sku: str, base: str) -> None:
    assert shop_sku(Sku(sku), "base") == base
    assert shop_sku(Sku(sku), "same") == sku


@given(st.text(min_size=1, max_size=255).filter(lambda text: text.isprintable()))
def test_a_handle_is_safe_in_an_address_and_always_the_same(sku: str) -> None:
    handle = handle_of(sku)
    assert handle == handle_of(sku)
    assert 0 < len(handle) < 100
    assert set(handle) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not handle.startswith("-")


def test_parts_that_look_alike_have_handles_of_their_own() -> None:
    alike = ["AN 960/10L", "AN-960-10L", "an 960 10l", "AN960=10L", "é", "è", "=", "/"]
    assert len({handle_of(sku) for sku in alike}) == len(alike)
    assert handle_of("AN 960/10L").startswith("an-960-10l-")


def test_an_id_is_read_with_or_without_its_prefix() -> None:
    assert gid_of(" 123 ", "Product") == "gid://shopify/Product/123"
    assert gid_of("gid://shopify/Product/123", "Product") == "gid://shopify/Product/123"


@pytest.mark.parametrize(
    "text", ("gid://shopify/Order/1", "8.1E+12", "-1", "0", "12a", "", "1" * 21, "١٢", "1\n2")
)
def test_what_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match=r"neither gid://shopify/Product/123 nor 123"):
        gid_of(text, "Product")


def test_columns_come_in_any_order_from_any_spreadsheet() -> None:
    text = (
        "\ufeffTitle, SKU ,shopify_variant_id,seller\r\n"
        '"Bolt, 3/4""",AN 960/10L,42,zenith\r\n'
        "\r\n"
        ",WF1=K3,,\r\n"
    )
    assert rows(text) == [
        ImportRow(
            line=2,
            sku=Sku("AN 960/10L"),
            seller=SellerId("zenith"),
            title='Bolt, 3/4"',
            shopify_variant_id=gid_of("42", "ProductVariant"),
        ),
        ImportRow(line=4, sku=Sku("WF1=K3"), seller=ACME),
    ]


def test_a_bad_row_names_its_line_and_field_and_harms_no_other() -> None:
    text = (
        "sku,seller,shop_sku,title,shopify_product_id\n"
        ",acme,,,\n"
        "A,acme,,,1.2E+05\n"
        f"{'x' * 256},acme,,,\n"
        f"B,acme,{'y' * 256},,\n"
        f"C,acme,,{'z' * 256},\n"
        "D,acme,,a\x07b,\n"
        'E,"ac"me,,,\n'
        "F,acme,,,,too much\n"
        "GOOD,acme\n"
    )
    imported = rows(text)
    assert [row.line for row in imported] == list(range(2, 11))
    messages = reasons(imported)
    assert messages[2] == "sku: a part number is empty"
    assert messages[3].startswith("shopify_product_id: '1.2E+05' is neither")
    assert messages[4].startswith("sku: the part number")
    assert messages[5].startswith("shop_sku: the shop SKU")
    assert messages[6] == "title: has 256 characters; at most 255 are allowed"
    assert messages[7] == "title: holds a control character"
    assert messages[8].startswith("this is not CSV")
    assert messages[9] == "6 cells under 5 columns"
    assert imported[-1] == ImportRow(line=10, sku=Sku("GOOD"), seller=ACME)


BAD_NUMBERS = ("-1", "nan", "inf", "-inf", "1e9", "1e999", "abc", "1,5", "1_000", "٣", ".", "1 0")


@pytest.mark.parametrize(
    ("field", "bad"),
    (
        *(("weight", bad) for bad in ("0", "0.0", "-0", "1e-999", "1000000.1", *BAD_NUMBERS)),
        *(("sales", bad) for bad in BAD_NUMBERS),
        *(("margin", bad) for bad in BAD_NUMBERS),
        *(("tier", bad) for bad in ("gold", "1", "free,pro")),
        *(("family", bad) for bad in ("x" * 256, "a\x07b", "two\nlines")),
    ),
)
def test_a_value_that_cannot_be_one_is_refused_by_its_field(field: str, bad: str) -> None:
    refused, kept = rows(f'sku,{field}\nA,"{bad}"\nB,\n')
    assert refused.reason.startswith(f"{field}: ")
    assert refused.reason.isprintable()
    assert len(refused.reason) < 200
    assert refused.cells[field] == bad
    assert (kept.sku, kept.value_weight, kept.family) == ("B", None, None)


@pytest.mark.parametrize(
    ("columns", "weight"),
    (
        ("weight\nA,2.5", 2.5),
        ("weight\nA, +1.2E+05 ", 120_000),
        ("weight\nA,1000000", WEIGHT_MAX),
        ("weight\nA,1e-300", WEIGHT_MIN),
        ("sales\nA,.5", 0.5),
        ("margin\nA,12.", 12),
        ("tier\nA,Growth", 3),
        ("sales,margin,tier\nA,10,2.5,pro", 100),
        ("sales,margin\nA,0,40", 0.4),
        ("sales,margin,tier\nA,0,0,free", 0.0001),
        ("sales,margin\nA,1000000,1000000", WEIGHT_MAX),
        ("weight,sales,margin,tier\nA,,,,pro", 4),
        ("weight,sales,margin,tier\nA,7,,,", 7),
        ("weight,sales,margin,tier\nA,,,,", None),
    ),
)
def test_a_weight_is_given_or_follows_from_sales_margin_and_tier(
    columns: str, weight: float | None
) -> None:
    (row,) = rows(f"sku,{columns}\n")
    assert row.value_weight == pytest.approx(weight)


@pytest.mark.parametrize(("beside", "value"), (("sales", "0"), ("margin", "3"), ("tier", "pro")))
def test_a_weight_beside_what_it_would_follow_from_is_refused(beside: str, value: str) -> None:
    (refused,) = rows(f"sku,weight,{beside}\nA,2,{value}\n")
    assert refused.reason == f"weight: it is given beside {beside}; leave out either"


@given(amounts, amounts, tiers)
def test_a_weight_is_one_that_the_schedule_takes_and_grows_with_what_it_is_made_of(
    sales: float | None, margin: float | None, tier: str | None
) -> None:
    weight = weigh(sales=sales, margin=margin, tier=tier)
    assert WEIGHT_MIN <= weight <= WEIGHT_MAX
    assert weight == weigh(sales=margin, margin=sales, tier=tier)
    assert weight <= weigh(sales=sales, margin=margin, tier="pro")
    for more in (2.0, 1e6):
        assert weight <= weigh(sales=max(sales or 1, more), margin=margin, tier=tier)
    assert weight == weigh(
        sales=1 if sales is None else sales, margin=margin, tier="free" if tier is None else tier
    )


@given(st.floats(min_value=0.01, max_value=1000), st.floats(min_value=0.01, max_value=100), tiers)
def test_within_bounds_a_weight_is_the_product(
    sales: float, margin: float, tier: str | None
) -> None:
    times = TIERS.get(tier or "free", 1)
    assert weigh(sales=sales, margin=margin, tier=tier) == pytest.approx(sales * margin * times)


def test_a_family_is_named_as_it_is() -> None:
    (row,) = rows('sku,family\nA," Hexcel, list 7 "\n')
    assert row.family == "Hexcel, list 7"


def test_every_column_may_stand_in_one_file() -> None:
    (row,) = rows(f"{','.join(COLUMNS)}\n" + "A,acme,,,,,,Hexcel,,2,3,starter\n")
    assert (row.family, row.value_weight) == ("Hexcel", 12)


def test_a_title_over_two_lines_becomes_one() -> None:
    (row,) = rows('sku,title\nA,"two\nlines"\n')
    assert row.title == "two lines"


@pytest.mark.parametrize("column", ("sku", "shop_sku"))
@pytest.mark.parametrize("bad", ("1.23E+05", "1,23E+05", "1E+10", "4.5E-07"))
def test_a_part_number_that_a_spreadsheet_has_rewritten_is_refused_by_line(
    column: str, bad: str
) -> None:
    text = f"{column};title\n{bad};x\n" if column == "sku" else f"sku;shop_sku\nA;{bad}\n"
    (refused,) = rows(text)
    assert refused.line == 2
    assert f"as {bad}; format the column as text" in refused.reason
    (kept,) = rows("sku\n123E3\n")
    assert kept.sku == "123E3"


def test_rows_of_another_seller_are_refused_where_one_was_named() -> None:
    imported = rows("sku,seller\nA,acme\nB,zenith\nC,\n", only="acme")
    assert reasons(imported) == {3: "seller: this import is for acme only (--seller)"}
    imported = rows("sku,seller\nA,acme\nB,zenith\nC,\n", otherwise=None)
    assert reasons(imported) == {4: "seller: there is none"}


@pytest.mark.parametrize(
    ("text", "why"),
    (
        (b"", "first line names the columns"),
        (b"\n", "first line names the columns"),
        (b'"sku\n', "first line names the columns"),
        (b"title\nx\n", "no column sku"),
        (b"sku,colour,size\n", r"unknown column 'colour', 'size'; .*sku, seller, shop_sku"),
        (b"sku|title\n", r"unknown column 'sku|title'; .*separated by commas"),
        (b"sku,SKU\n", "twice"),
        (b"sku\nA\nB\xff\n", "line 3 is not UTF-8"),
        ("sku\nA\n".encode("utf-16"), "line 1 is not UTF-8"),
        (b'sku,title\nA,"never closed\nB,x\nC,x\n', "line 2: a quote is opened and not closed"),
        (b'sku,title\nA,"open\nB,"x"\nC,x\n', "line 2: a quote is opened and not closed"),
    ),
)
def test_an_unusable_file_is_refused_as_a_whole(text: bytes, why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        rows(text)


def test_a_file_without_a_seller_asks_for_one() -> None:
    with pytest.raises(InvalidError, match="--seller"):
        rows("sku\nA\n", otherwise=None)


def test_text_is_utf_8_with_or_without_a_mark() -> None:
    assert list(text_lines([b"\xef\xbb\xbfA\r\n", "ü\n".encode()])) == ["A\r\n", "ü\n"]


def part(status: str = "requested", **more: object) -> ImportedPart:
    return ImportedPart(**{"sku": Sku("A"), "shop_sku": "A", "status": status, **more})  # type: ignore[arg-type]


def test_the_estimate_counts_the_calls_before_it_and_what_holds_them_up() -> None:
    pace = timedelta(seconds=30)
    rule = SeatRule(seats=10, slack=timedelta(0))
    queue = SupplierQueue(
        rule=rule, breaker=Breaker(), permit_at=NOW + timedelta(seconds=5), pace=pace
    )
    assert read_at(part(place=10), queue, NOW) == queue.permit_at
    assert read_at(part(place=11), queue, NOW) == queue.permit_at + pace
    paused = replace(queue, permit_at=NOW, paused_until=NOW + 10 * pace)
    assert read_at(part(place=1), paused, NOW) == NOW + 10 * pace
    assert read_at(part(due_at=NOW + pace), queue, NOW) == NOW + pace
    assert read_at(part("published"), queue, NOW) is None


def test_every_intake_result_has_a_message() -> None:
    message = intake_message(part(place=3), NOW, NOW)
    assert message == "number 3 in the queue; read at about 12:00:00 UTC"
    assert intake_message(part("normalized"), None, NOW) == "waiting to be created in the shop"
    assert intake_message(part("normalized", reason="HTTP 502"), None, NOW).endswith(
        "shop; HTTP 502"
    )
    assert intake_message(part("published", shopify_product_id="gid://1"), None, NOW) == "gid://1"
    assert intake_message(part("blocked", reason="stocked only in Germany"), None, NOW).startswith(
        "stocked"
    )
