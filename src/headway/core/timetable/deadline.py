"""The deadline guard (law L3): how many of the oldest listings must be in the next call.

It looks ahead: if too many listings would reach the deadline together, some of them go early.
"""

from collections.abc import Mapping

# Two hours before the 24 that the law allows, so that a shorter outage breaks no promise.
DEADLINE_MIN = 22 * 60
DAY_MIN = 24 * 60
# The share of seats to count on; the rest is for failures and urgent priorities.
RELIABLE = 0.90
RELIABLE_MAX = 0.95


def terms(listings: int, seats_per_min: float) -> tuple[float, float]:
    """Return the deadline in minutes and the seats a minute to count on.

    A catalog that is too large for both gives up reserve seats first, then the two hours.
    """
    reliable = RELIABLE * seats_per_min
    if listings <= reliable * DEADLINE_MIN:
        return DEADLINE_MIN, reliable
    reliable = min(RELIABLE_MAX * seats_per_min, listings / DEADLINE_MIN)
    deadline_min = min(DAY_MIN, max(DEADLINE_MIN, listings / reliable))
    return deadline_min, max(reliable, listings / DAY_MIN)


def must(ages_min: Mapping[int, int], *, seats_per_min: float, seats: int) -> int:
    """Return how many of the oldest must be in the next call, of a histogram of ages by the minute.

    `seats` is the number of seats in the period, usually one minute.
    """
    deadline_min, reliable = terms(sum(ages_min.values()), seats_per_min)
    older, most = 0, 0.0
    for age_min in sorted(ages_min, reverse=True):
        older += ages_min[age_min]
        minutes_left = max(0.0, deadline_min - age_min)
        most = max(most, older - reliable * minutes_left)
    return min(seats, max(0, round(most + 0.499)))


def safe_min(listings: int, oldest_age_min: float, seats_per_min: float) -> float:
    """Return for how many minutes no listing nears the deadline; if 0, call `must`."""
    deadline_min, reliable = terms(listings, seats_per_min)
    return deadline_min - oldest_age_min - listings / reliable
