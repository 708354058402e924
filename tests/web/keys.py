"""API keys for tests."""

from psycopg_pool import ConnectionPool

from headway.clock import SystemClock, fresh_id
from headway.core.access import AccessGrant, Role
from headway.core.catalog.listings import SellerId
from headway.store.access.keys import ApiKeys


def auth_headers(
    pool: ConnectionPool, role: Role = Role.OPERATOR, seller: str | None = None
) -> dict[str, str]:
    """Create an API key; return the headers that authenticate with it."""
    owner = None if seller is None else SellerId(seller)
    grant = AccessGrant(name=f"{role} {fresh_id()}", role=role, seller=owner)
    _, secret = ApiKeys(pool).add_key(grant, now=SystemClock().now())
    return {"Authorization": f"Bearer {secret}"}
