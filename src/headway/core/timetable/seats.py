"""Who boards the next call, and when it leaves: the queue's front goes in, a choice comes out."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core.catalog.listings import Candidate, Priority, Sku

URGENT = (Priority.MANUAL, Priority.ONBOARDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatRule:
    """What a call may carry, and how long the first listing due may wait for company.

    Under an eager rule nobody waits. `patience` is how much longer than its slack a due listing
    lets urgent turns go first. `retries_left` is what a retry window has left, if there is one.
    """

    seats: int
    slack: timedelta
    retry_seats: int = 1
    urgent_seats: int = 2
    is_eager: bool = False
    patience: timedelta = timedelta(0)
    retries_left: int | None = None


def suspects_max(suspicion: int, seats: int) -> int:
    """Return how many suspects may share a call with one of this suspicion, itself included.

    One failed call restricts nobody: it was probably the supplier's. Each further one halves the
    company, so a batch that keeps failing is bisected while the other seats go to the rest.
    """
    return math.ceil(seats / (1 << max(0, suspicion - 1)))


def is_suspect(suspicion: int) -> bool:
    """Tell whether failures have followed a listing from call to call."""
    return suspicion > 1


def departure(front: Sequence[Candidate], now: datetime, rule: SeatRule) -> datetime | None:
    """Return when the next call should leave; None when nobody will ever want it.

    At once with an urgent turn or with every seat due; otherwise when the first due listing has
    used up its slack, or the last seat becomes due, whichever comes first.
    """
    if any(each.priority in URGENT for each in front):
        return now
    front = [
        each for each in front if each.priority is not Priority.RETRY or rule.retries_left != 0
    ]
    if rule.is_eager and any(each.priority is Priority.SCHEDULED for each in front):
        return now
    due: dict[Sku, datetime] = {}
    for each in sorted(front, key=lambda each: each.next_sync_at):
        due.setdefault(each.sku, each.next_sync_at)
    if not due:
        return None
    times = list(due.values())
    leave_at = times[0] + rule.slack
    if len(times) >= rule.seats:
        leave_at = min(leave_at, times[rule.seats - 1])
    return max(now, leave_at)


def join_call(
    front: Sequence[Candidate], now: datetime, rule: SeatRule, *, least_suspect: bool = False
) -> list[Candidate]:
    """Choose one candidate per SKU for each seat, best turn first; spare seats are borrowed.

    After a failed call the least suspect go first, to learn whether the supplier answers at all.
    """
    queue = list(_in_order(front, now, rule))
    if least_suspect:
        queue.sort(key=lambda each: each.suspicion)
    in_call: dict[Sku, Candidate] = {}
    suspects, company_max = 0, rule.seats
    for each in queue:
        if len(in_call) == rule.seats:
            break
        if each.sku in in_call:
            continue
        if is_suspect(each.suspicion):
            company = min(company_max, suspects_max(each.suspicion, rule.seats))
            if suspects >= company:
                continue
            suspects, company_max = suspects + 1, company
        in_call[each.sku] = each
    return list(in_call.values())


def _in_order(front: Sequence[Candidate], now: datetime, rule: SeatRule) -> Iterator[Candidate]:
    """Yield candidates as turns rank them; a few long-overdue retries go with the scheduled.

    A flood of urgent turns must not break the deadline of law L3: it leaves all but a few seats to
    the scheduled listings that have no slack and no patience left.
    """
    last_due_at = now - rule.slack - rule.patience
    by_due = sorted(front, key=lambda each: each.next_sync_at)
    urgent = [each for priority in URGENT for each in by_due if each.priority is priority]
    scheduled = [each for each in by_due if each.priority is Priority.SCHEDULED]
    retries = [
        each for each in by_due if each.priority is Priority.RETRY and each.next_sync_at <= now
    ]
    retries = retries[: rule.retries_left]
    overdue = [each for each in retries if each.next_sync_at + rule.slack < now]
    yield from urgent[: min(rule.urgent_seats, rule.seats // 2)]
    yield from overdue[: rule.retry_seats]
    yield from (each for each in scheduled if each.next_sync_at < last_due_at)
    yield from urgent
    yield from (each for each in scheduled if each.next_sync_at <= now)
    yield from retries
    yield from (each for each in scheduled if each.next_sync_at > now)
