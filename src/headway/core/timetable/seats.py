"""Choose what is in the next call, and when it should leave, from the front of the queue."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headway.core.catalog.listings import Candidate, Priority, Sku
from headway.core.timetable.market import Market

URGENT = (Priority.MANUAL, Priority.ONBOARDING)
# A part that was never read and is due so soon is worth a call, however few parts there are.
UNREAD_WITHIN = timedelta(hours=1)
# Candidates to read for each seat: some of them share a SKU.
FRONT_PER_SEAT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatRule:
    """What a call may carry, and how long the first listing due may wait for a full call.

    Under an eager rule no listing waits. `patience` is how much longer than its slack a due listing
    lets urgent priorities go first. `pace` is the least time between two calls that are not urgent.
    Three fields hold for one instant only: `retries_left` is what the retry window has left, if
    there is one, `paced_until` is when the pace allows the next call, and `has_spare_seats` means
    that an eager rule has nothing to read that is worth a call before it is due.
    """

    seats: int
    slack: timedelta
    retry_seats: int = 1
    urgent_seats: int = 2
    is_eager: bool = False
    patience: timedelta = timedelta(0)
    pace: timedelta = timedelta(0)
    retries_left: int | None = None
    paced_until: datetime | None = None
    has_spare_seats: bool = False


def suspects_max(suspicion: int, seats: int) -> int:
    """Return how many suspects may share a call with one of this suspicion, itself included.

    One failed call restricts nothing: it was probably the supplier's fault. Each further one halves
    the number, so a batch that keeps failing is bisected while the other seats go to the rest.
    """
    return math.ceil(seats / (1 << max(0, suspicion - 1)))


def is_accused(suspicion: int, seats: int) -> bool:
    """Return True if calls failed with this listing as the only suspect in them.

    It then shares a call only with listings that were read before, so that the next failure is
    evidence against nobody else.
    """
    return suspicion > 1 + math.ceil(math.log2(seats))


def is_suspect(suspicion: int) -> bool:
    """Return True if more than one call in a row failed with this listing in it."""
    return suspicion > 1


def departure(front: Sequence[Candidate], now: datetime, rule: SeatRule) -> datetime | None:
    """Return when the next call should leave; None when there is no listing for it.

    At once with an urgent priority or with every seat due; otherwise when the first due listing has
    used up its slack, or the last seat becomes due, whichever comes first. An eager rule without
    spare seats, or with a part that was never read, waits for none of this. The pace delays all but
    urgent calls.
    """
    if any(candidate.priority in URGENT for candidate in front):
        return now
    earliest = max(now, rule.paced_until or now)
    front = [
        candidate
        for candidate in front
        if candidate.priority is not Priority.RETRY or rule.retries_left != 0
    ]
    if rule.is_eager and any(_is_worth_a_call(candidate, now, rule) for candidate in front):
        return earliest
    due: dict[Sku, datetime] = {}
    for candidate in sorted(front, key=_due_at):
        due.setdefault(candidate.sku, candidate.next_sync_at)
    if not due:
        return None
    times = list(due.values())
    leave_at = times[0] + rule.slack
    if len(times) >= rule.seats:
        leave_at = min(leave_at, times[rule.seats - 1])
    return max(earliest, leave_at)


def _is_worth_a_call(candidate: Candidate, now: datetime, rule: SeatRule) -> bool:
    """Return True if an eager rule makes a call for this listing before it is due."""
    if candidate.priority is not Priority.SCHEDULED:
        return False
    is_awaited = not candidate.is_proven and candidate.next_sync_at <= now + UNREAD_WITHIN
    return is_awaited or not rule.has_spare_seats


def rule_in(market: Market, rule: SeatRule, now: datetime) -> SeatRule:
    """Return an eager rule as it holds in this market: its pace, and whether seats are spare."""
    pace, last_call_at = rule.pace, market.called_at
    if market.share < 1:
        pace = max(pace, timedelta(minutes=rule.seats / market.seats_per_min))
    # A last call in the future comes from a clock that was ahead; it must not stop the queue.
    is_paced = pace and last_call_at is not None and last_call_at <= now
    return replace(
        rule,
        pace=pace,
        paced_until=last_call_at + pace if is_paced and last_call_at else None,
        has_spare_seats=market.has_spare_seats,
    )


def fill_call(
    front: Sequence[Candidate], now: datetime, rule: SeatRule, *, least_suspect: bool = False
) -> list[Candidate]:
    """Choose one candidate per SKU for each seat, best priority first; spare seats are borrowed.

    After a failed call the least suspect go first, to learn whether the supplier answers at all.
    """
    queue = list(_in_order(front, now, rule))
    if least_suspect:
        queue.sort(key=lambda candidate: candidate.suspicion)
    if not _may_try_accused(queue, rule.seats):
        queue = [one for one in queue if not is_accused(one.suspicion, rule.seats)]
    in_call: dict[Sku, Candidate] = {}
    suspects, suspects_allowed, has_accused = 0, rule.seats, False
    for candidate in queue:
        if len(in_call) == rule.seats:
            break
        if candidate.sku in in_call or (has_accused and not _is_clean(candidate)):
            continue
        if is_accused(candidate.suspicion, rule.seats):
            if not all(_is_clean(other) for other in in_call.values()):
                continue
            has_accused = True
        if is_suspect(candidate.suspicion):
            together_max = min(suspects_allowed, suspects_max(candidate.suspicion, rule.seats))
            if suspects >= together_max:
                continue
            suspects, suspects_allowed = suspects + 1, together_max
        in_call[candidate.sku] = candidate
    return list(in_call.values())


def _is_clean(candidate: Candidate) -> bool:
    """Return True if the last call with this listing succeeded."""
    return candidate.is_proven and not candidate.suspicion


def _may_try_accused(queue: Sequence[Candidate], seats: int) -> bool:
    """Return True if an accused listing costs no seat: others fill the call, or few are left."""
    clean = {candidate.sku for candidate in queue if _is_clean(candidate)}
    return len(clean) >= seats - 1 or len({candidate.sku for candidate in queue}) <= seats


def _in_order(front: Sequence[Candidate], now: datetime, rule: SeatRule) -> Iterator[Candidate]:
    """Yield candidates by priority; a few long-overdue retries go with the scheduled.

    A flood of urgent requests must not break the deadline of law L3: it leaves all but a few seats
    to the scheduled listings that have no slack and no patience left.
    """
    last_due_at = now - rule.slack - rule.patience
    by_priority: dict[Priority, list[Candidate]] = {priority: [] for priority in Priority}
    for candidate in sorted(front, key=_due_at):
        by_priority[candidate.priority].append(candidate)
    urgent = [candidate for priority in URGENT for candidate in by_priority[priority]]
    scheduled = by_priority[Priority.SCHEDULED]
    retries = [
        candidate for candidate in by_priority[Priority.RETRY] if candidate.next_sync_at <= now
    ][: rule.retries_left]
    overdue = [candidate for candidate in retries if candidate.next_sync_at + rule.slack < now]
    yield from urgent[: min(rule.urgent_seats, rule.seats // 2)]
    yield from overdue[: rule.retry_seats]
    yield from (candidate for candidate in scheduled if candidate.next_sync_at < last_due_at)
    yield from urgent
    yield from (candidate for candidate in scheduled if candidate.next_sync_at <= now)
    yield from retries
    yield from (candidate for candidate in scheduled if candidate.next_sync_at > now)


def _due_at(candidate: Candidate) -> datetime:
    return candidate.next_sync_at
