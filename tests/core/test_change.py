from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.change import Desired, Held, Terms, desire, observe
from headway.core.model import Quote, Sku

TERMS = Terms(locations={"Dallas Central": "Dallas", "Miami FL": "Miami"}, currency="USD")
QUOTE = Quote(
    sku=Sku("WF338109=K3"),
    list_price=Decimal(100),
    net_price=Decimal("80.5"),
    currency="USD",
    quantities={"Miami FL": 3, "Dallas Central": 4, "Germany CSC": 50},
)


def test_stock_is_every_mapped_location_and_zero_where_the_supplier_lists_none() -> None:
    seen = observe(replace(QUOTE, quantities={"Germany CSC": 50, "Miami FL": 3}), TERMS)
    assert seen.quantities == {"Dallas": 0, "Miami": 3}
    assert seen.quantity == 3


def test_the_fingerprint_ignores_order_spelling_and_unmapped_places() -> None:
    other = replace(
        QUOTE,
        list_price=Decimal("100.00"),
        net_price=Decimal("8.05E+1"),
        quantities={"Dallas Central": 4, "Miami FL": 3, "Germany CSC": 9},
    )
    assert observe(QUOTE, TERMS).fingerprint() == observe(other, TERMS).fingerprint()


@pytest.mark.parametrize(
    "change",
    (
        {"list_price": Decimal("100.01")},
        {"net_price": Decimal("80.51")},
        {"currency": "EUR"},
        {"quantities": {"Miami FL": 2, "Dallas Central": 5}},
    ),
)
def test_the_fingerprint_sees_price_cost_currency_and_where_stock_lies(change: dict) -> None:
    assert observe(replace(QUOTE, **change), TERMS).fingerprint() != (
        observe(QUOTE, TERMS).fingerprint()
    )


def test_the_shop_price_is_the_list_price_and_a_tenth_and_the_cost_is_the_net_price() -> None:
    wanted = desire(observe(QUOTE, TERMS), TERMS)
    assert isinstance(wanted, Desired)
    assert (wanted.price, wanted.cost) == (Decimal("110.00"), Decimal("80.5"))


def test_where_no_list_price_is_quoted_the_net_price_stands_in() -> None:
    wanted = desire(observe(replace(QUOTE, list_price=None), TERMS), TERMS)
    assert isinstance(wanted, Desired)
    assert wanted.price == Decimal("88.55")


@pytest.mark.parametrize(
    ("change", "reason"),
    (
        ({"list_price": None, "net_price": None}, "no price"),
        ({"currency": "EUR"}, "quoted in EUR"),
        ({"list_price": Decimal("0.0045")}, "rounds to nothing"),
    ),
)
def test_what_may_not_reach_the_shop_is_held_with_its_reason(change: dict, reason: str) -> None:
    wanted = desire(observe(replace(QUOTE, **change), TERMS), TERMS)
    assert isinstance(wanted, Held)
    assert reason in wanted.reason


@given(st.decimals("0.01", "1e6", places=4), st.dictionaries(st.text(), st.integers(0, 10**6)))
def test_no_desired_price_is_ever_zero_or_in_fractions_of_a_cent(
    price: Decimal, quantities: dict[str, int]
) -> None:
    quote = replace(QUOTE, list_price=price, quantities=quantities)
    wanted = desire(observe(quote, TERMS), TERMS)
    assert isinstance(wanted, Desired)
    assert wanted.price > 0
    assert wanted.price == wanted.price.quantize(Decimal("0.01"))
    assert set(wanted.quantities) == {"Dallas", "Miami"}
