"""Pull when something breaks in the middle: the store, a walk, the code; all others go on."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.pull_setup import PlainWalk, Pulls, make_pulls, page_of
from tests.store.accounts.job_fixtures import MINUTE

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import RUN, Cursor, Page, PageStep
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.core.catalog.listings import CLOCKS_APART_MAX, Wait
from headway.errors import (
    AppRefusedError,
    PermanentError,
    StoreError,
    ThrottledError,
    TransientError,
    UnauthorizedError,
)
from headway.store.accounts.webhooks import Webhooks
from headway_lab.platforms import ETSY


@pytest.fixture
def pulls(pool: ConnectionPool) -> Pulls:
    return make_pulls(pool)


def row(pulls: Pulls, job_id: str, columns: str) -> Any:
    return pulls.rows.one(f"SELECT {columns} FROM sync_jobs WHERE id = %s", job_id)


def rescue(pulls: Pulls) -> int:
    pulls.rows.clock.sleep((pulls.rows.rule.lease + CLOCKS_APART_MAX + MINUTE).total_seconds())
    return pulls.rows.jobs.rescue(pulls.rows.clock.now() - CLOCKS_APART_MAX)


@pytest.mark.parametrize("more", (False, True), ids=("at its end", "where it gives way"))
def test_a_store_that_fails_at_the_end_of_a_claim_leaves_it_as_a_crash_would(
    pulls: Pulls, *, more: bool
) -> None:
    """Law L11: nothing is asked with a reservation that was given back already."""
    job_id = pulls.rows.add("a", job_type="backfill" if more else "incremental")

    def break_store() -> Page:
        pulls.rows.ask("ALTER TABLE sync_audit_log RENAME TO away")
        return page_of("last", more=more)

    pulls.script.answers = [*(page_of(str(number), more=True) for number in range(9)), break_store]
    with pytest.raises(StoreError):
        pulls.drive("never")
    pulls.rows.ask("ALTER TABLE away RENAME TO sync_audit_log")
    requests_before = len(pulls.script.asks)
    assert requests_before == 10
    pulls.drive("no job may run")
    assert len(pulls.script.asks) == requests_before
    assert pulls.rows.day() == (requests_before, 0)
    assert rescue(pulls) == 1
    pulls.drive("done")
    assert pulls.rows.one("SELECT count(*) FROM orders") == 10
    assert row(pulls, job_id, "status") == "completed"


@dataclass(frozen=True)
class BrokenWalk(PlainWalk):
    """A paginator with a bug in the chosen method."""

    where: str = "begin"

    def begin(self, cursor: Cursor, now: datetime, wanted: Any) -> Cursor:
        if self.where == "begin":
            raise KeyError("a buyer's name")
        return super().begin(cursor, now, wanted)

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        if self.where == "priority":
            raise KeyError("a buyer's name")
        return super().advance(cursor, page, now)


@pytest.mark.parametrize("where", ("begin", "priority", "read"))
def test_a_bug_that_one_job_meets_is_its_own_failure_and_stops_nobody(
    pulls: Pulls, where: str
) -> None:
    job_id = pulls.rows.add("a")
    plain, pulls.walk = pulls.walk, BrokenWalk(where=where)
    pulls.script.answers = [KeyError("a buyer's name")] if where == "read" else []
    pulls.drive("a bug, please report it: KeyError")
    status, retries, error = row(pulls, job_id, "status, retry_count, last_error")
    assert (status, retries) == ("failed", 1)
    assert "KeyError at " in error
    assert "buyer" not in error
    # A call that left is counted, whatever came of its answer.
    assert pulls.rows.day() == (len(pulls.script.asks), 0)
    pulls.walk = plain
    other = pulls.rows.add("b")
    pulls.drive("done")
    assert row(pulls, other, "status") == "completed"


def test_a_run_of_an_older_paginator_begins_again_from_its_lasting_cursor(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a")
    pulls.rows.ask("""UPDATE sync_jobs SET cursor = '{"mark": "m", "run": {"leaf": 7}}'""")
    pulls.script.answers = [page_of("1", more=True)]
    pulls.drive("1 rows")
    assert row(pulls, job_id, "cursor -> 'mark'") == "m"
    assert row(pulls, job_id, "cursor")[RUN]["page"] == 2
    pulls.drive("done")
    assert row(pulls, job_id, "retry_count") == 0


def take_hook(pulls: Pulls, delivery_id: str, external_id: str | None = "9") -> None:
    hook = Webhook(
        platform=ETSY,
        delivery_id=delivery_id,
        shop="a-etsy",
        topic="order.paid",
        effect=WebhookEffect.WAKE,
        kind=DataKind.ORDERS,
        external_id=external_id,
    )
    Webhooks(pulls.rows.pool).take(hook, now=pulls.rows.clock.now())


@pytest.mark.parametrize("when", ("in a call", "in a pause", "before a crash"))
def test_a_webhook_in_the_middle_of_a_run_in_parts_is_followed_by_another_run(
    pulls: Pulls, when: str
) -> None:
    """Law L6: the run may be past what changed, and what is named is read with the next claim."""
    job_id = pulls.rows.add("a")

    def throttled() -> Page:
        if when == "in a call":
            take_hook(pulls, "in a call")
        raise ThrottledError("wait", provider="etsy", retry_after_s=60)

    pulls.script.answers = [page_of("1", more=True), throttled]
    pulls.drive("1 rows")
    if when == "before a crash":
        take_hook(pulls, when)
        assert rescue(pulls) == 1
        pulls.pull = pulls.worker("successor")
        pulls.script.answers = []
    else:
        pulls.drive("rate limited")
    if when == "in a pause":
        take_hook(pulls, when)
    pulls.script.answers = [page_of("9", more=True), page_of("2")]
    pulls.drive("done", steps=1000)
    assert pulls.script.asks[-2][1].values == {"page": 2, "wanted": ["9"]}
    assert row(pulls, job_id, "status, job_type") == ("completed", "webhook_triggered")
    assert row(pulls, job_id, "next_run_at") <= pulls.rows.clock.now()
    pulls.drive("done")
    assert row(pulls, job_id, "job_type, woken_at") == ("incremental", None)


def test_a_long_history_survives_any_number_of_failures_that_are_not_in_a_row(
    pulls: Pulls,
) -> None:
    job_id = pulls.rows.add("a", job_type="backfill")
    for number in range(8):
        bad = PermanentError("not now", provider="etsy")
        pulls.script.answers = [page_of(str(number), more=True), bad]
        pulls.drive("not now", steps=1000)
    assert row(pulls, job_id, "status, retry_count") == ("failed", 1)
    pulls.drive("done", steps=1000)
    assert pulls.rows.one("SELECT count(*) FROM notices") == 0


def test_a_refusal_that_comes_after_the_rescue_disconnects_nobody(pulls: Pulls) -> None:
    """The account may have been connected again meanwhile."""
    job_id = pulls.rows.add("a")

    def sleep_long() -> Page:
        assert rescue(pulls) == 1
        raise UnauthorizedError("the platform refused", provider="etsy", status=401)

    pulls.script.answers = [sleep_long]
    pulls.drive("refused too late")
    assert pulls.rows.one("SELECT status FROM connected_accounts") == "connected"
    assert row(pulls, job_id, "status") == "queued"
    assert pulls.rows.one("SELECT sum(used) FROM rate_budgets") == 1
    pulls.drive("done")


def run_for(pulls: Pulls, minutes: int) -> None:
    until = pulls.rows.clock.now() + minutes * MINUTE
    while pulls.rows.clock.now() < until:
        result = pulls.pull.step()
        if isinstance(result, Wait):
            pulls.rows.clock.sleep((result.until - pulls.rows.clock.now()).total_seconds())


def test_a_shop_that_is_broken_alone_shuts_the_platform_for_nobody_else(pulls: Pulls) -> None:
    """Law L12: neither its three jobs in a row nor its tier make of it an outage."""
    pulls.script.broken = {"bad-etsy": TransientError("answered 500", provider="etsy", status=500)}
    account = pulls.rows.account("bad", tier="pro")
    for kind in ("orders", "listings", "payments"):
        pulls.rows.job(account, kind=kind)
    run_for(pulls, 3)
    good = pulls.rows.add("good")
    asked_at = pulls.rows.clock.now()
    pulls.drive("good-etsy orders: done")
    assert pulls.rows.clock.now() - asked_at < MINUTE
    run_for(pulls, 120)
    assert not pulls.breakers.load("etsy").is_open
    assert row(pulls, good, "completed_at") is not None
    calls = [shop for shop, _ in pulls.script.asks].count("bad-etsy")
    assert calls < 40, "what does not answer is asked ever more seldom"
    pulls.script.broken = {}
    run_for(pulls, 60)
    assert pulls.rows.one("SELECT count(*) FROM sync_jobs WHERE completed_at IS NULL") == 0
    assert pulls.rows.one("SELECT count(*) FROM notices") == 0


def test_an_app_that_is_refused_costs_no_seller_a_job_or_a_shop(pulls: Pulls) -> None:
    ids = [pulls.rows.add(f"s{number}") for number in range(4)]
    refusal = AppRefusedError("etsy refuses our app's key", provider="etsy", status=401)
    pulls.script.broken = {f"s{number}-etsy": refusal for number in range(4)}
    run_for(pulls, 300)
    assert {row(pulls, job_id, "status, retry_count") for job_id in ids} == {("queued", 0)}
    pulls.script.broken = {}
    run_for(pulls, 60)
    assert {row(pulls, job_id, "status") for job_id in ids} == {"completed"}
    assert pulls.rows.one("SELECT count(*) FROM notices") == 0
