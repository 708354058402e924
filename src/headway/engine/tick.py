"""Tick: the housekeeping that keeps the line honest. Any number of ticks at once are harmless."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from headway.clock import Clock
from headway.core.deadline import must, safe_min
from headway.core.model import CLOCKS_APART_MAX, Wait
from headway.core.policies.policy import Policy
from headway.engine.ports import Jobs, Markets, Notices, Pauses, Schedule, Sellers, Timetable
from headway.engine.ports_limits import Ledger

EVERY = timedelta(seconds=30)
# How soon the next round is where a pause left more to mark than one round does.
SOON = timedelta(seconds=1)
HOURLY = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
REFIT_EVERY = timedelta(hours=24)
# How soon the guard of the deadline looks again though all is well, and the parts are counted: a
# catalogue may grow.
GUARD_EVERY_MAX = timedelta(minutes=10)


class Tick:
    """Rescue on silence: leases that ran out go back to the queue under a new fence.

    It marks what a person has paused, and unmarks what goes on. It guards the deadline of a policy
    that has a market, and opens the windows of one that has them. It lets a sample be taken of how
    fresh the listings are, and what is wrong be judged, each of which says when it is next due.
    Once an hour the history gets its next month, each memory forgets what is older than its
    retention, and all is counted. It `rescues` leases, and tells how many.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        schedule: Schedule,
        sellers: Sellers,
        markets: Markets,
        timetable: Timetable,
        jobs: Jobs,
        pauses: Pauses,
        notices: Notices,
        sample: Callable[[datetime], datetime] | None = None,
        watch: Callable[[datetime], datetime] | None = None,
        policy: Policy,
        memories: Sequence[tuple[Ledger, timedelta]],
        history: Callable[[datetime], object],
        every: timedelta = EVERY,
        rescues: Callable[[str, int], None] = lambda _what, _count: None,
    ) -> None:
        self._clock = clock
        self._schedule = schedule
        self._sellers = sellers
        self._markets = markets
        self._timetable = timetable
        self._jobs = jobs
        self._pauses = pauses
        self._notices = notices
        self._sample = sample
        self._watch = watch
        self._policy = policy
        self._memories = memories
        self._history = history
        self._every = every
        self._rescues = rescues
        self._hourly_at = self._count_at = self._guard_at = self._window_at = clock.now()
        self._sample_at = self._watch_at = clock.now()
        self.rescued = 0

    def step(self) -> Wait:
        """Do one round, and say when the next is due."""
        now = self._clock.now()
        self._note_rescued("listing", self._schedule.rescue(now - CLOCKS_APART_MAX))
        self._note_rescued("job", self._jobs.rescue(now - CLOCKS_APART_MAX))
        has_marked = self._pauses.reconcile(now) > 0
        if self._policy.is_eager and now >= self._count_at:
            self._markets.count(now)
            self._count_at = now + GUARD_EVERY_MAX
        if now >= self._hourly_at:
            self._hourly(now)
            self._hourly_at = now + HOURLY
        if self._policy.is_eager and now >= self._guard_at:
            self._guard_at = now + self._guard(now)
        if now >= self._window_at:
            self._window_at = self._open_window(now)
        if self._sample is not None and now >= self._sample_at:
            self._sample_at = self._sample(now)
        if self._watch is not None and now >= self._watch_at:
            self._watch_at = self._watch(now)
        every = min(SOON, self._every) if has_marked else self._every
        return Wait(until=now + every, why="next round")

    def _note_rescued(self, what: str, count: int) -> None:
        self.rescued += count
        self._rescues(what, count)

    def _hourly(self, now: datetime) -> None:
        self._sellers.count_catalogues(now)
        self._notices.warn_of_tokens(now)
        self._jobs.relax(now)
        self._history(now)
        for memory, retention in self._memories:
            memory.forget(now - retention)
        if not self._policy.is_eager:
            return
        market = self._markets.load((), now)
        if market.fitted_at is None or now - market.fitted_at >= REFIT_EVERY:
            self._markets.refit(market, now)

    def _guard(self, now: datetime) -> timedelta:
        """Let those board who else would pass the deadline; return when to look again."""
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
        """Let a window begin with those whom earlier ones left over; return when it ends."""
        window = self._policy.retry_window(now, self._schedule.listed())
        if window is None:
            return now + HOURLY
        self._timetable.roll_retries(now, window.opens_at)
        return window.closes_at
