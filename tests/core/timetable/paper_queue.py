"""The adaptive policy on paper: virtual minutes and a heap instead of a database.

It applies every lesson as the store does, and counts stale minutes against a known history.
Run it with
`python -m tests.core.timetable.paper_queue --world bursty --products 5000 --days 30 --seed 3`.
"""

import argparse
import heapq
import math
import sys
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.core.timetable.paper_worlds import DAY_MIN, WORLDS, World

from headway.clock import rng
from headway.core.catalog.listings import Evidence, Listing, Priority, SellerId, Sku
from headway.core.timetable.deadline import must, safe_min
from headway.core.timetable.families import Family
from headway.core.timetable.market import Lesson, Market, Sweep, look_after_min, price_after
from headway.core.timetable.policies.adaptive import Adaptive
from headway.core.timetable.policies.policy import ReadResult
from headway.core.timetable.rates import Prior, Recency

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SELLER = SellerId("s")
SEATS = 10
# What a strict limit of two calls a minute permits once calls take their time.
CALLS_A_DAY = 2740.0


@dataclass
class Score:
    """Stale minutes by listing, weighed, and the longest that anybody waited."""

    world: World
    days: float
    next_change: list[int] = field(init=False)
    read_min: list[float] = field(init=False)
    by_day: list[float] = field(init=False)
    # What the true rates let expect of the same reads: free of the luck of one history.
    expected_min: float = 0.0
    oldest_min: float = 0.0
    reads: int = 0

    def __post_init__(self) -> None:
        products = len(self.world.changes)
        self.next_change = [0] * products
        self.read_min = [0.0] * products
        self.by_day = [0.0] * (math.ceil(self.days) + 1)

    def read(self, n: int, at: float) -> bool:
        """Count the minutes that a read ends, and return True if there was a change."""
        self.reads += 1
        gap_min = at - self.read_min[n]
        self.oldest_min = max(self.oldest_min, gap_min)
        if self.world.rates is not None:
            self.expected_min += self.world.weights[n] * lost_min(self.world.rates[n], gap_min)
        self.read_min[n] = at
        changes, first = self.world.changes[n], self.next_change[n]
        if first >= len(changes) or changes[first] > at:
            return False
        self.by_day[int(at / DAY_MIN)] += self.world.weights[n] * (at - changes[first])
        self.next_change[n] = bisect_right(changes, at, first)
        return True

    def staleness_min(self, from_day: int = 0, to_day: int | None = None) -> float:
        """Return stale minutes per listing and day, of reads within these days."""
        last = len(self.by_day) if to_day is None else to_day
        days = min(self.days, last) - from_day
        return sum(self.by_day[from_day:last]) / len(self.world.changes) / days

    def finish(self) -> None:
        end = self.days * DAY_MIN
        for n in range(len(self.world.changes)):
            gap_min = end - self.read_min[n]
            self.oldest_min = max(self.oldest_min, gap_min)
            if self.world.rates is not None:
                self.expected_min += self.world.weights[n] * lost_min(self.world.rates[n], gap_min)
            changes, first = self.world.changes[n], self.next_change[n]
            if first < len(changes):
                self.by_day[-1] += self.world.weights[n] * max(0.0, end - changes[first])


def lost_min(rate: float, gap_min: float) -> float:
    """Return how many minutes of a gap are stale on average."""
    changes = rate * gap_min / DAY_MIN
    if changes < 1e-5:
        return gap_min * changes / 2
    return gap_min * (1 + math.expm1(-changes) / changes)


def call_times(world: World, days: float, seed: int, calls_a_day: float) -> list[float]:
    """Return when good calls leave; an outage or a failed call is a seat lost to everybody."""
    random = rng(f"calls {seed}")
    times = []
    for n in range(int(days * calls_a_day)):
        at = (n + random.uniform(0.0, 0.2)) * DAY_MIN / calls_a_day
        is_lost = random.random() < world.failed_share
        if not is_lost and not any(start <= at < end for start, end in world.outages):
            times.append(at)
    return times


class PaperLine:
    """A catalogue under `adaptive`, and the store's part in it."""

    def __init__(
        self, world: World, days: float, calls_a_day: float = CALLS_A_DAY, seats: int = SEATS
    ) -> None:
        self.policy = Adaptive()
        self.score = Score(world, days)
        self.world = world
        self.products = len(world.changes)
        self.seats = seats
        self.seats_per_min = calls_a_day * seats / DAY_MIN
        self.log_price: float | None = None
        self.updated_at = START
        self.prior, self.recency = Prior(), Recency()
        self.families: dict[str, Family] = {}
        self.members: dict[str, list[int]] = {}
        self.evidence = [Evidence()] * self.products
        self.read_at: list[datetime | None] = [None] * self.products
        self.swept_from: list[datetime | None] = [None] * self.products
        self.due: list[datetime] = []
        self.swept_reads = self.guarded_reads = 0
        for n, family in enumerate(world.families):
            self.due.append(self.policy.place(Sku(str(n)), START).next_sync_at)
            if family is not None:
                self.members.setdefault(family, []).append(n)
        self.queue = [(due, n) for n, due in enumerate(self.due)]
        heapq.heapify(self.queue)

    def run(self, calls: list[float]) -> Score:
        minute, fits = 0, list(fit_times(self.score.days))
        for at in calls:
            while fits and fits[0] <= at:
                self.refit(is_new_day=fits.pop(0) % DAY_MIN == 0)
            if int(at) > minute:
                minute = int(at)
                self.guard(at)
            self.call(at)
        self.score.finish()
        return self.score

    def market(self) -> Market:
        return Market(
            listings=self.products,
            seats_per_min=self.seats_per_min,
            price=None if self.log_price is None else math.exp(self.log_price),
            prior=self.prior,
            recency=self.recency,
            families=self.families,
            updated_at=self.updated_at,
        )

    def call(self, at: float) -> None:
        now, policy = START + at * MINUTE, self.policy.informed(self.market())
        results = []
        for n in self.fill_call():
            listing = self.listing(n)
            self.swept_reads += listing.swept_from is not None
            results.append(ReadResult(listing=listing, at=now, has_changed=self.score.read(n, at)))
        for result in results:
            n, following = int(result.listing.id), policy.next_read(result)
            self.evidence[n] = following.evidence
            self.read_at[n], self.swept_from[n] = now, None
            self.put(n, following.next_sync_at)
        self.apply(policy.learn(results), policy.market, now)

    def fill_call(self) -> list[int]:
        in_call: list[int] = []
        while len(in_call) < self.seats and self.queue:
            due, n = heapq.heappop(self.queue)
            if self.due[n] == due and n not in in_call:
                in_call.append(n)
        return in_call

    def put(self, n: int, due: datetime) -> None:
        self.due[n] = due
        heapq.heappush(self.queue, (due, n))

    def listing(self, n: int) -> Listing:
        return Listing(
            id=str(n),
            user_id=SELLER,
            sku=Sku(str(n)),
            priority=Priority.SCHEDULED,
            fence=1,
            next_sync_at=self.due[n],
            hour_bucket=0,
            minute_offset=0,
            created_at=START,
            last_successful_sync=self.read_at[n],
            evidence=self.evidence[n],
            value_weight=self.world.weights[n],
            family=self.world.families[n],
            swept_from=self.swept_from[n],
        )

    def apply(self, lesson: Lesson, market: Market, now: datetime) -> None:
        log_price = math.log(market.going_price)
        if lesson.lag_min is not None:
            minutes = (now - self.updated_at) / MINUTE
            log_price = price_after(
                log_price, lesson.lag_min, minutes, self.products, self.seats_per_min
            )
            self.updated_at = now
        self.log_price = log_price
        self.recency = self.recency.plus(lesson.hits, lesson.hits_expected)
        for family in lesson.families:
            self.families[family.name] = Family.from_json(family.name, family.as_json())
        for sweep in lesson.sweeps:
            self.sweep(sweep, now)
        for name in lesson.spares:
            self.spare(name)

    def sweep(self, sweep: Sweep, now: datetime) -> None:
        candidates = []
        for n in self.members[sweep.family]:
            read_at = self.read_at[n]
            is_asked = self.swept_from[n] is None and self.due[n] > now
            if is_asked and read_at is not None and read_at < sweep.read_before:
                candidates.append((read_at, n))
        first = min(now, self.first_due())
        for _, n in sorted(candidates)[: sweep.limit]:
            self.swept_from[n] = self.due[n]
            self.put(n, first)

    def first_due(self) -> datetime:
        """Return when the first of the queue is due whom no guard has pulled forward."""
        while self.queue[0][0] != self.due[self.queue[0][1]]:
            heapq.heappop(self.queue)
        due, n = self.queue[0]
        read_at = self.read_at[n]
        return due if read_at is None or due > read_at else START + timedelta(days=9999)

    def spare(self, name: str) -> None:
        for n in self.members[name]:
            due = self.swept_from[n]
            if due is not None:
                self.swept_from[n] = None
                self.put(n, due)

    def guard(self, at: float) -> None:
        read_min = self.score.read_min
        if safe_min(self.products, at - min(read_min), self.seats_per_min) > 0:
            return
        ages: dict[int, int] = {}
        for minute in read_min:
            age = int(at - minute)
            ages[age] = ages.get(age, 0) + 1
        count = must(ages, seats_per_min=self.seats_per_min, seats=math.ceil(self.seats_per_min))
        for _, n in heapq.nsmallest(count, zip(read_min, range(self.products), strict=True)):
            read_at = self.read_at[n]
            if read_at is not None and self.due[n] > read_at:
                self.guarded_reads += 1
                self.swept_from[n] = None
                self.put(n, read_at)

    def refit(self, *, is_new_day: bool) -> None:
        cells: dict[tuple[float, float], int] = {}
        for evidence, read_at in zip(self.evidence, self.read_at, strict=True):
            if read_at is not None:
                cell = (round(evidence.changes_seen, 1), round(evidence.watched_days, 1))
                cells[cell] = cells.get(cell, 0) + 1
        self.prior = self.prior.refit((*cell, count) for cell, count in cells.items())
        if is_new_day:
            self.recency = self.recency.decayed()


def fit_times(days: float) -> list[float]:
    """Return when the prior is fitted: each day, and more often while little is known."""
    return [n * DAY_MIN for n in range(1, math.ceil(days))]


def round_robin(world: World, days: float, calls: list[float]) -> Score:
    """Read all listings in a round robin in the same calls."""
    score, n = Score(world, days), 0
    for at in calls:
        for _ in range(SEATS):
            score.read(n, at)
            n = (n + 1) % len(world.changes)
    score.finish()
    return score


def bound(world: World, calls_a_day: float) -> float | None:
    """Return the stale minutes of the best that is possible with the true rates."""
    if world.rates is None:
        return None
    known = list(zip(world.rates, world.weights, strict=True))
    seats = calls_a_day * SEATS / DAY_MIN
    low, high = -15.0, 15.0
    for _ in range(40):
        middle = (low + high) / 2
        waits = [look_after_min(rate, math.exp(middle), w, DAY_MIN) for rate, w in known]
        low, high = (middle, high) if sum(1 / wait for wait in waits) > seats else (low, middle)
    total = sum(
        weight * lost_min(rate, wait) * DAY_MIN / wait
        for (rate, weight), wait in zip(known, waits, strict=True)
    )
    return total / len(known)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", choices=WORLDS, default="bursty")
    parser.add_argument("--products", type=int, default=5000)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--seed", type=int, nargs="+", default=[3])
    parser.add_argument("--calls-a-day", type=float, default=CALLS_A_DAY)
    options = parser.parse_args()
    for seed in options.seed:
        world = WORLDS[options.world](options.products, options.days, seed)
        calls = call_times(world, options.days, seed, options.calls_a_day)
        line = PaperLine(world, options.days, options.calls_a_day)
        score, priorities = line.run(calls), round_robin(world, options.days, calls)
        world_days = options.days * options.products
        stale, least = score.staleness_min(), bound(world, options.calls_a_day)
        sys.stdout.write(
            f"{options.world} {options.products} x {options.days:g} d, seed {seed}:"
            f" stale {stale:.2f}, x round robin {stale / priorities.staleness_min():.3f},"
            f" x bound {stale / least if least else math.nan:.3f}"
            f" (expected {score.expected_min / world_days / least if least else math.nan:.3f}),"
            f" oldest {score.oldest_min / 60:.1f} h, swept {line.swept_reads / score.reads:.1%},"
            f" guarded {line.guarded_reads / score.reads:.1%},"
            f" price {math.exp(line.log_price or 0):.2f},"
            f" families {[round(f, 2) for f in line.policy.informed(line.market())._pooled()]}\n"
        )


if __name__ == "__main__":
    main()
