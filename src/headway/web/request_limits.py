"""Request limits: a token bucket for each caller, in this process, refilled evenly."""

import threading
from collections import OrderedDict

from headway.clock import Clock
from headway.errors import TooManyError

KNOWN_MAX = 10_000


class Buckets:
    """A minute's worth of requests for each caller; the least recent callers are dropped."""

    def __init__(self, per_minute: int, real_time: Clock) -> None:
        self._per_minute = per_minute
        self._real_time = real_time
        self._lock = threading.Lock()
        # Caller → how many requests were left, and when that was.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        """Take one request out of a caller's bucket; raises TooManyError if it is empty."""
        now_s, per_s = self._real_time.monotonic(), self._per_minute / 60
        with self._lock:
            left, at_s = self._left.pop(who, (float(self._per_minute), now_s))
            left = min(float(self._per_minute), left + (now_s - at_s) * per_s)
            self._left[who] = (max(left - 1, 0) if left >= 1 else left, now_s)
            if len(self._left) > KNOWN_MAX:
                self._left.popitem(last=False)
        if left < 1:
            raise TooManyError(
                f"more than {self._per_minute:,} requests a minute; wait a moment",
                retry_after_s=(1 - left) / per_s,
            )
