"""The state of a limiter for one resource, as a value, and how time alone changes it.

Also its JSON form. The order of permits is decided in `core.limits.queue`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.core.limits.rules import BucketLevel, LimitedCall, QuotaUse, Resource, to_us

# A lost call's holder may still report; until then its permit is remembered.
LOST_KEPT_US = to_us(3600)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Why a limiter that cannot know what left before waits out one window.
UNKNOWN = "history unknown"


def at_us(instant: datetime) -> int:
    """Return the instant as microseconds since the epoch, exactly."""
    return (instant - EPOCH) // timedelta(microseconds=1)


def instant(us: int) -> datetime:
    """Return the instant of these microseconds since the epoch, exactly."""
    return EPOCH + timedelta(microseconds=us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A permit not yet begun; `not_before_us` is the latest start on its other keys."""

    id: str
    sequence: int
    priority: int
    cost: float
    asked_at_us: int
    start_at_us: int
    not_before_us: int
    lease_us: int
    grace_us: int
    owner: str
    purpose: str
    leave: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """Everything remembered of one resource; buckets and quotas in the order of its rules."""

    last_now_us: int = 0
    paused_until_us: int = 0
    pause_reason: str = ""
    next_sequence: int = 0
    waiting: tuple[Waiting, ...] = ()
    calls: tuple[LimitedCall, ...] = ()
    buckets: tuple[BucketLevel, ...] = ()
    quotas: tuple[QuotaUse, ...] = ()

    def find(self, permit_id: str) -> LimitedCall | None:
        """Return the call of this permit, if it began and is remembered."""
        return next((call for call in self.calls if call.id == permit_id), None)

    def swap(self, call: LimitedCall) -> "LimitState":
        """Return the state with this call in place of its former self."""
        calls = tuple(call if other.id == call.id else other for other in self.calls)
        return replace(self, calls=calls)

    def without(self, permit_id: str) -> "LimitState":
        """Return the state without this permit in the queue."""
        return replace(
            self, waiting=tuple(permit for permit in self.waiting if permit.id != permit_id)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCall:
    """One entry of the ledger: a call that was permitted, and its outcome."""

    permit_id: str
    key: str
    owner: str
    purpose: str
    cost: float
    begun_at: datetime
    lease_until: datetime
    finished_at: datetime | None = None
    arrived_by: datetime | None = None
    status: str = "begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A call that is over: what the ledger stores about it."""

    permit_id: str
    key: str
    status: str
    finished_at: datetime | None = None
    arrived_by: datetime | None = None


Note = LedgerCall | Ended


def hold(state: LimitState, until_us: int, reason: str) -> LimitState:
    """Block new calls until that instant; a longer pause stays."""
    if until_us <= state.paused_until_us:
        return state
    return replace(state, paused_until_us=until_us, pause_reason=reason)


def distrust(resource: Resource, state: LimitState, now_us: int) -> LimitState:
    """Assume the worst of a past we do not know: buckets full, windows just used up."""
    buckets = tuple(
        replace(meter, level=meter.capacity or bucket.capacity, at_us=now_us)
        for bucket, meter in zip(
            resource.buckets, fit(resource, state, now_us).buckets, strict=True
        )
    )
    state = replace(state, buckets=buckets)
    if not resource.windows:
        return state
    # What was sent just before may arrive a jitter later, and the window is closed.
    until_us = now_us + resource.span_us + resource.jitter_us + 1
    return hold(state, until_us, UNKNOWN)


def shift(resource: Resource, state: LimitState, jump_us: int, now_us: int) -> LimitState:
    """Undo a jump of the clock: shift earlier instants by the same amount.

    No past instant is moved beyond now, so several processes may handle the same jump.
    """
    calls = []
    for call in state.calls:
        begun_us = max(call.begun_at_us, min(call.begun_at_us + jump_us, now_us))
        shifted = replace(call, begun_at_us=begun_us)
        if call.arrived_us is None:
            latest_us = now_us + call.lease_until_us - call.begun_at_us
            until_us = max(call.lease_until_us, min(call.lease_until_us + jump_us, latest_us))
            calls.append(replace(shifted, lease_until_us=until_us))
        else:
            arrived_us = max(call.arrived_us, min(call.arrived_us + jump_us, now_us))
            calls.append(replace(shifted, arrived_us=arrived_us))
    buckets = tuple(
        replace(meter, at_us=max(meter.at_us, min(meter.at_us + jump_us, now_us)))
        for meter in state.buckets
    )
    quotas = tuple(
        quota.shift(meter, jump_us, now_us)
        for quota, meter in zip(resource.quotas, state.quotas, strict=True)
    )
    left_us = state.paused_until_us - state.last_now_us
    paused_us = min(state.paused_until_us + jump_us, now_us + left_us)
    state = replace(
        state,
        calls=tuple(calls),
        buckets=buckets,
        quotas=quotas,
        paused_until_us=max(state.paused_until_us, paused_us),
    )
    return hold(state, now_us + min(jump_us, resource.span_us), "clock stepped")


def fit(resource: Resource, state: LimitState, now_us: int) -> LimitState:
    """Match the meters to the rules, which a release may have changed; learned values stay."""
    fresh = (
        BucketLevel(level=bucket.capacity, at_us=now_us)
        for bucket in resource.buckets[len(state.buckets) :]
    )
    missing = len(resource.quotas) - len(state.quotas)
    return replace(
        state,
        buckets=(*state.buckets[: len(resource.buckets)], *fresh),
        quotas=(*state.quotas[: len(resource.quotas)], *(QuotaUse() for _ in range(missing))),
    )


def tick(resource: Resource, state: LimitState, now_us: int) -> tuple[LimitState, tuple[Note, ...]]:
    """Apply the passage of time: drop absent owners, mark silent calls lost, forget old ones."""
    waiting = tuple(
        permit for permit in state.waiting if permit.start_at_us + permit.grace_us >= now_us
    )
    ended: list[Note] = []
    calls: list[LimitedCall] = []
    for call in state.calls:
        if call.arrived_us is None and call.lease_until_us < now_us:
            state, lost = _lose(resource, state, call)
            ended.append(
                Ended(
                    permit_id=call.id,
                    key=resource.key,
                    status="lost",
                    arrived_by=instant(call.lease_until_us),
                )
            )
            calls.append(lost)
        elif not _is_past(resource, call, now_us):
            calls.append(call)
    return replace(state, waiting=waiting, calls=tuple(calls), last_now_us=now_us), tuple(ended)


def _lose(
    resource: Resource, state: LimitState, call: LimitedCall
) -> tuple[LimitState, LimitedCall]:
    """Count a crashed call: it arrived by the end of its lease, and one more unit was in use."""
    unit = min(1, call.reserved)
    quotas = tuple(
        quota.charge(meter, unit, call.lease_until_us)
        for quota, meter in zip(resource.quotas, state.quotas, strict=True)
    )
    lost = replace(call, arrived_us=call.lease_until_us, is_lost=True, spent=call.spent + unit)
    return replace(state, quotas=quotas), lost


def _is_past(resource: Resource, call: LimitedCall, now_us: int) -> bool:
    if call.arrived_us is None:
        return False
    forgotten = max((rule.forgets_us(call, now_us) for rule in resource.windows), default=0)
    if call.is_lost:
        forgotten = max(forgotten, call.arrived_us + LOST_KEPT_US)
    return forgotten < now_us


def dump_rules(resource: Resource) -> list[dict[str, Any]]:
    """Return the rules as JSON."""
    return [{"kind": type(rule).__name__.lower(), **asdict(rule)} for rule in resource.rules]


def dump(state: LimitState) -> dict[str, Any]:
    """Return the state as JSON."""
    return {
        "last_now_us": state.last_now_us,
        "paused_until_us": state.paused_until_us,
        "pause_reason": state.pause_reason,
        "next_sequence": state.next_sequence,
        "waiting": [_fields(permit) for permit in state.waiting],
        "calls": [_fields(call) for call in state.calls],
        "buckets": [_fields(meter) for meter in state.buckets],
        "quotas": [_fields(meter) for meter in state.quotas],
    }


def load(values: Mapping[str, Any]) -> LimitState:
    """Read the state back."""
    return LimitState(
        last_now_us=values["last_now_us"],
        paused_until_us=values["paused_until_us"],
        pause_reason=values["pause_reason"],
        next_sequence=values["next_sequence"],
        waiting=tuple(Waiting(**fields) for fields in values["waiting"]),
        calls=tuple(LimitedCall(**call) for call in values["calls"]),
        buckets=tuple(BucketLevel(**meter) for meter in values["buckets"]),
        quotas=tuple(
            QuotaUse(**{**meter, "used": tuple((number, used) for number, used in meter["used"])})
            for meter in values["quotas"]
        ),
    )


def _fields(value: Waiting | LimitedCall | BucketLevel | QuotaUse) -> dict[str, Any]:
    # `asdict` copies deeply and is ten times slower; these values hold only scalars and tuples.
    return {name: getattr(value, name) for name in value.__slots__}
