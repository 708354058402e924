"""Housekeeping per supplier: the deadline guard, retry windows, and the market."""

import heapq
import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from headway.core.catalog.listings import SupplierName
from headway.core.timetable.deadline import must, safe_min
from headway.core.timetable.policies.policy import Policy
from headway.engine.ports import MarketsPort, SchedulePort, TimetablePort

HOURLY = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
REFIT_EVERY = timedelta(hours=24)
# How often the deadline guard runs and the parts are counted if no deadline is near: a catalog
# may grow.
GUARD_EVERY_MAX = timedelta(minutes=10)
# The number of supplier queues handled in one round: a round must not outlast the lease of its
# holder.
LINES_MAX = 200


class SupplierTick:
    """The periodic work for one supplier.

    It guards the deadline of a policy that has a market, counts and learns for it, and opens the
    windows of a policy that has them.
    """

    def __init__(
        self,
        *,
        schedule: SchedulePort,
        markets: MarketsPort,
        timetable: TimetablePort,
        policy: Policy,
        every: timedelta,
        now: datetime,
    ) -> None:
        self._schedule = schedule
        self._markets = markets
        self._timetable = timetable
        self._policy = policy
        self._every = every
        self._count_at = self._refit_at = self._guard_at = self._window_at = now

    def step(self, now: datetime) -> datetime:
        """Do what is due, and return when more is."""
        if now >= self._window_at:
            self._window_at = self._open_window(now)
        if not self._policy.is_eager:
            return self._window_at
        if now >= self._count_at:
            self._markets.count(now)
            self._count_at = now + GUARD_EVERY_MAX
        if now >= self._refit_at:
            self._refit(now)
            self._refit_at = now + HOURLY
        if now >= self._guard_at:
            self._guard_at = now + self._guard(now)
        return min(self._window_at, self._count_at, self._refit_at, self._guard_at)

    def _refit(self, now: datetime) -> None:
        market = self._markets.load((), now)
        if market.fitted_at is None or now - market.fitted_at >= REFIT_EVERY:
            self._markets.refit(market, now)

    def _guard(self, now: datetime) -> timedelta:
        """Move listings that would miss the deadline to the front; return when to check again."""
        oldest_at = self._markets.oldest()
        if oldest_at is None:
            return GUARD_EVERY_MAX
        market = self._markets.load((), now)
        age_min, pace = (now - oldest_at) / MINUTE, market.seats_per_min
        safe = safe_min(market.listings, age_min, pace) * MINUTE
        if safe > timedelta(0):
            return min(safe, GUARD_EVERY_MAX)
        seats = math.ceil(pace * (self._every / MINUTE))
        count = must(self._markets.ages_min(now), seats_per_min=pace, seats=seats)
        if count:
            self._markets.hurry(count, now)
        return self._every

    def _open_window(self, now: datetime) -> datetime:
        """Open a window, first with the retries that earlier ones left; return when it ends."""
        window = self._policy.retry_window(now, self._schedule.listed())
        if window is None:
            return now + HOURLY
        self._timetable.roll_retries(now, window.opens_at)
        return window.closes_at


class SupplierTicks:
    """The housekeeping of all suppliers, the longest due first."""

    def __init__(
        self,
        *,
        names: Callable[[], Sequence[SupplierName]],
        new_line: Callable[[SupplierName], SupplierTick],
    ) -> None:
        self._names = names
        self._new_line = new_line
        self._lines: dict[SupplierName, SupplierTick] = {}
        self._due: list[tuple[datetime, SupplierName]] = []

    def step(self, now: datetime) -> bool:
        """Do the housekeeping of suppliers that are due, up to a limit; return True if more are."""
        names = self._names()
        for name in names:
            if name not in self._lines:
                self._lines[name] = self._new_line(name)
                heapq.heappush(self._due, (now, name))
        for _ in range(LINES_MAX):
            if not self._due or self._due[0][0] > now:
                return False
            _, name = heapq.heappop(self._due)
            if name in names:
                heapq.heappush(self._due, (self._lines[name].step(now), name))
            else:
                del self._lines[name]
        return bool(self._due) and self._due[0][0] <= now
