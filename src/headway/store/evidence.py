"""What the simulation's law book reads straight from the tables, past the engine and its ports.

Nothing here writes, except `tidy`, which does at an instant of our choosing what autovacuum would
do at one of its own, so that two runs of one seed find their rows in the same order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg_pool import ConnectionPool

from headway.core.model import SellerId, Sku
from headway.store.pool import guarded

ROWS = """
SELECT row.id::text, row.user_id, row.sku, row.sync_status, row.fence, row.lease_owner,
  row.lease_until, row.next_sync_at, row.turn, row.is_active, row.consecutive_failures,
  row.missing_count, row.suspicion, row.last_successful_sync,
  state.observed, state.desired, state.desired_version, state.held_reason
FROM product_sync_schedule AS row LEFT JOIN listing_state AS state USING (user_id, sku)
"""
# Whatever the engine writes to a row shows in one of these.
BRIEFS = """
SELECT row.id::text, row.user_id, row.sku, row.sync_status, row.fence, row.turn, row.is_active,
  row.consecutive_failures, extract(epoch FROM row.next_sync_at)::float8, state.desired_version
FROM product_sync_schedule AS row LEFT JOIN listing_state AS state USING (user_id, sku)
"""
# Who may take a spare seat: everyone free, also before its time, but a retry only when due.
LEFT_BEHIND = """
SELECT count(DISTINCT sku) FROM product_sync_schedule
WHERE is_active AND sync_status <> 'syncing' AND suspicion <= 1
  AND (turn <> 'retry' OR next_sync_at <= %(now)s)
"""
STRAYS = """
SELECT count(*) FROM listing_state AS state
WHERE NOT EXISTS (SELECT FROM product_sync_schedule AS row
                  WHERE row.user_id = state.user_id AND row.sku = state.sku)
"""
BUSY_TABLES = ("product_sync_schedule", "listing_state", "limiter", "breaker", "credential")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One listing as the tables have it."""

    id: str
    user_id: SellerId
    sku: Sku
    sync_status: str
    fence: int
    lease_owner: str | None
    lease_until: datetime | None
    next_sync_at: datetime
    turn: str
    is_active: bool
    consecutive_failures: int
    missing_count: int
    suspicion: int
    last_successful_sync: datetime | None
    observed: Mapping[str, Any] | None
    desired: Mapping[str, Any] | None
    desired_version: int | None
    held_reason: str | None

    @property
    def is_leased(self) -> bool:
        """Whether some worker holds it."""
        return self.sync_status == "syncing"

    @property
    def brief(self) -> tuple[Any, ...]:
        """The row as `briefs` has it."""
        return (
            self.id, self.user_id, self.sku, self.sync_status, self.fence, self.turn,
            self.is_active, self.consecutive_failures, self.next_sync_at.timestamp(),
            self.desired_version,
        )  # fmt: skip


class Evidence:
    """The tables as they are."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def all_rows(self) -> list[Row]:
        """Return every listing."""
        return self._rows("", {})

    def briefs(self) -> dict[str, tuple[Any, ...]]:
        """Return every listing by id in short, which takes a tenth of the time."""
        with guarded(), self._pool.connection() as connection:
            return {row[0]: row for row in connection.execute(BRIEFS).fetchall()}

    def rows_of(self, skus: Sequence[Sku]) -> list[Row]:
        """Return all sellers' listings of these SKUs."""
        return self._rows("WHERE row.sku = ANY(%(skus)s)", {"skus": list(skus)})

    def left_behind(self, now: datetime) -> int:
        """Count the SKUs free to travel with anybody that could still board."""
        with guarded(), self._pool.connection() as connection:
            found = connection.execute(LEFT_BEHIND, {"now": now}).fetchone()
        assert found is not None
        return int(found[0])

    def strays(self) -> int:
        """Count the states that belong to no listing."""
        with guarded(), self._pool.connection() as connection:
            found = connection.execute(STRAYS).fetchone()
        assert found is not None
        return int(found[0])

    def tidy(self) -> None:
        """Remove dead rows and renew the planner's statistics."""
        with guarded(), self._pool.connection() as connection:
            for table in BUSY_TABLES:
                connection.execute(f"VACUUM (ANALYZE) {table}")

    def _rows(self, where: str, values: Mapping[str, Any]) -> list[Row]:
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(ROWS + where, values).fetchall()
        return [Row(**dict(zip(NAMES, row, strict=True))) for row in rows]


NAMES = tuple(Row.__dataclass_fields__)
