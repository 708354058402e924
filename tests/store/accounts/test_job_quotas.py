"""What a seller may use: the month's orders while the tier changes, and a share of the day."""

import threading
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.job_fixtures import DAY_KEY, MINUTE, NOW, Rows, make_rows

from headway.core.accounts.jobs import JobStatus, Tier
from headway.core.accounts.pagination import Page, PageStep
from headway.core.accounts.warehouse import Order, Records
from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.listings import SellerId
from headway.core.limits.transitions import Observation
from headway.errors import InvalidError
from headway.store.catalog.sellers import Sellers


@pytest.fixture
def rows(pool: ConnectionPool) -> Rows:
    return make_rows(pool)


def pay_for(rows: Rows, seller: str, tier: Tier) -> int:
    sellers = Sellers(rows.pool, SellerSettings(terms=Terms(locations={}, currency="USD")))
    quotas = rows.rule.order_quotas
    return sellers.set_tier(SellerId(seller), tier, quotas=quotas, now=rows.clock.now())


def test_a_seller_who_pays_for_more_during_a_claim_is_not_set_aside_by_it(rows: Rows) -> None:
    """The claim has seen who is over the quota, and waits for the day's row when that changes."""
    job_id = rows.add("a")
    rows.ask("UPDATE profiles SET orders_month = '2026-03-01', orders_count = 50")
    rows.add("b")
    rows.ask("UPDATE profiles SET orders_count = 0 WHERE user_id = 'b'")
    rows.limiter.create([DAY_KEY])
    claimer = threading.Thread(target=rows.claim)
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with rows.pool.connection() as connection, connection.transaction():
        connection.execute("SELECT FROM limiter FOR UPDATE")
        claimer.start()
        while not rows.one(
            f"{waits} AND query LIKE '%%FROM limiter%%' AND pid <> pg_backend_pid()"
        ):
            pass
        pay_for(rows, "a", Tier.PRO)
    claimer.join()
    assert rows.status(job_id) == ("queued", NOW)


def test_a_run_that_used_up_the_quota_goes_on_if_the_seller_pays_for_more_meanwhile(
    rows: Rows,
) -> None:
    job_id = rows.add("a")
    job, _ = rows.claim()
    pay_for(rows, "a", Tier.GROWTH)
    april = datetime(2026, 4, 1, tzinfo=UTC)
    assert rows.jobs.settle(job, JobStatus.LIMITED, next_run_at=april, reason="used up", now=NOW)
    assert rows.status(job_id) == ("queued", NOW)
    happened = "SELECT event_type FROM sync_audit_log WHERE job_id IS NOT NULL"
    assert rows.one(happened) == "job_yielded"


def test_a_seller_may_pay_for_more_in_the_moment_in_which_a_run_meets_the_quota(
    rows: Rows,
) -> None:
    job_id = rows.add("a")
    assert rows.claim()
    payer = threading.Thread(target=pay_for, args=(rows, "a", Tier.PRO))
    with rows.pool.connection() as connection, connection.transaction():
        connection.execute(
            "UPDATE sync_jobs SET status = 'plan_limit_reached', lease_owner = NULL,"
            " lease_until = NULL, next_run_at = %s",
            [datetime(2026, 4, 1, tzinfo=UTC)],
        )
        payer.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not rows.one(f"{waits} AND query LIKE '%%FROM sync_jobs%%'"):
            assert payer.is_alive()
    payer.join()
    assert rows.status(job_id) == ("queued", NOW)
    assert rows.one("SELECT tier FROM profiles") == "pro"


def test_jobs_that_waited_long_go_before_those_of_paying_sellers(pool: ConnectionPool) -> None:
    """Law L12: paid demand alone may fill the day, every day."""
    rows = make_rows(pool, day_limit=100)
    rows.add("f", waited=15 * 60 * MINUTE)
    rows.add("p", tier="pro", waited=-MINUTE, estimate=1)  # wants it 288 times a day
    rows.limiter.observe(DAY_KEY, Observation(used=90, capacity=100))
    assert rows.claim() is None
    patient = rows.add("g", waited=16 * 60 * MINUTE)
    rows.add("q", tier="pro")
    assert rows.claim()[0].id == patient


def test_a_job_whose_interval_was_stretched_has_waited_since_its_usual_interval(
    pool: ConnectionPool,
) -> None:
    """Law L12: a stretched interval and a wait after it would add up to more than a day."""
    rows = make_rows(pool, day_limit=100)
    stretched = rows.add("f", waited=MINUTE)  # due after 16 hours instead of one
    rows.add("p", tier="pro", waited=-MINUTE, estimate=1)
    rows.limiter.observe(DAY_KEY, Observation(used=90, capacity=100))
    ran = "UPDATE sync_jobs SET started_at = %s - %s * interval '1 hour' WHERE id = %s"
    rows.ask(ran, NOW, 16, stretched)
    assert rows.claim() is None
    rows.ask(ran, NOW, 17, stretched)
    assert rows.claim()[0].id == stretched


def test_a_page_that_no_table_holds_is_the_pages_fault_and_not_the_stores(rows: Rows) -> None:
    job_id = rows.add("a")
    job, _ = rows.claim()
    order = Order(
        external_id="1",
        status="paid",
        is_open=True,
        currency="USD",
        total=Decimal(1),
        placed_at=NOW,
    )
    page = Page(records=Records(orders=(order,)))
    step = PageStep(cursor={"mark": "no table holds \x00"}, is_done=True)
    with pytest.raises(InvalidError, match="cannot be stored"):
        rows.jobs.commit(job, page, step, calls=1, asked_at=NOW, now=NOW)
    assert rows.one("SELECT count(*) FROM orders") == 0
    assert rows.one("SELECT run_calls FROM sync_jobs WHERE id = %s", job_id) == 0
