"""Law L16: one row that makes every page fail is narrowed down; the others are read."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.narrowing_setup import Shop, make_shop

from headway.clock import rng
from headway.core.accounts.jobs import DataKind
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.store.accounts.webhooks import Webhooks
from headway_lab.platforms import ETSY, PRINTIFY
from headway_lab.simulators.poison import PoisonForm
from headway_lab.simulators.reply import SimReply

FORMS = (PoisonForm.ERROR, PoisonForm.REFUSED, PoisonForm.HTML, PoisonForm.LARGE)


def add_orders(shop: Shop, count: int) -> list[str]:
    ids = []
    for _ in range(count):
        ids.append(str(shop.simulator.place_order(shop.number)))
        shop.pulls.rows.clock.sleep(1)
    return ids


def add_listings(shop: Shop, count: int) -> list[str]:
    add = shop.simulator.add_listing if is_etsy(shop) else shop.simulator.add_product
    return [str(add(shop.number)) for _ in range(count)]


def is_etsy(shop: Shop) -> bool:
    return hasattr(shop.simulator, "add_listing")


def check_culprit(shop: Shop, job_id: str) -> None:
    assert shop.job(job_id, "completed_at") is not None
    assert shop.job(job_id, "status") != "dead"
    ((name, reason),) = shop.unreadable()
    assert name.startswith("unnamed row ")
    assert reason
    assert shop.pulls.rows.one("SELECT status FROM connected_accounts") == "connected"


# Every form in the middle of a list, and one form at its edges.
PLACES = [(17, form) for form in FORMS] + [(place, PoisonForm.ERROR) for place in (0, -1)]


CASES = [("incremental", place, form) for place, form in PLACES] + [
    pytest.param("backfill", place, form, marks=() if place == 0 else pytest.mark.campaign)
    for place, form in PLACES
]


@pytest.mark.parametrize(("job_type", "place", "form"), CASES)
@pytest.mark.parametrize("platform", (ETSY, PRINTIFY))
def test_a_row_that_fails_its_page_of_orders_costs_no_other_order(
    pool: ConnectionPool, platform: str, job_type: str, place: int, form: PoisonForm
) -> None:
    shop = make_shop(pool, platform)
    ids = add_orders(shop, 45)
    shop.server.texts, shop.server.form = {ids[place]}, form
    job_id = shop.add_job("orders", job_type)
    shop.run(hours=1)
    assert shop.ids("orders") == set(ids) - {ids[place]}
    check_culprit(shop, job_id)
    runs = shop.pulls.rows.one(
        "SELECT count(*) FROM sync_audit_log WHERE event_type = 'job_completed'"
    )
    assert shop.server.failures <= 10 * runs, "a page is not asked for again and again"


@pytest.mark.parametrize("platform", (ETSY, PRINTIFY))
def test_a_row_that_fails_its_page_of_listings_costs_no_other_listing(
    pool: ConnectionPool, platform: str
) -> None:
    shop = make_shop(pool, platform)
    ids = add_listings(shop, 60)
    shop.server.texts = {ids[31]}
    job_id = shop.add_job("listings")
    shop.run(hours=1)
    stored = {id_.partition(":")[0].partition("-")[0] for id_ in shop.ids("listings")}
    assert stored == set(ids) - {ids[31]}
    check_culprit(shop, job_id)


@pytest.mark.parametrize(
    ("platform", "kind", "count", "row_bytes"),
    ((PRINTIFY, "listings", 60, 183_000), (ETSY, "orders", 130, 57_000)),
)
def test_pages_too_large_to_be_read_are_asked_for_in_smaller_ones_and_no_row_is_set_aside(
    pool: ConnectionPool, platform: str, kind: str, count: int, row_bytes: int
) -> None:
    """Check it with rows as large as real ones: no single row is at fault."""
    shop = make_shop(pool, platform)
    ids = (add_listings if kind == "listings" else add_orders)(shop, count)
    handle, sizes = shop.server.handle, []

    def heavy(method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        reply = handle(method, path, headers, body)
        fields = json.loads(reply.body)
        rows = fields.get("data") or fields.get("results") or ()
        large = replace(reply, body=reply.body + b" " * row_bytes * len(rows))
        sizes.append(len(large.body))
        return large

    shop.server.handle = heavy
    job_id = shop.add_job(kind)
    shop.run(hours=1)
    assert max(sizes) > 5_000_000
    assert shop.job(job_id, "completed_at") is not None
    stored = {id_.partition(":")[0] for id_ in shop.ids(kind)}
    assert (stored, shop.unreadable()) == (set(ids), [])


@pytest.mark.parametrize("place", (0, 17, -1))
@pytest.mark.parametrize("platform", (ETSY, PRINTIFY))
def test_later_runs_read_around_a_row_that_is_known_to_fail(
    pool: ConnectionPool, platform: str, place: int
) -> None:
    """A row is narrowed down once; then it costs a few calls a day, and nobody's order is lost."""
    shop = make_shop(pool, platform)
    ids = add_orders(shop, 24)
    bad = ids[place]
    shop.server.texts = {bad}
    shop.add_job("orders")
    shop.run(hours=0.3)
    found_after = shop.server.failures
    ids += add_orders(shop, 2)
    shop.run(hours=2 if platform == ETSY else 4)  # the share of errors pauses Printify
    assert shop.ids("orders") == set(ids) - {bad}
    assert shop.server.failures - found_after <= 6, "it is not narrowed down in every run"


@pytest.mark.parametrize("platform", (ETSY, PRINTIFY))
def test_a_row_that_failed_is_read_once_its_fault_has_ended(
    pool: ConnectionPool, platform: str
) -> None:
    shop = make_shop(pool, platform)
    ids = add_orders(shop, 4)
    shop.server.texts = {ids[-1]}
    job_id = shop.add_job("orders")
    shop.run(hours=0.2)
    assert shop.ids("orders") == set(ids[:-1])
    shop.server.texts = set()
    shop.run(hours=1.5)
    assert shop.ids("orders") == set(ids)
    assert shop.unreadable() == []
    assert shop.job(job_id, "cursor -> 'known'") is None


def test_a_row_that_the_database_refuses_costs_no_other_row_and_every_call_is_counted(
    pool: ConnectionPool,
) -> None:
    shop = make_shop(pool, ETSY)
    ids = add_listings(shop, 30)
    sku = "".join(rng(3).choices("abcdefghijklmnopqrstuvwxyz0123456789äöüß", k=4500))
    shop.simulator.edit_listing(shop.number, int(ids[11]), sku=sku)
    job_id = shop.add_job("listings")
    shop.run(hours=0.2)
    assert shop.ids("listings") == set(ids) - {ids[11]}
    ((name, reason),) = shop.unreadable()
    assert (name, reason[:25]) == (ids[11], "the database refuses it: ")
    assert shop.job(job_id, "status, last_error, rescue_count") == ("completed", None, 0)
    calls = shop.simulator.log.calls
    assert shop.job(job_id, "queries_used") == calls


def test_a_row_that_fails_its_page_of_the_ledger_costs_no_other_payment(
    pool: ConnectionPool,
) -> None:
    shop = make_shop(pool, ETSY)
    add_orders(shop, 30)
    entries = list(shop.simulator.truth(shop.number)["payments"])
    shop.server.texts = {f'"entry_id":{entries[7]}'}
    shop.pulls.rows.clock.sleep(3600)
    job_id = shop.add_job("payments")
    shop.run(hours=1)
    assert shop.ids("payments") == set(entries) - {entries[7]}
    check_culprit(shop, job_id)


@pytest.mark.parametrize("platform", (ETSY, PRINTIFY))
def test_an_outage_convicts_no_row(pool: ConnectionPool, platform: str) -> None:
    shop = make_shop(pool, platform)
    ids = add_orders(shop, 30)
    shop.server.texts = {"{"}
    job_id = shop.add_job("orders")
    shop.run(hours=0.3)
    assert shop.unreadable() == []
    shop.server.texts = set()
    shop.run(hours=2)
    assert shop.ids("orders") == set(ids)
    assert shop.unreadable() == []
    assert shop.job(job_id, "status") != "dead"


@pytest.mark.parametrize("form", (PoisonForm.ERROR, PoisonForm.REFUSED, PoisonForm.HTML))
@pytest.mark.parametrize("platform", (ETSY, PRINTIFY))
def test_an_order_whose_single_read_fails_is_set_aside_and_the_list_goes_on(
    pool: ConnectionPool, platform: str, form: PoisonForm
) -> None:
    shop = make_shop(pool, platform)
    ids = add_orders(shop, 3)
    job_id = shop.add_job("orders")
    shop.run(hours=0.1)
    assert shop.ids("orders") == set(ids)
    shop.server.texts, shop.server.form, shop.server.path = {ids[1]}, form, ids[1]
    take_webhook(shop, ids[1])
    new = add_orders(shop, 2)
    shop.run(hours=3)
    assert shop.ids("orders") == {*ids, *new}
    assert shop.job(job_id, "retry_count") == 0
    if not (platform == PRINTIFY and form is PoisonForm.REFUSED):  # there it means "no such order"
        assert set(shop.job(job_id, "cursor -> 'aside'")) == {ids[1]}
        assert 3 <= shop.server.failures <= 8, "it is tried again, ever more seldom"
    shop.server.texts = set()
    shop.run(hours=12)
    assert shop.job(job_id, "cursor -> 'aside'") is None
    assert shop.unreadable() == []


def take_webhook(shop: Shop, order_id: str) -> None:
    webhook = Webhook(
        platform=ETSY if is_etsy(shop) else PRINTIFY,
        delivery_id="1",
        shop=str(shop.number),
        topic="order",
        effect=WebhookEffect.WAKE,
        kind=DataKind.ORDERS,
        external_id=order_id,
    )
    Webhooks(shop.pulls.rows.pool).take(webhook, now=shop.pulls.rows.clock.now())


@pytest.mark.parametrize("platform", (ETSY, PRINTIFY))
def test_reads_by_name_do_not_end_the_failures_of_the_list(
    pool: ConnectionPool, platform: str
) -> None:
    shop = make_shop(pool, platform)
    ids = add_orders(shop, 3)
    job_id = shop.add_job("orders")
    shop.run(hours=0.1)
    path = "/receipts?" if is_etsy(shop) else "/orders.json"
    shop.server.texts, shop.server.path = {"{"}, path
    shop.run(hours=0.12)
    failures = shop.job(job_id, "retry_count")
    assert failures > 0
    take_webhook(shop, ids[0])
    shop.pulls.drive("narrowed down", steps=200)
    assert shop.job(job_id, "retry_count") >= failures
