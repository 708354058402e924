"""Days of a policy in the smallest world: one queue, a call every half minute, nobody fails."""

import bisect
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from headway.core.catalog.listings import Candidate, Listing, Priority, SellerId, Sku
from headway.core.timetable.policies import CatalogSummary, Policy, ReadResult
from headway.core.timetable.seats import SeatRule, departure, fill_call

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
PACE = timedelta(seconds=30)
SEATS = 10
FRONT = 30


def listing(
    sku: str, policy: Policy, catalog: CatalogSummary | None = None, now: datetime = MIDNIGHT
) -> Listing:
    place = policy.place(Sku(sku), now, catalog or CatalogSummary())
    return Listing(
        id=sku,
        user_id=SellerId("s"),
        sku=Sku(sku),
        priority=Priority.SCHEDULED,
        fence=1,
        next_sync_at=place.next_sync_at,
        hour_bucket=place.hour_bucket,
        minute_offset=place.minute_offset,
        created_at=now,
    )


def placed(policy: Policy, count: int, now: datetime = MIDNIGHT) -> list[Listing]:
    """Place so many listings, one after the other."""
    catalog, rows = CatalogSummary(), []
    for number in range(count):
        row = listing(f"PART-{number}", policy, catalog, now)
        catalog = catalog.with_one_in(row.hour_bucket)
        rows.append(row)
    return rows


def next_due(policy: Policy, row: Listing, now: datetime) -> datetime:
    return policy.next_read(ReadResult(listing=row, at=now, has_changed=False)).next_sync_at


@dataclass
class Days:
    """What some days came to."""

    calls: list[tuple[datetime, int]] = field(default_factory=list)
    worst_age: timedelta = timedelta(0)
    slots: dict[str, list[datetime]] = field(default_factory=dict)

    def per_hour(self, day: int) -> list[int]:
        """Count the calls of each hour of a day."""
        begin = MIDNIGHT + timedelta(days=day)
        hours = Counter((at - begin) // timedelta(hours=1) for at, _ in self.calls)
        return [hours[hour] for hour in range(24)]


def replay(policy: Policy, rows: Iterable[Listing], days: float) -> Days:
    """Let calls leave and board as the engine does, and read everybody well."""
    known = {row.sku: row for row in rows}
    queue = sorted((row.next_sync_at, row.sku) for row in known.values())
    read_at = dict.fromkeys(known, MIDNIGHT)
    rule = SeatRule(seats=SEATS, slack=policy.slack, is_eager=policy.is_eager)
    now, end, done = MIDNIGHT, MIDNIGHT + timedelta(days=days), Days()
    while now < end:
        front = [candidate(known[sku], due_at) for due_at, sku in queue[:FRONT]]
        leave_at = departure(front, now, rule)
        assert leave_at is not None
        if leave_at > now:
            now = leave_at
            continue
        in_call = fill_call(front, now, rule)
        gone = {candidate.sku for candidate in in_call}
        queue[:FRONT] = [entry for entry in queue[:FRONT] if entry[1] not in gone]
        for sku in gone:
            done.worst_age = max(done.worst_age, now - read_at[sku])
            read_at[sku] = now
            done.slots.setdefault(sku, []).append(now)
            bisect.insort(queue, (next_due(policy, known[sku], now), sku))
        done.calls.append((now, len(gone)))
        now += PACE
    return done


def candidate(row: Listing, due_at: datetime) -> Candidate:
    return Candidate(
        id=row.id,
        user_id=row.user_id,
        sku=row.sku,
        priority=Priority.SCHEDULED,
        next_sync_at=due_at,
    )


def failed(row: Listing, times: int) -> Listing:
    """Return a listing as `next_try` gets it after so many failures."""
    return replace(row, consecutive_failures=times)
