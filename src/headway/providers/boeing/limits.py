"""Boeing's limit for each credential: a few calls a minute, and a ceiling a day if there is one."""

from datetime import timedelta
from typing import Protocol

from headway.core.catalog.listings import LimitKey
from headway.core.limits.rules import Quota
from headway.core.limits.transitions import Resource, Window

MINUTE_S = 60.0
HOUR_S, DAY_S = 3600.0, 86_400.0
# Longer than connecting and writing may take, so a call in flight has arrived by then or failed.
JITTER_S = 2.5
# How long before its token expires a client signs in again, which takes a permit.
EARLY = timedelta(seconds=60)


class RateSettings(Protocol):
    """The settings of the limit: calls a minute and a day, and the shortest time between two."""

    rate_limit: int
    rate_gap_s: float
    boeing_day_limit: int | None


def limit_key_of(client_id: str) -> LimitKey:
    """Return the limit key of a credential."""
    return LimitKey(f"boeing:{client_id}")


def supplier_resource(settings: RateSettings, limit_key: LimitKey) -> Resource:
    """Return the limit that every request with this credential passes."""
    window = Window(
        limit=settings.rate_limit,
        span_s=MINUTE_S,
        gap_s=settings.rate_gap_s,
        jitter_s=JITTER_S,
        anchor="finish",
    )
    if settings.boeing_day_limit is None:
        return Resource(key=limit_key, rules=(window,))
    # Not a window: a new limiter, which knows no calls, would wait for a whole day.
    day = Quota(limit=settings.boeing_day_limit, span_s=DAY_S, bucket_s=HOUR_S)
    return Resource(key=limit_key, rules=(window, day))
