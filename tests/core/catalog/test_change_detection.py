from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.change_detection import (
    Desired,
    HeldQuote,
    Terms,
    desire,
    observe,
    round_price,
)
from headway.core.catalog.listings import Quote, Sku

TERMS = Terms(locations={"Dallas Central": "Dallas", "Miami FL": "Miami"}, currency="USD")
QUOTE = Quote(
    sku=Sku("WF338109=K3"),
    list_price=Decimal(100),
    net_price=Decimal("80.5"),
    currency="USD",
    quantities={"Miami FL": 3, "Dallas Central": 4, "Germany CSC": 50},
)


def shown(terms: Terms = TERMS, **change: Any) -> Desired:
    target = desire(observe(replace(QUOTE, **change), terms), terms)
    assert isinstance(target, Desired), target
    return target


def held(terms: Terms = TERMS, **change: Any) -> str:
    target = desire(observe(replace(QUOTE, **change), terms), terms)
    assert isinstance(target, HeldQuote), target
    return target.reason


def test_stock_is_every_mapped_location_and_zero_where_the_supplier_lists_none() -> None:
    observed = observe(replace(QUOTE, quantities={"Germany CSC": 50, "Miami FL": 3}), TERMS)
    assert observed.quantities == {"Dallas": 0, "Miami": 3}
    assert observed.quantity == 3


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
    target = shown()
    assert (target.price, target.cost) == (Decimal("110.00"), Decimal("80.5"))


def test_where_no_list_price_is_quoted_the_net_price_stands_in() -> None:
    for none in (None, Decimal(0)):
        assert shown(list_price=none).price == Decimal("88.55")


def test_a_price_may_be_made_from_the_net_price_and_is_held_without_one() -> None:
    net = replace(TERMS, basis="net")
    assert shown(net).price == Decimal("88.55")
    assert held(net, net_price=None) == "no net price was quoted"


@pytest.mark.parametrize(
    ("rounding", "price", "rounded"),
    (
        ("cent", "10.005", "10.01"),
        ("cent", "10.0049", "10.00"),
        ("whole", "10.50", "11.00"),
        ("whole", "10.49", "10.00"),
        ("99", "10.00", "10.99"),
        ("99", "10.99", "10.99"),
        ("99", "10.991", "11.99"),
        ("99", "0.01", "0.99"),
    ),
)
def test_a_price_is_rounded_half_up_or_up_to_the_next_ninety_nine(
    rounding: Any, price: str, rounded: str
) -> None:
    assert str(round_price(Decimal(price), rounding)) == rounded


def test_a_price_is_never_below_cost_and_the_least_margin_not_even_by_rounding() -> None:
    dear = {"list_price": Decimal(50), "net_price": Decimal("80.444")}
    assert shown(**dear).price == Decimal("80.45")
    assert shown(list_price=Decimal("0.0045")).price == Decimal("80.50")
    assert shown(replace(TERMS, rounding="whole"), **dear).price == Decimal("81.00")
    assert shown(replace(TERMS, margin_min=Decimal("0.25")), **dear).price == Decimal("100.56")


def test_the_list_price_is_crossed_out_only_where_ours_is_lower() -> None:
    cheap = replace(TERMS, compare_at="list", basis="net")
    assert shown(cheap).compare_at == Decimal("100.00")
    assert shown(cheap).as_json()["compare_at"] == "100.00"
    assert shown(replace(cheap, basis="list")).compare_at is None
    assert shown(cheap, list_price=None).compare_at is None
    assert shown(replace(TERMS, basis="net")).compare_at is None


def test_the_desired_state_is_written_in_one_form() -> None:
    form = {
        "price": "110.00",
        "cost": "80.5",
        "currency": "USD",
        "quantities": {"Dallas": 4, "Miami": 3},
    }
    assert shown().as_json() == form, "the merchant's own crossed-out price is not ours"
    cleared = shown(replace(TERMS, compare_at="clear")).as_json()
    assert cleared == {**form, "compare_at": None}


@pytest.mark.parametrize(
    ("change", "reason"),
    (
        ({"list_price": None, "net_price": None}, "no price was quoted"),
        ({"list_price": Decimal(0), "net_price": Decimal(0)}, "no price was quoted"),
        ({"list_price": Decimal(-5)}, "a negative price was quoted: -5"),
        ({"net_price": Decimal(-5)}, "a negative price was quoted: -5"),
        ({"currency": "EUR"}, "quoted in EUR, the shop sells in USD"),
        (
            {"list_price": Decimal("0.0045"), "net_price": None},
            "a price of 0.0045 rounds to nothing",
        ),
    ),
)
def test_what_may_not_reach_the_shop_is_held_with_its_reason(change: dict, reason: str) -> None:
    assert held(**change) == reason


prices = st.decimals("0.0001", "1e9", places=4)
some_terms = st.builds(
    lambda **chosen: replace(TERMS, **chosen),
    basis=st.sampled_from(["list", "net"]),
    markup=st.decimals("-0.99", "5", places=3),
    rounding=st.sampled_from(["cent", "whole", "99"]),
    margin_min=st.decimals("-0.5", "3", places=3),
    compare_at=st.sampled_from(["none", "list"]),
)


@given(some_terms, prices | st.none(), prices | st.none())
def test_no_price_is_ever_zero_below_the_floor_or_in_fractions_of_a_cent(
    terms: Terms, list_price: Decimal | None, net_price: Decimal | None
) -> None:
    quote = replace(QUOTE, list_price=list_price, net_price=net_price)
    target = desire(observe(quote, terms), terms)
    assert target == desire(observe(quote, terms), terms)
    if isinstance(target, HeldQuote):
        return
    assert target.price > 0
    cost = quote.net_price or quote.list_price
    assert cost is not None
    assert target.price >= cost * (1 + terms.margin_min)
    assert target.cost == cost.quantize(Decimal("0.01"), ROUND_HALF_UP)
    assert target.price == target.price.quantize(Decimal("0.01"))
    assert target.compare_at is None or target.price < target.compare_at
    assert round_price(target.price, terms.rounding) == target.price


@given(some_terms, prices, prices, st.decimals("0", "1e6", places=4))
def test_a_higher_quote_never_makes_a_lower_price(
    terms: Terms, list_price: Decimal, net_price: Decimal, more: Decimal
) -> None:
    quote = replace(QUOTE, list_price=list_price, net_price=net_price)
    dearer = replace(quote, list_price=list_price + more, net_price=net_price + more)
    low, high = (desire(observe(quoted, terms), terms) for quoted in (quote, dearer))
    if isinstance(low, Desired):
        assert isinstance(high, Desired)
        assert high.price >= low.price


@pytest.mark.parametrize(
    ("currency", "rounding", "price", "cost"),
    (
        ("JPY", "cent", "1086", "790"),
        ("JPY", "whole", "1086", "790"),
        ("JPY", "99", "1099", "790"),
        ("KWD", "cent", "1085.700", "789.6"),
        ("KWD", "99", "1085.990", "789.6"),
        ("USD", "cent", "1085.70", "789.6"),
    ),
)
def test_prices_have_the_digits_of_their_currency(
    currency: str, rounding: Any, price: str, cost: str
) -> None:
    terms = replace(TERMS, currency=currency, rounding=rounding)
    quoted = {"list_price": Decimal(987), "net_price": Decimal("789.6"), "currency": currency}
    state = shown(terms, **quoted).as_json()
    assert (state["price"], state["cost"]) == (price, cost)


def test_a_price_in_mills_keeps_them() -> None:
    terms = replace(TERMS, currency="KWD", markup=Decimal(0))
    dinar = {"list_price": Decimal("1.2354"), "net_price": None, "currency": "KWD"}
    assert str(shown(terms, **dinar).price) == "1.236", "no lower than the cost"
