"""Parts that are put into a shop."""

import pytest
from tests.operations.room import ACME, BEST, Room

from headway.core.catalog.listings import Sku
from headway.errors import NotFoundError
from headway.operations.publishing import PublishBody, publish, published_batch


def test_parts_are_published_into_ones_own_shop_and_followed_by_their_batch(room: Room) -> None:
    body = PublishBody(part_numbers=[Sku("NEW/1"), Sku("NEW=2")])
    batch = publish(room.seller(BEST), body)
    assert [part.sku for part in batch.parts] == ["NEW/1", "NEW=2"]
    assert {part.place for part in batch.parts} == {1, 2}
    assert batch.counts == {"requested": 2}
    assert published_batch(room.operator, batch.batch_id).parts == batch.parts
    with pytest.raises(NotFoundError):
        published_batch(room.seller(ACME), batch.batch_id)
    with pytest.raises(NotFoundError):
        published_batch(room.operator, "nonsense")
