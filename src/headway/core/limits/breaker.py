"""The circuit breaker of a supplier: closed, open, or due for one probe."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

FAILURES_MAX = 3
OPEN_FIRST = timedelta(minutes=1)
OPEN_MAX = timedelta(minutes=15)
PROBE_LEASE = timedelta(minutes=2)
# More failed calls in a row than it takes to bisect ten seats down to one.
OUTAGE_FAILURES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Failed calls in a row, and until when none is tried."""

    failures: int = 0
    """Failed calls in a row."""
    trips: int = 0
    """How often it opened in a row."""
    open_until: datetime | None = None
    """Until when no call is made; null if it is closed."""
    opened_at: datetime | None = None
    """When it opened; null if it is closed."""
    reason: str = ""
    """Why it opened; empty if it is closed. Example: `the supplier answered 503`"""
    # Whether the supplier is believed to be down; the next call is a probe.
    is_open: bool = field(init=False, default=False)
    """True if no calls are made."""

    def __post_init__(self) -> None:
        """Derive whether it is open."""
        object.__setattr__(self, "is_open", self.open_until is not None)

    @property
    def saw_outage(self) -> bool:
        """True if too many calls failed in a row for any SKU to be the cause."""
        return self.failures >= OUTAGE_FAILURES

    def blocked_until(self, now: datetime) -> datetime | None:
        """Return when the next call may be tried, if not now."""
        return self.open_until if self.open_until and self.open_until > now else None

    def probing(self, now: datetime) -> "Breaker":
        """Record that a probe is sent now, so that no second one is."""
        return replace(self, open_until=now + PROBE_LEASE) if self.is_open else self

    def failed(self, now: datetime, reason: str) -> "Breaker":
        """Count a failed call; open after a few in a row, longer each time."""
        failures = self.failures + 1
        if failures < FAILURES_MAX and not self.is_open:
            return replace(self, failures=failures, reason=reason)
        pause = min(OPEN_MAX, OPEN_FIRST * 2**self.trips)
        return Breaker(
            failures=failures,
            trips=min(self.trips + 1, 10),
            open_until=now + pause,
            opened_at=self.opened_at or now,
            reason=reason,
        )

    def succeeded(self) -> "Breaker":
        """Close, and forget."""
        return Breaker()
