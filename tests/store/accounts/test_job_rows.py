"""Jobs come and go with their account, and keep their place with their seller's tier."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.job_fixtures import make_rows

from headway.app.accounts import connect_account
from headway.core.accounts.jobs import BACKFILLED, JobType, PlatformName, Tier, score
from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.providers.registry import platform_role
from headway.store.accounts.connections import ConnectedShop, ConnectedShops, disconnect
from headway.store.accounts.job_rows import SPREAD, JobRows, first_run_at
from headway.store.catalog.sellers import Sellers
from headway.store.monitoring.notices import Notices
from headway_lab.platforms import ETSY, PRINTIFY, SHOPIFY

A, B = SellerId("a"), SellerId("b")
NOW = datetime(2026, 3, 10, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
QUOTAS = {Tier.FREE: 50, Tier.STARTER: 300, Tier.GROWTH: 1500, Tier.PRO: 5000}
RUN = """
UPDATE sync_jobs SET status = 'running', fence = 7, lease_owner = 'w', lease_until = %s,
  cursor = '{"since": 1, "run": {"page": 3}}', retry_count = 2
WHERE kind = 'orders' AND NOT is_backfill
"""


@pytest.fixture
def accounts(pool: ConnectionPool) -> ConnectedShops:
    return ConnectedShops(pool)


def connect(
    pool: ConnectionPool,
    seller: SellerId = A,
    shop: str = "11",
    *,
    now: datetime = NOW,
) -> ConnectedShop:
    return connect_account(pool, seller, shop, platform=ETSY, title="Ada's", now=now)


def ask(pool: ConnectionPool, statement: str, *values: Any) -> list[Any]:
    with pool.connection() as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def sellers(pool: ConnectionPool) -> Sellers:
    return Sellers(pool, SellerSettings(terms=Terms(locations={}, currency="USD")))


def events(pool: ConnectionPool, kind: str) -> int:
    (row,) = ask(pool, "SELECT count(*) FROM sync_audit_log WHERE event_type = %s", kind)
    return int(row[0])


@pytest.mark.parametrize(
    ("platform", "shop"),
    ((ETSY, "123"), (PRINTIFY, "55"), (SHOPIFY, "foo.myshopify.com")),
)
def test_an_account_comes_with_a_job_for_each_kind_and_one_for_its_history(
    pool: ConnectionPool, platform: PlatformName, shop: str
) -> None:
    account = connect_account(pool, A, shop, platform=platform, owner_id="9", title="T", now=NOW)
    assert (account.platform, account.shop, account.owner_id) == (platform, shop, "9")
    assert (account.title, account.status) == ("T", "connected")
    rows = ask(
        pool,
        "SELECT kind, job_type, tier, score, status, user_id, next_run_at FROM sync_jobs"
        " WHERE account_id = %s",
        account.id,
    )
    expected = {(kind.value, "incremental") for kind in platform_role(platform).kinds}
    expected |= {
        (kind.value, "backfill") for kind in platform_role(platform).kinds if kind in BACKFILLED
    }
    assert {row[:2] for row in rows} == expected
    assert len(rows) == len(expected)
    for _, job_type, *rest in rows:
        assert rest == [
            "free", score(Tier.FREE, JobType(job_type)), "queued", A, first_run_at(account.id, NOW),
        ]  # fmt: skip
    assert events(pool, "account_connected") == 1


def test_the_first_runs_of_a_thousand_accounts_are_spread_out() -> None:
    instants = sorted(first_run_at(f"account {number}", NOW) for number in range(1000))
    assert instants[0] >= NOW
    assert instants[-1] < NOW + SPREAD
    tenths = [int((instant - NOW) / SPREAD * 10) for instant in instants]
    assert all(70 <= tenths.count(tenth) <= 130 for tenth in range(10))
    assert first_run_at("account 1", NOW) == first_run_at("account 1", NOW)


def test_connecting_twice_changes_no_job(pool: ConnectionPool) -> None:
    connect(pool)
    ask(pool, RUN, LATER)
    before = ask(pool, "SELECT * FROM sync_jobs ORDER BY id")
    account = connect_account(pool, A, "11", platform=ETSY, now=LATER)
    assert account.title == "Ada's", "what is not named again stays"
    assert ask(pool, "SELECT * FROM sync_jobs ORDER BY id") == before
    assert events(pool, "account_connected") == 1


def test_disconnecting_cancels_running_jobs_by_a_new_fence_and_stores_the_reason(
    accounts: ConnectedShops, pool: ConnectionPool
) -> None:
    account, other = connect(pool), connect(pool, B, "12")
    ask(pool, RUN, LATER)
    ask(pool, "UPDATE sync_jobs SET status = 'completed', next_run_at = NULL WHERE is_backfill"
              " AND kind = 'payments'")  # fmt: skip
    gone = accounts.disconnect(A, "the grant is refused", platform=ETSY, now=LATER)
    assert (gone.id, gone.status, gone.reason) == (
        account.id, "disconnected", "the grant is refused",
    )  # fmt: skip
    rows = ask(
        pool,
        "SELECT kind, is_backfill, status, fence, next_run_at, lease_until FROM sync_jobs"
        " WHERE account_id = %s ORDER BY 1, 2",
        account.id,
    )
    assert rows == [
        ("listings", False, "cancelled", 1, None, None),
        ("orders", False, "cancelled", 8, None, None),
        ("orders", True, "cancelled", 1, None, None),
        ("payments", False, "cancelled", 1, None, None),
        ("payments", True, "completed", 0, None, None),
    ]
    assert ask(
        pool,
        "SELECT count(*) FROM sync_jobs WHERE account_id = %s AND status = 'cancelled'",
        other.id,
    ) == [(0,)]
    (notice,) = Notices(pool).list(A)
    assert notice.text == "etsy shop Ada's is disconnected: the grant is refused"
    assert (events(pool, "account_disconnected"), events(pool, "job_cancelled")) == (1, 4)


def test_events_of_jobs_name_their_platform_kind_type_and_tier(
    pool: ConnectionPool, accounts: ConnectedShops
) -> None:
    connect(pool)
    (job_id,) = ask(
        pool, "SELECT id::text FROM sync_jobs WHERE kind = 'orders' AND NOT is_backfill"
    )[0]
    JobRows(pool).hurry([job_id], now=NOW)
    ask(pool, "UPDATE sync_jobs SET status = 'dead', next_run_at = NULL WHERE id = %s", job_id)
    JobRows(pool).revive(job_id, now=NOW)
    ask(
        pool,
        "UPDATE sync_jobs SET status = 'dead', next_run_at = NULL, revive_at = %s WHERE id = %s",
        NOW,
        job_id,
    )
    make_rows(pool, at=NOW).jobs.revive_due(NOW)
    accounts.disconnect(A, "bye", platform=ETSY, now=NOW)
    named = ask(
        pool,
        "SELECT event_type, new_value ->> 'by' FROM sync_audit_log WHERE job_id = %s"
        ' AND new_value @> \'{"platform": "etsy", "kind": "orders", "tier": "free",'
        ' "job_type": "incremental"}\' AND user_id = \'a\' ORDER BY event_type, 2',
        job_id,
    )
    assert named == [
        ("job_cancelled", None),
        ("job_revived", "a person"),
        ("job_revived", "headway"),
        ("job_woken", "a person"),
    ]


def test_a_refused_grant_is_reported_once_and_again_after_a_reconnect(
    accounts: ConnectedShops, pool: ConnectionPool
) -> None:
    account = connect(pool)

    def refuse(_: int) -> str:
        with pool.connection() as connection, connection.transaction():
            return disconnect(connection, account.bare, "refused", now=LATER).status

    with ThreadPoolExecutor(max_workers=4) as workers:
        assert set(workers.map(refuse, range(8))) == {"disconnected"}
    assert len(Notices(pool).list(A)) == events(pool, "account_disconnected") == 1
    connect(pool, now=LATER)
    accounts.disconnect(A, "refused", platform=ETSY, now=LATER + timedelta(hours=1))
    assert len(Notices(pool).list(A)) == events(pool, "account_disconnected") == 2


def test_reconnecting_resumes_from_the_cursors_and_forgives_failures(
    accounts: ConnectedShops, pool: ConnectionPool
) -> None:
    account = connect(pool)
    ask(pool, RUN, LATER)
    ask(pool, "UPDATE sync_jobs SET status = 'completed', next_run_at = NULL WHERE is_backfill")
    ask(pool, "UPDATE sync_jobs SET status = 'dead', next_run_at = NULL, retry_count = 5"
              " WHERE kind = 'listings'")  # fmt: skip
    accounts.disconnect(A, "moved", platform=ETSY, now=NOW)
    again = connect(pool, now=LATER)
    assert (again.id, again.status, again.reason) == (account.id, "connected", "")
    rows = ask(
        pool,
        "SELECT kind, is_backfill, status, retry_count, next_run_at, fence, cursor FROM sync_jobs"
        " ORDER BY 1, 2",
    )
    due, cursor = first_run_at(account.id, LATER), {"since": 1, "run": {"page": 3}}
    assert rows == [
        ("listings", False, "queued", 0, due, 0, {}),
        ("orders", False, "queued", 0, due, 8, cursor),
        ("orders", True, "completed", 0, None, 0, {}),
        ("payments", False, "queued", 0, due, 1, {}),
        ("payments", True, "completed", 0, None, 0, {}),
    ]
    assert events(pool, "job_revived") == 1


def test_a_shop_has_one_seller_on_every_platform_and_is_exchanged_only_unread(
    accounts: ConnectedShops, pool: ConnectionPool
) -> None:
    connect(pool)
    connect_account(pool, A, "11", platform=PRINTIFY, now=NOW)
    with pytest.raises(ConflictError, match="11 is the shop of a; a shop has one seller"):
        connect(pool, B)
    accounts.disconnect(A, "mistyped", platform=ETSY, now=NOW)
    account = connect(pool, B)
    assert accounts.of_seller(A, PRINTIFY).status == "connected"
    ask(pool, "INSERT INTO listings (account_id, external_id, user_id, platform, state, checked_at,"
              " created_at, updated_at) VALUES (%s, '1', 'b', 'etsy', '', now(), now(), now())",
        account.id)  # fmt: skip
    accounts.disconnect(B, "closed", platform=ETSY, now=NOW)
    with pytest.raises(ConflictError, match="11 is the shop of b"):
        connect(pool)


def test_a_seller_has_one_storefront_which_is_exchanged_only_unread(
    accounts: ConnectedShops, pool: ConnectionPool
) -> None:
    connect_account(pool, A, "one.myshopify.com", now=NOW)
    with pytest.raises(ConflictError, match=r"a has the shop one\.myshopify\.com; connect two"):
        connect_account(pool, A, "two.myshopify.com", now=NOW)
    accounts.disconnect(A, "mistyped", now=NOW)
    assert connect_account(pool, A, "two.myshopify.com", now=NOW).shop == "two.myshopify.com"
    assert [shop.shop for shop in accounts.list()] == ["two.myshopify.com"]


def test_a_refused_connection_leaves_no_job(pool: ConnectionPool) -> None:
    connect(pool)
    with pytest.raises(ConflictError):
        connect(pool, B)
    assert ask(pool, "SELECT DISTINCT user_id FROM sync_jobs") == [(A,)]


@pytest.mark.parametrize("written", ("", "acme", "12a", "0", "-1", "1" * 30))
def test_what_is_no_shops_number_is_refused(pool: ConnectionPool, written: str) -> None:
    with pytest.raises(InvalidError, match="is not an id of a shop on etsy; it is a number"):
        connect(pool, A, written)


def test_the_error_for_a_seller_without_that_shop_shows_how_to_connect_one(
    accounts: ConnectedShops,
) -> None:
    message = "a has no shop on etsy; connect one with: headway connect SHOP --seller a --platform"
    with pytest.raises(NotFoundError, match=message):
        accounts.of_seller(A, ETSY)
    with pytest.raises(NotFoundError, match=message):
        accounts.disconnect(A, "", platform=ETSY, now=NOW)


def test_a_tier_moves_all_jobs_of_its_seller_up_and_down_and_no_others(
    pool: ConnectionPool,
) -> None:
    connect(pool)
    connect(pool, B, "12")
    ask(pool, RUN, LATER)
    ask(pool, "UPDATE sync_jobs SET job_type = 'webhook_triggered', score = 13"
              " WHERE kind = 'payments' AND NOT is_backfill")  # fmt: skip
    every = "SELECT tier, score, job_type FROM sync_jobs WHERE user_id = %s"
    for tier in (Tier.PRO, Tier.STARTER, Tier.FREE):
        sellers(pool).set_tier(A, tier, quotas=QUOTAS, now=NOW)
        assert sellers(pool).tier(A) is tier
        rows = ask(pool, every, A)
        assert len(rows) == 5
        for name, number, job_type in rows:
            assert (name, number) == (tier, score(tier, JobType(job_type)))
    assert {name for name, *_ in ask(pool, every, B)} == {"free"}
    assert sellers(pool).tier(SellerId("nobody")) is Tier.FREE


def test_jobs_of_an_account_that_comes_later_have_the_sellers_tier(pool: ConnectionPool) -> None:
    sellers(pool).set_tier(A, Tier.GROWTH, quotas=QUOTAS, now=NOW)
    connect(pool)
    assert set(ask(pool, "SELECT tier, score FROM sync_jobs")) == {("growth", 31), ("growth", 32)}


@pytest.mark.parametrize(
    ("tier", "month", "lifted"),
    (
        (Tier.STARTER, NOW, 2), (Tier.FREE, NOW, 0),
        (Tier.FREE, NOW - timedelta(days=31), 2),
    ),
)  # fmt: skip
def test_a_better_tier_lifts_the_quota_where_it_allows_more(
    pool: ConnectionPool, tier: Tier, month: datetime, lifted: int
) -> None:
    for seller, shop in ((A, "11"), (B, "12")):
        connect(pool, seller, shop)
    until = datetime(2026, 4, 1, tzinfo=UTC)
    ask(pool, "UPDATE sync_jobs SET status = 'plan_limit_reached', next_run_at = %s,"
              " wait_reason = 'used up' WHERE kind = 'orders'", until)  # fmt: skip
    ask(pool, "INSERT INTO profiles (user_id, orders_month, orders_count) VALUES ('a', %s, 60)",
        month.replace(day=1))  # fmt: skip
    assert sellers(pool).set_tier(A, tier, quotas=QUOTAS, now=LATER) == lifted
    rows = "SELECT DISTINCT status, next_run_at, wait_reason FROM sync_jobs WHERE kind = 'orders'"
    expected = ("queued", LATER, "") if lifted else ("plan_limit_reached", until, "used up")
    assert ask(pool, rows + " AND user_id = 'a'") == [expected]
    assert ask(pool, rows + " AND user_id = 'b'") == [("plan_limit_reached", until, "used up")]
    assert events(pool, "plan_limit_lifted") == lifted


def test_the_dead_are_revived_one_or_all_and_only_by_their_own_seller(pool: ConnectionPool) -> None:
    account = connect(pool)
    connect(pool, B, "12")
    ask(pool, "UPDATE sync_jobs SET status = 'dead', next_run_at = NULL, retry_count = 5,"
              " last_error = 'x'")  # fmt: skip
    rows = JobRows(pool)
    (job,) = ask(pool, "SELECT id::text FROM sync_jobs WHERE account_id = %s AND kind = 'listings'",
                 account.id)  # fmt: skip
    with pytest.raises(NotFoundError, match="there is no job and no account"):
        rows.revive(job[0], user_id=B, now=LATER)
    assert rows.revive(job[0], user_id=A, now=LATER) == 1
    assert ask(pool, "SELECT status, retry_count, next_run_at, last_error FROM sync_jobs"
                     " WHERE id = %s", job[0]) == [("queued", 0, LATER, None)]  # fmt: skip
    assert rows.revive(account.id, now=LATER) == 4
    assert rows.revive(account.id, now=LATER) == 0
    assert ask(pool, "SELECT DISTINCT user_id FROM sync_jobs WHERE status = 'dead'") == [(B,)]
    assert events(pool, "job_revived") == 5


def test_the_dead_of_a_disconnected_account_wait_for_its_connection(
    accounts: ConnectedShops, pool: ConnectionPool
) -> None:
    account = connect(pool)
    ask(pool, "UPDATE sync_jobs SET status = 'dead', next_run_at = NULL")
    accounts.disconnect(A, "closed", platform=ETSY, now=NOW)
    with pytest.raises(ConflictError, match="connect it again"):
        JobRows(pool).revive(account.id, now=LATER)
    assert ask(pool, "SELECT DISTINCT status FROM sync_jobs") == [("dead",)]
