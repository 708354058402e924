"""Ports of a simulated worker that report every operation to the law checks.

Each operation is done and checked, and only then may the worker crash. So the checks never miss
what a crashed worker had done.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import httpx

from headway.clock import Clock
from headway.core.catalog.lifecycle import Settlement
from headway.core.catalog.listings import Candidate, Listing, Priority, Sku
from headway.core.timetable.market import Lesson, Market
from headway.engine import ports
from headway_lab.simulation.crashes import FaultInjector
from headway_lab.simulation.laws import Laws
from headway_lab.simulation.truth import Served, read_body
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.simulation.world import SimulatedCatalog
from headway_lab.simulators.boeing import BoeingSimulator

PRICE_PATH_END = "/price-availability/v1/wtoken"
OK = 200


@dataclass(slots=True, kw_only=True)
class PriceCall:
    """One price call: when it arrived, its SKUs, and which were read well."""

    number: int = 0
    at_s: float
    skus: tuple[str, ...]
    is_scheduled: bool = True
    read: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class WorkerContext:
    """State of one run of a worker: its fault injector, last claim, price call and reply."""

    injector: FaultInjector
    priorities: frozenset[Priority] = frozenset()
    price_call: PriceCall | None = None
    served: Served | None = None


class ObservedSchedule:
    """The schedule as one worker uses it, under observation."""

    def __init__(self, inner: ports.SchedulePort, laws: Laws, context: WorkerContext) -> None:
        self._inner = inner
        self._laws = laws
        self._context = context

    def front(
        self,
        now: datetime,
        *,
        limit: int,
        without: Collection[Sku] = (),
        only_clean: bool = False,
    ) -> list[Candidate]:
        """Return the front; listings due at the same moment come by name, so that runs repeat."""
        self._context.injector.may_crash()
        front = self._inner.front(now, limit=limit, without=without, only_clean=only_clean)
        self._context.injector.may_crash()
        return sorted(
            front, key=lambda listing: (listing.next_sync_at, listing.sku, listing.user_id)
        )

    def claim(
        self,
        skus: Sequence[Sku],
        *,
        now: datetime,
        owner: str,
        lease_until: datetime,
        retried: Collection[Sku] = (),
    ) -> list[Listing]:
        """Claim, and check the claim."""
        self._context.injector.before_claim()
        self._context.injector.may_crash()
        listings = self._inner.claim(
            skus, now=now, owner=owner, lease_until=lease_until, retried=retried
        )
        listings.sort(key=lambda listing: (listing.sku, listing.user_id))
        self._laws.claimed(listings, now=now, owner=owner, lease_until=lease_until)
        self._context.priorities = frozenset(listing.priority for listing in listings)
        self._context.injector.may_crash()
        return listings

    def settle(self, settlements: Sequence[Settlement], *, now: datetime, call_id: str) -> int:
        """Settle, and check what was written."""
        self._context.injector.may_freeze()
        self._context.injector.may_crash()
        refused = self._inner.settle(settlements, now=now, call_id=call_id)
        read = self._laws.settled(settlements, refused, self._context.served)
        if self._context.price_call is not None:
            self._context.price_call.read.update(read)
        self._context.injector.may_crash()
        return refused

    def listed(self) -> int:
        """Return how many listings there are."""
        self._context.injector.may_crash()
        return self._inner.listed()

    def retried_since(self, since: datetime) -> int:
        """Return how many listings were claimed as retries since then."""
        self._context.injector.may_crash()
        return self._inner.retried_since(since)

    def release(self, listings: Sequence[Listing], *, suspicion: Mapping[str, int]) -> int:
        """Release, and check that no failure was counted."""
        self._context.injector.may_crash()
        count = self._inner.release(listings, suspicion=suspicion)
        self._laws.released(listings)
        self._context.injector.may_crash()
        return count

    def reset_suspicion(self) -> int:
        """Reset suspicion, and check that nothing else changed."""
        self._context.injector.may_crash()
        count = self._inner.reset_suspicion()
        self._laws.suspicion_reset()
        self._context.injector.may_crash()
        return count

    def rescue(self, now: datetime) -> int:
        """Rescue, and check which listings."""
        self._context.injector.may_crash()
        count = self._inner.rescue(now)
        self._laws.rescued_by(count, now)
        self._context.injector.may_crash()
        return count


class ObservedMarkets:
    """The market as one worker uses it; changed due times are checked."""

    def __init__(self, inner: ports.MarketsPort, laws: Laws, injector: FaultInjector) -> None:
        self._inner = inner
        self._laws = laws
        self._injector = injector

    def load(self, families: Collection[str], now: datetime) -> Market:
        """Load the market."""
        self._injector.may_crash()
        return self._inner.load(families, now)

    def count(self, now: datetime) -> None:
        """Count the SKUs."""
        self._injector.may_crash()
        self._inner.count(now)

    def learn(self, market: Market, lesson: Lesson, now: datetime) -> Collection[Sku]:
        """Learn, and check which due times moved."""
        self._injector.may_crash()
        moved = self._inner.learn(market, lesson, now)
        self._laws.moved(moved)
        self._injector.may_crash()
        return moved

    def refit(self, market: Market, now: datetime) -> None:
        """Fit the prior again."""
        self._injector.may_crash()
        self._inner.refit(market, now)

    def oldest(self) -> datetime | None:
        """Return when the oldest listing was read."""
        self._injector.may_crash()
        return self._inner.oldest()

    def ages_min(self, now: datetime) -> Mapping[int, int]:
        """Return the ages."""
        self._injector.may_crash()
        return self._inner.ages_min(now)

    def hurry(self, count: int, now: datetime) -> Collection[Sku]:
        """Move due times forward, and check which."""
        self._injector.may_crash()
        moved = self._inner.hurry(count, now)
        self._laws.moved(moved)
        self._injector.may_crash()
        return moved


class ObservedTimetable:
    """The timetable as a tick uses it; changed due times are checked."""

    def __init__(self, inner: ports.TimetablePort, laws: Laws) -> None:
        self._inner = inner
        self._laws = laws

    def roll_retries(self, now: datetime, opens_at: datetime) -> Collection[Sku]:
        """Roll retries over, and check which."""
        moved = self._inner.roll_retries(now, opens_at)
        self._laws.moved(moved)
        return moved


class ObservedCalls:
    """Every price call as it was sent, and the supplier's own count against the limit."""

    def __init__(self, *, simulator: BoeingSimulator, limit: int, violations: ViolationLog) -> None:
        self._simulator = simulator
        self._limit = limit
        self._violations = violations
        self._refusals = 0
        self._most = limit
        self.price_calls: list[PriceCall] = []
        self.seats_used = 0
        violations.enable(("L1",))

    def note(self, price_call: PriceCall) -> None:
        """Keep a price call that arrived."""
        price_call.number = len(self.price_calls) + 1
        self.price_calls.append(price_call)
        self.seats_used += len(price_call.skus)

    def check_limit(self) -> None:
        """Check with the supplier whether the call that just arrived exceeded the limit."""
        refusals, most = self._simulator.refusals, self._simulator.max_calls_in_window
        if refusals > self._refusals:
            self._violations.add(
                "L1", "the supplier refused a call", count=refusals - self._refusals
            )
            self._refusals = refusals
        if most > self._most:
            self._violations.add("L1", f"{most} calls arrived in one window of {self._limit}")
            self._most = most


class ObservedSupplierTransport(httpx.BaseTransport):
    """The transport of one worker; requests and replies are read independently of the client."""

    def __init__(
        self,
        inner: httpx.BaseTransport,
        *,
        clock: Clock,
        catalog: SimulatedCatalog,
        laws: Laws,
        log: ObservedCalls,
        context: WorkerContext,
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._catalog = catalog
        self._laws = laws
        self._log = log
        self._context = context

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; a crashed worker sends none, or never reads the reply."""
        context = self._context
        context.served = context.price_call = None
        context.injector.may_crash()
        is_price = request.url.path.endswith(PRICE_PATH_END)
        skus = tuple(json.loads(request.read())["productCodes"]) if is_price else ()
        self._laws.called(skus)
        if is_price:
            context.price_call = self._price_call(skus)
        try:
            response = self._inner.handle_request(request)
        except httpx.ConnectError:
            context.price_call = None
            raise
        finally:
            self._log.check_limit()
            if context.price_call is not None:
                self._log.note(context.price_call)
            context.injector.may_crash()
        if context.price_call is not None and response.status_code == OK:
            response = self._read(response)
        return response

    def _read(self, response: httpx.Response) -> httpx.Response:
        """Read a reply over the worker's shoulder, and hand it on unread."""
        assert isinstance(response.stream, httpx.SyncByteStream)
        body = b"".join(response.stream)
        self._context.served = read_body(body, self._catalog)
        headers = response.headers
        return httpx.Response(OK, headers=headers, stream=httpx.ByteStream(body))

    def _price_call(self, skus: tuple[str, ...]) -> PriceCall:
        return PriceCall(
            at_s=self._clock.monotonic(),
            skus=skus,
            is_scheduled=Priority.SCHEDULED in self._context.priorities,
        )
