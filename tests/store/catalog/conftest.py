"""Fixtures for the tests of decisions about listings."""

import json
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.store.catalog.held_listings import JUMP, UNPRICED, Ask, Put, shows

from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.policies.rolling import Rolling
from headway.store.catalog.listings import Listings
from headway.store.catalog.review import Review
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def review(pool: ConnectionPool) -> Review:
    return Review(pool)


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def query(sql: str, *values: object) -> list[tuple[Any, ...]]:
        with pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    return query


@pytest.fixture
def put(pool: ConnectionPool, clock: VirtualClock, ask: Ask) -> Put:
    """Enter a listing whose shop shows what is desired; keywords are columns of its state."""

    def enter(seller: SellerId, sku: Sku, **columns: Any) -> None:
        now = clock.now()
        Listings(pool).add([(seller, sku)], policy=Rolling(), now=now)
        row = {
            "desired": shows("11.00"), "desired_version": 3, "desired_at": now,
            "applied_version": 3, **columns,
        }  # fmt: skip
        values = [json.dumps(item) if isinstance(item, dict) else item for item in row.values()]
        ask(
            f"INSERT INTO listing_state (user_id, sku, {', '.join(row)})"
            f" VALUES (%s, %s{', %s' * len(row)})",
            *(seller, sku, *values),
        )

    return enter


@pytest.fixture
def hold(put: Put, clock: VirtualClock) -> Put:
    """Enter a listing whose price waits for a person."""

    def enter(seller: SellerId, sku: Sku, *, price: str | None = "25.00", **columns: Any) -> None:
        put(
            seller,
            sku,
            held_reason=JUMP if price else UNPRICED,
            held_at=columns.pop("held_at", clock.now()),
            proposed=price and shows(price, 7),
            observed={
                "list_price": None, "net_price": "9", "currency": "USD",
                "quantities": {"Miami": 7},
            },
            **columns,
        )  # fmt: skip

    return enter
