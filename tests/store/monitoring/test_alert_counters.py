"""The last hour of the line, as the watch counts it."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.app.accounts import connect_account
from headway.core.catalog.listings import LimitKey, SellerId
from headway.core.limits.breaker import Breaker
from headway.core.monitoring.metrics import HourMetric
from headway.engine.pull_breakers import _limit_key, _own_limit_key
from headway.providers.shopify.storefront import shop_limit_key
from headway.store.limits.breakers import Breakers
from headway.store.monitoring.alert_counters import MinuteCounters
from headway_lab.platforms import ETSY, PLATFORMS

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEY = LimitKey("boeing:me")
CALL = """
INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until, status,
  result, skus)
VALUES (gen_random_uuid(), %s, 'w', 1, %s, %s, %s, %s, %s)
"""
LISTING = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, sync_status,
  lease_until, lease_owner, is_active, is_paused)
VALUES ('a', %s, 0, %s, %s, %s, %s, %s, %s)
"""
FAILED = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type) VALUES ('a', 'P', %s, %s)
"""


def test_the_last_hour_is_counted_and_nothing_else(pool: ConnectionPool) -> None:
    calls = (
        (KEY, 5, "sent", "ok", ["A", "B"]),
        (KEY, 6, "sent", "oauth", None),
        (KEY, 7, "sent", "HTTP 503", ["A"]),
        (KEY, 8, "lost", None, None),
        (KEY, 9, "unsent", None, None),
        (KEY, 1, "begun", None, None),
        (KEY, 60, "sent", "ok", ["C"]),
        ("another", 5, "sent", "ok", ["C"]),
    )
    with pool.connection() as connection:
        for key, ago, status, result, skus in calls:
            at = NOW - ago * MINUTE
            connection.execute(CALL, (key, at, at + MINUTE, status, result, skus))
        for ago, kind in ((5, "sync_failed"), (61, "sync_failed"), (5, "price_changed")):
            connection.execute(FAILED, (NOW - ago * MINUTE, kind))
        due = (("P1", 61, True, False), ("P2", 60, True, False), ("P3", 61, True, True))
        for sku, ago, is_active, is_paused in (*due, ("P4", 61, False, False)):
            row = (sku, NOW - ago * MINUTE, "pending", None, None, is_active, is_paused)
            connection.execute(LISTING, row)
        for sku, ago in (("S1", 11), ("S2", 9)):
            row = (sku, NOW, "syncing", NOW - ago * MINUTE, "w", True, False)
            connection.execute(LISTING, row)
    counters = MinuteCounters(pool).read(NOW, limit_keys=[KEY], permit_wait_s=1.5)
    assert counters == HourMetric(
        calls=4,
        calls_failed=2,
        reads=2,
        reads_failed=1,
        overdue=1,
        stuck=1,
        permit_wait_s=1.5,
    )


def test_where_nothing_happened_all_is_nought(pool: ConnectionPool) -> None:
    assert MinuteCounters(pool).read(NOW, limit_keys=[KEY], permit_wait_s=0) == HourMetric()


def test_who_does_not_answer_is_a_shop_an_account_or_a_platform_for_everybody(
    pool: ConnectionPool,
) -> None:
    breakers, now = Breakers(pool), NOW
    shop = connect_account(pool, SellerId("a"), "a.myshopify.com", now=now)
    own, other = (
        connect_account(pool, SellerId(seller), number, platform=ETSY, now=now)
        for seller, number in (("a", "7"), ("b", "8"))
    )

    def fail(limit_key: str) -> None:
        broken = Breaker()
        for _ in range(3):
            broken = broken.failed(now, "HTTP 503")
        breakers.save(LimitKey(limit_key), broken)

    def down() -> list[tuple[str | None, str]]:
        return [
            (connection.seller, connection.name)
            for connection in MinuteCounters(pool).troubles(PLATFORMS, NOW).connections
        ]

    fail(shop_limit_key("app", shop.shop))
    fail(_own_limit_key(own.bare))
    assert down() == [("a", "etsy 7"), ("a", "shopify a.myshopify.com")]
    fail(_limit_key(ETSY))
    fail(_own_limit_key(other.bare))
    assert down() == [
        (None, "etsy"),
        ("a", "etsy 7"),
        ("a", "shopify a.myshopify.com"),
        ("b", "etsy 8"),
    ]


@pytest.mark.parametrize("refused", (1, 2, 3))
def test_a_platform_that_refuses_many_accounts_is_named_once(
    pool: ConnectionPool, refused: int
) -> None:
    connect = (
        "INSERT INTO connected_accounts (user_id, platform, shop, refusals, refused_at, wait_until,"
        " wait_reason) VALUES (%s, 'etsy', %s, 1, %s, %s, 'no')"
    )
    with pool.connection() as connection:
        for number in range(6):
            at = NOW if number < refused else None
            connection.execute(connect, [f"s{number}", str(number), at, at])
    metrics = MinuteCounters(pool).troubles(PLATFORMS, NOW).connections
    together = [metric for metric in metrics if metric.seller is None]
    assert [(metric.name, metric.refused) for metric in together] == (
        [("etsy", 3)] if refused == 3 else []
    )
    assert sum(metric.seller is not None for metric in metrics) == refused
