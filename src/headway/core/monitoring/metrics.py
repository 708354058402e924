"""The signs that alerts are judged by, at one instant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headway.core.catalog.listings import SellerId, SupplierName
from headway.core.limits.breaker import Breaker
from headway.core.pauses import Pause


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionMetric:
    """A seller's shop or account: whether it is connected, and what is wrong with it.

    Of no seller if it is a platform, which is everybody's.
    """

    seller: SellerId | None
    name: str
    is_connected: bool
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaMetric:
    """A platform's day: what is left of it, and until when none is."""

    platform: str
    left: float
    limit: float
    room_at: datetime | None = None
    paused_until: datetime | None = None

    def is_spent(self, now: datetime) -> bool:
        """Whether no call may leave now."""
        return self.left < 1 or (self.paused_until is not None and self.paused_until > now)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierMetric:
    """What a tier was promised, for which share of its listings that was kept, and how it burns.

    A burn of 1 breaks just as much as the promise allows. Of the two spans of a pair the lesser
    counts: it has burnt for long, and still does.
    """

    tier: str
    promise_min: float
    kept_share: float
    burn_fast: float
    burn_slow: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMetric:
    """A grant that ends at an instant unless somebody connects again."""

    seller: SellerId
    name: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HourMetric:
    """The last hour of the supplier's line, of everybody's: calls, reads, and what was left over.

    `overdue` have been due for more than an hour. `stuck` are in hand though their lease ended
    long ago, parts and jobs. `permit_wait_s` is how much longer the next permit takes than the
    pace of the limit explains.
    """

    calls: int = 0
    calls_failed: int = 0
    reads: int = 0
    reads_failed: int = 0
    overdue: int = 0
    stuck: int = 0
    permit_wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMetrics:
    """What alerts are judged by, at one instant; `others` are open breakers by supplier."""

    now: datetime
    breaker: Breaker
    others: Mapping[SupplierName, Breaker] = field(default_factory=dict)
    hour: HourMetric = field(default_factory=HourMetric)
    calls_paused_until: datetime | None = None
    calls_paused_reason: str = ""
    pauses: Sequence[Pause] = ()
    stale: int = 0
    total: int = 0
    oldest_read_at: datetime | None = None
    promises: Sequence[TierMetric] = ()
    held: int = 0
    held_since: datetime | None = None
    failing: int = 0
    refused: int = 0
    refusals_in_a_row: int = 0
    parked: int = 0
    connections: Sequence[ConnectionMetric] = ()
    dead_jobs: int = 0
    quotas: Sequence[QuotaMetric] = ()
    tokens: Sequence[TokenMetric] = ()
