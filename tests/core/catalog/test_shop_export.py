"""Shopify's own export of products, read as it comes."""

from collections.abc import Iterator

import pytest

from headway.core.catalog.intake import ImportRow, RefusedRow, part_key, read_rows
from headway.core.catalog.listings import SellerId

HEADER = (
    "Handle,Title,Body (HTML),Vendor,Type,Tags,Published,Option1 Name,Option1 Value,Option2 Name,"
    "Option2 Value,Variant SKU,Variant Grams,Variant Inventory Policy,Variant Price,"
    "Variant Compare At Price,Image Src,Image Position,Status"
)
EXPORT = f"""{HEADER}
bolt,Hex bolt,"<p>Steel, zinc
plated.</p>
<p>Says ""strong"".</p>",Boeing,Hardware,"a, b",true,Length,10 mm,,,WF1=K3,12,deny,4.50,,https://x/1.jpg,1,active
bolt,,,,,,,,20 mm,,,WF2=K3,14,deny,5.50,,https://x/2.jpg,2,active
bolt,,,,,,,,,,,,,,,,https://x/3.jpg,3,
nut,Nut,<p>One.</p>,Boeing,,,true,Title,Default Title,,,WF3,1,deny,1.00,,,,draft
pin,Pin,,Boeing,,,true,Title,Default Title,,,,1,deny,1.00,,,,active
"""
NEW = """Title;URL handle;Description;SKU;Option1 name;Option1 value;Price;Status
Hex bolt;bolt;"Steel; zinc
plated";WF1=K3;Title;Default Title;4,50;Active
"""


def rows(text: str) -> list[ImportRow | RefusedRow]:
    def lines() -> Iterator[bytes]:
        yield from text.encode("utf-8-sig").splitlines(keepends=True)

    return list(read_rows(lines(), otherwise=SellerId("acme")))


def test_variants_are_parts_and_rows_of_images_are_none() -> None:
    *parts, refused = rows(EXPORT)
    assert [
        (part.sku, part.shop_sku, part.title) for part in parts if isinstance(part, ImportRow)
    ] == [
        ("WF1=K3", "WF1=K3", "Hex bolt 10 mm"),
        ("WF2=K3", "WF2=K3", "Hex bolt 20 mm"),
        ("WF3", "WF3", "Nut"),
    ]
    assert isinstance(refused, RefusedRow)
    assert (refused.line, refused.reason) == (
        8,
        "sku: the variant of pin has none; give it one in the shop",
    )


def test_semicolons_and_the_newer_column_names_are_read() -> None:
    (part,) = rows(NEW)
    assert isinstance(part, ImportRow)
    assert (part.sku, part.title) == ("WF1=K3", "Hex bolt")


@pytest.mark.parametrize("delimiter", (",", ";", "\t"))
def test_our_own_columns_may_be_separated_by_semicolons_or_tabs(delimiter: str) -> None:
    text = "sku,seller,title\nA,acme,Bolt\n".replace(",", delimiter)
    (part,) = rows(text)
    assert isinstance(part, ImportRow)
    assert (part.sku, part.seller, part.title) == ("A", "acme", "Bolt")


def test_a_description_may_be_long() -> None:
    (part,) = rows(f'{HEADER}\nnut,Nut,"{"x" * 300_000}",B,,,true,,,,,WF3,1,deny,1.00,,,,active\n')
    assert isinstance(part, ImportRow)


def test_a_row_with_more_cells_than_columns_is_refused() -> None:
    (refused,) = rows(f"{HEADER}\nnut,Nut{',x' * 20}\n")
    assert isinstance(refused, RefusedRow)
    assert refused.reason == "22 cells under 19 columns"


def test_case_and_white_space_are_no_difference() -> None:
    assert part_key(" wf 1\u00a0=k3") == part_key("WF1=K3") != part_key("WF1=K4")
