"""Visits to shops on a real database: leases, intents, what a settle writes and what it refuses."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.app.rules import seller_defaults
from headway.clock import fresh_id
from headway.config import Settings
from headway.core.catalog.listings import CLOCKS_APART_MAX, ListingEvent, Sku
from headway.core.catalog.storefront import (
    Gid,
    Ids,
    Intent,
    ProductStatus,
    Pushed,
    PushLease,
    Shop,
    WriteKind,
)
from headway.store.catalog.pushes import DRIFT_CHECK_EVERY, Pushes
from headway.store.catalog.sellers import Sellers

START = datetime(2026, 1, 5, tzinfo=UTC)
LEASE = timedelta(seconds=60)
SECOND = timedelta(seconds=1)
DESIRED = {
    "price": "11.00",
    "cost": "9.5",
    "currency": "USD",
    "compare_at": None,
    "quantities": {"Dallas Central": 5},
}
IDS = Ids(product=Gid("p"), variant=Gid("v"), item=Gid("i"))
Enter = Callable[..., None]


@pytest.fixture
def pushes(pool: ConnectionPool) -> Pushes:
    return Pushes(pool, Sellers(pool, seller_defaults(Settings())))


@pytest.fixture
def enter(pool: ConnectionPool) -> Enter:
    """Return a function that lists a part with a desired state, in a shop with known locations."""

    def enter(sku: str, seller: str = "acme", push_at: datetime | None = START) -> None:
        with pool.connection() as connection:
            connection.execute(
                "INSERT INTO connected_accounts (user_id, platform, shop, locations, locations_at,"
                " channels, channels_at, push_started_at)"
                " VALUES (%s, 'shopify', %s, %s, %s, '{}', %s, %s) ON CONFLICT DO NOTHING",
                [seller, f"{seller}.myshopify.com", '{"Dallas Central": "d"}', *[START] * 3],
            )
            connection.execute(
                "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
                " VALUES (%s, %s, 0, %s)",
                [seller, sku, START],
            )
            connection.execute(
                "INSERT INTO listing_state (user_id, sku, desired, desired_at, desired_version,"
                " push_at) VALUES (%s, %s, %s, %s, 1, %s)",
                [seller, sku, json.dumps(DESIRED), START, push_at],
            )

    return enter


def due(pushes: Pushes, now: datetime = START, **more: Any) -> list[Shop]:
    return pushes.due_shops(now, verified_before=more.get("verified_before"), limit=10)


def claim(pushes: Pushes, now: datetime = START, **more: Any) -> PushLease | None:
    (shop, *_) = due(pushes, now, **more)
    return pushes.claim(
        shop,
        now=now,
        owner="w",
        lease_until=now + LEASE,
        verified_before=more.get("verified_before"),
        limit=300,
    )


def push_lease(pushes: Pushes, now: datetime = START, **more: Any) -> PushLease:
    taken = claim(pushes, now, **more)
    assert taken is not None
    return taken


def row(pool: ConnectionPool, sku: str, columns: str, seller: str = "acme") -> tuple[Any, ...]:
    with pool.connection() as connection:
        rows = connection.execute(
            f"SELECT {columns} FROM listing_state LEFT JOIN product USING (user_id, sku)"
            " WHERE user_id = %s AND sku = %s",
            [seller, sku],
        ).fetchone()
    assert rows is not None
    return rows


def test_a_shop_is_due_with_its_oldest_change_and_not_before(pushes: Pushes, enter: Enter) -> None:
    enter("A-1", "late", START + SECOND)
    enter("A-1", "early", START - SECOND)
    enter("A-1", "idle", None)
    assert [shop.user_id for shop in due(pushes)] == ["early"]
    assert [shop.user_id for shop in due(pushes, START + SECOND)] == ["early", "late"]
    assert due(pushes)[0].guard_move == Decimal("0.5")


def test_one_pusher_is_at_a_shop_until_its_lease_has_run_out_on_every_clock(
    pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    (shop,) = due(pushes)
    first = push_lease(pushes)
    assert due(pushes) == []
    over = START + LEASE + CLOCKS_APART_MAX
    assert due(pushes, over) == []
    second = push_lease(pushes, over + SECOND)
    assert second.fence == first.fence + 1
    lost = pushes.claim(
        shop, now=over, owner="x", lease_until=over + LEASE, verified_before=None, limit=1
    )
    assert lost is None


def test_a_late_settle_is_refused_as_a_whole(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    first = push_lease(pushes)
    intent = Intent(id=fresh_id(), kind=WriteKind.PRICE, skus=[Sku("A-1")])
    assert pushes.intend(first, intent, now=START)
    push_lease(pushes, START + LEASE + CLOCKS_APART_MAX + SECOND)
    pushed = Pushed(
        change=first.changes[0],
        applied=DESIRED,
        ids=IDS,
        events=(ListingEvent(kind="shopify_updated"),),
    )
    assert not pushes.settle(first, [pushed], closes={intent.id: "ok"}, now=START)
    assert row(pool, "A-1", "applied, push_at, shopify_variant_id") == (None, START, None)
    with pool.connection() as connection:
        states = connection.execute("SELECT state FROM push_intent").fetchall()
        events = connection.execute("SELECT count(*) FROM sync_audit_log").fetchall()
    assert (states, events) == ([("open",)], [(0,)])
    assert not pushes.intend(first, intent, now=START)


def test_what_the_shop_confirmed_is_applied_and_nothing_is_left_to_push(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    visit = push_lease(pushes)
    pushed = Pushed(
        change=visit.changes[0],
        applied=DESIRED,
        ids=IDS,
        status=ProductStatus.ACTIVE,
        is_verified=True,
        events=(ListingEvent(kind="shopify_updated", new=DESIRED),),
    )
    assert pushes.settle(visit, [pushed], now=START)
    assert due(pushes) == []
    assert row(pool, "A-1", "applied, applied_version, push_at, price, status") == (
        DESIRED,
        1,
        None,
        Decimal("11.00"),
        "ACTIVE",
    )


def test_what_the_shop_confirmed_is_copied_to_product_staging_and_the_event_names_the_worker(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    observed = {"list_price": "10", "net_price": "9.5", "quantities": {"Dallas Central": 5}}
    with pool.connection() as connection:
        connection.execute("UPDATE listing_state SET observed = %s", [json.dumps(observed)])
        connection.execute(
            "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id, status, reason, price,"
            " inventory_quantity) SELECT 'acme', sku, sku, gen_random_uuid(), 'created', 'kept',"
            " 60, 1 FROM unnest(ARRAY['A-1', 'A-2']) AS sku"
        )
    visit = push_lease(pushes)
    failed = ListingEvent(kind="shopify_update_failed", error="no", code="REFUSED")
    pushed = Pushed(change=visit.changes[0], applied=DESIRED, ids=IDS, events=(failed,))
    assert pushes.settle(visit, [pushed], now=START)
    columns = "sku, status, reason, price, list_price, net_price, inventory_quantity"
    with pool.connection() as connection:
        staged = connection.execute(
            f"SELECT {columns} FROM product_staging ORDER BY sku"
        ).fetchall()
        event = connection.execute("SELECT error_code, task_id FROM sync_audit_log").fetchall()
    numbers = (Decimal("11.00"), Decimal(10), Decimal("9.5"), 5)
    assert staged[0] == ("A-1", "created", "kept", *numbers)
    assert staged[1] == ("A-2", "created", "kept", Decimal(60), None, None, 1)
    assert event == [("REFUSED", "w")]


def test_a_newer_desired_state_stays_due_whatever_the_visit_came_to(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    visit = push_lease(pushes)
    with pool.connection() as connection:
        connection.execute(
            'UPDATE listing_state SET desired = desired || \'{"price": "12.00"}\','
            " desired_version = 2"
        )
    refused = Pushed(change=visit.changes[0], retry_at=START + LEASE, failures=1, error="no")
    assert pushes.settle(visit, [refused], now=START)
    assert row(pool, "A-1", "push_at, push_failures, push_error") == (START, 1, "no")
    visit = push_lease(pushes)
    old = Pushed(change=visit.changes[0], applied=DESIRED)
    assert pushes.settle(visit, [old], now=START + SECOND)
    assert row(pool, "A-1", "push_at, applied_version") == (START, 0)


def test_a_refused_listing_waits_and_the_others_of_its_shop_do_not(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    enter("A-2")
    visit = push_lease(pushes)
    refused = Pushed(change=visit.changes[0], retry_at=START + LEASE, failures=1, error="no")
    assert pushes.settle(visit, [refused], now=START)
    assert [change.sku for change in push_lease(pushes).changes] == ["A-2"]
    assert row(pool, "A-1", "push_at") == (START + LEASE,)


def test_the_next_push_gets_the_open_intents_and_only_their_listings(
    pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    enter("A-2")
    enter("A-3")
    intent = Intent(
        id=fresh_id(), kind=WriteKind.STOCK, skus=[Sku("A-1"), Sku("A-3")], writes=[{"a": 1}]
    )
    assert pushes.intend(push_lease(pushes), intent, now=START)
    later = START + LEASE + CLOCKS_APART_MAX + SECOND
    visit = push_lease(pushes, later)
    assert [(change.id, list(change.skus)) for change in visit.open] == [
        (intent.id, ["A-1", "A-3"])
    ]
    assert [change.sku for change in visit.changes] == ["A-1", "A-3"]
    assert pushes.settle(visit, narrows={intent.id: [Sku("A-3")]}, now=later)
    visit = push_lease(pushes, later)
    assert [change.sku for change in visit.changes] == ["A-3"]
    assert pushes.settle(visit, closes={intent.id: "read back"}, now=later)
    assert push_lease(pushes, later).open == []
    assert pushes.forget(later + SECOND) == 1


def test_a_settle_touches_nothing_of_another_seller(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1", "acme")
    enter("A-1", "other")
    visit = push_lease(pushes)
    assert visit.shop.user_id in {"acme", "other"}
    other = "other" if visit.shop.user_id == "acme" else "acme"
    before = row(pool, "A-1", "listing_state.*, product.*", other)
    assert pushes.settle(
        visit, [Pushed(change=visit.changes[0], applied=DESIRED, ids=IDS)], now=START
    )
    assert row(pool, "A-1", "listing_state.*, product.*", other) == before


def test_a_hold_at_first_sight_keeps_the_shops_price_and_proposes_ours(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    visit = push_lease(pushes)
    kept = {**DESIRED, "price": "70.74"}
    pushed = Pushed(
        change=visit.changes[0], applied=kept, ids=IDS, held_reason="too far", desired=kept
    )
    assert pushes.settle(visit, [pushed], now=START)
    assert row(pool, "A-1", "desired, proposed, held_reason, desired_version") == (
        kept,
        DESIRED,
        "too far",
        2,
    )


def test_forgotten_ids_are_looked_for_again(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    visit = push_lease(pushes)
    pushes.settle(visit, [Pushed(change=visit.changes[0], applied={}, ids=IDS)], now=START)
    visit = push_lease(pushes)
    assert visit.changes[0].ids == IDS
    gone = Pushed(
        change=visit.changes[0], forgets_ids=True, forgets_applied=True, failures=1, error="404"
    )
    pushes.settle(visit, [gone], now=START)
    (change,) = push_lease(pushes).changes
    assert (change.ids, change.applied, change.failures) == (None, None, 1)
    assert row(pool, "A-1", "push_at")[0] == START


def test_a_drift_check_sees_the_longest_unseen_first_and_keeps_its_pace(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    for number in range(3):
        enter(f"A-{number}")
        visit = push_lease(pushes)
        at = START - timedelta(hours=number)
        pushes.settle(
            visit,
            [Pushed(change=visit.changes[0], applied=DESIRED, ids=IDS, is_verified=True)],
            now=at,
        )
    assert due(pushes, START) == []
    before = START - timedelta(minutes=30)
    visit = push_lease(pushes, START, verified_before=before)
    assert [change.sku for change in visit.drift_check] == ["A-2", "A-1"]
    verified = [Pushed(change=change, is_verified=True) for change in visit.drift_check[:1]]
    assert pushes.settle(visit, verified, now=START)
    assert due(pushes, START, verified_before=before) == []
    later = START + DRIFT_CHECK_EVERY
    assert [
        change.sku for change in push_lease(pushes, later, verified_before=before).drift_check
    ] == ["A-1"]


def test_a_disconnected_shop_is_left_alone_and_says_why(
    pool: ConnectionPool, pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    (shop,) = due(pushes)
    pushes.disconnect(shop, "the grant was refused", now=START)
    assert due(pushes) == []
    with pool.connection() as connection:
        row = connection.execute("SELECT status, reason FROM connected_accounts").fetchone()
    assert row == ("disconnected", "the grant was refused")


def test_what_is_unsure_is_left_alone_until_it_may_be_read_back(
    pushes: Pushes, enter: Enter
) -> None:
    enter("A-1")
    enter("A-2")
    visit = push_lease(pushes)
    intent = Intent(id=fresh_id(), kind=WriteKind.PRICE, skus=[Sku("A-1")])
    assert pushes.intend(visit, intent, now=START)
    soon = START + 5 * SECOND
    lost = Pushed(change=visit.changes[0], retry_at=soon)
    assert pushes.settle(visit, [lost], now=START)
    visit = push_lease(pushes)
    assert (visit.open, [change.sku for change in visit.changes]) == ([], ["A-2"])
    assert pushes.settle(visit, now=START)
    visit = push_lease(pushes, soon)
    assert [change.id for change in visit.open] == [intent.id]
    assert [change.sku for change in visit.changes] == ["A-1"]
