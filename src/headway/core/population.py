"""How often typical parts change, before anything is known of them: very unequally.

Most change hardly ever, a few all the time: a Pareto distribution, cut off. Its three numbers are
fitted to what a study of such catalogues reports: 5 % of the parts change within a day, equal turns
cost 2.3 times the staleness of the best ones, and read once a day a part is stale for 41 minutes.
"""

import math
from functools import lru_cache

EXPONENT = 0.77
RATE_MIN, RATE_MAX = 0.005, 4.0
# Of all parts, so many change within a day.
SHARE_PER_DAY = 0.05
TYPICAL = 400


def rate_at(share: float) -> float:
    """Return the changes a day that this share of all parts exceeds; above 0, up to 1."""
    return min(RATE_MAX, RATE_MIN * math.pow(share, -1 / EXPONENT))


@lru_cache
def population(count: int = TYPICAL) -> tuple[float, ...]:
    """Return change rates a day of as many typical parts, the calmest first."""
    return tuple(rate_at((number - 0.5) / count) for number in range(count, 0, -1))
