"""The limit of one app in one Shopify shop: its key and its bucket of points."""

from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Bucket, Resource

# The Standard plan; a shop on a larger plan reports its size in every reply.
POINTS, POINTS_PER_S = 2000, 100
# Left free for other users of the same app and for calls that arrive late.
POINTS_HEADROOM = 200


def shop_limit_key(client_id: str, domain: str) -> LimitKey:
    """Return the limit key of the app in one shop."""
    return LimitKey(f"shopify:{client_id or 'app'}:{domain}")


def shop_resource(limit_key: LimitKey, *, restore_per_s: float = POINTS_PER_S) -> Resource:
    """Return the bucket of points of the GraphQL API."""
    bucket = Bucket(capacity=POINTS, rate_per_s=restore_per_s, headroom=POINTS_HEADROOM)
    return Resource(key=limit_key, rules=(bucket,))
