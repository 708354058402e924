"""The order of jobs in lists, and where a page goes on."""

from datetime import UTC, datetime, timedelta

from headway.core.accounts.job_order import (
    FIRST_ID,
    LAST_ID,
    JobMark,
    ahead_before,
    coming_order,
    coming_starts,
    due_order,
    due_starts,
    from_start,
    list_order,
    place,
)
from headway.core.accounts.jobs import SCORES, DataKind, JobStatus, JobType, Tier
from headway.core.accounts.reasons import JobPosition, JobQueueState
from headway.core.catalog.listings import SellerId
from headway_lab.platforms import ETSY

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AGEING = 5 * MINUTE
QUEUE = JobQueueState(running_count=0, running_max=10, ageing=AGEING)


def job(
    name: str, score: int, due_at: datetime | None = NOW, *, ahead: int | None = None
) -> JobPosition:
    return JobPosition(
        id=name,
        account_id="a",
        user_id=SellerId("acme"),
        platform=ETSY,
        shop="1",
        kind=DataKind.ORDERS,
        type=JobType.INCREMENTAL,
        tier=Tier.FREE,
        score=score,
        status=JobStatus.QUEUED,
        next_run_at=due_at,
        ahead_count=ahead,
    )


def mark(score: int, due_at: datetime, name: str = "m") -> JobMark:
    return JobMark(score=score, due_at=due_at, started_at=None, changed_at=None, id=name)


def test_a_point_of_score_counts_as_much_as_one_span_of_waiting() -> None:
    low, high = job("low", 12, NOW - 6 * AGEING), job("high", 17, NOW)
    assert sorted([high, low], key=lambda waiting: due_order(waiting, AGEING)) == [low, high]
    equal = job("equal", 18, NOW)
    assert sorted([equal, low], key=lambda waiting: due_order(waiting, AGEING)) == [low, equal]


def test_coming_jobs_are_sorted_by_due_time_and_then_by_score() -> None:
    jobs = [job("a", 12, NOW + MINUTE), job("b", 43, NOW + MINUTE), job("c", 11, NOW)]
    assert [waiting.id for waiting in sorted(jobs, key=lambda one: coming_order(one, NOW))] == [
        "c",
        "b",
        "a",
    ]


def test_a_page_of_due_jobs_goes_on_behind_jobs_that_rank_like_the_last_one() -> None:
    starts = due_starts(mark(22, NOW), AGEING)
    assert (starts[22].at, starts[22].id) == (NOW, "m")
    assert (starts[23].at, starts[23].id) == (NOW + AGEING, FIRST_ID)
    assert (starts[21].at, starts[21].id) == (NOW - AGEING, LAST_ID)
    assert due_starts(None, AGEING) == from_start()
    assert set(starts) == set(SCORES)


def test_a_page_of_coming_jobs_goes_on_at_the_same_instant_with_the_lower_scores() -> None:
    starts = coming_starts(mark(22, NOW))
    assert {start.at for start in starts.values()} == {NOW}
    assert (starts[21].id, starts[22].id, starts[23].id) == (FIRST_ID, "m", LAST_ID)


def test_jobs_of_a_higher_score_go_ahead_although_they_waited_less() -> None:
    before = ahead_before(job("a", 12, NOW), QUEUE, NOW, (11, 12, 13))
    assert before == [NOW - AGEING, NOW, NOW + AGEING]


def test_only_a_due_job_whose_place_was_counted_has_one() -> None:
    assert place(job("a", 12, ahead=0), NOW) == 1
    assert place(job("a", 12), NOW) is None
    assert place(job("a", 12, NOW + MINUTE, ahead=3), NOW) is None


def test_a_sellers_jobs_are_listed_running_due_coming_ended() -> None:
    keys = [
        list_order(JobStatus.RUNNING, None, NOW, "z", NOW),
        list_order(JobStatus.QUEUED, 1, NOW, "y", NOW),
        list_order(JobStatus.QUEUED, 2, NOW, "x", NOW),
        list_order(JobStatus.COMPLETED, None, NOW + MINUTE, "w", NOW),
        list_order(JobStatus.DEAD, None, None, "a", NOW),
    ]
    assert keys == sorted(keys)
