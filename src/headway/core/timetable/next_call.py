"""When is the next call? The one answer, for fetch, status, page, explain and outlook.

`departure` in `seats` decides when a call should leave, pacing included. `next_call` adds what may
delay it: the rate limit, an open circuit breaker, and pauses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from headway.core.catalog.listings import Candidate, Priority, SellerId, Sku
from headway.core.limits.breaker import Breaker
from headway.core.pauses import Pause, longest
from headway.core.reasons import describe_pause
from headway.core.timetable.seats import URGENT, SeatRule, departure, fill_call


class NextCallReason(StrEnum):
    """What the next call waits for."""

    NOTHING = "nothing"
    PAUSED = "paused"
    BREAKER = "breaker"
    RATE_LIMITED = "rate limited"
    PERMIT = "permit"
    PACE = "pace"
    SEATS = "seats"
    SLACK = "slack"
    WORTH = "worth"
    NOW = "now"


REASONS = {
    NextCallReason.NOTHING: "no parts are listed yet",
    NextCallReason.BREAKER: "the supplier is not responding; a test call is sent then",
    NextCallReason.RATE_LIMITED: "calls must wait until then",
    NextCallReason.PAUSED: "paused",
    NextCallReason.PERMIT: "waiting for the rate limit",
    NextCallReason.PACE: "calls are spaced to stay within HEADWAY_BUDGET_SHARE",
    NextCallReason.SEATS: "waiting until enough parts are due to fill the call",
    NextCallReason.SLACK: "waiting for more parts to become due; free seats are filled when the"
    " call is sent",
    NextCallReason.WORTH: "no part is worth a call before then, so other programs can use the"
    " limit",
    NextCallReason.NOW: "sending now",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierQueue:
    """What every listing of a supplier waits for.

    `rule` is the seat rule at this instant, `pace` the time between two calls. `retries_from` is
    when the next retry window opens, if this one has no seat left. `joins_call` holds when some
    parts will be in a call, as far as that can be foreseen.
    """

    rule: SeatRule
    breaker: Breaker
    permit_at: datetime
    pace: timedelta
    paused_until: datetime | None = None
    pause_reason: str = ""
    retries_from: datetime | None = None
    front: Sequence[Candidate] = field(default_factory=tuple)
    joins_call: Mapping[Sku, datetime] = field(default_factory=dict)

    def open_at(self, now: datetime) -> datetime:
        """Return when the limiter and the circuit breaker let a call leave, at the earliest."""
        blocked_until = self.breaker.blocked_until(now)
        return max(filter(None, (now, self.permit_at, self.paused_until, blocked_until)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A seat in the next call; a seller sees only the priority of other sellers' parts."""

    sku: Sku | None = None
    """The supplier's part number; null if the part is another seller's."""
    seller: SellerId | None = None
    priority: Priority
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCall:
    """When the next call leaves, what it waits for, and which parts are in it."""

    leaves_at: datetime | None
    """When it leaves; null if nothing is due or everything is paused."""
    why: NextCallReason
    """What the call waits for."""
    seats: tuple[Seat, ...]
    """The parts in the call so far."""
    seats_max: int
    """How many parts fit one call."""
    pause: Pause | None = None
    """The pause that stops it; null if nothing does."""
    pause_reason: str = ""
    """Why the limit is paused; empty if it is not. Example: `rate limited by the provider`"""
    # The reason for the wait, for a person.
    reason: str = field(init=False, default="")
    """What it waits for, in a sentence. Example: `Waiting for the rate limit.`"""

    def __post_init__(self) -> None:
        """Derive the reason."""
        object.__setattr__(self, "reason", self.pause_reason or REASONS[self.why])

    def for_seller(self, seller: SellerId, front: Sequence[Candidate]) -> "NextCall":
        """Return the call as this seller may see it; a part that two sellers list is shown."""
        own = {candidate.sku: candidate for candidate in front if candidate.user_id == seller}

        def visible(seat: Seat) -> Seat:
            candidate = None if seat.sku is None else own.get(seat.sku)
            if candidate is None:
                return Seat(priority=seat.priority)
            return replace(seat, seller=seller, due_at=candidate.next_sync_at)

        return replace(self, seats=tuple(map(visible, self.seats)))


def next_call(queue: SupplierQueue, now: datetime, *, pauses: Sequence[Pause] = ()) -> NextCall:
    """Return the next call that fetch makes if nothing changes until then.

    `pauses` are those that stop the whole supplier. If the sign-in has expired, the call that
    leaves then is the sign-in.
    """
    seats_max, pause = queue.rule.seats, longest(pauses)
    if pause is not None:
        pause_reason = f"{pause.what} is {describe_pause(pause, now)}"
        return NextCall(
            leaves_at=pause.until,
            why=NextCallReason.PAUSED,
            seats=(),
            seats_max=seats_max,
            pause=pause,
            pause_reason=pause_reason,
        )
    planned_at, rule = _planned(queue, now)
    if planned_at is None:
        return NextCall(leaves_at=None, why=NextCallReason.NOTHING, seats=(), seats_max=seats_max)
    # The latest of these is the reason; of equals, the first.
    reasons = [
        (queue.breaker.blocked_until(now) or now, NextCallReason.BREAKER),
        (queue.paused_until or now, NextCallReason.RATE_LIMITED),
        (max(now, queue.permit_at), NextCallReason.PERMIT),
        (planned_at, _why_planned(queue.front, planned_at, rule)),
    ]
    leaves_at = max(at for at, _ in reasons)
    why = (
        next(why for at, why in reasons if at == leaves_at)
        if leaves_at > now
        else NextCallReason.NOW
    )
    in_call = fill_call(queue.front, leaves_at, rule, least_suspect=queue.breaker.failures > 0)
    seats = tuple(_seat(candidate, leaves_at) for candidate in in_call)
    return NextCall(leaves_at=leaves_at, why=why, seats=seats, seats_max=seats_max)


def _planned(queue: SupplierQueue, now: datetime) -> tuple[datetime | None, SeatRule]:
    """Return when a call should leave, and the seat rule then: a full window opens again."""
    planned_at = departure(queue.front, now, queue.rule)
    if queue.retries_from is None:
        return planned_at, queue.rule
    rule = replace(queue.rule, retries_left=None)
    retried_at = departure(queue.front, max(now, queue.retries_from), rule)
    if retried_at is None or (planned_at is not None and planned_at <= retried_at):
        return planned_at, queue.rule
    return retried_at, rule


def _why_planned(
    front: Sequence[Candidate], planned_at: datetime, rule: SeatRule
) -> NextCallReason:
    if any(candidate.priority in URGENT for candidate in front):
        return NextCallReason.NOW
    if planned_at == rule.paced_until:
        return NextCallReason.PACE
    if rule.has_spare_seats:
        return NextCallReason.WORTH
    due = {candidate.sku for candidate in front if candidate.next_sync_at <= planned_at}
    return NextCallReason.SEATS if len(due) >= rule.seats else NextCallReason.SLACK


def _seat(candidate: Candidate, leaves_at: datetime) -> Seat:
    """Return the candidate's seat; a scheduled part that is not yet due fills a spare one."""
    is_ahead = candidate.priority is Priority.SCHEDULED and candidate.next_sync_at > leaves_at
    return Seat(
        sku=candidate.sku,
        seller=candidate.user_id,
        priority=Priority.AHEAD if is_ahead else candidate.priority,
        due_at=candidate.next_sync_at,
    )
