"""Pauses in a run, and checks that they hold: no call is sent, no listing is claimed.

A pause is a limit of no calls at all, so a call during a pause breaks law L1.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from headway.clock import Clock
from headway.core.catalog.listings import Listing, SellerId
from headway.core.pauses import Pause, PauseKind
from headway_lab.simulation.faults import Faults, PlannedPause
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.simulation.workers import SimulatedWorkers

READS = (PauseKind.ALL, PauseKind.SUPPLIER, PauseKind.SELLER)
WRITES = (PauseKind.ALL, PauseKind.SELLER)


class PauseChecks:
    """The pauses of a run; a seller's are the first seller's."""

    def __init__(
        self, faults: Faults, *, violations: ViolationLog, clock: Clock, seller: SellerId
    ) -> None:
        self._planned = faults.planned_pauses
        self._violations = violations
        self._clock = clock
        self._seller = seller
        # A worker whose clock is ahead considers a pause over before it is.
        self._skew_s = faults.skew_max_s

    def spawn(self, workers: SimulatedWorkers, pause: Callable[[Pause, datetime], None]) -> None:
        """Pause when it is time; each pause ends by itself."""
        for planned in self._planned:
            workers.spawn_at(planned.span.start_s, partial(self._begin, planned, pause))

    def claimed(self, listings: Sequence[Listing]) -> None:
        """Check that no paused listing was claimed."""
        for listing in listings:
            if self.is_paused(listing.user_id, READS):
                self._violations.add(
                    "L1", f"{listing.sku} of {listing.user_id} was claimed while paused"
                )

    def called(self, purpose: str) -> None:
        """Check that the supplier may be called at all, for a token as well."""
        if self.is_paused(None, READS):
            self._violations.add("L1", f"a call ({purpose}) left while all calls were paused")

    def visited(self, seller: SellerId) -> None:
        """Check that a push to this shop is allowed."""
        if self.is_paused(seller, WRITES):
            self._violations.add("L1", f"the shop of {seller} was visited while paused")

    def is_paused(self, seller: SellerId | None, kinds: Sequence[PauseKind] = READS) -> bool:
        """Return True if a pause surely applies to this seller now; None means all sellers."""
        now_s = self._clock.monotonic()
        return any(
            planned.span.start_s < now_s < planned.span.end_s - self._skew_s
            and (planned.kind is not PauseKind.SELLER or seller == self._seller)
            for planned in self._planned
            if planned.kind in kinds
        )

    def _begin(self, planned: PlannedPause, pause: Callable[[Pause, datetime], None]) -> None:
        now = self._clock.now()
        length = timedelta(seconds=planned.span.end_s - planned.span.start_s)
        seller = self._seller if planned.kind is PauseKind.SELLER else None
        pause(
            Pause(
                kind=planned.kind, seller=seller, since=now, until=now + length, actor="a person"
            ),
            now,
        )
