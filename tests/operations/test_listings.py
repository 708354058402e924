"""A part as its sellers list it; a seller learns nothing of another."""

from datetime import timedelta

import pytest
from tests.operations.room import ACME, BEST, ODD, SHARED, THEIRS, Room

from headway.core.catalog.listings import SellerId, Sku
from headway.errors import InvalidError, NotFoundError
from headway.operations.changes import Decision, reject
from headway.operations.listings import explain


def test_a_part_is_explained_for_each_seller_who_lists_it(room: Room) -> None:
    assert {listing.seller for listing in explain(room.operator, SHARED).listings} == {ACME, BEST}
    (own,) = explain(room.seller(ACME), SHARED).listings
    assert own.seller == ACME
    assert own.explanation.sentence
    assert own.timetable


def test_the_place_in_the_queue_counts_everybody_for_a_seller_too(room: Room) -> None:
    (whole,) = explain(room.operator, THEIRS).listings
    (own,) = explain(room.seller(BEST), THEIRS).listings
    assert own == whole


def test_a_seller_does_not_learn_of_another_sellers_part(room: Room) -> None:
    own = room.seller(ACME)
    for call in (
        lambda: explain(own, THEIRS),
        lambda: reject(own, Decision(skus=[THEIRS])),
    ):
        with pytest.raises(NotFoundError) as refusal:
            call()
        assert "no listing has the part number" in str(refusal.value)
        assert "best" not in str(refusal.value)


def test_a_slip_in_spelling_never_suggests_another_sellers_part(room: Room) -> None:
    with pytest.raises(NotFoundError, match="did you mean BEST=1"):
        explain(room.operator, Sku("BEST=2"))
    with pytest.raises(NotFoundError, match="check how it is spelled"):
        explain(room.seller(ACME), Sku("BEST=2"))


def test_a_part_of_several_sellers_needs_a_name(room: Room) -> None:
    with pytest.raises(InvalidError, match="listed by acme, best"):
        reject(room.operator, Decision(skus=[SHARED]))
    (ruling,) = reject(room.operator, Decision(skus=[SHARED], seller=BEST)).listings
    assert (ruling.user_id, ruling.is_done) == (BEST, False)


@pytest.mark.parametrize("sku", ODD)
def test_an_odd_part_number_is_as_good_as_any(room: Room, sku: Sku) -> None:
    (found,) = explain(room.operator, sku).listings
    assert (found.sku, found.seller) == (sku, SellerId("acme"))
    assert found.due_at - room.clock.now() < timedelta(days=1)
