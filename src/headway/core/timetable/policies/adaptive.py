"""`adaptive`: use every seat where it saves the most staleness, no listing older than a day.

A listing is due when a read is worth the current price of a seat. How often it changes is learned
(`rates`), and which listings change with it (`families`); the price follows the queue (`market`).
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Self

from headway.core.catalog.listings import Evidence, Listing, Priority, Sku
from headway.core.timetable.deadline import DEADLINE_MIN
from headway.core.timetable.families import (
    HOPELESS,
    SHARES,
    Episode,
    Family,
    own_chance,
    pooled_factors,
)
from headway.core.timetable.market import Lesson, Market, Sweep, look_after_min, worth
from headway.core.timetable.policies.policy import (
    DAY,
    EMPTY,
    CatalogSummary,
    Next,
    Placement,
    ReadResult,
    RetryWindow,
    latest_due,
    stable_number,
)
from headway.core.timetable.rates import BINS, bin_of, learn

MINUTE = timedelta(minutes=1)
DEADLINE = DEADLINE_MIN * MINUTE
# New listings are due within so long, in an order that their SKUs decide: a claim is slow where
# thousands are due at one instant.
PLACE_SPREAD = timedelta(minutes=15)
NUMBERS = 1 << 32
# Not at once, though the deadline be near: what failed just now would fail again.
RETRY_SOONEST = timedelta(minutes=5)
# The number of companions to read while it is uncertain whether there was a list at all.
SWEEP_SIZE = 8
# From these odds on (e^0.5 : 1) a list is believed, and the whole family swept.
BELIEVED = 0.62
# No listing is due again sooner: a call lasts about as long.
LOOK_AFTER_MIN = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Due when a read is worth its price; at the latest two hours before the deadline."""

    name: str = "adaptive"
    slack: timedelta = timedelta(0)
    # The queue is often a little late, which is harmless. A listing that the deadline guard moved
    # is due since its last read, so it has no patience left; others keep one of two hours.
    patience: timedelta = timedelta(hours=1)
    age_max: timedelta = timedelta(hours=24)
    is_eager: bool = True
    weighs_slots: bool = False
    market: Market = field(default_factory=lambda: Market(listings=1, seats_per_min=20.0))

    def place(self, sku: Sku, now: datetime, catalog: CatalogSummary = EMPTY) -> Placement:
        """Make a new listing due within minutes; its slot only records that."""
        del catalog
        due = now + PLACE_SPREAD * ((1 + stable_number(sku)) / NUMBERS)
        return Placement(hour_bucket=due.hour, minute_offset=due.minute, next_sync_at=due)

    def next_read(self, read: ReadResult) -> Next:
        """Learn from the read, and return when the next one will be worth the price."""
        listing, market = read.listing, self.market
        evidence, read_at = listing.evidence, listing.last_successful_sync
        if read_at is not None:
            rate = market.prior.rate(evidence)
            evidence = learn(
                evidence,
                gap_days=(read.at - read_at) / DAY,
                rate=rate,
                has_changed=read.has_changed,
                at=read.at,
                share=1 - self._explained(read, rate),
            )
        rate = self._rate(evidence, read.at)
        wait_min = look_after_min(rate, market.going_price, listing.value_weight, DEADLINE_MIN)
        due = read.at + max(LOOK_AFTER_MIN, wait_min) * MINUTE
        return Next(next_sync_at=due, evidence=evidence)

    def chance(self, listing: Listing, at: datetime) -> float:
        """Return how likely it has changed since it was read last; 0 for a part never read."""
        read_at = listing.last_successful_sync
        if read_at is None:
            return 0.0
        return own_chance(self._rate(listing.evidence, at), (at - read_at) / DAY)

    def next_try(self, listing: Listing, now: datetime, backoff: timedelta) -> datetime:
        """Return the end of the backoff, or the deadline if that comes first.

        Most are read close to the deadline; for them it is what the law allows beyond it.
        """
        due, read_at = now + backoff, listing.last_successful_sync
        if read_at is None:
            return due
        lawful = latest_due(read_at, age_max=self.age_max, slack=self.slack)
        last = next((at for at in (read_at + DEADLINE, lawful) if at > now), due)
        return min(due, max(last, now + RETRY_SOONEST))

    def retry_window(self, now: datetime, listings: int) -> RetryWindow | None:
        """Return None: retries may go at any time."""
        del now, listings
        return None

    def informed(self, market: Market) -> Self:
        """Return the policy as it decides in this market."""
        return replace(self, market=market)

    def learn(self, reads: list[ReadResult]) -> Lesson:
        """Return what one call taught: the queue's lag, repeated changes, and family changes."""
        lags = [
            (result.at - result.listing.next_sync_at) / MINUTE
            for result in reads
            if _is_timely(result)
        ]
        tally = _Tally()
        for result in reads:
            self._count_recency(result, tally)
        families = {result.listing.family for result in reads if result.listing.family}
        for name in sorted(families):
            self._count_family(
                self.market.families.get(name, Family(name=name)),
                [result for result in reads if result.listing.family == name],
                tally,
            )
        return Lesson(
            lag_min=min(lags, default=None),
            hits=tally.hits,
            hits_expected=tally.hits_expected,
            families=tally.families,
            sweeps=tally.sweeps,
            spares=tally.spares,
        )

    def reason(self, listing: Listing, now: datetime) -> str:
        """Return in one sentence why a listing is read when it is."""
        evidence, read_at = listing.evidence, listing.last_successful_sync
        if read_at is None:
            return f"never read yet; first look {listing.next_sync_at:%H:%M}"
        rate = self._rate(evidence, now)
        age_min = max(0.0, (now - read_at) / MINUTE)
        stale = own_chance(rate, age_min / 1440)
        value = worth(rate, age_min, listing.value_weight)
        changes = round(evidence.changes_seen)
        days = round(evidence.watched_days)
        counted = f"{changes} change{'' if changes == 1 else 's'}"
        watched = f"{days} day{'' if days == 1 else 's'}"
        swept = ", its family is being swept" if listing.swept_from is not None else ""
        return (
            f"{counted} in {watched} → {_short(rate)} a day;"
            f" {stale * 100:.0f} % likely stale; worth {_short(value)} min,"
            f" current price {_short(self.market.going_price)}{swept};"
            f" next read {listing.next_sync_at:%H:%M}"
        )

    def _rate(self, evidence: Evidence, at: datetime) -> float:
        """Return the changes a day to expect right now."""
        since = at - evidence.changed_at if evidence.changed_at is not None else None
        return self.market.prior.rate(evidence) * self.market.recency.factor(since)

    def _pooled(self) -> tuple[float, ...]:
        recency, first = self.market.recency, len(BINS)
        return pooled_factors(recency.hits[first:], recency.hits_expected[first:])

    def _explained(self, read: ReadResult, rate: float) -> float:
        """Return how much of a change is the doing of a list that hit the whole family."""
        listing = read.listing
        family = self.market.families.get(listing.family) if listing.family else None
        episode, read_at = family.episode if family else None, listing.last_successful_sync
        if not read.has_changed or episode is None or read_at is None:
            return 0.0
        return episode.explains(
            read_at=read_at, own_chance=own_chance(rate, (read.at - read_at) / DAY)
        )

    def _count_recency(self, read: ReadResult, tally: "_Tally") -> None:
        evidence, read_at = read.listing.evidence, read.listing.last_successful_sync
        if evidence.changed_at is None or read_at is None:
            return
        index = bin_of(read_at - evidence.changed_at)
        if index is None:
            return
        rate = self.market.prior.rate(evidence)
        tally.hits[index] += (1 - self._explained(read, rate)) * read.has_changed
        tally.hits_expected[index] += own_chance(rate, (read.at - read_at) / DAY)

    def _count_family(self, family: Family, in_call: list[ReadResult], tally: "_Tally") -> None:
        """Continue the family's episode, or open one, and record what to sweep or spare."""
        in_call = [
            candidate for candidate in in_call if candidate.listing.last_successful_sync is not None
        ]
        before, at = family, in_call[0].at if in_call else None
        if at is None:
            return
        is_over = family.episode and at - family.episode.opened_at > self._episode_max
        if is_over:
            family = self._close(family, at, tally)
        if family.episode is None:
            family, in_call = self._open(family, in_call)
        if family.episode is not None:
            family = self._weigh(family, in_call, tally)
        if family != before:
            tally.families.append(family)

    @property
    def _episode_max(self) -> timedelta:
        """The age of an episode after which every companion was read anyway."""
        return max(30.0, self.market.round_min) * MINUTE

    def _open(self, family: Family, in_call: list[ReadResult]) -> tuple[Family, list[ReadResult]]:
        """Open an episode with the change that is the most surprising; the others are evidence."""
        changed = [candidate for candidate in in_call if candidate.has_changed]
        if not changed:
            return family, []
        opener = min(changed, key=lambda result: self._rate(result.listing.evidence, result.at))
        read_at = opener.listing.last_successful_sync
        assert read_at is not None
        family = family.opened(
            began_at=read_at,
            at=opener.at,
            rate=self._rate(opener.listing.evidence, opener.at),
            pooled=self._pooled(),
        )
        return family, [candidate for candidate in in_call if candidate is not opener]

    def _weigh(self, family: Family, in_call: list[ReadResult], tally: "_Tally") -> Family:
        """Update the episode from the companions in the call, and act on it."""
        episode = family.episode
        assert episode is not None
        for candidate in in_call:
            read_at = candidate.listing.last_successful_sync
            assert read_at is not None
            rate = self._rate(candidate.listing.evidence, candidate.at)
            episode = episode.after(
                read_at=read_at,
                own_chance=own_chance(rate, (candidate.at - read_at) / DAY),
                has_changed=candidate.has_changed,
            )
        saved_min = episode.hit_chance * self.market.round_min
        if saved_min < self.market.going_price:
            if episode.asked or episode.asks_all:
                tally.spares.append(family.name)
                episode = replace(episode, asked=0, asks_all=False)
            family = replace(family, episode=episode)
            is_hopeless = episode.chance < HOPELESS
            return self._close(family, episode.opened_at, tally) if is_hopeless else family
        episode = self._sweep(family.name, episode, saved_min, tally)
        return replace(family, episode=episode)

    def _sweep(self, name: str, episode: Episode, saved_min: float, tally: "_Tally") -> Episode:
        """Ask a few companions, or all of them once the list is believed."""
        if episode.asks_all or (episode.chance < BELIEVED and episode.answered < episode.asked):
            return episode
        # A read late in the span has most likely come after the list.
        span = episode.opened_at - episode.began_at
        read_before = episode.opened_at - span * (self.market.going_price / saved_min)
        if episode.chance >= BELIEVED:
            tally.sweeps.append(Sweep(family=name, read_before=read_before))
            return replace(episode, asks_all=True)
        tally.sweeps.append(Sweep(family=name, read_before=read_before, limit=SWEEP_SIZE))
        return replace(episode, asked=episode.answered + SWEEP_SIZE)

    def _close(self, family: Family, at: datetime, tally: "_Tally") -> Family:
        """End the episode, and count whether it was a list."""
        family, observed, expected = family.closed(at)
        for n in range(len(SHARES)):
            tally.hits[len(BINS) + n] += observed[n]
            tally.hits_expected[len(BINS) + n] += expected[n]
        return family


@dataclass(slots=True, kw_only=True)
class _Tally:
    """A lesson being written: the bins of recency, then one for each share of `families`."""

    hits: list[float] = field(default_factory=lambda: [0.0] * (len(BINS) + len(SHARES)))
    hits_expected: list[float] = field(default_factory=lambda: [0.0] * (len(BINS) + len(SHARES)))
    families: list[Family] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    spares: list[str] = field(default_factory=list)


def _is_timely(read: ReadResult) -> bool:
    """Return True if a listing was in the call at its own due time, so its lag shows the queue's.

    A listing that the deadline guard moved forward has a due time before its last read.
    """
    listing = read.listing
    return (
        listing.priority is Priority.SCHEDULED
        and listing.swept_from is None
        and listing.last_successful_sync is not None
        and listing.next_sync_at > listing.last_successful_sync
    )


def _short(number: float) -> str:
    """Return a number with two digits that matter."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"  # noqa: PLR2004


POLICY = Adaptive()
