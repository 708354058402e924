"""Pull on the real store and limiter: every way that a run can go, and who is blamed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.pull_setup import SECOND_KEY, Pulls, make_pulls, page_of
from tests.store.accounts.job_fixtures import DAY_KEY, MINUTE, RULE

from headway.core.accounts.jobs import CALLS_MIN, JobType
from headway.core.accounts.pagination import RUN, SINCE, Page
from headway.core.accounts.refusals import SPAN_MIN
from headway.core.catalog.listings import CLOCKS_APART_MAX, Done, Wait
from headway.core.limits.transitions import Observation
from headway.errors import (
    ConfigError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
    UnsentError,
)


@pytest.fixture
def pulls(pool: ConnectionPool) -> Pulls:
    return make_pulls(pool)


def row(pulls: Pulls, job_id: str, columns: str) -> Any:
    return pulls.rows.one(f"SELECT {columns} FROM sync_jobs WHERE id = %s", job_id)


def error(kind: type[ProviderError], **values: Any) -> ProviderError:
    return kind("the platform refused", provider="etsy", **values)


def test_a_run_walks_page_by_page_and_ends_with_all_that_there_is(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a", tier="starter")
    pulls.script.answers = [page_of("1", "2", more=True), page_of("3", more=True), page_of("4")]
    pulls.drive("done")
    assert pulls.rows.ask("SELECT external_id FROM orders ORDER BY 1") == [
        ("1",),
        ("2",),
        ("3",),
        ("4",),
    ]
    assert [ask.values["page"] for _, ask in pulls.script.asks] == [1, 2, 3]
    status, started_at, estimate, cursor = row(
        pulls, job_id, "status, started_at, calls_estimate, cursor"
    )
    assert (status, estimate, cursor) == ("completed", 3, {"mark": started_at.isoformat()})
    assert pulls.rows.day() == (3, 0)
    assert pulls.events() == ["job_completed"]
    assert pulls.rows.ask("SELECT limit_key, tier, used FROM rate_budgets") == [
        (DAY_KEY, "starter", 3)
    ]


def test_a_first_run_gets_its_start_time_and_stores_only_its_own_cursor(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a", tier="starter")
    pulls.rows.ask("UPDATE sync_jobs SET created_at = created_at - interval '5 days'")
    since = row(pulls, job_id, "created_at")
    kept: list[Any] = []

    def note() -> Page:
        kept.append(row(pulls, job_id, "cursor"))
        return page_of("2")

    pulls.script.answers = [page_of("1", more=True), note]
    pulls.drive("done")
    assert kept[0].keys() == {RUN}
    assert kept[0][RUN][SINCE] == since.isoformat()


def test_every_call_spends_before_it_leaves_and_more_is_reserved_when_needed(pulls: Pulls) -> None:
    pulls.rows.add("a", estimate=2)
    days: list[tuple[float, float]] = []

    def note() -> Page:
        days.append(pulls.rows.day())
        return page_of(str(len(days)), more=len(days) < 5)

    pulls.script.answers = [note] * 5
    pulls.drive("done")
    assert [used for used, _ in days] == [1, 2, 3, 4, 5]
    assert [reserved for _, reserved in days] == [1, 0, 9, 8, 7]
    assert pulls.rows.day() == (5, 0)


def test_a_run_whose_day_is_spent_gives_way_and_goes_on_where_it_was(pool: ConnectionPool) -> None:
    pulls = make_pulls(pool, day_limit=3)
    job_id = pulls.rows.add("a", tier="pro")
    pulls.script.answers = [page_of(str(number), more=True) for number in range(3)]
    pulls.drive("quota is spent")
    assert len(pulls.script.asks) == 3
    assert row(pulls, job_id, "status, retry_count, wait_reason") == (
        "queued",
        0,
        "the day's quota is spent",
    )
    assert isinstance(pulls.pull.step(), Wait)
    pulls.rows.clock.sleep(26 * 3600)
    pulls.drive("done")
    assert pulls.script.asks[-1][1].values["page"] == 4


def test_history_that_used_what_it_reserved_gives_way_and_names_no_spent_day(
    pulls: Pulls,
) -> None:
    job_id = pulls.rows.add("a", job_type="backfill")
    pulls.script.answers = [page_of(str(number), more=True) for number in range(3)]
    pulls.drive("gives way")
    used, reserved = pulls.rows.day()
    assert (used, reserved) == (CALLS_MIN, 0)
    assert row(pulls, job_id, "status, wait_reason") == ("queued", "")
    events = pulls.rows.ask("SELECT event_type FROM sync_audit_log WHERE job_id IS NOT NULL")
    assert events == [("job_yielded",)]


def test_a_long_run_gives_way_after_its_calls_and_keeps_its_cursor(pool: ConnectionPool) -> None:
    rule = replace(RULE, calls_per_claim={**RULE.calls_per_claim, JobType.BACKFILL: 2})
    pulls = make_pulls(pool, rule=rule)
    long = pulls.rows.add("a", job_type="backfill", waited=30 * MINUTE)
    pulls.script.answers = [
        page_of("1", more=True),
        page_of("2", more=True),
        page_of("of b"),
        page_of("3", more=True),
        page_of("4"),
    ]
    pulls.drive("gives way")
    assert row(pulls, long, "status, wait_reason, run_calls") == ("queued", "", 2)
    pulls.rows.add("b")
    pulls.drive("done")
    pulls.drive("done")
    assert [(shop, ask.values["page"]) for shop, ask in pulls.script.asks] == [
        ("a-etsy", 1),
        ("a-etsy", 2),
        ("b-etsy", 1),
        ("a-etsy", 3),
        ("a-etsy", 4),
    ]
    assert row(pulls, long, "status, calls_estimate") == ("completed", 4)


def test_a_short_wait_is_waited_for_and_a_long_one_gives_the_job_back(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a")
    pulls.script.answers = [page_of("1", more=True), page_of("2")]
    pulls.rows.limiter.pause(SECOND_KEY, 8, "a short while")
    assert isinstance(pulls.pull.step(), Done)
    wait = pulls.pull.step()
    assert isinstance(wait, Wait)
    assert row(pulls, job_id, "status") == "running"
    pulls.rows.clock.sleep(8)
    pulls.pull.step()
    assert len(pulls.script.asks) == 1
    pulls.rows.limiter.pause(SECOND_KEY, 45, "a long while")
    now = pulls.rows.clock.now()
    pulls.pull.step()
    status, next_run_at, reason, cursor = row(
        pulls, job_id, "status, next_run_at, wait_reason, cursor"
    )
    assert (status, reason) == ("queued", "permits are spoken for")
    assert next_run_at - now == timedelta(seconds=45)
    assert cursor[RUN]["page"] == 2
    pulls.drive("done")
    assert row(pulls, job_id, "retry_count") == 0


def test_a_throttled_call_pauses_the_limits_and_blames_no_job(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a")
    pulls.rows.add("b", waited=-timedelta(seconds=10))
    pulls.script.answers = [error(ThrottledError, retry_after_s=120)]
    pulls.drive("rate limited")
    now = pulls.rows.clock.now()
    assert pulls.rows.limiter.status(SECOND_KEY).paused_until == now + timedelta(seconds=120)
    assert row(pulls, job_id, "status, retry_count, next_run_at") == (
        "queued",
        0,
        now + timedelta(seconds=120),
    )
    assert pulls.breakers.load("etsy").failures == 0
    pulls.rows.clock.sleep(60)
    assert pulls.rows.claim() is None  # nothing is claimed that could not call
    assert pulls.rows.day() == (1, 0)
    pulls.rows.clock.sleep(61)
    pulls.drive("done")


def test_throttling_without_a_time_waits_longer_each_time(pulls: Pulls) -> None:
    pulls.rows.add("a")
    pulls.script.answers = [error(ThrottledError) for _ in range(12)]
    pauses = []
    for _ in range(12):
        pulls.drive("rate limited")
        until = pulls.rows.limiter.status(SECOND_KEY).paused_until
        assert until is not None
        pauses.append((until - pulls.rows.clock.now()).total_seconds())
    assert pauses == sorted(pauses)
    assert 1 <= pauses[0] <= 2
    assert 450 <= pauses[-1] <= 900
    pulls.drive("done")
    assert pulls.rows.one("SELECT retry_count FROM sync_jobs") == 0


def test_a_used_up_daily_quota_is_tried_every_hour_whatever_retry_after_says(pulls: Pulls) -> None:
    pulls.rows.add("a")
    pulls.script.answers = [error(ThrottledError, retry_after_s=86_400)]
    pulls.drive("rate limited")
    until = pulls.rows.limiter.status(DAY_KEY).paused_until
    assert until == pulls.rows.clock.now() + timedelta(hours=1)


@pytest.mark.parametrize("kind", (TimedOutError, UnreadableError, UnsentError))
def test_an_outage_never_kills_a_job(pulls: Pulls, kind: type[ProviderError]) -> None:
    """Law L8: days without an answer, and all go on afterwards."""
    ids = [pulls.rows.add(f"s{number}", tier="pro") for number in range(3)]
    pulls.script.answers = [error(kind) for _ in range(20)]
    while pulls.script.answers:
        result = pulls.pull.step()
        if isinstance(result, Wait):
            pulls.rows.clock.sleep((result.until - pulls.rows.clock.now()).total_seconds())
    assert all(row(pulls, job_id, "retry_count") <= 2 for job_id in ids)
    for _ in ids:
        pulls.drive("done", steps=2000)
    assert not pulls.breakers.load("etsy").is_open
    assert pulls.rows.one("SELECT count(*) FROM notices") == 0


def test_while_a_platform_is_down_one_probe_goes_and_the_others_work(pulls: Pulls) -> None:
    for number in range(4):
        pulls.rows.add(f"s{number}", waited=MINUTE)
    pulls.script.answers = [error(TransientError) for _ in range(3)]
    for _ in range(3):
        pulls.drive("refused")
    assert pulls.breakers.load("etsy").is_open
    shopify = pulls.rows.add("z", "shopify")
    pulls.drive("done")
    assert row(pulls, shopify, "status") == "completed"
    requests_before = len(pulls.script.asks)
    pulls.rows.clock.sleep(61)
    assert isinstance(pulls.pull.step(), Done)
    other = pulls.worker("other")
    assert isinstance(other.step(), Wait)
    pulls.drive("done")
    assert len(pulls.script.asks) == requests_before + 1
    pulls.rows.clock.sleep(60)
    assert isinstance(other.step(), Done)


def test_in_an_outage_the_probes_go_to_one_account_after_the_other(pulls: Pulls) -> None:
    """Law L16: a platform that counts errors would block the one account that takes them all."""
    for number in range(4):
        pulls.rows.add(f"s{number}", tier="free" if number else "pro", waited=MINUTE)
    pulls.script.answers = [error(TransientError) for _ in range(11)]
    while pulls.script.answers:
        pulls.drive("refused", steps=2000)
    shops = [shop for shop, _ in pulls.script.asks]
    assert max(shops.count(shop) for shop in shops) <= 4
    assert len(set(shops)) == 4


def test_a_job_that_fails_alone_waits_longer_each_time_and_dies_with_a_notice(
    pulls: Pulls,
) -> None:
    job_id = pulls.rows.add("a")
    waits = []
    for _ in range(5):
        pulls.script.answers = [KeyError("only in this job")]
        pulls.drive("a bug", steps=2000)
        at = row(pulls, job_id, "next_run_at")
        waits.append(at and round((at - pulls.rows.clock.now()) / MINUTE))
    assert waits == [2, 4, 8, 16, None]
    assert row(pulls, job_id, "status, revive_at") == ("dead", None)
    assert "a bug, please report it: KeyError" in row(pulls, job_id, "last_error")
    assert pulls.rows.one("SELECT topic, user_id FROM notices") == ("job_dead", "a")
    assert pulls.breakers.load("etsy").failures == 0
    assert pulls.events() == ["job_failed"] * 4 + ["job_dead"]


def test_a_token_is_refreshed_through_the_same_permits_before_a_page(pulls: Pulls) -> None:
    pulls.rows.add("a")
    pulls.script.dead_tokens = {"a-etsy"}
    pulls.drive("done")
    assert (pulls.script.refreshes, len(pulls.script.asks)) == (1, 1)
    assert pulls.rows.day() == (2, 0)
    purposes = pulls.rows.ask(
        "SELECT result FROM call_ledger WHERE limit_key = %s ORDER BY begun_at", SECOND_KEY
    )
    assert purposes == [("token",), ("orders",)]


def test_a_refused_token_is_refreshed_once_and_then_the_account_is_disconnected(
    pulls: Pulls,
) -> None:
    job_id = pulls.rows.add("a")
    refused = error(UnauthorizedError, status=401)

    def refuse() -> Page:
        pulls.script.dead_tokens.add("a-etsy")
        raise refused

    pulls.script.answers = [refuse] * 5
    pulls.drive("(refusal 1)")
    assert (pulls.script.refreshes, len(pulls.script.asks)) == (1, 2)
    refused_at = pulls.rows.clock.now()
    pulls.drive("disconnected", steps=500)
    assert pulls.rows.clock.now() - refused_at >= SPAN_MIN
    assert (pulls.script.refreshes, len(pulls.script.asks)) == (4, 5)
    assert row(pulls, job_id, "status") == "cancelled"
    assert pulls.rows.one("SELECT status FROM connected_accounts") == "disconnected"
    assert pulls.rows.one("SELECT topic FROM notices") == "account_disconnected"
    assert pulls.rows.day() == (9, 0)
    assert pulls.rows.claim() is None


def test_a_token_that_works_again_after_a_refresh_may_die_again_later(pulls: Pulls) -> None:
    pulls.rows.add("a")

    def refuse() -> Page:
        pulls.script.dead_tokens.add("a-etsy")
        raise error(UnauthorizedError, status=401)

    pulls.script.answers = [refuse, page_of("1", more=True), refuse, page_of("2")]
    pulls.drive("done")
    assert pulls.script.refreshes == 2


def test_a_refused_refresh_disconnects_and_one_that_fails_does_not(pulls: Pulls) -> None:
    pulls.rows.add("a")
    pulls.script.dead_tokens = {"a-etsy"}
    pulls.script.refresh_error = error(TransientError)
    pulls.drive("refused")
    assert pulls.rows.one("SELECT status FROM connected_accounts") == "connected"
    pulls.script.refresh_error = error(UnauthorizedError, status=400)
    pulls.drive("(refusal 1)")
    assert pulls.rows.one("SELECT status FROM connected_accounts") == "connected"
    pulls.drive("disconnected", steps=500)
    assert pulls.rows.one("SELECT status FROM connected_accounts") == "disconnected"


def test_a_worker_that_waits_for_anothers_refresh_gives_the_job_back_in_time(pulls: Pulls) -> None:
    pulls.rows.add("a")
    pulls.script.dead_tokens, pulls.script.is_refreshing_elsewhere = {"a-etsy"}, True
    pulls.drive("another worker refreshes")
    while isinstance(pulls.pull.step(), Wait):
        pulls.rows.clock.sleep(1)
    status, reason = pulls.rows.one("SELECT status, wait_reason FROM sync_jobs")
    assert (status, reason) == ("queued", "another worker refreshes the token")
    assert pulls.rows.day() == (0, 0)  # a unit for a call that never left is given back


def test_no_orders_left_this_month_ends_the_run_until_the_next(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a")
    names = [str(number) for number in range(50)]
    pulls.script.answers = [page_of(*names, more=True), page_of("51")]
    pulls.drive("used up")
    assert row(pulls, job_id, "status, next_run_at") == (
        "plan_limit_reached",
        datetime(2026, 4, 1, tzinfo=UTC),
    )
    pulls.rows.clock.sleep(23 * 86_400)
    pulls.drive("done")
    assert pulls.script.asks[-1][1].values["page"] == 2


def test_orders_of_other_months_are_history_and_use_up_nothing(pulls: Pulls) -> None:
    pulls.rows.add("a", job_type="backfill")
    old = datetime(2025, 7, 1, tzinfo=UTC)
    names = [str(number) for number in range(60)]
    pulls.script.answers = [page_of(*names, more=True, placed_at=old), page_of("61")]
    pulls.drive("done")


def test_wanted_and_long_unseen_open_orders_are_read_first(pulls: Pulls) -> None:
    account = pulls.rows.account("a")
    pulls.rows.job(account)
    pulls.script.answers = [page_of("1", "2")]
    pulls.drive("done")
    pulls.walk = replace(pulls.walk, recheck_after=timedelta(hours=1))
    pulls.rows.clock.sleep(7200)
    pulls.rows.ask(
        "INSERT INTO webhook_deliveries (platform, delivery_id, account_id, topic, kind,"
        " external_id, received_at) VALUES ('etsy', 'd', %s, 't', 'orders', '9', %s)",
        account,
        pulls.rows.clock.now(),
    )
    pulls.script.answers = [page_of("9")]
    pulls.drive("done")
    assert pulls.script.asks[-1][1].values["wanted"] == ["9", "1", "2"]
    assert pulls.rows.one("SELECT handled_at IS NOT NULL FROM webhook_deliveries")


def test_what_a_reply_says_corrects_the_day(pulls: Pulls) -> None:
    pulls.rows.add("a")
    pulls.script.observations = {DAY_KEY: Observation(used=400, capacity=5000)}
    pulls.drive("done")
    gauge = pulls.rows.limiter.status(DAY_KEY).gauges[0]
    assert (gauge.used, gauge.reserved, gauge.limit) == (400, 0, 5000)


def test_a_late_worker_is_refused_and_its_successor_goes_on(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a")
    pulls.script.answers = [page_of("1", more=True)]
    pulls.drive("1 rows")
    pulls.rows.clock.sleep(RULE.lease.total_seconds() + CLOCKS_APART_MAX.total_seconds() + 1)
    assert pulls.rows.jobs.rescue(pulls.rows.clock.now() - CLOCKS_APART_MAX) == 1
    other = pulls.worker("other")
    other.step()
    pulls.script.answers = [page_of("late", more=True)]
    pulls.drive("quota is spent")  # its reservation lapsed as its lease did
    assert row(pulls, job_id, "lease_owner") == "other"
    pulls.script.answers = [page_of("2")]
    pulls.drive("done", pull=other)
    assert pulls.rows.ask("SELECT external_id FROM orders ORDER BY 1") == [("1",), ("2",)]


def test_a_page_that_comes_after_the_rescue_is_not_written(pulls: Pulls) -> None:
    pulls.rows.add("a", "shopify")

    def slow() -> Page:
        pulls.rows.clock.sleep(400)
        assert pulls.rows.jobs.rescue(pulls.rows.clock.now() - CLOCKS_APART_MAX) == 1
        return page_of("late")

    pulls.script.answers = [slow]
    pulls.drive("too late")
    assert pulls.rows.one("SELECT count(*) FROM orders") == 0


def test_a_long_run_with_heartbeats_lives(pulls: Pulls) -> None:
    pulls.rows.add("a", "shopify")
    pulls.script.answers = [page_of(str(number), more=True) for number in range(30)]
    for _ in range(30):
        pulls.drive("1 rows")
        pulls.rows.clock.sleep(80)
        assert pulls.rows.jobs.rescue(pulls.rows.clock.now() - CLOCKS_APART_MAX) == 0
    pulls.drive("done")


def test_a_secret_that_is_missing_blames_no_job(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a")
    working = pulls.script.open

    def fail(_account: object) -> Any:
        raise ConfigError("HEADWAY_ETSY_KEYSTRING is not set")

    pulls.script.open = fail  # type: ignore[method-assign]
    pulls.pull = pulls.worker("w")
    pulls.drive("is not set")
    assert row(pulls, job_id, "status, retry_count") == ("queued", 0)
    assert pulls.rows.day() == (0, 0)
    pulls.script.open = working  # type: ignore[method-assign]
    pulls.pull = pulls.worker("w")
    pulls.drive("done")


def test_a_request_that_no_limit_can_ever_give_fails_the_job_and_not_the_worker(
    pulls: Pulls,
) -> None:
    job_id = pulls.rows.add("a")
    pulls.script.price = 50
    pulls.drive("can never be given")
    assert row(pulls, job_id, "status, retry_count") == ("failed", 1)
