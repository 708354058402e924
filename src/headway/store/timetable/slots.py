"""Slots and due times: adopt another policy, move a slot, open a retry window.

Reads and retries move one listing's due time at a time; what is here moves many, or a slot.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from headway.core.catalog.listings import MAIN, SellerId, Sku, SupplierName
from headway.core.timetable.policies import Policy
from headway.core.timetable.policies.hours import FAILURES_MAX, OLD
from headway.core.timetable.policies.policy import EMPTY, latest_due
from headway.core.timetable.slots import RequestedSlot, Slot, SlottedListing
from headway.errors import NotFoundError
from headway.store.catalog.listings import LOCK, read_catalog
from headway.store.pool import Pool, guarded
from headway.store.queries import Queries, read_as

CHUNK = 10_000
FIRST = "00000000-0000-0000-0000-000000000000"
# What a supplier of two calls a minute, ten seats each, can give.
SEATS_PER_MIN = 20.0
# However large the catalog, some seats are left to listings that must not wait for their slot.
SPARE_MIN = 0.1
NO_SLOTS = (
    "{} reads a part when that is worth most, so the slot is stored and has no effect now; it takes"
    " effect under a policy with slots (HEADWAY_POLICY)"
)
DAY_MIN = 1440.0

BEGIN = """
INSERT INTO timetable (policy, adopted_at) VALUES ('', %(now)s) ON CONFLICT DO NOTHING
"""
ADOPTED = "SELECT policy FROM timetable FOR UPDATE"
ADOPT = "UPDATE timetable SET policy = %(policy)s, adopted_at = %(now)s"
# Writers of listings wait: row locks taken in another order could deadlock, and no one may see half
# a timetable. So do transactions that lock a row first and write it in a second statement; under a
# weaker lock the two would wait for each other.
ALONE = "LOCK TABLE product_sync_schedule IN EXCLUSIVE MODE"
LOADS_KEPT = """
SELECT hour_bucket, count(*) FROM product_sync_schedule
WHERE supplier = %(supplier)s AND is_active AND manual_slot_override GROUP BY hour_bucket
"""
COLUMNS = """
id::text, supplier, sku, hour_bucket, minute_offset, sync_priority, manual_slot_override, priority,
sync_status, is_active, next_sync_at, coalesce(last_successful_sync, created_at) AS read_at
"""
SUPPLIERS = "SELECT DISTINCT supplier FROM product_sync_schedule ORDER BY supplier"
# Parked ones too: a revived listing must find a slot of this policy.
SOME = f"""
SELECT {COLUMNS} FROM product_sync_schedule
WHERE supplier = %(supplier)s AND id > %(after)s ORDER BY id LIMIT %(limit)s
"""
PLACE = """
UPDATE product_sync_schedule AS row SET hour_bucket = new.hour_bucket,
  minute_offset = new.minute_offset, next_sync_at = new.next_sync_at, swept_from = NULL,
  updated_at = %(now)s
FROM unnest(%(ids)s::uuid[], %(hours)s::smallint[], %(minutes)s::smallint[],
  %(due)s::timestamptz[]) AS new(id, hour_bucket, minute_offset, next_sync_at)
WHERE row.id = new.id
"""
# Listings that cannot wait for their slot, the latest deadline first: each is due at its deadline,
# or a step before the next one. So any number of deadlines at one instant become a queue that ends
# there. Where that queue would have to begin before now, it begins now, in the same order.
SPREAD = """
WITH hurried AS (
  SELECT id, next_sync_at AS latest,
    row_number() OVER (ORDER BY next_sync_at DESC, id) AS number, count(*) OVER () AS total
  FROM product_sync_schedule
  WHERE supplier = %(supplier)s AND is_active AND priority = 'scheduled'
    AND sync_status <> 'syncing'
    AND next_sync_at = coalesce(last_successful_sync, created_at) + %(span)s
), spread AS (
  SELECT id, greatest(
    min(latest + number * %(step)s) OVER (ORDER BY number) - number * %(step)s,
    %(now)s + (total - number) * interval '1 microsecond') AS due_at
  FROM hurried
)
UPDATE product_sync_schedule AS row SET next_sync_at = spread.due_at
FROM spread WHERE row.id = spread.id AND row.next_sync_at <> spread.due_at
"""
# The changes in the history, discounted by half in a month: as if the policy had observed them. One
# read that changed price and stock is one change. It was watched from its first answer to its last.
WARM_START = """
WITH changes AS (
  SELECT DISTINCT user_id, sku, sync_timestamp AS at FROM sync_audit_log
  WHERE event_type IN ('price_changed', 'quantity_changed', 'cost_changed')
), begun AS (
  SELECT user_id, sku, min(sync_timestamp) AS at FROM sync_audit_log
  WHERE event_type = 'first_observed' GROUP BY user_id, sku
), watched AS (
  SELECT row.id, coalesce(begun.at, row.created_at) AS since, row.last_successful_sync AS until,
    row.user_id, row.sku
  FROM product_sync_schedule AS row LEFT JOIN begun USING (user_id, sku)
  WHERE row.changes_seen = 0 AND row.watched_days = 0
    AND row.last_successful_sync > coalesce(begun.at, row.created_at)
), evidence AS (
  SELECT watched.id, max(changes.at) AS changed_at,
    45 * (1 - exp(-(extract(epoch FROM watched.until - watched.since) / 86400 / 45)::float8))
      AS watched_days,
    coalesce(sum(exp(-(extract(epoch FROM watched.until - changes.at) / 86400 / 45)::float8)), 0)
      AS changes_seen
  FROM watched LEFT JOIN changes ON changes.user_id = watched.user_id
    AND changes.sku = watched.sku AND changes.at > watched.since AND changes.at <= watched.until
  GROUP BY watched.id, watched.until, watched.since
)
UPDATE product_sync_schedule AS row SET changes_seen = evidence.changes_seen,
  watched_days = evidence.watched_days, changed_at = evidence.changed_at
FROM evidence WHERE row.id = evidence.id
"""
# The same place as `place_in_window` gives: fewest failures first, then the oldest attempt. A
# listing tried since the window opened is not retried in it again.
ROLL = """
WITH waiting AS (
  SELECT id, %(opens_at)s + interval '1 second' * (least(consecutive_failures, %(failures_max)s)
    + 0.999 * (1 - least(extract(epoch FROM %(opens_at)s - last_sync_at)
                         / extract(epoch FROM %(old)s::interval), 1))::float8) AS due_at
  FROM product_sync_schedule
  WHERE supplier = %(supplier)s AND priority = 'retry' AND is_active AND sync_status <> 'syncing'
    AND last_sync_at < %(opens_at)s
    AND (next_sync_at < %(opens_at)s OR next_sync_at >= %(opens_at)s + interval '5 minutes')
  ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE product_sync_schedule AS row SET next_sync_at = waiting.due_at, updated_at = %(now)s
FROM waiting WHERE row.id = waiting.id
RETURNING row.sku
"""
ONE = f"""
SELECT {COLUMNS} FROM product_sync_schedule
WHERE user_id = %(user_id)s AND sku = %(sku)s FOR UPDATE
"""
MOVE = """
UPDATE product_sync_schedule SET hour_bucket = %(hour_bucket)s, minute_offset = %(minute_offset)s,
  sync_priority = %(sync_priority)s, manual_slot_override = %(manual_slot_override)s,
  next_sync_at = %(next_sync_at)s, updated_at = %(now)s
WHERE id = %(id)s
"""
ADD_EVENT = """
INSERT INTO sync_audit_log
  (user_id, sku, sync_timestamp, event_type, old_value, new_value, created_at)
VALUES (%(user_id)s, %(sku)s, %(now)s, 'slot_moved', %(old)s, %(new)s, %(now)s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedSlot:
    """Result of moving a listing; `note` says if the slot has no effect for now, and why."""

    seller: SellerId
    sku: Sku
    old: Slot
    """The slot before."""
    new: Slot
    """The slot now."""
    next_sync_at: datetime
    """When the part is read next."""
    is_parked: bool
    """True if the part is parked, so that it is not read until somebody revives it."""
    note: str = ""
    """Why it has no effect for now; empty if it has. Example: `the policy takes no slots`"""


class Timetable(Queries):
    """Slots and due times of many listings; windows for retries are one supplier's."""

    def __init__(self, pool: Pool, supplier: SupplierName = MAIN) -> None:
        super().__init__(pool)
        self._supplier = supplier

    def adopt(self, policy: Policy, now: datetime, *, seats_per_min: float = SEATS_PER_MIN) -> int:
        """Place every listing again if another policy had placed them; return how many.

        All or nothing, once, even if several processes start. No listing becomes older by it than
        the policy allows, as far as the supplier's seats go. Slots that a person chose are kept;
        so are the due times of listings that are urgent, retried, parked or being read.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(LOCK)
            connection.execute(BEGIN, {"now": now})
            if connection.execute(ADOPTED).fetchone() == (policy.name,):
                return 0
            connection.execute(ALONE)
            suppliers = [name for (name,) in connection.execute(SUPPLIERS).fetchall()]
            count = sum(
                _place_all(connection, supplier, policy, now, seats_per_min=seats_per_min)
                for supplier in suppliers
            )
            if policy.is_eager:
                connection.execute(WARM_START)
            connection.execute(ADOPT, {"policy": policy.name, "now": now})
            return count

    def roll_retries(self, now: datetime, opens_at: datetime) -> Sequence[Sku]:
        """Move the retries that wait for other windows into this one; return those that moved.

        They are those that earlier windows had no seat for, and those that expected the next one
        later, before the catalog had grown.
        """
        values = {
            "supplier": self._supplier,
            "now": now,
            "opens_at": opens_at,
            "failures_max": FAILURES_MAX,
            "old": OLD,
        }
        return [sku for (sku,) in self._rows(ROLL, values)]

    def move(
        self,
        user_id: SellerId,
        sku: Sku,
        requested_slot: RequestedSlot,
        *,
        policy: Policy,
        now: datetime,
    ) -> MovedSlot:
        """Give a listing another slot, or let the policy choose it again.

        It is read once more before the new slot where it would become too old otherwise. Under a
        policy without slots the slot is stored, and takes effect under a policy that has them.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if requested_slot.is_auto:  # before the row: that is the order in which everybody locks
                connection.execute(LOCK)
            key = {"user_id": user_id, "sku": sku}
            row = next(iter(read_as(connection, SlottedListing, ONE, key)), None)
            if row is None:
                raise NotFoundError(f"{user_id} does not list {sku}")
            catalog = EMPTY
            if requested_slot.is_auto:
                catalog = read_catalog(connection.cursor(), row.supplier)
            new = row.requested_slot(requested_slot, policy, catalog, now)
            takes_effect = row.waits_for_slot and not policy.is_eager
            due_at = row.due(policy, new, now) if takes_effect else row.next_sync_at
            values = {**asdict(new), "next_sync_at": due_at, "id": row.id, "now": now}
            connection.execute(MOVE, values)
            if new != row.slot:
                change = {"old": Jsonb(asdict(row.slot)), "new": Jsonb(asdict(new)), "now": now}
                connection.execute(ADD_EVENT, {**key, **change})
        return MovedSlot(
            seller=user_id,
            sku=sku,
            old=row.slot,
            new=new,
            next_sync_at=due_at,
            is_parked=not row.is_active,
            note=NO_SLOTS.format(policy.name) if policy.is_eager else "",
        )


def _place_all(
    connection: Connection[Any],
    supplier: SupplierName,
    policy: Policy,
    now: datetime,
    *,
    seats_per_min: float,
) -> int:
    """Give every listing of a supplier a slot and a due time; return how many are active."""
    count = _place_slots(connection, supplier, policy, now)
    spare = max(seats_per_min - count / DAY_MIN, SPARE_MIN * seats_per_min)
    values = {
        "supplier": supplier,
        "now": now,
        "span": latest_due(now, age_max=policy.age_max, slack=policy.slack) - now,
        "step": timedelta(minutes=1 / spare),
    }
    connection.execute(SPREAD, values)
    return count


def _place_slots(
    connection: Connection[Any], supplier: SupplierName, policy: Policy, now: datetime
) -> int:
    """Give every listing a slot, a chunk at a time; return how many are active."""
    catalog = EMPTY
    if policy.weighs_slots:
        catalog = read_catalog(connection.cursor(), supplier, LOADS_KEPT)
    count, values = 0, {"supplier": supplier, "limit": CHUNK, "after": FIRST}
    while rows := read_as(connection, SlottedListing, SOME, values):
        values["after"] = rows[-1].id
        ids, hours, minutes, due = [], [], [], []
        for row in rows:
            slot = row.slot
            if not slot.manual_slot_override:
                slot = row.policy_slot(policy, catalog, now)
                if policy.weighs_slots and row.is_active:
                    catalog = catalog.with_one_in(slot.hour_bucket)
            is_idle = row.waits_for_slot and row.sync_status != "syncing"
            ids.append(row.id)
            hours.append(slot.hour_bucket)
            minutes.append(slot.minute_offset)
            due.append(row.due(policy, slot, now) if is_idle else row.next_sync_at)
            count += row.is_active
        placed = {"ids": ids, "hours": hours, "minutes": minutes, "due": due, "now": now}
        connection.execute(PLACE, placed)
    return count
