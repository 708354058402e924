"""What becomes of a listing after its turn: outcome, next due time, failures, parking, events.

Only evidence about one SKU counts against it (law L8). A failed call goes through `suspicions`,
which charges nobody unless bisecting has left a single suspect.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headway.core.change import Desired, Held, Observed, Terms, desire, observe
from headway.core.model import Listing, Outcome, Reply, Turn
from headway.core.seats import is_suspect


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
    """How often one SKU may fail, and how long it waits in between."""

    failures_max: int = 5
    backoff_base: timedelta = timedelta(hours=2)
    backoff_max: timedelta = timedelta(hours=24)
    missing_confirmations: int = 3

    def backoff(self, failures: int) -> timedelta:
        """Return the wait after this many failures in a row: 2, 4, 8, 16, 24 hours."""
        return min(self.backoff_max, self.backoff_base * (1 << min(failures - 1, 30)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An append-only fact about a listing."""

    kind: str
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Everything that one turn writes about one listing, in one transaction."""

    listing: Listing
    outcome: Outcome
    turn: Turn
    next_sync_at: datetime
    failures: int = 0
    missing_count: int = 0
    suspicion: int = 0
    is_parked: bool = False
    error: str | None = None
    observed: Observed | None = None
    desired: Mapping[str, Any] | None = None
    held_reason: str | None = None
    events: tuple[Event, ...] = field(default_factory=tuple)

    @property
    def is_good_read(self) -> bool:
        """Whether the supplier told us about this SKU."""
        return self.outcome is not Outcome.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The rules of a deployment, applied to one reply."""

    terms: Terms
    rule: FailureRule
    reschedule: Callable[[Listing, datetime], datetime]

    def settle(self, listing: Listing, reply: Reply, now: datetime) -> Settlement:
        """Decide what a reply means for one of the listings that it was asked for."""
        quote = reply.quotes.get(listing.sku)
        if quote is not None:
            return self._read(listing, observe(quote, self.terms), now)
        if listing.sku in reply.faulty:
            return self.charge(listing, now, f"unusable line: {reply.faulty[listing.sku]}")
        return self._missed(listing, now)

    def _read(self, listing: Listing, observed: Observed, now: datetime) -> Settlement:
        wanted = desire(observed, self.terms)
        has_changed = observed.fingerprint() != listing.last_boeing_hash
        events = _change_events(listing, observed) if has_changed else ()
        held_reason = wanted.reason if isinstance(wanted, Held) else None
        # A changed setting may hold, or let go, what the supplier has not changed at all.
        if held_reason and (has_changed or held_reason != listing.held_reason):
            events += (Event(kind="change_held", new=observed.as_json(), error=held_reason),)
        return Settlement(
            listing=listing,
            outcome=Outcome.UPDATED if has_changed else Outcome.UNCHANGED,
            turn=Turn.SCHEDULED,
            next_sync_at=self.reschedule(listing, now),
            observed=observed,
            desired=wanted.as_json() if isinstance(wanted, Desired) else None,
            held_reason=held_reason,
            events=events,
        )

    def _missed(self, listing: Listing, now: datetime) -> Settlement:
        """Take absence for evidence only when it is confirmed; then the part is not for sale."""
        count = listing.missing_count + 1
        events: tuple[Event, ...] = (Event(kind="sku_missing", new={"missing_count": count}),)
        desired = None
        beyond = count - self.rule.missing_confirmations
        # Beyond, if the number was lowered meanwhile: whoever still shows stock shows none now.
        if (shown := listing.desired) is not None and (
            beyond == 0 or (beyond > 0 and any(shown["quantities"].values()))
        ):
            desired = {**shown, "quantities": dict.fromkeys(shown["quantities"], 0)}
            events += (Event(kind="not_listed", old=listing.desired, new=desired),)
        counted = f"{count} times" if beyond > 0 else f"{count} of {count - beyond}"
        error = f"not in the supplier's reply ({counted})"
        return self.charge(listing, now, error, missing_count=count, desired=desired, events=events)

    def charge(
        self,
        listing: Listing,
        now: datetime,
        error: str,
        *,
        missing_count: int = 0,
        suspicion: int = 0,
        desired: Mapping[str, Any] | None = None,
        events: tuple[Event, ...] = (),
    ) -> Settlement:
        """Count a failure of this very SKU; back off, and park it when there were too many."""
        failures = listing.consecutive_failures + 1
        is_parked = failures >= self.rule.failures_max
        events += (Event(kind="sync_failed", new={"failures": failures}, error=error),)
        if is_parked:
            events += (Event(kind="product_deactivated", error=error),)
        return Settlement(
            listing=listing,
            outcome=Outcome.FAILED,
            turn=Turn.RETRY,
            next_sync_at=now + self.rule.backoff(failures),
            failures=failures,
            missing_count=missing_count,
            suspicion=suspicion,
            is_parked=is_parked,
            error=error,
            desired=desired,
            events=events,
        )


def suspicions(
    listings: Sequence[Listing], seats: int, *, last_call_was_good: bool
) -> tuple[dict[str, int], list[Listing]]:
    """After a failed call, return each listing's suspicion by id, and whoever stands convicted.

    A SKU is convicted when the supplier had just answered others, it was the only suspect aboard,
    and it had failed as the only one before. The company of a convict stays as it was.
    """
    alone_at = 1 + math.ceil(math.log2(seats))
    suspects = {each.sku for each in listings if is_suspect(each.suspicion)}
    if last_call_was_good:
        convicted = [
            each for each in listings if each.suspicion > alone_at and suspects == {each.sku}
        ]
        if convicted:
            return {each.id: each.suspicion for each in listings}, convicted
    return {each.id: each.suspicion + 1 for each in listings}, []


def _change_events(listing: Listing, observed: Observed) -> tuple[Event, ...]:
    old, new = listing.observed, observed.as_json()
    if old is None:
        return (Event(kind="first_observed", new=new),)
    kinds = {
        "price_changed": ("list_price", "currency"),
        "cost_changed": ("net_price",),
        "quantity_changed": ("quantities",),
    }
    return tuple(
        Event(kind=kind, old={f: old.get(f) for f in fields}, new={f: new[f] for f in fields})
        for kind, fields in kinds.items()
        if any(old.get(f) != new[f] for f in fields)
    )
