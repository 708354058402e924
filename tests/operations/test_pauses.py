"""What a person stops, and who may let it go on."""

from datetime import timedelta

import pytest
from tests.operations.room import ACME, HELD, PARKED, Room

from headway.core.pauses import PauseKind
from headway.errors import ForbiddenError
from headway.operations.pauses import PauseBody, ResumeBody, pause, pauses, resume


def test_a_seller_cannot_end_or_shorten_what_an_operator_paused(room: Room) -> None:
    own, operator = room.seller(ACME), room.operator
    soon = room.clock.now() + timedelta(minutes=1)
    pause(operator, PauseBody(kind=PauseKind.SELLER, seller=ACME, reason="suspended"))
    for call in (
        lambda: resume(own, ResumeBody(kind=PauseKind.SELLER)),
        lambda: pause(own, PauseBody(kind=PauseKind.SELLER, until=soon)),
    ):
        with pytest.raises(ForbiddenError, match="an operator paused it"):
            call()
    assert [pause.reason for pause in pauses(own).pauses] == ["suspended"]
    assert resume(operator, ResumeBody(kind=PauseKind.SELLER, seller=ACME)).done == 1
    pause(own, PauseBody(kind=PauseKind.SELLER, until=soon))
    assert resume(own, ResumeBody(kind=PauseKind.SELLER)).done == 1


def test_parts_are_paused_and_resumed_all_or_none(room: Room) -> None:
    own, both = room.seller(ACME), [PARKED, HELD]
    pause(room.operator, PauseBody(kind=PauseKind.LISTING, skus=[HELD], seller=ACME))
    for call in (
        lambda: pause(own, PauseBody(kind=PauseKind.LISTING, skus=both)),
        lambda: resume(own, ResumeBody(kind=PauseKind.LISTING, skus=both)),
    ):
        with pytest.raises(ForbiddenError):
            call()
    assert [pause.sku for pause in pauses(own).pauses] == [HELD]
