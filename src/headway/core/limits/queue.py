"""The queue of one resource: the order of its permits, and when each would start.

Also how the begin and end of a call change its meters. Every start is a forecast until `begin`.
"""

from collections.abc import Sequence
from dataclasses import replace

from headway.core.limits.rules import LimitedCall, Resource, to_us
from headway.core.limits.state import LimitState, Waiting

AGEING_US = to_us(600)


def rank(permit: Waiting, now_us: int) -> tuple[int, int]:
    """Return its place: class, one better per ten minutes of waiting, then first come."""
    return max(0, permit.priority - (now_us - permit.asked_at_us) // AGEING_US), permit.sequence


def ahead_of(asker: Waiting, state: LimitState, now_us: int) -> list[Waiting]:
    """Return the permits ahead; one that another of its keys still blocks is skipped."""
    place = rank(asker, now_us)
    ready = [
        permit
        for permit in state.waiting
        if permit.not_before_us <= now_us and permit.id != asker.id
    ]
    ready.sort(key=lambda permit: rank(permit, now_us))
    return [permit for permit in ready if rank(permit, now_us) < place]


def find_start_us(resource: Resource, state: LimitState, asker: Waiting, now_us: int) -> int:
    """Return when this permit may start on this key, after all permits ahead of it.

    A permit that sleeps until its promised start does not block an awake permit that delays no
    other: otherwise promises made before the queue shrank would leave slots empty.
    """
    ahead = ahead_of(asker, state, now_us)
    start_us = plan(resource, state, [*ahead, asker], now_us)[-1]
    asleep = [permit for permit in ahead if permit.start_at_us > now_us]
    if start_us <= now_us or not asleep:
        return start_us
    awake = [permit for permit in ahead if permit.start_at_us <= now_us]
    starts = plan(resource, state, [*awake, asker, *asleep], now_us)
    delayed = zip(asleep, starts[len(awake) + 1 :], strict=True)
    if starts[len(awake)] > now_us or any(at_us > permit.start_at_us for permit, at_us in delayed):
        return start_us
    return now_us


def plan(resource: Resource, state: LimitState, queue: Sequence[Waiting], now_us: int) -> list[int]:
    """Return the start of each, none before the one in front of it."""
    start_us = max(now_us, state.paused_until_us)
    starts = []
    for permit in queue:
        start_us = max(start_us, _earliest_us(resource, state, permit, now_us))
        state = charge(resource, state, permit, start_us)
        starts.append(start_us)
    return starts


def find_next_free_us(resource: Resource, state: LimitState, now_us: int) -> int:
    """Return when a permit of cost 1 would start at the end of the queue."""
    queue = sorted(state.waiting, key=lambda permit: rank(permit, now_us))
    last = Waiting(
        id="",
        sequence=state.next_sequence,
        priority=0,
        cost=1,
        asked_at_us=now_us,
        start_at_us=now_us,
        not_before_us=now_us,
        lease_us=0,
        grace_us=0,
        owner="",
        purpose="",
    )
    return plan(resource, state, [*queue, last], now_us)[-1]


def charge(resource: Resource, state: LimitState, permit: Waiting, begun_at_us: int) -> LimitState:
    """Begin a call at that instant: windows and quotas see it from now on, buckets fill."""
    call = LimitedCall(
        id=permit.id,
        priority=permit.priority,
        cost=permit.cost,
        begun_at_us=begun_at_us,
        lease_until_us=begun_at_us + permit.lease_us,
        leave=permit.leave,
    )
    buckets = tuple(
        bucket.charge(level, permit.cost, begun_at_us)
        for bucket, level in zip(resource.buckets, state.buckets, strict=True)
    )
    return replace(state, calls=(*state.calls, call), buckets=buckets)


def close(
    resource: Resource,
    state: LimitState,
    call: LimitedCall,
    *,
    arrived_us: int | None,
    used: float,
    now_us: int,
) -> LimitState:
    """End a call; without an arrival it never left, and what it took is returned."""
    buckets = tuple(
        bucket.correct(level, call, used, now_us)
        for bucket, level in zip(resource.buckets, state.buckets, strict=True)
    )
    # Charged to the moment of the report, never before the arrival: it cannot expire too soon.
    quotas = tuple(
        quota.charge(use, used - call.spent, now_us)
        for quota, use in zip(resource.quotas, state.quotas, strict=True)
    )
    if arrived_us is not None:  # a unit that was spent on a request which then never left
        quotas = tuple(
            quota.discharge(use, max(0, call.spent - used))
            for quota, use in zip(resource.quotas, quotas, strict=True)
        )
    state = replace(state, buckets=buckets, quotas=quotas)
    if arrived_us is None:
        return replace(state, calls=tuple(other for other in state.calls if other.id != call.id))
    return state.swap(
        replace(
            call,
            arrived_us=arrived_us,
            is_lost=False,
            spent=max(used, call.spent),
            cost=max(used, min(call.cost, 1)),
        )
    )


def _earliest_us(resource: Resource, state: LimitState, permit: Waiting, now_us: int) -> int:
    times = [now_us]
    times += [rule.earliest_us(state.calls, permit.cost, now_us) for rule in resource.windows]
    for bucket, level in zip(resource.buckets, state.buckets, strict=True):
        times.append(bucket.earliest_us(level, permit.cost))
    for quota, use in zip(resource.quotas, state.quotas, strict=True):
        times.append(
            quota.earliest_us(use, state.calls, cost=permit.cost, leave=permit.leave, now_us=now_us)
        )
    return max(times)
