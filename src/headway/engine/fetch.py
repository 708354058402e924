"""Fetch: read the supplier. Permit first, then claim, then call, then settle.

A step is short, never sleeps, and returns Done or Wait. Listings are chosen at the moment the call
is sent, so priorities, pauses and the newest due times count until then.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from headway.clock import Clock
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.lifecycle import UNCLEAR, Judge, Settlement, suspicions, unclear_skus
from headway.core.catalog.listings import (
    AuthStep,
    Candidate,
    Done,
    Listing,
    Priority,
    Reply,
    Sku,
    Wait,
)
from headway.core.dispatch import WorkerState
from headway.core.limits.breaker import Breaker
from headway.core.limits.transitions import CallReport, Expired, Granted, NotYet, Permit, Rejected
from headway.core.monitoring.calls import ANSWERED
from headway.core.timetable.policies.policy import ReadResult
from headway.core.timetable.seats import URGENT, SeatRule, departure, fill_call
from headway.engine.ports import BreakersPort, MarketsPort, SchedulePort, SellersPort, Supplier
from headway.engine.ports_limits import Limiter
from headway.engine.rules import FetchRule
from headway.engine.supplier_queue import current_rule, read_front
from headway.errors import (
    AppRefusedError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    UnsentError,
)

UNUSED_PAUSE = timedelta(seconds=2)
ORDINARY = 2
NOTED_FOR = timedelta(hours=1)


class Fetch:
    """The fetch of one worker; any number may run, on any number of hosts.

    It calls `wake_push` when a desired state changed, so that push need not poll all the time.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        limiter: Limiter,
        schedule: SchedulePort,
        sellers: SellersPort,
        markets: MarketsPort,
        breakers: BreakersPort,
        supplier: Supplier,
        judge: Judge,
        rule: FetchRule,
        owner: str,
        wake_push: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._limiter = limiter
        self._schedule = schedule
        self._sellers = sellers
        self._markets = markets
        self._breakers = breakers
        self._supplier = supplier
        self._judge = judge
        self._rule = rule
        self._owner = owner
        self._wake_push = wake_push
        self._permit: Permit | None = None
        self._wait: Wait | None = None
        self._last_call_was_empty = False
        self._seat_rule = rule.seat_rule  # as it held when it was read last
        self._noted: dict[str, datetime] = {}

    def detach(self) -> Permit | None:
        """Return the permit that it waits for, so that another worker can continue with it."""
        permit, self._permit, self._wait = self._permit, None, None
        return permit

    def resume(self, state: WorkerState) -> None:
        """Continue with a permit that another worker waited for."""
        assert isinstance(state, Permit)
        if self._limiter.knows(state):
            self._permit = state

    def step(self) -> Done | Wait:
        """Do the next step: queue for a permit, or use it."""
        if self._wait is not None:
            wait, self._wait = self._wait, None
            return wait
        if self._permit is None:
            return self._queue()
        permit, began_s = self._permit, self._clock.monotonic()
        match self._limiter.begin(permit):
            case NotYet(wait_s=wait_s):
                return Wait(until=self._clock.now() + timedelta(seconds=wait_s), why="permit")
            case Expired():
                self._permit = None
                return Done(what="permit lapsed")
            case Granted(send_within_s=send_within_s):
                self._permit = None
                return self._use(permit, began_s + send_within_s)

    def _queue(self) -> Done | Wait:
        """Reserve a permit if a call should leave; otherwise return when to check again.

        An eager policy without spare seats wants every permit, so it reserves without reading the
        queue, unless the last permit found no listing: everything may be paused.
        """
        now, priority = self._clock.now(), ORDINARY
        is_list_due = self._rule.is_list and self._supplier.auth_step() is AuthStep.LIST
        if is_list_due and not self._last_call_was_empty:
            return self._reserve(priority)
        if not self._wants_every_permit or self._last_call_was_empty:
            front, seat_rule = self._read_front(now)
            leave_at, look_again = departure(front, now, seat_rule), now + self._rule.poll
            if leave_at is None or leave_at > now:
                until = look_again if leave_at is None else min(leave_at, look_again)
                return Wait(until=until, why="nothing is due yet")
            priority, self._last_call_was_empty = _priority(front), False
        return self._reserve(priority)

    @property
    def _wants_every_permit(self) -> bool:
        rule = self._seat_rule
        return rule.is_eager and not rule.pace and not rule.has_spare_seats

    def _reserve(
        self, priority: int, *, after: Permit | None = None, report: CallReport | None = None
    ) -> Wait:
        """Reserve a permit, and settle in the same transaction the call `after` which it comes."""
        answer = self._limiter.reserve(
            [self._supplier.limit_key],
            priority=priority,
            owner=self._owner,
            max_wait_s=self._rule.permit_wait_max.total_seconds(),
            lease_s=self._rule.lease.total_seconds(),
            grace_s=self._rule.permit_grace.total_seconds(),
            purpose="fetch",
            after=after,
            report=report,
        )
        now = self._clock.now()
        if isinstance(answer, Rejected):
            wait_s = max(1.0, min(answer.retry_in_s, self._rule.poll.total_seconds()))
            return Wait(until=now + timedelta(seconds=wait_s), why="permits are spoken for")
        self._permit = answer
        return Wait(until=now + timedelta(seconds=answer.wait_s), why="permit")

    def _use(self, permit: Permit, send_by_s: float) -> Done | Wait:
        """Spend a permit on what is needed most: a token, or ten listings."""
        breaker = self._breakers.load(self._supplier.limit_key)
        blocked_until = breaker.blocked_until(self._clock.now())
        if blocked_until is not None:
            return self._hand_back(permit, "the supplier does not answer", until=blocked_until)
        step = self._supplier.auth_step()
        until = self._clock.now() + self._rule.poll
        if step is not None:
            if not self._schedule.front(self._clock.now(), limit=1):
                self._last_call_was_empty = True
                return self._hand_back(permit, "no listing is waiting", until=until)
            return self._authenticate(permit, step, send_by_s)
        listings = self._claim(self._clock.now(), breaker)
        if not listings:
            self._last_call_was_empty = True
            return self._hand_back(permit, "no listing is due", until=until)
        if self._clock.monotonic() > send_by_s:
            self._schedule.release(listings, suspicion={})
            return self._hand_back(permit, "too late to send")
        return self._call(permit, listings, breaker)

    def _hand_back(self, permit: Permit, why: str, *, until: datetime | None = None) -> Wait:
        """Return a permit unused; the pause keeps a loop from asking for it again at once."""
        self._limiter.settle(permit, sent=False)
        return Wait(until=until or self._clock.now() + UNUSED_PAUSE, why=why)

    def _authenticate(self, permit: Permit, step: AuthStep, send_by_s: float) -> Done | Wait:
        try:
            was_sent = self._supplier.authenticate(
                step,
                send_by_s=send_by_s,
                make_due=lambda skus: self._schedule.make_due(skus, now=self._clock.now()),
            )
        except ProviderError as error:
            report = CallReport(
                result=f"{step}: {error}", http_status=error.status, ended=error.ended
            )
            self._settle_failed(permit, error, report)
            return Done(what=f"{step} failed")
        if not was_sent:
            return self._hand_back(permit, "another worker signs in, or it is too late to send")
        self._limiter.settle(permit, sent=True, report=CallReport(result=step.value))
        return Done(what=step.value)

    def _read_front(self, now: datetime) -> tuple[list[Candidate], SeatRule]:
        """Return the front of the queue and the seat rule that holds now."""
        front = read_front(self._schedule, now, self._rule.seat_rule)
        self._seat_rule = current_rule(
            self._rule.seat_rule,
            front,
            now,
            policy=self._judge.policy,
            schedule=self._schedule,
            markets=self._markets,
        )
        return front, self._seat_rule

    def _claim(self, now: datetime, breaker: Breaker) -> list[Listing]:
        """Choose and lease the listings for this call, if it still should leave."""
        front, seat_rule = self._read_front(now)
        leave_at = departure(front, now, seat_rule)
        if leave_at is None or leave_at > now:
            return []
        if breaker.failures:
            front = read_front(self._schedule, now, self._rule.seat_rule, after_failure=True)
        in_call = fill_call(front, now, seat_rule, least_suspect=breaker.failures > 0)
        if breaker.is_open:
            self._breakers.save(self._supplier.limit_key, breaker.probing(now))
        return self._schedule.claim(
            [candidate.sku for candidate in in_call],
            now=now,
            owner=self._owner,
            lease_until=now + self._rule.lease,
            retried=[
                candidate.sku for candidate in in_call if candidate.priority is Priority.RETRY
            ],
        )

    def _call(self, permit: Permit, listings: Sequence[Listing], before: Breaker) -> Done:
        """Call the supplier; `before` is the breaker as it was at the claim."""
        skus = list(dict.fromkeys(listing.sku for listing in listings))
        try:
            reply = self._supplier.quote(skus)
        except ProviderError as error:
            report = self._report(str(error), skus, error.status, ended=error.ended)
            before = self._settle_failed(permit, error, report)
            self._give_back(
                listings, error, call_id=permit.id, last_call_was_good=before.failures == 0
            )
            return Done(what="the call failed")
        report = self._report("ok", skus, 200)
        if self._wants_every_permit:  # one round trip for both; if we die now, the permit expires
            self._wait = self._reserve(ORDINARY, after=permit, report=report)
        else:
            self._limiter.settle(permit, sent=True, report=report)
        now = self._clock.now()
        unclear = unclear_skus(reply, listings)
        answered = [listing for listing in listings if listing.sku not in unclear]
        refused = self._judge_all(answered, reply, now, call_id=permit.id)
        if before.failures and answered:
            self._recover()
        if unclear:
            self._suspect(
                [listing for listing in listings if listing.sku in unclear],
                next(iter(unclear.values())),
                call_id=permit.id,
                last_call_was_good=before.failures == 0,
                least=UNCLEAR,
            )
        return Done(what=f"read {len(skus)} SKUs" + (f", {refused} refused" if refused else ""))

    def _recover(self) -> None:
        """Close the breaker: the supplier answers again."""
        breaker = self._breakers.load(self._supplier.limit_key)
        if breaker.saw_outage:  # otherwise each listing would be alone in a call for hours
            self._schedule.reset_suspicion()
        if breaker.failures:
            self._breakers.save(self._supplier.limit_key, breaker.succeeded())

    def _judge_all(
        self, listings: Sequence[Listing], reply: Reply, now: datetime, *, call_id: str
    ) -> int:
        """Settle every listing in the call, and let a policy that has a market learn from it."""
        settings = self._sellers.settings({listing.user_id for listing in listings}, now)
        judge, market = self._judge, None
        if judge.policy.is_eager:
            market = self._markets.load(
                {listing.family for listing in listings if listing.family}, now
            )
            judge = replace(judge, policy=judge.policy.informed(market))
        self._note_locations(reply, now, settings.values())
        settlements = judge.settle_all(listings, reply, now, settings)
        refused = self._settle(settlements, now, call_id=call_id)
        lesson = judge.policy.learn(_reads_of(settlements, now)) if market is not None else None
        if market is not None and lesson is not None:
            self._markets.learn(market, lesson, now)
        return refused

    def _note_locations(
        self, reply: Reply, now: datetime, settings: Iterable[SellerSettings]
    ) -> None:
        """Store the names of unknown locations with stock; each once an hour is enough."""
        known = [seller.terms for seller in settings]
        names = {
            location
            for quote in reply.quotes.values()
            for location, quantity in quote.quantities.items()
            if quantity and any(terms.is_unknown(location) for terms in known)
        }
        due = {name for name in names if self._noted.get(name, now) <= now}
        if due:
            self._schedule.note_locations(due, now=now)
            self._noted |= dict.fromkeys(due, now + NOTED_FOR)

    def _settle(self, settlements: Sequence[Settlement], now: datetime, *, call_id: str) -> int:
        refused = self._schedule.settle(settlements, now=now, call_id=call_id)
        if any(settlement.changes_desired for settlement in settlements):
            self._wake_push()
        return refused

    def _report(
        self, result: str, skus: Sequence[Sku], status: int | None, *, ended: str = ANSWERED
    ) -> CallReport:
        return CallReport(
            result=result,
            ended=ended,
            http_status=status,
            seats_paid=self._supplier.seats,
            skus=skus,
        )

    def _settle_failed(self, permit: Permit, error: ProviderError, report: CallReport) -> Breaker:
        """Blame the call: the permit is spent, the breaker counts; return how it stood before."""
        if isinstance(error, ThrottledError):  # first: a permit never settled only delays us
            wait_s = 60.0 if error.retry_after_s is None else error.retry_after_s
            self._limiter.pause(self._supplier.limit_key, wait_s, "rate limited by the supplier")
        was_sent = not isinstance(error, UnsentError)
        self._limiter.settle(
            permit, sent=was_sent, is_late=isinstance(error, TimedOutError), report=report
        )
        now = self._clock.now()
        before = self._breakers.load(self._supplier.limit_key)
        self._breakers.save(self._supplier.limit_key, before.failed(now, str(error)))
        return before

    def _give_back(
        self,
        listings: Sequence[Listing],
        error: ProviderError,
        *,
        call_id: str,
        last_call_was_good: bool,
    ) -> None:
        """Free the seats; only what the batch itself may have caused makes it suspect.

        A reply 429 or 401 may be one part's doing like any other: it convicts nobody unless
        every call with that part comes to it, and the calls between succeed.
        """
        if isinstance(error, UnsentError | AppRefusedError):
            self._schedule.release(listings, suspicion={})
            return
        self._suspect(listings, str(error), call_id=call_id, last_call_was_good=last_call_was_good)

    def _suspect(
        self,
        listings: Sequence[Listing],
        reason: str,
        *,
        call_id: str,
        last_call_was_good: bool,
        least: int = 1,
    ) -> None:
        """Free the seats of a call that was no good, and narrow down which SKU makes it so."""
        suspicion, convicted = suspicions(
            listings, self._supplier.seats, last_call_was_good=last_call_was_good, least=least
        )
        now = self._clock.now()
        charged = [
            self._judge.charge(
                listing,
                now,
                f"every call with this SKU fails: {reason}",
                code="CALL_FAILED",
                suspicion=listing.suspicion,
            )
            for listing in convicted
        ]
        if charged:
            self._settle(charged, now, call_id=call_id)
        innocent = [listing for listing in listings if listing not in convicted]
        self._schedule.release(innocent, suspicion=suspicion)


def _reads_of(settlements: Sequence[Settlement], now: datetime) -> list[ReadResult]:
    """Return the reads of a call, each SKU once: two sellers' listings of a SKU are one read.

    The listing that was urgent or due first counts; how early the others were read is no evidence
    about the queue. A first read is a change only for its seller.
    """
    looks: dict[Sku, list[Settlement]] = {}
    for settlement in settlements:
        if settlement.is_good_read:
            looks.setdefault(settlement.listing.sku, []).append(settlement)
    return [
        ReadResult(
            listing=min((settlement.listing for settlement in look), key=_joins_call_after),
            at=now,
            has_changed=any(
                settlement.is_news and settlement.listing.last_successful_sync is not None
                for settlement in look
            ),
        )
        for look in looks.values()
    ]


def _joins_call_after(listing: Listing) -> tuple[bool, datetime]:
    return listing.priority not in URGENT, listing.next_sync_at


def _priority(front: Sequence[Candidate]) -> int:
    """Return the permit's rank: the highest priority that waits for it."""
    priorities = {candidate.priority for candidate in front}
    if Priority.MANUAL in priorities:
        return 0
    return 1 if priorities & set(URGENT) else ORDINARY
