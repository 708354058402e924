"""The schedule's rows: front of the queue, claim, settle, release, rescue.

The statements are in the folder `sql`. Every one takes `now` from the caller; none holds a
transaction across a call.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from headway.core.catalog.guard import MassChange
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
from headway.store.pool import Pool
from headway.store.queries import Queries
from headway.store.sql_files import read_sql

SUSPICION_MAX = 2**31 - 1

FRONT = read_sql("timetable", "front")
CLAIM = read_sql("timetable", "claim")
SETTLE = read_sql("timetable", "settle")
SETTLE_UNCHANGED = read_sql("timetable", "settle_unchanged")
NEWS_COLUMNS = ("observed", "desired", "proposed", "rejected", "staging")
EVIDENCE_COLUMNS = ("changes_seen", "watched_days", "changed_at")
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

# Reads the whole table, once after an outage. A listing being read belongs to its lease holder.
RESET_SUSPICION = """
UPDATE product_sync_schedule SET suspicion = 0
WHERE supplier = %(supplier)s AND suspicion > 0 AND sync_status <> 'syncing'
"""

# A worker that has one of them in a call answers from the old list: the fence refuses its settle.
MAKE_DUE = """
UPDATE product_sync_schedule SET next_sync_at = %(now)s, fence = fence + 1,
  priority = CASE priority WHEN 'retry' THEN 'scheduled' ELSE priority END,
  sync_status = CASE WHEN sync_status <> 'syncing' THEN sync_status WHEN last_sync_status
    IN ('pending', 'failed') THEN last_sync_status ELSE 'success' END,
  lease_owner = NULL, lease_until = NULL
WHERE supplier = %(supplier)s AND is_active
  AND (%(skus)s::text[] IS NULL OR lower(sku) = ANY(%(skus)s))
"""

# The fence increases, so that a lost worker cannot settle later.
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


NOTE_LOCATIONS = """
INSERT INTO supplier_locations (supplier, name, first_seen_at, last_seen_at)
SELECT %(supplier)s, name, %(now)s, %(now)s FROM unnest(%(names)s::text[]) AS name ORDER BY name
ON CONFLICT (supplier, name) DO UPDATE SET last_seen_at = excluded.last_seen_at
"""
RETRIED = """
SELECT count(DISTINCT sku) FROM product_sync_schedule
WHERE retried_at >= %(since)s AND supplier = %(supplier)s
"""
LISTED = "SELECT coalesce(sum(listing_count), 0) FROM profiles WHERE supplier = %(supplier)s"


class Schedule(Queries):
    """One supplier's rows of `product_sync_schedule`, behind the engine's port.

    Expired leases are rescued for all suppliers at once.
    """

    def __init__(
        self, pool: Pool, supplier: SupplierName = MAIN, *, read_events: str = "auto"
    ) -> None:
        super().__init__(pool)
        self._supplier = supplier
        self._read_events = read_events

    def front(
        self,
        now: datetime,
        *,
        limit: int,
        without: Collection[Sku] = (),
        only_clean: bool = False,
    ) -> list[Candidate]:
        """Return the listings that may be in the next call, a few of each priority, by due time."""
        values = {
            "supplier": self._supplier,
            "now": now,  # for the pauses; due or not is the core's question
            "without": list(without),
            "suspicion_max": 0 if only_clean else SUSPICION_MAX,
        }
        return self._read(Candidate, FRONT.format(limit=limit), values)

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
        return self._read(read_listing, CLAIM, values)

    def settle(self, settlements: Sequence[Settlement], *, now: datetime, call_id: str) -> int:
        """Write outcomes, states and events in one transaction; return how many were refused."""
        rows = [_settled(settlement) for settlement in settlements]
        events = [fact for settlement in settlements for fact in _facts(settlement)]
        values = {
            "now": now,
            "ids": [settlement.listing.id for settlement in settlements],
            "call_id": call_id,
            "read_events": self._read_events,
        }
        statement = SETTLE_UNCHANGED
        if events or any(row["changes_state"] for row in rows):
            statement = SETTLE
            values["events"] = json.dumps(events)
        else:
            rows = [{name: row[name] for name in row if name not in NEWS_COLUMNS} for row in rows]
        # A column that is not named is NULL.
        columns = [{name: row[name] for name in row if row[name] is not None} for row in rows]
        values["rows"] = json.dumps(columns, default=str)
        return len(settlements) - int(self._one(statement, values)[0])

    def listed(self) -> int:
        """Return how many listings there are, as last counted."""
        return int(self._one(LISTED, {"supplier": self._supplier})[0])

    def retried_since(self, since: datetime) -> int:
        """Return how many SKUs were read as retries since then."""
        return int(self._one(RETRIED, {"since": since, "supplier": self._supplier})[0])

    def release(self, listings: Sequence[Listing], *, suspicion: Mapping[str, int]) -> int:
        """End leases without an outcome, and set suspicion; return how many were still held."""
        values = {
            "id": [listing.id for listing in listings],
            "fence": [listing.fence for listing in listings],
            "suspicion": [suspicion.get(listing.id, listing.suspicion) for listing in listings],
        }
        return self._write(RELEASE, values)

    def make_due(self, skus: Collection[str] | None, *, now: datetime) -> int:
        """Make the listings of these SKUs due now, or all; return how many. Leases on them end."""
        names = None if skus is None else [sku.lower() for sku in skus]
        return self._write(MAKE_DUE, {"supplier": self._supplier, "skus": names, "now": now})

    def reset_suspicion(self) -> int:
        """Reset the suspicion of all listings that are not being read; return how many."""
        return self._write(RESET_SUSPICION, {"supplier": self._supplier})

    def note_locations(self, names: Collection[str], *, now: datetime) -> int:
        """Store that stock was quoted at unknown locations, which raises an alert."""
        values = {"supplier": self._supplier, "names": sorted(names), "now": now}
        return self._write(NOTE_LOCATIONS, values)

    def rescue(self, now: datetime) -> int:
        """Free the listings whose lease has expired; return how many."""
        return self._write(RESCUE, {"now": now})


def read_listing(*, priority: str, **columns: Any) -> Listing:  # noqa: ANN401 - a row
    """Return a listing with its evidence."""
    evidence = Evidence(**{name: columns.pop(name) for name in EVIDENCE_COLUMNS})
    return Listing(priority=Priority(priority), evidence=evidence, **columns)


def _read_status(settlement: Settlement) -> str:
    """Return the documents' word for an outcome; `success` is the first good read."""
    match settlement.outcome:
        case Outcome.UNCHANGED:
            return "no_change"
        case Outcome.UPDATED if settlement.listing.observed is None:
            return "success"
        case outcome:
            return outcome.value


def _settled(settlement: Settlement) -> dict[str, Any]:
    """Return a settlement in the columns that the statement names."""
    status = "success" if settlement.is_good_read else "failed"
    observation, before = settlement.observed, settlement.listing
    observed = observation and observation.as_json()
    # What did not change stays as it is stored; computing its hash is slow.
    news = None if settlement.outcome is Outcome.UNCHANGED else observation
    # A failure does not change a price that waits for a person.
    held = (settlement.held_reason, settlement.proposed, settlement.rejected)
    if not settlement.is_good_read:
        held = (held[0] or before.held_reason, held[1] or before.proposed, before.rejected)
    held_before = (before.held_reason, before.proposed, before.rejected)
    return {
        "id": before.id,
        "fence": before.fence,
        "user_id": before.user_id,
        "sku": before.sku,
        "sync_status": "parked" if settlement.is_parked else status,
        "priority": settlement.priority.value,
        "was_priority": before.priority.value,
        "next_sync_at": settlement.next_sync_at.isoformat(),
        "was_due_at": before.next_sync_at.isoformat(),
        "stops": settlement.is_parked,
        "outcome": _read_status(settlement),
        "error": settlement.error,
        "failures": settlement.failures,
        "missing_count": settlement.missing_count,
        "suspicion": settlement.suspicion,
        "hash": news and news.fingerprint(),
        "price": None if news is None or news.price is None else str(news.price),
        "quantity": None if news is None else news.quantity,
        "locations": news and dict(news.quantities),
        "observed": observed,
        "desired": settlement.desired,
        "desired_version": before.desired_version,
        "was_held": before.held_reason is not None,
        **dict(zip(("held_reason", "proposed", "rejected"), held, strict=True)),
        "is_repriced": MassChange.PRICES in settlement.mass_changes,
        "is_emptied": MassChange.STOCK in settlement.mass_changes,
        "staging": settlement.staging and asdict(settlement.staging),
        "batch_id": before.batch_id,
        "family": settlement.family,
        **{name: getattr(settlement.evidence, name, None) for name in EVIDENCE_COLUMNS},
        "changes_state": (observed is not None and observed != before.observed)
        or settlement.changes_desired
        or held != held_before
        or settlement.staging is not None,
    }


def _facts(settlement: Settlement) -> list[dict[str, Any]]:
    """Return the events of a settlement."""
    return [
        {
            "id": settlement.listing.id,
            "user_id": settlement.listing.user_id,
            "sku": settlement.listing.sku,
            "kind": event.kind,
            "old": event.old and dict(event.old),
            "new": event.new and dict(event.new),
            "error": event.error,
            "code": event.code,
        }
        for event in settlement.events
    ]
