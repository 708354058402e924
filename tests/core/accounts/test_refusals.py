"""When a connection ends: several refusals, spaced, of one account while others are answered."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headway.core.accounts.refusals import (
    ALONE_MAX,
    REFUSALS_MIN,
    REPORT_VALID,
    SPACING,
    SPAN_MIN,
    SUSPENDED_FIRST,
    SUSPENDED_MAX,
    AccountTrouble,
    Peers,
    are_refused_together,
    refused,
    suspended,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ALONE = Peers(connected=1, refused=1)
ONE_OF_MANY = Peers(connected=40, refused=1, is_answered=True)


def refuse_until(span: timedelta, peers: Peers) -> tuple[int, bool]:
    """Refuse an account each time it is tried again, until so long has passed."""
    trouble, now = AccountTrouble(), NOW
    while True:
        verdict = refused(trouble, "no", now, peers)
        trouble = verdict.trouble
        if verdict.ends or verdict.wait_until - NOW > span:
            return trouble.refusals, verdict.ends
        now = verdict.wait_until


@pytest.mark.parametrize("peers", (ALONE, ONE_OF_MANY))
def test_a_connection_ends_after_several_refusals_over_half_an_hour(peers: Peers) -> None:
    assert not refuse_until(SPAN_MIN - timedelta(seconds=1), peers)[1]
    count, ends = refuse_until(SPAN_MIN + timedelta(hours=1), peers)
    assert ends
    assert count >= REFUSALS_MIN


def test_refusals_in_one_moment_count_as_one() -> None:
    trouble, later = AccountTrouble(), NOW
    for _ in range(50):
        later += SPACING / 60
        verdict = refused(trouble, "no", later, ALONE)
        trouble = verdict.trouble
    assert (trouble.refusals, verdict.ends) == (1, False)
    assert verdict.wait_until > later


def test_two_refusals_are_too_few_however_far_apart() -> None:
    trouble = refused(AccountTrouble(), "no", NOW, ALONE).trouble
    assert not refused(trouble, "no", NOW + timedelta(hours=5), ALONE).ends


@pytest.mark.parametrize(
    ("connected", "together"), ((2, 2), (3, 2), (5, 3), (6, 3), (40, 3), (100, 5), (1000, 50))
)
def test_many_accounts_are_refused_together(connected: int, together: int) -> None:
    assert are_refused_together(together, connected)
    assert not are_refused_together(together - 1, connected)
    assert not refuse_until(
        3 * ALONE_MAX, replace(ONE_OF_MANY, connected=connected, refused=together)
    )[1]


def test_a_single_account_has_no_others_to_be_refused_with() -> None:
    assert not are_refused_together(1, 1)


def test_without_an_answer_to_anybody_else_a_day_must_pass() -> None:
    """The others may not have been asked yet."""
    silent = Peers(connected=2, refused=1, is_answered=False)
    assert not refuse_until(ALONE_MAX - timedelta(hours=1), silent)[1]
    assert refuse_until(ALONE_MAX + timedelta(hours=2), silent)[1]


def test_one_refusal_confirms_a_report_that_the_app_was_uninstalled() -> None:
    trouble = AccountTrouble(uninstalled_at=NOW)
    together = Peers(connected=2, refused=2)
    verdict = refused(trouble, "no", NOW + timedelta(minutes=1), together)
    assert (verdict.ends, verdict.reason) == (True, "the app was uninstalled in the shop")
    late = refused(trouble, "no", NOW + REPORT_VALID + timedelta(seconds=1), together)
    assert (late.ends, late.reason) == (False, "no")


def test_a_suspended_account_is_checked_ever_more_seldom_up_to_a_day() -> None:
    trouble, now, waits = AccountTrouble(), NOW, []
    for _ in range(12):
        trouble = suspended(trouble, "frozen", now)
        assert trouble.wait_until is not None
        waits.append(trouble.wait_until - now)
        now = trouble.wait_until
    assert waits[:3] == [SUSPENDED_FIRST, 2 * SUSPENDED_FIRST, 4 * SUSPENDED_FIRST]
    assert waits[-1] == SUSPENDED_MAX
    assert trouble.wait_reason == "frozen"
