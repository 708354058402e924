"""The figures of a run: what became of each change, how long the shop was wrong, who was read.

A shop is taken to be true at the start. There is no storefront in this half of the lane, so what is
compared with the supplier's truth is the desired state.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headway.simulation.truth import Sight


@dataclass(slots=True, kw_only=True)
class _Shown:
    """One listing: what the shop shows, what changed since it was last read."""

    sight: Sight
    unread_s: list[float] = field(default_factory=list)
    wrong_since_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What became of the changes, and how long the shop was wrong."""

    changes: int
    superseded: int
    lost: tuple[tuple[str, float], ...]
    wrong_s: float
    detection_s: tuple[float, ...]


class Figures:
    """Follows every listing that the figures count."""

    def __init__(self, listings: Mapping[str, str], sights: Mapping[str, Sight]) -> None:
        self._truth = dict(sights)
        self._shown = {id_: _Shown(sight=sights[sku]) for id_, sku in listings.items()}
        self._ids: dict[str, list[str]] = defaultdict(list)
        for id_, sku in listings.items():
            self._ids[sku].append(id_)
        self._sku = dict(listings)
        self._changes = 0
        self._superseded = 0
        self._wrong_s = 0.0
        self._detection_s: list[float] = []

    @property
    def followed(self) -> int:
        """How many listings the figures are about."""
        return len(self._shown)

    def changed(self, sku: str, sight: Sight, at_s: float) -> None:
        """Note that the truth is another now; what a shop cannot show is no change."""
        if sku not in self._truth or sight == self._truth[sku]:
            return
        self._truth[sku] = sight
        for id_ in self._ids[sku]:
            self._changes += 1
            self._shown[id_].unread_s.append(at_s)
            self._weigh(id_, at_s)

    def read(self, id_: str, sight: Sight, *, served_s: float, now_s: float, is_held: bool) -> None:
        """Note that a listing was read and settled; a held read does not reach the shop."""
        shown = self._shown.get(id_)
        if shown is None:
            return
        seen = [at_s for at_s in shown.unread_s if at_s <= served_s]
        shown.unread_s = shown.unread_s[len(seen) :]
        if seen:
            self._superseded += len(seen) - 1
            self._detection_s.append(now_s - seen[-1])
        if not is_held:
            shown.sight = sight
        self._weigh(id_, now_s)

    def close(self, now_s: float, *, may_wait: Callable[[float], bool]) -> Tally:
        """Add up; an unread change is lost unless it may wait since then."""
        lost: list[tuple[str, float]] = []
        for id_, shown in self._shown.items():
            if shown.wrong_since_s is not None:
                self._wrong_s += now_s - shown.wrong_since_s
                shown.wrong_since_s = now_s
            if not shown.unread_s:
                continue
            self._superseded += len(shown.unread_s) - 1
            if not may_wait(shown.unread_s[-1]):
                lost.append((self._sku[id_], shown.unread_s[-1]))
        return Tally(
            changes=self._changes,
            superseded=self._superseded,
            lost=tuple(lost),
            wrong_s=self._wrong_s,
            detection_s=tuple(sorted(self._detection_s)),
        )

    def _weigh(self, id_: str, now_s: float) -> None:
        """Start or stop the count of wrong seconds."""
        shown = self._shown[id_]
        is_wrong = shown.sight != self._truth[self._sku[id_]]
        if is_wrong and shown.wrong_since_s is None:
            shown.wrong_since_s = now_s
        elif not is_wrong and shown.wrong_since_s is not None:
            self._wrong_s += now_s - shown.wrong_since_s
            shown.wrong_since_s = None


def percentile(ordered: Iterable[float], share: float) -> float | None:
    """Return the value below which that share lies; None of nothing."""
    values = list(ordered)
    if not values:
        return None
    return values[min(len(values) - 1, int(share * len(values)))]
