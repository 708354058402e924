"""Fetch, push and a person settle the same listings at once: no deadlock."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from psycopg_pool import ConnectionPool

from headway.app.rules import seller_defaults
from headway.clock import fresh_id
from headway.config import Settings
from headway.core.catalog.lifecycle import Settlement
from headway.core.catalog.listings import Outcome, Priority, SellerId, Sku
from headway.core.catalog.storefront import Pushed
from headway.errors import StoreError
from headway.store.catalog.pushes import Pushes
from headway.store.catalog.review import Review
from headway.store.catalog.sellers import Sellers
from headway.store.timetable.schedule import Schedule

NOW = datetime(2026, 1, 5, tzinfo=UTC)
LISTINGS, ROUNDS = 150, 40
OFFER = {
    "price": "11.00",
    "cost": "9",
    "currency": "USD",
    "compare_at": None,
    "quantities": {"Dallas": 5},
}


def fill(pool: ConnectionPool) -> None:
    with pool.connection() as connection:
        connection.execute(
            "INSERT INTO connected_accounts (user_id, platform, shop, locations, locations_at,"
            " push_started_at) VALUES ('a', 'shopify', 'a.myshopify.com', '{}', %(now)s, %(now)s)",
            {"now": NOW},
        )
        connection.execute(
            "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
            " SELECT 'a', 'S' || n, 0, %s FROM generate_series(1, %s) AS n",
            [NOW, LISTINGS],
        )
        connection.execute(
            "INSERT INTO listing_state (user_id, sku, desired, desired_version, push_at)"
            " SELECT 'a', 'S' || n, %s, 1, %s FROM generate_series(1, %s) AS n",
            [json.dumps(OFFER), NOW, LISTINGS],
        )


def test_fetch_push_and_operator_commands_never_deadlock(
    shared_pool: ConnectionPool,
) -> None:
    fill(shared_pool)
    pushes, review, schedule = (
        Pushes(shared_pool, Sellers(shared_pool, seller_defaults(Settings(guard_move=1)))),
        Review(shared_pool),
        Schedule(shared_pool),
    )
    skus = [Sku(f"S{number}") for number in range(1, LISTINGS + 1)]
    lease = NOW + timedelta(seconds=60)

    def push(number: int) -> None:
        (shop,) = pushes.due_shops(NOW, verified_before=None, limit=1)
        push_lease = pushes.claim(
            shop, now=NOW, owner="w", lease_until=lease, verified_before=None, limit=300
        )
        assert push_lease is not None
        changes = push_lease.changes[:: 1 if number % 2 else -1]
        pushes.settle(
            push_lease, [Pushed(change=change, retry_at=NOW) for change in changes], now=NOW
        )

    def fetch(number: int) -> None:
        listings = schedule.claim(skus, now=NOW, owner="f", lease_until=lease)
        if not listings:  # another transaction holds them all
            return
        settlement = Settlement(
            listing=listings[0],
            outcome=Outcome.UPDATED,
            priority=Priority.SCHEDULED,
            next_sync_at=NOW,
            desired={**OFFER, "price": f"{10 + number % 3}.00"},
            proposed=OFFER,
            held_reason="too far",
        )
        settled = [replace(settlement, listing=listing) for listing in reversed(listings)]
        schedule.settle(settled, now=NOW, call_id=fresh_id())

    def decide(number: int) -> None:
        review.approve(SellerId("a"), skus, reason=f"{number}", now=NOW)

    refused: list[str] = []

    def repeat(step: Callable[[int], None]) -> None:
        for number in range(ROUNDS):
            try:
                step(number)
            except StoreError as error:
                refused.append(f"{step.__name__}: {error}")
                return

    threads = [threading.Thread(target=repeat, args=(step,)) for step in (push, fetch, decide)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == []
