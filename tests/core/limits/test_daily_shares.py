"""A day that is too short for all: who gets what of it, and at what pace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts.jobs import JobType, Tier
from headway.core.limits.daily_shares import (
    DAY,
    FREE_MIN,
    PLANNED,
    SPARE,
    DayPlan,
    DayShare,
    is_refused_alone,
    share_of,
)

calls = st.floats(0, 1e6)
plans = st.builds(
    lambda limit, paid, free: DayPlan(
        limit=limit, demand={DayShare.PAID: paid, DayShare.FREE: free}
    ),
    limit=st.floats(1, 1e6),
    paid=calls,
    free=calls,
)
used_by = st.fixed_dictionaries(dict.fromkeys(DayShare, calls))


def plan(*, paid: float, free: float) -> DayPlan:
    return DayPlan(limit=10_000, demand={DayShare.PAID: paid, DayShare.FREE: free})


def test_history_has_its_own_share_at_every_tier() -> None:
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
    assert free >= min(day.demand[DayShare.FREE], FREE_MIN * day.limit) * (1 - 1e-9)
    for share, part in ((DayShare.PAID, paid), (DayShare.FREE, free)):
        # At the stretched intervals as much is wanted as is planned.
        assert day.demand[share] / day.stretch(share) == pytest.approx(part)


@given(plans, used_by)
def test_history_leaves_more_than_free_sellers_and_they_more_than_paid_ones(
    day: DayPlan, used: dict[DayShare, float]
) -> None:
    paid, free, history = (day.leave(share, used) for share in DayShare)
    assert 0 == paid <= free <= history <= day.limit


def test_news_leaves_a_part_of_the_day_to_history_that_waits() -> None:
    """Law L12: news may use up a day hours before it ends, and history would wait for a day."""
    waiting = DayPlan(limit=1000, demand={DayShare.PAID: 2000, DayShare.HISTORY: 16})
    early = {DayShare.PAID: 900.0, DayShare.HISTORY: 50.0}
    assert waiting.leave(DayShare.PAID, early) == 16
    assert waiting.leave(DayShare.HISTORY, early, DAY * 3 / 4) == 0, "which takes it in the end"
    late = {**early, DayShare.HISTORY: 79.0}
    assert waiting.leave(DayShare.PAID, late) == 1
    assert waiting.leave(DayShare.FREE, late) == waiting.leave(DayShare.PAID, late)
    assert waiting.leave(DayShare.PAID, early, DAY / 2) == 0, "nobody waits for ever"
    alone = DayPlan(limit=1000, demand={DayShare.PAID: 2000})
    assert alone.leave(DayShare.PAID, early) == 0


def test_what_was_used_of_a_plan_need_not_be_left_any_more() -> None:
    day = plan(paid=8_000, free=4_000)
    assert day.leave(DayShare.FREE, {}) == 8_000
    assert day.leave(DayShare.FREE, {DayShare.PAID: 6_000}) == 2_000
    assert day.leave(DayShare.HISTORY, {DayShare.PAID: 9_000, DayShare.FREE: 300}) == 700 + 500


@pytest.mark.parametrize(
    ("retry_after_s", "left", "answered", "is_alone"),
    (
        (86_400, 1000, 3, True),
        (86_400, 1000, 0, False),
        (86_400, 14, 3, False),
        (86_400, 0, 3, False),
        (5, 1000, 3, False),
        (None, 1000, 3, False),
    ),
)
def test_a_refusal_is_about_one_account_if_others_are_answered_and_calls_are_left(
    retry_after_s: float | None, left: float, answered: int, *, is_alone: bool
) -> None:
    assert is_alone == is_refused_alone(retry_after_s, left=left, limit=1500, answered=answered)


@given(plans, used_by, st.floats(0, 1e6), st.sampled_from((DayShare.PAID, DayShare.FREE)))
def test_a_job_beyond_its_share_leaves_to_others_all_they_have_not_used_of_their_plan(
    plan: DayPlan, used: dict[DayShare, float], beyond: float, share: DayShare
) -> None:
    """Laws L12, L16: it may take what nobody has planned, and nothing else while others wait."""
    beyond = min(beyond, used[share])
    leave = plan.leave_beyond(share, used, beyond=beyond)
    fair = {**used, share: used[share] - beyond}
    unused = sum(
        max(0.0, plan.planned(name) - fair[name]) for name in (DayShare.PAID, DayShare.FREE)
    )
    assert leave >= unused
    assert leave <= unused + SPARE * plan.limit * (1 + 1e-9), "the rest is lent"
    assert leave >= plan.leave(share, used)
    assert plan.leave_beyond(share, used, beyond=beyond, waited=DAY) == 0, "nobody waits for ever"


def test_without_demand_of_others_a_job_beyond_its_share_may_use_nearly_the_whole_day() -> None:
    alone = plan(paid=100, free=0)
    used = {DayShare.PAID: 5000.0}
    assert alone.leave_beyond(DayShare.PAID, used, beyond=4900) == pytest.approx(500)
