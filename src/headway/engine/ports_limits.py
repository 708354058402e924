"""What the engine needs of limits, as protocols; the store's limiter fits them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headway.core.limits.transitions import BeginResult, CallReport, Observation, Permit, Rejected


class Limiter(Protocol):
    """Permission to make one call, in two phases; see `core.limits` for the rules."""

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
        begins: bool = False,
        after: Permit | None = None,
        report: CallReport | None = None,
    ) -> Permit | Rejected:
        """Queue for a start time; refuse at once when the wait would be too long.

        With `begins`, a permit whose start is now has begun (`granted`). `after` is a call on these
        keys that was sent and has ended as `report` says: it is settled with this.
        """

    def knows(self, permit: Permit) -> bool:
        """Return True if the limits of a permit are known here, where another may have reserved it.

        An unknown permit lapses.
        """

    def begin(self, permit: Permit) -> BeginResult:
        """Ask to send now: Granted, NotYet (come back later) or Expired (reserve again)."""

    def settle(
        self,
        permit: Permit,
        *,
        sent: bool,
        actual: float | None = None,
        is_late: bool = False,
        report: CallReport | None = None,
        observation: Observation | None = None,
    ) -> None:
        """Settle the call: store how it ended, and what its reply reported about the meter.

        `is_late` when it may still arrive after our finish.
        """

    def spend(self, permit: Permit, amount: float, *, lease_s: float = 0) -> bool:
        """Count a part of what a permit reserved of a quota as used; False if it has not that much.

        With `lease_s` the reservation lives at least that much longer.
        """

    def extend(self, permit: Permit, amount: float) -> bool:
        """Reserve more of a quota for a call in flight; return False if it is not available."""

    def limit_of(self, key: str) -> float:
        """Return the limit of a key's quota, as replies have taught it."""

    def left_of(self, key: str) -> float:
        """Return what is not used of a key's quota, as replies have corrected it."""

    def observe(self, key: str, observation: Observation, *, permit: Permit | None = None) -> None:
        """Correct a meter from a reply; name the reply's permit if it is not settled."""

    def pause(self, key: str, seconds: float, reason: str) -> None:
        """Block new calls for a while; a longer pause stays."""


class Ledger(Protocol):
    """The record of every call that was permitted."""

    def forget(self, before: datetime) -> int:
        """Remove calls that are over and began before that instant; return how many."""


class ErrorSharePort(Protocol):
    """How many replies of a limit key were errors."""

    def count(self, key: str, *, since: datetime) -> tuple[int, int]:
        """Return the error replies and all replies of calls that began after that."""

    def pause_for(self, key: str, *, now: datetime) -> float | None:
        """Return for how many seconds calls of this limit key must pause; None for not at all."""
