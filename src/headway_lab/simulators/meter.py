"""How a simulated provider counts calls and when it refuses one: four ways found in practice.

It is independent of our limiter. A window is half-open: at second t it holds the arrivals after t -
span. The log that measures us is the same strict one whatever the provider enforces.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal, Protocol

Semantics = Literal["log", "fixed", "bucket", "leaky"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The decision on a call: refused for `wait_s`, or served after `delay_s`."""

    is_refused: bool = False
    wait_s: float = 0.0
    delay_s: float = 0.0


class CallGate(Protocol):
    """A provider's rule."""

    def admit(self, at_s: float) -> Admission:
        """Decide on the call that arrives now; arrivals come in order."""


class ArrivalLog:
    """Every arrival of the last span, admitted or not, and the most there ever were."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._arrivals: deque[float] = deque()
        self.calls_max = 0

    def add(self, at_s: float) -> int:
        """Note an arrival and return how many the window now holds."""
        self._arrivals.append(at_s)
        while self._arrivals[0] <= at_s - self._span_s:
            self._arrivals.popleft()
        self.calls_max = max(self.calls_max, len(self._arrivals))
        return len(self._arrivals)

    def back(self, count: int) -> float:
        """Return when the call arrived that was `count` calls ago, the latest being 1."""
        return self._arrivals[-count]


class LogGate:
    """A strict sliding window; refused calls stay in it, so hammering never helps."""

    def __init__(self, limit: int, span_s: float) -> None:
        self._limit = limit
        self._span_s = span_s
        self._log = ArrivalLog(span_s)

    def admit(self, at_s: float) -> Admission:
        """Refuse what the window cannot hold."""
        if self._log.add(at_s) <= self._limit:
            return Admission()
        wait_s = self._log.back(self._limit) + self._span_s - at_s
        return Admission(is_refused=True, wait_s=min(wait_s, self._span_s))


class FixedGate:
    """Windows that begin on the minute; twice the limit fits around an edge."""

    def __init__(self, limit: int, span_s: float) -> None:
        self._limit = limit
        self._span_s = span_s
        self._window = -1
        self._count = 0

    def admit(self, at_s: float) -> Admission:
        """Refuse until the window ends."""
        window = math.floor(at_s / self._span_s)
        self._count = self._count + 1 if window == self._window else 1
        self._window = window
        if self._count <= self._limit:
            return Admission()
        return Admission(is_refused=True, wait_s=(window + 1) * self._span_s - at_s)


class BucketGate:
    """A bucket of `limit` drops, refilled evenly; a refused call spills what had gathered."""

    def __init__(self, limit: int, span_s: float) -> None:
        self._limit = limit
        self._drop_s = span_s / limit
        self._level = float(limit)
        self._at_s = 0.0

    def admit(self, at_s: float) -> Admission:
        """Refuse while there is no whole drop."""
        gathered = (at_s - self._at_s) / self._drop_s
        self._level = min(float(self._limit), self._level + gathered)
        self._at_s = at_s
        if self._level >= 1:
            self._level -= 1
            return Admission()
        self._level = 0.0
        return Admission(is_refused=True, wait_s=self._drop_s)


class LeakyGate:
    """A queue of `limit` calls served at an even pace: the early wait, the many are refused."""

    def __init__(self, limit: int, span_s: float) -> None:
        self._pace_s = span_s / limit
        self._room_s = (limit - 1) * self._pace_s
        self._free_at_s = -math.inf

    def admit(self, at_s: float) -> Admission:
        """Queue the call, or refuse it when the queue is full."""
        delay_s = max(0.0, self._free_at_s - at_s)
        if delay_s > self._room_s:
            return Admission(is_refused=True, wait_s=delay_s - self._room_s)
        self._free_at_s = at_s + delay_s + self._pace_s
        return Admission(delay_s=delay_s)


def make_gate(semantics: Semantics, limit: int, span_s: float) -> CallGate:
    """Make the gate of that name."""
    gates: dict[Semantics, type[LogGate | FixedGate | BucketGate | LeakyGate]] = {
        "log": LogGate,
        "fixed": FixedGate,
        "bucket": BucketGate,
        "leaky": LeakyGate,
    }
    return gates[semantics](limit, span_s)
