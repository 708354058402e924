"""What the engine needs from the outside, as protocols; the store and the connectors fit them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headway.core.breaker import Breaker
from headway.core.lifecycle import Settlement
from headway.core.limits import Begun, CallReport, Shed, Ticket
from headway.core.model import AuthStep, Candidate, Listing, Reply, Scope, Sku

__all__ = ["Breakers", "CallReport", "Limiter", "Schedule", "Supplier"]


class Limiter(Protocol):
    """Leave to make one call, in two phases; see `core.limits` for the rules."""

    def reserve(
        self,
        keys: Sequence[str],
        *,
        cost: float = 1,
        priority: int = 0,
        owner: str,
        max_wait_s: float,
        lease_s: float,
        grace_s: float,
        purpose: str = "",
    ) -> Ticket | Shed:
        """Queue for a start time; refuse at once when the wait would be too long."""

    def begin(self, ticket: Ticket) -> Begun:
        """Ask to send now: Go, Hold (come back later) or Gone (reserve again)."""

    def settle(
        self,
        ticket: Ticket,
        *,
        sent: bool,
        actual: float | None = None,
        is_late: bool = False,
        report: CallReport | None = None,
    ) -> None:
        """Say how the call ended; `is_late` when it may still arrive after our finish."""

    def pause(self, key: str, seconds: float, reason: str) -> None:
        """Let nothing start for a while, longer if already so."""


class Ledger(Protocol):
    """The record of every call that was permitted."""

    def forget(self, before: datetime) -> int:
        """Remove calls that are over and began before that instant; return how many."""


class Schedule(Protocol):
    """The rows of `product_sync_schedule`: front of the queue, claim, settle, rescue."""

    def front(
        self,
        now: datetime,
        *,
        limit: int,
        without: Collection[Sku] = (),
        only_clean: bool = False,
    ) -> list[Candidate]:
        """Return the listings that may board next, a few of each turn, by due time.

        `only_clean` leaves out whoever was aboard a failed call since its last good one.
        """

    def claim(
        self, skus: Sequence[Sku], *, now: datetime, owner: str, lease_until: datetime
    ) -> list[Listing]:
        """Lease every free listing of these SKUs, of every seller, under a new fence."""

    def settle(self, settlements: Sequence[Settlement], *, now: datetime, call_id: str) -> int:
        """Write outcomes, states and events in one transaction; return how many were refused."""

    def release(self, listings: Sequence[Listing], *, suspicion: Mapping[str, int]) -> int:
        """Give seats back untouched, with the given suspicion by listing id; return how many."""

    def pardon(self) -> int:
        """Lift the suspicion from everybody who is not aboard a call; return how many."""

    def rescue(self, now: datetime) -> int:
        """Free the listings whose holder fell silent; return how many."""


class Breakers(Protocol):
    """Whether a supplier is believed to answer."""

    def load(self, scope: Scope) -> Breaker:
        """Return the breaker of this supplier; closed if it never tripped."""

    def save(self, scope: Scope, breaker: Breaker) -> None:
        """Keep it."""


class Supplier(Protocol):
    """An outside API that quotes price and stock for a few SKUs per call."""

    @property
    def scope(self) -> Scope:
        """The credential that the limit binds."""

    @property
    def seats(self) -> int:
        """How many SKUs fit one call."""

    def auth_step(self) -> AuthStep | None:
        """Return the token request that must go first, if any."""

    def authenticate(self, step: AuthStep, *, send_by_s: float) -> bool:
        """Make that token request; False if none was made. Raises ConnectorError.

        None is made while another worker is at it, nor after the monotonic second `send_by_s`.
        """

    def quote(self, skus: Sequence[Sku]) -> Reply:
        """Ask for these SKUs; raises ConnectorError."""
