"""The perfect reader and the engine work the same price out, each in its own way."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.change_detection import HeldQuote, Terms, desire, observe
from headway.core.catalog.listings import Quote, Sku
from headway_lab.simulation.truth import ReferenceReader, difference
from headway_lab.simulators.boeing import SupplierPart

PLACES = {"Dallas Central": "Dallas", "Miami FL": "Miami"}
prices = st.decimals("0.0001", "1e8", places=4)
some_terms = st.builds(
    Terms,
    locations=st.just(PLACES),
    currency=st.just("USD"),
    basis=st.sampled_from(["list", "net"]),
    markup=st.decimals("-0.5", "3", places=3),
    rounding=st.sampled_from(["cent", "whole", "99"]),
    margin_min=st.decimals("-0.5", "2", places=3),
    compare_at=st.sampled_from(["none", "list"]),
)
parts = st.builds(
    SupplierPart,
    sku=st.just("P1"),
    list_price=prices | st.none(),
    net_price=prices | st.none(),
    stock=st.dictionaries(st.sampled_from([*PLACES, "Germany CSC"]), st.integers(0, 99)),
)


def reference_of(terms: Terms) -> ReferenceReader:
    return ReferenceReader(
        places=terms.locations,
        currency=terms.currency,
        shown_prices=lambda part: (part.list_price, part.net_price),
        markup=terms.markup,
        margin_min=terms.margin_min,
        basis=terms.basis,
        rounding=terms.rounding,
        compare_at=terms.compare_at,
    )


@given(some_terms, parts)
def test_the_reference_price_equals_the_engines(terms: Terms, part: SupplierPart) -> None:
    quote = Quote(
        sku=Sku(part.sku),
        list_price=part.list_price,
        net_price=part.net_price,
        currency="USD",
        quantities=part.stock,
    )
    observed = observe(quote, terms)
    desired = desire(observed, terms)
    if isinstance(desired, HeldQuote):
        return
    shown = reference_of(terms).see(part)
    assert difference(shown, "USD", observed.as_json(), desired.as_json()) is None
    wrong = replace(desired, price=desired.price + Decimal("0.01"))
    assert difference(shown, "USD", observed.as_json(), wrong.as_json()) is not None
