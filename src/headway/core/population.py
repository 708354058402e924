"""How often typical parts change, before anything is known of them: 5 % a day, very unequally.

Most parts change hardly ever, a few all the time: rates are spread like a gamma distribution.
"""

import math
from functools import lru_cache
from itertools import pairwise

RATE_SHAPE, RATE_MEAN_PER_DAY = 0.35, 0.05
TYPICAL = 400


@lru_cache
def population(count: int = TYPICAL) -> tuple[float, ...]:
    """Return change rates a day of as many typical parts: equal shares of the population."""
    edges = [0.0, *(_quantile(number / count) for number in range(1, count)), math.inf]
    below = [_gamma_share(RATE_SHAPE + 1, edge) for edge in edges]
    return tuple(count * RATE_MEAN_PER_DAY * (high - low) for low, high in pairwise(below))


def _gamma_share(shape: float, x: float) -> float:
    """Return the share of a gamma population, of scale 1, that lies below x."""
    if x in {0, math.inf}:
        return float(x > 0)
    term = total = 1 / shape
    step = shape
    while term > total * 1e-16:
        step += 1
        term *= x / step
        total += term
    return min(1.0, total * math.exp(shape * math.log(x) - x - math.lgamma(shape)))


def _quantile(share: float) -> float:
    """Return the x below which that share of the population lies; by halving its logarithm."""
    # The tail only makes it larger than if the density were a pure power.
    low = (math.log(share) + math.lgamma(RATE_SHAPE + 1)) / RATE_SHAPE
    high = low + 20
    while high - low > 1e-9:  # noqa: PLR2004 - far below what anybody reads
        middle = (low + high) / 2
        if _gamma_share(RATE_SHAPE, math.exp(middle)) < share:
            low = middle
        else:
            high = middle
    return math.exp(high)
