"""What `explain` foretold, and when it came: its instants held against what happened.

At seeded instants some that wait are asked why and until when. An answer is right if they board, or
run, within one headway of the instant that it named: the time between two departures of their line.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from statistics import median
from typing import Any

from headway.simulation.figures import percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """One answer: what it waits for, when it goes, and how far off that may be."""

    state: str
    at_s: float
    headway_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """An answer that has come true, and how much later than said; None if it never did."""

    said: Foretold
    late_s: float | None

    @property
    def is_within(self) -> bool:
        """Tell whether it was right within one headway."""
        return self.late_s is not None and abs(self.late_s) <= self.said.headway_s


class Foresight:
    """The answers of one run."""

    def __init__(self) -> None:
        self._open: dict[Hashable, list[Foretold]] = {}
        self.came: list[Miss] = []

    def said(self, who: Hashable, answer: Foretold) -> None:
        """Remember an answer until it comes true."""
        self._open.setdefault(who, []).append(answer)

    def boarded(self, who: Hashable, at_s: float) -> None:
        """Hold everything that was said of this one against the instant at which it went."""
        for said in self._open.pop(who, ()):
            self.came.append(Miss(said=said, late_s=at_s - said.at_s))

    def close(self, end_s: float) -> None:
        """Count as wrong what should have come by now; what lies beyond the end is not known."""
        for answers in self._open.values():
            late = [each for each in answers if each.at_s + each.headway_s < end_s]
            self.came += [Miss(said=each, late_s=None) for each in late]
        self._open.clear()

    def figures(self) -> dict[str, Any]:
        """Return how often the answers were right, as a report holds it."""
        off_s = sorted(abs(each.late_s) for each in self.came if each.late_s is not None)
        asked = Counter(each.said.state for each in self.came)
        right = Counter(each.said.state for each in self.came if each.is_within)
        return {
            "asked": len(self.came),
            "share": round(right.total() / len(self.came), 4) if self.came else None,
            "median_error_s": round(median(off_s), 1) if off_s else None,
            "p90_error_s": _rounded(percentile(off_s, 0.9)),
            "by_reason": {
                state: {"asked": count, "share": round(right[state] / count, 4)}
                for state, count in sorted(asked.items())
            },
        }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
