"""The market of seats: what a read of a listing is worth, and the current price of a seat.

`rates` learns how often listings change, `families` who changes together, and
`policies.adaptive` decides when to read.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headway.core.timetable.deadline import DEADLINE_MIN
from headway.core.timetable.families import Family
from headway.core.timetable.rates import GRID, Prior, Recency

DAY_MIN = 1440
# Below this many expected changes the closed form loses its digits, and the series has them.
FEW = 1e-3
# So close to 1 the number of changes is all rounding.
LOST_MAX = 1 - 1e-12
# A price step covers this much time at most: after an outage the lag in between is unknown.
STEP_MIN_MAX = 5.0
PRICE_MIN, PRICE_MAX = 1e-9, 1e7
# A price is stored as its logarithm, so the least price is met only about.
ROUNDED = 1.000001
# How late a call may leave because the limit made it wait behind another one.
PERMIT_LAG_MIN = 2.0
# Of the seats that a round within the deadline takes: some go to retries and new listings.
NEEDED_FACTOR = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What is known of the whole catalog, as one call finds it.

    `price` is the current price of a seat in minutes of expected staleness; None before the first
    call, when it follows from the prior. Below `price_min` a seat is left unused. `share` is the
    share of the limit that `shared_limit` leaves to Headway; `seats_per_min` is what comes of it.
    `families` holds those of the listings in the call; `called_at` is the last call of any kind.
    """

    listings: int
    seats_per_min: float
    price: float | None = None
    price_min: float = PRICE_MIN
    share: float = 1.0
    prior: Prior = field(default_factory=Prior)
    recency: Recency = field(default_factory=Recency)
    families: Mapping[str, Family] = field(default_factory=dict)
    fitted_at: datetime | None = None
    updated_at: datetime | None = None
    called_at: datetime | None = None

    @property
    def round_min(self) -> float:
        """The time to read every listing once."""
        return max(1, self.listings) / self.seats_per_min

    @property
    def going_price(self) -> float:
        """The price of a seat, from the prior if there is no other."""
        price = self.price
        if price is None:
            price = initial_price(self.listings, self.seats_per_min, self.prior)
        return max(self.price_min, price)

    @property
    def has_spare_seats(self) -> bool:
        """True if a seat more is not worth a call: calls wait until a listing is due."""
        return self.going_price <= self.price_min * ROUNDED

    def price_step(self, lesson: "Lesson", now: datetime) -> float:
        """Return what a call adds to the logarithm of the price.

        Where seats are spare, a call that waited for its permit is no sign that they are not.
        """
        if lesson.lag_min is None or self.updated_at is None:
            return 0.0
        if self.has_spare_seats and 0 < lesson.lag_min <= PERMIT_LAG_MIN:
            return 0.0
        log_price, minutes = (
            math.log(self.going_price),
            (now - self.updated_at).total_seconds() / 60,
        )
        size = (self.listings, self.seats_per_min)
        after = price_after(log_price, lesson.lag_min, minutes, *size)
        stored = log_price if self.price is None else math.log(self.price)
        return max(math.log(self.price_min), after) - stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Companions of a family to be read now: those last read before an instant, oldest first.

    Without a limit, all of them.
    """

    family: str
    read_before: datetime
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one call taught.

    Counts are added to the market's, so that calls that end at once do not overwrite one another; a
    family is replaced.
    `lag_min` is the lag of the last listing with its own due time; the price follows it.
    Families in `spares` are no longer swept: their waiting listings get their own due time back.
    """

    lag_min: float | None = None
    hits: Sequence[float] = ()
    hits_expected: Sequence[float] = ()
    families: Sequence[Family] = ()
    sweeps: Sequence[Sweep] = ()
    spares: Sequence[str] = ()


def lawful_share(share: float, listings: int, seats_per_min: float) -> float:
    """Return at least the share of the seats that reading every listing once a day needs."""
    needed = NEEDED_FACTOR * listings / (seats_per_min * DEADLINE_MIN)
    return min(1.0, max(share, needed))


def worth(rate_per_day: float, age_min: float, weight: float = 1.0) -> float:
    """Return the minutes of staleness that a read saves, compared with reading a little later.

    `weight * (1 - (1 + x) e^-x) / rate` with x changes expected since the last read.
    """
    if rate_per_day <= 0 or age_min <= 0:
        return 0.0
    changes = rate_per_day / DAY_MIN * age_min
    return weight * age_min * _lost(changes) / changes


def look_after_min(
    rate_per_day: float, price: float, weight: float = 1.0, most_min: float = DEADLINE_MIN
) -> float:
    """Return after how many minutes a read is worth its price, at most `most_min`."""
    if price <= 0:
        return 0.0
    if rate_per_day <= 0 or worth(rate_per_day, most_min, weight) <= price:
        return most_min
    rate_per_min = rate_per_day / DAY_MIN
    changes = _changes_for(min(LOST_MAX, price * rate_per_min / weight))
    return min(most_min, changes / rate_per_min)


def _lost(changes: float) -> float:
    """Return 1 - (1 + x) e^-x, to full precision."""
    if changes < FEW:
        return changes * changes * (0.5 - changes * (1 / 3 - changes * (0.125 - changes / 30)))
    return -math.expm1(-changes) - changes * math.exp(-changes)


def _changes_for(lost: float) -> float:
    """Return the x with 1 - (1 + x) e^-x = lost, which lies between 0 and 1."""
    root = math.sqrt(2 * lost)
    if root < FEW:
        return root + root * root / 3 + 11 / 72 * root**3
    left = 1 - lost
    changes = root + root * root / 3 + 11 / 72 * root**3
    if lost > 0.8:  # noqa: PLR2004 - the series is for small x; from here, x = ln((1 + x) / left)
        changes = -math.log(left)
        for _ in range(4):
            changes = math.log1p(changes) - math.log(left)
    for _ in range(4):
        slope = changes * math.exp(-changes)
        step = (_lost(changes) - lost) / slope
        # Halley: the slope of the slope is (1 - x) e^-x.
        step /= 1 - step * (1 - changes) / (2 * changes)
        changes -= step
        if abs(step) < 1e-10 * changes:
            break
    return changes


def initial_price(listings: int, seats_per_min: float, prior: Prior) -> float:
    """Return the price at which demand equals the number of seats.

    Until the prior is fitted, all listings have the same rate.
    """
    seats_each = seats_per_min / max(1, listings)
    if not prior.shares:
        return worth(prior.mean, min(DEADLINE_MIN, 1 / seats_each))
    low, high = math.log(PRICE_MIN), math.log(PRICE_MAX)
    for _ in range(40):
        middle = (low + high) / 2
        demand = sum(
            share / max(1.0, look_after_min(rate, math.exp(middle)))
            for share, rate in zip(prior.shares, GRID, strict=True)
        )
        low, high = (middle, high) if demand > seats_each else (low, middle)
    return min(math.exp(low), worth(GRID[-1], DEADLINE_MIN))


def price_after(
    log_price: float, lag_min: float, minutes_since: float, listings: int, seats_per_min: float
) -> float:
    """Return the logarithm of the price after a call that was so late; late makes dear."""
    round_min = max(1, listings) / seats_per_min
    lag_min = min(round_min / 2, max(-round_min / 2, lag_min))
    step = lag_min * min(STEP_MIN_MAX, max(0.0, minutes_since)) / round_min**2
    return min(math.log(PRICE_MAX), max(math.log(PRICE_MIN), log_price + step))
