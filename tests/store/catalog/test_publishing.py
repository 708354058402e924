"""A part is asked for once, however often and by however many at the same time."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import fresh_id, rng
from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.intake import ImportedPart, ImportRow
from headway.core.catalog.lifecycle import FailureRule, Judge
from headway.core.catalog.listings import Reply, SellerId, Sku
from headway.core.timetable.policies.rolling import Rolling
from headway.errors import ConflictError, InvalidError
from headway.store.catalog.listings import Listings
from headway.store.catalog.part_removal import PartRemoval
from headway.store.catalog.products import Products
from headway.store.catalog.publishing import PARTS_MAX, Publishing
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

CONNECT = """
INSERT INTO connected_accounts (user_id, platform, shop, status, reason)
VALUES (%s, 'shopify', %s || '.myshopify.com', %s, 'uninstalled')
"""
IN_SHOP = """
INSERT INTO product (user_id, sku, shop_sku, shopify_product_id, shopify_variant_id,
  shopify_inventory_item_id) VALUES ('acme', %s, %s, %s, 'v', 'i')
"""
STAGED = "SELECT user_id, sku, shop_sku, status FROM product_staging ORDER BY user_id, sku"
SLOTS = """
SELECT user_id, sku, priority, next_sync_at, sync_status, is_active, consecutive_failures
FROM product_sync_schedule ORDER BY user_id, sku
"""
ids = rng("batches")
Ask = Callable[..., list[Any]]
Request = Callable[..., list[ImportedPart]]


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def query(statement: str, *values: object) -> list[Any]:
        with pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return query


@pytest.fixture
def publishing(pool: ConnectionPool, ask: Ask) -> Publishing:
    ask(CONNECT, "acme", "acme", "connected")
    return Publishing(pool)


@pytest.fixture
def request_(publishing: Publishing, clock: VirtualClock) -> Request:
    def ask_for(
        *skus: str, seller: str = "acme", form: Any = "same", batch_id: str | None = None
    ) -> list[ImportedPart]:
        return publishing.request(
            SellerId(seller),
            skus,
            batch_id=batch_id or fresh_id(ids),
            form=form,
            policy=Rolling(),
            now=clock.now(),
        )

    return ask_for


def statuses(parts: list[ImportedPart]) -> dict[str, str]:
    return {part.sku: part.status for part in parts}


def test_a_part_joins_call_the_next_call(request_: Request, clock: VirtualClock, ask: Ask) -> None:
    (part,) = request_(" WF1=K3 ", form="base")
    assert (part.sku, part.shop_sku, part.status, part.place) == ("WF1=K3", "WF1", "requested", 1)
    assert ask(STAGED) == [("acme", "WF1=K3", "WF1", "requested")]
    assert ask(SLOTS) == [("acme", "WF1=K3", "onboarding", clock.now(), "pending", True, 0)]
    place = Rolling().place(Sku("WF1=K3"), clock.now())
    assert ask("SELECT hour_bucket, minute_offset FROM product_sync_schedule") == [
        (place.hour_bucket, place.minute_offset)
    ]


def test_a_part_named_twice_is_one_part_and_the_order_is_kept(request_: Request) -> None:
    parts = request_("B", "A", "B ", "C", "A")
    assert [part.sku for part in parts] == ["B", "A", "C"]


def test_asking_again_makes_no_second_row_and_keeps_the_place(
    request_: Request, publishing: Publishing, clock: VirtualClock, ask: Ask
) -> None:
    request_("A")
    clock.sleep(60)
    batch_id = fresh_id(ids)
    assert statuses(request_("B", "A", batch_id=batch_id)) == {"A": "requested", "B": "requested"}
    assert len(ask(STAGED)) == len(ask(SLOTS)) == 2
    first, second = publishing.batch(batch_id)
    assert (first.sku, first.place, second.sku, second.place) == ("A", 1, "B", 2)


def test_a_part_that_was_read_waits_for_the_shop_and_is_not_read_again(
    request_: Request, ask: Ask
) -> None:
    request_("A")
    ask("UPDATE product_staging SET status = 'normalized'")
    ask("UPDATE product_sync_schedule SET priority = 'scheduled', sync_status = 'success'")
    (part,) = request_("A", form="base")
    assert (part.status, part.place) == ("normalized", None)
    assert ask("SELECT priority FROM product_sync_schedule") == [("scheduled",)]


def test_a_published_part_is_reported_and_left_alone(
    request_: Request, publishing: Publishing, ask: Ask
) -> None:
    ask(IN_SHOP, "A", "A", "gid://shopify/Product/1")
    batch_id = fresh_id(ids)
    for _ in range(2):
        (part,) = request_("A", batch_id=batch_id)
        assert (part.status, part.shopify_product_id) == ("created", "gid://shopify/Product/1")
    assert ask(SLOTS) == []
    ask("UPDATE product_staging SET status = 'published'")  # as a push that sees it does
    assert [part.status for part in request_("A", batch_id=batch_id)] == ["published"]
    assert statuses(publishing.batch(batch_id)) == {"A": "published"}


def test_a_product_that_the_shop_does_not_have_can_be_published(
    request_: Request, ask: Ask
) -> None:
    ask("INSERT INTO product (user_id, sku, shop_sku) VALUES ('acme', 'A=K3', 'MINE')")
    (part,) = request_("A=K3", form="base")
    assert (part.status, part.shop_sku) == ("requested", "MINE")


def test_a_product_with_only_one_imported_id_can_be_published(request_: Request, ask: Ask) -> None:
    ask(
        "INSERT INTO product (user_id, sku, shop_sku, shopify_product_id)"
        " VALUES ('acme', 'A', 'A', 'gid://shopify/Product/1')"
    )
    assert statuses(request_("A")) == {"A": "requested"}


@pytest.mark.parametrize("status", ("blocked", "failed"))
def test_a_failed_publication_can_be_requested_again(
    request_: Request, clock: VirtualClock, ask: Ask, status: str
) -> None:
    request_("A")
    ask("UPDATE product_staging SET status = %s, reason = 'a reason'", status)
    ask(
        "UPDATE product_sync_schedule SET sync_status = 'parked', is_active = false,"
        " priority = 'retry', consecutive_failures = 5, missing_count = 5, last_error = 'gone'"
    )
    clock.sleep(60)
    (part,) = request_("A")
    assert (part.status, part.reason) == ("requested", "")
    assert ask(SLOTS) == [("acme", "A", "onboarding", clock.now(), "pending", True, 0)]
    assert ask("SELECT event_type, sku FROM sync_audit_log") == [("listing_revived", "A")]


def test_a_part_in_backoff_joins_call_at_once_when_it_is_asked_for_again(
    request_: Request, clock: VirtualClock, ask: Ask
) -> None:
    request_("A")
    later = clock.now() + timedelta(hours=2)
    ask("UPDATE product_sync_schedule SET priority = 'retry', next_sync_at = %s", later)
    ask("UPDATE product_sync_schedule SET sync_status = 'failed', last_error = 'not there'")
    (part,) = request_("A")
    assert (part.place, part.due_at) == (1, clock.now())


def test_a_part_in_a_call_keeps_its_lease_and_is_read_once_more(
    request_: Request, pool: ConnectionPool, clock: VirtualClock, ask: Ask
) -> None:
    schedule, asked_at = Schedule(pool), clock.now() + timedelta(seconds=10)
    Listings(pool).add([(SellerId("acme"), Sku("A"))], policy=Rolling(), now=clock.now())
    until = clock.now() + timedelta(seconds=90)
    in_call = schedule.claim([Sku("A")], now=clock.now(), owner="w", lease_until=until)
    lease = "SELECT sync_status, fence, lease_owner, lease_until FROM product_sync_schedule"
    before = ask(lease)
    clock.sleep(10)
    (part,) = request_("A")
    assert ask(lease) == before
    assert (part.status, part.reason, part.place) == ("requested", "is being read now", None)
    judge = Judge(rule=FailureRule(), policy=Rolling())
    terms = Terms(locations={"Miami FL": "Miami FL"}, currency="USD")
    settled = judge.settle(in_call[0], Reply(quotes={}), asked_at, SellerSettings(terms=terms))
    assert schedule.settle([settled], now=asked_at, call_id=fresh_id(ids)) == 0
    due = "SELECT priority, next_sync_at FROM product_sync_schedule"
    assert ask(due) == [("onboarding", asked_at)]


def test_parts_that_would_be_one_in_the_shop_are_refused_and_the_others_go_on(
    request_: Request, ask: Ask
) -> None:
    parts = request_("A=K3", "B=1", "A=E9", "C", form="base")
    assert statuses(parts) == {
        "A=K3": "refused",
        "B=1": "requested",
        "A=E9": "refused",
        "C": "requested",
    }
    assert parts[0].reason == "A=E9 would have the same shop SKU A; ask for one of them"
    assert [row[1] for row in ask(STAGED)] == [row[1] for row in ask(SLOTS)] == ["B=1", "C"]


def test_a_shop_sku_that_is_another_parts_is_refused(request_: Request, ask: Ask) -> None:
    ask(IN_SHOP, "A=K3", "A", "g")
    request_("B=K3", form="base")
    parts = request_("A=E9", "A=K3", "B=E9", "B=K3", form="base")
    assert [part.status for part in parts] == ["refused", "created", "refused", "requested"]
    assert parts[0].reason == "its shop SKU A is that of A=K3"
    assert parts[2].reason == "its shop SKU B is that of B=K3"


def test_what_was_blocked_gives_its_shop_sku_to_its_like(request_: Request, ask: Ask) -> None:
    request_("A=K3", form="base")
    ask("UPDATE product_staging SET status = 'blocked'")
    assert statuses(request_("A=E9", form="base")) == {"A=E9": "requested"}
    assert ask(STAGED) == [("acme", "A=E9", "A", "requested")]
    read = ask("SELECT sku FROM product_sync_schedule WHERE is_active")
    assert read == [("A=E9",)], "what has lost its shop SKU is not read any more"


def test_a_part_that_was_blocked_and_then_imported_is_published(
    request_: Request, ask: Ask
) -> None:
    request_("A")
    ask("UPDATE product_staging SET status = 'blocked', reason = 'no stock'")
    ask(IN_SHOP, "A", "A", "g")
    (part,) = request_("A")
    assert (part.status, part.reason, part.shopify_product_id) == ("created", "", "g")


def test_sellers_are_walled_off_from_each_other(
    request_: Request, publishing: Publishing, ask: Ask
) -> None:
    ask(CONNECT, "zenith", "zenith", "connected")
    request_("A", "B")
    ask("UPDATE product_staging SET status = 'failed'")
    ask("UPDATE product_sync_schedule SET sync_status = 'parked', is_active = false")
    ask("INSERT INTO product (user_id, sku, shop_sku) VALUES ('acme', 'C', 'X')")
    before = ask(STAGED), ask(SLOTS)
    assert statuses(request_("A", "X", seller="zenith")) == {"A": "requested", "X": "requested"}
    mine = [row for row in ask(STAGED) if row[0] == "acme"]
    assert (mine, [row for row in ask(SLOTS) if row[0] == "acme"]) == before
    assert publishing.parts(SellerId("zenith"), [Sku("B")]) == []


def test_two_who_ask_at_once_make_one_row(request_: Request, ask: Ask) -> None:
    start = threading.Barrier(4)
    skus = [f"P{number}" for number in range(50)]
    results: list[list[ImportedPart]] = []

    def both(order: list[str]) -> None:
        start.wait()
        results.append(request_(*order))

    orders = (skus, skus[::-1], skus[10:], skus)
    threads = [threading.Thread(target=both, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4, "nobody failed"
    assert len(ask(STAGED)) == len(ask(SLOTS)) == 50


def test_a_part_is_refused_under_another_spelling(request_: Request, ask: Ask) -> None:
    first, second = request_("WF330051=K3", "wf330051 = k3")
    assert (first.status, second.status) == ("requested", "refused")
    assert "differs from WF330051=K3 only in case or spaces" in second.reason
    ask("DELETE FROM product_staging")  # listed all the same
    (again,) = request_("Wf330051=K3")
    assert again.status == "refused"
    assert "ask for that one, or remove it first" in again.reason
    assert statuses(request_("WF330051=K3", "WF330051=K33")) == {
        "WF330051=K3": "requested",
        "WF330051=K33": "requested",
    }
    assert statuses(request_("a")) == {"a": "requested"}


def test_a_removed_part_is_refused_and_its_other_spelling_is_free(
    request_: Request, pool: ConnectionPool, clock: VirtualClock
) -> None:
    request_("wf1=k3")
    PartRemoval(pool).remove(SellerId("acme"), [Sku("wf1=k3")], in_shop="keep", now=clock.now())
    (part,) = request_("wf1=k3")
    assert (part.status, part.reason) == (
        "refused",
        "it was removed; bring it back first: headway revive",
    )
    assert statuses(request_("WF1=K3")) == {"WF1=K3": "requested"}
    row = ImportRow(line=2, sku=Sku("wf1=k3"), seller=SellerId("acme"))
    imported = Products(pool).take_in([row], form="same", policy=Rolling(), now=clock.now())
    assert [refused.line for refused in imported.refused] == [2]


def test_spellings_of_one_part_that_come_at_once_are_one_part(
    request_: Request, pool: ConnectionPool, clock: VirtualClock, ask: Ask
) -> None:
    start = threading.Barrier(4)

    def publish(sku: str) -> None:
        start.wait()
        request_(sku)

    def import_(sku: str) -> None:
        start.wait()
        row = ImportRow(line=2, sku=Sku(sku), seller=SellerId("acme"))
        Products(pool).take_in([row], form="same", policy=Rolling(), now=clock.now())

    threads = [
        threading.Thread(target=how, args=(sku,))
        for how, sku in (
            (publish, "wf999=7a"),
            (publish, "WF999=7A"),
            (import_, "Wf999=7A"),
            (import_, "WF999 =7A"),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ask(SLOTS)) == 1
    assert len(ask("SELECT sku FROM product UNION SELECT sku FROM product_staging")) == 1


def test_two_who_ask_for_one_shop_sku_at_once_do_not_both_get_it(
    request_: Request, ask: Ask
) -> None:
    start = threading.Barrier(2)
    statuses: list[str] = []

    def one(sku: str) -> None:
        start.wait()
        statuses.extend(part.status for part in request_(sku, form="base"))

    threads = [threading.Thread(target=one, args=(sku,)) for sku in ("A=1", "A=2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == ["refused", "requested"]
    assert len(ask(STAGED)) == 1


def test_every_part_shows_its_state(request_: Request, publishing: Publishing, ask: Ask) -> None:
    batch_id = fresh_id(ids)
    request_(*"ABCDE", batch_id=batch_id)
    state = "UPDATE product_staging SET status = %s, reason = %s WHERE sku = %s"
    ask(state, "normalized", "", "B")
    ask(
        "INSERT INTO listing_state (user_id, sku, push_error) VALUES ('acme', 'B', 'HTTP 502')",
    )
    ask(state, "blocked", "stocked only in Germany", "C")
    ask(state, "failed", "the title is too long", "D")
    ask(state, "published", "", "E")
    ask("UPDATE product_staging SET shopify_product_id = 'g' WHERE sku = 'E'")
    parts = {part.sku: part for part in publishing.batch(batch_id)}
    assert parts["A"].place is not None
    assert parts["B"].reason == "HTTP 502"
    assert parts["C"].reason == "stocked only in Germany"
    assert parts["D"].reason == "the title is too long"
    assert parts["E"].shopify_product_id == "g"
    assert [sku for sku, entry in parts.items() if entry.place] == ["A"]
    assert publishing.batch(fresh_id(ids)) == []


def test_a_bad_part_number_keeps_the_whole_request_out(request_: Request, ask: Ask) -> None:
    with pytest.raises(InvalidError, match=r"'A\\nB'"):
        request_("GOOD", "A\nB")
    with pytest.raises(InvalidError, match="no part number"):
        request_()
    with pytest.raises(InvalidError, match="10,001 parts at once"):
        request_(*map(str, range(PARTS_MAX + 1)))
    assert ask(STAGED) == []


def test_ten_thousand_parts_go_in_one_request(request_: Request, ask: Ask) -> None:
    parts = request_(*(f"P{number}" for number in range(PARTS_MAX)))
    assert {part.status for part in parts} == {"requested"}
    assert ask("SELECT count(*) FROM product_sync_schedule WHERE priority = 'onboarding'") == [
        (PARTS_MAX,)
    ]


def test_the_error_for_a_seller_without_a_connected_shop_says_to_connect_one(
    request_: Request, ask: Ask
) -> None:
    with pytest.raises(
        ConflictError, match="zenith has no shop; connect a shop first: headway connect"
    ):
        request_("A", seller="zenith")
    ask(CONNECT, "zenith", "zenith", "disconnected")
    with pytest.raises(ConflictError, match=r"zenith is disconnected \(uninstalled\)"):
        request_("A", seller="zenith")
    assert ask(STAGED) == ask(SLOTS) == []


def test_the_seller_is_the_only_one_with_a_shop_or_must_be_named(
    publishing: Publishing, ask: Ask
) -> None:
    assert publishing.seller(None) == "acme"
    ask(CONNECT, "yonder", "yonder", "disconnected")
    assert publishing.seller(None) == "acme"
    ask(CONNECT, "zenith", "zenith", "connected")
    with pytest.raises(InvalidError, match=r"--seller\): acme, zenith"):
        publishing.seller(None)
    assert publishing.seller(SellerId("zenith")) == "zenith"
    ask("DELETE FROM connected_accounts")
    with pytest.raises(ConflictError, match="headway connect"):
        publishing.seller(None)
