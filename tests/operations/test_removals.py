"""Held removals of listings: who sees them, who decides, and what a decision does."""

import pytest
from tests.operations.sample import ACME, BEST, HELD_REMOVALS, SampleDeployment

from headway.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from headway.operations.removals import (
    RemovalBody,
    confirm_removal,
    dismiss_removal,
    removals,
)
from headway_lab.platforms import ETSY, SHOPIFY

MISSING = {str(number) for number in range(1, 16)}


@pytest.fixture(autouse=True)
def _held(sample: SampleDeployment) -> None:
    sample.execute(HELD_REMOVALS)


def body(seller: str | None = None, *, missing: int = 15, platform: str = ETSY) -> RemovalBody:
    return RemovalBody.model_validate(
        {"seller": seller, "platform": platform, "missing": missing, "reason": "cleared"}
    )


def removed(sample: SampleDeployment, seller: str) -> set[str]:
    rows = sample.execute(
        "SELECT external_id FROM listings WHERE user_id = %s AND state = 'removed'", seller
    )
    return {id_ for (id_,) in rows}


def test_a_seller_sees_and_decides_only_its_own_held_removals(sample: SampleDeployment) -> None:
    own = sample.seller(ACME)
    assert [hold.seller for hold in removals(own).items] == [ACME]
    assert [hold.seller for hold in removals(sample.operator).items] == [ACME, BEST]
    page = removals(sample.operator, limit=1)
    rest = removals(sample.operator, cursor=page.next_cursor)
    assert [hold.seller for hold in rest.items] == [BEST]
    for decide in (confirm_removal, dismiss_removal):
        with pytest.raises(ForbiddenError, match="belongs to acme"):
            decide(own, body(BEST))
    assert confirm_removal(own, body()).removed == 15, "a seller's own needs no name"
    assert (removed(sample, ACME), removed(sample, BEST)) == (MISSING, set())
    assert [hold.seller for hold in removals(sample.operator).items] == [BEST]


def test_a_removal_is_confirmed_once_and_recorded(sample: SampleDeployment) -> None:
    ruling = confirm_removal(sample.operator, body(ACME))
    assert ruling.message == "15 listings of 101 are removed"
    assert (ruling.removal.missing, removed(sample, ACME)) == (15, MISSING)
    with pytest.raises(NotFoundError, match="no removal of acme is held on etsy"):
        confirm_removal(sample.operator, body(ACME))
    events = sample.execute(
        "SELECT user_id, actor, event_type, new_value, error_message FROM sync_audit_log"
        " WHERE event_type LIKE 'removal%%'"
    )
    value = {"platform": "etsy", "shop": "101", "missing": 15, "removed": 15}
    assert events == [(ACME, "tester", "removal_confirmed", value, "cleared")]


def test_a_dismissed_removal_removes_nothing_and_forgets_the_pulls(
    sample: SampleDeployment,
) -> None:
    ruling = dismiss_removal(sample.operator, body(ACME))
    assert (ruling.removed, removed(sample, ACME)) == (0, set())
    assert [hold.seller for hold in removals(sample.operator).items] == [BEST]
    walks = sample.execute("SELECT walks FROM listing_walks WHERE user_id = %s", ACME)
    assert walks == [([],)]


def test_a_decision_about_other_than_what_was_seen_is_refused(sample: SampleDeployment) -> None:
    for decide in (confirm_removal, dismiss_removal):
        with pytest.raises(ConflictError, match="missing: 15 listings of 101 are missing now"):
            decide(sample.operator, body(ACME, missing=3))
        with pytest.raises(NotFoundError, match="held on shopify"):
            decide(sample.operator, body(ACME, platform=SHOPIFY))
        with pytest.raises(InvalidError, match="seller: name the seller"):
            decide(sample.operator, body())
    assert len(removals(sample.operator).items) == 2
    assert removed(sample, ACME) == set()


def test_listings_that_a_pull_under_way_shows_again_are_not_removed(
    sample: SampleDeployment,
) -> None:
    sample.execute(
        "UPDATE listings SET checked_at = '2026-01-01 18:00Z' WHERE external_id IN ('1', '2')"
    )
    assert confirm_removal(sample.operator, body(ACME)).removed == 13
    assert removed(sample, ACME) == MISSING - {"1", "2"}
