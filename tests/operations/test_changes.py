"""Approve, reject, roll back and revive."""

import pytest
from tests.operations.sample import ACME, BEST, BEST_ONLY, HELD, HOUR, PARKED, SampleDeployment

from headway.errors import InvalidError
from headway.operations.changes import Approval, Revival, Rollback, approve, held, revive, rollback


def test_a_seller_lists_only_its_own_held_changes_and_pages_through_them(
    sample: SampleDeployment,
) -> None:
    assert [change.sku for change in held(sample.seller(BEST), limit=9).items] == [BEST_ONLY]
    first, second = held(sample.operator, limit=9).items
    assert held(sample.operator, limit=9, cursor=first.cursor).items == (second,)
    page = held(sample.operator, limit=1)
    assert (page.items, page.next_cursor) == ((first,), first.cursor)
    with pytest.raises(InvalidError, match="begin without one"):
        held(sample.operator, limit=9, cursor="tampered")


def test_approving_everything_needs_a_reason_and_affects_only_that_seller(
    sample: SampleDeployment,
) -> None:
    with pytest.raises(InvalidError, match="give a reason"):
        approve(sample.seller(ACME), Approval(all=True, reason=" "))
    body = Approval(all=True, reason="yearly price list")
    (result,) = approve(sample.seller(ACME), body).listings
    assert (result.sku, result.is_done) == (HELD, True)
    assert [change.sku for change in held(sample.operator, limit=9).items] == [BEST_ONLY]


def test_a_rollback_goes_only_to_the_past_and_a_batch_needs_one_seller(
    sample: SampleDeployment,
) -> None:
    now = sample.clock.now()
    with pytest.raises(InvalidError, match="has not come yet"):
        rollback(sample.operator, Rollback(skus=[HELD], to=now + HOUR))
    batch = Rollback(since=now - HOUR, to=now - 2 * HOUR, dry_run=True)
    with pytest.raises(InvalidError, match="needs a seller"):
        rollback(sample.operator, batch)
    assert rollback(sample.seller(ACME), batch).listings == ()


def test_everything_parked_of_a_seller_is_revived(sample: SampleDeployment) -> None:
    assert revive(sample.seller(BEST), Revival(all=True)).listings == ()
    (result,) = revive(sample.operator, Revival(all=True)).listings
    assert (result.sku, result.is_done) == (PARKED, True)
