"""The three kinds of limit a provider sets, and when each allows a call of some cost to begin.

Every instant is an int of microseconds, so that comparisons are exact. A rule answers with the
earliest instant, whatever `now` is; it never returns a wait time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

SECOND_US = 1_000_000


def to_us(seconds: float) -> int:
    """Return whole microseconds."""
    return round(seconds * SECOND_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedCall:
    """A permitted call; `arrived_us` is the upper bound of its arrival, None while in flight.

    `leave` is what its holder leaves of a quota to others when it requests more.
    """

    id: str
    priority: int
    cost: float
    begun_at_us: int
    lease_until_us: int
    spent: float = 0
    leave: float = 0
    arrived_us: int | None = None
    is_lost: bool = False

    @property
    def reserved(self) -> float:
        """What it still holds of a quota."""
        return max(0, self.cost - self.spent) if self.arrived_us is None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """At most `limit` calls in any closed span, and `gap_s` between two, as they arrive.

    The anchor is the latest time a call may have arrived: `finish` assumes nothing, `cap` assumes
    that none arrives later than `jitter_s` after its begin, `start` does not wait for the finish.
    """

    limit: float
    span_s: float
    gap_s: float = 0
    jitter_s: float = 0
    anchor: Literal["finish", "cap", "start"] = "finish"

    def arrived_by(self, call: LimitedCall, now_us: int) -> int:
        """Return the latest instant at which the provider may have counted this call."""
        capped = call.begun_at_us + to_us(self.jitter_s)
        if self.anchor == "start":
            return capped
        # A call in flight counts as arriving now: no call is admitted because of a forecast.
        latest = max(call.begun_at_us, now_us) if call.arrived_us is None else call.arrived_us
        return min(latest, capped) if self.anchor == "cap" else latest

    def earliest_us(self, calls: Sequence[LimitedCall], cost: float, now_us: int) -> int:
        """Return the first instant at which one more call keeps the window and the gap."""
        arrivals = sorted((self.arrived_by(call, now_us), call.cost) for call in calls)
        earliest = arrivals[-1][0] + to_us(self.gap_s) + 1 if arrivals and self.gap_s else 0
        load = cost + sum(weight for _, weight in arrivals)
        for arrived_us, weight in arrivals:
            if load <= self.limit:
                break
            load -= weight
            earliest = max(earliest, arrived_us + to_us(self.span_s) + 1)
        return earliest

    def forgets_us(self, call: LimitedCall, now_us: int) -> int:
        """Return the instant after which this call no longer matters."""
        return self.arrived_by(call, now_us) + to_us(max(self.span_s, self.gap_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLevel:
    """How full a bucket was at an instant, and what replies have taught about it."""

    level: float
    at_us: int
    capacity: float | None = None
    restore_per_s: float | None = None
    quiet_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A bucket that each call fills by its cost and time drains; `headroom` is left to others."""

    capacity: float
    rate_per_s: float
    headroom: float = 0

    def room(self, meter: BucketLevel) -> float:
        """Return the largest cost that can ever pass."""
        return (meter.capacity or self.capacity) - self.headroom

    def level_at(self, meter: BucketLevel, at_us: int) -> float:
        """Return how full it is at that instant."""
        rate_per_s = meter.restore_per_s or self.rate_per_s
        return max(0, meter.level - rate_per_s * max(0, at_us - meter.at_us) / SECOND_US)

    def correct(
        self, meter: BucketLevel, call: LimitedCall, used: float, at_us: int
    ) -> BucketLevel:
        """Put what a call used in place of what it was charged."""
        over = used - call.cost
        if over < 0:
            # Some of a refund may have drained already, from a bucket that was nearly empty.
            rate_per_s = meter.restore_per_s or self.rate_per_s
            over = min(0, over + rate_per_s * (at_us - call.begun_at_us) / SECOND_US)
        return self.charge(meter, over, at_us)

    def earliest_us(self, meter: BucketLevel, cost: float) -> int:
        """Return the first instant at which that cost fits; one too large waits for empty."""
        over = meter.level + cost - max(cost, self.room(meter))
        if over <= 0:
            return 0
        return meter.at_us + ceil(over / (meter.restore_per_s or self.rate_per_s) * SECOND_US)

    def charge(self, meter: BucketLevel, cost: float, at_us: int) -> BucketLevel:
        """Fill by the cost (drain, if negative) at that instant."""
        at_us = max(at_us, meter.at_us)
        return replace(meter, level=max(0, self.level_at(meter, at_us) + cost), at_us=at_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """What was used, by number of the time bucket, and the limit replies have taught."""

    used: tuple[tuple[int, float], ...] = ()
    limit: float | None = None
    quiet_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """At most `limit` units in a span: rolling, or by calendar from the epoch, in UTC.

    Use is counted in time buckets; a bucket that is partly past still counts in full. A request
    names how many units it leaves to others.
    """

    limit: float
    span_s: float
    bucket_s: float = 3600
    is_rolling: bool = True

    def room(self, meter: QuotaUse) -> float:
        """Return the limit, as replies have taught it."""
        return meter.limit or self.limit

    def used_at(self, meter: QuotaUse, at_us: int) -> float:
        """Return the use that still counts at that instant."""
        return sum(amount for number, amount in meter.used if at_us < self._expires_us(number))

    def earliest_us(
        self,
        meter: QuotaUse,
        calls: Sequence[LimitedCall],
        *,
        cost: float,
        leave: float,
        now_us: int,
    ) -> int:
        """Return the first instant at which the cost fits beside what is used, reserved and left.

        What is left to others follows what they need, so it is a forecast as all of this is.
        """
        over = self.used_at(meter, now_us) + sum(call.reserved for call in calls) + cost
        over -= self.room(meter) - leave
        if over <= 0:
            return 0
        freed = [(self._expires_us(number), amount) for number, amount in meter.used]
        freed += [(call.lease_until_us, call.reserved) for call in calls]
        for at_us, amount in sorted(freed):
            if at_us <= now_us:
                continue
            over -= amount
            if over <= 0:
                return at_us
        return now_us + to_us(self.span_s)

    def charge(self, meter: QuotaUse, amount: float, at_us: int) -> QuotaUse:
        """Count that much used at that instant, and forget what is past."""
        counts = {number: used for number, used in meter.used if at_us < self._expires_us(number)}
        if amount > 0:
            number = at_us // self._bucket_us
            counts[number] = counts.get(number, 0) + amount
        return replace(meter, used=tuple(sorted(counts.items())))

    def shift(self, meter: QuotaUse, jump_us: int, now_us: int) -> QuotaUse:
        """Count what was used before the clock jumped as that much later, but not after now."""
        bucket_us = self._bucket_us
        counts: dict[int, float] = {}
        for number, used in meter.used:
            shifted = min((number + 1) * bucket_us - 1 + jump_us, now_us) // bucket_us
            counts[max(number, shifted)] = counts.get(max(number, shifted), 0) + used
        return replace(meter, used=tuple(sorted(counts.items())))

    def discharge(self, meter: QuotaUse, amount: float) -> QuotaUse:
        """Take back that much, oldest first, so that what stays expires late."""
        kept = []
        for number, used in meter.used:
            taken = min(used, amount)
            amount -= taken
            if used > taken:
                kept.append((number, used - taken))
        return replace(meter, used=tuple(kept))

    @property
    def _bucket_us(self) -> int:
        return to_us(self.bucket_s if self.is_rolling else self.span_s)

    def _expires_us(self, number: int) -> int:
        return (number + 1) * self._bucket_us + (to_us(self.span_s) if self.is_rolling else 0)


Rule = Window | Bucket | Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One limited thing, by key, and every rule that binds it."""

    key: str
    rules: tuple[Rule, ...]

    @property
    def windows(self) -> tuple[Window, ...]:
        """Its windows."""
        return tuple(rule for rule in self.rules if isinstance(rule, Window))

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Its buckets."""
        return tuple(rule for rule in self.rules if isinstance(rule, Bucket))

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """Its quotas."""
        return tuple(rule for rule in self.rules if isinstance(rule, Quota))

    @property
    def span_us(self) -> int:
        """The longest window."""
        return max((to_us(window.span_s) for window in self.windows), default=0)

    @property
    def jitter_us(self) -> int:
        """The longest a call may still be under way after we gave it up."""
        return max((to_us(window.jitter_s) for window in self.windows), default=0)
