"""What a person decides about held and parked parts."""

import pytest
from tests.operations.room import ACME, BEST, HELD, HOUR, PARKED, THEIRS, Room

from headway.errors import InvalidError
from headway.operations.changes import Approval, Revival, Rollback, approve, held, revive, rollback


def test_held_changes_are_ones_own_and_go_on_from_a_cursor(room: Room) -> None:
    assert [change.sku for change in held(room.seller(BEST), limit=9).items] == [THEIRS]
    first, second = held(room.operator, limit=9).items
    assert held(room.operator, limit=9, cursor=first.cursor).items == (second,)
    page = held(room.operator, limit=1)
    assert (page.items, page.next_cursor) == ((first,), first.cursor)
    with pytest.raises(InvalidError, match="begin without one"):
        held(room.operator, limit=9, cursor="tampered")


def test_approving_everything_needs_a_reason_and_stays_with_the_seller(room: Room) -> None:
    with pytest.raises(InvalidError, match="say why"):
        approve(room.seller(ACME), Approval(all=True, reason=" "))
    body = Approval(all=True, reason="yearly price list")
    (ruling,) = approve(room.seller(ACME), body).listings
    assert (ruling.sku, ruling.is_done) == (HELD, True)
    assert [change.sku for change in held(room.operator, limit=9).items] == [THEIRS]


def test_a_rollback_goes_back_in_time_only_and_a_batch_needs_one_seller(room: Room) -> None:
    now = room.clock.now()
    with pytest.raises(InvalidError, match="has not come yet"):
        rollback(room.operator, Rollback(skus=[HELD], to=now + HOUR))
    batch = Rollback(since=now - HOUR, to=now - 2 * HOUR, dry_run=True)
    with pytest.raises(InvalidError, match="needs a seller"):
        rollback(room.operator, batch)
    assert rollback(room.seller(ACME), batch).listings == ()


def test_everything_parked_of_a_seller_is_revived(room: Room) -> None:
    assert revive(room.seller(BEST), Revival(all=True)).listings == ()
    (ruling,) = revive(room.operator, Revival(all=True)).listings
    assert (ruling.sku, ruling.is_done) == (PARKED, True)
