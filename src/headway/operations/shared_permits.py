"""Permits for other programs that use the same credentials, so that together they keep the limit.

A program takes a permit before each of its own calls and settles it afterwards. The permit stands
in the same queue and the same ledger as Headway's own, and expires if the program dies.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from headway.app import App
from headway.core.access import Need
from headway.core.catalog.listings import SupplierName
from headway.core.limits.shared_permits import PURPOSE, PermitPriority
from headway.core.limits.transitions import CallReport, Expired, Granted, Permit, Rejected
from headway.core.pauses import Pause, PauseKind, longest
from headway.core.reasons import describe_pause
from headway.errors import NotFoundError, TooManyError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import PLAIN, NamePath, RequestBody, example
from headway.operations.limits import NamedLimit, limit_of_key, limit_of_name
from headway.operations.operation import operation
from headway.operations.permits import THROTTLED_MAX_S, THROTTLED_S
from headway.store.limits.ledger import LimitQueries
from headway.store.pauses import Pauses

TAG = "limits"
# A permit that is not begun so long after its start is given to the next in the queue.
GRACE_S = 30.0
# While a person has paused the limit, ask again this often.
PAUSED_POLL_S = 30.0
PermitPath = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$",
        description="The id of a permit.",
        examples=["0f8fad5b-d9cb-469f-a165-70867728950e"],
    ),
]


class PermitState(StrEnum):
    """Whether the call may be sent now."""

    GRANTED = "granted"
    WAITING = "waiting"
    SETTLED = "settled"


class CallOutcome(StrEnum):
    """How a call ended; `unsent` gives the permit back."""

    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    THROTTLED = "throttled"
    UNSENT = "unsent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPermit:
    """A permit for one call.

    `granted`: send the call within `send_within_s` seconds, by `send_by`, and be done by
    `finish_by`; then settle the permit. `waiting`: begin the permit `id` after `wait_s` seconds;
    without an id, because the limit is paused, take a new one then.
    """

    id: str | None
    """The permit's id; null if none was reserved.
    Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`
    """
    limit: str
    """The limit, as it was named. Example: `main`"""
    state: PermitState
    """Whether the call may be sent now."""
    wait_s: float = 0
    """Seconds to wait before the next request; 0 if the call may be sent."""
    reason: str = ""
    """Why it waits; empty if it does not. Example: `Waiting for the rate limit.`"""
    send_within_s: float | None = None
    """Seconds within which the call must be sent; null unless granted."""
    finish_within_s: float | None = None
    """Seconds within which the call must have ended; null unless granted."""
    send_by: datetime | None = None
    """When the call must have been sent; null unless granted."""
    finish_by: datetime | None = None
    """When the call must have ended; null unless granted."""


class PermitBody(RequestBody):
    """The limit that the call uses, the longest wait, and the time from grant to settlement.

    `limit` is a supplier's name or a name from /api/limits. A permit that is not settled within
    `timeout_s` seconds counts as used.
    """

    model_config = example({"limit": "main", "max_wait_s": 120, "purpose": "nightly import"})
    limit: NamePath
    """A supplier's name or a limit key. Example: `main`"""
    max_wait_s: Annotated[float, Field(ge=0, le=3600)] = 60
    """The longest wait in seconds. Example: `60`"""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 60
    """The longest time in seconds from the grant to the end of the call. Example: `30`"""
    priority: PermitPriority = PermitPriority.ORDINARY
    """The place in the limiter's queue."""
    cost: Annotated[float, Field(gt=0, le=1000)] = 1
    """What the call uses of the limit. Example: `1`"""
    purpose: Annotated[str, Field(min_length=1, max_length=100, pattern=PLAIN)] = PURPOSE
    """What the call is for; the ledger shows it. Example: `nightly import`"""


class SettleBody(RequestBody):
    """How the call ended; `retry_after_s` is what a refusal (429) asked for."""

    model_config = example({"outcome": "answered", "http_status": 200})
    outcome: CallOutcome = CallOutcome.ANSWERED
    """How the call ended."""
    http_status: Annotated[int | None, Field(ge=100, le=599)] = None
    """The HTTP status of the reply. Example: `200`"""
    retry_after_s: Annotated[float | None, Field(ge=0)] = None
    """The seconds that a 429 reply asked to wait. Example: `60`"""


@operation("POST", "/api/permits", need=Need.PERMIT, tag=TAG, errors=(404,), status=201)
def take_permit(caller: OperatorCaller, body: PermitBody) -> SharedPermit:
    """Take a permit for one call; refused (429) if the wait would be longer than `max_wait_s`."""
    app, limit = caller.app, limit_of_name(caller.app, body.limit)
    if (pause := _pause_of(app, limit)) is not None:
        return _paused(app, limit, pause, max_wait_s=body.max_wait_s)
    answer = app.limiter.reserve(
        [limit.key],
        cost=body.cost,
        priority=list(PermitPriority).index(body.priority),
        owner=caller.actor,
        max_wait_s=body.max_wait_s,
        lease_s=body.timeout_s,
        grace_s=GRACE_S,
        purpose=body.purpose,
        begins=True,
    )
    if isinstance(answer, Rejected):
        wait_s = answer.retry_in_s + body.max_wait_s
        raise TooManyError(
            f"max_wait_s: the next free permit of {limit.name} is {wait_s:.0f} s away",
            retry_after_s=answer.retry_in_s,
        )
    if answer.granted is not None:
        return _granted(app, limit, answer.id, answer.granted)
    return SharedPermit(
        id=answer.id, limit=limit.name, state=PermitState.WAITING, wait_s=answer.wait_s,
        reason="waiting for the rate limit",
    )  # fmt: skip


@operation("POST", "/api/permits/{permit_id}/begin", need=Need.PERMIT, tag=TAG, errors=(404,))
def begin_permit(caller: OperatorCaller, permit_id: PermitPath) -> SharedPermit:
    """Begin a permit whose wait is over; it may have to wait longer behind higher priorities."""
    app, limit = caller.app, _limit_held(caller, permit_id)
    if (pause := _pause_of(app, limit)) is not None:
        return _paused(app, limit, pause)
    match app.limiter.begin(_held(app, permit_id, limit)):
        case Granted() as granted:
            return _granted(app, limit, permit_id, granted)
        case Expired():
            raise _gone()
        case not_yet:
            return SharedPermit(
                id=permit_id, limit=limit.name, state=PermitState.WAITING, wait_s=not_yet.wait_s,
                reason="waiting for the rate limit",
            )  # fmt: skip


@operation("POST", "/api/permits/{permit_id}/settle", need=Need.PERMIT, tag=TAG, errors=(404,))
def settle_permit(caller: OperatorCaller, permit_id: PermitPath, body: SettleBody) -> SharedPermit:
    """Report how the call ended, or give the permit back; settling again changes nothing."""
    app, limit = caller.app, _limit_held(caller, permit_id)
    app.limiter.settle(
        _held(app, permit_id, limit),
        sent=body.outcome is not CallOutcome.UNSENT,
        is_late=body.outcome is CallOutcome.TIMED_OUT,
        report=CallReport(
            result="ok" if body.outcome is CallOutcome.ANSWERED else body.outcome,
            http_status=body.http_status,
        ),
    )
    if body.outcome is CallOutcome.THROTTLED:
        wait_s = THROTTLED_S if body.retry_after_s is None else body.retry_after_s
        app.limiter.pause(limit.key, min(wait_s, THROTTLED_MAX_S), "too many requests")
    return SharedPermit(id=permit_id, limit=limit.name, state=PermitState.SETTLED)


def _granted(app: App, limit: NamedLimit, permit_id: str, granted: Granted) -> SharedPermit:
    now = app.clock.now()
    return SharedPermit(
        id=permit_id,
        limit=limit.name,
        state=PermitState.GRANTED,
        send_within_s=granted.send_within_s,
        finish_within_s=granted.finish_within_s,
        send_by=now + timedelta(seconds=granted.send_within_s),
        finish_by=now + timedelta(seconds=granted.finish_within_s),
    )


def _paused(
    app: App, limit: NamedLimit, pause: Pause, *, max_wait_s: float | None = None
) -> SharedPermit:
    """Return for how long to wait while a person has paused the limit; raises TooManyError."""
    now = app.clock.now()
    left_s = PAUSED_POLL_S if pause.until is None else (pause.until - now).total_seconds()
    reason = describe_pause(pause, now)
    if max_wait_s is not None and left_s > max_wait_s:
        raise TooManyError(f"{reason}; resume it, or wait longer", retry_after_s=left_s)
    wait_s = min(max(left_s, 1.0), PAUSED_POLL_S)
    return SharedPermit(
        id=None, limit=limit.name, state=PermitState.WAITING, wait_s=wait_s, reason=reason
    )


def _pause_of(app: App, limit: NamedLimit) -> Pause | None:
    """Return the pause that stops calls under this limit; None if nothing does."""
    pauses = Pauses(app.pool).active(app.clock.now())
    return longest(pause for pause in pauses if _stops(pause, limit.supplier))


def _stops(pause: Pause, supplier: SupplierName | None) -> bool:
    if supplier is None:
        return pause.kind is PauseKind.ALL
    return pause.stops_queue(supplier)


def _limit_held(caller: OperatorCaller, permit_id: str) -> NamedLimit:
    key = LimitQueries(caller.app.pool).key_of_permit(permit_id, owner=caller.actor)
    if key is None:
        raise _gone()
    return limit_of_key(caller.app, key)


def _held(app: App, permit_id: str, limit: NamedLimit) -> Permit:
    return Permit(id=permit_id, keys=(limit.key,), wait_s=0, start_at=app.clock.now(), position=0)


def _gone() -> NotFoundError:
    return NotFoundError("you hold no such permit; it expired, or was taken under another key")
