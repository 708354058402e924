"""Approve, reject, roll back and revive."""

import re

import pytest
from tests.operations.sample import ACME, BEST, BEST_ONLY, HELD, HOUR, PARKED, SampleDeployment

from headway.errors import InvalidError
from headway.operations.changes import (
    Approval,
    Decision,
    Revival,
    Rollback,
    approve,
    held,
    reject,
    revive,
    rollback,
)


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
    body, own = Approval(all=True, reason="yearly price list"), sample.seller(ACME)
    with pytest.raises(InvalidError, match=r"^version: send the version"):
        approve(own, body)
    shown = approve(own, body.model_copy(update={"dry_run": True}))
    (result,) = approve(own, body.model_copy(update={"version": shown.version})).listings
    assert (result.sku, result.is_done) == (HELD, True)
    assert [change.sku for change in held(sample.operator, limit=9).items] == [BEST_ONLY]


def test_a_decision_carries_the_version_of_each_change_that_was_shown(
    sample: SampleDeployment,
) -> None:
    changes = {change.sku: change.version for change in held(sample.operator, limit=9).items}
    both = [HELD, BEST_ONLY]
    with pytest.raises(InvalidError, match=rf"^versions: .* {re.escape(HELD)} that you"):
        approve(sample.operator, Approval(skus=[HELD]))
    with pytest.raises(InvalidError, match=rf"^versions: .* {re.escape(BEST_ONLY)} that you"):
        reject(sample.operator, Decision(skus=both, versions={HELD: changes[HELD]}))
    assert len(held(sample.operator, limit=9).items) == 2, "nothing was done"
    result = approve(sample.operator, Approval(skus=[HELD, PARKED], versions=changes))
    assert [one.message for one in result.listings if one.sku == PARKED] == ["nothing is held"]
    (left,) = reject(
        sample.operator, Decision(skus=[BEST_ONLY], versions={BEST_ONLY: "x"})
    ).listings
    assert "has changed since it was shown" in left.message
    assert reject(sample.operator, Decision(skus=both, versions=changes)).done == 1


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
