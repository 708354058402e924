"""How fast a promise is broken: 1 is just as fast as it allows."""

from collections.abc import Sequence
from datetime import datetime, timedelta


def burn(
    kept: Sequence[tuple[datetime, float]],
    now: datetime,
    spans: tuple[timedelta, timedelta],
    *,
    promised: float,
) -> float:
    """Return the lesser burn of two spans before now, from shares that were kept at instants.

    Of both, so that what is long over does not count, nor what has only just begun.
    """
    return min(_mean(kept, now - span) / (1 - promised) for span in spans)


def _mean(kept: Sequence[tuple[datetime, float]], since: datetime) -> float:
    broken = [1 - share for at, share in kept if at > since]
    return sum(broken) / len(broken) if broken else 0.0
