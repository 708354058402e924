"""Law L16 of the live check: find rows that wait because of another's fault."""

from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.job_fixtures import RULE
from tests.store.accounts.lane import Lane

from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.policies import by_name
from headway.store.catalog.listings import Listings
from headway.store.monitoring.blast_radius import CALLS_MIN, BlastRadiusChecks
from headway_lab.platforms import ETSY
from headway_lab.virtual_clock import VirtualClock

HOUR = timedelta(hours=1)
STATE = """
INSERT INTO listing_state (user_id, sku, push_at, push_failures, push_error)
VALUES ('acme', %s, %s, %s, %s)
"""
ACCOUNT = """
INSERT INTO connected_accounts (user_id, platform, shop, status, updated_at)
VALUES (%s, 'etsy', %s, %s, %s)
"""
JOB = """
INSERT INTO sync_jobs (user_id, account_id, platform, job_type, kind, status, score, next_run_at,
  day_calls, day_calls_at)
SELECT user_id, id, platform, 'incremental', 'orders', 'queued', 20, %(due_at)s, %(calls)s, %(now)s
FROM connected_accounts WHERE user_id = %(seller)s
"""
LIMITER = """
INSERT INTO limiter (limit_key, rules, state, lineage, updated_at)
VALUES (%(key)s, '{}', '{}', '', %(at)s) ON CONFLICT DO NOTHING
"""
CALLS = """
INSERT INTO call_ledger (permit_id, limit_key, owner, purpose, cost, status, begun_at, lease_until)
SELECT gen_random_uuid(), %(key)s, 'worker', 'push', 1, 'sent', %(at)s, %(at)s
FROM generate_series(1, %(count)s)
"""


class Rows:
    def __init__(self, pool: ConnectionPool, clock: VirtualClock) -> None:
        self.pool, self.now = pool, clock.now()
        keys = [(SellerId("acme"), Sku(sku)) for sku in ("BAD", "GOOD")]
        Listings(pool).add(keys, policy=by_name("rolling"), now=self.now)

    def run(self, statement: str, *values: object, **named: object) -> None:
        with self.pool.connection() as connection:
            connection.execute(statement, named or values)

    def account(self, seller: str, status: str = "connected", hours_ago: float = 0) -> None:
        self.run(ACCOUNT, seller, f"shop-{seller}", status, self.now - hours_ago * HOUR)

    def calls(self, seller: str, count: int, *, hours_ago: float) -> None:
        named = {"key": f"app:shop-{seller}", "at": self.now - hours_ago * HOUR, "count": count}
        self.run(LIMITER, **named)
        self.run(CALLS, **named)

    def job(self, seller: str, *, due_h_ago: float, calls: float) -> None:
        self.account(seller)
        due_at = self.now - due_h_ago * HOUR
        self.run(JOB, seller=seller, due_at=due_at, calls=calls, now=self.now)


@pytest.fixture
def rows(pool: ConnectionPool, clock: VirtualClock) -> Rows:
    return Rows(pool, clock)


@pytest.fixture
def laws(pool: ConnectionPool) -> BlastRadiusChecks:
    return BlastRadiusChecks(pool)


def test_a_part_that_waits_beside_one_that_its_shop_refuses_is_found(
    rows: Rows, laws: BlastRadiusChecks
) -> None:
    rows.account("acme")
    rows.run(STATE, "GOOD", rows.now - 3 * HOUR, 0, None)
    assert laws.held_up(rows.now).count == 0, "nothing fails there"
    rows.run(STATE, "BAD", rows.now + HOUR, 1, "HTTP 500")
    rows.calls("acme", CALLS_MIN, hours_ago=4)
    rows.calls("acme", CALLS_MIN - 1, hours_ago=1)
    assert laws.held_up(rows.now).count == 0, "the shop was hardly called since it waits"
    rows.calls("acme", 1, hours_ago=1)
    (example,) = laws.held_up(rows.now).examples
    assert example.startswith("GOOD of acme: is to be written since ")
    assert example.endswith("BAD fails in the same shop (HTTP 500)")
    rows.run(
        "INSERT INTO breaker (limit_key, failures, open_until, opened_at, reason)"
        " VALUES ('x:shop-acme', 3, %s, %s, 'HTTP 503')",
        rows.now + HOUR,
        rows.now,
    )
    assert laws.held_up(rows.now).count == 0, "the shop itself does not answer"


def test_a_job_that_waits_while_one_account_uses_most_of_the_day_is_found(
    rows: Rows, laws: BlastRadiusChecks
) -> None:
    rows.job("greedy", due_h_ago=3, calls=900)
    rows.job("patient", due_h_ago=3, calls=20)
    rows.job("quick", due_h_ago=1, calls=20)
    (example,) = laws.crowded_out(rows.now, [ETSY]).examples
    assert example.startswith("etsy orders of patient: has been due since ")
    assert example.endswith("shop-greedy of greedy made 900 of 940 calls of the day")
    assert laws.crowded_out(rows.now, []).count == 0, "platforms that share no day"
    rows.run("UPDATE sync_jobs SET day_calls = 30 WHERE user_id = 'greedy'")
    assert laws.crowded_out(rows.now, [ETSY]).count == 0


def test_a_platform_that_loses_most_accounts_at_once_is_found(
    rows: Rows, laws: BlastRadiusChecks
) -> None:
    for number in range(5):
        rows.account(f"lost-{number}", "disconnected", hours_ago=0.1 * number)
    rows.account("kept")
    (example,) = laws.disconnected().examples
    assert "5 of 6 accounts were disconnected within half an hour of" in example
    rows.run(
        "UPDATE connected_accounts SET updated_at = %s WHERE user_id = 'lost-1'", rows.now - HOUR
    )
    assert laws.disconnected().count == 0


def test_a_lawful_lane_breaks_nothing(pool: ConnectionPool, clock: VirtualClock) -> None:
    lane = Lane(pool, clock)
    lane.connect()
    lane.claim()
    laws, now = BlastRadiusChecks(pool), lane.now + RULE.lease
    found = (laws.held_up(now), laws.crowded_out(now, [ETSY]), laws.disconnected())
    assert [findings.count for findings in found] == [0, 0, 0]
