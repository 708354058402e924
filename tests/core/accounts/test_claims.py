"""Which jobs a claim takes, and what each may reserve."""

from datetime import UTC, datetime, timedelta

import pytest

from headway.core.accounts.claims import (
    SCORES_BY_TIER,
    choose,
    closed_by,
    closed_to,
    costs,
    depth,
    event_of,
    is_closed,
    open_classes,
    over_quota,
    type_after,
)
from headway.core.accounts.jobs import (
    CALLS_MIN,
    SCORES,
    DataKind,
    JobCandidate,
    JobRule,
    JobStatus,
    JobType,
    Tier,
    score,
)
from headway.core.catalog.listings import SellerId
from headway.core.limits.daily_shares import DayShare
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULE = JobRule(
    intervals=dict.fromkeys(Tier, timedelta(hours=1)),
    kind_intervals=dict.fromkeys(DataKind, timedelta(0)),
    order_quotas=dict.fromkeys(Tier, 100),
)


def candidate(
    name: str,
    *,
    seller: str = "acme",
    tier: Tier = Tier.FREE,
    job_type: JobType = JobType.INCREMENTAL,
    estimate: float = 0.0,
    is_over_quota: bool = False,
) -> JobCandidate:
    return JobCandidate(
        id=name,
        account_id=f"account of {seller}",
        user_id=SellerId(seller),
        platform=ETSY,
        score=score(tier, job_type),
        tier=tier,
        type=job_type,
        due_at=NOW,
        calls_estimate=estimate,
        is_over_quota=is_over_quota,
    )


def test_one_job_of_each_account_is_chosen_best_first_and_no_more_than_there_is_room() -> None:
    front = [
        candidate("a1"),
        candidate("a2"),
        candidate("b1", seller="b"),
        candidate("c1", seller="c"),
    ]
    assert [job.id for job in choose(front, 2, ())] == ["a1", "b1"]
    assert [job.id for job in choose(front, 9, ())] == ["a1", "b1", "c1"]
    assert choose(front, 0, ()) == []


def test_jobs_of_a_seller_over_quota_are_passed_over() -> None:
    front = [candidate("a1", is_over_quota=True, tier=Tier.PRO), candidate("b1", seller="b")]
    over = over_quota(front)
    assert over == {"acme": Tier.PRO}
    assert [job.id for job in choose(front, 9, over)] == ["b1"]


@pytest.mark.parametrize(
    ("tier", "job_type", "shares"),
    (
        (Tier.PRO, JobType.WEBHOOK, {DayShare.PAID, DayShare.FREE, DayShare.HISTORY}),
        (Tier.FREE, JobType.INCREMENTAL, {DayShare.FREE, DayShare.HISTORY}),
        (Tier.PRO, JobType.BACKFILL, {DayShare.HISTORY}),
    ),
)
def test_a_share_without_budget_closes_the_lesser_ones_of_its_platform(
    tier: Tier, job_type: JobType, shares: set[DayShare]
) -> None:
    job = candidate("a", tier=tier, job_type=job_type)
    closed = closed_by(job)
    assert closed == {(ETSY, share) for share in shares}
    assert is_closed(job, closed)
    assert not is_closed(job, closed_to([SHOPIFY]))


def test_a_claim_looks_at_every_platform_and_score_that_is_not_closed() -> None:
    assert len(open_classes(PLATFORMS)) == len(PLATFORMS) * len(SCORES)
    left = open_classes(PLATFORMS, closed_to([ETSY, SHOPIFY]))
    assert left == [(PRINTIFY, number) for number in SCORES]
    history = {(ETSY, DayShare.HISTORY)}
    assert (ETSY, score(Tier.PRO, JobType.BACKFILL)) not in open_classes(PLATFORMS, history)


def test_a_claim_looks_twice_as_far_each_time() -> None:
    assert [depth(10, look) for look in range(3)] == [14, 28, 56]


def test_a_run_reserves_what_it_needs_else_the_minimum_and_never_more_than_the_limit() -> None:
    assert costs(candidate("a", estimate=20), 1000, RULE) == [20, CALLS_MIN]
    assert costs(candidate("a"), 1000, RULE) == [CALLS_MIN]
    assert costs(candidate("a", estimate=20), 1, RULE) == [1]


def test_a_completed_job_is_incremental_from_then_on_and_history_stays_history() -> None:
    assert type_after(JobType.WEBHOOK, JobStatus.COMPLETED) is JobType.INCREMENTAL
    assert type_after(JobType.WEBHOOK, JobStatus.FAILED) is JobType.WEBHOOK
    assert type_after(JobType.BACKFILL, JobStatus.COMPLETED) is JobType.BACKFILL


def test_scores_by_tier_are_those_of_the_jobs() -> None:
    assert SCORES_BY_TIER["pro"]["webhook_triggered"] == 43
    assert SCORES_BY_TIER["free"]["backfill"] == 11


def test_the_event_of_a_requeued_job_says_whether_it_was_throttled() -> None:
    assert event_of(JobStatus.QUEUED, "the day is short") == "job_rescheduled"
    assert event_of(JobStatus.QUEUED, "") == "job_yielded"
    assert event_of(JobStatus.DEAD, "x") == "job_dead"
