"""Explain a part to its sellers; no seller learns of another seller's part."""

from datetime import timedelta

import pytest
from tests.operations.sample import ACME, BEST, BEST_ONLY, ODD_SKUS, SHARED, SampleDeployment

from headway.core.catalog.listings import SellerId, Sku
from headway.errors import InvalidError, NotFoundError
from headway.operations.changes import Decision, reject
from headway.operations.listings import explain


def test_a_part_is_explained_for_each_seller_who_lists_it(sample: SampleDeployment) -> None:
    assert {listing.seller for listing in explain(sample.operator, SHARED).listings} == {ACME, BEST}
    (own,) = explain(sample.seller(ACME), SHARED).listings
    assert own.seller == ACME
    assert own.explanation.sentence
    assert own.timetable


def test_a_sellers_place_in_the_queue_counts_all_sellers(sample: SampleDeployment) -> None:
    (full_view,) = explain(sample.operator, BEST_ONLY).listings
    (own,) = explain(sample.seller(BEST), BEST_ONLY).listings
    assert own == full_view


def test_a_seller_does_not_learn_of_another_sellers_part(sample: SampleDeployment) -> None:
    own = sample.seller(ACME)
    for call in (
        lambda: explain(own, BEST_ONLY),
        lambda: reject(own, Decision(skus=[BEST_ONLY])),
    ):
        with pytest.raises(NotFoundError) as error:
            call()
        assert "no listing has the part number" in str(error.value)
        assert "best" not in str(error.value)


def test_a_misspelled_part_never_suggests_another_sellers_part(sample: SampleDeployment) -> None:
    with pytest.raises(NotFoundError, match="did you mean BEST=1"):
        explain(sample.operator, Sku("BEST=2"))
    with pytest.raises(NotFoundError, match="check how it is spelled"):
        explain(sample.seller(ACME), Sku("BEST=2"))


def test_a_part_of_several_sellers_needs_the_sellers_name(sample: SampleDeployment) -> None:
    with pytest.raises(InvalidError, match="listed by acme, best"):
        reject(sample.operator, Decision(skus=[SHARED]))
    (result,) = reject(sample.operator, Decision(skus=[SHARED], seller=BEST)).listings
    assert (result.seller, result.is_done) == (BEST, False)


@pytest.mark.parametrize("sku", ODD_SKUS)
def test_an_unusual_part_number_is_explained(sample: SampleDeployment, sku: Sku) -> None:
    (listing,) = explain(sample.operator, sku).listings
    assert (listing.sku, listing.seller) == (sku, SellerId("acme"))
    assert listing.due_at - sample.clock.now() < timedelta(days=1)
