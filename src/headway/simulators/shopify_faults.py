"""What goes wrong at a simulated shop, and when: shares of calls, and outages.

Seconds count from the simulator's start. The same seed and the same calls give the same faults.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from headway.clock import rng
from headway.errors import ConfigError
from headway.simulators.faults import Interval


class ShopFault(StrEnum):
    """A way in which one call goes wrong; the last three happen in outages only."""

    LOST_REPLY = "lost-reply"  # applied, but the answer never comes
    LOST_REQUEST = "lost-request"  # gone before it was applied
    ERROR = "error"  # 502 before it was applied
    SLOW = "slow"
    THROTTLE = "throttle"  # someone else of our app has just emptied the bucket
    HTML = "html"  # a page instead of the answer, applied or not
    DOWN = "down"
    REFUSED = "refused"
    SILENT = "silent"


OUTAGE_FORMS = (ShopFault.DOWN, ShopFault.REFUSED, ShopFault.SILENT)
RATED = tuple(fault for fault in ShopFault if fault not in OUTAGE_FORMS)


class ShopFaultPlan:
    """All that will go wrong; `injected` counts what did, by kind."""

    def __init__(
        self,
        seed: int = 0,
        *,
        rates: Mapping[str, float] | None = None,
        outage: Sequence[Interval] = (),
        slow_s: tuple[float, float] = (5.0, 25.0),
    ) -> None:
        self._rates = _checked(rates or {})
        self._outages = tuple(outage)
        self._slow_s = slow_s
        self._generator = rng(f"shop faults {seed}")
        self._outage_calls = 0
        self.injected: Counter[str] = Counter()

    def outages(self) -> tuple[Interval, ...]:
        """Return when the shop is down, so that a judge may excuse it."""
        return self._outages

    def call_fault(self, at_s: float) -> ShopFault | None:
        """Decide how the call that arrives now goes wrong, if it does, and count it."""
        fault = self._draw(at_s)
        if fault is not None:
            self.injected[fault] += 1
        return fault

    def slowness_s(self) -> float:
        """Draw how long a slow answer takes."""
        return self._generator.uniform(*self._slow_s)

    def chance(self) -> bool:
        """Toss a coin."""
        return self._generator.random() < 0.5  # noqa: PLR2004 - a fair one

    def _draw(self, at_s: float) -> ShopFault | None:
        if any(interval.holds(at_s) for interval in self._outages):
            self._outage_calls += 1
            return OUTAGE_FORMS[self._outage_calls % len(OUTAGE_FORMS)]
        if not self._rates:
            return None
        draw = self._generator.random()
        for fault, rate in self._rates.items():
            draw -= rate
            if draw < 0:
                return fault
        return None


def _checked(rates: Mapping[str, float]) -> dict[ShopFault, float]:
    if unknown := sorted(set(rates) - set(RATED)):
        raise ConfigError(f"unknown shop fault {unknown[0]}; known are {', '.join(RATED)}")
    if any(rate < 0 for rate in rates.values()) or sum(rates.values()) > 1:
        raise ConfigError("fault rates are shares of all calls; keep their sum between 0 and 1")
    return {fault: rates[fault] for fault in RATED if rates.get(fault)}
