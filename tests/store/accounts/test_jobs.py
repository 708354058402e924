"""Jobs on a real database: who is claimed with what budget, and what every end leaves behind."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.job_fixtures import DAY_KEY, MINUTE, NOW, RULE, Rows, make_rows

from headway.core.accounts import jobs
from headway.core.accounts.jobs import DataKind, Job, JobStatus, JobType, Tier
from headway.core.accounts.pagination import Page, PageStep
from headway.core.limits.transitions import Observation
from headway_lab.platforms import ETSY


@pytest.fixture
def rows(pool: ConnectionPool) -> Rows:
    return make_rows(pool)


def commit(rows: Rows, job: Job, *, is_done: bool = False, calls: int = 1) -> Job | None:
    now = rows.clock.now()
    cursor: dict[str, Any] = {"mark": 7} if is_done else {"mark": 3, "run": {"page": 2}}
    step = PageStep(cursor=cursor, is_done=is_done)
    return rows.jobs.commit(job, Page(), step, calls=calls, asked_at=now, now=now)


def events(rows: Rows, job_id: str) -> list[str]:
    return [
        kind
        for (kind,) in rows.ask(
            "SELECT event_type FROM sync_audit_log WHERE job_id = %s ORDER BY created_at", job_id
        )
    ]


def test_the_best_score_is_claimed_first_and_waiting_counts(rows: Rows) -> None:
    slow = rows.add("a", tier="free", job_type="backfill", waited=161 * MINUTE)
    pro = rows.add("b", tier="pro", job_type="webhook_triggered")
    free = rows.add("c", tier="free")
    growth = rows.add("d", "shopify", tier="growth")
    later = rows.add("e", tier="pro", waited=-MINUTE)
    taken = [rows.claim()[0].id for _ in range(4)]
    assert taken == [slow, pro, growth, free]
    assert rows.claim() is None
    assert rows.status(later)[0] == "queued"


def test_a_claim_says_all_that_a_run_needs(rows: Rows) -> None:
    account = rows.account("a", tier="growth")
    rows.job(account, job_type="webhook_triggered", waited=MINUTE)
    for name in ("7", "5", "7"):
        rows.ask(
            "INSERT INTO webhook_deliveries (platform, delivery_id, account_id, topic, kind,"
            " external_id, received_at) VALUES ('etsy', gen_random_uuid()::text, %s, 't', 'orders',"
            " %s, %s)",
            account,
            name,
            NOW,
        )
    job, permit = rows.claim()
    assert (job.kind, job.type, job.tier) == (DataKind.ORDERS, JobType.WEBHOOK, Tier.GROWTH)
    assert (job.account.shop, job.account.owner_id) == ("a-etsy", "o-a")
    assert (job.fence, job.started_at, job.due_at) == (1, NOW, NOW - MINUTE)
    assert sorted(job.requested_ids) == ["5", "7"]
    assert job.is_first
    assert permit is not None


def test_an_account_has_one_running_job_and_platforms_without_a_day_reserve_nothing(
    rows: Rows,
) -> None:
    account = rows.account("a", "printify", "pro")
    rows.job(account)
    rows.job(account, kind="listings")
    rows.add("b", "printify")
    (first, permit), (second, _) = rows.claim(), rows.claim()
    assert permit is None
    assert {first.account.user_id, second.account.user_id} == {"a", "b"}
    assert rows.claim() is None


def test_no_more_run_at_once_than_may(pool: ConnectionPool) -> None:
    rows = make_rows(pool, rule=replace(RULE, running_max=3))
    for number in range(5):
        rows.add(f"s{number}", "shopify")
    taken = rows.jobs.claim_many(now=NOW, owner="w", limit=10)
    assert len(taken) == 3
    assert rows.claim() is None
    job = taken[0][0]
    assert rows.jobs.settle(job, JobStatus.FAILED, next_run_at=NOW + MINUTE, now=NOW)
    assert rows.claim() is not None


def test_several_are_claimed_at_once_best_first_and_one_of_each_account(rows: Rows) -> None:
    for number in range(6):
        account = rows.account(f"s{number}", tier="pro" if number % 2 else "free")
        for kind in ("orders", "listings", "payments"):
            rows.job(account, kind=kind)
    taken = [job for job, _ in rows.jobs.claim_many(now=NOW, owner="w")]
    assert [job.tier for job in taken] == [Tier.PRO] * 3 + [Tier.FREE] * 3
    assert len({job.account.id for job in taken}) == 6


def test_a_platform_that_is_passed_over_hides_none_of_the_others(rows: Rows) -> None:
    rows.add("a", "etsy", tier="pro")
    rows.add("b", "shopify")
    job, _ = rows.claim(without={ETSY})
    assert job.account.user_id == "b"
    assert rows.claim(without={ETSY}) is None


def test_what_is_due_again_is_queued_and_keeps_its_place(rows: Rows) -> None:
    ids = [rows.add(f"s{number}", "shopify") for number in range(4)]
    for job_id, status, at in zip(
        ids,
        ("completed", "failed", "plan_limit_reached", "completed"),
        (NOW - 3 * MINUTE, NOW - 2 * MINUTE, NOW - MINUTE, NOW + MINUTE),
        strict=True,
    ):
        rows.ask(
            "UPDATE sync_jobs SET status = %s, next_run_at = %s WHERE id = %s", status, at, job_id
        )
    assert [rows.claim()[0].id for _ in range(3)] == ids[:3]
    assert rows.claim() is None
    assert events(rows, ids[2]) == ["plan_limit_lifted"]


def test_a_seller_over_the_months_quota_is_set_aside_and_blocks_nobody(rows: Rows) -> None:
    account = rows.account("a", tier="pro")
    over = [rows.job(account), rows.job(account, kind="listings")]
    behind = rows.add("b")
    rows.ask("UPDATE profiles SET orders_month = '2026-03-01', orders_count = 5000")
    rows.ask("UPDATE profiles SET orders_count = 49 WHERE user_id = 'b'")
    assert rows.claim()[0].id == behind
    for job_id in over:
        assert rows.status(job_id) == ("plan_limit_reached", datetime(2026, 4, 1, tzinfo=UTC))
        assert events(rows, job_id) == ["plan_limit_reached"]
    (notice,) = rows.ask("SELECT user_id, topic, subject, text FROM notices")
    assert notice[:3] == ("a", "plan_limit_reached", "a pro 2026-03")
    assert "from 1 April 2026, or at once with a higher plan" in notice[3]


def test_a_count_of_another_month_is_no_limit(rows: Rows) -> None:
    rows.add("a")
    rows.ask("UPDATE profiles SET orders_month = '2026-02-01', orders_count = 5000")
    assert rows.claim() is not None


def test_many_sellers_over_their_quota_hide_nobody(rows: Rows) -> None:
    for number in range(60):
        rows.add(f"s{number}", waited=MINUTE)
    rows.ask("UPDATE profiles SET orders_month = '2026-03-01', orders_count = 50")
    behind = rows.add("z")
    assert rows.claim()[0].id == behind
    assert rows.one("SELECT count(*) FROM sync_jobs WHERE status = 'plan_limit_reached'") == 60


def test_a_claim_reserves_its_estimate_and_less_when_that_is_all_there_is(
    pool: ConnectionPool,
) -> None:
    rows = make_rows(pool, day_limit=20)
    for number, estimate in enumerate((14.2, 30, 1)):
        rows.add(f"s{number}", tier="pro", estimate=estimate, waited=-number * timedelta(seconds=1))
    rows.clock.sleep(60)
    assert rows.claim() is not None
    assert rows.day() == (0, 15)
    assert rows.claim()[0].calls_estimate == 30
    assert rows.day() == (0, 17)
    assert rows.claim() is not None
    assert rows.day() == (0, 19)


def test_a_spent_day_passes_over_its_platform_only(pool: ConnectionPool) -> None:
    rows = make_rows(pool, day_limit=3)
    for number in range(50):
        rows.add(f"e{number}", tier="pro", waited=MINUTE)
    shopify = rows.add("s", "shopify")
    assert rows.claim()[0].account.platform == ETSY
    assert rows.claim()[0].id == shopify
    assert rows.claim() is None
    assert rows.day() == (0, 2)


def test_free_sellers_leave_what_paid_ones_have_yet_to_use_of_their_day(
    pool: ConnectionPool,
) -> None:
    rows = make_rows(pool, day_limit=1_000)
    for number in range(3):
        rows.add(f"f{number}", waited=MINUTE)
    paid = rows.add("p", tier="pro")
    # A pro's orders every five minutes, two calls each, are 576 a day: no free run fits any more.
    rows.limiter.observe(DAY_KEY, Observation(used=423, capacity=1_000))
    assert rows.claim()[0].id == paid
    assert rows.claim() is None
    # Once some of them are used, that many need not be left: there is room for two runs.
    rows.ask("INSERT INTO rate_budgets VALUES (%s, 'etsy', %s, 'pro', 5)", DAY_KEY, NOW - MINUTE)
    taken = [rows.claim() for _ in range(3)]
    assert [job is not None for job in taken] == [True, True, False]


def test_history_leaves_to_free_sellers_too(pool: ConnectionPool) -> None:
    rows = make_rows(pool, day_limit=1_000)
    history = rows.add("h", tier="pro", job_type="backfill")
    free = rows.add("f")
    # Left by history: the 48 a day that the free seller wants, and 50 for nobody in particular.
    rows.limiter.observe(DAY_KEY, Observation(used=903, capacity=1_000))
    assert rows.claim()[0].id == free
    assert rows.claim() is None
    rows.ask("INSERT INTO rate_budgets VALUES (%s, 'etsy', %s, 'free', 48)", DAY_KEY, NOW - MINUTE)
    assert rows.claim()[0].id == history


def test_a_day_that_is_too_short_stretches_the_intervals_of_those_who_do_not_pay(
    pool: ConnectionPool,
) -> None:
    rows = make_rows(pool, day_limit=1_000)
    for number in range(20):
        rows.add(f"f{number}", waited=MINUTE)
    rows.add("p", tier="pro")
    paid, free = rows.claim()[0], rows.claim()[0]
    assert (paid.tier, free.tier) == (Tier.PRO, Tier.FREE)
    assert rows.jobs.stretch(paid) == 1
    assert rows.jobs.stretch(free) == pytest.approx(20 * 48 / (900 - 576))


def test_jobs_that_wait_for_a_short_day_run_sooner_once_it_is_longer(pool: ConnectionPool) -> None:
    rows = make_rows(pool, day_limit=1_000)
    for number in range(20):
        rows.add(f"f{number}")
    rows.add("p", tier="pro")
    rows.claim()
    job, _ = rows.claim()
    ending = jobs.completed(job, rows.rule, NOW, stretch=rows.jobs.stretch(job))
    assert ending.next_run_at > NOW + 80 * MINUTE
    rows.jobs.settle(job, ending.status, next_run_at=NOW + 24 * 60 * MINUTE, now=NOW)
    rows.limiter.observe(DAY_KEY, Observation(used=0, capacity=100_000))
    assert rows.jobs.relax(NOW) == 1
    assert rows.one("SELECT next_run_at FROM sync_jobs WHERE id = %s", job.id) == NOW + 60 * MINUTE


def test_a_page_its_cursor_and_its_calls_are_written_together(rows: Rows) -> None:
    job_id = rows.add("a", tier="starter")
    job, _ = rows.claim()
    rows.clock.sleep(30)
    renewed = commit(rows, job, calls=2)
    assert renewed is not None
    assert (renewed.run_calls, renewed.cursor["run"]) == (2, {"page": 2})
    assert rows.one(
        "SELECT lease_until, run_calls, queries_used, cursor ->> 'mark' FROM sync_jobs"
        " WHERE id = %s",
        job_id,
    ) == (rows.clock.now() + RULE.lease, 2, 2, "3")
    assert rows.ask("SELECT limit_key, tier, used FROM rate_budgets") == [(DAY_KEY, "starter", 2)]


def test_a_run_that_is_done_learns_its_calls_and_is_incremental_again(rows: Rows) -> None:
    job_id = rows.add("a", job_type="webhook_triggered")
    job, _ = rows.claim()
    rows.clock.sleep(10)
    job = commit(rows, job, is_done=True, calls=3) or job
    due_at = NOW + 60 * MINUTE
    assert rows.jobs.settle(
        job, JobStatus.COMPLETED, next_run_at=due_at, calls=1, now=rows.clock.now()
    )
    assert rows.one(
        "SELECT status, job_type, score, next_run_at, calls_estimate, run_calls, queries_used,"
        " cursor, lease_owner FROM sync_jobs WHERE id = %s",
        job_id,
    ) == ("completed", "incremental", 12, due_at, 4, 0, 4, {"mark": 7}, None)
    kind, details = rows.one("SELECT event_type, new_value FROM sync_audit_log WHERE sku IS NULL")
    assert kind == "job_completed"
    assert details["duration_s"] == 10
    assert (details["platform"], details["kind"], details["job_type"], details["queries_used"]) == (
        "etsy",
        "orders",
        "webhook_triggered",
        4,
    )


def test_a_run_cut_off_goes_on_with_its_start_and_its_count_and_a_new_one_begins(
    rows: Rows,
) -> None:
    rows.add("a", estimate=5)
    job, _ = rows.claim()
    job = commit(rows, job) or job
    rows.jobs.settle(job, JobStatus.QUEUED, next_run_at=NOW, now=NOW)
    rows.clock.sleep(60)
    again, _ = rows.claim()
    assert (again.started_at, again.run_calls, again.fence) == (NOW, 1, 2)
    again = commit(rows, again, is_done=True) or again
    rows.jobs.settle(again, JobStatus.COMPLETED, next_run_at=rows.clock.now(), now=NOW)
    fresh, _ = rows.claim()
    assert (fresh.started_at, fresh.run_calls, fresh.is_first) == (rows.clock.now(), 0, False)


def test_a_job_that_was_woken_while_it_ran_is_due_at_once(rows: Rows) -> None:
    job_id = rows.add("a")
    job, _ = rows.claim()
    rows.ask("UPDATE sync_jobs SET woken_at = %s", NOW)
    rows.jobs.settle(job, JobStatus.COMPLETED, next_run_at=NOW + 60 * MINUTE, now=NOW)
    assert rows.status(job_id) == ("completed", NOW)
    again, _ = rows.claim()
    assert again.type is JobType.WEBHOOK
    rows.jobs.settle(again, JobStatus.COMPLETED, next_run_at=NOW + 60 * MINUTE, now=NOW)
    assert rows.status(job_id) == ("completed", NOW + 60 * MINUTE)


def test_a_backfill_that_is_done_stays_done(rows: Rows) -> None:
    job_id = rows.add("a", job_type="backfill")
    job, _ = rows.claim()
    rows.ask("UPDATE sync_jobs SET woken_at = %s", NOW)
    assert rows.jobs.settle(job, JobStatus.COMPLETED, next_run_at=None, now=NOW)
    assert rows.status(job_id) == ("completed", None)


def test_a_dead_job_notifies_its_seller_once(rows: Rows) -> None:
    job_id = rows.add("a")
    job, _ = rows.claim()
    for _ in range(2):
        rows.jobs.settle(
            job, JobStatus.DEAD, next_run_at=None, retry_count=5, reason="refused", now=NOW
        )
    ((seller, topic, text),) = rows.ask("SELECT user_id, topic, text FROM notices")
    assert (seller, topic) == ("a", "job_dead")
    assert text == "Reading orders of etsy a-etsy stopped after 5 failures: refused"
    assert events(rows, job_id) == ["job_dead"]
    assert rows.one("SELECT last_error FROM sync_jobs") == "refused"


@pytest.mark.parametrize(
    ("status", "reason", "event"),
    (
        (JobStatus.QUEUED, "", "job_yielded"),
        (JobStatus.QUEUED, "rate limited", "job_rescheduled"),
        (JobStatus.FAILED, "refused", "job_failed"),
        (JobStatus.LIMITED, "used up", "plan_limit_reached"),
    ),
)
def test_every_end_of_a_claim_leaves_one_event(
    rows: Rows, status: JobStatus, reason: str, event: str
) -> None:
    job_id = rows.add("a")
    job, _ = rows.claim()
    assert rows.jobs.settle(job, status, next_run_at=NOW + MINUTE, reason=reason, now=NOW)
    assert events(rows, job_id) == [event]
    assert not rows.jobs.settle(job, status, next_run_at=NOW, now=NOW)
    assert events(rows, job_id) == [event]


def test_the_job_of_a_silent_worker_is_rescued_and_its_late_settle_is_refused(rows: Rows) -> None:
    job_id = rows.add("a")
    job, _ = rows.claim(owner="silent")
    rows.clock.sleep(60)
    job = commit(rows, job) or job  # a heartbeat
    rows.clock.sleep(60)
    assert rows.jobs.rescue(rows.clock.now()) == 0
    rows.clock.sleep(31)
    assert rows.jobs.rescue(rows.clock.now()) == 1
    assert rows.status(job_id) == ("queued", job.due_at), "it keeps its place"
    taken, _ = rows.claim(owner="next")
    assert taken.cursor == job.cursor
    assert commit(rows, job) is None
    assert not rows.jobs.settle(job, JobStatus.DEAD, next_run_at=None, now=rows.clock.now())
    assert commit(rows, taken) is not None
    assert events(rows, job_id) == ["job_rescued"]


def test_who_falls_silent_again_before_a_page_gives_up_its_place(rows: Rows) -> None:
    job_id = rows.add("a")
    due_at = rows.status(job_id)[1]
    for place in (lambda: due_at, rows.clock.now, rows.clock.now):
        rows.claim()
        rows.clock.sleep(3600)
        rows.jobs.rescue(rows.clock.now())
        assert rows.status(job_id) == ("queued", place())
    job, _ = rows.claim()
    commit(rows, job)  # a page is a sign that it kills nobody
    rows.clock.sleep(3600)
    rows.jobs.rescue(rows.clock.now())
    assert rows.status(job_id) == ("queued", job.due_at)


def test_a_job_whose_workers_fall_silent_again_and_again_is_tried_ever_more_seldom(
    rows: Rows,
) -> None:
    job_id, waits = rows.add("a"), []
    for _ in range(12):
        assert rows.claim() is not None
        rows.clock.sleep(3600)
        rows.jobs.rescue(rows.clock.now())
        next_run_at = rows.status(job_id)[1]
        assert next_run_at is not None
        waits.append((next_run_at - rows.clock.now()) / MINUTE)
        rows.clock.sleep(max(0, waits[-1] * 60))
    assert waits[1:] == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    reason = rows.one("SELECT wait_reason FROM sync_jobs WHERE id = %s", job_id)
    assert reason == "its worker fell silent, 12 times in a row"


def test_a_claim_shows_when_the_job_was_created(rows: Rows) -> None:
    job_id = rows.add("a")
    job, _ = rows.claim()
    assert job.enlisted_at == rows.one("SELECT created_at FROM sync_jobs WHERE id = %s", job_id)


def test_disconnecting_cancels_jobs_refuses_the_worker_and_notifies_once(rows: Rows) -> None:
    account = rows.account("a")
    running, waiting = rows.job(account), rows.job(account, kind="listings", waited=-MINUTE)
    done = rows.job(account, job_type="backfill", waited=-MINUTE)
    rows.ask("UPDATE sync_jobs SET status = 'completed', next_run_at = NULL WHERE id = %s", done)
    job, _ = rows.claim()
    assert rows.jobs.disconnect(job, "the grant was revoked", now=NOW)
    assert not rows.jobs.disconnect(job, "the grant was revoked", now=NOW)
    assert [rows.status(job)[0] for job in (running, waiting, done)] == [
        "cancelled",
        "cancelled",
        "completed",
    ]
    assert commit(rows, job) is None
    assert rows.one("SELECT status, reason FROM connected_accounts") == (
        "disconnected",
        "the grant was revoked",
    )
    assert rows.one("SELECT topic FROM notices") == "account_disconnected"
    assert rows.claim() is None


def in_threads(count: int, act: Any) -> list[Any]:
    results: list[Any] = []
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            results.append(act(number))
        except BaseException as error:  # noqa: BLE001 - passed to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    return results


def test_claimers_at_once_never_overshoot_places_accounts_or_the_day(pool: ConnectionPool) -> None:
    """Laws L5 and L11 under real concurrency: eight claimers that also end and crash."""
    rows = make_rows(pool, day_limit=60, rule=replace(RULE, running_max=5))
    for number in range(12):
        account = rows.account(f"s{number}", tier="pro" if number % 3 else "free")
        for kind in ("orders", "listings", "payments"):
            rows.job(account, kind=kind, estimate=3)
    counts: list[tuple[int, int]] = []

    def work(number: int) -> int:
        runs = 0
        for priority in range(25):
            claimed = rows.claim(owner=f"w{number}")
            if claimed is None:
                continue
            counts.append(
                rows.one(
                    "SELECT count(*), count(DISTINCT account_id) FROM sync_jobs"
                    " WHERE status = 'running'"
                )
            )
            job, permit = claimed
            sent = sum(rows.limiter.spend(permit, 1) for _ in range(priority % 3))
            if priority % 7:
                rows.limiter.settle(permit, sent=True, actual=sent)
                assert rows.jobs.settle(job, JobStatus.QUEUED, next_run_at=NOW, calls=sent, now=NOW)
            else:
                assert rows.jobs.settle(job, JobStatus.FAILED, next_run_at=NOW, now=NOW)
            runs += 1
            used, reserved = rows.day()
            assert used + reserved <= 60
        return runs

    assert sum(in_threads(8, work)) > 10
    assert max(running for running, _ in counts) <= 5
    assert all(running == accounts for running, accounts in counts)
    assert max(running for running, _ in counts) > 1
