"""Law L3: how old each listing's last good read is, and whether an overdue one has an excuse.

An excuse is a supplier that was down and then the time to catch up, or evidence against the SKU
itself. The loss of a worker, crashed or frozen, is no excuse. If the worker that claims the same
listing next is lost too, the promise is later by the time it takes to notice that.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headway_lab.simulators.faults import Interval

HOUR_S = 3600.0
# The lease, the difference between clocks that a rescue allows for, a tick and the next permit.
LOSS_S = 90.0 + 180.0 + 60.0 + 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The promised age, and what suspends it."""

    age_max_s: float
    load: float
    outages: Sequence[Interval] = ()

    def excused_until(self, read_s: float, now_s: float) -> float:
        """Return until when an outage since the last read excuses a listing; 0 if none does."""
        until_s = 0.0
        for outage in self.outages:
            if outage.start_s < now_s and outage.end_s > read_s:
                length_s = outage.end_s - outage.start_s
                backlog_s = length_s * self.load / (1 - self.load)
                until_s = max(until_s, outage.end_s + backlog_s + HOUR_S)
        return until_s


class Deadlines:
    """Every listing's deadline, nearest first."""

    def __init__(self, ids: Iterable[str], promise: Promise) -> None:
        self._promise = promise
        self._read_s = dict.fromkeys(ids, 0.0)
        self._heap = [(promise.age_max_s, id_, 0.0) for id_ in self._read_s]
        heapq.heapify(self._heap)
        self._claims: Counter[str] = Counter()
        self.worst_age_s = 0.0

    def age_s(self, id_: str, now_s: float) -> float:
        """Return how old the last good read is; before the first, how long it is awaited."""
        return now_s - self._read_s[id_]

    def claimed(self, ids: Iterable[str]) -> None:
        """Record that a worker claimed these listings."""
        self._claims.update(ids)

    def released(self, ids: Iterable[str]) -> None:
        """Record that the worker gave these listings back: it is not lost."""
        self._claims.subtract(ids)

    def read(self, id_: str, at_s: float, *, counts: bool = True) -> None:
        """Record a good read of the supplier's data at that second."""
        if at_s < self._read_s[id_]:
            return
        self._claims[id_] = 0
        if counts:
            self.worst_age_s = max(self.worst_age_s, at_s - self._read_s[id_])
        self._read_s[id_] = at_s
        heapq.heappush(self._heap, (at_s + self._promise.age_max_s, id_, at_s))

    def overdue(self, now_s: float, has_evidence: Callable[[str], bool]) -> Iterable[str]:
        """Yield, once each, the listings that are too old and have no excuse."""
        while self._heap and self._heap[0][0] < now_s:
            _, id_, read_s = heapq.heappop(self._heap)
            if self._read_s[id_] != read_s:
                continue  # it was read since
            losses = max(0, self._claims[id_] - 1)
            excused_s = read_s + self._promise.age_max_s + losses * LOSS_S
            excused_s = max(excused_s, self._promise.excused_until(read_s, now_s))
            if has_evidence(id_):
                excused_s = max(excused_s, now_s + HOUR_S)
            if excused_s > now_s:
                heapq.heappush(self._heap, (excused_s, id_, read_s))
            else:
                yield id_

    def close(self, now_s: float, counted: Iterable[str]) -> None:
        """Count the ages at the end of the run too."""
        ages_s = [self.age_s(id_, now_s) for id_ in counted]
        self.worst_age_s = max([self.worst_age_s, *ages_s])
