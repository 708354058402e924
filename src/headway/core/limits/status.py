"""What a person is shown of one resource: its meters, its queue, and why it waits."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headway.core.limits.queue import find_next_free_us
from headway.core.limits.rules import Resource
from headway.core.limits.state import LedgerCall, LimitState, instant

RECENT_CALLS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitGauge:
    """One rule's meter: what is used and reserved of its limit."""

    rule: str
    """The rule, in words. Example: `2 calls in 60 s`"""
    used: float
    """What is used of the limit."""
    reserved: float
    """What is reserved."""
    limit: float
    """The limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStatus:
    """One resource at one instant; `promised_at` is when the first of those who wait may begin."""

    key: str
    at: datetime
    gauges: tuple[LimitGauge, ...]
    in_flight: int
    queue: Mapping[int, int] = field(default_factory=dict)
    next_free_at: datetime
    promised_at: datetime | None = None
    paused_until: datetime | None
    reason: str
    recent: tuple[LedgerCall, ...] = ()


def show(
    resource: Resource, state: LimitState, *, recent: tuple[LedgerCall, ...], now_us: int
) -> LimitStatus:
    """Return the status; `state` must already know this instant."""
    is_paused = state.paused_until_us > now_us
    return LimitStatus(
        key=resource.key,
        at=instant(now_us),
        gauges=_gauges(resource, state, now_us),
        in_flight=sum(call.arrived_us is None for call in state.calls),
        queue=dict(sorted(Counter(permit.priority for permit in state.waiting).items())),
        next_free_at=instant(find_next_free_us(resource, state, now_us)),
        promised_at=_promised_at(state),
        paused_until=instant(state.paused_until_us) if is_paused else None,
        reason=state.pause_reason if is_paused else "",
        recent=recent,
    )


def _promised_at(state: LimitState) -> datetime | None:
    return instant(min(permit.start_at_us for permit in state.waiting)) if state.waiting else None


def _gauges(resource: Resource, state: LimitState, now_us: int) -> tuple[LimitGauge, ...]:
    gauges = []
    flying = [call for call in state.calls if call.arrived_us is None]
    for window in resource.windows:
        done = [call for call in state.calls if call.arrived_us is not None]
        used = sum(call.cost for call in done if window.forgets_us(call, now_us) >= now_us)
        reserved = sum(call.cost for call in flying)
        name = f"{window.limit:g} in {window.span_s:g} s"
        gauges.append(_gauge(name, used, reserved, window.limit))
    for bucket, level in zip(resource.buckets, state.buckets, strict=True):
        limit = level.capacity or bucket.capacity
        name = f"bucket of {limit:g}, {level.restore_per_s or bucket.rate_per_s:g}/s"
        used = bucket.level_at(level, now_us)
        gauges.append(_gauge(name, used, 0, limit))
    for quota, use in zip(resource.quotas, state.quotas, strict=True):
        limit = use.limit or quota.limit
        name = f"quota of {limit:g} in {quota.span_s:g} s"
        reserved = sum(call.reserved for call in flying)
        used = quota.used_at(use, now_us)
        gauges.append(_gauge(name, used, reserved, limit))
    return tuple(gauges)


def _gauge(rule: str, used: float, reserved: float, limit: float) -> LimitGauge:
    return LimitGauge(rule=rule, used=float(used), reserved=float(reserved), limit=float(limit))
