"""The account lane as the screens show it: in the order in which jobs run, each with its reason."""

from dataclasses import replace
from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.lane import DAY_KEY, Lane

from headway.core.accounts.jobs import JobStatus, JobType, Tier
from headway.core.accounts.reasons import JobState
from headway.core.catalog.listings import LimitKey, SellerId
from headway.core.limits.breaker import Breaker
from headway.core.limits.daily_shares import DayShare
from headway.core.limits.transitions import Observation
from headway.store.accounts.account_queries import AccountQueries
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.job_list import JobView, find, is_job_name, of_seller, read_queue_state
from headway.store.accounts.job_queue import queue
from headway.store.accounts.status import (
    AccountsStatus,
    AccountView,
    read_accounts,
)
from headway.store.limits.breakers import Breakers
from headway.store.limits.day_demand import DayDemand
from headway.store.limits.quotas import read_budgets
from headway_lab.platforms import ETSY, PLATFORMS
from headway_lab.virtual_clock import VirtualClock

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
ORDER = """
INSERT INTO orders (account_id, external_id, user_id, platform, status, is_open, currency, total,
  placed_at, checked_at, created_at, updated_at)
SELECT id, 'o' || n, user_id, platform, 'paid', true, 'USD', 1, %s, %s, %s, %s
FROM connected_accounts, generate_series(1, %s) AS n WHERE user_id = %s AND platform = %s
"""
MANY = """
INSERT INTO connected_accounts (user_id, platform, shop, status)
SELECT 's' || n, 'etsy', n, 'connected' FROM generate_series(1, 30000) AS n;
INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, score, next_run_at)
SELECT id, user_id, platform, kind, 'incremental', 12, '2000-01-01'::timestamptz
  + shop::int * interval '1 second'
FROM connected_accounts, unnest(ARRAY['orders', 'listings', 'payments']) AS kind
WHERE user_id LIKE 's%';
ANALYZE sync_jobs
"""


@pytest.fixture
def lane(pool: ConnectionPool, clock: VirtualClock) -> Lane:
    return Lane(pool, clock)


def queries(lane: Lane) -> AccountQueries:
    demand = DayDemand(lane.pool, lane.rule)
    return AccountQueries(lane.pool, lane.rule, lane.days, demand, platforms=PLATFORMS)


def look(lane: Lane) -> AccountsStatus:
    return queries(lane).status(lane.now)


def line_up(lane: Lane, limit: int = 100) -> list[JobView]:
    with lane.pool.connection() as connection:
        budgets = read_budgets(connection, lane.now, lane.days, DayDemand(lane.pool, lane.rule))
        line = read_queue_state(
            connection, lane.now, rule=lane.rule, platforms=PLATFORMS, budgets=budgets
        )
        return queue(connection, lane.now, line, limit=limit)


def explain(lane: Lane, name: str) -> JobView:
    with lane.pool.connection() as connection:
        budgets = read_budgets(connection, lane.now, lane.days, DayDemand(lane.pool, lane.rule))
        line = read_queue_state(
            connection, lane.now, rule=lane.rule, platforms=PLATFORMS, budgets=budgets
        )
        job = find(connection, lane.now, line, name)
    assert job is not None
    return job


def test_each_due_job_is_expected_when_a_place_is_free_for_it(lane: Lane) -> None:
    """One may run at a time: the job in the last place does not run now."""
    lane.rule = replace(lane.rule, running_max=1)
    lane.connect()
    lane.ask("UPDATE sync_jobs SET platform = platform, calls_estimate = 6 WHERE NOT is_backfill")
    lane.limiter.observe(DAY_KEY, Observation(used=0, capacity=10_000))
    shown = [job for job in queries(lane).jobs(lane.now, limit=100) if job.place]
    assert len(shown) > 20
    untils = [job.until for job in shown if job.until is not None]
    assert len(untils) == len(shown)
    assert untils == sorted(untils), "in the order in which they run"
    assert (untils[0], len(set(untils))) == (lane.now, len(untils))
    assert untils[-1] - untils[0] >= (len(shown) - 1) * timedelta(seconds=1)
    last = queries(lane).job(lane.now, shown[-1].id)
    assert last is not None
    assert last.until == untils[-1]


def test_a_job_without_budget_is_expected_when_the_day_has_room_for_it(lane: Lane) -> None:
    lane.connect(Tier.FREE)
    lane.ask("UPDATE sync_jobs SET next_run_at = %s", lane.now + 40 * HOUR)
    lane.ask(
        "UPDATE sync_jobs SET next_run_at = %s WHERE platform = 'etsy' AND kind = 'orders'"
        " AND NOT is_backfill",
        lane.now,
    )
    lane.limiter.observe(DAY_KEY, Observation(used=100, capacity=100))
    job = queries(lane).job(lane.now, "fern/etsy/orders")
    assert job is not None
    assert job.state is JobState.BUDGET
    assert job.until is not None
    lane.clock.sleep((job.until - lane.now).total_seconds() - 1)
    assert lane.jobs.claim(now=lane.now, owner="test") is None
    lane.clock.sleep(1)
    assert lane.claim()[0].id == job.id


def test_without_an_account_there_is_nothing_to_show(lane: Lane) -> None:
    status = look(lane)
    assert (status.accounts, status.accounts_count, status.queue, status.dead) == ((), 0, (), ())
    assert (status.due_count, status.dead_count, status.notices) == (0, 0, ())
    assert status.budgets[0].left == 100


def test_the_queue_is_in_the_order_in_which_jobs_are_claimed(lane: Lane) -> None:
    lane.connect()
    lane.limiter.observe(DAY_KEY, Observation(used=0, capacity=10_000))
    lane.ask("UPDATE sync_jobs SET next_run_at = %s WHERE tier = 'free'", lane.now - 3 * HOUR)
    shown = [job.id for job in line_up(lane) if job.place]
    claimed = []
    for _ in shown:
        job, _permit = lane.claim()
        claimed.append(job.id)
        # It is done with, so that the next may run: only the order is looked at here.
        again_at = None if job.type is JobType.BACKFILL else lane.now + 9 * HOUR
        lane.jobs.settle(job, JobStatus.COMPLETED, next_run_at=again_at, now=lane.now)
    assert claimed == shown


def test_places_count_from_one_and_ageing_is_shown(lane: Lane) -> None:
    lane.connect(Tier.FREE)
    lane.ask("UPDATE sync_jobs SET next_run_at = %s", lane.now - 10 * MINUTE)
    views = line_up(lane)
    assert [view.place for view in views] == list(range(1, len(views) + 1))
    assert (views[0].score, views[0].aged_score) == (12, 14.0)
    assert views[0].state is JobState.NEXT
    assert views[1].reason == "Due for 10 min; 1 job runs first."


def test_those_that_are_not_due_come_after_those_that_are_soonest_first(lane: Lane) -> None:
    lane.connect(Tier.PRO)
    lane.ask("UPDATE sync_jobs SET next_run_at = %s", lane.now + HOUR)
    lane.ask(
        "UPDATE sync_jobs SET next_run_at = %s WHERE kind = 'payments' AND NOT is_backfill",
        lane.now + MINUTE,
    )
    lane.ask(
        "UPDATE sync_jobs SET next_run_at = %s WHERE kind = 'customers' AND NOT is_backfill",
        lane.now,
    )
    views = line_up(lane)
    assert [view.kind for view in views[:2]] == ["customers", "payments"]
    assert [view.place for view in views[:3]] == [1, None, None]
    assert views[1].state is JobState.NOT_DUE
    assert views[1].until == lane.now + MINUTE


def test_one_who_rests_until_due_is_in_line_before_anybody_queued_it(lane: Lane) -> None:
    lane.connect(Tier.PRO)
    lane.ask("UPDATE sync_jobs SET next_run_at = %s", lane.now + HOUR)
    lane.ask(
        "UPDATE sync_jobs SET status = 'completed', next_run_at = %s"
        " WHERE kind = 'orders' AND NOT is_backfill",
        lane.now,
    )
    assert {job.kind for job in line_up(lane) if job.place} == {"orders"}
    assert look(lane).due_count == 3


def test_a_job_of_a_shop_that_is_being_read_says_so(lane: Lane) -> None:
    lane.connect(Tier.PRO)
    job, _ = lane.claim()
    mine = [item for item in line_up(lane) if item.account_id == job.account.id and item.place]
    assert mine
    assert {job.state for job in mine} == {JobState.BUSY}
    assert [job.id for job in look(lane).running] == [job.id]


def test_a_spent_day_blocks_its_platform_and_says_until_when(lane: Lane) -> None:
    lane.connect()
    lane.limiter.create([DAY_KEY])
    permit = lane.limiter.reserve(
        [DAY_KEY], cost=99, owner="x", max_wait_s=0, lease_s=60, grace_s=0, purpose="", begins=True
    )
    lane.limiter.settle(permit, sent=True, actual=99)
    etsy = [job for job in line_up(lane) if job.platform == ETSY]
    assert {job.state for job in etsy} == {JobState.BUDGET}
    (budget,) = look(lane).budgets
    assert (budget.used, budget.left) == (99, 1)
    assert {job.until for job in etsy} == {*budget.from_at.values()}
    assert budget.from_at[DayShare.PAID] is not None
    assert budget.from_at[DayShare.PAID] > lane.now + 24 * HOUR - MINUTE
    assert "99 of Etsy's 100 calls in 24 h are used or reserved" in etsy[0].reason


def test_what_is_left_to_those_who_pay_blocks_only_those_who_do_not(lane: Lane) -> None:
    lane.connect()
    lane.limiter.create([DAY_KEY])
    permit = lane.limiter.reserve(
        [DAY_KEY], cost=85, owner="x", max_wait_s=0, lease_s=60, grace_s=0, purpose="", begins=True
    )
    lane.limiter.settle(permit, sent=True, actual=85)
    lane.ask(
        "INSERT INTO rate_budgets (limit_key, platform, hour, tier, used)"
        " VALUES (%s, 'etsy', date_trunc('hour', %s::timestamptz, 'UTC'), 'pro', 40)",
        DAY_KEY,
        lane.now,
    )
    states = {
        job.tier: job.state
        for job in line_up(lane)
        if job.platform == ETSY and job.type is not JobType.BACKFILL
    }
    assert states[Tier.FREE] is JobState.BUDGET
    assert states[Tier.PRO] is not JobState.BUDGET
    free = explain(lane, "fern/etsy/orders")
    assert "the last 15 of Etsy's day are reserved for paying sellers" in free.reason
    budget = look(lane).budgets[0]
    assert budget.left_to_paid == budget.left == 15, "not more than there is"


def test_a_platform_that_does_not_answer_is_the_reason_of_its_jobs(lane: Lane) -> None:
    lane.connect()
    until = lane.now + 5 * MINUTE
    breaker = Breaker(failures=3, open_until=until, opened_at=lane.now, reason="timed out")
    Breakers(lane.pool).save(LimitKey("printify"), breaker)
    job = explain(lane, "prime/printify/orders")
    assert (job.state, job.until) == (JobState.NO_ANSWER, until)
    assert "timed out" in job.reason


def test_a_dead_job_says_why_and_what_to_do(lane: Lane) -> None:
    lane.connect(Tier.FREE)
    job, _ = lane.claim()
    lane.jobs.settle(
        job, JobStatus.DEAD, next_run_at=None, retry_count=5, reason="malformed", now=lane.now
    )
    status = look(lane)
    assert [job.id for job in status.dead] == [job.id]
    assert status.dead[0].reason == (
        f"Dead after 5 failures in a row (malformed); fix that, then: headway revive {job.id}"
    )
    assert status.dead_count == 1
    assert status.accounts[[a.id for a in status.accounts].index(job.account.id)].dead == 1
    assert [notice.seller for notice in status.notices] == ["fern"]


def test_disconnected_accounts_come_first_with_their_reason(lane: Lane) -> None:
    lane.connect()
    ConnectedShops(lane.pool).disconnect(
        SellerId("prime"), "the grant was revoked", platform=ETSY, now=lane.now
    )
    status = look(lane)
    assert (status.accounts[0].seller, status.accounts[0].platform) == ("prime", ETSY)
    assert not status.accounts[0].is_connected
    assert status.accounts[0].trouble == "the grant was revoked"
    answer = explain(lane, "prime/etsy/orders")
    assert answer.state is JobState.CANCELLED
    assert "the grant was revoked" in answer.reason


def test_an_account_counts_its_rows_and_knows_its_newest_order(lane: Lane) -> None:
    lane.connect(Tier.GROWTH)
    placed = lane.now - HOUR
    values = (placed, lane.now, lane.now, lane.now, 3, "grove", "etsy")
    lane.ask(ORDER, *values)
    etsy, *others = read(lane)
    assert (etsy.orders, etsy.newest_order_at) == (3, placed)
    assert {job.orders for job in others} == {0}


def read(lane: Lane) -> tuple[AccountView, ...]:
    with lane.pool.connection() as connection:
        return read_accounts(connection, user_id=SellerId("grove"), limit=10)


def test_the_months_orders_are_shown_against_the_tiers_quota(lane: Lane) -> None:
    lane.connect()
    lane.ask(
        "UPDATE profiles SET orders_month = date_trunc('month', %s::timestamptz, 'UTC'),"
        " orders_count = 44 WHERE user_id = 'fern'",
        lane.now,
    )
    by_name = {seller.seller: seller for seller in look(lane).sellers}
    assert (by_name[SellerId("fern")].orders, by_name[SellerId("fern")].orders_max) == (44, 50)
    assert by_name[SellerId("prime")].orders_max == 5000
    lane.ask("UPDATE profiles SET orders_month = orders_month - interval '1 month'")
    assert {seller.orders for seller in look(lane).sellers} == {0}


def test_the_curve_is_the_rolling_sum_by_hour(lane: Lane) -> None:
    for back, used in ((30, 7.0), (3, 5.0), (1, 2.0)):
        lane.ask(
            "INSERT INTO rate_budgets (limit_key, platform, hour, tier, used)"
            " VALUES (%s, 'etsy', date_trunc('hour', %s::timestamptz, 'UTC'), 'pro', %s)",
            DAY_KEY,
            lane.now - back * HOUR,
            used,
        )
    (budget,) = look(lane).budgets
    assert [hour.used for hour in budget.hours[-4:]] == [5.0, 0.0, 2.0, 0.0]
    assert [point.used for point in budget.past[-5:-1]] == [0.0, 5.0, 5.0, 7.0]
    assert budget.past[0].used == 7.0
    assert len(budget.forecast.points) == 25


def test_a_seller_sees_all_jobs_with_what_has_ended_last(lane: Lane) -> None:
    lane.connect(Tier.PRO)
    lane.ask(
        "UPDATE sync_jobs SET status = 'completed', next_run_at = NULL"
        " WHERE is_backfill AND kind = 'orders'"
    )
    running, _ = lane.claim()
    with lane.pool.connection() as connection:
        line = read_queue_state(
            connection, lane.now, rule=lane.rule, platforms=PLATFORMS, budgets=()
        )
        views = of_seller(connection, lane.now, line, SellerId("prime"))
    assert len(views) == 13
    assert views[0].id == running.id
    assert [view.state for view in views[-3:]] == [JobState.DONE] * 3


@pytest.mark.parametrize(
    "text",
    ("acme/etsy/orders", "acme/etsy/orders/history", "0b9f9c3e-6c93-4a3c-8a54-5d7b0a3d9f11"),
)
def test_a_job_is_known_by_its_id_or_its_name(text: str) -> None:
    assert is_job_name(text)


@pytest.mark.parametrize(
    "text", ("AN 960/10L", "acme/etsy/parts", "/etsy/orders", "WF330523=7A", "a/etsy/orders/x", "")
)
def test_a_part_is_no_job(text: str) -> None:
    assert not is_job_name(text)


def test_a_place_far_behind_is_counted_as_the_claim_would(lane: Lane) -> None:
    lane.connect(Tier.PRO, Tier.FREE)
    first = explain(lane, "prime/etsy/orders")
    last = explain(lane, "fern/etsy/orders/history")
    assert first.place == 1
    assert last.place == 13 + 8 + 1  # after all of the pro's, and the free one's that are new


def test_a_long_queue_is_read_from_its_head(lane: Lane) -> None:
    with lane.pool.connection() as connection:
        connection.execute(MANY)  # type: ignore[arg-type]
        plan = connection.execute(
            "EXPLAIN (FORMAT JSON) SELECT * FROM sync_jobs WHERE status = 'queued' AND"
            " platform = 'etsy' AND score = 12 AND next_run_at <= now() ORDER BY next_run_at"
            " LIMIT 10"
        ).fetchone()
    assert plan is not None
    assert "sync_jobs_claim" in str(plan[0])
    status = look(lane)
    assert [job.seller for job in status.queue[:3]] == ["s1", "s1", "s1"]
    assert status.due_count == status.accounts_count == 10_000
