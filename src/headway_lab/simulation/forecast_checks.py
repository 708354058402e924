"""Forecasts of `explain`, compared with what happened.

At seeded moments some waiting listings and jobs are asked why they wait and until when. An answer
is right within one headway: the time between two calls of their queue. A listing waits for a call,
so a forecast names the call nearest to it, and is right if that call, the one before or the one
after was the one. A job is forecast by itself, within its interval.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from statistics import median
from typing import Any

from headway_lab.simulation.figures import percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForecast:
    """One forecast: the reason, the moment, and the headway (None: that of the calls)."""

    state: str
    at_s: float
    headway_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOutcome:
    """A forecast and when its row left the queue; None if it never did."""

    forecast: WaitForecast
    went_s: float | None


class ForecastChecks:
    """The answers of one run."""

    def __init__(self) -> None:
        self._open: dict[Hashable, list[WaitForecast]] = {}
        self._outcomes: list[ForecastOutcome] = []
        self._call_times: list[float] = []

    def record(self, key: Hashable, answer: WaitForecast) -> None:
        """Keep a forecast until its row leaves the queue."""
        self._open.setdefault(key, []).append(answer)

    def call_sent(self, at_s: float) -> None:
        """Record that a call was sent."""
        self._call_times.append(at_s)

    def in_call(self, key: Hashable, at_s: float) -> None:
        """Compare all forecasts about a row with the moment at which it left the queue."""
        self._outcomes += [
            ForecastOutcome(forecast=forecast, went_s=at_s) for forecast in self._open.pop(key, ())
        ]

    def close(self, end_s: float) -> None:
        """Count overdue forecasts as wrong; what lies beyond the end is not counted."""
        for answers in self._open.values():
            late = [answer for answer in answers if self._last_s(answer) < end_s]
            self._outcomes += [ForecastOutcome(forecast=forecast, went_s=None) for forecast in late]
        self._open.clear()

    def figures(self) -> dict[str, Any]:
        """Return how often the answers were right, as a report holds it."""
        off_s = sorted(
            abs(outcome.went_s - outcome.forecast.at_s)
            for outcome in self._outcomes
            if outcome.went_s is not None
        )
        asked_by_state = Counter(outcome.forecast.state for outcome in self._outcomes)
        right = Counter(
            outcome.forecast.state for outcome in self._outcomes if self._is_right(outcome)
        )
        return {
            "asked": len(self._outcomes),
            "share": round(right.total() / len(self._outcomes), 4) if self._outcomes else None,
            "median_error_s": round(median(off_s), 1) if off_s else None,
            "p90_error_s": _rounded(percentile(off_s, 0.9)),
            "by_reason": {
                state: {"asked": count, "share": round(right[state] / count, 4)}
                for state, count in sorted(asked_by_state.items())
            },
        }

    def _is_right(self, outcome: ForecastOutcome) -> bool:
        forecast, went_s = outcome.forecast, outcome.went_s
        if went_s is None:
            return False
        if forecast.headway_s is not None:
            return abs(went_s - forecast.at_s) <= forecast.headway_s
        return abs(self._nearest(forecast.at_s) - self._nearest(went_s)) <= 1

    def _nearest(self, at_s: float) -> int:
        """Return the number of the call that is nearest to a moment."""
        after = bisect_left(self._call_times, at_s)
        around = [index for index in (after - 1, after) if 0 <= index < len(self._call_times)]
        return min(around, key=lambda index: abs(self._call_times[index] - at_s))

    def _last_s(self, forecast: WaitForecast) -> float:
        """Return until when a forecast may still come true; infinity while calls are to come."""
        if forecast.headway_s is not None:
            return forecast.at_s + forecast.headway_s
        next_one = bisect_left(self._call_times, forecast.at_s) + 1
        return self._call_times[next_one] if next_one < len(self._call_times) else float("inf")


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
