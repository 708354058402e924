"""Law L6 at the shop: each desired version of a listing ends shown there, or replaced by a newer.

The time from the settle that stored a version to the effect that completed it is a figure.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway_lab.simulation.faults import Faults
from headway_lab.simulation.shops import ShownListing
from headway_lab.simulation.truth import ShopFields
from headway_lab.simulators.faults import Interval

MayWait = Callable[[float], bool]
# A pusher that is not woken looks once a minute, and needs a few calls.
WAIT_S = 180.0
# The lease of one that died, and hosts' clocks that are apart, a few times over; or a breaker.
TROUBLE_S = 1800.0
# Halving a call until the product that spoils it is alone, with a read-back after each write.
POISON_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """How long a desired state may be on its way, and what suspends that."""

    wait_s: float
    outages: Sequence[Interval] = ()

    def covers(self, since_s: float, now_s: float) -> bool:
        """Return True if a version that is pending since then may still be pending."""
        ends_s = [outage.end_s for outage in self.outages if outage.start_s < now_s]
        return now_s - max([since_s, *ends_s]) <= self.wait_s


def grace_of(faults: Faults) -> Grace:
    """Return how long a push may take with these faults."""
    troubles = (faults.is_deadly, faults.shop_shares, faults.shop_outages)
    wait_s = WAIT_S + 2 * faults.skew_max_s + TROUBLE_S * sum(map(bool, troubles))
    wait_s += POISON_S if faults.shop_poison else 0
    return Grace(wait_s=wait_s, outages=faults.shop_silences)


@dataclass(slots=True, kw_only=True)
class _DesiredVersion:
    """A version on its way: since when, and which facets the shop still lacks."""

    since_s: float
    left: set[str]
    is_reported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What was desired of a listing at one time, and what its read had shown, if it was one."""

    shop_fields: ShopFields
    reported: ShopFields | None


class DesiredVersions:
    """Follows the desired versions of every listing that is in a shop."""

    def __init__(
        self, shop_listings: Mapping[str, ShownListing], followed: Collection[str]
    ) -> None:
        self._shop_listings = shop_listings
        self._followed = followed
        self._versions = {
            id_: [
                Version(
                    shop_fields=dict(shop_listing.shop_fields),
                    reported=dict(shop_listing.shop_fields),
                )
            ]
            for id_, shop_listing in shop_listings.items()
        }
        self._open: dict[str, _DesiredVersion] = {}
        self.pushed = 0
        self.superseded = 0
        self.push_s: list[float] = []

    def want(
        self, id_: str, shop_fields: ShopFields, reported: ShopFields | None, now_s: float
    ) -> None:
        """Note a new desired version."""
        if id_ not in self._versions:
            return
        old = self._versions[id_][-1].shop_fields
        shop_fields = {**old, **shop_fields}
        self._versions[id_].append(Version(shop_fields=shop_fields, reported=reported))
        moved = {facet for facet, value in shop_fields.items() if old.get(facet) != value}
        replaced = self._open.pop(id_, None)
        if replaced is not None:
            moved |= replaced.left
        left = moved.intersection(self._shop_listings[id_].lacks(shop_fields))
        if left:
            self._open[id_] = _DesiredVersion(since_s=now_s, left=left)
        counts = id_ in self._followed
        # One that was replaced was never shown whole; one that the shop shows already needs none.
        self.superseded += counts * ((replaced is not None) + (not left))

    def shown(self, id_: str, now_s: float) -> None:
        """Record that the shop shows something else now."""
        version = self._open.get(id_)
        if version is None:
            return
        version.left.intersection_update(
            self._shop_listings[id_].lacks(self._versions[id_][-1].shop_fields)
        )
        if not version.left:
            del self._open[id_]
            self.pushed += id_ in self._followed
            self.push_s.append(now_s - version.since_s)

    def first_version_with(self, id_: str, facet: str, value: object) -> int | None:
        """Return the first version of the latest run of versions that had this value of a facet."""
        versions = self._versions[id_]
        numbers = [n for n, version in enumerate(versions) if version.shop_fields[facet] == value]
        if not numbers:
            return None
        first = numbers[-1]
        while first > 0 and versions[first - 1].shop_fields[facet] == value:
            first -= 1
        return first

    def version(self, id_: str, number: int) -> Version:
        """Return a version by its number."""
        return self._versions[id_][number]

    def overdue(self, may_wait: MayWait) -> Iterable[tuple[ShownListing, float, list[str]]]:
        """Yield, once per version, what is pending for too long, and the missing facets."""
        for id_, version in self._open.items():
            if not version.is_reported and not may_wait(version.since_s):
                version.is_reported = True
                yield self._shop_listings[id_], version.since_s, sorted(version.left)

    def unexpected(self, may_wait: MayWait) -> Iterable[tuple[ShownListing, str, object]]:
        """Yield each facet that is neither desired nor pending, nor a recent edit of a merchant."""
        for id_, shop_listing in self._shop_listings.items():
            shop_fields = self._versions[id_][-1].shop_fields
            version = self._open.get(id_)
            for facet in shop_listing.lacks(shop_fields):
                is_fresh = facet in shop_listing.changed_by_hand and may_wait(
                    shop_listing.changed_by_hand[facet][0]
                )
                if not is_fresh and (version is None or facet not in version.left):
                    yield shop_listing, facet, shop_fields[facet]
