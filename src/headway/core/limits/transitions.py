"""Two-phase permits over several resources, as pure transitions.

`reserve` returns a start time, `begin` commits to it, `settle` ends the call. A transition takes
the states of all keys of a permit and an instant, and returns new states, an answer and notes for
the ledger. Stores add only a lock and a clock (`store.limits`, `core.limits_memory`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from headway.core.limits.queue import ahead_of, charge, close, find_start_us
from headway.core.limits.requests import (
    BeginResult,
    CallReport,
    Expired,
    Granted,
    LimitStep,
    NotYet,
    Observation,
    Permit,
    Rejected,
    Request,
)
from headway.core.limits.rules import SECOND_US, Bucket, Quota, Resource, Window, to_us
from headway.core.limits.state import (
    Ended,
    LedgerCall,
    LimitState,
    Note,
    Waiting,
    distrust,
    fit,
    hold,
    instant,
    shift,
    tick,
)
from headway.errors import InvalidError, InvariantError

__all__ = [
    "BeginResult",
    "Bucket",
    "CallReport",
    "Expired",
    "Granted",
    "LedgerCall",
    "LimitState",
    "LimitStep",
    "NotYet",
    "Observation",
    "Permit",
    "Quota",
    "Rejected",
    "Request",
    "Resource",
    "Window",
    "begin",
    "enter",
    "extend",
    "find_keys",
    "find_step_us",
    "follow",
    "observe",
    "pause",
    "reserve",
    "settle",
    "spend",
    "take",
]

SEND_WITHIN_S = 1.0
STEP_US = to_us(0.5)
QUIET_REPLIES = 3


Resources = Mapping[str, Resource]
States = Mapping[str, LimitState]


def find_keys(resources: Resources, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the keys in the order in which they are locked; each must have rules."""
    unknown = [key for key in keys if key not in resources]
    if unknown or not keys:
        raise InvariantError(f"no limit is set for {', '.join(unknown) or 'an empty list of keys'}")
    return tuple(sorted(set(keys)))


def find_step_us(before: tuple[float, int] | None, monotonic_s: float, now_us: int) -> int:
    """Return by how much the clock jumped ahead since (monotonic seconds, instant); 0 if not."""
    if before is None:
        return 0
    jump_us = (now_us - before[1]) - to_us(monotonic_s - before[0])
    return jump_us if jump_us > STEP_US else 0


def enter(
    resources: Resources,
    states: Mapping[str, LimitState | None],
    *,
    now_us: int,
    strange: Collection[str] = (),
    steps_us: Mapping[str, int] | None = None,
) -> LimitStep[int]:
    """Start every operation: agree on one instant, and apply the passage of time to each key.

    A key without a state, or `strange` because its store has another past, is distrusted; a key
    whose clock jumped ahead is paused, and its past made that much younger again.
    """
    now_us = max([now_us, *(state.last_now_us for state in states.values() if state is not None)])
    opened: dict[str, LimitState] = {}
    notes: list[Note] = []
    for key, state in states.items():
        resource = resources[key]
        fitted = fit(resource, state or LimitState(), now_us)
        if state is None or key in strange:
            fitted = distrust(resource, fitted, now_us)
        if jump_us := (steps_us or {}).get(key, 0):
            fitted = shift(resource, fitted, jump_us, now_us)
        opened[key], lost = tick(resource, fitted, now_us)
        notes += lost
    return LimitStep(answer=now_us, states=opened, notes=tuple(notes))


def reserve(
    resources: Resources, states: States, request: Request, now_us: int
) -> LimitStep[Permit | Rejected]:
    """Queue for a start time; refuse at once when the wait would be too long."""
    _refuse_impossible(resources, states, request)
    waiting = {key: _waiting(request, states[key].next_sequence, now_us) for key in request.keys}
    starts = {
        key: find_start_us(resources[key], states[key], waiting[key], now_us) for key in waiting
    }
    wait_us = max(starts.values()) - now_us
    if wait_us > to_us(request.max_wait_s):
        return LimitStep(answer=Rejected(retry_in_s=wait_us / SECOND_US - request.max_wait_s))
    permit = Permit(
        id=request.id,
        keys=request.keys,
        wait_s=wait_us / SECOND_US,
        start_at=instant(now_us + wait_us),
        position=max(len(ahead_of(waiting[key], states[key], now_us)) for key in waiting),
    )
    queued = {
        key: replace(states[key], next_sequence=entry.sequence + 1)
        for key, entry in waiting.items()
    }
    return LimitStep(answer=permit, states=_promise(queued, waiting, starts))


def take(
    resources: Resources, states: States, request: Request, now_us: int
) -> LimitStep[Permit | Rejected]:
    """Reserve and, if the start is now, begin too: the permit is then granted."""
    reserved = reserve(resources, states, request, now_us)
    permit = reserved.answer
    if isinstance(permit, Rejected) or permit.wait_s > 0:
        return reserved
    begun = begin(resources, {**states, **reserved.states}, permit, now_us)
    assert isinstance(begun.answer, Granted), "a permit that may start now may begin now"
    return LimitStep(
        answer=replace(permit, granted=begun.answer),
        states={**reserved.states, **begun.states},
        notes=(*reserved.notes, *begun.notes),
    )


def follow(
    resources: Resources, states: States, sent: Permit, request: Request, now_us: int
) -> LimitStep[Permit | Rejected]:
    """Settle a call that was sent and reserve the permit of the next one."""
    settled = settle(resources, states, sent, sent=True, now_us=now_us)
    reserved = reserve(resources, {**states, **settled.states}, request, now_us)
    return LimitStep(
        answer=reserved.answer,
        states={**settled.states, **reserved.states},
        notes=(*settled.notes, *reserved.notes),
    )


def begin(
    resources: Resources, states: States, permit: Permit, now_us: int
) -> LimitStep[BeginResult]:
    """Begin the call if all rules of all keys allow it and no permit ahead needs the slot."""
    waiting = {
        key: entry for key in permit.keys for entry in states[key].waiting if entry.id == permit.id
    }
    if len(waiting) < len(permit.keys):
        return LimitStep(
            answer=Expired(), states={key: states[key].without(permit.id) for key in waiting}
        )
    starts = {
        key: find_start_us(resources[key], states[key], waiting[key], now_us) for key in waiting
    }
    wait_us = max(starts.values()) - now_us
    if wait_us > 0:
        promised = _promise(states, waiting, starts)
        return LimitStep(answer=NotYet(wait_s=wait_us / SECOND_US), states=promised)
    begun = {
        key: charge(resources[key], states[key].without(entry.id), entry, now_us)
        for key, entry in waiting.items()
    }
    within_s = min(_send_within_s(resources[key], entry) for key, entry in waiting.items())
    notes = tuple(_ledger_line(key, entry, now_us) for key, entry in waiting.items())
    lease_s = min(entry.lease_us for entry in waiting.values()) / SECOND_US
    granted = Granted(send_within_s=within_s, finish_within_s=lease_s)
    return LimitStep(answer=granted, states=begun, notes=notes)


def settle(
    resources: Resources,
    states: States,
    permit: Permit,
    *,
    sent: bool,
    actual: float | None = None,
    is_late: bool = False,
    observation: Observation | None = None,
    now_us: int,
) -> LimitStep[None]:
    """Store how the call ended; settling the same permit again changes nothing.

    Without `actual` a call has used what it spent, or all it reserved if it never reported. An
    unsent permit that was not begun leaves the queue. `observation` corrects the meter.
    """
    changed: dict[str, LimitState] = {}
    notes: list[Note] = []
    for key in permit.keys:
        call = states[key].find(permit.id)
        if call is None and not sent:
            changed[key] = states[key].without(permit.id)
        if call is None or (call.arrived_us is not None and not call.is_lost):
            continue
        arrived_us = now_us + (resources[key].jitter_us if is_late else 0) if sent else None
        used = (call.spent or call.cost) if actual is None else actual
        changed[key] = close(
            resources[key],
            states[key],
            call,
            arrived_us=arrived_us,
            used=used if sent else 0,
            now_us=now_us,
        )
        notes.append(_ended(key, permit.id, now_us, arrived_us))
        if observation is not None:
            changed |= observe(resources[key], changed[key], observation, now_us=now_us).states
    return LimitStep(answer=None, states=changed, notes=tuple(notes))


def spend(
    resources: Resources,
    states: States,
    permit: Permit,
    amount: float,
    *,
    lease_s: float = 0,
    now_us: int,
) -> LimitStep[bool]:
    """Count a part of a quota's reservation as used: on every key, or not at all.

    No more than the reservation is counted, and nothing once it has lapsed. With `lease_s`
    the reservation lives at least that much longer.
    """
    changed = {}
    for key in permit.keys:
        call = states[key].find(permit.id)
        if call is None or call.arrived_us is not None or call.reserved < amount:
            return LimitStep(answer=False)
        quotas = tuple(
            quota.charge(use, amount, now_us)
            for quota, use in zip(resources[key].quotas, states[key].quotas, strict=True)
        )
        until_us = max(call.lease_until_us, now_us + to_us(lease_s))
        spent = replace(call, spent=call.spent + amount, lease_until_us=until_us)
        changed[key] = replace(states[key].swap(spent), quotas=quotas)
    return LimitStep(answer=True, states=changed)


def extend(
    resources: Resources, states: States, permit: Permit, amount: float, now_us: int
) -> LimitStep[bool]:
    """Reserve more of the quotas for a call in flight: on every key, or not at all."""
    changed = {}
    for key in permit.keys:
        state = states[key]
        call = state.find(permit.id)
        if call is None or call.arrived_us is not None or state.paused_until_us > now_us:
            return LimitStep(answer=False)
        for quota, use in zip(resources[key].quotas, state.quotas, strict=True):
            earliest_us = quota.earliest_us(
                use, state.calls, cost=amount, leave=call.leave, now_us=now_us
            )
            if earliest_us > now_us:
                return LimitStep(answer=False)
        changed[key] = state.swap(replace(call, cost=call.cost + amount))
    return LimitStep(answer=True, states=changed)


def observe(
    resource: Resource,
    state: LimitState,
    observation: Observation,
    *,
    permit_id: str | None = None,
    now_us: int,
) -> LimitStep[None]:
    """Correct the first quota, or the first bucket, from a reply.

    A reply with a restore rate, or for a resource without quotas, is about the bucket. The meter is
    raised at once, and lowered only after three replies in a row with no other call in flight.
    """
    others = [call for call in state.calls if call.arrived_us is None and call.id != permit_id]
    if resource.quotas and observation.restore_per_s is None:
        quota, use = resource.quotas[0], state.quotas[0]
        # Other calls in flight hold reservations, which count besides what is used.
        over = quota.used_at(use, now_us) - observation.used
        use = replace(use, limit=observation.capacity or use.limit)
        is_quiet, quiet_count = _count_quiet(over, use.quiet_count, has_others=bool(others))
        if over < 0:
            use = quota.charge(use, -over, now_us)
        elif is_quiet:
            use = quota.discharge(use, over)
        use = replace(use, quiet_count=quiet_count)
        changed = replace(state, quotas=(use, *state.quotas[1:]))
    elif resource.buckets:
        bucket, level = resource.buckets[0], state.buckets[0]
        over = (
            bucket.level_at(level, now_us) - observation.used - sum(other.cost for other in others)
        )
        is_quiet, quiet_count = _count_quiet(over, level.quiet_count, has_others=bool(others))
        level = bucket.charge(level, -over if over < 0 or is_quiet else 0, now_us)
        level = replace(
            level,
            capacity=observation.capacity or level.capacity,
            restore_per_s=observation.restore_per_s or level.restore_per_s,
            quiet_count=quiet_count,
        )
        changed = replace(state, buckets=(level, *state.buckets[1:]))
    else:
        return LimitStep(answer=None)
    return LimitStep(answer=None, states={resource.key: changed})


def pause(state: LimitState, key: str, *, until_us: int, reason: str) -> LimitStep[None]:
    """Block new calls on this key for a while; a longer pause stays."""
    return LimitStep(answer=None, states={key: hold(state, until_us, reason)})


def _count_quiet(over: float, count: int, *, has_others: bool) -> tuple[bool, int]:
    """Return whether the meter may be lowered now, and the count of quiet replies."""
    if over <= 0 or has_others:
        return False, 0
    return count + 1 >= QUIET_REPLIES, (count + 1) % QUIET_REPLIES


def _waiting(request: Request, sequence: int, now_us: int) -> Waiting:
    return Waiting(
        id=request.id,
        sequence=sequence,
        priority=request.priority,
        cost=request.cost,
        asked_at_us=now_us,
        start_at_us=now_us,
        not_before_us=now_us,
        lease_us=to_us(request.lease_s),
        grace_us=to_us(request.grace_s),
        owner=request.owner,
        purpose=request.purpose,
        leave=request.leave,
    )


def _promise(
    states: States, entries: Mapping[str, Waiting], starts: Mapping[str, int]
) -> dict[str, LimitState]:
    """Store the start in every key's queue, with the latest start on the other keys."""
    start_us = max(starts.values())
    promised = {}
    for key, entry in entries.items():
        others_us = max((at_us for other, at_us in starts.items() if other != key), default=0)
        with_start = replace(entry, start_at_us=start_us, not_before_us=others_us)
        waiting = (*states[key].without(entry.id).waiting, with_start)
        promised[key] = replace(states[key], waiting=waiting)
    return promised


def _send_within_s(resource: Resource, waiting: Waiting) -> float:
    """Return how late the call may still leave.

    Where every rule waits for the finish, a late call is counted late, and only the lease binds;
    what trusts the begin must leave soon after it. A bucket's headroom holds what a late call adds.
    """
    within_s = [waiting.lease_us / SECOND_US / 2]
    for rule in resource.rules:
        if isinstance(rule, Bucket):
            within_s.append(max(SEND_WITHIN_S, rule.headroom / rule.rate_per_s))
        elif not isinstance(rule, Window):
            within_s.append(SEND_WITHIN_S)
        elif rule.anchor != "finish":
            within_s.append(min(SEND_WITHIN_S, rule.jitter_s / 2))
    return min(within_s)


def _ledger_line(key: str, waiting: Waiting, now_us: int) -> LedgerCall:
    return LedgerCall(
        permit_id=waiting.id,
        key=key,
        owner=waiting.owner,
        purpose=waiting.purpose,
        cost=waiting.cost,
        begun_at=instant(now_us),
        lease_until=instant(now_us + waiting.lease_us),
    )


def _ended(key: str, permit_id: str, now_us: int, arrived_us: int | None) -> Ended:
    return Ended(
        permit_id=permit_id,
        key=key,
        status="unsent" if arrived_us is None else "sent",
        finished_at=instant(now_us),
        arrived_by=None if arrived_us is None else instant(arrived_us),
    )


def _refuse_impossible(resources: Resources, states: States, request: Request) -> None:
    """Raise InvalidError for what could never be granted."""
    if not (isfinite(request.cost) and request.cost > 0 and request.priority >= 0):
        raise InvalidError("a permit's cost must be positive, and its class 0 or more")
    for key in request.keys:
        resource, state = resources[key], states[key]
        rooms = [rule.limit for rule in resource.windows]
        for bucket, level in zip(resource.buckets, state.buckets, strict=True):
            # A limit learned from a reply must not block for ever: a cost above it waits until the
            # meter is empty.
            rooms.append(max(bucket.room(level), bucket.capacity - bucket.headroom))
        for quota, use in zip(resource.quotas, state.quotas, strict=True):
            rooms.append(max(quota.room(use), quota.limit))
        if request.cost > min(rooms, default=request.cost):
            raise InvalidError(
                f"a permit of {request.cost:g} on {key} can never be given: "
                f"at most {min(rooms):g}; ask for less at a time"
            )
