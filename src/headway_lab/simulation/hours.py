"""Seconds of many stretches of time, added up for each hour of a run."""

import math
from collections import defaultdict

HOUR_S = 3600.0


class Hourly:
    """How many seconds fell into each hour.

    A stretch costs the same however long it is: its two ends are noted as seconds, and the whole
    hours between them by where they begin and where they stop.
    """

    def __init__(self) -> None:
        self._ends_s: dict[int, float] = defaultdict(float)
        self._whole: dict[int, int] = defaultdict(int)

    def add(self, from_s: float, to_s: float) -> None:
        """Count one stretch."""
        first, last = int(from_s // HOUR_S), int(to_s // HOUR_S)
        if first == last:
            self._ends_s[first] += to_s - from_s
            return
        self._ends_s[first] += (first + 1) * HOUR_S - from_s
        self._ends_s[last] += to_s - last * HOUR_S
        self._whole[first + 1] += 1
        self._whole[last] -= 1

    def until(self, end_s: float) -> tuple[float, ...]:
        """Return the seconds in each hour up to the end, the last hour perhaps a part of one."""
        seconds, running = [], 0
        for hour in range(hours_in(end_s)):
            running += self._whole.get(hour, 0)
            seconds.append(self._ends_s.get(hour, 0.0) + running * HOUR_S)
        return tuple(seconds)


def hours_in(end_s: float) -> int:
    """Return how many hours a run of that many seconds touches."""
    return math.ceil(end_s / HOUR_S)
