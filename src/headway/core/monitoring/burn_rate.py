"""The burn rate of a promise: 1 breaks it exactly as often as it allows."""

from collections.abc import Sequence
from datetime import datetime, timedelta

# The windows of a burn rate, (short, long); both must burn.
FAST = (timedelta(minutes=15), timedelta(hours=1))
SLOW = (timedelta(hours=1), timedelta(hours=6))


def burn(
    kept: Sequence[tuple[datetime, float]],
    now: datetime,
    windows: tuple[timedelta, timedelta],
    *,
    promised: float,
) -> float:
    """Return the lower burn rate of two windows before now, from the shares kept at each sample.

    The lower one, so that neither an old problem nor one that has just begun counts alone.
    """
    return min(_mean_broken(kept, now - window) / (1 - promised) for window in windows)


def _mean_broken(kept: Sequence[tuple[datetime, float]], since: datetime) -> float:
    broken = [1 - share for at, share in kept if at > since]
    return sum(broken) / len(broken) if broken else 0.0
