"""Tick: housekeeping. Any number of ticks may run at once."""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from headway.clock import Clock
from headway.core.catalog.listings import CLOCKS_APART_MAX, SupplierName, Wait
from headway.core.timetable.deadline import must, safe_min
from headway.core.timetable.policies.policy import Policy
from headway.engine.ports import (
    HousekeepingPort,
    JobsPort,
    MarketsPort,
    NoticesPort,
    PausesPort,
    SchedulePort,
    SellersPort,
    TimetablePort,
)
from headway.engine.ports_limits import Ledger
from headway.engine.rules import TICK_EVERY
from headway.engine.step_runner import StepRunner

HOURLY = timedelta(hours=1)
DEAD_JOBS_EVERY = timedelta(minutes=5)
MINUTE = timedelta(minutes=1)
REFIT_EVERY = timedelta(hours=24)
# How often the deadline guard runs and the parts are counted if no deadline is near: a catalog
# may grow.
GUARD_EVERY_MAX = timedelta(minutes=10)
# The number of supplier queues handled in one round: a round must not outlast the lease of its
# holder.
SUPPLIERS_MAX = 200


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
        new: Callable[[SupplierName], SupplierTick],
    ) -> None:
        self._names = names
        self._new = new
        self._ticks: dict[SupplierName, SupplierTick] = {}
        self._due: list[tuple[datetime, SupplierName]] = []

    def step(self, now: datetime, runner: StepRunner) -> bool:
        """Do the housekeeping of suppliers that are due, up to a limit; return True if more are."""
        names = set(self._names())
        for name in names:
            if name not in self._ticks:
                self._ticks[name] = self._new(name)
                heapq.heappush(self._due, (now, name))
        for _ in range(SUPPLIERS_MAX):
            if not self._due or self._due[0][0] > now:
                return False
            name = self._due[0][1]
            if name in names:
                due_at = runner.run(f"supplier {name}", self._ticks[name].step, now)
                heapq.heapreplace(self._due, (due_at, name))
            else:
                heapq.heappop(self._due)
                del self._ticks[name]
        return bool(self._due) and self._due[0][0] <= now


# How soon the next round is where there is more to do than one round does.
SOON = timedelta(seconds=1)


class Tick:
    """Return expired leases to the queue under a new fence, and do the other periodic work.

    Each round checks alerts with `watch`, measures freshness with `sample` (both return when they
    are next due), applies pauses, does the housekeeping of every supplier, and lets `erase` delete
    what somebody asked to erase; it returns True if more is left. Once an hour `expire` does the
    same with records that are too old, the
    history gets its next month, and each of `memories` deletes what is older than its retention.
    Each of these is a step by itself: one that fails is run again later and stops no other.
    `rescues` is called with the number of leases rescued.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        schedule: SchedulePort,
        sellers: SellersPort,
        suppliers: SupplierTicks,
        jobs: JobsPort,
        pauses: PausesPort,
        notices: NoticesPort,
        housekeeping: HousekeepingPort,
        sample: Callable[[datetime], datetime] | None = None,
        watch: Callable[[datetime], datetime] | None = None,
        erase: Callable[[datetime], bool] = lambda _: False,
        expire: Callable[[datetime], bool] = lambda _: False,
        memories: Mapping[str, tuple[Ledger, timedelta]],
        history: Callable[[datetime], object],
        every: timedelta = TICK_EVERY,
        rescues: Callable[[str, int], None] = lambda _what, _count: None,
    ) -> None:
        self._clock = clock
        self._schedule = schedule
        self._jobs = jobs
        self._suppliers = suppliers
        self._pauses = pauses
        self._every = every
        self._rescues = rescues
        self._erase, self._expire = erase, expire
        self._runner = StepRunner(housekeeping)
        self._has_more = False
        self.rescued = 0
        steps: dict[str, Callable[[datetime], datetime] | None] = {
            "alerts": watch,  # first: whatever else fails, somebody learns of it
            "freshness samples": sample,
            "leases of listings": self._rescue_listings,
            "leases of jobs": self._rescue_jobs,
            "dead jobs": self._revive_jobs,
            "external writes": self._follow_writes,
            "pauses": self._apply_pauses,
            "erasures": self._apply_erasures,
            "old records": self._expire_records,
            "catalog sizes": _hourly(sellers.count_catalogs),
            "token warnings": _hourly(notices.warn_of_tokens),
            "job intervals": _hourly(jobs.relax),
            "history months": _hourly(history),
        }
        for name, (memory, retention) in memories.items():
            steps[f"old {name}"] = _hourly(_forgetting(memory, retention))
        self._steps = {name: step for name, step in steps.items() if step is not None}
        self._due = dict.fromkeys(self._steps, clock.now())

    def step(self) -> Wait:
        """Do one round; return when the next is due."""
        now, self._has_more = self._clock.now(), False
        for name, step in self._steps.items():
            if now >= self._due[name]:
                self._due[name] = self._runner.run(name, step, now)
        self._runner.run("suppliers", self._step_suppliers, now)
        self._runner.finish_round(now)
        every = min(SOON, self._every) if self._has_more else self._every
        return Wait(until=now + every, why="next round")

    def _rescue_listings(self, now: datetime) -> datetime:
        self._note_rescued("listing", self._schedule.rescue(now - CLOCKS_APART_MAX))
        return now

    def _rescue_jobs(self, now: datetime) -> datetime:
        self._note_rescued("job", self._jobs.rescue(now - CLOCKS_APART_MAX))
        return now

    def _revive_jobs(self, now: datetime) -> datetime:
        self._jobs.revive_due(now)
        return now + DEAD_JOBS_EVERY

    def _follow_writes(self, now: datetime) -> datetime:
        self._has_more |= self._jobs.follow(now) > 0
        return now

    def _apply_pauses(self, now: datetime) -> datetime:
        self._has_more |= self._pauses.reconcile(now) > 0
        return now

    def _apply_erasures(self, now: datetime) -> datetime:
        self._has_more |= self._erase(now)
        return now

    def _expire_records(self, now: datetime) -> datetime:
        has_more = self._expire(now)
        self._has_more |= has_more
        return now if has_more else now + HOURLY

    def _step_suppliers(self, now: datetime) -> datetime:
        self._has_more |= self._suppliers.step(now, self._runner)
        return now

    def _note_rescued(self, what: str, count: int) -> None:
        self.rescued += count
        self._rescues(what, count)


def _hourly(work: Callable[[datetime], object]) -> Callable[[datetime], datetime]:
    """Return a step that does this work once an hour."""

    def step(now: datetime) -> datetime:
        work(now)
        return now + HOURLY

    return step


def _forgetting(memory: Ledger, retention: timedelta) -> Callable[[datetime], object]:
    return lambda now: memory.forget(now - retention)
