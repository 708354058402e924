"""A day that is too short for all: who gets what of it, and at what pace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts.jobs import JobType, Tier
from headway.core.limits.daily_shares import FREE_MIN, PLANNED, DayPlan, DayShare, share_of

calls = st.floats(0, 1e6)
plans = st.builds(
    lambda limit, paid, free: DayPlan(
        limit=limit, wanted={DayShare.PAID: paid, DayShare.FREE: free}
    ),
    limit=st.floats(1, 1e6),
    paid=calls,
    free=calls,
)
used_by = st.fixed_dictionaries(dict.fromkeys(DayShare, calls))


def plan(*, paid: float, free: float) -> DayPlan:
    return DayPlan(limit=10_000, wanted={DayShare.PAID: paid, DayShare.FREE: free})


def test_history_is_a_share_of_its_own_whoever_pays() -> None:
    assert share_of(Tier.PRO, JobType.BACKFILL) is DayShare.HISTORY
    assert share_of(Tier.PRO, JobType.WEBHOOK) is DayShare.PAID
    assert share_of(Tier.FREE, JobType.INCREMENTAL) is DayShare.FREE


def test_where_there_is_enough_nobody_waits_longer_than_promised() -> None:
    day = plan(paid=4_000, free=5_000)
    assert (day.stretch(DayShare.PAID), day.stretch(DayShare.FREE)) == (1, 1)


def test_where_there_is_not_the_free_intervals_are_stretched_and_the_paid_are_kept() -> None:
    day = plan(paid=8_000, free=8_000)
    assert day.stretch(DayShare.PAID) == 1
    assert day.stretch(DayShare.FREE) == 8


def test_where_paid_sellers_want_more_than_there_is_all_are_stretched_and_all_go_on() -> None:
    day = plan(paid=17_000, free=5_000)
    assert day.stretch(DayShare.PAID) == 2
    assert day.stretch(DayShare.FREE) == 10


@given(plans)
def test_the_plan_never_gives_more_than_is_planned_and_everybody_something(day: DayPlan) -> None:
    paid, free = day.planned(DayShare.PAID), day.planned(DayShare.FREE)
    assert paid + free <= PLANNED * day.limit * (1 + 1e-9)
    assert day.planned(DayShare.HISTORY) >= (1 - PLANNED) * day.limit * (1 - 1e-9)
    assert free >= min(day.wanted[DayShare.FREE], FREE_MIN * day.limit) * (1 - 1e-9)
    for share, part in ((DayShare.PAID, paid), (DayShare.FREE, free)):
        # At the stretched intervals as much is wanted as is planned.
        assert day.wanted[share] / day.stretch(share) == pytest.approx(part)


@given(plans, used_by)
def test_history_leaves_more_than_free_sellers_and_they_more_than_paid_ones(
    day: DayPlan, used: dict[DayShare, float]
) -> None:
    paid, free, history = (day.leave(share, used) for share in DayShare)
    assert 0 == paid <= free <= history <= day.limit


def test_what_was_used_of_a_plan_need_not_be_left_any_more() -> None:
    day = plan(paid=8_000, free=4_000)
    assert day.leave(DayShare.FREE, {}) == 8_000
    assert day.leave(DayShare.FREE, {DayShare.PAID: 6_000}) == 2_000
    assert day.leave(DayShare.HISTORY, {DayShare.PAID: 9_000, DayShare.FREE: 300}) == 700 + 500
