"""The circuit breakers of a shop: one for all calls in a row, and one for each kind of call.

A success of one kind never resets the count of another: while every stock write fails, reads that
succeed in between do not hide it.
"""

from datetime import datetime

from headway.clock import Clock
from headway.core.catalog.listings import LimitKey
from headway.core.catalog.storefront import WriteKind
from headway.core.limits.breaker import Breaker
from headway.engine.ports import BreakersPort
from headway.errors import HeadwayError


class ShopBreakers:
    """The breakers of shops, for the push lane."""

    def __init__(self, breakers: BreakersPort, clock: Clock) -> None:
        self._breakers = breakers
        self._clock = clock

    def blocked_until(self, limit_key: LimitKey, now: datetime) -> datetime | None:
        """Return when the shop may be called again, if not now."""
        keys = [limit_key, *(_kind_key(limit_key, kind) for kind in WriteKind)]
        instants = [
            breaker.blocked_until(now) for breaker in self._breakers.load_all(keys).values()
        ]
        return max((instant for instant in instants if instant is not None), default=None)

    def answers(self, limit_key: LimitKey) -> bool:
        """Return True if the last call to the shop, of whatever kind, succeeded."""
        return not self._breakers.load(limit_key).failures

    def failed(
        self, limit_key: LimitKey, error: HeadwayError, kind: WriteKind | None = None
    ) -> None:
        """Count a failed call, in a row of all calls and of its kind."""
        now, reason = self._clock.now(), str(error)
        for key, breaker in self._breakers.load_all(_keys(limit_key, kind)).items():
            self._breakers.save(key, breaker.failed(now, reason))

    def explained(self, limit_key: LimitKey, kind: WriteKind) -> None:
        """Close the breaker of this kind of call: one listing made its calls fail, not the shop."""
        key = _kind_key(limit_key, kind)
        if self._breakers.load(key).failures:
            self._breakers.save(key, Breaker())

    def succeeded(self, limit_key: LimitKey, kind: WriteKind) -> None:
        """Close the breaker of this kind of call, and the one of all calls in a row."""
        for key, breaker in self._breakers.load_all(_keys(limit_key, kind)).items():
            if breaker.failures:
                self._breakers.save(key, breaker.succeeded())


def _keys(limit_key: LimitKey, kind: WriteKind | None) -> list[LimitKey]:
    return [limit_key] if kind is None else [limit_key, _kind_key(limit_key, kind)]


def _kind_key(limit_key: LimitKey, kind: WriteKind) -> LimitKey:
    """Return the key of one kind of call; the shop stays at its end, where alerts look for it."""
    app, _, shop = limit_key.rpartition(":")
    return LimitKey(f"{app}/{kind}:{shop}")
