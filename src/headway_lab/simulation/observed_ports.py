"""Ports of a simulated worker that report every operation to the law checks.

Each operation is done and checked, and only then may the worker crash. So the checks never miss
what a crashed worker had done.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from headway.clock import Clock
from headway.core.catalog.lifecycle import Settlement
from headway.core.catalog.listings import Candidate, Listing, Priority, Sku
from headway.core.catalog.storefront import Intent, Pushed, PushLease, Shop
from headway.core.timetable.market import Lesson, Market
from headway.engine import ports
from headway_lab.simulation.crashes import CrashingPort, FaultInjector
from headway_lab.simulation.laws import Laws
from headway_lab.simulation.shop_laws import ShopLaws
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


class ObservedSchedule(CrashingPort):
    """The schedule as one worker uses it, under observation."""

    def __init__(self, inner: ports.SchedulePort, laws: Laws, context: WorkerContext) -> None:
        super().__init__(inner, context.injector)
        self._laws = laws
        self._context = context

    def front(self, now: datetime, **more: Any) -> list[Candidate]:  # noqa: ANN401 - as the port
        """Return the front; listings due at the same moment come by name, so that runs repeat."""
        with self._may_crash():
            front = self._inner.front(now, **more)
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
        with self._may_crash(claims=True):
            listings: list[Listing] = self._inner.claim(
                skus, now=now, owner=owner, lease_until=lease_until, retried=retried
            )
            listings.sort(key=lambda listing: (listing.sku, listing.user_id))
            self._laws.claimed(listings, now=now, owner=owner, lease_until=lease_until)
            self._context.priorities = frozenset(listing.priority for listing in listings)
        return listings

    def settle(self, settlements: Sequence[Settlement], *, now: datetime, call_id: str) -> int:
        """Settle, and check what was written."""
        with self._may_crash(freezes=True):
            refused: int = self._inner.settle(settlements, now=now, call_id=call_id)
            read = self._laws.settled(settlements, refused, self._context.served)
            if self._context.price_call is not None:
                self._context.price_call.read.update(read)
        return refused

    def release(self, listings: Sequence[Listing], *, suspicion: Mapping[str, int]) -> int:
        """Release, and check that no failure was counted."""
        with self._may_crash():
            count: int = self._inner.release(listings, suspicion=suspicion)
            self._laws.released(listings)
        return count

    def reset_suspicion(self) -> int:
        """Reset suspicion, and check that nothing else changed."""
        with self._may_crash():
            count: int = self._inner.reset_suspicion()
            self._laws.suspicion_reset()
        return count

    def note_locations(self, names: Collection[str], *, now: datetime) -> int:
        """Store unknown locations; no listing changes."""
        with self._may_crash():
            count: int = self._inner.note_locations(names, now=now)
        return count

    def rescue(self, now: datetime) -> int:
        """Rescue, and check which listings."""
        with self._may_crash():
            count: int = self._inner.rescue(now)
            self._laws.rescued_by(count, now)
        return count


class ObservedMarkets(CrashingPort):
    """The market as one worker uses it; changed due times are checked."""

    def __init__(self, inner: ports.MarketsPort, laws: Laws, injector: FaultInjector) -> None:
        super().__init__(inner, injector)
        self._laws = laws

    def learn(self, market: Market, lesson: Lesson, now: datetime) -> Collection[Sku]:
        """Learn, and check which due times moved."""
        with self._may_crash():
            moved: Collection[Sku] = self._inner.learn(market, lesson, now)
            self._laws.moved(moved)
        return moved

    def hurry(self, count: int, now: datetime) -> Collection[Sku]:
        """Move due times forward, and check which."""
        with self._may_crash():
            moved: Collection[Sku] = self._inner.hurry(count, now)
            self._laws.moved(moved)
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


class ObservedPushes(CrashingPort):
    """The push leases as one pusher uses them; between store and send it may freeze."""

    def __init__(self, inner: ports.PushesPort, laws: ShopLaws, injector: FaultInjector) -> None:
        super().__init__(inner, injector)
        self._laws = laws

    def due_shops(self, now: datetime, **more: Any) -> list[Shop]:  # noqa: ANN401 - as the port
        """Return the shops that are due."""
        with self._may_crash():
            shops: list[Shop] = self._inner.due_shops(now, **more)
        return shops

    def claim(
        self,
        shop: Shop,
        *,
        now: datetime,
        owner: str,
        lease_until: datetime,
        **more: Any,  # noqa: ANN401 - as the port
    ) -> PushLease | None:
        """Claim a push lease, and check that no other is live."""
        with self._may_crash(claims=True):
            push_lease: PushLease | None = self._inner.claim(
                shop, now=now, owner=owner, lease_until=lease_until, **more
            )
            if push_lease is not None:
                lease_s = (lease_until - now).total_seconds()
                self._laws.claimed(push_lease, owner=owner, lease_s=lease_s)
        return push_lease

    def intend(self, push_lease: PushLease, intent: Intent, *, now: datetime) -> bool:
        """Store an intent."""
        with self._may_crash():
            is_ours: bool = self._inner.intend(push_lease, intent, now=now)
            self._injector.may_freeze()
        return is_ours

    def settle(
        self,
        push_lease: PushLease,
        pushed: Sequence[Pushed] = (),
        *,
        keeps_lease: bool = False,
        **more: Any,  # noqa: ANN401 - as the port
    ) -> bool:
        """Settle, and check whether the settle was accepted."""
        with self._may_crash(freezes=True):
            is_ours: bool = self._inner.settle(push_lease, pushed, keeps_lease=keeps_lease, **more)
            self._laws.settled(push_lease, is_ours=is_ours, keeps_lease=keeps_lease)
        return is_ours

    def disconnect(self, shop: Shop, reason: str, *, now: datetime) -> None:
        """Disconnect a shop, for which no simulated shop has given a reason."""
        with self._may_crash():
            self._inner.disconnect(shop, reason, now=now)
            self._laws.gave_up(shop, reason)


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
        """Read a copy of the reply, and return it unread."""
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
