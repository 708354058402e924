"""How the engine's workers wait and how long they hold leases, and how often a tick goes round."""

from dataclasses import dataclass
from datetime import timedelta

from headway.core.timetable.seats import SeatRule

TICK_EVERY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRule:
    """How long a worker waits, and how long its leases last.

    `is_list` means that the supplier reads a whole list, due or not, and answers from it.
    """

    seat_rule: SeatRule
    is_list: bool = False
    poll: timedelta = timedelta(seconds=15)
    lease: timedelta = timedelta(seconds=90)
    permit_wait_max: timedelta = timedelta(minutes=2)
    permit_grace: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRule:
    """How long a worker waits, how long it may hold a shop, and what it does about drift."""

    poll: timedelta = timedelta(seconds=2)
    lease: timedelta = timedelta(seconds=60)
    permit_wait_max: timedelta = timedelta(seconds=10)
    permit_grace: timedelta = timedelta(seconds=10)
    verify_every: timedelta | None = timedelta(hours=24)
    repairs_drift: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRule:
    """How a worker waits, and when it gives a job back rather than wait with it."""

    poll: timedelta = timedelta(seconds=5)
    permit_wait_max: timedelta = timedelta(seconds=10)
    permit_grace: timedelta = timedelta(seconds=10)
