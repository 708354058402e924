"""What a supplier's limit is worth: does a catalog fit, how old will data be, what breaks first.

Ages and staleness are estimates, for parts of which 5 % change a day. Calls are counted as the
limiter permits them: each leaves a gap after the last one ended, and tokens cost calls too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from headway.core.timetable.deadline import DEADLINE_MIN, RELIABLE
from headway.core.timetable.market import look_after_min
from headway.core.timetable.optimum import (
    DAY_MIN,
    optimal_intervals,
    relaxed_optimum,
    stale_min_per_day,
)
from headway.core.timetable.policies.policy import Policy
from headway.core.timetable.population import population

DAY_S = 86_400.0
MINUTE_S = 60.0
HOURS = 24
# Two tokens that live for an hour, each renewed a minute early.
TOKEN_CALLS_PER_DAY = 2 * DAY_S / 3540
ADAPTIVE = "adaptive"
OUTAGE_H = 2.0
# Measured from a cold start over a month: rates that are learned cost a fifth more than known ones.
LEARNING = 1.2
# Of 24 hours filled by chance the fullest is about two standard deviations above the mean.
FULLEST = 2.0
# While scheduled listings have no slack left, a call keeps so many of its seats for urgent
# priorities.
URGENT_SEATS = 2
FAILING_SHARE = 0.02
GROWS_BY = 1000
ANY_DAY = datetime(2026, 1, 5, tzinfo=UTC)
WINDOW_STEP = timedelta(minutes=15)
FACTORS = (1, 2, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """A supplier's limit as the limiter keeps it, and the share of it that `adaptive` may spend.

    `seat_value_min` is the staleness that a seat must save, or `adaptive` leaves it unused.
    """

    calls_per_min: float = 2.0
    gap_s: float = 30.0
    day_limit: int | None = None
    seats: int = 10
    response_s: float = 1.0
    budget_share: float = 1.0
    seat_value_min: float = 0.0

    @property
    def calls_per_day(self) -> float:
        """The calls that fit: one at a time, a gap after the last ended, the window kept."""
        cycle_s = max(
            self.gap_s + self.response_s, (MINUTE_S + self.response_s) / self.calls_per_min
        )
        fitting = DAY_S / cycle_s
        return fitting if self.day_limit is None else min(fitting, self.day_limit)

    @property
    def limit_per_day(self) -> float:
        """The calls that the supplier would count to."""
        counted = self.calls_per_min * DAY_MIN
        return counted if self.day_limit is None else min(counted, self.day_limit)

    @property
    def price_calls_per_day(self) -> float:
        """The calls that are left for prices."""
        return max(0.0, self.calls_per_day - TOKEN_CALLS_PER_DAY)

    @property
    def seats_per_min(self) -> float:
        """The SKUs that can be read a minute."""
        return self.price_calls_per_day * self.seats / DAY_MIN

    @property
    def products_max(self) -> int:
        """The SKUs that can be read once a day."""
        return int(self.seats_per_min * DAY_MIN)

    @property
    def adaptive_calls_per_day(self) -> float:
        """The calls that `adaptive` spends on prices."""
        return min(self.price_calls_per_day, self.limit_per_day * self.budget_share)

    @property
    def adaptive_seats_per_min(self) -> float:
        """The SKUs that `adaptive` reads a minute."""
        return self.adaptive_calls_per_day * self.seats / DAY_MIN

    def faster(self, factor: float) -> "Throughput":
        """Return the throughput under a higher limit, its calls spread as evenly."""
        return replace(self, calls_per_min=self.calls_per_min * factor, gap_s=self.gap_s / factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Expected result of a policy for a catalog; shares are of the limit and the permitted part.

    Without a number of seats for retries a day, they may go at any time.
    """

    policy: str
    fits: bool
    calls_per_day: float
    limit_share: float
    permitted_share: float
    age_typical_h: float
    age_worst_h: float
    stale_min_per_day: float
    retry_seats_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The reserve for outages and retries if every SKU is read once a day."""

    spare_calls_per_day: float
    failing_share_max: float
    outage_h: float
    catch_up_h: float | None
    keeps_promise_through_outage: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A limit that a catalog reaches beyond so many products, under one policy or any."""

    products: int
    what: str
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRow:
    """A row of the documents' capacity tables, and the share of what is really permitted."""

    products: int
    slots: int
    per_hour: float
    calls_per_day: int
    limit_share: float
    permitted_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What adding parts does: how long until each was read once, and the catalog afterwards."""

    add: int
    onboarding_h: float | None
    fits: bool
    expected: tuple[Expected, ...]
    headroom: Headroom


@dataclass(frozen=True, slots=True, kw_only=True)
class Faster:
    """What a limit so many times as high would buy."""

    factor: int
    calls_per_min: float
    price_calls_per_day: float
    limit_share: float
    products_max: int
    guard_ceiling: int
    adaptive: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The complete capacity report for a merchant."""

    products: int
    calls_per_min: float
    limit_per_day: float
    price_calls_per_day: float
    permitted_share: float
    response_s: float
    products_max: int
    fits: bool
    once_a_day: CapacityRow
    expected: tuple[Expected, ...]
    headroom: Headroom
    breaks: tuple[Break, ...]
    growth: Growth | None
    faster: tuple[Faster, ...]


def weigh_up(
    products: int, throughput: Throughput, policies: Sequence[Policy], *, add: int = 0
) -> Capacity:
    """Return the capacity report for a catalog, and for one that grows by `add` parts."""
    growth = None
    if add:
        minutes = onboarding_min(products, add, throughput)
        growth = Growth(
            add=add,
            onboarding_h=None if minutes is None else minutes / 60,
            fits=products + add <= throughput.products_max,
            expected=expect_all(products + add, throughput, policies),
            headroom=headroom(products + add, throughput),
        )
    return Capacity(
        products=products,
        calls_per_min=throughput.calls_per_min,
        limit_per_day=throughput.limit_per_day,
        price_calls_per_day=throughput.price_calls_per_day,
        permitted_share=throughput.price_calls_per_day / throughput.limit_per_day,
        response_s=throughput.response_s,
        products_max=throughput.products_max,
        fits=products <= throughput.products_max,
        once_a_day=row(products, throughput),
        expected=expect_all(products, throughput, policies),
        headroom=headroom(products, throughput),
        breaks=tuple(breaks(throughput, policies)),
        growth=growth,
        faster=tuple(_faster(factor, products, throughput) for factor in FACTORS),
    )


def expect_all(
    products: int, throughput: Throughput, policies: Iterable[Policy]
) -> tuple[Expected, ...]:
    """Return the expected result of each once-a-day policy for a catalog, then `adaptive`."""
    daily = [expect_once_a_day(policy, products, throughput) for policy in policies]
    return (*daily, expect_adaptive(products, throughput))


def _faster(factor: int, products: int, throughput: Throughput) -> Faster:
    faster = throughput.faster(factor)
    return Faster(
        factor=factor,
        calls_per_min=faster.calls_per_min,
        price_calls_per_day=faster.price_calls_per_day,
        limit_share=faster.price_calls_per_day / faster.limit_per_day,
        products_max=faster.products_max,
        guard_ceiling=guard_ceiling(faster.adaptive_seats_per_min),
        adaptive=expect_adaptive(products, faster),
    )


def row(products: int, throughput: Throughput) -> CapacityRow:
    """Return the figures of the documents' tables for a catalog that is read once a day."""
    calls = math.ceil(products / throughput.seats)
    return CapacityRow(
        products=products,
        slots=min(HOURS, calls),
        per_hour=products / HOURS,
        calls_per_day=calls,
        limit_share=calls / throughput.limit_per_day,
        permitted_share=calls / throughput.price_calls_per_day,
    )


def expect_once_a_day(policy: Policy, products: int, throughput: Throughput) -> Expected:
    """Return the expected result of a policy that reads each SKU once a day."""
    needed = math.ceil(products / throughput.seats)
    calls = min(needed, throughput.price_calls_per_day)
    fits = products <= throughput.products_max
    interval_min = DAY_MIN if fits else products / throughput.seats_per_min
    late_h = (policy.age_max.total_seconds() / MINUTE_S - DAY_MIN) / 60
    return Expected(
        policy=policy.name,
        fits=fits,
        calls_per_day=calls,
        limit_share=calls / throughput.limit_per_day,
        permitted_share=needed / throughput.price_calls_per_day,
        age_typical_h=interval_min / 60 / 2,
        age_worst_h=interval_min / 60 + late_h,
        stale_min_per_day=_stale(interval_min),
        retry_seats_per_day=retry_seats_per_day(policy, products),
    )


def expect_adaptive(products: int, throughput: Throughput) -> Expected:
    """Return the expected result of `adaptive`: all calls of its share, where they save most."""
    seats_per_min = min(throughput.adaptive_seats_per_min, _worthy_seats(products, throughput))
    calls = seats_per_min * DAY_MIN / throughput.seats
    has_reserve = products <= guard_ceiling(seats_per_min)
    cap_min = DEADLINE_MIN if has_reserve else DAY_MIN
    rates = population()
    seats_for_rates = seats_per_min * len(rates) / products
    intervals_min = optimal_intervals(rates, seats_for_rates, cap_min)
    best = relaxed_optimum(rates, seats_for_rates, cap_min)
    return Expected(
        policy=ADAPTIVE,
        fits=products <= int(seats_per_min * DAY_MIN),
        calls_per_day=calls,
        limit_share=calls / throughput.limit_per_day,
        permitted_share=calls / throughput.price_calls_per_day,
        age_typical_h=sum(intervals_min) / len(intervals_min) / 60 / 2,
        age_worst_h=max(intervals_min) / 60,
        stale_min_per_day=min(best * LEARNING, _stale(products / seats_per_min)),
    )


def _worthy_seats(products: int, throughput: Throughput) -> float:
    """Return how many seats a minute save what a seat must save, or more."""
    if not throughput.seat_value_min:
        return math.inf
    rates = population()
    seats_each = sum(
        1 / look_after_min(rate, throughput.seat_value_min, most_min=DEADLINE_MIN) for rate in rates
    )
    return products * seats_each / len(rates)


def guard_ceiling(seats_per_min: float) -> int:
    """Return the most listings of which none passes 24 h through an outage of two hours."""
    return int(RELIABLE * seats_per_min * DEADLINE_MIN + seats_per_min)


def headroom(products: int, throughput: Throughput) -> Headroom:
    """Return what is left for failures, and how long a two-hour outage is felt."""
    calls = math.ceil(products / throughput.seats)
    spare = max(0.0, throughput.price_calls_per_day - calls)
    spare_per_h = spare * throughput.seats / HOURS
    missed = products / HOURS * OUTAGE_H
    return Headroom(
        spare_calls_per_day=spare,
        failing_share_max=spare / throughput.price_calls_per_day,
        outage_h=OUTAGE_H,
        catch_up_h=missed / spare_per_h if spare_per_h > 0 else None,
        keeps_promise_through_outage=products <= guard_ceiling(throughput.adaptive_seats_per_min),
    )


def breaks(throughput: Throughput, policies: Iterable[Policy]) -> list[Break]:
    """Return the limits a growing catalog reaches, in order."""
    hourly = throughput.seats_per_min * 60
    by_chance = (math.sqrt(hourly + (FULLEST / 2) ** 2) - FULLEST / 2) ** 2
    steps = [
        Break(
            products=int(HOURS * by_chance),
            what="anchored: the fullest hour overflows, since hours fill by chance",
            policy="anchored",
        ),
        Break(
            products=guard_ceiling(throughput.adaptive_seats_per_min),
            what="adaptive: a two-hour outage makes some parts older than 24 h",
            policy=ADAPTIVE,
        ),
        Break(
            products=throughput.products_max,
            what="all policies: a day is too short to read every part",
        ),
    ]
    if throughput.adaptive_calls_per_day < throughput.price_calls_per_day:
        most = int(throughput.adaptive_seats_per_min * DAY_MIN)
        what = "adaptive: its share of the budget is too small to read all in a day"
        steps.append(Break(products=most, what=what, policy=ADAPTIVE))
    for policy in policies:
        least = _retries_overflow(policy, throughput.products_max)
        if least is not None:
            what = f"{policy.name}: its retry windows cannot carry {FAILING_SHARE:.0%} that fail"
            steps.append(Break(products=least, what=what, policy=policy.name))
    return sorted(steps, key=lambda break_point: break_point.products)


def retry_seats_per_day(policy: Policy, products: int) -> int | None:
    """Return how many seats a day the policy's windows have for retries; None if it has none."""
    steps = int(timedelta(days=1) / WINDOW_STEP)
    windows = [policy.retry_window(ANY_DAY + step * WINDOW_STEP, products) for step in range(steps)]
    seats_by_opening = {
        window.opens_at: window.seats_max for window in windows if window is not None
    }
    # The one that was open at midnight belongs to the day before.
    today = [seats for opens_at, seats in seats_by_opening.items() if opens_at >= ANY_DAY]
    return sum(today) if today else None


def onboarding_min(products: int, add: int, throughput: Throughput) -> float | None:
    """Return how long it takes to read new parts first while the others stay in time.

    None if the others leave no seat.
    """
    left = throughput.seats_per_min - products / DAY_MIN
    kept = throughput.seats_per_min * min(URGENT_SEATS, throughput.seats // 2) / throughput.seats
    return add / max(left, kept) if max(left, kept) > 0 else None


def _stale(interval_min: float) -> float:
    rates = population()
    return sum(stale_min_per_day(rate, interval_min) for rate in rates) / len(rates)


def _retries_overflow(policy: Policy, products_max: int) -> int | None:
    """Return the largest catalog whose retries fit the windows; None if all sizes fit."""
    for products in range(GROWS_BY, products_max, GROWS_BY):
        seats = retry_seats_per_day(policy, products)
        if seats is None:
            return None
        if products * FAILING_SHARE > seats:
            return products - GROWS_BY
    return None
