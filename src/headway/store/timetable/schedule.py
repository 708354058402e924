"""The schedule's rows: front of the queue, claim, settle, release, rescue.

Read these statements as SQL: they are the heart of the engine. Every one takes `now` from the
caller; none holds a transaction across a call.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from headway.core.catalog.lifecycle import Settlement
from headway.core.catalog.listings import (
    MAIN,
    Candidate,
    Evidence,
    Listing,
    Outcome,
    Priority,
    Sku,
    SupplierName,
)
from headway.store.pause_sql import SUPPLIER_PAUSED, is_unmarked
from headway.store.pool import Pool, guarded

SUSPICION_MAX = 2**31 - 1

# One short range scan of one index per turn, so the cost does not grow with the table. The limit is
# part of the text: a plan for any limit is so much worse that none would ever be kept. What is
# paused is out of the index as soon as it is marked, and asked for until then.
NOT_PAUSED = f"NOT row.is_paused AND NOT {is_unmarked('row')}"
FRONT = """
SELECT id::text, user_id, sku, priority, next_sync_at, suspicion FROM (
  {priorities}
) AS front WHERE NOT {supplier} ORDER BY next_sync_at, id
""".format(
    priorities=" UNION ALL ".join(
        f"""
  (SELECT * FROM product_sync_schedule AS row WHERE is_active AND sync_status <> 'syncing'
     AND supplier = %(supplier)s AND priority = '{priority}' AND sku <> ALL(%(without)s)
     AND suspicion <= %(suspicion_max)s AND {NOT_PAUSED}
   ORDER BY next_sync_at LIMIT {{limit:d}})"""
        for priority in ("manual", "onboarding", "scheduled", "retry")
    ),
    supplier=SUPPLIER_PAUSED,
)

LISTING_COLUMNS = (
    "id",
    "user_id",
    "sku",
    "priority",
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
    "desired_version",
    "held_reason",
    "proposed",
    "rejected",
    "moved_at",
    "batch_id",
    "sync_priority",
    "value_weight",
    "family",
    "swept_from",
)
EVIDENCE_COLUMNS = ("changes_seen", "watched_days", "changed_at")
CLAIM = f"""
WITH free AS (
  SELECT id FROM product_sync_schedule AS row
  WHERE sku = ANY(%(skus)s) AND supplier = %(supplier)s AND is_active AND sync_status <> 'syncing'
    AND NOT {SUPPLIER_PAUSED} AND {NOT_PAUSED}
  ORDER BY id FOR UPDATE OF row SKIP LOCKED
), taken AS (
  UPDATE product_sync_schedule AS row SET
    sync_status = 'syncing', fence = row.fence + 1, lease_owner = %(owner)s,
    lease_until = %(lease_until)s, last_sync_started_at = %(now)s, updated_at = %(now)s,
    retried_at = CASE WHEN row.sku = ANY(%(retried)s) THEN %(now)s ELSE row.retried_at END
  FROM free WHERE row.id = free.id
  RETURNING row.*
)
SELECT taken.id::text, taken.user_id, taken.sku, taken.priority, taken.fence, taken.next_sync_at,
  taken.hour_bucket, taken.minute_offset, taken.created_at, taken.last_successful_sync,
  taken.consecutive_failures, taken.missing_count, taken.suspicion, taken.last_boeing_hash,
  state.observed, state.desired, coalesce(state.desired_version, 0), state.held_reason,
  state.proposed, state.rejected, state.moved_at, staging.batch_id::text,
  taken.sync_priority, taken.value_weight, taken.family, taken.swept_from,
  taken.changes_seen, taken.watched_days, taken.changed_at
FROM taken LEFT JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN product_staging AS staging ON staging.user_id = taken.user_id
  AND staging.sku = taken.sku AND staging.status = 'requested'
"""

# One statement, so one transaction and one trip: what the fences refuse writes no state and no
# event. The ids come a second time as an array, by which the planner knows how few they are. A
# desired state that equals the stored one keeps its version: nothing to push. Push may have put a
# price back, and held it, while we were reading: then its verdict stands, and we bring the rest.
# And who was asked for meanwhile, by a person or to be published, is due as it was asked for. Rows
# are locked in the order of their keys, as a person's verbs and a push do.
SETTLE_ROWS = """
WITH new AS (
  SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb) AS new(
    id uuid, fence bigint, user_id text, sku text, sync_status text, priority text, was_turn text,
    next_sync_at timestamptz, was_due_at timestamptz, stops boolean, outcome text, error text,
    failures int, missing_count int, suspicion int, hash text, price numeric, quantity int,
    locations jsonb, observed jsonb, desired jsonb, desired_version bigint, was_held boolean,
    held_reason text, proposed jsonb, rejected jsonb, has_moved boolean, staging jsonb,
    batch_id uuid, changes_state boolean, family text, changes_seen float8, watched_days float8,
    changed_at timestamptz)
), ours AS (
  SELECT id FROM product_sync_schedule
  WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR UPDATE
), settled AS (
  UPDATE product_sync_schedule AS row SET
    sync_status = new.sync_status, lease_owner = NULL, lease_until = NULL,
    (priority, next_sync_at) = (SELECT CASE WHEN is_asked THEN row.priority ELSE new.priority END,
      CASE WHEN is_asked THEN row.next_sync_at ELSE new.next_sync_at END
      FROM (SELECT (row.priority, row.next_sync_at) <> (new.was_turn, new.was_due_at) AS is_asked
        ) AS meanwhile),
    is_active = row.is_active AND NOT new.stops,
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
    family = coalesce(row.family, new.family), swept_from = NULL,
    changes_seen = coalesce(new.changes_seen, row.changes_seen),
    watched_days = coalesce(new.watched_days, row.watched_days),
    changed_at = coalesce(new.changed_at, row.changed_at),
    updated_at = %(now)s
  FROM new JOIN ours USING (id)
  WHERE row.id = ANY(%(ids)s::uuid[]) AND row.id = new.id AND row.fence = new.fence
    AND row.sync_status = 'syncing'
  RETURNING row.id
)"""
SETTLE_NEWS = """, states AS (
  INSERT INTO listing_state AS row (user_id, sku, observed, observed_at, desired, desired_at,
    desired_version, held_reason, held_at, proposed, rejected, push_at)
  SELECT new.user_id, new.sku, new.observed, %(now)s, new.desired,
    CASE WHEN new.desired IS NOT NULL THEN %(now)s END,
    CASE WHEN new.desired IS NULL THEN 0 ELSE 1 END,
    new.held_reason, CASE WHEN new.held_reason IS NOT NULL THEN %(now)s END,
    new.proposed, new.rejected, CASE WHEN new.desired IS NOT NULL THEN %(now)s END
  FROM new JOIN settled USING (id) WHERE new.changes_state ORDER BY new.user_id, new.sku
  ON CONFLICT (user_id, sku) DO UPDATE SET (observed, observed_at, desired, desired_at,
    desired_version, held_reason, held_at, proposed, rejected, moved_at, push_at) = (
    SELECT coalesce(new.observed, row.observed),
      CASE WHEN new.observed IS NULL THEN row.observed_at ELSE %(now)s END,
      next.desired,
      CASE WHEN next.is_other THEN %(now)s ELSE row.desired_at END,
      row.desired_version + CASE WHEN next.is_other THEN 1 ELSE 0 END,
      next.held_reason,
      CASE WHEN next.held_reason IS NOT NULL THEN coalesce(row.held_at, %(now)s) END,
      CASE WHEN judged.is_stale THEN row.proposed ELSE new.proposed END,
      CASE WHEN judged.is_stale THEN row.rejected ELSE new.rejected END,
      CASE WHEN new.has_moved THEN %(now)s ELSE row.moved_at END,
      CASE WHEN new.staging ->> 'status' = 'blocked' THEN NULL
           WHEN next.is_other OR new.staging ->> 'status' = 'normalized' THEN %(now)s
           ELSE row.push_at END
    FROM new
    CROSS JOIN LATERAL (SELECT row.desired_version <> new.desired_version
      OR (row.held_reason IS NOT NULL) <> new.was_held AS is_stale) AS judged
    CROSS JOIN LATERAL (SELECT CASE WHEN judged.is_stale THEN row.held_reason
        ELSE new.held_reason END AS held_reason,
      CASE WHEN new.desired IS NULL THEN row.desired
           WHEN judged.is_stale THEN row.desired
                || (new.desired - ARRAY['price', 'cost', 'compare_at', 'currency'])
           ELSE new.desired END AS desired) AS chosen
    CROSS JOIN LATERAL (SELECT chosen.*, chosen.desired IS DISTINCT FROM row.desired AS is_other
      ) AS next
    WHERE new.user_id = excluded.user_id AND new.sku = excluded.sku)
), staged AS (
  UPDATE product_staging AS row SET status = part.status, reason = part.reason,
    title = part.title, description = part.description, vendor = part.vendor,
    list_price = part.list_price, net_price = part.net_price, price = part.price,
    cost_per_item = part.cost_per_item, currency = part.currency,
    inventory_quantity = part.inventory_quantity, inventory_status = part.inventory_status,
    location_summary = part.location_summary, updated_at = %(now)s
  FROM new JOIN settled USING (id) CROSS JOIN LATERAL jsonb_to_record(new.staging) AS part(
    status text, reason text, title text, description text, vendor text, list_price numeric,
    net_price numeric, price numeric, cost_per_item numeric, currency text,
    inventory_quantity int, inventory_status text, location_summary text)
  WHERE new.staging IS NOT NULL AND row.user_id = new.user_id AND row.sku = new.sku
    AND row.status = 'requested'
), raw AS (
  INSERT INTO boeing_raw_data (user_id, sku, batch_id, raw_payload, created_at)
  SELECT new.user_id, new.sku, new.batch_id, new.staging -> 'raw', %(now)s
  FROM new JOIN settled USING (id) WHERE jsonb_typeof(new.staging -> 'raw') = 'object'
), events AS (
  INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
    error_message, batch_id, created_at)
  SELECT new.user_id, new.sku, %(now)s, new.kind, new.old, new.new, new.error,
    %(call_id)s::uuid, %(now)s
  FROM jsonb_to_recordset(%(events)s::jsonb) AS new(
    id uuid, user_id text, sku text, kind text, old jsonb, new jsonb, error text)
  JOIN settled USING (id)
)"""
SETTLED = "\nSELECT count(*) FROM settled\n"
SETTLE = SETTLE_ROWS + SETTLE_NEWS + SETTLED
# Most replies hold no news: then the rows move on, and there is nothing else to write.
SETTLE_UNCHANGED = SETTLE_ROWS + SETTLED
NEWS_COLUMNS = ("observed", "desired", "proposed", "rejected", "staging")

RELEASE = """
WITH ours AS (
  SELECT id FROM product_sync_schedule WHERE id = ANY(%(id)s::uuid[]) ORDER BY id FOR UPDATE
)
UPDATE product_sync_schedule AS row SET
  sync_status = CASE last_sync_status WHEN 'pending' THEN 'pending' WHEN 'failed' THEN 'failed'
                ELSE 'success' END,
  lease_owner = NULL, lease_until = NULL, suspicion = new.suspicion
FROM unnest(%(id)s::uuid[], %(fence)s::bigint[], %(suspicion)s::int[]) AS new(id, fence, suspicion)
  JOIN ours USING (id)
WHERE row.id = new.id AND row.fence = new.fence AND row.sync_status = 'syncing'
"""

# Reads the whole table, once after an outage. Whoever is aboard is its holder's to write.
RESET_SUSPICION = """
UPDATE product_sync_schedule SET suspicion = 0
WHERE supplier = %(supplier)s AND suspicion > 0 AND sync_status <> 'syncing'
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


RETRIED = """
SELECT count(DISTINCT sku) FROM product_sync_schedule
WHERE retried_at >= %(since)s AND supplier = %(supplier)s
"""
LISTED = "SELECT coalesce(sum(listing_count), 0) FROM profiles WHERE supplier = %(supplier)s"


class Schedule:
    """One supplier's rows of `product_sync_schedule`, behind the engine's port.

    Whoever fell silent is rescued for all suppliers at once.
    """

    def __init__(self, pool: Pool, supplier: SupplierName = MAIN) -> None:
        self._pool = pool
        self._supplier = supplier

    def front(
        self,
        now: datetime,
        *,
        limit: int,
        without: Collection[Sku] = (),
        only_clean: bool = False,
    ) -> list[Candidate]:
        """Return the listings that may board next, a few of each turn, by due time."""
        values = {
            "supplier": self._supplier,
            "now": now,  # for the pauses; due or not is the core's question
            "without": list(without),
            "suspicion_max": 0 if only_clean else SUSPICION_MAX,
        }
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(FRONT.format(limit=limit), values).fetchall()
        return [
            Candidate(
                id=id_,
                user_id=user_id,
                sku=sku,
                priority=Priority(priority),
                next_sync_at=next_sync_at,
                suspicion=suspicion,
            )
            for id_, user_id, sku, priority, next_sync_at, suspicion in rows
        ]

    def claim(
        self,
        skus: Sequence[Sku],
        *,
        now: datetime,
        owner: str,
        lease_until: datetime,
        retried: Collection[Sku] = (),
    ) -> list[Listing]:
        """Lease every free listing of these SKUs, of every seller, under a new fence."""
        values = {
            "supplier": self._supplier,
            "skus": list(skus),
            "now": now,
            "owner": owner,
            "lease_until": lease_until,
            "retried": list(retried),
        }
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(CLAIM, values).fetchall()
        return [_listing(row) for row in rows]

    def settle(self, settlements: Sequence[Settlement], *, now: datetime, call_id: str) -> int:
        """Write outcomes, states and events in one transaction; return how many were refused."""
        rows = [_settled(each) for each in settlements]
        events = [fact for each in settlements for fact in _facts(each)]
        values = {"now": now, "ids": [each.listing.id for each in settlements]}
        statement = SETTLE_UNCHANGED
        if events or any(row["changes_state"] for row in rows):
            statement = SETTLE
            values |= {"call_id": call_id, "events": json.dumps(events)}
        else:
            rows = [{name: row[name] for name in row if name not in NEWS_COLUMNS} for row in rows]
        # A column that is not named is NULL.
        told = [{name: row[name] for name in row if row[name] is not None} for row in rows]
        values["rows"] = json.dumps(told, default=str)
        return len(settlements) - self._number(statement, values)

    def listed(self) -> int:
        """Return how many listings there are, as last counted."""
        return self._number(LISTED, {"supplier": self._supplier})

    def retried_since(self, since: datetime) -> int:
        """Return how many SKUs boarded as retries since then."""
        return self._number(RETRIED, {"since": since, "supplier": self._supplier})

    def release(self, listings: Sequence[Listing], *, suspicion: Mapping[str, int]) -> int:
        """Give seats back untouched, with the given suspicion; return how many were still ours."""
        values = {
            "id": [each.id for each in listings],
            "fence": [each.fence for each in listings],
            "suspicion": [suspicion.get(each.id, each.suspicion) for each in listings],
        }
        with guarded(), self._pool.connection() as connection:
            return connection.execute(RELEASE, values).rowcount

    def reset_suspicion(self) -> int:
        """Lift the suspicion from everybody who is not aboard a call; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(RESET_SUSPICION, {"supplier": self._supplier}).rowcount

    def rescue(self, now: datetime) -> int:
        """Free the listings whose holder fell silent; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(RESCUE, {"now": now}).rowcount

    def _number(self, statement: str, values: Mapping[str, Any]) -> int:
        with guarded(), self._pool.connection() as connection:
            told = connection.execute(statement, values).fetchone()
        assert told is not None, "a count always answers"
        return int(told[0])


def _listing(row: tuple[Any, ...]) -> Listing:
    """Read a row in the order of the claim's columns."""
    values = dict(zip(LISTING_COLUMNS + EVIDENCE_COLUMNS, row, strict=True))
    evidence = Evidence(**{name: values.pop(name) for name in EVIDENCE_COLUMNS})
    return Listing(**{**values, "priority": Priority(values["priority"]), "evidence": evidence})


def _settled(each: Settlement) -> dict[str, Any]:
    """Return a settlement in the columns that the statement names."""
    status = "success" if each.is_good_read else "failed"
    seen, before = each.observed, each.listing
    observed = seen and seen.as_json()
    # What did not change stays as it is stored; its hash would take long to work out.
    news = None if each.outcome is Outcome.UNCHANGED else seen
    # A failure says nothing about a price that waits for a person.
    held = (each.held_reason, each.proposed, each.rejected)
    if not each.is_good_read:
        held = (held[0] or before.held_reason, held[1] or before.proposed, before.rejected)
    held_before = (before.held_reason, before.proposed, before.rejected)
    return {
        "id": before.id,
        "fence": before.fence,
        "user_id": before.user_id,
        "sku": before.sku,
        "sync_status": "parked" if each.is_parked else status,
        "priority": each.priority.value,
        "was_turn": before.priority.value,
        "next_sync_at": each.next_sync_at.isoformat(),
        "was_due_at": before.next_sync_at.isoformat(),
        "stops": each.is_parked or each.is_blocked,
        "outcome": each.outcome.value,
        "error": each.error,
        "failures": each.failures,
        "missing_count": each.missing_count,
        "suspicion": each.suspicion,
        "hash": news and news.fingerprint(),
        "price": None if news is None or news.price is None else str(news.price),
        "quantity": None if news is None else news.quantity,
        "locations": news and dict(news.quantities),
        "observed": observed,
        "desired": each.desired,
        "desired_version": before.desired_version,
        "was_held": before.held_reason is not None,
        **dict(zip(("held_reason", "proposed", "rejected"), held, strict=True)),
        "has_moved": each.has_moved,
        "staging": each.staging and asdict(each.staging),
        "batch_id": before.batch_id,
        "family": each.family,
        **{name: getattr(each.evidence, name, None) for name in EVIDENCE_COLUMNS},
        "changes_state": (observed is not None and observed != before.observed)
        or each.changes_desired
        or held != held_before
        or each.staging is not None,
    }


def _facts(each: Settlement) -> list[dict[str, Any]]:
    """Return the events of a settlement."""
    return [
        {
            "id": each.listing.id,
            "user_id": each.listing.user_id,
            "sku": each.listing.sku,
            "kind": event.kind,
            "old": event.old and dict(event.old),
            "new": event.new and dict(event.new),
            "error": event.error,
        }
        for event in each.events
    ]
