"""The rhythm of a day: when the supplier's people work, in UTC."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from headway.clock import Rng
from headway_lab.simulation.world import DAY_S, poisson

HOUR_S = 3600.0
HOURS = 24
# How busy each hour is, compared with one another: nights are quiet, the early afternoon is not.
ACTIVITY = (2, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 12, 12, 13, 13, 12, 11, 9, 7, 5, 4, 3, 3, 2)
PASSED = (0.0, *accumulate(activity * DAY_S / sum(ACTIVITY) for activity in ACTIVITY))


def by_day(even_s: float) -> float:
    """Return the moment of an event that would happen at `even_s` if all hours were alike.

    Events stay within their day; only within it they crowd into the busy hours.
    """
    day, within_s = divmod(even_s, DAY_S)
    hour = min(bisect_right(PASSED, within_s) - 1, HOURS - 1)
    share = (within_s - PASSED[hour]) / (PASSED[hour + 1] - PASSED[hour])
    return day * DAY_S + (hour + share) * HOUR_S


def in_office_hours(generator: Rng, rate_per_day: float, days: float) -> Iterator[float]:
    """Yield the seconds at which something happens at random, more often when people work."""
    # A busy morning is over before half of a day's events are: draw the whole day, then cut.
    for even_s in poisson(generator, rate_per_day, math.ceil(days)):
        at_s = by_day(even_s)
        if at_s >= days * DAY_S:
            return
        yield at_s
