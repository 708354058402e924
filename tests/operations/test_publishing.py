"""Publish new parts to a shop."""

import pytest
from tests.operations.sample import ACME, BEST, SampleDeployment

from headway.core.catalog.listings import Sku
from headway.errors import NotFoundError
from headway.operations.publishing import PublishBody, publish, published_batch


def test_a_seller_publishes_to_its_own_shop_and_follows_the_batch(sample: SampleDeployment) -> None:
    body = PublishBody(part_numbers=[Sku("NEW/1"), Sku("NEW=2")])
    batch = publish(sample.seller(BEST), body)
    assert [part.sku for part in batch.parts] == ["NEW/1", "NEW=2"]
    assert {part.place for part in batch.parts} == {1, 2}
    assert batch.counts == {"requested": 2}
    assert published_batch(sample.operator, batch.batch_id).parts == batch.parts
    with pytest.raises(NotFoundError):
        published_batch(sample.seller(ACME), batch.batch_id)
    with pytest.raises(NotFoundError):
        published_batch(sample.operator, "nonsense")
