"""What stands between a worker and the world.

Each operation is done and shown to the laws, and only then may the worker die of it. So the mirror
never misses what a dead worker had done.
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
from headway_lab.simulation.crashes import Life
from headway_lab.simulation.law_book import LawBook
from headway_lab.simulation.laws import Laws
from headway_lab.simulation.truth import Served, read_body
from headway_lab.simulation.world import SimulatedCatalog
from headway_lab.simulators.boeing import BoeingSimulator

PRICE_PATH_END = "/price-availability/v1/wtoken"
OK = 200


@dataclass(slots=True, kw_only=True)
class Flight:
    """One price call: when it arrived, whom it carried, who was read well."""

    number: int = 0
    at_s: float
    skus: tuple[str, ...]
    is_scheduled: bool = True
    read: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Hands:
    """What one incarnation has in hand: its life, its last claim, flight and reply."""

    life: Life
    priorities: frozenset[Priority] = frozenset()
    flight: Flight | None = None
    served: Served | None = None


class WitnessedSchedule:
    """The schedule as one worker uses it, before our eyes."""

    def __init__(self, inner: ports.SchedulePort, laws: Laws, hands: Hands) -> None:
        self._inner = inner
        self._laws = laws
        self._hands = hands

    def front(
        self,
        now: datetime,
        *,
        limit: int,
        without: Collection[Sku] = (),
        only_clean: bool = False,
    ) -> list[Candidate]:
        """Return the front; those due at the same instant come by name, so that runs repeat."""
        self._hands.life.touch()
        front = self._inner.front(now, limit=limit, without=without, only_clean=only_clean)
        self._hands.life.touch()
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
        """Claim, and let the laws see who boarded."""
        self._hands.life.joins_call()
        self._hands.life.touch()
        listings = self._inner.claim(
            skus, now=now, owner=owner, lease_until=lease_until, retried=retried
        )
        listings.sort(key=lambda listing: (listing.sku, listing.user_id))
        self._laws.claimed(listings, now=now, owner=owner, lease_until=lease_until)
        self._hands.priorities = frozenset(listing.priority for listing in listings)
        self._hands.life.touch()
        return listings

    def settle(self, settlements: Sequence[Settlement], *, now: datetime, call_id: str) -> int:
        """Settle, and let the laws see what was written."""
        self._hands.life.freeze()
        self._hands.life.touch()
        refused = self._inner.settle(settlements, now=now, call_id=call_id)
        read = self._laws.settled(settlements, refused, self._hands.served)
        if self._hands.flight is not None:
            self._hands.flight.read.update(read)
        self._hands.life.touch()
        return refused

    def listed(self) -> int:
        """Return how many listings there are."""
        self._hands.life.touch()
        return self._inner.listed()

    def retried_since(self, since: datetime) -> int:
        """Return how many boarded as retries since then."""
        self._hands.life.touch()
        return self._inner.retried_since(since)

    def release(self, listings: Sequence[Listing], *, suspicion: Mapping[str, int]) -> int:
        """Release, and let the laws see that nobody was charged."""
        self._hands.life.touch()
        count = self._inner.release(listings, suspicion=suspicion)
        self._laws.released(listings)
        self._hands.life.touch()
        return count

    def reset_suspicion(self) -> int:
        """Pardon, and let the laws see that nothing else changed."""
        self._hands.life.touch()
        count = self._inner.reset_suspicion()
        self._laws.suspicion_reset()
        self._hands.life.touch()
        return count

    def rescue(self, now: datetime) -> int:
        """Rescue, and let the laws see whom."""
        self._hands.life.touch()
        count = self._inner.rescue(now)
        self._laws.rescued_by(count, now)
        self._hands.life.touch()
        return count


class WitnessedMarkets:
    """The market as one worker uses it; the laws see whose due time it moves."""

    def __init__(self, inner: ports.MarketsPort, laws: Laws, life: Life) -> None:
        self._inner = inner
        self._laws = laws
        self._life = life

    def load(self, families: Collection[str], now: datetime) -> Market:
        """Load the market."""
        self._life.touch()
        return self._inner.load(families, now)

    def count(self, now: datetime) -> None:
        """Count the SKUs."""
        self._life.touch()
        self._inner.count(now)

    def learn(self, market: Market, lesson: Lesson, now: datetime) -> Collection[Sku]:
        """Learn, and let the laws see who is swept or spared."""
        self._life.touch()
        moved = self._inner.learn(market, lesson, now)
        self._laws.moved(moved)
        self._life.touch()
        return moved

    def refit(self, market: Market, now: datetime) -> None:
        """Fit the prior anew."""
        self._life.touch()
        self._inner.refit(market, now)

    def oldest(self) -> datetime | None:
        """Return when the one who waits longest was read."""
        self._life.touch()
        return self._inner.oldest()

    def ages_min(self, now: datetime) -> Mapping[int, int]:
        """Return the ages."""
        self._life.touch()
        return self._inner.ages_min(now)

    def hurry(self, count: int, now: datetime) -> Collection[Sku]:
        """Hurry, and let the laws see whom."""
        self._life.touch()
        moved = self._inner.hurry(count, now)
        self._laws.moved(moved)
        self._life.touch()
        return moved


class WitnessedTimetable:
    """The timetable as a tick uses it; the laws see whose due time it moves."""

    def __init__(self, inner: ports.TimetablePort, laws: Laws) -> None:
        self._inner = inner
        self._laws = laws

    def roll_retries(self, now: datetime, opens_at: datetime) -> Collection[Sku]:
        """Roll, and let the laws see whom."""
        moved = self._inner.roll_retries(now, opens_at)
        self._laws.moved(moved)
        return moved


class ObservedCalls:
    """Every price call as it passed on the wire, and the supplier's own judgement of the limit."""

    def __init__(self, *, simulator: BoeingSimulator, limit: int, book: LawBook) -> None:
        self._simulator = simulator
        self._limit = limit
        self._book = book
        self._refusals = 0
        self._most = limit
        self.flights: list[Flight] = []
        self.seats_used = 0
        book.put_in_play(("L1",))

    def note(self, flight: Flight) -> None:
        """Keep a price call that arrived."""
        flight.number = len(self.flights) + 1
        self.flights.append(flight)
        self.seats_used += len(flight.skus)

    def check_limit(self) -> None:
        """Ask the supplier whether the call that just arrived was one too many."""
        refusals, most = self._simulator.refusals, self._simulator.max_calls_in_window
        if refusals > self._refusals:
            self._book.broken("L1", "the supplier refused a call", count=refusals - self._refusals)
            self._refusals = refusals
        if most > self._most:
            self._book.broken("L1", f"{most} calls arrived in one window of {self._limit}")
            self._most = most


class WitnessedTransport(httpx.BaseTransport):
    """The wire of one worker: we read what goes over it with our own eyes."""

    def __init__(
        self,
        inner: httpx.BaseTransport,
        *,
        clock: Clock,
        catalog: SimulatedCatalog,
        laws: Laws,
        log: ObservedCalls,
        hands: Hands,
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._catalog = catalog
        self._laws = laws
        self._log = log
        self._hands = hands

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Let one request pass; a dead worker's is not sent, or its answer finds nobody."""
        hands = self._hands
        hands.served = hands.flight = None
        hands.life.touch()
        is_price = request.url.path.endswith(PRICE_PATH_END)
        skus = tuple(json.loads(request.read())["productCodes"]) if is_price else ()
        self._laws.called(skus)
        if is_price:
            hands.flight = self._flight(skus)
        try:
            response = self._inner.handle_request(request)
        except httpx.ConnectError:
            hands.flight = None
            raise
        finally:
            self._log.check_limit()
            if hands.flight is not None:
                self._log.note(hands.flight)
            hands.life.touch()
        if hands.flight is not None and response.status_code == OK:
            response = self._read(response)
        return response

    def _read(self, response: httpx.Response) -> httpx.Response:
        """Read a reply over the worker's shoulder, and hand it on unread."""
        assert isinstance(response.stream, httpx.SyncByteStream)
        body = b"".join(response.stream)
        self._hands.served = read_body(body, self._catalog)
        headers = response.headers
        return httpx.Response(OK, headers=headers, stream=httpx.ByteStream(body))

    def _flight(self, skus: tuple[str, ...]) -> Flight:
        return Flight(
            at_s=self._clock.monotonic(),
            skus=skus,
            is_scheduled=Priority.SCHEDULED in self._hands.priorities,
        )
