"""The breaker of each supplier, shared by all workers."""

from collections.abc import Mapping, Sequence

from headway.core.catalog.listings import LimitKey
from headway.core.limits.breaker import Breaker
from headway.store.pool import Pool, guarded

LOAD = """
SELECT scope, failures, trips, open_until, opened_at, reason FROM breaker WHERE scope = ANY (%s)
"""
SAVE = """
INSERT INTO breaker (scope, failures, trips, open_until, opened_at, reason)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (scope) DO UPDATE SET failures = excluded.failures, trips = excluded.trips,
  open_until = excluded.open_until, opened_at = excluded.opened_at, reason = excluded.reason
"""


class Breakers:
    """Table `breaker` behind the engine's port."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def load(self, scope: LimitKey) -> Breaker:
        """Return the breaker of this supplier; closed if it never tripped."""
        return self.load_all([scope])[scope]

    def load_all(self, scopes: Sequence[LimitKey]) -> Mapping[LimitKey, Breaker]:
        """Return the breakers of all these."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(LOAD, (list(scopes),)).fetchall()
        found = {
            scope: Breaker(
                failures=failures,
                trips=trips,
                open_until=open_until,
                opened_at=opened_at,
                reason=reason,
            )
            for scope, failures, trips, open_until, opened_at, reason in rows
        }
        return {scope: found.get(scope, Breaker()) for scope in scopes}

    def save(self, scope: LimitKey, breaker: Breaker) -> None:
        """Keep it."""
        values = (
            scope,
            breaker.failures,
            breaker.trips,
            breaker.open_until,
            breaker.opened_at,
            breaker.reason,
        )
        with guarded(), self._pool.connection() as connection:
            connection.execute(SAVE, values)
