"""Rows that the law checks read straight from the tables, bypassing the engine and its ports.

It writes in two places: `open_shops` begins a run, and `tidy` does at a chosen moment what
autovacuum would do at an arbitrary one, so that two runs of one seed find the same row order.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from headway.core.catalog.listings import SellerId, Sku
from headway.store.pool import Pool, guarded

ROWS = """
SELECT row.id::text, row.user_id, row.sku, row.sync_status, row.fence, row.lease_owner,
  row.lease_until, row.next_sync_at, row.priority, row.is_active, row.consecutive_failures,
  row.missing_count, row.suspicion, row.last_successful_sync,
  state.desired_version, state.held_reason, state.observed::text, state.desired::text
FROM product_sync_schedule AS row LEFT JOIN listing_state AS state USING (user_id, sku)
"""
# Whatever the engine writes to a row shows in one of these.
BRIEFS = """
SELECT row.id::text, row.user_id, row.sku, row.sync_status, row.fence, row.priority, row.is_active,
  row.consecutive_failures, extract(epoch FROM row.next_sync_at)::float8, state.desired_version
FROM product_sync_schedule AS row LEFT JOIN listing_state AS state USING (user_id, sku)
"""
# Listings that may take a spare seat: all free ones, also before their time; a retry only when due.
LEFT_BEHIND = """
SELECT count(DISTINCT sku) FROM product_sync_schedule
WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused AND suspicion <= 1
  AND (priority <> 'retry' OR next_sync_at <= %(now)s)
"""
STRAYS = """
SELECT count(*) FROM listing_state AS state
WHERE NOT EXISTS (SELECT FROM product_sync_schedule AS row
                  WHERE row.user_id = state.user_id AND row.sku = state.sku)
"""
OPEN_INTENTS = "SELECT user_id, kind, skus, writes FROM push_intent WHERE state = 'open'"
# No jobs follow the account: nobody pulls in this lane.
CONNECT = """
INSERT INTO connected_accounts
  (id, user_id, platform, shop, jobs_status, push_started_at, created_at, updated_at)
VALUES (%(id)s, %(user_id)s, 'shopify', %(shop)s, 'connected', %(now)s, %(now)s, %(now)s)
"""
COPY_STATES = """
COPY listing_state (user_id, sku, desired, desired_at, desired_version, applied, applied_at,
  applied_version, verified_at) FROM STDIN
"""
COPY_PRODUCTS = """
COPY product (user_id, sku, shop_sku, shopify_product_id, shopify_variant_id,
  shopify_inventory_item_id, status, created_at, updated_at) FROM STDIN
"""
BUSY_TABLES = (
    "product_sync_schedule", "listing_state", "limiter", "breaker", "credential",
    "connected_accounts", "push_intent", "product",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopRow:
    """A seller's shop as a run begins."""

    id: str
    user_id: SellerId
    shop: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedListing:
    """A listing that is in its shop when the run starts: its state and its ids."""

    user_id: SellerId
    sku: Sku
    state: Mapping[str, Any]
    product: str
    variant: str
    item: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIntent:
    """A write that is stored and whose result is not known yet."""

    user_id: SellerId
    kind: str
    skus: Sequence[str]
    writes: Sequence[dict[str, Any]]


class ListingRow(NamedTuple):
    """One listing as the tables have it; a tuple, for a run makes and compares millions."""

    id: str
    user_id: SellerId
    sku: Sku
    sync_status: str
    fence: int
    lease_owner: str | None
    lease_until: datetime | None
    next_sync_at: datetime
    priority: str
    is_active: bool
    consecutive_failures: int
    missing_count: int
    suspicion: int
    last_successful_sync: datetime | None
    desired_version: int | None
    held_reason: str | None
    observed: Mapping[str, Any] | None
    desired: Mapping[str, Any] | None

    @property
    def is_leased(self) -> bool:
        """Return True if a worker holds it."""
        return self.sync_status == "syncing"

    @property
    def brief(self) -> tuple[Any, ...]:
        """The row as `briefs` has it."""
        return (
            self.id, self.user_id, self.sku, self.sync_status, self.fence, self.priority,
            self.is_active, self.consecutive_failures, self.next_sync_at.timestamp(),
            self.desired_version,
        )  # fmt: skip


class ScheduleEvidence:
    """The tables as they are."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._documents: dict[str, Mapping[str, Any]] = {}

    def all_rows(self) -> list[ListingRow]:
        """Return every listing."""
        return self._rows("", {})

    def briefs(self) -> dict[str, tuple[Any, ...]]:
        """Return every listing by id in short form, which takes a tenth of the time."""
        with guarded(), self._pool.connection() as connection:
            return {row[0]: row for row in connection.execute(BRIEFS).fetchall()}

    def rows_of(self, skus: Sequence[Sku]) -> list[ListingRow]:
        """Return all sellers' listings of these SKUs."""
        return self._rows("WHERE row.sku = ANY(%(skus)s)", {"skus": list(skus)})

    def left_behind(self, now: datetime) -> int:
        """Count the SKUs that could still join the call."""
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(LEFT_BEHIND, {"now": now}).fetchone()
        assert row is not None
        return int(row[0])

    def strays(self) -> int:
        """Count the states that belong to no listing."""
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(STRAYS).fetchone()
        assert row is not None
        return int(row[0])

    def open_intents(self) -> list[OpenIntent]:
        """Return the intents that are open."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(OPEN_INTENTS).fetchall()
        return [OpenIntent(user_id=u, kind=k, skus=s, writes=w) for u, k, s, w in rows]

    def open_shops(
        self, accounts: Iterable[ShopRow], published: Iterable[PublishedListing], *, now: datetime
    ) -> None:
        """Connect shops, and store each listing's desired state as applied and verified now."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            cursor, listings = connection.cursor(), list(published)
            for account in accounts:
                values = {"id": account.id, "user_id": account.user_id, "shop": account.shop}
                cursor.execute(CONNECT, {**values, "now": now})
            with cursor.copy(COPY_STATES) as copy:
                for listing in listings:
                    state = json.dumps(dict(listing.state))
                    copy.write_row((listing.user_id, listing.sku, *(state, now, 1) * 2, now))
            with cursor.copy(COPY_PRODUCTS) as copy:
                for listing in listings:
                    ids = (listing.product, listing.variant, listing.item)
                    copy.write_row(
                        (listing.user_id, listing.sku, listing.sku, *ids, "ACTIVE", now, now)
                    )

    def tidy(self) -> None:
        """Vacuum the tables and update the planner's statistics."""
        with guarded(), self._pool.connection() as connection:
            for table in BUSY_TABLES:
                connection.execute(f"VACUUM (ANALYZE) {table}")

    def _rows(self, where: str, values: Mapping[str, Any]) -> list[ListingRow]:
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(ROWS + where, values).fetchall()
        return [ListingRow._make((*row, self._read(o), self._read(d))) for *row, o, d in rows]

    def _read(self, text: str | None) -> Mapping[str, Any] | None:
        """Read a state; one that was read before, as most were, is the same object again."""
        if text is None:
            return None
        if text not in self._documents:
            self._documents[text] = json.loads(text)
        return self._documents[text]
