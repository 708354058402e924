"""The latest changes as the screens show them: both prices, and what became of each in its shop."""

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.shop_setup import Shops, make_shops, wanted

from headway.core.catalog.change_outcomes import ChangeOutcome
from headway.core.catalog.listings import SellerId, Sku
from headway.core.reasons import format_time
from headway.engine.explain import in_shop
from headway.store.catalog.change_list import (
    EVENTS_MIN,
    ChangeQueries,
    ObservedChange,
    latest_changes,
)
from headway.store.catalog.history import HistoryQueries
from headway.store.catalog.review import Review
from headway.store.catalog.shop_waits import shop_waits
from headway.store.timetable.positions import ListingPositions
from headway.web.formatting import difference, waiting_reason
from headway_lab.virtual_clock import VirtualClock

EVENT = """
INSERT INTO sync_audit_log
  (user_id, sku, sync_timestamp, event_type, old_value, new_value, error_message)
VALUES (%s, %s, %s, %s, %s, %s, %s)
"""
PRICE = ({"list_price": "10"}, {"list_price": "11"})
STOCK = ({"quantities": {"A": 1, "B": 2}}, {"quantities": {"A": 4, "B": 0}})


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path, sellers=("acme", "zenith"))


def add_event(
    shops: Shops,
    sku: str,
    kind: str,
    old: object = None,
    new: object = None,
    *,
    seller: str = "acme",
    error: str | None = None,
    at: datetime | None = None,
) -> datetime:
    """Write an event as a read of the supplier leaves it."""
    at = at or shops.clock.now()
    shops.ask(EVENT, seller, sku, at, kind, json.dumps(old), json.dumps(new), error)
    return at


def see(shops: Shops, sku: str, price: str, *, seller: str = "acme") -> datetime:
    """Let the supplier's price be seen to change, so that the shop should show another one."""
    shops.want(sku, wanted(price, 5), seller=seller)
    shops.ask("UPDATE listing_state SET observed = %s WHERE sku = %s", json.dumps(PRICE[1]), sku)
    return add_event(shops, sku, "price_changed", *PRICE, seller=seller)


def changes(shops: Shops) -> tuple[ObservedChange, ...]:
    with shops.pool.connection() as connection:
        now = shops.clock.now()
        return latest_changes(connection, now, waits=shop_waits(connection, now))


def only(shops: Shops) -> ObservedChange:
    (change,) = changes(shops)
    return change


def test_what_one_read_showed_is_one_change(shops: Shops) -> None:
    now, minute = shops.clock.now(), timedelta(minutes=1)
    add_event(shops, "P1", "price_changed", *PRICE, at=now - minute)
    add_event(shops, "P1", "quantity_changed", *STOCK, at=now - minute)
    add_event(shops, "P2", "quantity_changed", *STOCK, at=now - 2 * minute)
    add_event(shops, "P3", "first_observed", None, PRICE[1], at=now)
    first, second = changes(shops)
    assert (first.sku, first.price_old, first.price_new) == ("P1", Decimal(10), Decimal(11))
    assert (first.stock_old, first.stock_new) == (3, 4)
    assert (second.sku, second.price_new) == ("P2", None)


def test_a_change_waits_and_then_shows_what_was_written_and_the_time_between(shops: Shops) -> None:
    shops.list("A-1")
    at = see(shops, "A-1", "12.10")
    before = only(shops)
    assert (before.fate, before.lag_s) == (ChangeOutcome.WAITING, None)
    assert (before.shop_old, before.shop_new) == (Decimal("11.00"), Decimal("12.10"))
    shops.drive(shops.push())
    after = only(shops)
    assert (after.fate, after.price_old, after.price_new) == (ChangeOutcome.WRITTEN, 10, 11)
    assert (after.shop_old, after.shop_new) == (Decimal("11.00"), Decimal("12.10"))
    written_at = shops.one("SELECT max(sync_timestamp) FROM sync_audit_log")
    assert after.lag_s == (written_at - at).total_seconds() > 0


def test_a_change_of_which_only_a_part_is_written_still_waits(shops: Shops) -> None:
    shops.list("A-1")
    see(shops, "A-1", "12.10")
    add_event(shops, "A-1", "shopify_updated", wanted("11.00", 5), wanted("11.00", 4))
    assert (only(shops).fate, only(shops).lag_s) == (ChangeOutcome.WAITING, None)


def test_a_change_of_stock_shows_the_prices_that_stay(shops: Shops) -> None:
    shops.list("A-1")
    shops.want("A-1", wanted("11.00", 4))
    shops.ask("UPDATE listing_state SET observed = %s", json.dumps(PRICE[0]))
    add_event(shops, "A-1", "quantity_changed", *STOCK)
    shops.drive(shops.push())
    change = only(shops)
    assert (change.price_new, change.price_now) == (None, Decimal(10))
    assert (change.shop_new, change.stock_new) == (Decimal("11.00"), 4)


def test_another_sellers_write_says_nothing_about_this_seller(shops: Shops) -> None:
    for seller in ("acme", "zenith"):
        shops.list("A-1", seller=seller)
        see(shops, "A-1", "12.10", seller=seller)
    shops.ask("UPDATE listing_state SET push_at = '2999-01-01' WHERE user_id = 'acme'")
    shops.drive(shops.push())
    assert {change.seller: change.fate for change in changes(shops)} == {
        "acme": ChangeOutcome.WAITING,
        "zenith": ChangeOutcome.WRITTEN,
    }


def test_a_held_change_leaves_the_shop_as_it_is_until_it_is_approved(shops: Shops) -> None:
    shops.list("A-1")
    add_event(shops, "A-1", "price_changed", *PRICE)
    add_event(shops, "A-1", "change_held", error="too far")
    shops.ask(
        "UPDATE listing_state SET held_reason = 'too far', held_at = %s, proposed = %s",
        shops.clock.now(),
        json.dumps(wanted("99.00", 5)),
    )
    held = only(shops)
    assert (held.fate, held.reason, held.shop_new) == (
        ChangeOutcome.HELD,
        "too far",
        Decimal("11.00"),
    )
    shops.clock.sleep(60)
    Review(shops.pool).approve(SellerId("acme"), [Sku("A-1")], reason="", now=shops.clock.now())
    shops.drive(shops.push())
    assert (only(shops).fate, only(shops).shop_new) == (ChangeOutcome.WRITTEN, Decimal("99.00"))


def test_a_rejected_change_says_so(shops: Shops) -> None:
    shops.list("A-1")
    add_event(shops, "A-1", "change_held", error="too far")
    shops.ask(
        "UPDATE listing_state SET held_reason = 'too far', held_at = %s, proposed = %s",
        shops.clock.now(),
        json.dumps(wanted("99.00", 5)),
    )
    shops.clock.sleep(60)
    Review(shops.pool).reject(SellerId("acme"), [Sku("A-1")], reason="typo", now=shops.clock.now())
    assert (only(shops).fate, only(shops).reason) == (ChangeOutcome.REJECTED, "typo")


def test_a_refused_change_says_why(shops: Shops) -> None:
    shops.list("A-1")
    shops.simulator.shop(shops.domain("acme")).edit_status("A-1", "ACTIVE", is_suspended=True)
    see(shops, "A-1", "12.10")
    shops.drive(shops.push())
    refused = only(shops)
    assert refused.fate is ChangeOutcome.REFUSED
    assert refused.reason == shops.one("SELECT push_error FROM listing_state")
    assert refused.shop_old == Decimal("11.00")
    assert refused.until == shops.one("SELECT push_at FROM listing_state")


def test_a_change_that_a_newer_one_overtook_was_replaced(shops: Shops) -> None:
    shops.list("A-1")
    see(shops, "A-1", "12.10")
    shops.clock.sleep(60)
    see(shops, "A-1", "13.20")
    shops.drive(shops.push())
    assert [change.fate for change in changes(shops)] == [
        ChangeOutcome.WRITTEN,
        ChangeOutcome.REPLACED,
    ]


def test_a_change_of_a_seller_without_a_shop_says_so(shops: Shops) -> None:
    shops.list("A-1")
    see(shops, "A-1", "12.10")
    shops.ask("DELETE FROM connected_accounts")
    assert only(shops).fate is ChangeOutcome.NO_SHOP


def test_a_change_waits_for_a_shop_that_is_disconnected(shops: Shops) -> None:
    shops.list("A-1")
    see(shops, "A-1", "12.10")
    shops.ask("UPDATE connected_accounts SET status = 'disconnected', reason = 'no grant'")
    assert (only(shops).fate, only(shops).reason) == (
        ChangeOutcome.WAITING,
        "disconnected: no grant",
    )


@pytest.mark.parametrize(
    ("statement", "reason"),
    (
        (
            "UPDATE connected_accounts SET wait_until = %s, wait_reason = 'the shop is frozen'",
            "the shop is frozen",
        ),
        (
            (
                "INSERT INTO breaker (limit_key, failures, open_until, reason)"
                " VALUES ('shopify:app/stock:acme.myshopify.com', 3, %s, 'HTTP 502')"
            ),
            "HTTP 502",
        ),
        (
            (
                "INSERT INTO pauses (kind, user_id, until, reason)"
                " VALUES ('seller', 'acme', %s, 'stocktaking')"
            ),
            "paused: stocktaking",
        ),
        (
            "INSERT INTO pauses (kind, user_id, sku, until) VALUES ('listing', 'acme', 'A-1', %s)",
            "paused",
        ),
        ("INSERT INTO pauses (kind, until) VALUES ('all', %s)", "paused"),
    ),
    ids=("suspended", "does not answer", "seller paused", "part paused", "all paused"),
)
def test_a_change_waits_for_a_shop_that_is_left_alone_and_says_until_when(
    shops: Shops, statement: str, reason: str
) -> None:
    shops.list("A-1")
    see(shops, "A-1", "12.10")
    until = shops.clock.now() + timedelta(minutes=5)
    shops.ask(statement, until)
    waiting = only(shops)
    assert (waiting.fate, waiting.reason) == (ChangeOutcome.WAITING, reason)
    assert waiting.until == until
    assert waiting_reason(waiting, until) == f"{reason} (next try {until:%H:%M:%S} UTC)"
    (position,) = ListingPositions(shops.pool).of_sku(Sku("A-1"), shops.clock.now())
    explained = in_shop(position, shops.clock.now())
    assert reason.removeprefix("paused: ") in explained
    assert format_time(until, shops.clock.now()) in explained
    shops.clock.sleep(301)
    assert (only(shops).reason, only(shops).until) == ("", None)


def test_a_shop_that_waits_says_nothing_about_another_sellers_changes(shops: Shops) -> None:
    shops.list("A-1")
    see(shops, "A-1", "12.10")
    shops.ask(
        "INSERT INTO breaker (limit_key, failures, open_until, reason)"
        " VALUES ('shopify:app:zenith.myshopify.com', 3, %s, 'HTTP 502')",
        shops.clock.now() + timedelta(minutes=5),
    )
    assert (only(shops).fate, only(shops).reason) == (ChangeOutcome.WAITING, "")


def test_what_somebody_edited_in_the_shop_is_shown_with_its_repair(shops: Shops) -> None:
    shops.list("A-1")
    shops.simulator.edit_price(shops.domain("acme"), "A-1", Decimal("1.00"))
    shops.clock.sleep(25 * 3600)
    is_repaired: Any = "SELECT count(*) FROM sync_audit_log WHERE event_type = 'shopify_updated'"
    shops.drive(shops.push(), until=lambda: shops.one(is_repaired) == 1)
    edited = only(shops)
    assert (edited.kind, edited.fate) == ("edited in the shop", ChangeOutcome.WRITTEN)
    assert (edited.shop_old, edited.shop_new) == (Decimal("1.00"), Decimal("11.00"))


def test_a_part_that_somebody_unpublished_is_shown_so_with_its_repair(shops: Shops) -> None:
    shops.stage("N-1", channels=["Online Store"])
    shops.drive(shops.push())
    shops.simulator.shop(shops.domain("acme")).edit_channels("N-1", ())
    shops.clock.sleep(25 * 3600)
    shops.drive(shops.push(), until=lambda: bool(shops.shown("N-1").channels))
    edited = changes(shops)[0]
    assert (edited.kind, edited.fate) == ("unpublished in the shop", ChangeOutcome.WRITTEN)
    repaired, found, *_ = HistoryQueries(shops.pool).page(Sku("N-1")).items
    assert difference(found) == "unpublished from Online Store"
    assert difference(repaired) == "published on Online Store"


def test_a_new_part_is_a_change_until_it_is_published_or_blocked(shops: Shops) -> None:
    for sku in ("N-1", "N-2"):
        shops.ask(
            "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id)"
            " VALUES ('acme', %s, %s, gen_random_uuid())",
            sku,
            sku,
        )
        add_event(shops, sku, "first_observed", None, PRICE[1])
    add_event(shops, "N-1", "product_published", None, {"price": "12.10"})
    add_event(shops, "N-2", "publish_blocked", error="stocked only at Mars")
    by_sku = {change.sku: change for change in changes(shops)}
    assert (by_sku["N-1"].kind, by_sku["N-1"].fate) == ("new part", ChangeOutcome.WRITTEN)
    assert (by_sku["N-1"].price_new, by_sku["N-1"].shop_new) == (Decimal(11), Decimal("12.10"))
    assert (by_sku["N-2"].fate, by_sku["N-2"].reason) == (
        ChangeOutcome.REFUSED,
        "stocked only at Mars",
    )


def walk(shops: Shops, size: int) -> list[ObservedChange]:
    """Read all changes page by page."""
    changes_read: list[ObservedChange] = []
    cursor = None
    while True:
        page = ChangeQueries(shops.pool).page(
            shops.clock.now(), waits={}, cursor=cursor, limit=size
        )
        changes_read += page.items
        cursor = page.next_cursor
        if cursor is None:
            return changes_read


def test_older_changes_come_page_by_page_each_once(shops: Shops) -> None:
    now = shops.clock.now()
    for number in range(12):
        for seller in ("acme", "zenith"):
            at = now - timedelta(minutes=number // 3)
            add_event(shops, f"P{number}", "price_changed", *PRICE, seller=seller, at=at)
            add_event(shops, f"P{number}", "quantity_changed", *STOCK, seller=seller, at=at)
    whole = ChangeQueries(shops.pool).page(now, waits={}, limit=100).items
    assert len(whole) == 24
    assert all(change.stock_new == 4 and change.price_new == 11 for change in whole)
    assert walk(shops, 5) == list(whole)


def test_the_result_of_an_old_change_does_not_come_from_newer_ones(shops: Shops) -> None:
    shops.list("A-1")
    see(shops, "A-1", "12.10")
    shops.drive(shops.push())
    for price in ("12.20", "12.30"):
        shops.clock.sleep(60)
        see(shops, "A-1", price)
    shops.drive(shops.push())
    fates = [change.fate for change in walk(shops, 1)]
    assert fates == [ChangeOutcome.WRITTEN, ChangeOutcome.REPLACED, ChangeOutcome.WRITTEN]


def test_changes_are_found_behind_any_number_of_other_events(shops: Shops) -> None:
    now, minute = shops.clock.now(), timedelta(minutes=1)
    shops.ask(
        "INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)"
        " SELECT 'acme', CASE WHEN n % 2 = 0 THEN 'P' || n END, %s, 'sync_failed'"
        " FROM generate_series(1, %s) AS n".replace("n % 2", "n %% 2"),
        now,
        EVENTS_MIN - 1,
    )
    # What one read showed lies across the end of the first walk.
    add_event(shops, "P1", "price_changed", *PRICE, at=now - minute)
    add_event(shops, "P1", "quantity_changed", *STOCK, at=now - minute)
    add_event(shops, "P2", "price_changed", *PRICE, at=now - 2 * minute)
    first, second = walk(shops, 10)
    assert (first.sku, first.price_new, first.stock_new, second.sku) == ("P1", 11, 4, "P2")


def test_changes_of_long_ago_are_shown_where_nothing_happened_since(shops: Shops) -> None:
    shops.want("P1", wanted("10", 5))
    long_ago = add_event(
        shops, "P1", "price_changed", *PRICE, at=shops.clock.now() - timedelta(days=90)
    )
    assert [change.at for change in changes(shops)] == [long_ago]
