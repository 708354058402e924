"""Jobs follow statuses and tiers that other programs set by SQL, within a tick."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.lane import Lane

from headway.core.accounts.jobs import DataKind, JobStatus, Tier
from headway.errors import ConflictError
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.job_rows import JobRows
from headway_lab.platforms import ETSY, PRINTIFY, SHOPIFY
from headway_lab.virtual_clock import VirtualClock

Ask = Callable[..., list[Any]]
JOBS = """
SELECT job.status, count(*) FROM sync_jobs AS job JOIN connected_accounts AS account
  ON account.id = job.account_id WHERE account.shop = %s GROUP BY 1 ORDER BY 1
"""
EVENTS = "SELECT event_type FROM sync_audit_log WHERE event_type LIKE %s"


@pytest.fixture
def lane(pool: ConnectionPool, clock: VirtualClock) -> Lane:
    opened = Lane(pool, clock)
    opened.connect(Tier.FREE)
    return opened


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def run(statement: str, *values: object) -> list[Any]:
        with pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return run


def test_nothing_is_left_to_follow_after_our_own_commands(lane: Lane) -> None:
    lane.jobs.follow(lane.now)  # profiles of other commands have no tier that jobs follow yet
    shops = ConnectedShops(lane.pool)
    shops.disconnect(lane.accounts["fern", ETSY].seller, "asked for", platform=ETSY, now=lane.now)
    assert lane.jobs.follow(lane.now) == 0


def test_an_account_that_is_disconnected_by_sql_is_no_longer_pulled(lane: Lane, ask: Ask) -> None:
    account = lane.accounts["fern", ETSY]
    claimed = lane.jobs.claim(now=lane.now, owner="w", without=(PRINTIFY, SHOPIFY))
    assert claimed is not None
    job, _ = claimed
    ask("UPDATE connected_accounts SET status = 'disconnected' WHERE id = %s", account.id)
    assert lane.jobs.follow(lane.now) >= 1
    assert {status for status, _ in ask(JOBS, account.shop)} == {"cancelled"}
    assert not lane.jobs.keep(job, now=lane.now), "the worker that runs it loses its lease"
    assert ask(EVENTS, "account_dis%") == [("account_disconnected",)]
    assert lane.jobs.follow(lane.now) == 0
    ask("UPDATE connected_accounts SET status = 'connected' WHERE id = %s", account.id)
    lane.jobs.follow(lane.now)
    assert {status for status, _ in ask(JOBS, account.shop)} == {"queued"}


def test_an_account_that_is_inserted_by_sql_gets_its_jobs(lane: Lane, ask: Ask) -> None:
    for shop, status in (("777", "connected"), ("888", "disconnected")):
        ask(
            "INSERT INTO connected_accounts (user_id, platform, shop, status)"
            " VALUES ('fern', 'etsy', %s, %s)",
            shop,
            status,
        )
    lane.jobs.follow(lane.now)
    assert ask(JOBS, "777") == ask(JOBS, lane.accounts["fern", ETSY].shop)
    assert ask(JOBS, "888") == []


def test_a_tier_that_is_set_by_sql_changes_the_order_and_the_interval(lane: Lane, ask: Ask) -> None:
    lane.jobs.follow(lane.now)
    ask("UPDATE profiles SET tier = 'pro' WHERE user_id = 'fern'")
    assert lane.jobs.follow(lane.now) == 1
    tiers = "SELECT DISTINCT tier, score / 10 FROM sync_jobs WHERE user_id = 'fern'"
    assert ask(tiers) == [("pro", 4)]
    (event,) = ask("SELECT old_value, new_value FROM sync_audit_log WHERE event_type = 'tier_set'"
                   " ORDER BY sync_timestamp DESC, id DESC LIMIT 1")  # fmt: skip
    assert event == ({"tier": "free"}, {"tier": "pro", "by": "sql"})


def test_paused_jobs_wait_for_a_person_whatever_happens_to_their_account(
    lane: Lane, ask: Ask
) -> None:
    account, rows = lane.accounts["fern", ETSY].bare, JobRows(lane.pool)
    assert rows.pause(account, [DataKind.ORDERS], "a migration", now=lane.now) == 2
    assert rows.pause(account, [DataKind.ORDERS], "again", now=lane.now) == 0
    while claimed := lane.jobs.claim(now=lane.now, owner="w", without=(PRINTIFY, SHOPIFY)):
        job = claimed[0]
        assert job.kind is not DataKind.ORDERS
        later = lane.now + timedelta(days=2)
        lane.jobs.settle(job, JobStatus.QUEUED, next_run_at=later, now=lane.now)
    shops = ConnectedShops(lane.pool)
    shops.disconnect(account.user_id, "left", platform=ETSY, now=lane.now)
    shops.connect(account.user_id, account.shop, platform=ETSY, kinds=tuple(DataKind), now=lane.now)
    assert ("paused", 2) in ask(JOBS, account.shop)
    assert rows.resume(account, [DataKind.ORDERS], now=lane.now) == 2
    assert {status for status, _ in ask(JOBS, account.shop)} == {"queued"}


def test_a_resync_reads_everything_again_from_the_beginning(lane: Lane, ask: Ask) -> None:
    account, rows = lane.accounts["fern", ETSY].bare, JobRows(lane.pool)
    ask("""UPDATE sync_jobs SET cursor = '{"since": 1}', completed_at = %s""", lane.now)
    assert rows.resync(account, [DataKind.ORDERS], now=lane.now) == 2
    cursors = "SELECT kind, cursor FROM sync_jobs WHERE account_id = %s AND cursor = '{}'"
    assert ask(cursors, account.id) == [("orders", {})] * 2


def test_a_seller_has_several_shops_on_a_platform_that_is_only_read(lane: Lane, ask: Ask) -> None:
    first, shops = lane.accounts["fern", ETSY], ConnectedShops(lane.pool)
    second = shops.connect(
        first.seller, "777", platform=ETSY, kinds=(DataKind.ORDERS,), now=lane.now
    )
    with pytest.raises(ConflictError, match=f"several shops on etsy: {first.shop}, 777; name one"):
        shops.disconnect(first.seller, "left", platform=ETSY, now=lane.now)
    shops.disconnect(first.seller, "left", platform=ETSY, shop="777", now=lane.now)
    assert shops.find(first.id).status == "connected"
    assert shops.find(second.id).status == "disconnected"
    with pytest.raises(ConflictError, match="as another seller"):
        shops.connect(first.seller, "other.myshopify.com", kinds=(), now=lane.now)
    seen = shops.some(None, after=(None, None, None), limit=2)
    last = seen[-1]
    rest = shops.some(None, after=(last.seller, last.platform, last.shop), limit=9)
    assert [shop.shop for shop in (*seen, *rest)] == [shop.shop for shop in shops.list()]
