"""A limiter with observers: every call passes through it, so each is reported exactly once.

It makes no decisions and no calls: it reports what the limiter and its caller did.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from headway.clock import Clock
from headway.core.catalog.listings import SellerId
from headway.core.limits.transitions import (
    BeginResult,
    CallReport,
    Granted,
    Observation,
    Permit,
    Rejected,
)
from headway.core.monitoring.calls import UNUSED, CallRecord
from headway.engine.ports_limits import Limiter


class CallObserver(Protocol):
    """Receives every call when it begins and ends."""

    def begun(self, call_id: str, seller: SellerId | None) -> None:
        """Record that a permit was begun; this thread now works with it."""

    def ended(self, call: CallRecord) -> None:
        """Record how the call ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    id: str
    at: datetime
    at_s: float
    waited_s: float


class ObservedLimiter:
    """The limiter of one worker, which has one call at a time; `seller` is whose call it is."""

    def __init__(self, inner: Limiter, *, clock: Clock, verb: str, watch: CallObserver) -> None:
        self.seller: SellerId | None = None
        self._inner = inner
        self._clock = clock
        self._verb = verb
        self._watch = watch
        self._reserved: tuple[str, float] | None = None
        self._begun: _Begun | None = None

    def reserve(
        self,
        keys: Sequence[str],
        *,
        cost: float = 1,
        priority: int = 0,
        owner: str,
        max_wait_s: float,
        lease_s: float,
        grace_s: float,
        purpose: str = "",
        begins: bool = False,
        after: Permit | None = None,
        report: CallReport | None = None,
    ) -> Permit | Rejected:
        """Reserve; report the call that has ended, and the one that begins."""
        if after is not None:
            self._end(after, report or CallReport())
        answer = self._inner.reserve(
            keys,
            cost=cost,
            priority=priority,
            owner=owner,
            max_wait_s=max_wait_s,
            lease_s=lease_s,
            grace_s=grace_s,
            purpose=purpose,
            begins=begins,
            after=after,
            report=report,
        )
        if isinstance(answer, Permit):
            self._reserved = (answer.id, self._clock.monotonic())
            if answer.granted is not None:
                self._begin(answer)
        return answer

    def begin(self, permit: Permit) -> BeginResult:
        """Begin; report the call if it begins."""
        answer = self._inner.begin(permit)
        if isinstance(answer, Granted):
            self._begin(permit)
        return answer

    def settle(
        self,
        permit: Permit,
        *,
        sent: bool,
        actual: float | None = None,
        is_late: bool = False,
        report: CallReport | None = None,
        observation: Observation | None = None,
    ) -> None:
        """Report the end, then settle: the call was made even if the settle fails."""
        self._end(permit, report or CallReport(ended=UNUSED))
        self._inner.settle(
            permit,
            sent=sent,
            actual=actual,
            is_late=is_late,
            report=report,
            observation=observation,
        )

    def knows(self, permit: Permit) -> bool:
        """Forward to the limiter."""
        return self._inner.knows(permit)

    def spend(self, permit: Permit, amount: float, *, lease_s: float = 0) -> bool:
        """Forward to the limiter."""
        return self._inner.spend(permit, amount, lease_s=lease_s)

    def extend(self, permit: Permit, amount: float) -> bool:
        """Forward to the limiter."""
        return self._inner.extend(permit, amount)

    def limit_of(self, key: str) -> float:
        """Return the limit of a key's quota."""
        return self._inner.limit_of(key)

    def left_of(self, key: str) -> float:
        """Return what is not used of a key's quota."""
        return self._inner.left_of(key)

    def observe(self, key: str, observation: Observation, *, permit: Permit | None = None) -> None:
        """Forward to the limiter."""
        self._inner.observe(key, observation, permit=permit)

    def pause(self, key: str, seconds: float, reason: str) -> None:
        """Forward to the limiter."""
        self._inner.pause(key, seconds, reason)

    def _begin(self, permit: Permit) -> None:
        now, now_s = self._clock.now(), self._clock.monotonic()
        # Another worker may have reserved it: then the permit's own times are used.
        waited_s = (now - permit.start_at).total_seconds() + permit.wait_s
        if self._reserved is not None and self._reserved[0] == permit.id:
            waited_s = now_s - self._reserved[1]
        self._begun = _Begun(id=permit.id, at=now, at_s=now_s, waited_s=max(0.0, waited_s))
        self._watch.begun(permit.id, self.seller)

    def _end(self, permit: Permit, report: CallReport) -> None:
        """Report the call; a permit that never began (a share of a platform's day) is none."""
        begun = self._begun
        if begun is None or begun.id != permit.id:
            return
        self._begun = None
        self._watch.ended(
            CallRecord(
                id=permit.id,
                verb=self._verb,
                provider=permit.keys[0].partition(":")[0],
                seller=self.seller,
                begun_at=begun.at,
                waited_s=begun.waited_s,
                took_s=self._clock.monotonic() - begun.at_s,
                ended=report.ended,
                http_status=report.http_status,
                seats_used=len(report.skus),
                seats_paid=report.seats_paid or 0,
            )
        )
