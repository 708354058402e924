"""The circuit breakers of the account lane: one for each platform, one for each account.

An account counts once against its platform until it is answered: one broken shop is no outage for
the others. What fails alone for longer than outages last is the account's own trouble.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from headway.clock import Clock
from headway.core.accounts.jobs import Account, PlatformName
from headway.core.catalog.listings import LimitKey
from headway.core.limits.breaker import OPEN_FIRST, Breaker
from headway.engine.ports import BreakersPort
from headway.errors import HeadwayError, PermanentError

OUTAGE_MAX = timedelta(hours=24)
# How many minutes an account lets others go first that are to find out whether an outage has ended.
TURNS_MAX = 15


class PlatformBreakers:
    """The breakers of platforms and accounts, for the pull lane."""

    def __init__(self, breakers: BreakersPort, clock: Clock) -> None:
        self._breakers = breakers
        self._clock = clock

    def load(self, platforms: Sequence[PlatformName]) -> Mapping[PlatformName, Breaker]:
        """Return the breaker of each platform."""
        loaded = self._breakers.load_all([_limit_key(platform) for platform in platforms])
        return {platform: loaded[_limit_key(platform)] for platform in platforms}

    def probe(self, platform: PlatformName, breaker: Breaker) -> None:
        """Record that a platform which is believed to be down is tried now."""
        if breaker.is_open:
            self._breakers.save(_limit_key(platform), breaker.probing(self._clock.now()))

    def answered(self, account: Account) -> None:
        """Record that a platform answers this account."""
        limit_keys = [_limit_key(account.platform), _own_limit_key(account)]
        for limit_key, breaker in self._breakers.load_all(limit_keys).items():
            if breaker.failures:
                self._breakers.save(limit_key, breaker.succeeded())

    def failed(self, account: Account, error: HeadwayError) -> datetime | None:
        """Count a failed call; return until when to wait if it is an outage, else None.

        A request that is refused as such (404, 400) says nothing about other accounts. In an
        outage, the account waits a little longer than others, so that the next to try is another.
        """
        now, why = self._clock.now(), str(error)
        own_limit_key, limit_key = _own_limit_key(account), _limit_key(account.platform)
        own, shared = self._breakers.load_all([own_limit_key, limit_key]).values()
        if not own.failures and not isinstance(error, PermanentError):
            shared = shared.failed(now, why)
            self._breakers.save(limit_key, shared)
        own = own.failed(now, why)
        self._breakers.save(own_limit_key, own)
        is_old = own.opened_at is not None and now - own.opened_at > OUTAGE_MAX
        turn = None
        if shared.open_until is not None:
            turn = shared.open_until + OPEN_FIRST * min(own.failures, TURNS_MAX)
        instants = [turn, None if is_old else own.open_until]
        return max((instant for instant in instants if instant is not None), default=None)


def _limit_key(platform: PlatformName) -> LimitKey:
    """Return the name of a platform's breaker: an outage is all its sellers'."""
    return LimitKey(platform)


def _own_limit_key(account: Account) -> LimitKey:
    """Return the name of an account's breaker, which keeps count of what fails there alone."""
    return LimitKey(f"{account.platform}:account:{account.id}")
