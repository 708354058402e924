"""Deliveries are taken once, wake one job, and leave alone what may not run."""

import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.core.accounts.jobs import Account, DataKind
from headway.core.accounts.refusals import UNINSTALLED
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.store.accounts.erasures import Erasures
from headway.store.accounts.troubles import AccountTroubles
from headway.store.accounts.webhooks import DeliveryResult, Webhooks
from headway_lab.platforms import ETSY, SHOPIFY

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
SHOP = "one.myshopify.com"
Execute = Callable[..., list[Any]]
numbers = itertools.count(1)
JOB = """
INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, tier, score, status,
  next_run_at, lease_owner, lease_until)
VALUES (%s, 'acme', 'shopify', %s, %s, 'growth', %s, %s, %s, %s, %s) RETURNING id::text
"""


@pytest.fixture
def execute(pool: ConnectionPool) -> Execute:
    def run(statement: str, *values: object) -> list[Any]:
        with pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def account(execute: Execute) -> str:
    ((account_id,),) = execute(
        "INSERT INTO connected_accounts (user_id, platform, shop)"
        " VALUES ('acme', 'shopify', %s) RETURNING id::text",
        SHOP,
    )
    return str(account_id)


@pytest.fixture
def make(execute: Execute, account: str) -> Callable[..., str]:
    def job(status: str, *, kind: str = "orders", job_type: str = "incremental") -> str:
        is_running = status == "running"
        is_over = status in {"dead", "cancelled"} or (
            status == "completed" and job_type == "backfill"
        )
        score = 30 + ("backfill", "incremental", "webhook_triggered").index(job_type) + 1
        lease = ("w", LATER) if is_running else (None, None)
        due = None if is_over else LATER
        ((job_id,),) = execute(JOB, account, kind, job_type, score, status, due, *lease)
        return str(job_id)

    return job


def hook(effect: WebhookEffect = WebhookEffect.WAKE, **values: Any) -> Webhook:
    usual: dict[str, Any] = {
        "platform": SHOPIFY,
        "delivery_id": f"w-{next(numbers)}",
        "shop": SHOP,
        "topic": "orders/updated",
        "kind": DataKind.ORDERS if effect is WebhookEffect.WAKE else None,
        "external_id": "1" if effect is WebhookEffect.WAKE else None,
    }
    return Webhook(effect=effect, **{**usual, **values})


def state(execute: Execute, job_id: str) -> tuple[Any, ...]:
    (row,) = execute(
        "SELECT status, job_type, score, next_run_at, woken_at FROM sync_jobs WHERE id = %s", job_id
    )
    return tuple(row)


@pytest.mark.parametrize(
    ("status", "then"),
    (
        ("queued", ("queued", "webhook_triggered", 33, NOW, None)),
        ("completed", ("queued", "webhook_triggered", 33, NOW, None)),
        ("running", ("running", "webhook_triggered", 33, LATER, NOW)),
        ("failed", ("failed", "webhook_triggered", 33, LATER, None)),
        ("plan_limit_reached", ("plan_limit_reached", "incremental", 32, LATER, None)),
        ("dead", ("dead", "incremental", 32, None, None)),
        ("cancelled", ("cancelled", "incremental", 32, None, None)),
    ),
)
def test_a_delivery_wakes_a_job_that_may_run(
    pool: ConnectionPool,
    execute: Execute,
    make: Callable[..., str],
    status: str,
    then: tuple[Any, ...],
) -> None:
    job_id = make(status)
    assert Webhooks(pool).take(hook(), now=NOW) is DeliveryResult.TAKEN
    assert state(execute, job_id) == then
    query = "SELECT count(*) FROM webhook_deliveries WHERE handled_at IS NULL"
    assert execute(query) == [(1,)], "it stays wanted until somebody has read it"


def test_only_the_job_that_looks_for_news_of_that_kind_is_woken(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str]
) -> None:
    history = make("queued", job_type="backfill")
    listings, orders = make("queued", kind="listings"), make("queued")
    before = state(execute, history), state(execute, listings)
    Webhooks(pool).take(hook(), now=NOW)
    assert (state(execute, history), state(execute, listings)) == before
    assert state(execute, orders)[3] == NOW


def test_a_job_that_is_due_already_is_not_put_back(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str]
) -> None:
    job_id = make("queued")
    Webhooks(pool).take(hook(), now=NOW)
    Webhooks(pool).take(hook(), now=NOW + timedelta(minutes=1))
    assert state(execute, job_id)[3] == NOW


def test_a_delivery_is_taken_once_however_many_bring_it_at_once(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str]
) -> None:
    make("queued")
    hooks, same, fates = Webhooks(pool), hook(), []
    threads = [
        threading.Thread(target=lambda: fates.append(hooks.take(same, now=NOW))) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(fates) == [*[DeliveryResult.REPEATED] * 9, DeliveryResult.TAKEN]
    assert execute("SELECT count(*) FROM webhook_deliveries") == [(1,)]


def test_a_burst_for_one_account_is_one_job_and_one_event(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str]
) -> None:
    job_id = make("completed")
    hooks = Webhooks(pool)
    burst = [hook(external_id=str(number)) for number in range(200)]
    threads = [
        threading.Thread(target=lambda part: [hooks.take(x, now=NOW) for x in part], args=(part,))
        for part in (burst[start::8] for start in range(8))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    due = "SELECT id::text FROM sync_jobs WHERE status = 'queued' AND next_run_at <= %s"
    assert execute(due, NOW) == [(job_id,)]
    assert execute("SELECT count(*) FROM webhook_deliveries WHERE handled_at IS NULL") == [(200,)]
    woken = "SELECT job_id::text FROM sync_audit_log WHERE event_type = 'job_woken'"
    assert execute(woken) == [(job_id,)]


def test_a_replay_of_a_delivery_that_was_read_wakes_nobody(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str]
) -> None:
    job_id, same = make("queued"), hook()
    Webhooks(pool).take(same, now=NOW)
    execute("UPDATE webhook_deliveries SET handled_at = %s", NOW)
    execute("UPDATE sync_jobs SET next_run_at = %s, job_type = 'incremental', score = 32", LATER)
    assert Webhooks(pool).take(same, now=NOW) is DeliveryResult.REPEATED
    assert state(execute, job_id)[:4] == ("queued", "incremental", 32, LATER)


def test_a_shop_that_is_not_connected_leaves_no_trace(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str]
) -> None:
    make("queued")
    for stranger in (hook(shop="two.myshopify.com"), hook(platform=ETSY)):
        assert Webhooks(pool).take(stranger, now=NOW) is DeliveryResult.UNKNOWN_SHOP
    assert execute("SELECT count(*) FROM webhook_deliveries") == [(0,)]
    assert execute("SELECT count(*) FROM sync_audit_log") == [(0,)]


def test_the_end_of_an_account_cancels_its_jobs_and_notifies_the_seller_once(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str]
) -> None:
    running, dead = make("running"), make("dead", kind="listings")
    pulled = make("completed", job_type="backfill")
    reason = "the shop was disconnected from Printify"
    end = hook(WebhookEffect.DISCONNECT, topic="shop:disconnected", reason=reason)
    for _ in range(2):
        Webhooks(pool).take(end, now=NOW)
    assert execute("SELECT status, reason FROM connected_accounts") == [("disconnected", reason)]
    assert [state(execute, job)[0] for job in (running, dead, pulled)] == [
        "cancelled", "dead", "completed",
    ]  # fmt: skip
    lease = "SELECT fence, lease_owner FROM sync_jobs WHERE id = %s"
    assert execute(lease, running) == [(1, None)]
    assert execute("SELECT user_id, topic FROM notices") == [("acme", "account_disconnected")]
    events = "SELECT event_type FROM sync_audit_log ORDER BY 1"
    assert execute(events) == [("account_disconnected",), ("job_cancelled",)]


def test_an_uninstall_that_a_webhook_reports_ends_nothing_until_the_shop_refuses_the_token(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str], account: str
) -> None:
    job = make("queued")
    Webhooks(pool).take(hook(WebhookEffect.UNINSTALL, topic="app/uninstalled"), now=NOW)
    shop = "SELECT status, uninstalled_at, drift_check_at FROM connected_accounts"
    assert execute(shop) == [("connected", NOW, NOW)]
    assert execute("SELECT next_run_at FROM sync_jobs WHERE id = %s", job) == [(NOW,)]
    troubles = AccountTroubles(pool)
    ours = Account(id=account, user_id="acme", platform=SHOPIFY, shop=SHOP)
    troubles.accept(ours, now=NOW)
    assert execute(shop) == [("connected", None, NOW)]
    assert not troubles.refuse(ours, "no", now=NOW).ends
    Webhooks(pool).take(hook(WebhookEffect.UNINSTALL, topic="app/uninstalled"), now=NOW)
    verdict = troubles.refuse(ours, "no", now=NOW)
    assert (verdict.ends, verdict.reason) == (True, UNINSTALLED)


@pytest.fixture
def people(execute: Execute, account: str) -> str:
    ((other,),) = execute(
        "INSERT INTO connected_accounts (user_id, platform, shop)"
        " VALUES ('zenith', 'shopify', 'two.myshopify.com') RETURNING id::text"
    )
    for owner, number in ((account, 1), (account, 2), (other, 1)):
        execute(
            "INSERT INTO customers (account_id, external_id, user_id, platform, name, email,"
            " country, created_at, updated_at)"
            " VALUES (%s, %s, 'x', 'shopify', 'Ann', 'ann@example', 'AT', %s, %s)",
            owner, str(number), NOW, NOW,
        )  # fmt: skip
        for kind in ("customers", "orders"):
            execute(
                "INSERT INTO unreadable_records (account_id, kind, external_id, user_id, reason,"
                " raw, seen_at) VALUES (%s, %s, %s, 'x', 'odd', '{}', %s)",
                owner, kind, str(number), NOW,
            )  # fmt: skip
    return other


def named(execute: Execute) -> list[tuple[str, str, str]]:
    rows = "SELECT user_id, right(external_id, 1), name || email FROM customers AS row JOIN"
    own = " (SELECT id, user_id AS seller FROM connected_accounts) AS a ON a.id = account_id"
    rows_left = execute(rows.replace("user_id", "seller") + own + " ORDER BY 1, 2")
    return [tuple(row) for row in rows_left]


def test_a_customer_who_wants_to_be_forgotten_is(
    pool: ConnectionPool, execute: Execute, people: str
) -> None:
    forgets = hook(
        WebhookEffect.REDACT_CUSTOMER,
        topic="customers/redact",
        external_id="1",
        order_ids=("2",),
    )
    Webhooks(pool).take(forgets, now=NOW)
    assert not Erasures(pool).work(NOW), "nothing is left to do"
    assert named(execute) == [("acme", "2", "Annann@example"), ("zenith", "1", "Annann@example")]
    left = execute("SELECT kind, right(external_id, 1) FROM unreadable_records ORDER BY 1, 2")
    assert left == [("customers", "1"), ("customers", "2"), ("orders", "1"), ("orders", "1")]
    taken = "SELECT kind, handled_at, external_id FROM webhook_deliveries"
    assert execute(taken) == [("privacy", NOW, None)]
    erased = "SELECT kind, cause, status FROM erasures"
    assert execute(erased) == [("customer", "customers/redact", "sweeping")]


def test_a_webhook_about_an_erased_customer_leaves_no_id_behind(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str], people: str
) -> None:
    job = make("queued", kind="customers")
    forgets = hook(WebhookEffect.REDACT_CUSTOMER, topic="customers/redact", external_id="1")
    Webhooks(pool).take(forgets, now=NOW)
    for later in (
        hook(topic="customers/update", kind=DataKind.CUSTOMERS, external_id="1"),
        hook(WebhookEffect.RECORD, topic="customers/data_request", external_id="1"),
    ):
        assert Webhooks(pool).take(later, now=NOW) is DeliveryResult.TAKEN
    assert execute("SELECT count(*) FROM webhook_deliveries WHERE external_id IS NOT NULL") == [
        (0,)
    ]
    assert execute("SELECT count(*) FROM privacy_requests") == [(0,)]
    assert state(execute, job)[3] == LATER, "and wakes nobody"


def test_a_shop_that_wants_to_be_forgotten_is_and_no_other(
    pool: ConnectionPool, execute: Execute, people: str
) -> None:
    Webhooks(pool).take(hook(WebhookEffect.REDACT_SHOP, topic="shop/redact"), now=NOW)
    Erasures(pool).work(NOW)
    assert named(execute) == [("zenith", "1", "Annann@example")]
    assert execute("SELECT DISTINCT account_id::text FROM unreadable_records") == [(people,)]
    assert execute("SELECT user_id FROM connected_accounts") == [("zenith",)]


def test_a_request_for_data_is_kept_for_a_person(
    pool: ConnectionPool, execute: Execute, people: str
) -> None:
    asks = hook(
        WebhookEffect.RECORD, topic="customers/data_request", external_id="1", order_ids=("7",)
    )
    for _ in range(2):
        Webhooks(pool).take(asks, now=NOW)
    kept = "SELECT customer_id, order_ids, due_at - requested_at, done_at FROM privacy_requests"
    assert execute(kept) == [("1", ["7"], timedelta(days=30), None)]
    event = "SELECT user_id FROM sync_audit_log WHERE event_type = 'data_request_received'"
    assert execute(event) == [("acme",)]
    assert ("acme", "1", "Annann@example") in named(execute)


def test_deliveries_are_forgotten_once_handled_and_old(
    pool: ConnectionPool, execute: Execute, make: Callable[..., str]
) -> None:
    make("dead")
    for at in (NOW, NOW, LATER):
        Webhooks(pool).take(hook(), now=at)
    execute(
        "UPDATE webhook_deliveries SET handled_at = received_at WHERE delivery_id IN"
        " (SELECT delivery_id FROM webhook_deliveries ORDER BY received_at, delivery_id OFFSET 1)"
    )
    assert Webhooks(pool).forget(LATER) == 1
    assert execute("SELECT count(*) FROM webhook_deliveries") == [(2,)]
