"""What people pause in a run, and whether it stands still: no call leaves, nobody is claimed.

A pause is a limit of no calls at all, so whoever breaks one breaks law L1.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from headway.clock import Clock
from headway.core.catalog.listings import Listing, SellerId
from headway.core.pauses import Pause, PauseKind
from headway_lab.simulation.faults import Faults, Stop
from headway_lab.simulation.law_book import LawBook
from headway_lab.simulation.workers import SimulatedWorkers

READS = (PauseKind.ALL, PauseKind.SUPPLIER, PauseKind.SELLER)
WRITES = (PauseKind.ALL, PauseKind.SELLER)


class Stops:
    """The pauses of a run; a seller's are the first seller's."""

    def __init__(self, faults: Faults, *, book: LawBook, clock: Clock, seller: SellerId) -> None:
        self._stops = faults.stops
        self._book = book
        self._clock = clock
        self._seller = seller
        # A worker whose clock is ahead takes a pause for over before it is.
        self._skew_s = faults.skew_max_s

    def spawn(self, crew: SimulatedWorkers, pause: Callable[[Pause, datetime], None]) -> None:
        """Let a person pause when it is time; each pause ends by itself."""
        for stop in self._stops:
            crew.spawn_at(stop.span.start_s, lambda stop=stop: self._begin(stop, pause))  # type: ignore[misc]

    def claimed(self, listings: Sequence[Listing]) -> None:
        """Check that nobody boarded who is paused."""
        for listing in listings:
            if self.stops(listing.user_id, READS):
                self._book.broken(
                    "L1", f"{listing.sku} of {listing.user_id} was claimed while paused"
                )

    def called(self, purpose: str) -> None:
        """Check that the supplier may be called at all, for a token as well."""
        if self.stops(None, READS):
            self._book.broken("L1", f"a call ({purpose}) left while all calls were paused")

    def visited(self, seller: SellerId) -> None:
        """Check that a shop may be visited."""
        if self.stops(seller, WRITES):
            self._book.broken("L1", f"the shop of {seller} was visited while paused")

    def stops(self, seller: SellerId | None, kinds: Sequence[PauseKind] = READS) -> bool:
        """Tell whether a pause surely stops this seller now, or None for everybody."""
        now_s = self._clock.monotonic()
        return any(
            stop.span.start_s < now_s < stop.span.end_s - self._skew_s
            and (stop.kind is not PauseKind.SELLER or seller == self._seller)
            for stop in self._stops
            if stop.kind in kinds
        )

    def _begin(self, stop: Stop, pause: Callable[[Pause, datetime], None]) -> None:
        now = self._clock.now()
        length = timedelta(seconds=stop.span.end_s - stop.span.start_s)
        seller = self._seller if stop.kind is PauseKind.SELLER else None
        pause(
            Pause(kind=stop.kind, seller=seller, since=now, until=now + length, actor="a person"),
            now,
        )
