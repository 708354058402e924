"""Whom a shop's limits bind, how large they are, and what its replies say of them."""

import re

from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Bucket, Observation, Resource

# A Standard shop; larger ones say so in every reply.
POINTS, POINTS_PER_S = 2000, 100
CALLS, CALLS_PER_S = 40, 2
# What others who use the same app, or a call that leaves late, may add before our next reply.
POINTS_HEADROOM, CALLS_HEADROOM = 200, 4
# Every plan empties a full bucket of calls in this time.
CALLS_DRAIN_S = 20
CALL_LIMIT = re.compile(r"\s*([0-9]{1,6})\s*/\s*([0-9]{1,6})\s*")


def shop_limit_key(client_id: str, domain: str) -> LimitKey:
    """Return whom a shop's limit binds: the app in that shop."""
    return LimitKey(f"shopify:{client_id or 'app'}:{domain}")


def shop_resource(limit_key: LimitKey, *, restore_per_s: float = POINTS_PER_S) -> Resource:
    """Return the bucket of points of the GraphQL API."""
    bucket = Bucket(capacity=POINTS, rate_per_s=restore_per_s, headroom=POINTS_HEADROOM)
    return Resource(key=limit_key, rules=(bucket,))


def rest_resource(limit_key: LimitKey) -> Resource:
    """Return the leaky bucket of calls of the legacy REST API, for whoever still needs it."""
    bucket = Bucket(capacity=CALLS, rate_per_s=CALLS_PER_S, headroom=CALLS_HEADROOM)
    return Resource(key=f"{limit_key}:rest", rules=(bucket,))


def read_call_limit(header: str) -> Observation | None:
    """Read `X-Shopify-Shop-Api-Call-Limit`, such as `32/40`; None if it makes no sense."""
    match = CALL_LIMIT.fullmatch(header)
    used, capacity = map(int, match.groups()) if match else (0, 0)
    if capacity == 0:
        return None
    return Observation(used=used, capacity=capacity, restore_per_s=capacity / CALLS_DRAIN_S)
