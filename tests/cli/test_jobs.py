"""The account lane on the command line: jobs, quotas, and what a person does to them."""

from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.conftest import Headway
from tests.store.accounts.lane import Lane

from headway.clock import SystemClock
from headway.core.accounts.jobs import JobStatus, PlatformName, Tier
from headway.core.catalog.listings import SellerId
from headway.store.accounts.connections import ConnectedShops
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def lane(pool: ConnectionPool) -> Lane:
    # The command asks the real clock.
    return Lane(pool, VirtualClock(SystemClock().now()))


HOUR = timedelta(hours=1)


def kill(lane: Lane) -> str:
    job, _ = lane.claim()
    lane.jobs.settle(
        job, JobStatus.DEAD, next_run_at=None, retry_count=5, reason="malformed", now=lane.now
    )
    return job.id


def test_jobs_are_shown_in_order_with_what_blocks_each(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    seen = on_database("jobs", "--limit", "5")
    assert seen.code == 0, seen.err
    first = seen.out.splitlines()[1].split()
    assert first[0] == "1"
    assert first[1].startswith("prime/")
    assert "the next free worker takes it" in seen.out
    assert "the first 5; more with --limit" in seen.out


def test_jobs_as_json_carry_place_score_and_reason(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    found = on_database("jobs", "--platform", "etsy", "--json").object()["jobs"]
    assert {each["platform"] for each in found} == {"etsy"}
    assert [each["place"] for each in found] == list(range(1, 16))
    assert found[0]["score"] == 42
    assert found[0]["aged_score"] >= 42


def test_jobs_of_a_seller_and_of_a_status(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    dead = kill(lane)
    of_fern = on_database("jobs", "--seller", "fern", "--json").object()["jobs"]
    assert {each["user_id"] for each in of_fern} == {"fern"}
    stopped = on_database("jobs", "--status", "dead", "--json").object()["jobs"]
    assert [each["id"] for each in stopped] == [dead]
    assert "headway revive" in on_database("jobs", "--status", "dead").out


def test_without_an_account_the_commands_say_how_to_begin(on_database: Headway) -> None:
    assert "headway connect" in on_database("jobs").out
    assert "no account is connected" in on_database("quota").out
    assert "no seller nobody" in on_database("pull", "nobody").complaint(2)
    assert "no seller nobody" in on_database("jobs", "--seller", "nobody").complaint(2)


def test_a_job_is_explained_by_name_and_by_id(on_database: Headway, lane: Lane) -> None:
    lane.connect(Tier.FREE)
    seen = on_database("explain", "fern/etsy/orders")
    assert "fern/etsy/orders: " in seen.out
    assert "Score: 12 (free, incremental)" in seen.out
    by_name = on_database("explain", "fern/etsy/orders/history", "--json").object()["job"]
    by_id = on_database("explain", by_name["id"], "--json").object()["job"]
    assert by_id["name"] == "fern/etsy/orders/history"
    assert by_id["type"] == "backfill"


def test_a_job_that_is_not_there_names_those_that_are(on_database: Headway, lane: Lane) -> None:
    lane.connect(Tier.FREE)
    complaint = on_database("explain", "fern/etsy/customers").complaint(2)
    assert "fern has fern/etsy/listings" in complaint


def test_a_part_number_with_slashes_is_still_a_part(on_database: Headway) -> None:
    assert "no listing has the part number" in on_database("explain", "AN/960/10L").complaint(2)


def test_a_dead_job_is_revived_by_name_and_a_living_one_is_not(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect(Tier.FREE)
    job = kill(lane)
    seen = on_database("revive", job, "--json")
    assert seen.object()["jobs"][0]["status"] == "queued"
    name = seen.object()["jobs"][0]["name"]
    assert f"{name} is not dead" in on_database("revive", name).complaint(2)
    assert "not both at once" in on_database("revive", name, "WF1").complaint(2)


def test_a_sellers_jobs_are_made_due_and_the_others_say_why_not(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect(Tier.FREE)
    lane.ask("UPDATE sync_jobs SET next_run_at = %s", lane.now + timedelta(hours=1))
    ConnectedShops(lane.pool).disconnect(
        SellerId("fern"), "revoked", platform=PlatformName.SHOPIFY, now=lane.now
    )
    seen = on_database("pull", "fern", "--kind", "orders", "--json").object()
    assert len(seen["made_due"]) == 4
    assert {each["status"] for each in seen["jobs"]} == {"queued", "cancelled"}
    none = on_database("pull", "fern", "--platform", "shopify")
    assert none.code == 1
    assert "revoked" in none.out
    assert "0 of 5 made due" in none.out
    complaint = on_database("pull", "fern", "--platform", "printify", "--kind", "payments")
    assert "fern has no job of payments on printify" in complaint.complaint(2)


def test_the_quota_shows_its_curve_and_its_forecast(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    lane.ask(
        "INSERT INTO rate_budgets (limit_key, platform, hour, tier, used)"
        " VALUES ('etsy:', 'etsy', date_trunc('hour', %s::timestamptz, 'UTC'), 'pro', 40)",
        lane.now - timedelta(hours=2),
    )
    seen = on_database("quota", HEADWAY_ETSY_DAY_LIMIT="2000")
    assert "0 of 2,000 calls used in 24 h, 0 reserved, 2,000 left" in seen.out
    assert "forecast: enough for the next 24 h" in seen.out
    assert "expected" in seen.out
    assert "0 of 5,000" in seen.out
    told = on_database("quota", "--json", HEADWAY_ETSY_DAY_LIMIT="2000").object()
    assert told["quotas"][0]["left_to_paid"] > 0
    assert told["quotas"][0]["stretch"] == {"paid": 1, "free": 1}
    assert len(told["quotas"][0]["forecast"]["points"]) == 25
    assert {each["tier"] for each in told["sellers"]} == {"free", "growth", "pro"}


def test_calls_stand_beside_the_sum_that_they_were_added_to(
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


def test_a_short_day_says_whose_intervals_are_longer(on_database: Headway, lane: Lane) -> None:
    lane.connect()
    seen = on_database("quota", HEADWAY_ETSY_DAY_LIMIT="100").out
    assert "more is wanted than the day has, so intervals are longer: paid " in seen
    assert " times, free " in seen


def test_jobs_that_are_asked_for_and_not_there_send_nobody_to_connect(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect()
    seen = on_database("jobs", "--status", "dead").out
    assert "no such job; see: headway jobs" in seen
    assert "connect" not in seen


def test_the_status_has_a_line_for_the_accounts(on_database: Headway, lane: Lane) -> None:
    assert "headway connect SHOP" in on_database("status").out
    lane.connect()
    kill(lane)
    line = next(x for x in on_database("status").out.splitlines() if x.startswith("accounts"))
    assert "9 connected; 0 of 10 jobs running" in line
    assert "1 dead: headway jobs --status dead" in line


def test_check_judges_the_account_lane_and_names_what_breaks(
    on_database: Headway, lane: Lane
) -> None:
    lane.connect()
    lane.claim()
    lawful = {each["law"]: each for each in on_database("check", "--json").object()["laws"]}
    assert {lawful[law]["verdict"] for law in ("L5", "L10", "L12", "L13")} == {"ok"}
    lane.ask("UPDATE sync_jobs SET lease_until = %s WHERE status = 'running'", lane.now - HOUR)
    lane.ask("UPDATE sync_jobs SET next_run_at = %s WHERE user_id = 'fern'", lane.now - 30 * HOUR)
    seen = on_database("check", "--json")
    assert seen.code == 1
    broken = {each["law"]: each for each in seen.object()["laws"] if each["verdict"] == "broken"}
    assert set(broken) == {"L5", "L12"}
    assert "nobody freed it" in broken["L5"]["examples"][0]
