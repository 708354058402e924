"""The watch of one process: whatever it did itself is counted, traced, and named in its logs."""

from dataclasses import dataclass, field

from headway.core.calls import UNUSED, Call
from headway.core.model import SellerId
from headway.observe.logs import forget_call, name_call
from headway.observe.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessWatch:
    """Hears of every call, and of what a tick rescued."""

    metrics: Metrics = field(default_factory=Metrics)

    def begun(self, call_id: str, seller: SellerId | None) -> None:
        """Name the call in what this thread logs."""
        name_call(call_id, seller)

    def ended(self, call: Call) -> None:
        """Count a call; one that was not made is not named any more."""
        if call.ended == UNUSED:
            forget_call()
        self.metrics.count_call(call)

    def rescued(self, what: str, count: int) -> None:
        """Count leases that ran out."""
        self.metrics.count_rescued(what, count)
