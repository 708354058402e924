"""Pause and resume, and who may do it."""

from datetime import timedelta

import pytest
from tests.operations.sample import ACME, HELD, PARKED, SampleDeployment

from headway.core.pauses import PauseKind
from headway.errors import ForbiddenError
from headway.operations.pauses import PauseBody, ResumeBody, pause, pauses, resume


def test_a_seller_cannot_end_or_shorten_what_an_operator_paused(sample: SampleDeployment) -> None:
    own, operator = sample.seller(ACME), sample.operator
    soon = sample.clock.now() + timedelta(minutes=1)
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


def test_parts_are_paused_and_resumed_all_or_none(sample: SampleDeployment) -> None:
    own, both = sample.seller(ACME), [PARKED, HELD]
    pause(sample.operator, PauseBody(kind=PauseKind.LISTING, skus=[HELD], seller=ACME))
    for call in (
        lambda: pause(own, PauseBody(kind=PauseKind.LISTING, skus=both)),
        lambda: resume(own, ResumeBody(kind=PauseKind.LISTING, skus=both)),
    ):
        with pytest.raises(ForbiddenError):
            call()
    assert [pause.sku for pause in pauses(own).pauses] == [HELD]
