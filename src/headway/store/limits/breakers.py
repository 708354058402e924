"""The breaker of each supplier, shared by all workers."""

from collections.abc import Mapping, Sequence

from headway.core.catalog.listings import LimitKey
from headway.core.limits.breaker import Breaker
from headway.store.pool import Pool, guarded

LOAD = """
SELECT limit_key, failures, trips, open_until, opened_at, reason FROM breaker WHERE limit_key =
  ANY (%s)
"""
SAVE = """
INSERT INTO breaker (limit_key, failures, trips, open_until, opened_at, reason)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (limit_key) DO UPDATE SET failures = excluded.failures, trips = excluded.trips,
  open_until = excluded.open_until, opened_at = excluded.opened_at, reason = excluded.reason
"""


class Breakers:
    """Table `breaker` behind the engine's port."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def load(self, limit_key: LimitKey) -> Breaker:
        """Return the breaker of this supplier; closed if it never tripped."""
        return self.load_all([limit_key])[limit_key]

    def load_all(self, limit_keys: Sequence[LimitKey]) -> Mapping[LimitKey, Breaker]:
        """Return the breakers of all these."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(LOAD, (list(limit_keys),)).fetchall()
        breakers = {
            limit_key: Breaker(
                failures=failures,
                trips=trips,
                open_until=open_until,
                opened_at=opened_at,
                reason=reason,
            )
            for limit_key, failures, trips, open_until, opened_at, reason in rows
        }
        return {limit_key: breakers.get(limit_key, Breaker()) for limit_key in limit_keys}

    def save(self, limit_key: LimitKey, breaker: Breaker) -> None:
        """Store the breaker."""
        values = (
            limit_key,
            breaker.failures,
            breaker.trips,
            breaker.open_until,
            breaker.opened_at,
            breaker.reason,
        )
        with guarded(), self._pool.connection() as connection:
            connection.execute(SAVE, values)
