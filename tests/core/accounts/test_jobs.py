"""Who goes first, what a claim reserves, and what an end makes of a job."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts import jobs
from headway.core.accounts.jobs import (
    Account,
    DataKind,
    Job,
    JobCandidate,
    JobRule,
    JobStatus,
    JobType,
    Tier,
    score,
)
from headway.core.catalog.listings import SellerId
from headway_lab.platforms import ETSY

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AGEING = 5 * MINUTE
RULE = JobRule(
    intervals=dict(zip(Tier, (60 * MINUTE, 30 * MINUTE, 15 * MINUTE, 5 * MINUTE), strict=True)),
    kind_intervals={kind: (0 if kind is DataKind.ORDERS else 360) * MINUTE for kind in DataKind},
    order_quotas=dict.fromkeys(Tier, 50),
)
JOB = Job(
    id="j1",
    account=Account(id="a1", user_id=SellerId("a"), platform=ETSY, shop="1"),
    kind=DataKind.ORDERS,
    type=JobType.INCREMENTAL,
    tier=Tier.STARTER,
    fence=1,
    cursor={},
    started_at=NOW - MINUTE,
    due_at=NOW - 2 * MINUTE,
)


def candidate(
    name: str, tier: Tier, job_type: JobType, *, waited: timedelta = timedelta(0)
) -> JobCandidate:
    return JobCandidate(
        id=name,
        account_id=name,
        user_id=SellerId(name),
        platform=ETSY,
        score=score(tier, job_type),
        tier=tier,
        type=job_type,
        due_at=NOW - waited,
    )


def test_a_tier_weighs_more_than_a_type_and_a_type_decides_within_a_tier() -> None:
    every = [
        candidate(f"{tier} {job_type}", tier, job_type) for tier in Tier for job_type in JobType
    ]
    order = [job.id for job in jobs.in_order(every, NOW, AGEING)]
    assert order[:4] == [
        "pro webhook_triggered",
        "pro incremental",
        "pro backfill",
        "growth webhook_triggered",
    ]
    assert order[-1] == "free backfill"


def test_a_free_backfill_overtakes_a_fresh_webhook_of_a_pro_after_its_wait() -> None:
    webhook = candidate("webhook", Tier.PRO, JobType.WEBHOOK)
    for minutes, first in ((160, "webhook"), (161, "backfill")):
        old = candidate("backfill", Tier.FREE, JobType.BACKFILL, waited=minutes * MINUTE)
        behind = candidate("behind", Tier.FREE, JobType.BACKFILL)
        order = [job.id for job in jobs.in_order([webhook, behind, old], NOW, AGEING)]
        assert order[-1] == "behind"
        # At 160 minutes they are equal, and who is due longest goes first.
        assert order[0] == (first if minutes != 160 else "backfill")
    younger = candidate("backfill", Tier.FREE, JobType.BACKFILL, waited=159 * MINUTE)
    assert jobs.in_order([younger, webhook], NOW, AGEING)[0].id == "webhook"


@given(waits=st.lists(st.integers(0, 10**6), min_size=2, max_size=20))
def test_within_a_score_the_longest_due_is_always_first(waits: list[int]) -> None:
    """So the heads of the scores are all that a claim must look at."""
    every = [
        candidate(str(number), Tier.FREE, JobType.INCREMENTAL, waited=timedelta(seconds=wait))
        for number, wait in enumerate(waits)
    ]
    dues = [job.due_at for job in jobs.in_order(every, NOW, AGEING)]
    assert dues == sorted(dues)


@pytest.mark.parametrize(
    ("estimate", "run_calls", "job_type", "reserved"),
    (
        (0.0, 0, JobType.INCREMENTAL, 2),
        (6.2, 0, JobType.INCREMENTAL, 7),
        (6.2, 5, JobType.INCREMENTAL, 2),
        (400.0, 0, JobType.INCREMENTAL, 50),
        (400.0, 0, JobType.BACKFILL, 10),
    ),
)
def test_a_claim_reserves_what_its_run_still_needs(
    estimate: float, run_calls: int, job_type: JobType, reserved: int
) -> None:
    calls = jobs.reservation(estimate, run_calls=run_calls, job_type=job_type, rule=RULE)
    assert calls == reserved
    huge = replace(RULE, calls_per_claim=dict.fromkeys(JobType, 10**6))
    assert jobs.reservation(10**5, run_calls=0, job_type=job_type, rule=huge) == 100


def test_the_estimate_starts_with_the_first_run_and_follows_the_later_ones() -> None:
    estimate = jobs.learn(0, 10)
    assert estimate == 10
    for _ in range(20):
        estimate = jobs.learn(estimate, 4)
    assert estimate == pytest.approx(4, abs=0.01)


def test_a_run_that_is_done_is_due_again_an_interval_after_it_started() -> None:
    ending = jobs.completed(JOB, RULE, NOW)
    assert (ending.status, ending.next_run_at) == (JobStatus.COMPLETED, NOW + 29 * MINUTE)
    listings = jobs.completed(replace(JOB, kind=DataKind.LISTINGS), RULE, NOW)
    assert listings.next_run_at == NOW + 359 * MINUTE
    long = jobs.completed(replace(JOB, started_at=NOW - timedelta(hours=3)), RULE, NOW)
    assert long.next_run_at == NOW
    assert jobs.completed(replace(JOB, type=JobType.BACKFILL), RULE, NOW).next_run_at is None


def test_accounts_that_came_together_part_after_their_first_run() -> None:
    first = replace(JOB, tier=Tier.FREE, is_first=True, started_at=NOW)
    dues = [jobs.completed(replace(first, id=f"j{n}"), RULE, NOW).next_run_at for n in range(200)]
    minutes = sorted((due - NOW) / MINUTE for due in dues if due is not None)
    assert 30 <= minutes[0] < 32
    assert 58 < minutes[-1] <= 60
    assert max(later - sooner for sooner, later in itertools.pairwise(minutes)) < 2


def test_failures_wait_longer_each_time_and_the_fifth_is_death() -> None:
    waits = []
    job = JOB
    for _ in range(4):
        ending = jobs.failed(job, RULE, "refused", NOW)
        assert ending.status is JobStatus.FAILED
        assert ending.next_run_at is not None
        waits.append((ending.next_run_at - NOW) / MINUTE)
        job = replace(job, retry_count=ending.retry_count)
    assert waits == [2, 4, 8, 16]
    dead = jobs.failed(job, RULE, "refused", NOW)
    assert (dead.status, dead.next_run_at, dead.retry_count) == (JobStatus.DEAD, None, 5)


def test_a_job_that_is_not_to_blame_keeps_its_count_of_failures() -> None:
    job = replace(JOB, retry_count=3)
    ending = jobs.rescheduled(job, NOW + MINUTE, "rate limited")
    assert (ending.status, ending.retry_count) == (JobStatus.QUEUED, 3)
    assert jobs.limited(job, NOW).next_run_at == datetime(2026, 4, 1, tzinfo=UTC)
    assert jobs.next_month(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)).year == 2027


def test_pauses_without_a_word_double_up_to_a_quarter_of_an_hour() -> None:
    pauses = [jobs.throttle_pause(times, "j1").total_seconds() for times in range(30)]
    assert pauses == sorted(pauses)
    assert 0.5 <= pauses[0] <= 1
    assert 450 <= pauses[-1] <= 900
