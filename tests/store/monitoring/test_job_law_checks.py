"""Each law of the account lane finds the row that breaks it, and nothing on a lawful database."""

from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.lane import DAY_KEY, Lane

from headway.core.limits.rules import Quota, Resource
from headway.store.limits.limiter import PostgresLimiter
from headway.store.monitoring.job_law_checks import JobLawChecks
from headway_lab.virtual_clock import VirtualClock

HOUR = timedelta(hours=1)
LISTING = """
INSERT INTO listings (account_id, external_id, user_id, platform, state, checked_at, created_at,
  updated_at)
SELECT id, 'l1', %s, platform, 'active', %s, %s, %s FROM connected_accounts
WHERE user_id = 'fern' AND platform = 'etsy'
"""


@pytest.fixture
def lane(pool: ConnectionPool, clock: VirtualClock) -> Lane:
    made = Lane(pool, clock)
    made.connect()
    return made


@pytest.fixture
def laws(pool: ConnectionPool) -> JobLawChecks:
    return JobLawChecks(pool)


def spend(lane: Lane, count: float) -> None:
    lane.limiter.create([DAY_KEY])
    permit = lane.limiter.reserve(
        [DAY_KEY],
        cost=count,
        owner="x",
        max_wait_s=0,
        lease_s=60,
        grace_s=0,
        purpose="",
        begins=True,
    )
    lane.limiter.settle(permit, sent=True, actual=count)  # type: ignore[arg-type]


def test_a_lawful_lane_breaks_no_law(lane: Lane, laws: JobLawChecks) -> None:
    lane.claim()
    spend(lane, 50)
    assert laws.has_jobs()
    assert laws.leases(lane.now).count == 0
    assert laws.strays().count == 0
    assert laws.starved(lane.now).count == 0
    assert laws.quotas(lane.now)[1].count == 0


def test_a_lease_that_ran_out_and_nobody_freed_is_found(lane: Lane, laws: JobLawChecks) -> None:
    job, _ = lane.claim()
    violations = laws.leases(lane.now + HOUR)
    assert violations.count == 1
    assert (
        f"{job.account.platform} {job.kind} of prime: lease of test ran out"
        in violations.examples[0]
    )


def test_two_jobs_of_one_account_at_once_are_found(lane: Lane, laws: JobLawChecks) -> None:
    job, _ = lane.claim()
    lane.ask("DROP INDEX sync_jobs_running")
    lane.ask(
        "UPDATE sync_jobs SET status = 'running', lease_owner = 'x', lease_until = %s"
        " WHERE account_id = %s",
        lane.now + HOUR,
        job.account.id,
    )
    assert "jobs of one account run at once" in laws.leases(lane.now).examples[0]


def test_a_row_with_another_sellers_name_is_found(lane: Lane, laws: JobLawChecks) -> None:
    lane.ask(LISTING, "prime", lane.now, lane.now, lane.now)
    violations = laws.strays()
    assert violations.count == 1
    assert violations.examples[0].startswith("listings of prime: is kept under the account ")


def test_a_job_that_nobody_took_for_a_day_is_found(lane: Lane, laws: JobLawChecks) -> None:
    lane.ask(
        "UPDATE sync_jobs SET next_run_at = %s WHERE user_id = 'fern' AND kind = 'payments'"
        " AND NOT is_backfill",
        lane.now - 25 * HOUR,
    )
    violations = laws.starved(lane.now)
    assert violations.count == 1
    assert "etsy payments of fern: has been due since" in violations.examples[0]


def test_a_quota_that_is_overdrawn_is_found(lane: Lane, laws: JobLawChecks) -> None:
    spend(lane, 90)
    assert laws.quotas(lane.now) == (1, laws.leases(lane.now))
    lower = Resource(key=DAY_KEY, rules=(Quota(limit=80, span_s=86_400),))
    PostgresLimiter(lane.pool, lane.clock, [lower]).pause(DAY_KEY, 1, "its limit was lowered")
    _, violations = laws.quotas(lane.now)
    assert violations.examples == (f"{DAY_KEY}: 90 used and 0 reserved of 80",)


def test_more_calls_than_a_day_has_are_found_by_the_second_count(
    lane: Lane, laws: JobLawChecks
) -> None:
    spend(lane, 10)
    lane.ask(
        "INSERT INTO rate_budgets (limit_key, platform, hour, tier, used)"
        " VALUES (%s, 'etsy', date_trunc('hour', %s::timestamptz, 'UTC'), 'pro', 101)",
        DAY_KEY,
        lane.now - 2 * HOUR,
    )
    _, violations = laws.quotas(lane.now)
    assert violations.examples == (f"{DAY_KEY}: 101 calls were made within 24 h, of 100",)
