"""The measurements that alert rules check, at one instant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headway.core.catalog.listings import SellerId, SupplierName
from headway.core.limits.breaker import Breaker
from headway.core.pauses import Pause

# With less than this share of its day left, jobs of a platform leave it to others.
SHORT_SHARE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionMetric:
    """Whether a seller's shop or account is connected, and what is wrong with it.

    A whole platform has no seller; `refused` if it refuses the tokens of so many accounts at once,
    `count` if so many accounts of it were disconnected for the same reason within the hour `at`.
    """

    seller: SellerId | None
    name: str
    is_connected: bool
    trouble: str = ""
    refused: int = 0
    count: int = 1
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsMetric:
    """Jobs of a platform, a kind and a tier: how many are due, and since when.

    `overdue` have been due for as long as their interval, `late` for so long that somebody should
    look. `last_call_at` is when a job made a call.
    """

    platform: str
    kind: str
    tier: str
    total: int
    due: int
    overdue: int
    late: int
    limited: int
    oldest_due_at: datetime | None
    last_call_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaMetric:
    """The daily quota of a platform: what is left, and when more becomes available.

    `top_account` is the seller and shop that uses most of it, if it is known.
    """

    platform: str
    left: float
    limit: float
    room_at: datetime | None = None
    paused_until: datetime | None = None
    top_account: str = ""
    top_calls: float = 0.0

    def is_spent(self, now: datetime) -> bool:
        """Return True if no call is allowed now."""
        return self.left < 1 or (self.paused_until is not None and self.paused_until > now)

    def is_short(self, now: datetime) -> bool:
        """Return True if so little is left that jobs wait for it."""
        return self.is_spent(now) or self.left < SHORT_SHARE * self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class TierMetric:
    """A tier's promise, the share of its listings for which it was kept, and its burn rates.

    A burn rate of 1 breaks exactly as much as the promise allows. Each rate is the lower one of two
    windows: the promise has been broken for long, and still is.
    """

    tier: str
    promise_min: float
    kept_share: float
    burn_fast: float
    burn_slow: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMetric:
    """A grant that expires unless the seller connects the account again."""

    seller: SellerId
    name: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableMetric:
    """Records of one account and kind that cannot be read; `examples` are some of their ids."""

    seller: SellerId
    name: str
    kind: str
    count: int
    examples: Sequence[str]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleNames:
    """The first few of what is in trouble, by name, for the alerts that count them."""

    parked: Sequence[str] = ()
    failing: Sequence[str] = ()
    refused: Sequence[str] = ()
    dead_jobs: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalMetric:
    """Listings of an account that its platform no longer shows, and why they are not removed."""

    seller: SellerId
    platform: str
    name: str
    missing: int
    known: int
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyMetric:
    """Customers of a shop who wait for their data: how many, since when, and by when."""

    seller: SellerId
    name: str
    count: int
    since: datetime
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationMetric:
    """A location of a supplier with stock that is neither mapped nor left out on purpose."""

    supplier: SupplierName
    name: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedKeyMetric:
    """A supplier that refused calls though Headway kept its limit.

    `share` is what Headway spends of the limit; None if its policy does not slow down.
    """

    supplier: SupplierName
    count: int
    since: datetime
    last_at: datetime
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityMetric:
    """Parts of a shop that customers do not see where they should, and the first reason."""

    seller: SellerId
    name: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OversellMetric:
    """Parts of a shop that customers can buy when there are none left, and the first few."""

    seller: SellerId
    name: str
    count: int
    examples: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourMetric:
    """The last hour of all supplier queues: calls, reads, and what was left over.

    `overdue` parts have been due for more than an hour. `stuck` parts and jobs are still claimed
    although their lease ended long ago. `permit_wait_s` is how much longer the next permit takes
    than the limit's own pace explains.
    """

    calls: int = 0
    calls_failed: int = 0
    reads: int = 0
    reads_failed: int = 0
    overdue: int = 0
    stuck: int = 0
    permit_wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetric:
    """A step of the housekeeping that fails: since when, how often in a row, and the last error."""

    name: str
    since: datetime
    failures: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointMetric:
    """An endpoint whose attempts fail: since when, and why; or since when it is disabled."""

    id: str
    seller: SellerId | None
    host: str
    is_disabled: bool
    since: datetime
    error: str
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointMetrics:
    """Endpoints and the events that wait for them; `oldest_at` is when the oldest happened."""

    failing: Sequence[EndpointMetric] = ()
    enabled: int = 0
    disabled: int = 0
    waiting: int = 0
    oldest_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMetrics:
    """What the alert rules check; `others` are the open breakers of further suppliers.

    `age_max` is how old a read may become under the policy; slots that repeat daily need an hour
    more than a day. `ticked_at` is when the last round of the housekeeping was made.
    """

    now: datetime
    breaker: Breaker
    others: Mapping[SupplierName, Breaker] = field(default_factory=dict)
    hour: HourMetric = field(default_factory=HourMetric)
    calls_paused_until: datetime | None = None
    calls_paused_reason: str = ""
    pauses: Sequence[Pause] = ()
    stale: int = 0
    age_max: timedelta = timedelta(hours=24)
    total: int = 0
    oldest_read_at: datetime | None = None
    promises: Sequence[TierMetric] = ()
    held: int = 0
    held_since: datetime | None = None
    failing: int = 0
    refused: int = 0
    refusals_in_a_row: int = 0
    parked: int = 0
    names: TroubleNames = field(default_factory=TroubleNames)
    unreadable: Sequence[UnreadableMetric] = ()
    connections: Sequence[ConnectionMetric] = ()
    disconnected: int = 0
    jobs: Sequence[JobsMetric] = ()
    sellers_at_quota: int = 0
    dead_jobs: int = 0
    held_removals: Sequence[RemovalMetric] = ()
    privacy: Sequence[PrivacyMetric] = ()
    open_erasures: int = 0
    erasing_since: datetime | None = None
    unknown_locations: Sequence[LocationMetric] = ()
    shared_keys: Sequence[SharedKeyMetric] = ()
    unpublished: Sequence[VisibilityMetric] = ()
    oversold: Sequence[OversellMetric] = ()
    quotas: Sequence[QuotaMetric] = ()
    tokens: Sequence[TokenMetric] = ()
    ticked_at: datetime | None = None
    failing_steps: Sequence[StepMetric] = ()
    endpoints: EndpointMetrics = field(default_factory=EndpointMetrics)
