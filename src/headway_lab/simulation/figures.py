"""The figures of a run: the result of each change, how long shops were wrong, what was read.

Shops are correct at the start. From then on what they show is compared with the supplier's data, no
matter who wrote it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headway_lab.simulation.hours import Hourly
from headway_lab.simulation.shops import ShownListing
from headway_lab.simulation.truth import ShopFields


@dataclass(slots=True, kw_only=True)
class _Followed:
    """One listing: what changed since it was last read, and since when its shop is wrong."""

    shop_listing: ShownListing
    unread_s: list[float] = field(default_factory=list)
    wrong_since_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What became of the changes, and how long the shop was wrong."""

    changes: int
    superseded: int
    lost: tuple[tuple[str, float], ...]
    wrong_s: float
    wrong_s_by_hour: tuple[float, ...]
    detection_s: tuple[float, ...]


class Figures:
    """Follows every listing that the figures count."""

    def __init__(self, shop_listings: Mapping[str, ShownListing]) -> None:
        self._truth: dict[str, ShopFields] = {
            shop_listing.sku: shop_listing.offer for shop_listing in shop_listings.values()
        }
        self._followed = {
            id_: _Followed(shop_listing=shop_listing) for id_, shop_listing in shop_listings.items()
        }
        self._ids: dict[str, list[str]] = defaultdict(list)
        for id_, shop_listing in shop_listings.items():
            self._ids[shop_listing.sku].append(id_)
        self._changes = 0
        self._superseded = 0
        self._wrong_s = 0.0
        self._wrong = Hourly()
        self._detection_s: list[float] = []

    @property
    def followed(self) -> int:
        """How many listings the figures are about."""
        return len(self._followed)

    def changed(self, sku: str, shop_fields: ShopFields, at_s: float) -> None:
        """Record a change at the supplier; a change that no shop shows does not count."""
        if sku not in self._truth or shop_fields == self._truth[sku]:
            return
        self._truth[sku] = shop_fields
        for id_ in self._ids[sku]:
            self._changes += 1
            self._followed[id_].unread_s.append(at_s)
            self.shown(id_, at_s)

    def read(self, id_: str, *, served_s: float, now_s: float, is_moot: bool) -> None:
        """Note that a listing was read and settled; moot if nothing new is desired of it."""
        followed = self._followed.get(id_)
        if followed is None:
            return
        moments = [at_s for at_s in followed.unread_s if at_s <= served_s]
        followed.unread_s = followed.unread_s[len(moments) :]
        if moments:
            self._superseded += len(moments) - (not is_moot)
            self._detection_s.append(now_s - moments[-1])

    def shown(self, id_: str, now_s: float) -> None:
        """Start or stop the count of wrong seconds, now that shop or truth is another."""
        followed = self._followed.get(id_)
        if followed is None:
            return
        is_wrong = bool(followed.shop_listing.lacks(self._truth[followed.shop_listing.sku]))
        if is_wrong and followed.wrong_since_s is None:
            followed.wrong_since_s = now_s
        elif not is_wrong and followed.wrong_since_s is not None:
            self._was_wrong(followed.wrong_since_s, now_s)
            followed.wrong_since_s = None

    def close(self, now_s: float, *, may_wait: Callable[[float], bool]) -> Tally:
        """Add up; an unread change is lost unless it may wait since then."""
        lost: list[tuple[str, float]] = []
        for followed in self._followed.values():
            if followed.wrong_since_s is not None:
                self._was_wrong(followed.wrong_since_s, now_s)
                followed.wrong_since_s = now_s
            if not followed.unread_s:
                continue
            self._superseded += len(followed.unread_s) - 1
            if not may_wait(followed.unread_s[-1]):
                lost.append((followed.shop_listing.sku, followed.unread_s[-1]))
        return Tally(
            changes=self._changes,
            superseded=self._superseded,
            lost=tuple(lost),
            wrong_s=self._wrong_s,
            wrong_s_by_hour=self._wrong.until(now_s),
            detection_s=tuple(sorted(self._detection_s)),
        )

    def _was_wrong(self, from_s: float, to_s: float) -> None:
        self._wrong_s += to_s - from_s
        self._wrong.add(from_s, to_s)


def percentile(ordered: Iterable[float], share: float) -> float | None:
    """Return the value below which that share lies; None of nothing."""
    values = list(ordered)
    if not values:
        return None
    return values[min(len(values) - 1, int(share * len(values)))]
