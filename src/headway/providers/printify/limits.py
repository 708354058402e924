"""Printify's limit: 600 calls a minute for each account, whichever token is used.

A bucket allows `capacity - headroom + rate * span` calls to start in a span. The headroom covers
calls that reach Printify up to `JITTER_S` seconds after they start.
"""

from headway.core.accounts.jobs import Account
from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Bucket, Resource

JITTER_S = 2.0


def account_limit_key(account: Account) -> LimitKey:
    """Return the limit key of the account that owns this shop; its other shops share it."""
    return LimitKey(f"printify:{account.owner_id or account.shop}")


def account_resource(limit_key: LimitKey) -> Resource:
    """Return the limit of one account."""
    return Resource(key=limit_key, rules=(Bucket(capacity=60, rate_per_s=9, headroom=18),))
