"""Requests to the limiter, its answers, and the result of a transition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from headway.core.limits.state import LimitState, Note
from headway.core.monitoring.calls import ANSWERED

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """No permit: the wait would be too long; try again after `retry_in_s`."""

    retry_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """Send now; after `send_within_s` it is too late, and the permit is to be settled unsent.

    After `finish_within_s`, the end of the lease, the call counts as lost.
    """

    send_within_s: float
    finish_within_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """A place in the queue; sleep `wait_s` on a clock that never jumps, then begin.

    One that was taken with leave to go at once has begun already.
    """

    id: str
    keys: tuple[str, ...]
    wait_s: float
    start_at: datetime
    position: int
    granted: Granted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotYet:
    """Not yet: a higher priority or a pause came first; begin again after `wait_s`."""

    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The permit is not waiting any more; reserve again."""


BeginResult = Granted | NotYet | Expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a reply's headers report about a bucket or quota; None for missing headers."""

    used: float
    capacity: float | None = None
    restore_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """What the ledger keeps of a call once it is over; `ended` is for the watch alone."""

    result: str = ""
    ended: str = ANSWERED
    http_status: int | None = None
    seats_paid: int | None = None
    skus: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Arguments of `reserve`; priority 0 is the highest, `leave` of a quota is left to others."""

    id: str
    keys: tuple[str, ...]
    owner: str
    cost: float = 1
    priority: int = 0
    max_wait_s: float
    lease_s: float
    grace_s: float
    purpose: str = ""
    leave: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStep(Generic[T]):
    """Result of a transition: the states it changed, the answer, and ledger entries."""

    answer: T
    states: Mapping[str, LimitState] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
