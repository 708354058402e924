"""The account lane on the command line: jobs, pull and quota."""

from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.conftest import Headway
from tests.store.accounts.lane import Lane

from headway.clock import SystemClock
from headway.core.accounts.jobs import JobStatus, Tier
from headway.core.catalog.listings import SellerId
from headway.store.accounts.connections import ConnectedShops
from headway_lab.platforms import SHOPIFY
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def lane(pool: ConnectionPool) -> Lane:
    # The command uses the real clock.
    return Lane(pool, VirtualClock(SystemClock().now()))


HOUR = timedelta(hours=1)


def kill(lane: Lane) -> str:
    job, _ = lane.claim()
    lane.jobs.settle(
        job, JobStatus.DEAD, next_run_at=None, retry_count=5, reason="malformed", now=lane.now
    )
    return job.id


def test_jobs_are_listed_in_order_with_the_reason_for_waiting(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect()
    result = on_database("jobs", "--limit", "5")
    assert result.code == 0, result.err
    first = result.out.splitlines()[1].split()
    assert first[0] == "1"
    assert first[1].startswith("prime/")
    assert "the next free worker takes it" in result.out
    assert "the first 5; more with --limit" in result.out


def test_jobs_as_json_carry_place_score_and_reason(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    jobs = on_database("jobs", "--platform", "etsy", "--json").object()["jobs"]
    assert {job["platform"] for job in jobs} == {"etsy"}
    assert [job["place"] for job in jobs] == list(range(1, 16))
    assert jobs[0]["score"] == 42
    assert jobs[0]["aged_score"] >= 42


def test_jobs_of_a_seller_and_of_a_status(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    dead = kill(lane)
    own_jobs = on_database("jobs", "--seller", "fern", "--json").object()["jobs"]
    assert {job["seller"] for job in own_jobs} == {"fern"}
    stopped = on_database("jobs", "--status", "dead", "--json").object()["jobs"]
    assert [job["id"] for job in stopped] == [dead]
    assert "headway revive" in on_database("jobs", "--status", "dead").out


def test_without_an_account_the_commands_say_how_to_begin(on_database: Headway) -> None:
    assert "headway connect" in on_database("jobs").out
    assert "no account is connected" in on_database("quota").out
    assert "no seller nobody" in on_database("pull", "nobody").error(2)
    assert "no seller nobody" in on_database("jobs", "--seller", "nobody").error(2)


def test_a_job_is_explained_by_name_and_by_id(on_database: Headway, lane: Lane) -> None:
    lane.connect(Tier.FREE)
    result = on_database("explain", "fern/etsy/orders")
    assert "fern/etsy/orders: " in result.out
    assert "Score: 12 (free, incremental)" in result.out
    by_name = on_database("explain", "fern/etsy/orders/history", "--json").object()["job"]
    by_id = on_database("explain", by_name["id"], "--json").object()["job"]
    assert by_id["name"] == "fern/etsy/orders/history"
    assert by_id["type"] == "backfill"


def test_an_unknown_job_is_reported_with_the_existing_ones(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect(Tier.FREE)
    message = on_database("explain", "fern/etsy/customers").error(2)
    assert "fern has fern/etsy/listings" in message


def test_a_part_number_with_slashes_is_still_a_part(on_database: Headway) -> None:
    assert "no listing has the part number" in on_database("explain", "AN/960/10L").error(2)


def test_a_dead_job_is_revived_by_name_and_a_living_one_is_not(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect(Tier.FREE)
    job = kill(lane)
    result = on_database("revive", job, "--json")
    assert result.object()["jobs"][0]["status"] == "queued"
    name = result.object()["jobs"][0]["name"]
    assert f"{name} is not dead" in on_database("revive", name).error(2)
    assert "not both at once" in on_database("revive", name, "WF1").error(2)


def test_pull_makes_a_sellers_jobs_due_and_explains_the_others(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect(Tier.FREE)
    lane.ask("UPDATE sync_jobs SET next_run_at = %s", lane.now + timedelta(hours=1))
    ConnectedShops(lane.pool).disconnect(
        SellerId("fern"), "revoked", platform=SHOPIFY, now=lane.now
    )
    pull = on_database("pull", "fern", "--kind", "orders", "--json").object()
    assert len(pull["made_due"]) == 4
    assert {job["status"] for job in pull["jobs"]} == {"queued", "cancelled"}
    none = on_database("pull", "fern", "--platform", "shopify")
    assert none.code == 1
    assert "revoked" in none.out
    assert "0 of 5 made due" in none.out
    message = on_database("pull", "fern", "--platform", "printify", "--kind", "payments")
    assert "fern has no job of payments on printify" in message.error(2)


def test_quota_shows_usage_by_hour_and_a_forecast(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    lane.ask(
        "INSERT INTO rate_budgets (limit_key, platform, hour, tier, used)"
        " VALUES ('etsy:', 'etsy', date_trunc('hour', %s::timestamptz, 'UTC'), 'pro', 40)",
        lane.now - timedelta(hours=2),
    )
    result = on_database("quota", HEADWAY_ETSY_DAY_LIMIT="2000")
    assert "0 of 2,000 calls used in 24 h, 0 reserved, 2,000 left" in result.out
    assert "forecast: enough for the next 24 h" in result.out
    assert "expected" in result.out
    assert "0 of 5,000" in result.out
    reply = on_database("quota", "--json", HEADWAY_ETSY_DAY_LIMIT="2000").object()
    assert reply["quotas"][0]["left_to_paid"] > 0
    assert reply["quotas"][0]["stretch"] == {"paid": 1, "free": 1}
    assert len(reply["quotas"][0]["forecast"]["points"]) == 25
    assert {seller["tier"] for seller in reply["sellers"]} == {"free", "growth", "pro"}


def test_quota_shows_the_calls_of_each_hour_with_their_running_total(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect()
    hour = lane.now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    lane.ask(
        "INSERT INTO rate_budgets (limit_key, platform, hour, tier, used)"
        " VALUES ('etsy:', 'etsy', %s, 'pro', 40), ('etsy:', 'etsy', %s, 'pro', 7)",
        *(hour, hour + timedelta(hours=1)),
    )
    lines = on_database("quota").out.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("until"))
    figures = [line.split()[3:5] for line in lines[begin + 1 : begin + 4]]
    assert figures == [["40", "40"], ["7", "47"], ["0", "47"]]


def test_a_tight_quota_shows_longer_intervals_by_tier(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    output = on_database("quota", HEADWAY_ETSY_DAY_LIMIT="100").out
    assert "more is wanted than the day has, so intervals are longer: paid " in output
    assert " times, free " in output


def test_an_empty_list_of_jobs_does_not_suggest_to_connect_a_shop(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect()
    output = on_database("jobs", "--status", "dead").out
    assert "no such job; see: headway jobs" in output
    assert "connect" not in output


def test_the_status_has_a_line_for_the_accounts(on_database: Headway, lane: Lane) -> None:
    assert "headway connect SHOP" in on_database("status").out
    lane.connect()
    kill(lane)
    line = next(
        line for line in on_database("status").out.splitlines() if line.startswith("accounts")
    )
    assert "9 connected; 0 of 10 jobs running" in line
    assert "1 dead: headway jobs --status dead" in line


def test_check_judges_the_account_lane_and_names_what_breaks(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect()
    lane.claim()
    by_law = {law["law"]: law for law in on_database("check", "--json").object()["laws"]}
    assert {by_law[law]["verdict"] for law in ("L5", "L10", "L12", "L13")} == {"ok"}
    lane.ask("UPDATE sync_jobs SET lease_until = %s WHERE status = 'running'", lane.now - HOUR)
    lane.ask("UPDATE sync_jobs SET next_run_at = %s WHERE user_id = 'fern'", lane.now - 30 * HOUR)
    result = on_database("check", "--json")
    assert result.code == 1
    broken = {law["law"]: law for law in result.object()["laws"] if law["verdict"] == "broken"}
    assert set(broken) == {"L5", "L12"}
    assert "nobody freed it" in broken["L5"]["examples"][0]
