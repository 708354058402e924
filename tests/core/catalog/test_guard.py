from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.change_detection import Observed, Terms
from headway.core.catalog.guard import (
    Guard,
    MassChange,
    SellerSettings,
    Weighed,
    find_move,
    mass_changes,
    weigh,
)
from headway.core.catalog.listings import Listing, Priority, SellerId, Sku

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TERMS = Terms(
    locations={"Miami FL": "Miami"}, currency="USD", markup=Decimal(0), compare_at="clear"
)
STANDING = SellerSettings(terms=TERMS, catalog_count=1000)
PRICES, STOCK = MassChange.PRICES, MassChange.STOCK
CROWD = replace(STANDING, changed_count={PRICES: 250, STOCK: 250})
OFFER = {
    "price": "70.74",
    "cost": "60",
    "currency": "USD",
    "compare_at": None,
    "quantities": {"Miami": 5},
}
LISTING = Listing(
    id="1",
    user_id=SellerId("s"),
    sku=Sku("P1"),
    priority=Priority.SCHEDULED,
    fence=1,
    next_sync_at=NOW,
    hour_bucket=0,
    minute_offset=0,
    created_at=NOW,
    desired=OFFER,
)


def quote(price: str | None, *, quantity: int = 5, currency: str = "USD") -> Observed:
    amount = None if price is None else Decimal(price)
    return Observed(
        list_price=amount, net_price=amount, currency=currency, quantities={"Miami": quantity}
    )


def offer(price: str, *, quantity: int = 5, **more: Any) -> dict[str, Any]:
    cost = format(Decimal(price).normalize(), "f")
    return {**OFFER, "price": price, "cost": cost, "quantities": {"Miami": quantity}, **more}


def weighed(observed: Observed, *, standing: SellerSettings = STANDING, **listing: Any) -> Weighed:
    return weigh(replace(LISTING, **listing), observed, standing, NOW)


def test_a_fall_by_95_percent_is_held_with_old_new_and_reason_while_stock_flows() -> None:
    held = weighed(quote("3.31", quantity=2))
    assert held.held_reason == (
        "the price would fall by 95.3 %, from 70.74 to 3.31; more than 50 % is held"
    )
    assert held.desired == {**OFFER, "quantities": {"Miami": 2}}
    assert held.proposed == offer("3.31", quantity=2)


def test_a_move_of_exactly_the_guard_passes_and_a_cent_more_does_not() -> None:
    for price, passes in (("35.37", True), ("35.36", False), ("106.11", True), ("106.12", False)):
        assert (weighed(quote(price)).held_reason is None) is passes


def test_a_price_that_comes_back_releases_its_hold_by_itself() -> None:
    waiting = {"held_reason": "too far", "proposed": offer("3.31")}
    back = weighed(quote("70.74"), **waiting)
    assert (back.held_reason, back.proposed) == (None, None)
    assert back.desired == offer("70.74")


@pytest.mark.parametrize("bad", (quote(None), quote("70", currency="EUR")))
def test_a_quote_that_has_no_usable_price_proposes_nothing(bad: Observed) -> None:
    held = weighed(replace(bad, quantities={"Miami": 1}))
    assert held.held_reason is not None
    assert held.proposed is None
    assert held.desired == {**OFFER, "quantities": {"Miami": 1}}


def test_a_shop_whose_currency_changes_is_asked_however_near_the_figures_are() -> None:
    euros = replace(STANDING, terms=replace(TERMS, currency="EUR"))
    held = weighed(quote("70.74", currency="EUR"), standing=euros)
    assert held.held_reason == "the currency would change from USD to EUR"
    assert (held.desired, held.proposed) == (OFFER, offer("70.74", currency="EUR"))


def test_a_first_observation_has_nothing_to_be_compared_with() -> None:
    first = weighed(quote("3.31"), desired=None, standing=CROWD)
    assert (first.desired, first.held_reason) == (offer("3.31"), None)


def test_a_refused_proposal_is_neither_held_again_nor_applied_and_stock_flows() -> None:
    refused = weighed(quote("3.31", quantity=1), rejected=offer("3.31", quantity=9))
    assert refused.held_reason is None
    assert refused.desired == {**OFFER, "quantities": {"Miami": 1}}
    assert refused.rejected == offer("3.31", quantity=9)


def test_another_proposal_ends_a_refusal() -> None:
    other = weighed(quote("3.32"), rejected=offer("3.31"))
    assert (other.rejected, other.proposed) == (None, offer("3.32"))
    fine = weighed(quote("70.00"), rejected=offer("3.31"))
    assert (fine.rejected, fine.desired) == (None, offer("70.00"))


def test_a_missing_price_that_a_person_refused_to_wait_for_is_not_held_again() -> None:
    refused = {"price": None, "cost": None, "currency": "USD", "compare_at": None}
    again = weighed(quote(None, quantity=3), rejected=refused)
    assert (again.held_reason, again.rejected) == (None, refused)
    assert again.desired == {**OFFER, "quantities": {"Miami": 3}}
    assert weighed(quote(None, currency="EUR"), rejected=refused).held_reason is not None


def test_a_price_that_would_pass_is_not_taken_up_if_a_person_undid_it() -> None:
    undone = weighed(quote("71.00"), rejected=offer("71.00"))
    assert (undone.desired, undone.held_reason) == (OFFER, None)


@pytest.mark.parametrize(
    ("catalog", "moved", "passes"),
    ((1000, 249, True), (1000, 250, False), (40, 18, True), (40, 19, False), (10, 19, False)),
)
def test_beyond_a_quarter_of_the_catalog_and_twenty_listings_moves_are_held(
    catalog: int, moved: int, *, passes: bool
) -> None:
    standing = replace(STANDING, catalog_count=catalog, changed_count={PRICES: moved, STOCK: moved})
    for observed in (quote("70.00"), quote("70.74", quantity=0)):
        assert (weighed(observed, standing=standing).held_reason is None) is passes
    assert weighed(quote("70.74", quantity=1), standing=standing).held_reason is None


def test_a_mass_change_holds_stock_that_falls_to_zero_too_and_says_how_many_moved() -> None:
    held = weighed(quote("70.00", quantity=0), standing=CROWD)
    assert held.held_reason == (
        "251 of 1,000 prices changed within a day, more than 25 %; "
        "251 of 1,000 parts ran out of stock within a day, more than 25 %"
    )
    assert (held.desired, held.proposed) == (OFFER, offer("70.00", quantity=0))
    fewer = weighed(quote("70.00", quantity=1), standing=CROWD)
    assert fewer.desired == {**OFFER, "quantities": {"Miami": 1}}


def test_in_a_mass_change_what_is_held_or_refused_by_itself_keeps_its_stock_as_well() -> None:
    far = weighed(quote("3.31", quantity=0), standing=CROWD)
    assert (far.desired, far.proposed) == (OFFER, offer("3.31", quantity=0))
    assert "would fall" in (far.held_reason or "")
    assert "ran out of stock" in (far.held_reason or "")
    assert weighed(quote(None, quantity=0), standing=CROWD).desired == OFFER
    refused = weighed(quote("3.31", quantity=0), standing=CROWD, rejected=offer("3.31"))
    assert refused.desired == OFFER
    assert refused.proposed == {**OFFER, "quantities": {"Miami": 0}}


def test_a_listing_that_moved_already_within_the_day_is_not_counted_twice() -> None:
    for moved_at, passes in ((NOW - timedelta(hours=23), True), (NOW - timedelta(days=2), False)):
        standing = replace(STANDING, changed_count={PRICES: 250})
        settled = weighed(quote("70.00"), standing=standing, moved_at=moved_at)
        assert (settled.held_reason is None) is passes


def test_a_mass_change_stays_held_when_its_day_is_over_until_a_person_lets_it_pass() -> None:
    reason = weighed(quote("70.00"), standing=CROWD).held_reason
    held = {"held_reason": reason, "proposed": offer("70.00")}
    assert weighed(quote("70.00"), **held).held_reason == reason
    assert weighed(quote("69.00"), **held).proposed == offer("69.00")
    assert weighed(quote("70.74"), **held).held_reason is None
    allowed = replace(CROWD, mass_approved_until=NOW + timedelta(hours=1))
    assert weighed(quote("70.00"), standing=allowed, **held).desired == offer("70.00")
    over = replace(CROWD, mass_approved_until=NOW)
    assert weighed(quote("70.00"), standing=over, **held).held_reason == reason


def test_a_share_of_one_disables_the_guard_against_mass_changes() -> None:
    standing = replace(STANDING, changed_count={PRICES: 999}, guard=Guard(share_max=Decimal(1)))
    assert weighed(quote("70.00"), standing=standing).held_reason is None


@given(
    st.decimals("0.01", "1e6", places=2),
    st.decimals("0.01", "1e6", places=2),
    st.decimals("0", "3", places=2),
)
def test_no_price_moves_beyond_the_guard_by_itself(
    old: Decimal, new: Decimal, move_max: Decimal
) -> None:
    before = {**OFFER, "price": str(old)}
    standing = replace(STANDING, guard=Guard(move_max=move_max))
    result = weigh(replace(LISTING, desired=before), quote(str(new)), standing, NOW)
    after = Decimal((result.desired or {})["price"])
    assert old * (1 - move_max) <= after <= old * (1 + move_max)
    assert (find_move(old, new, move_max) is None) == (after == new)


def test_many_new_prices_hold_no_stock_back() -> None:
    repriced = replace(STANDING, changed_count={PRICES: 250})
    for price in ("70.74", "70.00", "3.31"):
        held = weighed(quote(price, quantity=0), standing=repriced)
        assert (held.desired or {})["quantities"] == {"Miami": 0}
    emptied = replace(STANDING, changed_count={STOCK: 250})
    assert weighed(quote("70.00"), standing=emptied).desired == offer("70.00")


def test_a_mass_of_empty_parts_stays_held_beside_a_price_of_its_own() -> None:
    both = weighed(quote("3.31", quantity=0), standing=CROWD)
    again = weighed(quote("3.31", quantity=0), held_reason=both.held_reason)
    assert (again.held_reason, again.desired) == (both.held_reason, OFFER)


def test_the_guard_against_mass_changes_counts_other_prices_and_stock_that_falls_to_zero() -> None:
    assert mass_changes(OFFER, offer("70.75")) == {PRICES}
    assert mass_changes(OFFER, {**OFFER, "quantities": {"Miami": 0}}) == {STOCK}
    assert not mass_changes(OFFER, {**OFFER, "cost": "1", "quantities": {"Miami": 1}})
    assert not mass_changes({**OFFER, "quantities": {"Miami": 0}}, OFFER)


def test_a_first_price_that_is_held_for_a_takeover_stays_held_at_the_next_read() -> None:
    reason = replace(STANDING, catalog_count=57).find_takeover(57, NOW)
    assert reason == "57 of 57 first prices changed within a day, more than 25 %"
    proposed = offer("50.00")
    held = weighed(quote("50.00", quantity=2), held_reason=reason, proposed=proposed)
    assert (held.held_reason, (held.desired or {})["price"]) == (reason, OFFER["price"])
    assert (held.desired or {})["quantities"] == {"Miami": 2}


def test_few_first_prices_and_those_that_a_person_let_pass_are_no_takeover() -> None:
    small = replace(STANDING, catalog_count=57)
    assert small.find_takeover(19, NOW) is None
    assert replace(small, changed_count={PRICES: 1}).find_takeover(19, NOW) is not None
    lifted = replace(small, mass_approved_until=NOW + timedelta(hours=1))
    assert lifted.find_takeover(57, NOW) is None
    assert replace(small, guard=Guard(share_max=Decimal(1))).find_takeover(57, NOW) is None


def test_two_moves_that_the_shop_would_show_as_one_are_held_unless_the_first_was_approved() -> None:
    desired = offer("100.00")
    one_by_one = weighed(quote("140.00"), desired=desired, applied_price="80.00")
    assert one_by_one.held_reason == (
        "the price would rise by 75.0 %, from 80.00 to 140.00; more than 50 % is held"
    )
    assert one_by_one.desired == desired
    for shown in ("100.00", "40.00", None):  # shown, approved against the guard, never written
        assert weighed(quote("140.00"), desired=desired, applied_price=shown).held_reason is None
    assert weighed(quote("100.00"), desired=desired, applied_price="80.00").held_reason is None
