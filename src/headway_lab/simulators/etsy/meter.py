"""How a simulated Etsy counts the calls of an app: ten a second, then a quota for any 24 hours.

The second is checked first, and a call that it refuses is not counted for the day. The log that
checks us counts every arrival.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

from headway_lab.simulators.meter import ArrivalLog

DAY_S = 86_400.0


@dataclass(slots=True, kw_only=True)
class EtsyCallLog:
    """The arrivals by endpoint, the refusals by limit, and the most in any window."""

    calls: int = 0
    endpoints: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    day: ArrivalLog = field(default_factory=lambda: ArrivalLog(DAY_S))
    second: ArrivalLog = field(default_factory=lambda: ArrivalLog(1.0))

    @property
    def calls_max_day(self) -> int:
        """The largest number of calls in any rolling 24 hours."""
        return self.day.calls_max

    @property
    def calls_max_second(self) -> int:
        """The largest number of calls in any second."""
        return self.second.calls_max

    def arrive(self, endpoint: str, at_s: float) -> None:
        """Note a call, whatever becomes of it."""
        self.calls += 1
        self.endpoints[endpoint] += 1
        self.day.add(at_s)
        self.second.add(at_s)


class EtsyMeter:
    """The two limits of an app."""

    def __init__(self, *, per_second: int, per_day: int) -> None:
        self.per_second = per_second
        self.per_day = per_day
        self._second: deque[float] = deque()
        self._day: deque[float] = deque()

    def admit(self, at_s: float) -> Literal["second", "day"] | None:
        """Admit a call, or return which limit refuses it."""
        self._forget(at_s)
        if len(self._second) >= self.per_second:
            return "second"
        self._second.append(at_s)
        if len(self._day) >= self.per_day:
            return "day"
        self._day.append(at_s)
        return None

    def spend(self, count: int, at_s: float) -> None:
        """Use that many calls of the day for others of the same app."""
        self._day.extend([at_s] * count)

    def headers(self, at_s: float) -> dict[str, str]:
        """Return the limit headers of every reply."""
        self._forget(at_s)
        return {
            "x-limit-per-second": str(self.per_second),
            "x-remaining-this-second": str(max(0, self.per_second - len(self._second))),
            "x-limit-per-day": str(self.per_day),
            "x-remaining-today": str(max(0, self.per_day - len(self._day))),
        }

    def _forget(self, at_s: float) -> None:
        for log, span_s in ((self._second, 1.0), (self._day, DAY_S)):
            while log and log[0] <= at_s - span_s:
                log.popleft()
