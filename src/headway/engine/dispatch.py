"""Dispatch: what to send a message for, and what a worker does with one; independent of a broker.

The tick takes a dispatch lease for whatever is due and lets one message be sent for it. A worker
that gets
the message takes the dispatch lease up, does steps while there is something to do, and lays it
down with
what it has in hand: sent on at once if the next step is near, else until the tick finds it due.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from headway.clock import Clock
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import Done, SupplierName, Wait
from headway.core.catalog.storefront import Shop
from headway.core.dispatch import STOREFRONT, SUPPLIER, DispatchLease, Subject, Verb, WorkerState
from headway.errors import HeadwayError, InvariantError

TICK = Subject(verb=Verb.TICK, provider="line", which="1")
NONE, LEAST = timedelta(0), timedelta(milliseconds=20)
# How many subjects a process keeps a worker for; each takes a few kilobytes, and no connection.
WORKERS_MAX = 10_000


class DispatchLeasesPort(Protocol):
    """Leases on dispatching subjects."""

    def take(self, subjects: Sequence[Subject], *, life: timedelta) -> list[DispatchLease]:
        """Take the leases of subjects without a message in flight; each may be sent one now."""

    def take_up(self, dispatch_lease: DispatchLease, *, life: timedelta) -> DispatchLease | None:
        """Take over the lease of a message under a new fence; None if the message is old."""

    def keep(self, dispatch_leases: Collection[DispatchLease], *, life: timedelta) -> int:
        """Renew these leases; return how many are still held."""

    def rest(
        self, dispatch_lease: DispatchLease, *, wait: timedelta, state: WorkerState | None = None
    ) -> bool:
        """Release a lease until then, with state to carry over; return False if it was lost."""

    def waking(self, *, limit: int) -> list[Subject]:
        """Return due leases with carried state, the longest due first."""

    def next_in(self) -> timedelta | None:
        """Return the time until the next lease with carried state is due; None if there is none."""

    def living(self, verb: Verb) -> list[Subject]:
        """Return the subjects of a verb that need no message now."""


class DueSuppliers(Protocol):
    """Which suppliers beside the settings' wait for a worker."""

    def idle(self, now: datetime, *, limit: int) -> list[SupplierName]:
        """Return the due suppliers without a dispatched worker."""


class DueShops(Protocol):
    """Which shops wait for a worker."""

    def idle_shops(
        self, now: datetime, *, verified_before: datetime | None, limit: int
    ) -> list[Shop]:
        """Return the due shops without a dispatched worker."""


class DueJobs(Protocol):
    """How many jobs wait for a worker."""

    def due_places(self, now: datetime, *, limit: int) -> Mapping[PlatformName, tuple[int, int]]:
        """Return how many jobs of each platform are due, up to a limit, and how many run."""


class Worker(Protocol):
    """A worker's fetch, push or pull."""

    def step(self) -> Done | Wait:
        """Do the next step."""

    def detach(self) -> WorkerState | None:
        """Return the work in progress, so that another worker can continue with it."""

    def resume(self, state: WorkerState) -> None:
        """Continue the work of another worker."""


Send = Callable[[DispatchLease, timedelta], None]
Report = Callable[[str, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRule:
    """How long leases and messages last, and how many are sent at once.

    `life` is the silence after which a message or a worker counts as lost, `tick_life` the shorter
    one for a tick. A worker stays `time_slice` at one subject while others wait.
    The message itself waits up to `hop`. The tick runs every `look`, and sooner when carried state
    is due.
    """

    life: timedelta = timedelta(seconds=15)
    tick_life: timedelta = timedelta(seconds=5)
    time_slice: timedelta = timedelta(seconds=5)
    hop: timedelta = timedelta(seconds=5)
    look: timedelta = timedelta(seconds=1)
    retry: timedelta = timedelta(seconds=10)
    fetches: int = 1
    pulls: int = 10
    suppliers_max: int = 500
    shops_max: int = 500


class Dispatcher:
    """What one worker process does with its messages, in any number of threads."""

    def __init__(
        self,
        *,
        clock: Clock,
        dispatch_leases: DispatchLeasesPort,
        new_worker: Callable[[Subject], Worker],
        send: Send,
        rule: DispatchRule,
        report: Report,
        stopping: threading.Event,
    ) -> None:
        self._clock = clock
        self._dispatch_leases = dispatch_leases
        self._new_hand = new_worker
        self._send = send
        self._rule = rule
        self._report = report
        self._lock = threading.Lock()
        self._leases_in_use: dict[int, DispatchLease] = {}
        self._idle: dict[Subject, Worker] = {}
        self._stopping = stopping

    def carry(self, named: DispatchLease) -> None:
        """Take over the dispatch lease that a message names, and work; ignore an old message.

        Expected errors are reported, and tried again when the lease expires.
        """
        try:
            dispatch_lease = self._dispatch_leases.take_up(named, life=self._rule.life)
            if dispatch_lease is not None:
                self._carry(dispatch_lease)
        except InvariantError:
            raise
        except HeadwayError as error:
            self._report(named.subject.verb, str(error))

    def keep(self) -> Wait:
        """Renew the leases of everything this worker is working on."""
        # Under the lock: a dispatch lease that is just being laid down must not be picked up again
        # by this.
        with self._lock:
            if self._leases_in_use:
                self._dispatch_leases.keep(list(self._leases_in_use.values()), life=self._rule.life)
        return Wait(until=self._clock.now() + self._rule.life / 3, why="next heartbeat")

    def _carry(self, dispatch_lease: DispatchLease) -> None:
        subject = dispatch_lease.subject
        with self._lock:
            self._leases_in_use[id(dispatch_lease)] = dispatch_lease
            worker = self._idle.pop(subject, None)
        try:
            worker = worker or self._new_hand(subject)
            if dispatch_lease.state is not None:
                worker.resume(dispatch_lease.state)
            wait = self._run_slices(worker, subject)
            state = worker.detach()
        finally:
            with self._lock:
                del self._leases_in_use[id(dispatch_lease)]
        self._keep_worker(subject, worker)
        self._pass_on(dispatch_lease, wait, state)

    def _run_slices(self, worker: Worker, subject: Subject) -> timedelta:
        """Do steps while there is something to do; return how long there is not."""
        began_s = self._clock.monotonic()
        while not self._stopping.is_set():
            try:
                result = worker.step()
            except InvariantError:
                raise
            except HeadwayError as error:
                self._report(subject.verb, str(error))
                return self._rule.retry
            if isinstance(result, Wait):
                return max(NONE, result.until - self._clock.now())
            if result.what:
                self._report(subject.verb, result.what)
            if self._clock.monotonic() - began_s >= self._rule.time_slice.total_seconds():
                break
        return NONE

    def _pass_on(
        self, dispatch_lease: DispatchLease, wait: timedelta, state: WorkerState | None
    ) -> None:
        """Release the dispatch lease; send the next message at once if the next step is near."""
        has_more = state is not None or not wait
        is_sent = has_more and wait <= self._rule.hop and not self._stopping.is_set()
        rest = wait + self._rule.life if is_sent else wait
        if self._dispatch_leases.rest(dispatch_lease, wait=rest, state=state) and is_sent:
            self._send(dispatch_lease, wait)

    def _keep_worker(self, subject: Subject, worker: Worker) -> None:
        with self._lock:
            if len(self._idle) >= WORKERS_MAX:
                self._idle.pop(next(iter(self._idle)))
            self._idle[subject] = worker


class TickLoop:
    """The tick of a scale-out: housekeeping, then one message for whatever is due and has none.

    Several at once are harmless; as a rule one worker ticks for all, elected by a dispatch lease.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        dispatch_leases: DispatchLeasesPort,
        suppliers: DueSuppliers,
        shops: DueShops,
        jobs: DueJobs,
        tick: Callable[[], Wait],
        send: Send,
        rule: DispatchRule,
        verify_every: timedelta | None,
    ) -> None:
        self._clock = clock
        self._dispatch_leases = dispatch_leases
        self._suppliers = suppliers
        self._shops = shops
        self._jobs = jobs
        self._tick = tick
        self._send = send
        self._rule = rule
        self._verify_every = verify_every
        self._tick_at = clock.now()
        self._dispatch_lease: DispatchLease | None = None

    def step(self) -> Wait:
        """Do a round if this worker is elected to tick; return when to check again."""
        if not self._is_elected():
            until = self._clock.now() + self._rule.tick_life / 3
            return Wait(until=until, why="another worker ticks")
        return self.round()

    def round(self) -> Wait:
        """Do one round; return when the next is due."""
        now = self._clock.now()
        if now >= self._tick_at:
            self._tick_at = self._tick().until
        for dispatch_lease in self._dispatch_leases.take(
            self._candidates(now), life=self._rule.life
        ):
            self._send(dispatch_lease, NONE)
        next_in = self._dispatch_leases.next_in()
        wait = self._rule.look if next_in is None else min(self._rule.look, next_in)
        return Wait(until=self._clock.now() + max(LEAST, wait), why="next round")

    def give_way(self) -> None:
        """Let another worker tick at once."""
        if self._dispatch_lease is not None:
            self._dispatch_leases.rest(self._dispatch_lease, wait=NONE)
            self._dispatch_lease = None

    def _is_elected(self) -> bool:
        life = self._rule.tick_life
        if self._dispatch_lease is not None and self._dispatch_leases.keep(
            [self._dispatch_lease], life=life
        ):
            return True
        taken = self._dispatch_leases.take([TICK], life=life)
        self._dispatch_lease = self._dispatch_leases.take_up(taken[0], life=life) if taken else None
        return self._dispatch_lease is not None

    def _candidates(self, now: datetime) -> list[Subject]:
        """Return subjects that may need a message: due ones, or those with due carried state."""
        every = self._verify_every
        verified_before = None if every is None else now - every
        shops = self._shops.idle_shops(
            now, verified_before=verified_before, limit=self._rule.shops_max
        )
        subjects = [
            *self._dispatch_leases.waking(limit=self._rule.shops_max),
            *_places(Verb.FETCH, SUPPLIER, self._rule.fetches),
            *(
                Subject(verb=Verb.FETCH, provider=SUPPLIER, which=name)
                for name in self._suppliers.idle(now, limit=self._rule.suppliers_max)
            ),
            *(Subject(verb=Verb.PUSH, provider=STOREFRONT, which=shop.id) for shop in shops),
            *self._pulls(now),
        ]
        return list(dict.fromkeys(subjects))

    def _pulls(self, now: datetime) -> list[Subject]:
        """Return a free place for every due job that no worker is on the way to."""
        due = self._jobs.due_places(now, limit=self._rule.pulls)
        living = set(self._dispatch_leases.living(Verb.PULL))
        subjects: list[Subject] = []
        for platform, (due_count, running) in due.items():
            places = _places(Verb.PULL, platform, self._rule.pulls)
            free = [place for place in places if place not in living]
            on_the_way = max(0, len(places) - len(free) - running)
            subjects += free[: max(0, due_count - on_the_way)]
        return subjects


def _places(verb: Verb, provider: str, count: int) -> list[Subject]:
    return [
        Subject(verb=verb, provider=provider, which=str(number)) for number in range(1, count + 1)
    ]
