"""How old the data of each account's job is, how much of the due work was done, and who waited.

A span begins with the first run that is done and ends when the account leaves or its month is used
up: such time does not count.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headway.core.accounts.jobs import DataKind, PlatformName, Tier

STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One job: its account, its kind, and how often it should run."""

    tier: Tier
    platform: PlatformName
    kind: DataKind
    is_backfill: bool
    interval_s: float
    account_id: str = ""


@dataclass(slots=True, kw_only=True)
class _Trail:
    """The runs of a job so far."""

    track: Track
    since_s: float | None = None
    progress_s: float
    is_owed: bool = True
    runs: int = 0
    worst_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestAge:
    """The oldest that the data of a job became between two runs."""

    account_id: str
    job_id: str
    track: Track
    age_s: float


class Ages:
    """The runs of every job, by its id."""

    def __init__(self) -> None:
        self._trails: dict[str, _Trail] = {}
        self._former: list[tuple[str, _Trail]] = []

    def follow(self, job_id: str, track: Track, at_s: float) -> None:
        """Follow a job from now on."""
        self._trails[job_id] = _Trail(track=track, progress_s=at_s)

    @property
    def tracks(self) -> Mapping[str, Track]:
        """The jobs that are followed."""
        return {id_: trail.track for id_, trail in self._trails.items()}

    def pay(self, job_id: str, tier: Tier, interval_s: float, at_s: float) -> None:
        """Count a job under another tier from now on; its ages until now stay where they are."""
        old = self._trails[job_id]
        is_owed = old.is_owed
        self.stop(job_id, at_s)
        self._former.append((job_id, old))
        self.follow(job_id, replace(old.track, tier=tier, interval_s=interval_s), at_s)
        self._trails[job_id].is_owed = is_owed

    def progressed(self, job_id: str, at_s: float) -> None:
        """Note that a page of it was committed."""
        trail = self._trails[job_id]
        if trail.is_owed:
            trail.worst_s = max(trail.worst_s, self._late_s(trail, at_s))
        trail.progress_s = at_s

    def done(self, job_id: str, at_s: float) -> None:
        """Note that a run of it was completed."""
        self.progressed(job_id, at_s)
        trail = self._trails[job_id]
        if trail.since_s is not None:
            trail.gaps_s.append(at_s - trail.since_s)
            trail.runs += 1
        trail.since_s = at_s
        trail.is_owed = not trail.track.is_backfill

    def stop(self, job_id: str, at_s: float) -> None:
        """End a span: no run is due for this job until it is resumed."""
        trail = self._trails[job_id]
        if trail.is_owed:
            trail.worst_s = max(trail.worst_s, self._late_s(trail, at_s))
        trail.since_s = None
        trail.is_owed = False

    def resume(self, job_id: str, at_s: float) -> None:
        """Count the job's runs as due again."""
        trail = self._trails[job_id]
        if not trail.is_owed:
            trail.progress_s = at_s
            trail.is_owed = True

    def close(self, at_s: float) -> None:
        """End the run: open spans count as they are."""
        for trail in self._trails.values():
            if trail.is_owed:
                trail.worst_s = max(trail.worst_s, self._late_s(trail, at_s))
            if trail.since_s is not None:
                trail.gaps_s.append(at_s - trail.since_s)
                trail.since_s = None

    def longest(self) -> Iterator[LongestAge]:
        """Yield how old each job's data became between two runs; history has no age."""
        for id_, trail in self._all():
            if trail.gaps_s and not trail.track.is_backfill:
                yield LongestAge(
                    account_id=trail.track.account_id,
                    job_id=id_,
                    track=trail.track,
                    age_s=max(trail.gaps_s),
                )

    def late(self, more_than_s: float) -> list[str]:
        """Return the jobs whose longest wait beyond the interval exceeded that."""
        return sorted({id_ for id_, trail in self._all() if trail.worst_s > more_than_s})

    def worst_h(self) -> dict[str, float]:
        """Return the longest wait beyond the interval, by tier, in hours."""
        worst: dict[str, float] = {tier.value: 0.0 for tier in Tier}
        for _, trail in self._all():
            tier = trail.track.tier.value
            worst[tier] = max(worst[tier], round(trail.worst_s / 3600, 2))
        return worst

    def age_min(self, *, only: PlatformName | None = None) -> dict[str, dict[str, float]]:
        """Return the age of orders by tier, over time: mean, p50 and p95, in minutes."""
        return {
            tier: spread(gaps)
            for tier, gaps in self._gaps(only, (DataKind.ORDERS,)).items()
            if sum(gaps) > 0
        }

    def served(self, *, only: PlatformName | None = None) -> dict[str, float]:
        """Return the runs done of those due, by tier."""
        done: dict[str, float] = defaultdict(float)
        due: dict[str, float] = defaultdict(float)
        for trail in self._pick(only, tuple(DataKind)):
            done[trail.track.tier] += trail.runs
            due[trail.track.tier] += sum(trail.gaps_s) / trail.track.interval_s
        return {tier.value: round(done[tier] / due[tier], 3) for tier in Tier if due[tier]}

    def _gaps(self, only: PlatformName | None, kinds: Sequence[DataKind]) -> dict[str, list[float]]:
        gaps: dict[str, list[float]] = {tier.value: [] for tier in Tier}
        for trail in self._pick(only, kinds):
            gaps[trail.track.tier.value] += trail.gaps_s
        return gaps

    def _pick(self, only: PlatformName | None, kinds: Sequence[DataKind]) -> Iterable[_Trail]:
        for _, trail in self._all():
            track = trail.track
            if track.is_backfill or track.kind not in kinds:
                continue
            if only is None or track.platform == only:
                yield trail

    def _all(self) -> Iterable[tuple[str, _Trail]]:
        return (*self._former, *self._trails.items())

    def _late_s(self, trail: _Trail, at_s: float) -> float:
        return at_s - trail.progress_s - trail.track.interval_s


def spread(gaps_s: Sequence[float]) -> dict[str, float]:
    """Return mean, median and 95th percentile, over time, of an age that falls to 0 after gaps."""
    total_s = sum(gaps_s)
    mean_s = sum(gap_s**2 for gap_s in gaps_s) / 2 / total_s
    figures = {"mean": mean_s, "p50": _age_s(gaps_s, 0.5), "p95": _age_s(gaps_s, 0.95)}
    return {name: round(seconds / 60, 1) for name, seconds in figures.items()}


def _age_s(gaps_s: Sequence[float], share: float) -> float:
    """Return the age that is not exceeded for that share of the time."""
    low, high, target_s = 0.0, max(gaps_s), share * sum(gaps_s)
    for _ in range(STEPS):
        middle = (low + high) / 2
        if sum(min(gap_s, middle) for gap_s in gaps_s) < target_s:
            low = middle
        else:
            high = middle
    return high
