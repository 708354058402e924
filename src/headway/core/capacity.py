"""What a supplier's limit is worth: does a catalogue fit, how old will data be, what breaks first.

Ages and staleness are estimates, for parts of which 5 % change a day. Calls are counted as the
limiter permits them: each leaves a gap after the last one ended, and tokens cost calls too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from headway.core.optimum import DAY_MIN, optimal_turns, relaxed_optimum, stale_min_per_day
from headway.core.policies.policy import Policy

DAY_S = 86_400.0
MINUTE_S = 60.0
HOURS = 24
# Two tokens that live for an hour, each renewed a minute early.
TOKEN_CALLS_PER_DAY = 2 * DAY_S / 3540
ADAPTIVE = "adaptive"
# The guard of `adaptive` acts at 22 h and leaves a tenth of the seats to failures and triggers.
GUARD_AGE_MIN = 1320.0
GUARD_SHARE = 0.9
OUTAGE_H = 2.0
# Measured from a cold start over a month: rates that are learned cost a fifth more than known ones.
LEARNING = 1.2
# Of 24 hours filled by chance the fullest is about two standard deviations above the mean.
FULLEST = 2.0
# While scheduled listings have no slack left, a call keeps so many of its seats for urgent turns.
URGENT_SEATS = 2
FAILING_SHARE = 0.02
RATE_SHAPE, RATE_MEAN_PER_DAY = 0.35, 0.05
POPULATION = 400
ANY_DAY = datetime(2026, 1, 5, tzinfo=UTC)
WINDOW_STEP = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A supplier's limit as the limiter keeps it."""

    calls_per_min: float = 2.0
    gap_s: float = 30.0
    seats: int = 10
    response_s: float = 1.0

    @property
    def calls_per_day(self) -> float:
        """The calls that fit: one at a time, a gap after the last ended, the window kept."""
        cycle_s = max(
            self.gap_s + self.response_s, (MINUTE_S + self.response_s) / self.calls_per_min
        )
        return DAY_S / cycle_s

    @property
    def limit_per_day(self) -> float:
        """The calls that the supplier would count to."""
        return self.calls_per_min * DAY_MIN

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

    def faster(self, factor: float) -> "Line":
        """Return the line under a higher limit, its calls spread as evenly."""
        return replace(self, calls_per_min=self.calls_per_min * factor, gap_s=self.gap_s / factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a policy makes of a catalogue; shares are of the limit and of what is permitted."""

    policy: str
    fits: bool
    calls_per_day: float
    limit_share: float
    permitted_share: float
    age_typical_h: float
    age_worst_h: float
    stale_min_per_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What is left for trouble if every SKU is read once a day."""

    spare_calls_per_day: float
    failing_share_max: float
    outage_h: float
    catch_up_h: float | None
    keeps_promise_through_outage: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """What gives way as a catalogue grows beyond so many products."""

    products: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the documents' capacity tables, and the share of what is really permitted."""

    products: int
    slots: int
    per_hour: float
    calls_per_day: int
    limit_share: float
    permitted_share: float


def row(products: int, line: Line) -> Row:
    """Return what the documents' tables say of a catalogue that is read once a day."""
    calls = math.ceil(products / line.seats)
    return Row(
        products=products,
        slots=min(HOURS, calls),
        per_hour=products / HOURS,
        calls_per_day=calls,
        limit_share=calls / line.limit_per_day,
        permitted_share=calls / line.price_calls_per_day,
    )


def expect_once_a_day(policy: Policy, products: int, line: Line) -> Expected:
    """Return what a policy makes of a catalogue that reads each SKU once a day."""
    table = row(products, line)
    fits = products <= line.products_max
    turn_min = DAY_MIN if fits else products / line.seats_per_min
    late_h = (policy.age_max.total_seconds() / MINUTE_S - DAY_MIN) / 60
    return Expected(
        policy=policy.name,
        fits=fits,
        calls_per_day=min(table.calls_per_day, line.price_calls_per_day),
        limit_share=min(table.calls_per_day, line.price_calls_per_day) / line.limit_per_day,
        permitted_share=table.permitted_share,
        age_typical_h=turn_min / 60 / 2,
        age_worst_h=turn_min / 60 + late_h,
        stale_min_per_day=_stale(turn_min),
    )


def expect_adaptive(products: int, line: Line) -> Expected:
    """Return what `adaptive` makes of it: every permitted call, where it saves most."""
    has_reserve = products <= guard_ceiling(line.seats_per_min)
    cap_min = GUARD_AGE_MIN if has_reserve else DAY_MIN
    rates = population()
    seats_per_min = line.seats_per_min * len(rates) / products
    turns_min = optimal_turns(rates, seats_per_min, cap_min)
    best = relaxed_optimum(rates, seats_per_min, cap_min)
    return Expected(
        policy=ADAPTIVE,
        fits=products <= line.products_max,
        calls_per_day=line.price_calls_per_day,
        limit_share=line.price_calls_per_day / line.limit_per_day,
        permitted_share=1.0,
        age_typical_h=sum(turns_min) / len(turns_min) / 60 / 2,
        age_worst_h=max(turns_min) / 60,
        stale_min_per_day=min(best * LEARNING, _stale(products / line.seats_per_min)),
    )


def guard_ceiling(seats_per_min: float) -> int:
    """Return the most listings of which none passes 24 h through an outage of two hours."""
    return int(GUARD_SHARE * seats_per_min * GUARD_AGE_MIN + seats_per_min)


def headroom(products: int, line: Line) -> Headroom:
    """Return what is left for failures, and how long a two-hour outage is felt."""
    calls = math.ceil(products / line.seats)
    spare = max(0.0, line.price_calls_per_day - calls)
    spare_per_h = spare * line.seats / HOURS
    missed = products / HOURS * OUTAGE_H
    return Headroom(
        spare_calls_per_day=spare,
        failing_share_max=spare / line.price_calls_per_day,
        outage_h=OUTAGE_H,
        catch_up_h=missed / spare_per_h if spare_per_h > 0 else None,
        keeps_promise_through_outage=products <= guard_ceiling(line.seats_per_min),
    )


def breaks(line: Line, policies: Iterable[Policy]) -> list[Break]:
    """Return what gives way as a catalogue grows, the first first."""
    hourly = line.seats_per_min * 60
    by_chance = (math.sqrt(hourly + (FULLEST / 2) ** 2) - FULLEST / 2) ** 2
    found = [
        Break(
            products=int(HOURS * by_chance),
            what="anchored: the fullest hour overflows into the next, for chance fills the hours",
        ),
        Break(
            products=guard_ceiling(line.seats_per_min),
            what="the reserve: a two-hour outage pushes some past 24 h under adaptive",
        ),
        Break(
            products=line.products_max,
            what="the promise: 24 h are too short to read all, and every hour's slot overflows",
        ),
    ]
    for policy in policies:
        least = _retries_overflow(policy, line.products_max)
        if least is not None:
            what = f"{policy.name}: its retry windows cannot carry {FAILING_SHARE:.0%} that fail"
            found.append(Break(products=least, what=what))
    return sorted(found, key=lambda each: each.products)


def retry_seats_per_day(policy: Policy, products: int) -> int | None:
    """Return how many seats a day the policy's windows have for retries; None if it has none."""
    steps = int(timedelta(days=1) / WINDOW_STEP)
    windows = [policy.retry_window(ANY_DAY + step * WINDOW_STEP, products) for step in range(steps)]
    seats = {window.opens_at: window.seats_max for window in windows if window is not None}
    # A window that midnight cuts in two is met at both ends of the day.
    return None if not seats else sum(seats.values()) - _doubled(list(seats.items()))


def onboarding_min(products: int, add: int, line: Line) -> float | None:
    """Return how long it takes to read new parts at urgent turns, while the others are kept up.

    None if the others leave no seat.
    """
    left = line.seats_per_min - products / DAY_MIN
    kept = line.seats_per_min * min(URGENT_SEATS, line.seats // 2) / line.seats
    return add / max(left, kept) if max(left, kept) > 0 else None


@lru_cache
def population(count: int = POPULATION) -> tuple[float, ...]:
    """Return change rates a day of as many typical parts: equal shares of the population."""
    edges = [0.0, *(_quantile(number / count) for number in range(1, count)), math.inf]
    below = [_gamma_share(RATE_SHAPE + 1, edge) for edge in edges]
    return tuple(count * RATE_MEAN_PER_DAY * (high - low) for low, high in pairwise(below))


def _stale(turn_min: float) -> float:
    rates = population()
    return sum(stale_min_per_day(rate, turn_min) for rate in rates) / len(rates)


def _retries_overflow(policy: Policy, products_max: int) -> int | None:
    for products in range(0, products_max, 100):
        seats = retry_seats_per_day(policy, products)
        if seats is None:
            return None
        if products * FAILING_SHARE > seats:
            return products
    return None


def _doubled(windows: Sequence[tuple[datetime, int]]) -> int:
    first, last = min(windows), max(windows)
    return first[1] if last[0] - first[0] >= timedelta(days=1) else 0


def _gamma_share(shape: float, x: float) -> float:
    """Return the share of a gamma population, of scale 1, that lies below x."""
    if x in {0, math.inf}:
        return float(x > 0)
    term = total = 1 / shape
    step = shape
    while term > total * 1e-16:
        step += 1
        term *= x / step
        total += term
    return min(1.0, total * math.exp(shape * math.log(x) - x - math.lgamma(shape)))


def _quantile(share: float) -> float:
    """Return the x below which that share of the population lies; by halving its logarithm."""
    # The tail only makes it larger than if the density were a pure power.
    low = (math.log(share) + math.lgamma(RATE_SHAPE + 1)) / RATE_SHAPE
    high = low + 20
    while high - low > 1e-9:  # noqa: PLR2004 - far below what anybody reads
        middle = (low + high) / 2
        if _gamma_share(RATE_SHAPE, math.exp(middle)) < share:
            low = middle
        else:
            high = middle
    return math.exp(high)
