from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts.jobs import DataKind, JobStatus, JobType, Tier, score
from headway.core.accounts.reasons import (
    WAITING,
    JobPosition,
    JobQueueState,
    JobState,
    Shut,
    aged,
    explain_job,
)
from headway.core.catalog.listings import SellerId
from headway.core.limits.daily_shares import share_of
from headway_lab.platforms import ETSY

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LINE = JobQueueState(running_count=1, running_max=10, ageing=5 * MINUTE)


def job(
    status: JobStatus = JobStatus.QUEUED, due_at: datetime | None = NOW, **more: object
) -> JobPosition:
    values = {
        "id": "j1",
        "account_id": "a1",
        "user_id": SellerId("acme"),
        "platform": ETSY,
        "shop": "1001",
        "kind": DataKind.ORDERS,
        "type": JobType.INCREMENTAL,
        "tier": Tier.FREE,
        "score": 12,
        "status": status,
        "next_run_at": due_at,
    }
    return JobPosition(**{**values, **more})  # type: ignore[arg-type]


@given(
    status=st.sampled_from(sorted(WAITING)),
    minutes=st.integers(-100_000, 100_000),
    ahead=st.none() | st.integers(0, 5000),
    running=st.integers(0, 12),
    is_busy=st.booleans(),
    is_shut=st.booleans(),
    tier=st.sampled_from(Tier),
    kind=st.sampled_from(DataKind),
)
def test_a_waiting_job_has_a_reason_and_an_end(
    *,
    status: JobStatus,
    minutes: int,
    ahead: int | None,
    running: int,
    is_busy: bool,
    is_shut: bool,
    tier: Tier,
    kind: DataKind,
) -> None:
    shut = Shut(state=JobState.BUDGET, explain_job="the day is spent", until=NOW + MINUTE)
    line = JobQueueState(
        running_count=running,
        running_max=10,
        ageing=5 * MINUTE,
        busy={"a1"} if is_busy else (),
        shut={(ETSY, tier): shut} if is_shut else {},
    )
    standing = job(
        status, NOW + minutes * MINUTE, tier=tier, kind=kind, ahead_count=ahead, last_error="x"
    )
    answer = explain_job(standing, line, NOW)
    assert answer.sentence.endswith(".")
    assert answer.until is not None
    assert answer.until >= NOW


def test_waiting_adds_a_point_for_each_span() -> None:
    standing = job(due_at=NOW - 12 * MINUTE, score=score(Tier.FREE, JobType.INCREMENTAL))
    assert aged(standing, LINE, NOW) == 12 + 12 / 5


def test_a_running_job_shows_its_progress() -> None:
    standing = job(
        JobStatus.RUNNING,
        started_at=NOW - MINUTE,
        lease_until=NOW + MINUTE,
        run_calls=3,
        calls_estimate=9.6,
    )
    answer = explain_job(standing, LINE, NOW)
    assert answer.state is JobState.RUNNING
    assert answer.sentence == "Runs since 11:59:00 UTC, 3 calls of about 10 so far."


def test_a_silent_worker_is_no_progress() -> None:
    standing = job(JobStatus.RUNNING, lease_until=NOW - MINUTE)
    assert explain_job(standing, LINE, NOW).state is JobState.SILENT


def test_the_dead_the_cancelled_and_the_done_wait_for_nothing() -> None:
    for status, state in (
        (JobStatus.DEAD, JobState.DEAD),
        (JobStatus.CANCELLED, JobState.CANCELLED),
        (JobStatus.COMPLETED, JobState.DONE),
    ):
        answer = explain_job(job(status, None), LINE, NOW)
        assert (answer.state, answer.until) == (state, None)


def test_a_failure_and_a_spent_month_say_when_they_end() -> None:
    failed = explain_job(
        job(JobStatus.FAILED, NOW + MINUTE, retry_count=2, last_error="500"), LINE, NOW
    )
    assert failed.sentence == "Failed 2 times in a row (500); tried again at 12:01:00 UTC."
    limited = explain_job(job(JobStatus.LIMITED, NOW + 40_000 * MINUTE), LINE, NOW)
    assert limited.state is JobState.QUOTA


def test_what_will_still_hold_a_job_when_it_is_due_is_what_holds_it() -> None:
    until = NOW + 90 * MINUTE
    shut = Shut(state=JobState.BUDGET, explain_job="the day is spent", until=until)
    line = JobQueueState(
        running_count=0,
        running_max=10,
        ageing=5 * MINUTE,
        shut={(ETSY, share_of(Tier.FREE, JobType.INCREMENTAL)): shut},
    )
    soon = explain_job(job(JobStatus.COMPLETED, NOW + 30 * MINUTE), line, NOW)
    assert (soon.state, soon.until) == (JobState.BUDGET, until)
    assert soon.sentence == "Due at 12:30 UTC, but the day is spent; possible from 13:30 UTC."
    later = explain_job(job(JobStatus.COMPLETED, NOW + 120 * MINUTE), line, NOW)
    assert (later.state, later.until) == (JobState.NOT_DUE, NOW + 120 * MINUTE)


def test_a_job_of_a_seller_whose_month_is_used_up_waits_for_the_next_month() -> None:
    for due_at in (NOW - MINUTE, NOW + 60 * MINUTE):
        answer = explain_job(job(JobStatus.COMPLETED, due_at, is_over_quota=True), LINE, NOW)
        assert (answer.state, answer.until) == (JobState.QUOTA, datetime(2026, 2, 1, tzinfo=UTC))
    after = datetime(2026, 2, 3, tzinfo=UTC)
    assert (
        explain_job(job(JobStatus.COMPLETED, after, is_over_quota=True), LINE, NOW).until == after
    )


def test_a_job_is_named_by_seller_platform_and_kind() -> None:
    assert job().name == "acme/etsy/orders"
    assert job(type=JobType.BACKFILL).name == "acme/etsy/orders/history"


def test_a_job_names_a_record_that_it_cannot_read() -> None:
    error = "R-1: the platform answered 500"
    sentence = explain_job(job(unreadable_count=2, unreadable_example=error), LINE, NOW).sentence
    assert sentence.startswith(explain_job(job(), LINE, NOW).sentence)
    assert f"2 records cannot be read, and all others are ({error})." in sentence
