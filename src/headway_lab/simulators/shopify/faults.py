"""Faults of a simulated shop: shares of calls, and outages.

Seconds count from the simulator's start. The same seed and the same calls give the same faults.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from headway.clock import rng
from headway_lab.simulators.faults import CallFaults, Interval, checked_rates


class ShopFault(StrEnum):
    """A fault of one call; the last three happen in outages only."""

    LOST_REPLY = "lost-reply"  # applied, but the reply never comes
    LOST_REQUEST = "lost-request"  # lost before it was applied
    ERROR = "error"  # 502 before it was applied
    SLOW = "slow"
    THROTTLE = "throttle"  # someone else of our app has just emptied the bucket
    HTML = "html"  # a page instead of the answer, applied or not
    DOWN = "down"
    REFUSED = "refused"
    SILENT = "silent"


OUTAGE_FORMS = (ShopFault.DOWN, ShopFault.REFUSED, ShopFault.SILENT)
RATED = tuple(fault for fault in ShopFault if fault not in OUTAGE_FORMS)


class ShopFaultPlan(CallFaults[ShopFault]):
    """All that will go wrong; `injected` counts what did, by kind."""

    def __init__(
        self,
        seed: int = 0,
        *,
        rates: Mapping[str, float] | None = None,
        outage: Sequence[Interval] = (),
        slow_s: tuple[float, float] = (5.0, 25.0),
    ) -> None:
        super().__init__(
            rng(f"shop faults {seed}"),
            rates=checked_rates(rates or {}, RATED, "shop fault"),
            forms=OUTAGE_FORMS,
            outage=outage,
            slow_s=slow_s,
        )

    def call_fault(self, at_s: float) -> ShopFault | None:
        """Draw the fault of the call that arrives now, if any, and count it."""
        fault = super().call_fault(at_s)
        if fault is not None:
            self.injected[fault] += 1
        return fault
