"""Metrics, traces and log context of the calls of one process."""

from datetime import datetime
from typing import TYPE_CHECKING

from headway.core.catalog.listings import SellerId
from headway.core.monitoring.calls import ANSWERED, UNUSED, CallRecord
from headway.observe.logs import forget_call, name_call, name_failure
from headway.observe.metrics import UNKNOWN, Metrics

if TYPE_CHECKING:
    from headway.observe.traces import Traces


class ProcessMetrics:
    """Counts calls, API requests and rescued leases."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        # A process that stays and is to be traced sets this when it starts.
        self.traces: Traces | None = None

    def begun(self, call_id: str, seller: SellerId | None) -> None:
        """Name the call in what this thread logs."""
        name_call(call_id, seller)

    def ended(self, call: CallRecord) -> None:
        """Count and trace a call; one that was not made is not named any more."""
        self.metrics.count_call(call)
        if call.ended == UNUSED:
            forget_call()
            return
        if call.ended != ANSWERED:
            name_failure(call.ended)
        if self.traces is not None:
            self.traces.call(call)

    def answered(
        self, route: str | None, method: str, status: int, *, began_at: datetime, took_s: float
    ) -> None:
        """Count and trace a request to the API."""
        self.metrics.count_request(route, method, status)
        if self.traces is not None:
            self.traces.request(route or UNKNOWN, method, status, began_at=began_at, took_s=took_s)

    def rescued(self, what: str, count: int) -> None:
        """Count leases that ran out."""
        self.metrics.count_rescued(what, count)
