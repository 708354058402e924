"""Doubtful quotes: what is held, what the shop may show meanwhile, and what a person decides."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.core.catalog.test_guard import LISTING, NOW

from headway.core.catalog.change_detection import Observed, Terms, observe
from headway.core.catalog.guard import SellerSettings, Weighed, weigh
from headway.core.catalog.listings import BelievedStock, Doubt, Listing, Quote, Sku
from headway.core.catalog.review import ReviewedListing, approve, reject
from headway.core.catalog.staging import stage

TERMS = Terms(
    locations={"Miami FL": "Miami", "Dallas Central": "Dallas"},
    unsold=["Germany CSC"],
    currency="USD",
    markup=Decimal(0),
)
SETTINGS = SellerSettings(terms=TERMS, catalog_count=1000)
SHOWN = {
    "price": "70.74", "cost": "60", "currency": "USD",
    "quantities": {"Dallas": 8, "Miami": 3},
}  # fmt: skip
SEEN = {"list_price": "70.74", "net_price": "60", "currency": "USD", "quantities": {}}
STOCK = {"Miami FL": 3, "Dallas Central": 8}


def observed(stock: dict[str, int] | None = None, **changes: Any) -> Observed:
    quote = Quote(
        sku=Sku("P1"),
        list_price=changes.pop("list_price", Decimal("70.74")),
        net_price=Decimal(60),
        currency="USD",
        quantities=STOCK if stock is None else stock,
        **changes,
    )
    return observe(quote, TERMS)


def read(seen: Observed, **listing: Any) -> Weighed:
    ours: Listing = replace(LISTING, desired=SHOWN, observed=SEEN)
    return weigh(replace(ours, **listing), seen, SETTINGS, NOW)


def doubt(stock: BelievedStock) -> dict[str, Any]:
    return {"doubts": (Doubt(kind="error", reason="an error", stock=stock),)}


@pytest.mark.parametrize(
    ("believed", "read_stock", "shown"),
    (
        ("as read", {"Miami FL": 9, "Dallas Central": 1}, {"Miami": 9, "Dallas": 1}),
        ("fallen", {"Miami FL": 9, "Dallas Central": 1}, {"Miami": 3, "Dallas": 1}),
        ("fallen", {}, {"Miami": 0, "Dallas": 0}),
        ("none", {"Miami FL": 9, "Dallas Central": 1}, {"Miami": 0, "Dallas": 0}),
        ("kept", {}, {"Miami": 3, "Dallas": 8}),
    ),
)
def test_a_doubtful_quote_is_held_and_only_its_safe_stock_reaches_the_shop(
    believed: str, read_stock: dict[str, int], shown: dict[str, int]
) -> None:
    weighed = read(observed(read_stock, list_price=Decimal(71), **doubt(BelievedStock(believed))))
    assert weighed.held_reason == "an error"
    assert weighed.desired == {**SHOWN, "quantities": shown}
    assert weighed.proposed is not None
    assert (weighed.proposed["price"], weighed.proposed["doubts"]) == ("71.00", ["error"])


def test_an_approved_doubt_is_not_held_again_and_a_second_one_is() -> None:
    first = read(observed(list_price=Decimal(71), **doubt(BelievedStock.FALLEN)))
    state = ReviewedListing(
        user_id=LISTING.user_id, sku=LISTING.sku, desired=first.desired,
        proposed=first.proposed, held_reason=first.held_reason,
    )  # fmt: skip
    approved = approve(state).new
    again = read(
        observed({"Miami FL": 9}, list_price=Decimal(72), **doubt(BelievedStock.FALLEN)),
        desired=approved,
    )
    assert again.held_reason is None
    assert again.desired is not None
    assert (again.desired["price"], again.desired["quantities"]["Miami"]) == ("72.00", 9)
    other = (Doubt(kind="stock", reason="another"),)
    assert read(observed(doubts=other), desired=approved).held_reason == "another"
    assert "doubts" not in (read(observed(), desired=approved).desired or {}), "the doubt has ended"


def test_a_rejected_doubt_leaves_the_price_and_believes_no_more_stock() -> None:
    seen = observed({"Miami FL": 9}, list_price=Decimal(71), **doubt(BelievedStock.FALLEN))
    first = read(seen)
    state = ReviewedListing(
        user_id=LISTING.user_id, sku=LISTING.sku, desired=first.desired,
        proposed=first.proposed, held_reason=first.held_reason,
    )  # fmt: skip
    again = read(seen, rejected=reject(state).new)
    assert again.held_reason is None
    assert again.desired == {**SHOWN, "quantities": {"Miami": 3, "Dallas": 0}}


def test_a_first_quote_that_is_doubtful_desires_nothing_but_can_be_approved() -> None:
    weighed = read(observed(**doubt(BelievedStock.AS_READ)), desired=None, observed=None)
    assert (weighed.desired, weighed.held_reason) == (None, "an error")
    assert weighed.proposed is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    (
        ({"unit": "HD"}, "sold by 1 HD, before by 1 EA"),
        ({"minimum": 10}, "sold by 10 EA, before by 1 EA"),
    ),
)
def test_another_unit_or_minimum_order_is_held_until_a_person_approves_the_pack(
    changes: dict[str, Any], reason: str
) -> None:
    seen = observed({"Miami FL": 35}, **changes)
    weighed = read(seen)
    assert weighed.held_reason == reason
    assert weighed.desired == {**SHOWN, "quantities": {"Miami": 3, "Dallas": 0}}
    again = read(seen, desired=weighed.proposed, proposed=None)
    assert (again.held_reason, again.desired) == (
        None,
        {name: value for name, value in (weighed.proposed or {}).items() if name != "doubts"},
    )
    assert read(observed(), desired=weighed.proposed).held_reason is not None, "and back"


def test_a_pack_has_the_price_and_cost_of_all_its_pieces_and_stock_in_packs() -> None:
    weighed = read(observed({"Miami FL": 35}, minimum=10), desired=None, batch_id="b")
    assert weighed.desired == {
        **SHOWN, "price": "707.40", "cost": "600", "pack": 10,
        "quantities": {"Miami": 3, "Dallas": 0},
    }  # fmt: skip


def test_a_product_that_we_did_not_create_is_not_sold_in_packs_unasked() -> None:
    weighed = read(observed(minimum=10), desired=None)
    assert weighed.desired is None
    assert weighed.held_reason == (
        "the supplier sells it by 10 EA, and the shop's product may be a single piece"
    )


def test_a_unit_that_nobody_explained_is_held_and_other_words_for_each_are_not() -> None:
    assert read(observed(unit="RL"), desired=None, batch_id="b").held_reason == (
        "sold by the unit RL, which HEADWAY_UNITS does not explain"
    )
    for hundreds in ("C", "M", "CEN"):  # a hundred and a thousand to some, not to all
        assert read(observed(unit=hundreds), batch_id="b").held_reason is not None
    for each in ("", "EA", "ea", "PC", "Kit"):
        assert read(observed(unit=each)).held_reason is None


def test_a_list_price_that_is_missing_is_held_until_it_is_back() -> None:
    lost = observed(list_price=None)
    weighed = read(lost)
    assert weighed.held_reason == (
        "the list price is missing; the price would be made from the net price"
    )
    later = {**SEEN, "list_price": None}
    assert read(lost, observed=later, proposed=weighed.proposed).held_reason is not None
    assert read(lost, observed=later, desired=weighed.proposed).held_reason is None, "approved"
    assert read(observed(), observed=later, proposed=weighed.proposed).held_reason is None
    never = {**SHOWN, "price": "60.00"}
    assert read(lost, observed=later, desired=never).held_reason is None, "it never had one"


def test_case_and_spaces_in_a_location_do_not_matter() -> None:
    assert read(observed({" miami  fl": 3, "DALLAS CENTRAL": 8})).desired == SHOWN


def test_a_renamed_location_loses_no_stock_and_holds_the_part() -> None:
    weighed = read(observed({"Miami FL": 2, "Dallas TX": 8}))
    assert weighed.held_reason is not None
    assert weighed.held_reason.startswith("unknown location: Dallas TX has 8, and Dallas is not")
    assert weighed.desired == {**SHOWN, "quantities": {"Miami": 2, "Dallas": 8}}
    fewer = read(observed({"Miami FL": 2, "Dallas TX": 5})).desired or {}
    assert fewer["quantities"] == {"Miami": 2, "Dallas": 5}, "no more than the other name has"


def test_a_new_location_that_takes_nothing_away_holds_nothing() -> None:
    assert read(observed({**STOCK, "Atlanta GA": 4})).held_reason is None
    assert read(observed({"Miami FL": 3, "Germany CSC": 8})).held_reason is None, "left out"
    assert read(observed({"Miami FL": 3, "Dallas TX": 0})).held_reason is None, "it has none"


def test_the_title_of_a_pack_says_how_many_pieces_it_holds() -> None:
    quote = Quote(
        sku=Sku("P1"), list_price=Decimal(1), net_price=None, currency="USD", unit="HD", minimum=2,
        name="Rivet",
    )  # fmt: skip
    staged = stage(quote, observe(quote, TERMS), Weighed(desired=SHOWN), TERMS, None)
    assert staged.title == "Rivet (pack of 200)"
