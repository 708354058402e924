"""The queue of jobs, played forward."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.core.accounts.job_outlook import (
    HORIZON,
    DayOutlook,
    HourCalls,
    JobOutlook,
    foresee_jobs,
)
from headway.core.accounts.jobs import DataKind, JobCandidate, JobRule, JobType, Tier, score
from headway.core.catalog.listings import SellerId
from headway.core.limits.daily_shares import PATIENCE, DayPlan, DayShare
from headway_lab.platforms import ETSY, SHOPIFY

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
RULE = JobRule(
    intervals=dict(zip(Tier, (60 * MINUTE, 30 * MINUTE, 15 * MINUTE, 5 * MINUTE), strict=True)),
    kind_intervals=dict.fromkeys(DataKind, timedelta(0)),
    order_quotas=dict.fromkeys(Tier, 50),
)


def job(
    name: str,
    *,
    tier: Tier = Tier.FREE,
    type_: JobType = JobType.INCREMENTAL,
    due_in: timedelta = timedelta(0),
    **more: Any,
) -> JobCandidate:
    values = {
        "account_id": f"account of {name}",
        "user_id": SellerId(name),
        "platform": ETSY,
        "calls_estimate": 2.0,
    }
    return JobCandidate(
        id=name,
        score=score(tier, type_),
        tier=tier,
        type=type_,
        due_at=NOW + due_in,
        **{**values, **more},
    )


def day(
    *,
    limit: float = 100,
    uses: Sequence[tuple[timedelta, float]] = (),
    hours: Sequence[HourCalls] = (),
    paid: float = 0,
    free: float = 0,
) -> DayOutlook:
    return DayOutlook(
        plan=DayPlan(limit=limit, demand={DayShare.PAID: paid, DayShare.FREE: free}),
        uses=[(NOW + leaves_in, amount) for leaves_in, amount in uses],
        hours=hours,
        reserved=0,
        bucket=HOUR,
        stay=timedelta(days=1),
    )


def times(outlook: JobOutlook) -> dict[str, timedelta]:
    ids = [job.id for job in (*outlook.jobs, *outlook.running)]
    return {id_: at - NOW for id_, at in foresee_jobs(outlook, NOW, ids).items()}


def test_due_jobs_run_one_after_another_where_one_may_run_best_first() -> None:
    rule = replace(RULE, running_max=1)
    jobs = [job("free"), job("pro", tier=Tier.PRO), job("later", due_in=62 * MINUTE)]
    outlook = JobOutlook(jobs=jobs, running=(), days={}, rule=rule, call_lasts=10 * SECOND)
    assert times(outlook) == {
        "pro": timedelta(0),
        "free": 20 * SECOND,
        "later": 62 * MINUTE,
    }


def test_two_jobs_of_an_account_do_not_run_at_once_and_a_running_one_ends_first() -> None:
    running = job("orders", account_id="a", calls_estimate=3.0, run_calls=1)
    outlook = JobOutlook(
        jobs=[job("listings", account_id="a"), job("other")],
        running=[running],
        days={},
        rule=RULE,
        call_lasts=MINUTE,
    )
    found = times(outlook)
    assert (found["other"], found["listings"]) == (timedelta(0), 2 * MINUTE)


def test_a_job_runs_once_its_day_has_room_beside_what_it_leaves_to_others() -> None:
    used = [(3 * HOUR, 10.0), (5 * HOUR, 90.0)]
    free, paid = job("free"), job("paid", tier=Tier.PRO)
    alone = JobOutlook(jobs=[free], running=(), days={ETSY: day(uses=used)}, rule=RULE)
    assert times(alone) == {"free": 3 * HOUR}
    # Paying sellers' plan of the day is unused, so the first calls are left to them.
    short = day(uses=used, paid=90, free=90)
    both = JobOutlook(jobs=[free, paid], running=(), days={ETSY: short}, rule=RULE)
    assert times(both) == {"paid": 3 * HOUR, "free": 5 * HOUR}


def test_a_job_that_waited_too_long_takes_what_others_leave_unused() -> None:
    late = job("late", due_in=HOUR - PATIENCE[DayShare.FREE])
    short = day(uses=[(40 * HOUR, 90.0)], paid=1000)
    outlook = JobOutlook(jobs=[late], running=(), days={ETSY: short}, rule=RULE)
    assert times(outlook) == {"late": HOUR}


def test_use_of_a_share_counts_for_a_day_and_then_its_plan_is_open_again() -> None:
    used = [HourCalls(hour=NOW - 20 * HOUR, share=DayShare.PAID, calls=90)]
    open_now = day(uses=[(5 * HOUR, 90.0)], hours=used, paid=90, free=10)
    outlook = JobOutlook(jobs=[job("free")], running=(), days={ETSY: open_now}, rule=RULE)
    assert times(outlook) == {"free": timedelta(0)}
    unused = day(uses=[(5 * HOUR, 90.0)], paid=90, free=10)
    assert times(replace(outlook, days={ETSY: unused}))["free"] == 5 * HOUR


def test_a_platform_that_is_shut_takes_no_job_before_it_opens() -> None:
    outlook = JobOutlook(
        jobs=[job("etsy"), job("shopify", platform=SHOPIFY)],
        running=(),
        days={},
        rule=RULE,
        opens_at={ETSY: NOW + 20 * MINUTE},
    )
    assert times(outlook) == {"shopify": timedelta(0), "etsy": 20 * MINUTE}


def test_history_takes_a_few_calls_at_a_time_until_it_is_done() -> None:
    """The day has room for three steps of two calls; the second history waits for the first."""
    jobs = [
        job("old", type_=JobType.BACKFILL, calls_estimate=0.0, due_in=-HOUR),
        job("new", type_=JobType.BACKFILL, calls_estimate=0.0, account_id="account of old"),
    ]
    outlook = JobOutlook(
        jobs=jobs,
        running=(),
        days={ETSY: day(uses=[(HOUR, 89.0)])},
        rule=RULE,
        history_calls={ETSY: 4},
    )
    found = times(outlook)
    assert found["old"] == timedelta(0)
    assert timedelta(0) < found["new"] < MINUTE


def test_what_lies_beyond_the_horizon_is_left_out() -> None:
    jobs = [job("soon", due_in=HOUR), job("far", due_in=HORIZON + HOUR)]
    outlook = JobOutlook(jobs=jobs, running=(), days={}, rule=RULE)
    assert times(outlook) == {"soon": HOUR}
