"""Tick: housekeeping. Any number of ticks may run at once."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from headway.clock import Clock
from headway.core.catalog.listings import CLOCKS_APART_MAX, Wait
from headway.engine.ports import JobsPort, NoticesPort, PausesPort, SchedulePort, SellersPort
from headway.engine.ports_limits import Ledger
from headway.engine.supplier_tick import SupplierTicks

EVERY = timedelta(seconds=30)
# How soon the next round is where there is more to do than one round does.
SOON = timedelta(seconds=1)
HOURLY = timedelta(hours=1)


class Tick:
    """Return expired leases to the queue under a new fence, and do the other periodic work.

    Each round applies pauses and does the housekeeping of every supplier. `sample` measures
    freshness and `watch` checks alerts; both return when they are next due. Once an hour the
    history gets its next month, and each of `memories` deletes what is older than its retention.
    `rescues` is called with the number of leases rescued.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        schedule: SchedulePort,
        sellers: SellersPort,
        lines: SupplierTicks,
        jobs: JobsPort,
        pauses: PausesPort,
        notices: NoticesPort,
        sample: Callable[[datetime], datetime] | None = None,
        watch: Callable[[datetime], datetime] | None = None,
        memories: Sequence[tuple[Ledger, timedelta]],
        history: Callable[[datetime], object],
        every: timedelta = EVERY,
        rescues: Callable[[str, int], None] = lambda _what, _count: None,
    ) -> None:
        self._clock = clock
        self._schedule = schedule
        self._sellers = sellers
        self._lines = lines
        self._jobs = jobs
        self._pauses = pauses
        self._notices = notices
        self._sample = sample
        self._watch = watch
        self._memories = memories
        self._history = history
        self._every = every
        self._rescues = rescues
        self._hourly_at = self._sample_at = self._watch_at = clock.now()
        self.rescued = 0

    def step(self) -> Wait:
        """Do one round; return when the next is due."""
        now = self._clock.now()
        self._note_rescued("listing", self._schedule.rescue(now - CLOCKS_APART_MAX))
        self._note_rescued("job", self._jobs.rescue(now - CLOCKS_APART_MAX))
        has_more = self._pauses.reconcile(now) > 0
        if now >= self._hourly_at:
            self._hourly(now)
            self._hourly_at = now + HOURLY
        has_more |= self._lines.step(now)
        if self._sample is not None and now >= self._sample_at:
            self._sample_at = self._sample(now)
        if self._watch is not None and now >= self._watch_at:
            self._watch_at = self._watch(now)
        every = min(SOON, self._every) if has_more else self._every
        return Wait(until=now + every, why="next round")

    def _note_rescued(self, what: str, count: int) -> None:
        self.rescued += count
        self._rescues(what, count)

    def _hourly(self, now: datetime) -> None:
        self._sellers.count_catalogs(now)
        self._notices.warn_of_tokens(now)
        self._jobs.relax(now)
        self._history(now)
        for memory, retention in self._memories:
            memory.forget(now - retention)
