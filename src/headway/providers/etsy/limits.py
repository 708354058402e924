"""Etsy's limits: what they apply to, how large they are, and how its replies report them.

Both apply to the app, for all sellers together. Etsy's documentation says so in one place and
speaks of tokens in another; its headers speak of the app, and we follow the headers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headway.core.limits.transitions import Bucket, Observation, Quota, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

DAY_S, HOUR_S = 86_400, 3600
# How much later than its begin a call may reach Etsy.
JITTER_S = 0.1
BURST = 2
NUMBER = re.compile(r"\s*([0-9]{1,9})\s*")


def second_key(keystring: str) -> str:
    """Return the key of the limit of a second."""
    return f"etsy:{keystring}:second"


def day_key(keystring: str) -> str:
    """Return the key of the quota of 24 hours."""
    return f"etsy:{keystring}"


def second_resource(keystring: str, *, limit: int) -> Resource:
    """Return a bucket that never lets more than the limit arrive within any one second."""
    capacity, rate_per_s = _bucket(limit)
    return Resource(
        key=second_key(keystring), rules=(Bucket(capacity=capacity, rate_per_s=rate_per_s),)
    )


def day_resource(keystring: str, *, limit: int) -> Resource:
    """Return the quota of any 24 hours."""
    quota = Quota(limit=limit, span_s=DAY_S, bucket_s=HOUR_S)
    return Resource(key=day_key(keystring), rules=(quota,))


def read_limits(headers: httpx.Headers, keystring: str) -> Mapping[str, Observation]:
    """Read both limits from a reply's headers; malformed values are ignored."""
    observations: dict[str, Observation] = {}
    second = _pair(headers, "x-limit-per-second", "x-remaining-this-second")
    if second is not None:
        limit, used = second
        capacity, rate_per_s = _bucket(limit)
        observations[second_key(keystring)] = Observation(
            used=used, capacity=capacity, restore_per_s=rate_per_s
        )
    day = _pair(headers, "x-limit-per-day", "x-remaining-today")
    if day is not None:
        observations[day_key(keystring)] = Observation(used=day[1], capacity=day[0])
    return observations


def _bucket(limit: int) -> tuple[int, float]:
    """Return capacity and rate such that capacity + rate * (a second + jitter) <= limit + 1.

    Calls at the edges of a second as Etsy measures it are included.
    """
    capacity = min(BURST, limit)
    rate_per_s = (limit + 1 - capacity) / (1 + JITTER_S)
    return capacity, float(int(rate_per_s)) if rate_per_s >= 1 else rate_per_s


def _pair(headers: httpx.Headers, limit_name: str, left_name: str) -> tuple[int, int] | None:
    limit, left = (NUMBER.fullmatch(headers.get(name, "")) for name in (limit_name, left_name))
    if limit is None or left is None:
        return None
    most, free = int(limit[1]), int(left[1])
    return (most, most - free) if most > 0 and free <= most else None
