"""Details of new products: what is usable is used, the rest is left out with its reason."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.listings import Quote, Sku, SuppliedDetails
from headway.core.catalog.product_details import (
    COUNTRIES,
    WEIGHT_UNITS,
    ProductDetails,
    read_details,
    without_brackets,
)


def details(
    *, unit: str = "", minimum: int = 1, images: bool = True, **texts: str
) -> ProductDetails:
    quote = Quote(
        sku=Sku("WF1=K3"),
        list_price=Decimal(1),
        net_price=None,
        currency="USD",
        unit=unit,
        minimum=minimum,
        details=SuppliedDetails(**texts),
    )
    return read_details(quote, images=images)


def test_every_detail_of_a_supplier_is_read() -> None:
    image = "https://images.example.com/wf1.jpg?size=2"
    read = details(
        weight="0.50",
        weight_unit="lbs",
        origin="us",
        tariff_code="8803.30.0010",
        condition="NE",
        unit="EA",
        image=image,
    )
    assert read == ProductDetails(
        weight=Decimal("0.5"),
        weight_unit="POUNDS",
        origin="US",
        tariff_code="880330",
        condition="NE",
        unit="EA",
        image=image,
    )
    assert read.tags == ["Condition: NE", "Unit: EA"]
    assert dict(read.named())["weight"] == "0.5 pounds"
    assert details() == ProductDetails()


def test_the_weight_is_that_of_the_pack_that_the_shop_sells() -> None:
    read = details(weight="1.5E-3", weight_unit="KG", minimum=25)
    assert (read.weight, read.weight_unit) == (Decimal("0.0375"), "KILOGRAMS")


def test_a_weight_of_zero_is_no_weight() -> None:
    assert details(weight="0.000", weight_unit="LB") == ProductDetails()


@pytest.mark.parametrize(
    ("texts", "reason"),
    (
        ({"weight": "-3", "weight_unit": "LB"}, "weight '-3': not from 0 to 100,000"),
        ({"weight": "1E+999999", "weight_unit": "LB"}, "not from 0 to 100,000"),
        ({"weight": "1E-99", "weight_unit": "LB"}, "too small"),
        ({"weight": "NaN", "weight_unit": "LB"}, "not a number"),
        ({"weight": "heavy", "weight_unit": "LB"}, "weight 'heavy': not a number"),
        ({"weight": "3"}, "no unit of weight"),
        ({"weight": "3", "weight_unit": "STONE"}, "'STONE' is no known unit of weight"),
        ({"origin": "UNITED STATES"}, "country of origin 'UNITED STATES': not a country code"),
        ({"origin": "ZZ"}, "not a country code"),
        ({"tariff_code": "88033"}, "not 6 to 13 digits"),
        ({"tariff_code": "n/a"}, "not 6 to 13 digits"),
        ({"tariff_code": "9880003000"}, "a code of one country alone"),
        ({"condition": "<b>new</b>"}, "condition '<b>new</b>': not a short plain text"),
        ({"condition": "new, almost"}, "not a short plain text"),
        ({"unit": "x" * 41}, "not a short plain text"),
        ({"image": "http://example.com/a.jpg"}, "not an https address"),
        ({"image": "javascript:alert(1)"}, "not an https address"),
        ({"image": "/images/a.jpg"}, "not an https address"),
        ({"image": "https://user:pw@example.com/a.jpg"}, "not a public address"),
        ({"image": "https://localhost/a.jpg"}, "not a public address"),
        ({"image": 'https://example.com/"><script>'}, "not a public address"),
        ({"image": "https://[::1"}, "not an address"),
    ),
)
def test_a_detail_that_makes_no_sense_is_left_out_with_the_reason(
    texts: dict[str, str], reason: str
) -> None:
    read = details(**texts)
    assert reason in read.left_out[0]
    assert list(read.named()) == []


def test_images_are_left_out_without_a_reason_where_they_are_not_allowed() -> None:
    assert details(image="https://example.com/a.jpg", images=False) == ProductDetails()
    assert details(image="nonsense", images=False) == ProductDetails()


TEXTS = st.text(max_size=60) | st.from_regex(r"[-+0-9.eE]{1,12}", fullmatch=True)


@given(
    texts=st.fixed_dictionaries(
        {
            "weight": TEXTS,
            "weight_unit": TEXTS | st.sampled_from(sorted(WEIGHT_UNITS)),
            "origin": TEXTS,
            "tariff_code": TEXTS,
            "condition": TEXTS,
            "unit": TEXTS,
            "image": TEXTS | TEXTS.map("https://example.com/{}".format),
        }
    ),
    minimum=st.integers(1, 10**9),
)
def test_whatever_a_supplier_sends_what_is_used_is_what_a_shop_accepts(
    texts: dict[str, str], minimum: int
) -> None:
    read = details(minimum=minimum, **texts)
    assert read.weight is None or (0 < read.weight <= 100_000 and read.weight_unit)
    assert read.origin == "" or read.origin in COUNTRIES
    assert read.tariff_code == "" or len(read.tariff_code) == 6
    assert read.image == "" or read.image.startswith("https://")
    assert not any(mark in text for _, text in read.named() for mark in '<>"')
    assert all("," not in tag for tag in read.tags)
    assert (
        ProductDetails.from_json(
            {name: getattr(read, name) for name in ProductDetails.__dataclass_fields__}
        )
        == read
    )


def test_angle_brackets_do_not_reach_a_title() -> None:
    assert without_brackets("<script>x</script>") == "(script)x(/script)"
