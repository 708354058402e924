"""Every limiter behind one question: whether to call now, or within some seconds.

Each is used as its documentation shows. A limit of a million a second permits everything; the
strict limit is 2 in 2 s, a thirtieth of the supplier's minute.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

import psycopg_pool
import pyrate_limiter
import redis
import throttled
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter

from bench.services import CLOCK
from headway.core.limits.transitions import (
    Bucket,
    Expired,
    Granted,
    NotYet,
    Permit,
    Rejected,
    Resource,
    Window,
)
from headway.store.limits.limiter import PostgresLimiter
from headway.store.pool import open_pool
from limits import RateLimitItemPerSecond

HUGE = 1_000_000
STRICT_LIMIT = 2
STRICT_SPAN_S = 2
RETRY_S = 0.005
LEASE_S = 20.0

Finish = Callable[[], None]
Acquire = Callable[[float], Finish | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a client process builds: which limiter, under which limit, where."""

    name: str
    key: str
    is_strict: bool
    postgres: str
    postgres_async: str
    valkey: str

    @property
    def limit(self) -> int:
        """Calls allowed in a span."""
        return STRICT_LIMIT if self.is_strict else HUGE

    @property
    def span_s(self) -> int:
        """The span in seconds."""
        return STRICT_SPAN_S if self.is_strict else 1


def no_settlement() -> None:
    """Finish a call of a limiter that needs no settlement."""


def build(order: Order, stack: ExitStack) -> Acquire:
    """Make the limiter of this name; the stack closes what it opens."""
    return BUILDERS[order.name](order, stack)


def _headway(order: Order, stack: ExitStack) -> Acquire:
    return _permits(order, order.postgres, stack)


def _headway_async(order: Order, stack: ExitStack) -> Acquire:
    return _permits(order, order.postgres_async, stack)


def _permits(order: Order, dsn: str, stack: ExitStack) -> Acquire:
    pool = stack.enter_context(open_pool(dsn, size=1))
    window = Window(limit=order.limit, span_s=order.span_s, gap_s=order.span_s / order.limit)
    # A window remembers every call of its span; a million of them is a bucket's work.
    rule = window if order.is_strict else Bucket(capacity=HUGE, rate_per_s=HUGE)
    limiter = PostgresLimiter(pool, CLOCK, [Resource(key=order.key, rules=(rule,))])

    def acquire(timeout_s: float) -> Finish | None:
        give_up_at = CLOCK.monotonic() + timeout_s
        while True:
            wait_s = max(0.0, give_up_at - CLOCK.monotonic())
            reservation = limiter.reserve(
                [order.key], owner="bench", max_wait_s=wait_s, lease_s=LEASE_S, grace_s=LEASE_S
            )
            if isinstance(reservation, Rejected):
                # A new key starts paused or full, because its past is unknown.
                if timeout_s == 0 or reservation.retry_in_s > wait_s:
                    return None
                CLOCK.sleep(min(reservation.retry_in_s, wait_s))
                continue
            CLOCK.sleep(reservation.wait_s)
            if _begun(limiter, reservation):
                return lambda: limiter.settle(reservation, sent=True)

    return acquire


def _begun(limiter: PostgresLimiter, permit: Permit) -> bool:
    """Begin, as late as the limiter allows; False when the permit has lapsed."""
    while True:
        match limiter.begin(permit):
            case Granted():
                return True
            case Expired():
                return False
            case NotYet(wait_s=wait_s):
                CLOCK.sleep(wait_s)


def _limits(order: Order, stack: ExitStack) -> Acquire:
    del stack
    strategy = MovingWindowRateLimiter(storage_from_string(order.valkey))
    item = RateLimitItemPerSecond(order.limit, order.span_s)

    def acquire(timeout_s: float) -> Finish | None:
        give_up_at = CLOCK.monotonic() + timeout_s
        while not strategy.hit(item, order.key):
            left_s = give_up_at - CLOCK.monotonic()
            if left_s <= 0:
                return None
            reset_at = strategy.get_window_stats(item, order.key).reset_time
            wait_s = reset_at - CLOCK.now().timestamp()
            CLOCK.sleep(min(left_s, max(RETRY_S, wait_s)))
        return no_settlement

    return acquire


def _pyrate_redis(order: Order, stack: ExitStack) -> Acquire:
    client = stack.enter_context(redis.Redis.from_url(order.valkey))
    bucket = pyrate_limiter.RedisBucket.init(_rates(order), client, order.key)
    return _pyrate(bucket, stack)


def _pyrate_postgres(order: Order, stack: ExitStack) -> Acquire:
    pool = psycopg_pool.ConnectionPool(order.postgres, min_size=1, max_size=2, open=True)
    stack.enter_context(pool)
    pool.wait()
    bucket = pyrate_limiter.PostgresBucket(pool, order.key.replace("-", "_"), _rates(order))
    return _pyrate(bucket, stack)


def _rates(order: Order) -> list[pyrate_limiter.Rate]:
    return [pyrate_limiter.Rate(order.limit, order.span_s * pyrate_limiter.Duration.SECOND)]


def _pyrate(bucket: pyrate_limiter.AbstractBucket, stack: ExitStack) -> Acquire:
    limiter = pyrate_limiter.Limiter(bucket)
    stack.callback(limiter.close)

    def acquire(timeout_s: float) -> Finish | None:
        if timeout_s == 0:
            return no_settlement if limiter.try_acquire("bench", blocking=False) else None
        try:
            is_granted = limiter.try_acquire("bench", blocking=True, timeout=timeout_s)
        except TimeoutError:
            return None
        return no_settlement if is_granted else None

    return acquire


def _throttled(order: Order, stack: ExitStack) -> Acquire:
    return _gcra(order, order.limit, stack)


def _throttled_one(order: Order, stack: ExitStack) -> Acquire:
    return _gcra(order, 1 if order.is_strict else order.limit, stack)


def _gcra(order: Order, burst: int, stack: ExitStack) -> Acquire:
    del stack
    quota = throttled.per_duration(timedelta(seconds=order.span_s), order.limit, burst)
    limiter = throttled.Throttled(
        key=order.key, using="gcra", quota=quota, store=throttled.RedisStore(server=order.valkey)
    )

    def acquire(timeout_s: float) -> Finish | None:
        if timeout_s == 0:
            return None if limiter.limit().limited else no_settlement
        give_up_at = CLOCK.monotonic() + timeout_s
        while (left_s := give_up_at - CLOCK.monotonic()) > 0:
            if not limiter.limit(timeout=left_s).limited:
                return no_settlement
            CLOCK.sleep(min(left_s, RETRY_S))
        return None

    return acquire


BUILDERS: dict[str, Callable[[Order, ExitStack], Acquire]] = {
    "headway, durable": _headway,
    "headway, async commit": _headway_async,
    "limits moving window": _limits,
    "pyrate RedisBucket": _pyrate_redis,
    "pyrate PostgresBucket": _pyrate_postgres,
    "throttled GCRA": _throttled,
    "throttled GCRA, burst 1": _throttled_one,
}
