"""The watch of one process: whatever it did itself is counted, traced, and named in its logs."""

from dataclasses import dataclass, field

from headway.core.calls import Call
from headway.core.model import SellerId
from headway.observe.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessWatch:
    """Hears of every call, and of what a tick rescued."""

    metrics: Metrics = field(default_factory=Metrics)

    def begun(self, call_id: str, seller: SellerId | None) -> None:
        """Hear that a permit was begun."""

    def ended(self, call: Call) -> None:
        """Count a call."""
        self.metrics.count_call(call)

    def rescued(self, what: str, count: int) -> None:
        """Count leases that ran out."""
        self.metrics.count_rescued(what, count)
