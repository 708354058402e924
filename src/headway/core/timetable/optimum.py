"""The yardsticks of freshness: the best that reads could do with known rates, and equal intervals.

A listing changes at random, at a rate of its own; read every T minutes it is stale for
`T - (1 - e^(-lT)) / l` of them on average. The relaxed optimum spends the seats of a minute so that
the last seat saves the same staleness everywhere; no policy that cannot see the future beats it.
"""

import math
from collections.abc import Sequence

DAY_MIN = 1440.0
# Below this the series is exact to the last digits, and a division by a tiny rate is avoided.
SMALL = 0.01
ROUNDS_MAX = 200
CLOSE = 1e-10
# Where nearly every read finds a change, a tiny price difference moves the interval by minutes.
HAIR = 1e-14


def relaxed_optimum(
    rates_per_day: Sequence[float],
    seats_per_min: float,
    cap_min: float = DAY_MIN,
    weights: Sequence[float] | None = None,
) -> float:
    """Return stale minutes per listing and day if seats go where they save most.

    With weights it is the weighted mean, and what is minimised. Where the cap cannot be kept for
    all, every listing is read in equal intervals, as fast as the seats allow.
    """
    weights = [1.0] * len(rates_per_day) if weights is None else weights
    intervals_min = optimal_intervals(rates_per_day, seats_per_min, cap_min, weights)
    total = sum(weights)
    if total <= 0:
        return 0.0
    stale = map(stale_min_per_day, rates_per_day, intervals_min)
    return sum(weight * minutes for weight, minutes in zip(weights, stale, strict=True)) / total


def round_robin(rates_per_day: Sequence[float], seats_per_min: float) -> float:
    """Return stale minutes per listing and day if all seats are used in equal intervals."""
    if not rates_per_day:
        return 0.0
    interval_min = len(rates_per_day) / seats_per_min
    return sum(stale_min_per_day(rate, interval_min) for rate in rates_per_day) / len(rates_per_day)


def stale_min_per_day(rate_per_day: float, interval_min: float) -> float:
    """Return how many minutes of a day a listing is stale that is read every so many minutes."""
    expected = rate_per_day * interval_min / DAY_MIN
    if expected < SMALL:
        return DAY_MIN * expected * (1 / 2 - expected * (1 / 6 - expected / 24))
    return DAY_MIN * (1 + math.expm1(-expected) / expected)


def optimal_intervals(
    rates_per_day: Sequence[float],
    seats_per_min: float,
    cap_min: float = DAY_MIN,
    weights: Sequence[float] | None = None,
) -> list[float]:
    """Return the minutes between two reads of each listing at the relaxed optimum."""
    assert seats_per_min > 0
    assert cap_min > 0
    count = len(rates_per_day)
    weights = [1.0] * count if weights is None else weights
    if count >= seats_per_min * cap_min:
        return [count / seats_per_min] * count
    # Reads of the others are worth nothing, so they are read as seldom as allowed.
    moving = [
        (rate / DAY_MIN, weight)
        for rate, weight in zip(rates_per_day, weights, strict=True)
        if rate > 0 and weight > 0
    ]
    if not moving:
        return [cap_min] * count
    left = seats_per_min - (count - len(moving)) / cap_min
    price = _price(moving, left, cap_min)
    return [
        _interval_min(rate / DAY_MIN, weight, price, cap_min)
        if rate > 0 and weight > 0
        else cap_min
        for rate, weight in zip(rates_per_day, weights, strict=True)
    ]


def _price(moving: Sequence[tuple[float, float]], seats: float, cap_min: float) -> float:
    """Return the price of a seat at which demand is this many seats a minute.

    Regula falsi in logarithms, where demand is nearly a line: a dozen rounds, not fifty.
    """

    def excess(log_price: float) -> float:
        price = math.exp(log_price)
        demand = sum(1 / _interval_min(rate, weight, price, cap_min) for rate, weight in moving)
        return math.log(demand / seats)

    # At the worth of the best read at the cap's age, only the cap causes demand, which fits.
    high = math.log(max(_worth(rate, weight, cap_min) for rate, weight in moving))
    low, step = high, 2.0
    low_excess = high_excess = excess(high)
    while low_excess < 0:
        high, high_excess = low, low_excess
        low, step = low - step, step * 2
        low_excess = excess(low)
    for _ in range(ROUNDS_MAX):
        if low_excess <= CLOSE or high - low <= HAIR:
            break
        middle = low + (high - low) * low_excess / (low_excess - high_excess)
        value = excess(middle)
        if abs(value) <= CLOSE:
            high = middle
            break
        if value > 0:
            low, low_excess, high_excess = middle, value, high_excess / 2
        else:
            high, high_excess, low_excess = middle, value, low_excess / 2
    return math.exp(high)


def _interval_min(rate_per_min: float, weight: float, price: float, cap_min: float) -> float:
    """Return the age at which a read is worth the price, or the cap if that comes first."""
    share = price * rate_per_min / weight
    if share >= 1:
        return cap_min
    return min(cap_min, _expected_at(share) / rate_per_min)


def _worth(rate_per_min: float, weight: float, age_min: float) -> float:
    """Return the expected stale minutes that a read at this age saves."""
    expected = rate_per_min * age_min
    if expected < SMALL:
        return weight * age_min * expected * (1 / 2 - expected * (1 / 3 - expected / 8))
    return weight * (1 - (1 + expected) * math.exp(-expected)) / rate_per_min


def _expected_at(share: float) -> float:
    """Return the x at which `1 - (1 + x) e^(-x)` is this share.

    Put as `x - ln(1 + x) = q` it is convex, so Newton's steps come down to it from above.
    """
    q = -math.log1p(-share)
    root = math.sqrt(2 * q)
    x = root * (1 + root * (1 / 3 + root * (1 / 36 - root / 270)))
    if root < SMALL:
        return x
    if root > 1:
        x = root + q
    for _ in range(ROUNDS_MAX):
        step = (x - math.log1p(x) - q) * (1 + x) / x
        x -= step
        if abs(step) <= CLOSE * x:
            break
    return x
