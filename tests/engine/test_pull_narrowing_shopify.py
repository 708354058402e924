"""Law L16 at Shopify: a row that makes every page fail is narrowed down; the others are read."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.narrowing_setup import DOMAIN, Shop, make_shop

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.store.accounts.webhooks import Webhooks
from headway_lab.platforms import SHOPIFY
from headway_lab.simulators.poison import PoisonForm
from headway_lab.simulators.reply import SimReply

FORMS = (
    PoisonForm.GRAPHQL,
    PoisonForm.ERROR,
    PoisonForm.REFUSED,
    PoisonForm.HTML,
    PoisonForm.LARGE,
)
Row = tuple[str, str]  # the id of a record, and a text that only its full row contains


def add_orders(shop: Shop, count: int) -> list[Row]:
    rows = []
    for number in range(count):
        rows.append((shop.simulator.place_order(DOMAIN, [("S", 1)]), f'"#{1001 + number}"'))
        shop.pulls.rows.clock.sleep(1)
    return rows


def add_customers(shop: Shop, count: int) -> list[Row]:
    rows = []
    for number in range(count):
        rows.append((shop.simulator.add_customer(DOMAIN, f"Buyer {number}."), f"Buyer {number}."))
        shop.pulls.rows.clock.sleep(1)
    return rows


def add_products(shop: Shop, count: int) -> list[Row]:
    rows = []
    for number in range(count):
        ids = shop.simulator.seed_product(DOMAIN, f"S-{number}-")
        rows.append((ids.variant.rpartition("/")[2], f"S-{number}-"))
        shop.pulls.rows.clock.sleep(1)
    return rows


ADD: dict[str, Callable[[Shop, int], list[Row]]] = {
    "orders": add_orders,
    "customers": add_customers,
    "listings": add_products,
}
WALKS = (
    ("orders", "incremental"),
    ("orders", "backfill"),
    ("customers", "incremental"),
    ("customers", "backfill"),
    ("listings", "incremental"),
)


def make_due(shop: Shop) -> None:
    """Let all jobs run now, whatever their interval."""
    now = shop.pulls.rows.clock.now()
    shop.pulls.rows.ask("UPDATE sync_jobs SET next_run_at = %s", now)


def check_culprit(shop: Shop, job_id: str) -> str:
    assert shop.job(job_id, "completed_at") is not None
    assert shop.job(job_id, "status") != "dead"
    ((name, reason),) = shop.unreadable()
    assert reason
    assert shop.pulls.rows.one("SELECT status FROM connected_accounts") == "connected"
    return name


@pytest.mark.parametrize(
    ("place", "form"),
    ((0, PoisonForm.GRAPHQL), (-1, PoisonForm.GRAPHQL), *((17, form) for form in FORMS)),
)
@pytest.mark.parametrize(("kind", "job_type"), WALKS)
def test_a_row_that_fails_its_page_costs_no_other_row(
    pool: ConnectionPool, kind: str, job_type: str, place: int, form: PoisonForm
) -> None:
    shop = make_shop(pool, SHOPIFY)
    rows = ADD[kind](shop, 30)
    ids, (culprit, text) = {id_ for id_, _ in rows}, rows[place]
    shop.server.texts, shop.server.form = {text}, form
    job_id = shop.add_job(kind, job_type)
    shop.run(hours=1)
    assert shop.ids(kind) == ids - {culprit}
    assert check_culprit(shop, job_id) == culprit
    runs = shop.pulls.rows.one(
        "SELECT count(*) FROM sync_audit_log WHERE event_type = 'job_completed'"
    )
    assert shop.server.failures <= 10 * runs, "a page is not asked for again and again"


@pytest.mark.parametrize("kind", ("orders", "customers"))
def test_a_row_that_was_passed_over_is_read_by_name_once_it_is_well(
    pool: ConnectionPool, kind: str
) -> None:
    shop = make_shop(pool, SHOPIFY)
    rows = ADD[kind](shop, 5)
    shop.server.texts, shop.server.form = {rows[2][1]}, PoisonForm.GRAPHQL
    shop.add_job(kind)
    shop.run(hours=0.5)
    assert len(shop.unreadable()) == 1
    shop.server.texts = set()
    shop.pulls.rows.clock.sleep(7200)
    make_due(shop)
    shop.run(hours=0.1)
    assert shop.ids(kind) == {id_ for id_, _ in rows}
    assert shop.unreadable() == []


@pytest.mark.parametrize(("kind", "job_type"), WALKS)
def test_a_row_whose_id_fails_too_is_passed_by_its_cursor(
    pool: ConnectionPool, kind: str, job_type: str
) -> None:
    shop = make_shop(pool, SHOPIFY)
    rows = ADD[kind](shop, 30)
    culprit = rows[8][0]
    shop.server.texts, shop.server.form = {f'/{culprit}"'}, PoisonForm.GRAPHQL
    job_id = shop.add_job(kind, job_type)
    shop.run(hours=1)
    assert shop.ids(kind) == {id_ for id_, _ in rows} - {culprit}
    assert check_culprit(shop, job_id) == f"unnamed row before {rows[9][0]}"


def test_two_rows_that_fail_in_a_row_are_both_found(pool: ConnectionPool) -> None:
    shop = make_shop(pool, SHOPIFY)
    rows = add_orders(shop, 20)
    shop.server.texts, shop.server.form = {rows[5][1], rows[6][1]}, PoisonForm.GRAPHQL
    shop.add_job("orders")
    shop.run(hours=1)
    assert shop.ids("orders") == {id_ for id_, _ in rows} - {rows[5][0], rows[6][0]}
    assert {name for name, _ in shop.unreadable()} == {rows[5][0], rows[6][0]}


def test_products_that_change_are_narrowed_down_too(pool: ConnectionPool) -> None:
    shop = make_shop(pool, SHOPIFY)
    rows = add_products(shop, 20)
    shop.add_job("listings")
    shop.run(hours=1)
    shop.pulls.rows.clock.sleep(600)
    for _, sku in rows:
        shop.simulator.edit_product(DOMAIN, sku, title=f"new {sku}")
    shop.server.texts, shop.server.form = {f"new {rows[7][1]}"}, PoisonForm.GRAPHQL
    make_due(shop)
    shop.run(hours=0.5)
    titles = shop.pulls.rows.ask("SELECT title FROM listings WHERE title LIKE 'new%%'")
    assert {title for (title,) in titles} == {f"new {sku}" for _, sku in rows} - shop.server.texts
    assert len(shop.unreadable()) == 1
    shop.server.texts = set()
    make_due(shop)
    shop.run(hours=0.1)
    assert shop.unreadable() == []


@pytest.mark.parametrize("kind", ("orders", "customers", "listings"))
def test_an_outage_convicts_no_row(pool: ConnectionPool, kind: str) -> None:
    shop = make_shop(pool, SHOPIFY)
    rows = ADD[kind](shop, 20)
    shop.server.texts = {"{"}
    job_id = shop.add_job(kind)
    shop.run(hours=0.3)
    assert shop.unreadable() == []
    shop.server.texts = set()
    shop.run(hours=2)
    assert shop.ids(kind) == {id_ for id_, _ in rows}
    assert shop.unreadable() == []
    assert shop.job(job_id, "status") != "dead"


def take_webhook(shop: Shop, kind: DataKind, external_id: str) -> None:
    webhook = Webhook(
        platform=SHOPIFY,
        delivery_id=external_id,
        shop=DOMAIN,
        topic="orders/updated",
        effect=WebhookEffect.WAKE,
        kind=kind,
        external_id=external_id,
    )
    Webhooks(shop.pulls.rows.pool).take(webhook, now=shop.pulls.rows.clock.now())


@pytest.mark.parametrize("form", (PoisonForm.GRAPHQL, PoisonForm.ERROR, PoisonForm.REFUSED))
@pytest.mark.parametrize("kind", (DataKind.ORDERS, DataKind.CUSTOMERS))
def test_a_row_whose_read_by_name_fails_is_set_aside_and_the_others_are_read(
    pool: ConnectionPool, kind: DataKind, form: PoisonForm
) -> None:
    shop = make_shop(pool, SHOPIFY)
    rows = ADD[kind](shop, 3)
    job_id = shop.add_job(kind)
    shop.run(hours=0.1)
    shop.pulls.rows.clock.sleep(3 * 86_400)  # no list shows them any more
    shop.run(hours=0.1)
    shop.server.texts, shop.server.form = {rows[1][1]}, form
    for id_, _ in rows:
        take_webhook(shop, kind, id_)
    shop.run(hours=3)
    assert shop.job(job_id, "retry_count") == 0
    assert set(shop.job(job_id, "cursor -> 'aside'")) == {rows[1][0]}
    assert 2 <= shop.server.failures <= 9, "it is tried again, ever more seldom"
    shop.server.texts = set()
    shop.run(hours=12)
    assert shop.job(job_id, "cursor -> 'aside'") is None
    assert shop.unreadable() == []


def test_an_order_of_many_positions_that_fails_alone_is_set_aside(pool: ConnectionPool) -> None:
    shop = make_shop(pool, SHOPIFY)
    long = shop.simulator.place_order(DOMAIN, [(f"S{number}", 1) for number in range(60)])
    rows = add_orders(shop, 5)
    shop.server.texts, shop.server.form = {'"S59"'}, PoisonForm.GRAPHQL
    job_id = shop.add_job("orders")
    shop.run(hours=1)
    assert shop.ids("orders") == {id_ for id_, _ in rows}
    assert check_culprit(shop, job_id) == long
    shop.server.texts = set()
    shop.run(hours=12)
    assert shop.ids("orders") == {long, *(id_ for id_, _ in rows)}
    assert shop.unreadable() == []


def edit_replies(shop: Shop, edit: Callable[[Any], None]) -> None:
    """Let replies be changed on their way."""
    handle = shop.server.handle

    def edited(*request: Any) -> SimReply:
        reply = handle(*request)
        body = json.loads(reply.body)
        edit(body)
        return replace(reply, body=json.dumps(body).encode())

    shop.server.handle = edited


def rows_of(body: Any) -> list[tuple[list[str | int], Any]]:
    data = body.get("data") or {}
    lists = [
        (name, value)
        for name, value in data.items()
        if isinstance(value, dict) and "nodes" in value
    ]
    return [
        ([name, "nodes", place], row)
        for name, value in lists
        for place, row in enumerate(value["nodes"])
    ]


def test_a_partial_error_about_one_row_costs_no_other_row(pool: ConnectionPool) -> None:
    shop = make_shop(pool, SHOPIFY)
    rows = add_orders(shop, 30)
    culprit = rows[11][0]

    def spoil(body: Any) -> None:
        for path, row in rows_of(body):
            if row.get("id", "").endswith(f"/{culprit}"):
                row["customer"] = None
                code = {"code": "INTERNAL_SERVER_ERROR"}
                error = {"message": "Internal", "path": [*path, "customer"], "extensions": code}
                body["errors"] = [error]

    edit_replies(shop, spoil)
    job_id = shop.add_job("orders")
    shop.run(hours=1)
    assert shop.ids("orders") >= {id_ for id_, _ in rows} - {culprit}
    assert shop.job(job_id, "completed_at") is not None


def test_a_field_that_is_denied_is_empty_and_the_page_goes_on(pool: ConnectionPool) -> None:
    shop = make_shop(pool, SHOPIFY)
    for number in range(3):
        shop.simulator.add_customer(DOMAIN, f"B{number}", email=f"b{number}@example.com")

    def deny(body: Any) -> None:
        for path, row in rows_of(body):
            row["defaultEmailAddress"] = None
            error = {
                "message": "Access denied for defaultEmailAddress field.",
                "path": [*path, "defaultEmailAddress"],
                "extensions": {"code": "ACCESS_DENIED"},
            }
            body.setdefault("errors", []).append(error)

    edit_replies(shop, deny)
    job_id = shop.add_job("customers")
    shop.run(hours=0.2)
    assert shop.pulls.rows.ask("SELECT name, email FROM customers ORDER BY name") == [
        (f"B{number}", "") for number in range(3)
    ]
    assert shop.job(job_id, "retry_count") == 0
