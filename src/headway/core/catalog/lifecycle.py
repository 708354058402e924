"""What follows from a read of a listing: outcome, next due time, failures, parking, events.

Only evidence about one SKU counts against it (law L8). A failed call goes through `suspicions`,
which charges no listing until bisecting leaves a single suspect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from headway.core.catalog.change_detection import Observed, observe
from headway.core.catalog.guard import (
    MassChange,
    SellerSettings,
    Weighed,
    has_changed_lately,
    hold_publication,
    is_same_offer,
    mass_changes,
    weigh,
)
from headway.core.catalog.listings import (
    Evidence,
    Listing,
    ListingEvent,
    Outcome,
    Priority,
    Quote,
    Reply,
    SellerId,
    Sku,
)
from headway.core.catalog.staging import Staging, stage
from headway.core.timetable.policies.policy import Policy, ReadResult
from headway.core.timetable.seats import is_accused

# The least suspicion after a reply that says nothing about a listing: it is no outage, so the
# batch is bisected at once.
UNCLEAR = 2
STOCK_KINDS = ("quantity_changed", "stock_status_changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
    """How often one SKU may fail, and how long it waits in between."""

    failures_max: int = 5
    backoff_base: timedelta = timedelta(hours=2)
    backoff_max: timedelta = timedelta(hours=24)
    missing_confirmations: int = 3
    draft_parked: bool = False

    def backoff(self, failures: int) -> timedelta:
        """Return the wait after this many failures in a row: 2, 4, 8, 16, 24 hours."""
        return min(self.backoff_max, self.backoff_base * (1 << min(failures - 1, 30)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Everything that one read writes about one listing, in one transaction.

    A desired state of None changes nothing; held states also stay after a failure. `is_news` if
    the shop shows the change, or would without an approval: what a policy counts as a change.
    """

    listing: Listing
    outcome: Outcome
    priority: Priority
    next_sync_at: datetime
    failures: int = 0
    missing_count: int = 0
    suspicion: int = 0
    is_parked: bool = False
    error: str | None = None
    observed: Observed | None = None
    desired: Mapping[str, Any] | None = None
    proposed: Mapping[str, Any] | None = None
    rejected: Mapping[str, Any] | None = None
    held_reason: str | None = None
    staging: Staging | None = None
    evidence: Evidence | None = None
    family: str | None = None
    is_news: bool = False
    events: tuple[ListingEvent, ...] = field(default_factory=tuple)

    @property
    def is_good_read(self) -> bool:
        """True if the supplier's reply covers this SKU."""
        return self.outcome is not Outcome.FAILED

    @property
    def is_blocked(self) -> bool:
        """True if the part cannot be published in this state."""
        return self.staging is not None and self.staging.status == "blocked"

    @property
    def changes_desired(self) -> bool:
        """True if the desired state of the shop changed."""
        return self.desired is not None and self.desired != self.listing.desired

    @property
    def mass_changes(self) -> set[MassChange]:
        """What the guard against mass changes counts of this change, applied or held."""
        old, new = self.listing.desired, self.proposed or self.desired
        if old is None or new is None:
            return set()
        return mass_changes(old, new) & mass_changes(self.listing.proposed or old, new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The rules of a deployment, applied to one reply."""

    rule: FailureRule
    policy: Policy

    def settle_all(
        self,
        listings: Sequence[Listing],
        reply: Reply,
        now: datetime,
        settings_by_seller: Mapping[SellerId, SellerSettings],
    ) -> list[Settlement]:
        """Return the settlements of all listings in a call; each change counts for the next."""
        settings_by_seller = dict(settings_by_seller)
        settlements = []
        for listing in listings:
            settings = settings_by_seller[listing.user_id]
            settled = self.settle(listing, reply, now, settings)
            settings_by_seller[listing.user_id] = settings.counting(
                kind for kind in settled.mass_changes if not has_changed_lately(listing, kind, now)
            )
            settlements.append(settled)
        return settlements

    def settle(
        self, listing: Listing, reply: Reply, now: datetime, settings: SellerSettings
    ) -> Settlement:
        """Return the settlement of one listing of a call, given the reply."""
        quote = reply.quotes.get(listing.sku)
        if quote is not None:
            raw = None if listing.batch_id is None else reply.raw.get(listing.sku)
            return self._read(listing, quote, raw, now, settings)
        reason = reply.faulty.get(listing.sku) or reply.unclear.get(listing.sku)
        if reason is not None:
            error = f"unusable line: {reason}"
            return self.charge(listing, now, error, code="UNUSABLE_REPLY", settings=settings)
        return self._missed(listing, now, settings)

    def _read(
        self,
        listing: Listing,
        quote: Quote,
        raw: Mapping[str, Any] | None,
        now: datetime,
        settings: SellerSettings,
    ) -> Settlement:
        terms = settings.terms.of_part(listing.sku, listing.family or quote.vendor)
        if terms is not settings.terms:
            settings = replace(settings, terms=terms)
        observed = observe(quote, terms)
        has_changed = observed.fingerprint() != listing.last_boeing_hash
        events = _change_events(listing, observed) if has_changed else ()
        weighed, staging, error = weigh(listing, observed, settings, now), None, None
        if listing.batch_id is not None:
            staging = stage(quote, observed, weighed, settings.terms, raw)
        if staging is not None and staging.status == "blocked":
            error = staging.reason
            weighed = hold_publication(listing, observed, weighed, error)
            if weighed.held_reason not in {None, listing.held_reason}:
                blocked = ListingEvent(kind="publish_blocked", new=observed.as_json(), error=error)
                events += (blocked,)
        elif _is_new_hold(listing, weighed, events):
            new = weighed.proposed or observed.as_json()
            held = ListingEvent(
                kind="change_held", old=listing.desired, new=new, error=weighed.held_reason
            )
            events += (held,)
        is_held = weighed.held_reason is not None
        is_news = has_changed and (is_held or weighed.desired != listing.desired)
        following = self.policy.next_read(ReadResult(listing=listing, at=now, has_changed=is_news))
        return Settlement(
            listing=listing,
            outcome=Outcome.UPDATED if has_changed else Outcome.UNCHANGED,
            priority=Priority.SCHEDULED,
            next_sync_at=following.next_sync_at,
            error=error,
            observed=observed,
            desired=weighed.desired,
            proposed=weighed.proposed,
            rejected=weighed.rejected,
            held_reason=weighed.held_reason,
            staging=staging,
            evidence=following.evidence,
            family=listing.family or quote.vendor or None,
            is_news=is_news,
            events=events,
        )

    def _missed(self, listing: Listing, now: datetime, settings: SellerSettings) -> Settlement:
        """Count a missing SKU; withdraw its stock only once that is confirmed."""
        count = listing.missing_count + 1
        events: tuple[ListingEvent, ...] = (
            ListingEvent(kind="sku_missing", new={"missing_count": count}),
        )
        weighed = Weighed()
        beyond = count - self.rule.missing_confirmations
        # Above zero if the setting was lowered meanwhile: then withdraw stock that is still shown.
        if (shown := listing.desired) is not None and (
            beyond == 0 or (beyond > 0 and any(shown["quantities"].values()))
        ):
            weighed, event = _withdraw(listing, shown, now, settings)
            events += event
        counted = f"{count} times" if beyond > 0 else f"{count} of {count - beyond}"
        error = f"not in the supplier's reply ({counted})"
        return self.charge(
            listing,
            now,
            error,
            code="NOT_FOUND",
            missing_count=count,
            # Where replies without it were unclear, it is still not put into a call with many such.
            suspicion=min(listing.suspicion, UNCLEAR),
            weighed=weighed,
            events=events,
            settings=settings,
        )

    def charge(
        self,
        listing: Listing,
        now: datetime,
        error: str,
        *,
        code: str = "FAILED",
        missing_count: int = 0,
        suspicion: int = 0,
        weighed: Weighed | None = None,
        events: tuple[ListingEvent, ...] = (),
        settings: SellerSettings | None = None,
    ) -> Settlement:
        """Count a failure of this very SKU; back off, and park it when there were too many."""
        failures = listing.consecutive_failures + 1
        is_parked = failures >= self.rule.failures_max
        weighed, staging = weighed or Weighed(), None
        new = {"failures": failures}
        events += (ListingEvent(kind="sync_failed", new=new, error=error, code=code),)
        if is_parked:
            events += (ListingEvent(kind="product_deactivated", error=error),)
            weighed, held = self._parked(listing, weighed, now, settings)
            events += held
            if listing.batch_id is not None:
                staging = Staging(status="failed", reason=error)
        return Settlement(
            listing=listing,
            outcome=Outcome.FAILED,
            priority=Priority.RETRY,
            next_sync_at=self.policy.next_try(
                replace(listing, consecutive_failures=failures), now, self.rule.backoff(failures)
            ),
            failures=failures,
            missing_count=missing_count,
            suspicion=suspicion,
            is_parked=is_parked,
            error=error,
            desired=weighed.desired,
            proposed=weighed.proposed,
            held_reason=weighed.held_reason,
            staging=staging,
            events=events,
        )

    def _parked(
        self, listing: Listing, weighed: Weighed, now: datetime, settings: SellerSettings | None
    ) -> tuple[Weighed, tuple[ListingEvent, ...]]:
        """Take a part off sale until it is revived, if that is the rule and it is known at all.

        Its stock goes too: a product with other variants stays for sale, and this one must not.
        Too many within a day wait for a person, as whatever else empties a shop.
        """
        old, shown = listing.desired, weighed.desired or listing.desired
        if old is None or shown is None or not self.rule.draft_parked:
            return weighed, ()
        nothing = dict.fromkeys(shown["quantities"], 0)
        off = {**shown, "quantities": nothing, "status": "DRAFT"}
        mass = settings.find_mass(MassChange.STOCK, listing, off, now) if settings else None
        if mass is None:
            return replace(weighed, desired=off), ()
        held = replace(weighed, desired=None, proposed=off, held_reason=mass)
        if weighed.held_reason or not _is_new_hold(listing, held, ()):
            return held, ()
        return held, (ListingEvent(kind="change_held", old=old, new=off, error=mass),)


def unclear_skus(reply: Reply, listings: Sequence[Listing]) -> Mapping[Sku, str]:
    """Return the SKUs about which a reply says nothing that could be held against them, and why.

    One part can make the whole reply empty, or hold one line without a name. Only a part that is
    missing beside others that were answered, or that was alone, is missing for certain; where that
    was so of all before, an empty reply is what was to be expected.
    """
    unclear = dict(reply.unclear)
    is_expected = all(listing.missing_count > 0 for listing in listings)
    if not reply.quotes and not reply.faulty and not is_expected:
        unclear |= dict.fromkeys(reply.missing, "the reply holds none of the parts")
    return unclear if len(unclear) > 1 else {}


def suspicions(
    listings: Sequence[Listing], seats: int, *, last_call_was_good: bool, least: int = 1
) -> tuple[dict[str, int], list[Listing]]:
    """After a failed call, return each listing's suspicion by id, and the convicted listings.

    A SKU is convicted when the supplier had just answered others, it was the only suspect in the
    call, it had failed as the only one before, and every other SKU in the call was read before. The
    other listings of that call are unchanged.
    """
    accused = {listing.sku for listing in listings if is_accused(listing.suspicion, seats)}
    others = [listing for listing in listings if listing.sku not in accused]
    is_certain = all(
        listing.last_successful_sync is not None and not listing.suspicion for listing in others
    )
    if last_call_was_good and len(accused) == 1 and is_certain:
        convicted = [listing for listing in listings if listing.sku in accused]
        return {listing.id: listing.suspicion for listing in listings}, convicted
    return {listing.id: max(least, listing.suspicion + 1) for listing in listings}, []


def _change_events(listing: Listing, observed: Observed) -> tuple[ListingEvent, ...]:
    old, new = listing.observed, observed.as_json()
    if old is None:
        return (ListingEvent(kind="first_observed", new=new),)
    kinds = {
        "price_changed": ("list_price", "currency"),
        "cost_changed": ("net_price",),
        "quantity_changed": ("quantities",),
    }
    events = tuple(
        ListingEvent(
            kind=kind,
            old={f: old.get(f) for f in fields} | _document_values(kind, old),
            new={f: new[f] for f in fields} | _document_values(kind, new),
        )
        for kind, fields in kinds.items()
        if any(old.get(f) != new[f] for f in fields)
    )
    before, after = _stock_status(old), _stock_status(new)
    if before == after:
        return events
    status = {"stock_status": before}, {"stock_status": after}
    return (*events, ListingEvent(kind="stock_status_changed", old=status[0], new=status[1]))


def _document_values(kind: str, observed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what readers of the history look for under the documents' names."""
    if kind == "cost_changed":
        return {}
    values = {"price": observed.get("list_price") or observed.get("net_price")}
    if kind == "quantity_changed":
        values["quantity"] = sum((observed.get("quantities") or {}).values())
    return values


def _stock_status(observed: Mapping[str, Any]) -> str:
    return "in stock" if any((observed.get("quantities") or {}).values()) else "out of stock"


def _is_new_hold(listing: Listing, weighed: Weighed, events: tuple[ListingEvent, ...]) -> bool:
    """Return True if the held change is new, so that each is reported once."""
    if weighed.held_reason is None:
        return False
    if weighed.proposed is not None:
        return listing.proposed is None or not is_same_offer(weighed.proposed, listing.proposed)
    is_same_price = all(event.kind in STOCK_KINDS for event in events)
    return weighed.held_reason != listing.held_reason or not is_same_price


def _withdraw(
    listing: Listing, shown: Mapping[str, Any], now: datetime, settings: SellerSettings
) -> tuple[Weighed, tuple[ListingEvent, ...]]:
    """Set the stock of a missing part to zero, unless that exceeds the mass limit."""
    nothing = {"quantities": dict.fromkeys(shown["quantities"], 0)}
    empty = {**shown, **nothing}
    mass = settings.find_mass(MassChange.STOCK, listing, empty, now)
    if mass is None:
        # A price that waits for approval must not bring the stock back with it.
        proposed = listing.proposed and {**listing.proposed, **nothing}
        event = ListingEvent(kind="not_listed", old=shown, new=empty)
        return Weighed(desired=empty, proposed=proposed), (event,)
    weighed = Weighed(proposed=empty, held_reason=mass)
    if not _is_new_hold(listing, weighed, ()):
        return weighed, ()
    return weighed, (ListingEvent(kind="change_held", old=shown, new=empty, error=mass),)
