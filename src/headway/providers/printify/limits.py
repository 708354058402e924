"""Whom Printify's limits bind, and how large they are: the account, whatever token it uses.

A bucket lets `capacity - headroom + rate * span` calls begin in a span. The headroom is what a call
that arrives up to two seconds after its begin may add to the same span at Printify's door.
"""

from headway.core.accounts.jobs import Account
from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Bucket, Resource, Window

PUBLISHES, PUBLISHES_SPAN_S = 200, 1800
JITTER_S = 2.0


def account_limit_key(account: Account) -> LimitKey:
    """Return whom the limit binds: the owner of the shop, and of all its sisters."""
    return LimitKey(f"printify:{account.owner_id or account.shop}")


def account_resource(limit_key: LimitKey) -> Resource:
    """Return the limit of all calls: 600 a minute."""
    return Resource(key=limit_key, rules=(Bucket(capacity=60, rate_per_s=9, headroom=18),))


def catalog_resource(limit_key: LimitKey) -> Resource:
    """Return the limit of calls to the catalogue: 100 a minute, besides that of all calls."""
    bucket = Bucket(capacity=10, rate_per_s=1.5, headroom=3)
    return Resource(key=f"{limit_key}:catalog", rules=(bucket,))


def publish_resource(limit_key: LimitKey) -> Resource:
    """Return the limit of publishing: 200 in 30 minutes, besides that of all calls."""
    window = Window(limit=PUBLISHES, span_s=PUBLISHES_SPAN_S, jitter_s=JITTER_S)
    return Resource(key=f"{limit_key}:publish", rules=(window,))
