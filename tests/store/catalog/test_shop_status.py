"""The shops as the screens show them: counted by seller, bounded, and honest about their speed."""

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.shop_setup import Shops, make_shops, wanted

from headway.core.limits.transitions import Resource
from headway.providers.shopify.storefront import shop_limit_key, shop_resource
from headway.store.catalog.shop_status import (
    ROWS_SHOWN,
    StorefrontStatus,
    shop_calls,
    storefront_status,
)
from headway.store.catalog.shop_waits import shop_waits
from headway_lab.virtual_clock import VirtualClock

EVENT = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type) VALUES (%s, %s, %s, %s)
"""
HOLD = "UPDATE listing_state SET held_reason = %s, held_at = %s, proposed = %s WHERE sku = %s"
MANY = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)
SELECT 'acme', 'P' || n, 0, %(now)s FROM generate_series(1, 60000) AS n
"""
MANY_STATES = """
INSERT INTO listing_state (user_id, sku, desired, applied)
SELECT 'acme', 'P' || n, '{}', CASE WHEN n %% 4 > 0 THEN '{}'::jsonb END
FROM generate_series(1, 60000) AS n
"""
SECOND = timedelta(seconds=1)


def resource_of(shop: str) -> Resource:
    return shop_resource(shop_limit_key("", shop))


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path, sellers=("acme", "zenith"))


@pytest.fixture
def look(shops: Shops) -> Callable[[], StorefrontStatus]:
    def read() -> StorefrontStatus:
        with shops.pool.connection() as connection:
            now = shops.clock.now()
            calls = shop_calls(connection, now, resource_of=resource_of)
            waits = shop_waits(connection, now)
            return storefront_status(
                connection, now, resource_of=resource_of, calls=calls, waits=waits
            )

    return read


Look = Callable[[], StorefrontStatus]


def test_without_a_shop_there_is_nothing_to_show(shops: Shops, look: Look) -> None:
    shops.ask("DELETE FROM connected_accounts")
    status = look()
    assert (status.shops, status.shops_count, status.held, status.failing) == ((), 0, (), ())
    assert (status.written.count, status.written.p50_s, status.written.p95_s) == (0, None, None)


def test_each_shop_counts_its_own_listings(shops: Shops, look: Look) -> None:
    for sku in ("A-1", "A-2", "A-3", "A-4"):
        shops.list(sku)
    shops.list("A-1", seller="zenith")
    shops.want("A-1", wanted("12.10", 5))
    shops.want("A-2", wanted("12.10", 5))
    shops.ask("UPDATE listing_state SET push_failures = 2, push_error = 'no' WHERE sku = 'A-2'")
    shops.ask(HOLD, "too far", shops.clock.now(), None, "A-3")
    acme, zenith = look().shops
    assert (acme.listed, acme.in_step, acme.waiting, acme.failing, acme.held) == (4, 2, 1, 1, 1)
    assert acme.failing_reason == "no"
    assert (zenith.listed, zenith.in_step, zenith.waiting, zenith.failing) == (1, 1, 0, 0)
    assert (zenith.points_used, zenith.pushed_at) == (None, None), "it was never called"


def test_a_push_shows_its_points_and_when_it_wrote(shops: Shops, look: Look) -> None:
    shops.list("A-1")
    shops.want("A-1", wanted("12.10", 5))
    shops.drive(shops.push())
    acme = look().shops[0]
    assert (acme.in_step, acme.waiting) == (1, 0)
    assert acme.points_max == 2000
    assert acme.points_used is not None
    assert 0 < acme.points_used < 2000
    assert acme.pushed == "price of 1"
    assert acme.pushed_at is not None
    assert acme.pushed_at <= shops.clock.now()
    shops.clock.sleep(60)
    assert look().shops[0].points_used == 0, "they come back"


def test_a_shop_that_is_disconnected_comes_first_with_its_reason(shops: Shops, look: Look) -> None:
    shops.ask(
        "UPDATE connected_accounts SET status = 'disconnected', reason = 'no grant'"
        " WHERE user_id = 'zenith'"
    )
    first, second = look().shops
    assert (first.seller, first.is_connected, first.trouble) == ("zenith", False, "no grant")
    assert (second.seller, second.is_connected, second.trouble) == ("acme", True, "")


def test_a_shop_that_does_not_answer_says_so_while_it_lasts(shops: Shops, look: Look) -> None:
    until = shops.clock.now() + timedelta(minutes=5)
    shops.ask(
        "INSERT INTO breaker (limit_key, failures, open_until, reason) VALUES (%s, 3, %s, 'HTTP"
        " 502')",
        shop_limit_key("", shops.domain("acme")),
        until,
    )
    assert (look().shops[0].trouble, look().shops[0].waits_until) == ("HTTP 502", until)
    assert look().shops[1].trouble == ""
    shops.clock.sleep(301)
    assert (look().shops[0].trouble, look().shops[0].waits_until) == ("", None)


def test_a_shop_that_is_frozen_or_fails_one_kind_of_call_says_so(shops: Shops, look: Look) -> None:
    now = shops.clock.now()
    shops.ask(
        "UPDATE connected_accounts SET wait_until = %s, wait_reason = 'frozen'"
        " WHERE user_id = 'acme'",
        now + timedelta(minutes=5),
    )
    shops.ask(
        "INSERT INTO breaker (limit_key, failures, open_until, reason) VALUES (%s, 3, %s, 'no"
        " stock')",
        f"shopify:app/stock:{shops.domain('zenith')}",
        now + timedelta(minutes=5),
    )
    assert [shop.trouble for shop in look().shops] == ["frozen", "no stock"]


def test_more_shops_than_are_shown_are_counted(shops: Shops, look: Look) -> None:
    for number in range(ROWS_SHOWN):
        shops.ask(
            "INSERT INTO connected_accounts (user_id, platform, shop) VALUES (%s, 'shopify', %s)",
            f"s{number}",
            f"s{number}.myshopify.com",
        )
    status = look()
    assert (len(status.shops), status.shops_count) == (ROWS_SHOWN, ROWS_SHOWN + 2)


def test_held_changes_come_newest_first_with_both_prices(shops: Shops, look: Look) -> None:
    for number, sku in enumerate(("A-1", "A-2")):
        shops.list(sku)
        proposed = json.dumps(wanted("99.00", 5)) if number == 0 else None
        shops.ask(HOLD, f"reason {number}", shops.clock.now() + number * SECOND, proposed, sku)
    newest, oldest = look().held
    assert (newest.sku, newest.reason, newest.can_approve) == ("A-2", "reason 1", False)
    assert (newest.price_old, newest.price_new) == (Decimal("11.00"), None)
    assert (oldest.price_old, oldest.price_new, oldest.can_approve) == (11, 99, True)
    assert look().held_count == 2


def test_what_a_shop_refused_is_listed_with_its_next_try(shops: Shops, look: Look) -> None:
    shops.list("A-1")
    shops.simulator.shop(shops.domain("acme")).edit_status("A-1", "ACTIVE", is_suspended=True)
    shops.want("A-1", wanted("12.10", 5))
    shops.drive(shops.push())
    (failing,) = look().failing
    assert (failing.seller, failing.sku, failing.failures) == ("acme", "A-1", 1)
    assert failing.error
    assert failing.next_at > shops.clock.now()


def add_events(shops: Shops, sku: str, *events: tuple[float, str]) -> None:
    """Write events of a listing, so many seconds ago."""
    for ago_s, kind in events:
        shops.ask(EVENT, "acme", sku, shops.clock.now() - timedelta(seconds=ago_s), kind)


def test_a_change_is_timed_from_the_read_to_the_last_of_its_writes(
    shops: Shops, look: Look
) -> None:
    add_events(
        shops,
        "A-1",
        (90, "price_changed"),
        (90, "quantity_changed"),
        (88, "shopify_updated"),
        (86, "shopify_updated"),
        (50, "quantity_changed"),
        (48, "shopify_updated"),
    )
    written = look().written
    assert (written.count, written.p50_s, written.p95_s) == (2, 3.0, pytest.approx(3.9))


def test_the_time_a_person_took_is_not_ours(shops: Shops, look: Look) -> None:
    add_events(
        shops,
        "A-1",
        (9000, "price_changed"),
        (9000, "change_held"),
        (80, "change_approved"),
        (78, "shopify_updated"),
    )
    add_events(shops, "A-2", (9000, "cost_changed"), (20, "drift_found"), (19, "shopify_updated"))
    add_events(shops, "A-3", (30, "first_observed"), (25, "product_published"))
    add_events(shops, "A-4", (9000, "first_observed"), (10, "shopify_updated"))
    written = look().written
    assert (written.count, written.p50_s, written.p95_s) == (4, 5, 5)


def test_writes_of_yesterday_are_not_counted(shops: Shops, look: Look) -> None:
    add_events(shops, "A-1", (90_000, "price_changed"), (89_999, "shopify_updated"))
    assert look().written.count == 0


def test_a_large_table_is_sampled_and_says_so(shops: Shops, look: Look) -> None:
    with shops.pool.connection() as connection:
        connection.execute(MANY, {"now": shops.clock.now()})
        connection.execute(MANY_STATES, {})
        connection.execute("ANALYZE listing_state")
    status = look()
    assert status.is_estimate
    # About a hundred pages are read: half as many more or less is five times the usual error.
    assert status.shops[0].listed == pytest.approx(60_000, rel=0.5)
    assert status.shops[0].in_step == pytest.approx(45_000, rel=0.5)
