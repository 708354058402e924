"""Law L4 under `split`: retries never change the scheduled calls of an hour.

The numbers are the document's, not taken from the policy under test.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from headway.clock import Clock
from headway.core.catalog.listings import Listing, Priority
from headway_lab.simulation.deadlines import HOUR_S, Promise
from headway_lab.simulation.violation_log import ViolationLog

HOURS = 24
SEATS = 10
# (least number of listings, hours between windows, retries per window).
WINDOWS = ((20_000, 2, 150), (10_000, 4, 100), (0, 4, 50))
FIRST_OPENING = timedelta(hours=2, minutes=30)
# Calls that are repeated in an hour borrow from the next one. What they read early is due a day
# later at its deadline, up to 20 minutes before its slot: in that hour of the next day, not in the
# one after it.
ECHO_HOURS = (0, 1, HOURS, HOURS + 1)


class Isolation:
    """Counts retries by window and scheduled calls by hour."""

    def __init__(
        self, *, violations: ViolationLog, clock: Clock, listings: int, promise: Promise
    ) -> None:
        self._violations = violations
        self._clock = clock
        self._promise = promise
        every_h, self._cap = next(rest for size, *rest in WINDOWS if listings >= size)
        self._every = timedelta(hours=every_h)
        self._start = clock.now()
        self._retried: dict[int, set[str]] = defaultdict(set)
        self._calls: Counter[int] = Counter()
        self._failing_by_hour: dict[int, int] = {}
        self._disturbed: set[int] = set()
        violations.enable(("L4",))

    def claimed(
        self, listings: Sequence[Listing], *, now: datetime, failing_count: Callable[[], int]
    ) -> None:
        """Count the retries and the scheduled call of a claim, by the worker's clock."""
        due = [listing for listing in listings if listing.next_sync_at <= now]
        scheduled = {listing.sku for listing in due if listing.priority is Priority.SCHEDULED}
        # A sibling that shares the seat of a scheduled listing displaces none.
        retried = {
            listing.sku for listing in listings if listing.priority is Priority.RETRY
        } - scheduled
        window = (now - self._start - FIRST_OPENING) // self._every
        before = len(self._retried[window])
        self._retried[window] |= retried
        if max(before, self._cap) < len(self._retried[window]):
            self._violations.add(
                "L4", f"{len(self._retried[window])} retries in a window of {self._cap}"
            )
        hour = self._hour()
        if hour not in self._failing_by_hour:
            self._failing_by_hour[hour] = failing_count()
        if scheduled:
            self._calls[hour] += 1

    def disturbed(self) -> None:
        """Note that listings were released or rescued: their calls are repeated in this hour."""
        self._disturbed.add(self._hour())

    def close(self, *, end_s: float) -> None:
        """Compare the hours of each day, now that all of them are over."""
        days: dict[int, list[int]] = defaultdict(list)
        for hour in range(int(end_s // HOUR_S)):
            if not self._has_excuse(hour):
                days[hour // HOURS].append(hour)
        for day, hours in days.items():
            calls = [self._calls[hour] for hour in hours]
            # A failing listing waits for a window, so its hour has a seat less.
            failing_count = max(self._failing_by_hour.get(hour, 0) for hour in hours)
            if max(calls) - min(calls) > 1 + math.ceil(failing_count / SEATS):
                listed = " ".join(map(str, calls))
                self._violations.add("L4", f"scheduled calls of the hours of day {day}: {listed}")

    def _has_excuse(self, hour: int) -> bool:
        """Return True if calls were repeated, now or a day ago, or this hour follows an outage."""
        if not self._disturbed.isdisjoint(hour - echo for echo in ECHO_HOURS):
            return True
        return self._promise.excused_until(0.0, (hour + 1) * HOUR_S) > hour * HOUR_S

    def _hour(self) -> int:
        return int(self._clock.monotonic() // HOUR_S)
