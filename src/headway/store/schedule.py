"""The schedule's rows: front of the queue, claim, settle, release, rescue.

Read these statements as SQL: they are the heart of the engine. Every one takes `now` from the
caller; none holds a transaction across a call.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from headway.core.lifecycle import Settlement
from headway.core.model import Candidate, Listing, Sku, Turn
from headway.store.pool import guarded

SUSPICION_MAX = 2**31 - 1

# One short range scan of one index per turn, so the cost does not grow with the table.
FRONT = """
SELECT id::text, user_id, sku, turn, next_sync_at, suspicion FROM (
  {turns}
) AS front ORDER BY next_sync_at, id
""".format(
    turns=" UNION ALL ".join(
        f"""
  (SELECT * FROM product_sync_schedule WHERE is_active AND sync_status <> 'syncing'
     AND turn = '{turn}' AND sku <> ALL(%(without)s) AND suspicion <= %(suspicion_max)s
   ORDER BY next_sync_at LIMIT %(limit)s)"""
        for turn in ("manual", "onboarding", "scheduled", "retry")
    )
)

LISTING_COLUMNS = (
    "id",
    "user_id",
    "sku",
    "turn",
    "fence",
    "next_sync_at",
    "hour_bucket",
    "minute_offset",
    "created_at",
    "last_successful_sync",
    "consecutive_failures",
    "missing_count",
    "suspicion",
    "last_boeing_hash",
    "observed",
    "desired",
    "held_reason",
)
CLAIM = """
WITH free AS (
  SELECT id FROM product_sync_schedule
  WHERE sku = ANY(%(skus)s) AND is_active AND sync_status <> 'syncing'
  ORDER BY id FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE product_sync_schedule AS row SET
    sync_status = 'syncing', fence = row.fence + 1, lease_owner = %(owner)s,
    lease_until = %(lease_until)s, last_sync_started_at = %(now)s, updated_at = %(now)s
  FROM free WHERE row.id = free.id
  RETURNING row.*
)
SELECT taken.id::text, taken.user_id, taken.sku, taken.turn, taken.fence, taken.next_sync_at,
  taken.hour_bucket, taken.minute_offset, taken.created_at, taken.last_successful_sync,
  taken.consecutive_failures, taken.missing_count, taken.suspicion, taken.last_boeing_hash,
  state.observed, state.desired, state.held_reason
FROM taken LEFT JOIN listing_state AS state USING (user_id, sku)
"""

SETTLE = """
UPDATE product_sync_schedule AS row SET
  sync_status = new.sync_status, lease_owner = NULL, lease_until = NULL,
  turn = new.turn, next_sync_at = new.next_sync_at,
  is_active = row.is_active AND NOT new.is_parked,
  last_sync_at = %(now)s, last_sync_status = new.outcome, last_error = new.error,
  last_successful_sync = CASE WHEN new.outcome = 'failed' THEN row.last_successful_sync
                              ELSE %(now)s END,
  consecutive_failures = new.failures, missing_count = new.missing_count,
  suspicion = new.suspicion,
  last_boeing_hash = coalesce(new.hash, row.last_boeing_hash),
  last_price = CASE WHEN new.hash IS NULL THEN row.last_price ELSE new.price END,
  last_quantity = coalesce(new.quantity, row.last_quantity),
  last_inventory_status = CASE WHEN new.quantity IS NULL THEN row.last_inventory_status
                               WHEN new.quantity > 0 THEN 'in_stock' ELSE 'out_of_stock' END,
  last_locations = coalesce(new.locations, row.last_locations),
  updated_at = %(now)s
FROM unnest(%(id)s::uuid[], %(fence)s::bigint[], %(sync_status)s::text[], %(turn)s::text[],
  %(next_sync_at)s::timestamptz[], %(is_parked)s::boolean[], %(outcome)s::text[],
  %(error)s::text[], %(failures)s::int[], %(missing_count)s::int[], %(suspicion)s::int[],
  %(hash)s::text[], %(price)s::numeric[], %(quantity)s::int[], %(locations)s::jsonb[])
  AS new(id, fence, sync_status, turn, next_sync_at, is_parked, outcome, error, failures,
         missing_count, suspicion, hash, price, quantity, locations)
WHERE row.id = new.id AND row.fence = new.fence AND row.sync_status = 'syncing'
RETURNING row.id::text
"""

# A desired state that equals the stored one keeps its version: nothing to push.
STATE = """
INSERT INTO listing_state AS row
  (user_id, sku, observed, observed_at, desired, desired_at, desired_version, held_reason, held_at)
SELECT new.user_id, new.sku, new.observed, %(now)s, new.desired,
  CASE WHEN new.desired IS NULL THEN NULL ELSE %(now)s END,
  CASE WHEN new.desired IS NULL THEN 0 ELSE 1 END,
  new.held_reason, CASE WHEN new.held_reason IS NULL THEN NULL ELSE %(now)s END
FROM unnest(%(user_id)s::text[], %(sku)s::text[], %(observed)s::jsonb[], %(desired)s::jsonb[],
  %(held_reason)s::text[]) AS new(user_id, sku, observed, desired, held_reason)
ON CONFLICT (user_id, sku) DO UPDATE SET
  observed = coalesce(excluded.observed, row.observed),
  observed_at = CASE WHEN excluded.observed IS NULL THEN row.observed_at ELSE %(now)s END,
  desired = coalesce(excluded.desired, row.desired),
  desired_at = CASE WHEN excluded.desired IS NULL OR excluded.desired = row.desired
                    THEN row.desired_at ELSE %(now)s END,
  desired_version = row.desired_version + CASE WHEN excluded.desired IS NULL
                    OR excluded.desired IS NOT DISTINCT FROM row.desired THEN 0 ELSE 1 END,
  held_reason = excluded.held_reason,
  held_at = CASE WHEN excluded.held_reason IS NULL THEN NULL
                 ELSE coalesce(row.held_at, %(now)s) END
"""

EVENTS = """
INSERT INTO sync_audit_log
  (user_id, sku, sync_timestamp, event_type, old_value, new_value, error_message, batch_id,
   created_at)
SELECT new.user_id, new.sku, %(now)s, new.kind, new.old, new.new, new.error, %(call_id)s::uuid,
  %(now)s
FROM unnest(%(user_id)s::text[], %(sku)s::text[], %(kind)s::text[], %(old)s::jsonb[],
  %(new)s::jsonb[], %(error)s::text[]) AS new(user_id, sku, kind, old, new, error)
"""

RELEASE = """
UPDATE product_sync_schedule AS row SET
  sync_status = CASE last_sync_status WHEN 'pending' THEN 'pending' WHEN 'failed' THEN 'failed'
                ELSE 'success' END,
  lease_owner = NULL, lease_until = NULL, suspicion = new.suspicion
FROM unnest(%(id)s::uuid[], %(fence)s::bigint[], %(suspicion)s::int[]) AS new(id, fence, suspicion)
WHERE row.id = new.id AND row.fence = new.fence AND row.sync_status = 'syncing'
"""

# Reads the whole table, once after an outage. Whoever is aboard is its holder's to write.
PARDON = """
UPDATE product_sync_schedule SET suspicion = 0 WHERE suspicion > 0 AND sync_status <> 'syncing'
"""

# The fence moves on, so that whoever fell silent cannot settle when it wakes.
RESCUE = """
WITH silent AS (
  SELECT id FROM product_sync_schedule
  WHERE sync_status = 'syncing' AND lease_until < %(now)s ORDER BY id FOR UPDATE SKIP LOCKED
), freed AS (
  UPDATE product_sync_schedule AS row SET
    sync_status = CASE last_sync_status WHEN 'pending' THEN 'pending' WHEN 'failed' THEN 'failed'
                  ELSE 'success' END,
    fence = row.fence + 1, lease_owner = NULL, lease_until = NULL
  FROM silent WHERE row.id = silent.id
  RETURNING row.user_id, row.sku
)
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, created_at)
SELECT user_id, sku, %(now)s, 'lease_rescued', %(now)s FROM freed
"""


class Schedule:
    """`product_sync_schedule` behind the engine's port."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def front(
        self,
        now: datetime,
        *,
        limit: int,
        without: Collection[Sku] = (),
        only_clean: bool = False,
    ) -> list[Candidate]:
        """Return the listings that may board next, a few of each turn, by due time."""
        del now  # due or not is the core's question; the index needs no answer
        values = {
            "limit": limit,
            "without": list(without),
            "suspicion_max": 0 if only_clean else SUSPICION_MAX,
        }
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(FRONT, values).fetchall()
        return [
            Candidate(
                id=id_,
                user_id=user_id,
                sku=sku,
                turn=Turn(turn),
                next_sync_at=next_sync_at,
                suspicion=suspicion,
            )
            for id_, user_id, sku, turn, next_sync_at, suspicion in rows
        ]

    def claim(
        self, skus: Sequence[Sku], *, now: datetime, owner: str, lease_until: datetime
    ) -> list[Listing]:
        """Lease every free listing of these SKUs, of every seller, under a new fence."""
        values = {"skus": list(skus), "now": now, "owner": owner, "lease_until": lease_until}
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(CLAIM, values).fetchall()
        return [_listing(row) for row in rows]

    def settle(self, settlements: Sequence[Settlement], *, now: datetime, call_id: str) -> int:
        """Write outcomes, states and events in one transaction; return how many were refused."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            rows = connection.execute(SETTLE, _settle_values(settlements, now)).fetchall()
            accepted = {row[0] for row in rows}
            kept = [each for each in settlements if each.listing.id in accepted]
            _write_states(connection, kept, now)
            _write_events(connection, kept, now, call_id)
        return len(settlements) - len(kept)

    def release(self, listings: Sequence[Listing], *, suspicion: Mapping[str, int]) -> int:
        """Give seats back untouched, with the given suspicion; return how many were still ours."""
        values = {
            "id": [each.id for each in listings],
            "fence": [each.fence for each in listings],
            "suspicion": [suspicion.get(each.id, each.suspicion) for each in listings],
        }
        with guarded(), self._pool.connection() as connection:
            return connection.execute(RELEASE, values).rowcount

    def pardon(self) -> int:
        """Lift the suspicion from everybody who is not aboard a call; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(PARDON).rowcount

    def rescue(self, now: datetime) -> int:
        """Free the listings whose holder fell silent; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(RESCUE, {"now": now}).rowcount


def _listing(row: tuple[Any, ...]) -> Listing:
    """Read a row in the order of the claim's columns."""
    values = dict(zip(LISTING_COLUMNS, row, strict=True))
    return Listing(**{**values, "turn": Turn(values["turn"])})


def _settle_values(settlements: Sequence[Settlement], now: datetime) -> dict[str, Any]:
    def status(each: Settlement) -> str:
        if each.is_parked:
            return "parked"
        return "success" if each.is_good_read else "failed"

    seen = [each.observed for each in settlements]
    return {
        "now": now,
        "id": [each.listing.id for each in settlements],
        "fence": [each.listing.fence for each in settlements],
        "sync_status": [status(each) for each in settlements],
        "turn": [each.turn.value for each in settlements],
        "next_sync_at": [each.next_sync_at for each in settlements],
        "is_parked": [each.is_parked for each in settlements],
        "outcome": [each.outcome.value for each in settlements],
        "error": [each.error for each in settlements],
        "failures": [each.failures for each in settlements],
        "missing_count": [each.missing_count for each in settlements],
        "suspicion": [each.suspicion for each in settlements],
        "hash": [each and each.fingerprint() for each in seen],
        "price": [each and each.price for each in seen],
        "quantity": [None if each is None else each.quantity for each in seen],
        "locations": [each and Jsonb(dict(each.quantities)) for each in seen],
    }


def _write_states(connection: Connection, kept: Sequence[Settlement], now: datetime) -> None:
    """Write observed and desired where the read was new or would change them."""
    fresh = [each for each in kept if _changes_state(each)]
    if not fresh:
        return
    values = {
        "now": now,
        "user_id": [each.listing.user_id for each in fresh],
        "sku": [each.listing.sku for each in fresh],
        "observed": [each.observed and Jsonb(each.observed.as_json()) for each in fresh],
        "desired": [each.desired and Jsonb(dict(each.desired)) for each in fresh],
        "held_reason": [each.held_reason for each in fresh],
    }
    connection.execute(STATE, values)


def _changes_state(each: Settlement) -> bool:
    if each.observed is not None and each.observed.as_json() != each.listing.observed:
        return True
    if each.desired is not None and each.desired != each.listing.desired:
        return True
    return each.is_good_read and each.held_reason != each.listing.held_reason


def _write_events(
    connection: Connection, kept: Sequence[Settlement], now: datetime, call_id: str
) -> None:
    facts = [(each.listing, event) for each in kept for event in each.events]
    if not facts:
        return
    values = {
        "now": now,
        "call_id": call_id,
        "user_id": [listing.user_id for listing, _ in facts],
        "sku": [listing.sku for listing, _ in facts],
        "kind": [event.kind for _, event in facts],
        "old": [event.old and Jsonb(dict(event.old)) for _, event in facts],
        "new": [event.new and Jsonb(dict(event.new)) for _, event in facts],
        "error": [event.error for _, event in facts],
    }
    connection.execute(EVENTS, values)
