"""The laws as pure checks over stored records, independent of the code that wrote them."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core.limits.rules import Window
from headway.core.limits.state import LedgerCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A call that may have been one too many when it arrived."""

    permit_id: str
    begun_at: datetime
    load: float
    limit: float


def replay_windows(calls: Iterable[LedgerCall], window: Window) -> list[Breach]:
    """Return the calls of one key that began while the window may still have been full (L1).

    A call arrived somewhere between its begin and `arrived_by`, which is open while it is in
    flight. If some span holds too many arrivals, then the last of them to begin did so at or
    before another's `arrived_by` + span; so it is enough to check at every begin.
    """
    span = timedelta(seconds=window.span_s)
    sent = [call for call in calls if call.status != "unsent"]
    sent.sort(key=lambda call: (call.begun_at, call.permit_id))
    breaches: list[Breach] = []
    inside: list[tuple[datetime, float]] = []
    in_flight = load = 0.0
    for call in sent:
        while inside and inside[0][0] + span < call.begun_at:
            load -= heapq.heappop(inside)[1]
        held = load + in_flight + call.cost
        if held > window.limit:
            breaches.append(
                Breach(
                    permit_id=call.permit_id,
                    begun_at=call.begun_at,
                    load=held,
                    limit=window.limit,
                )
            )
        arrived_by = _arrived_by(call, window)
        if arrived_by is None:
            in_flight += call.cost
        else:
            load += call.cost
            heapq.heappush(inside, (arrived_by, call.cost))
    return breaches


def _arrived_by(call: LedgerCall, window: Window) -> datetime | None:
    capped = call.begun_at + timedelta(seconds=window.jitter_s)
    if window.anchor == "start":
        return capped
    if window.anchor == "cap":
        return min(call.arrived_by or capped, capped)
    return call.arrived_by
