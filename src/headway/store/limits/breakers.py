"""The breaker of each supplier, shared by all workers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from headway.core.catalog.listings import LimitKey
from headway.core.limits.breaker import Breaker
from headway.store.queries import Queries

LOAD = """
SELECT limit_key, failures, trips, open_until, opened_at, reason FROM breaker
WHERE limit_key = ANY (%(limit_keys)s)
"""
SAVE = """
INSERT INTO breaker (limit_key, failures, trips, open_until, opened_at, reason)
VALUES (%(limit_key)s, %(failures)s, %(trips)s, %(open_until)s, %(opened_at)s, %(reason)s)
ON CONFLICT (limit_key) DO UPDATE SET failures = excluded.failures, trips = excluded.trips,
  open_until = excluded.open_until, opened_at = excluded.opened_at, reason = excluded.reason
"""


class Breakers(Queries):
    """Table `breaker` behind the engine's port."""

    def load(self, limit_key: LimitKey) -> Breaker:
        """Return the breaker of this supplier; closed if it never tripped."""
        return self.load_all([limit_key])[limit_key]

    def load_all(self, limit_keys: Sequence[LimitKey]) -> Mapping[LimitKey, Breaker]:
        """Return the breakers of all these."""
        breakers = dict(self._read(_breaker, LOAD, {"limit_keys": list(limit_keys)}))
        return {limit_key: breakers.get(limit_key, Breaker()) for limit_key in limit_keys}

    def save(self, limit_key: LimitKey, breaker: Breaker) -> None:
        """Store the breaker."""
        self._write(SAVE, {"limit_key": limit_key, **asdict(breaker)})


def _breaker(limit_key: LimitKey, **columns: Any) -> tuple[LimitKey, Breaker]:  # noqa: ANN401
    return limit_key, Breaker(**columns)
