"""When a listing will be in a call: a simulation of the queue with the rule that fills calls.

Each call leaves when `departure` says and takes what `fill_call` chooses. A listing that was read
comes back when the policy makes it due again. As many of the listings read are taken to have
changed as the policy expects; which of them is unknown.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from headway.core.catalog.listings import Candidate, Listing, Priority, Sku
from headway.core.timetable.policies.policy import Policy, ReadResult
from headway.core.timetable.seats import FRONT_PER_SEAT, SeatRule, departure, fill_call

# So far ahead a forecast is worth its while: ten hours of calls.
CALLS_MAX = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """When calls may leave: the first permit, the time between two, and the sign-ins in between.

    A token request costs a permit like any call; `sign_ins` says when each token must be renewed,
    `token_life` how long the next one will last.
    """

    permit_at: datetime
    headway: timedelta
    sign_ins: tuple[datetime, ...] = ()
    token_life: timedelta = timedelta(hours=1)

    def at(self, leave_at: datetime) -> "Departures":
        """Return what lies ahead when a call would leave then: first its sign-ins, then itself."""
        permit_at, sign_ins = max(self.permit_at, leave_at), list(self.sign_ins)
        for number, due_at in enumerate(self.sign_ins):
            if due_at <= permit_at:
                sign_ins[number] = permit_at + self.token_life
                permit_at += self.headway
        return replace(self, permit_at=permit_at, sign_ins=tuple(sign_ins))

    @property
    def after(self) -> "Departures":
        """What is left after the next permit is used."""
        return replace(self, permit_at=self.permit_at + self.headway)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Everything that a forecast needs: the queue, the permits to come, and the policy."""

    queue: Sequence[Listing]
    departures: Departures
    rule: SeatRule
    policy: Policy
    retries_from: datetime | None = None


def foresee(outlook: Outlook, now: datetime, skus: Collection[Sku]) -> dict[Sku, datetime]:
    """Return when each of these parts will be in a call; parts beyond the horizon are left out."""
    queue, left, times = _FutureQueue(outlook), set(skus), dict[Sku, datetime]()
    departures = replace(outlook.departures, permit_at=max(now, outlook.departures.permit_at))
    for _ in range(CALLS_MAX):
        if not left:
            break
        front, rule = queue.front(), _rule_at(outlook, departures.permit_at)
        leave_at = departure(front, departures.permit_at, rule)
        if leave_at is None:
            break
        departures = departures.at(leave_at)
        at = departures.permit_at
        in_call = {candidate.sku for candidate in fill_call(front, at, _rule_at(outlook, at))}
        times |= dict.fromkeys(left & in_call, at)
        left -= in_call
        queue.read(in_call, at)
        departures = departures.after
    return times


def _rule_at(outlook: Outlook, at: datetime) -> SeatRule:
    """Return the seat rule at an instant: a full retry window stays full until the next opens."""
    is_full = outlook.retries_from is not None and at < outlook.retries_from
    return replace(outlook.rule, retries_left=0 if is_full else None)


@dataclass(slots=True)
class _FutureQueue:
    """The queue as it will be: listings by priority and due time, and by part."""

    outlook: Outlook
    priorities: dict[Priority, list[Listing]] = field(init=False)
    parts: dict[Sku, list[Listing]] = field(init=False)
    # The changes that were to be expected, less those that were assumed.
    changes_open: float = 0.5

    def __post_init__(self) -> None:
        self.priorities, self.parts = {priority: [] for priority in Priority}, {}
        for candidate in sorted(self.outlook.queue, key=_place):
            self.priorities[candidate.priority].append(candidate)
            self.parts.setdefault(candidate.sku, []).append(candidate)

    def front(self) -> list[Candidate]:
        """Return the candidates for the next call, a few of each priority."""
        depth = self.outlook.rule.seats * FRONT_PER_SEAT
        return [
            Candidate(
                id=listing.id,
                user_id=listing.user_id,
                sku=listing.sku,
                priority=listing.priority,
                next_sync_at=listing.next_sync_at,
                suspicion=listing.suspicion,
                is_proven=listing.last_successful_sync is not None,
            )
            for priority in self.priorities.values()
            for listing in islice(priority, depth)
        ]

    def read(self, skus: Collection[Sku], at: datetime) -> None:
        """Mark these parts as read for every seller, and queue them again."""
        for sku in skus:
            for listing in self.parts[sku]:
                waiting = self.priorities[listing.priority]
                del waiting[bisect_left(waiting, _place(listing), key=_place)]
            self.parts[sku] = [self._again(part, at) for part in self.parts[sku]]
            for part in self.parts[sku]:
                insort(self.priorities[Priority.SCHEDULED], part, key=_place)

    def _again(self, listing: Listing, at: datetime) -> Listing:
        self.changes_open += self.outlook.policy.chance(listing, at)
        has_changed = self.changes_open >= 1
        self.changes_open -= has_changed
        due = self.outlook.policy.next_read(
            ReadResult(listing=listing, at=at, has_changed=has_changed)
        )
        return replace(
            listing,
            priority=Priority.SCHEDULED,
            next_sync_at=due.next_sync_at,
            evidence=due.evidence,
            last_successful_sync=at,
            suspicion=0,
        )


def _place(listing: Listing) -> tuple[datetime, str]:
    return listing.next_sync_at, listing.id
