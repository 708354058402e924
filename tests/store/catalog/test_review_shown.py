"""A decision applies only to the change that its person was shown."""

import json
from typing import Any

import pytest
from tests.store.catalog.held_listings import (
    HOUR,
    P1,
    P2,
    P3,
    A,
    Ask,
    Put,
    events,
    shows,
    state,
    wrote,
)

from headway.core.catalog.review import ShownVersions, total_version
from headway.errors import ConflictError
from headway.store.catalog.review import Review
from headway_lab.virtual_clock import VirtualClock

PROPOSE = "UPDATE listing_state SET proposed = proposed || %s::text::jsonb WHERE sku = %s"


def test_a_decision_applies_only_to_the_version_that_was_shown(
    review: Review, ask: Ask, hold: Put, clock: VirtualClock
) -> None:
    for sku in (P1, P2):
        hold(A, sku)
    shown = ShownVersions(by_sku={change.sku: change.version for change in review.held(limit=9)})
    ask(PROPOSE, json.dumps({"price": "8800.00"}), P1)
    ask(PROPOSE, json.dumps({"quantities": {"Miami": 6}}), P2)  # other stock, the same offer
    for decide in (review.approve, review.reject):
        before = state(ask, A, P1)
        (ruling,) = decide(A, [P1], reason="", now=clock.now(), shown=shown)
        assert not ruling.is_done
        assert "it is now 8800.00" in ruling.message
        assert state(ask, A, P1) == before
    (ruling,) = review.approve(A, [P2], reason="", now=clock.now(), shown=shown)
    assert ruling.is_done
    (ruling,) = review.approve(A, [P2], reason="", now=clock.now(), shown=shown)
    assert not ruling.is_done, "it was decided meanwhile"


def test_a_decision_about_many_is_refused_whole_if_one_of_them_is_another_change(
    review: Review, ask: Ask, hold: Put, put: Put, clock: VirtualClock
) -> None:
    now = clock.now()
    for sku in (P1, P2):
        hold(A, sku)
    trial = review.approve_all(A, reason="", now=now, dry_run=True)
    assert [(ruling.is_done, ruling.message) for ruling in trial] == [
        (True, "would be approved")
    ] * 2
    shown = ShownVersions(total=total_version(trial))
    hold(A, P3)
    before = [state(ask, A, sku) for sku in (P1, P2, P3)]
    with pytest.raises(ConflictError, match="there are now 3; nothing was done"):
        review.approve_all(A, reason="the list", now=now, shown=shown)
    assert [state(ask, A, sku) for sku in (P1, P2, P3)] == before
    assert events(ask, "change_approved") == []
    trial = review.approve_all(A, reason="", now=now, dry_run=True)
    again = ShownVersions(total=total_version(trial))
    done = review.approve_all(A, reason="the list", now=now, shown=again)
    assert all(ruling.is_done for ruling in done)


def test_a_rollback_gives_only_the_price_that_its_dry_run_showed(
    review: Review, ask: Ask, put: Put, clock: VirtualClock
) -> None:
    put(A, P1)
    wrote(ask, P1, clock.now() - 2 * HOUR, shows("10.00"), shows("11.00"))
    past = clock.now() - 3 * HOUR

    def roll_back(**more: Any) -> Any:
        return review.rollback(A, [P1], to=past, reason="", now=clock.now(), **more)

    (trial,) = roll_back(dry_run=True)
    assert trial.new is not None
    assert (trial.new["price"], trial.message) == ("10.00", "would be rolled back")
    ask("UPDATE listing_state SET desired = desired || %s::text::jsonb", '{"price": "12.00"}')
    (ruling,) = roll_back(shown=ShownVersions(by_sku={P1: trial.version}))
    assert not ruling.is_done
    assert state(ask, A, P1)["desired"]["price"] == "12.00"
