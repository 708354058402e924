"""Jobs of the account lane: who goes first, what an end of a run makes of a job.

queued ──claim──▶ running ──▶ completed ──due──▶ queued      (a backfill stays completed)
                     ├──────▶ queued                         yields, told to wait, quota spent
                     ├──────▶ failed ──due──▶ queued         2^n minutes later
                     ├──────▶ dead ──revive──▶ queued        the fifth failure; the seller is told
                     └──────▶ plan_limit_reached ──month, upgrade──▶ queued
any but dead ──disconnect──▶ cancelled ──reconnect──▶ queued, from its cursor
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from headway.core.model import SellerId
from headway.core.walk import Cursor


class PlatformName(StrEnum):
    """Where sellers sell."""

    SHOPIFY = "shopify"
    ETSY = "etsy"
    PRINTIFY = "printify"


class Tier(StrEnum):
    """What a seller pays for, least first."""

    FREE = "free"
    STARTER = "starter"
    GROWTH = "growth"
    PRO = "pro"

    @property
    def weight(self) -> int:
        """1 for free to 4 for pro."""
        return list(Tier).index(self) + 1

    @property
    def is_paid(self) -> bool:
        """Whether the seller pays."""
        return self is not Tier.FREE


class Kind(StrEnum):
    """What a job pulls."""

    ORDERS = "orders"
    LISTINGS = "listings"
    CUSTOMERS = "customers"
    PAYMENTS = "payments"


class JobType(StrEnum):
    """Why a job runs, least urgent first."""

    BACKFILL = "backfill"
    INCREMENTAL = "incremental"
    WEBHOOK = "webhook_triggered"

    @property
    def weight(self) -> int:
        """1 for a backfill to 3 for a webhook."""
        return list(JobType).index(self) + 1


class JobStatus(StrEnum):
    """Where a job stands; see the drawing above."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    LIMITED = "plan_limit_reached"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A seller's connection to a platform; `shop` is a domain or the platform's shop id.

    `owner_id` is whom the platform's limit binds where that is not the shop.
    """

    id: str
    user_id: SellerId
    platform: PlatformName
    shop: str
    owner_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A claimed job, with what is needed to run and to settle it.

    `wanted` are ids that webhooks named. `run_calls` counts the calls of the run under way, over
    all its claims.
    """

    id: str
    account: Account
    kind: Kind
    type: JobType
    tier: Tier
    fence: int
    cursor: Cursor
    started_at: datetime
    due_at: datetime
    retry_count: int = 0
    calls_estimate: float = 0.0
    run_calls: int = 0
    wanted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRule:
    """The numbers of the account lane; see `config` for what each means."""

    intervals: Mapping[Tier, timedelta]
    kind_intervals: Mapping[Kind, timedelta]
    order_quotas: Mapping[Tier, int]
    running_max: int = 10
    failures_max: int = 5
    # A job gains a point of score for each such span that it waits beyond its due time.
    ageing: timedelta = timedelta(minutes=5)
    # After so many calls a run gives way to others, and goes on later.
    calls_per_claim: Mapping[JobType, int] = field(
        default_factory=lambda: {
            JobType.BACKFILL: 10,
            JobType.INCREMENTAL: 50,
            JobType.WEBHOOK: 50,
        }
    )
    lease: timedelta = timedelta(seconds=90)


# Etsy and Printify tell buyers only on orders; Shopify tells payments with them, Printify never.
KINDS: Mapping[PlatformName, tuple[Kind, ...]] = {
    PlatformName.SHOPIFY: (Kind.ORDERS, Kind.LISTINGS, Kind.CUSTOMERS),
    PlatformName.ETSY: (Kind.ORDERS, Kind.LISTINGS, Kind.PAYMENTS),
    PlatformName.PRINTIFY: (Kind.ORDERS, Kind.LISTINGS),
}
# What has a history to be pulled once; listings are walked whole every time.
BACKFILLED = frozenset({Kind.ORDERS, Kind.CUSTOMERS, Kind.PAYMENTS})


def score(tier: Tier, job_type: JobType) -> int:
    """Return who goes first, before ageing: 43 for a pro's webhook to 11 for a free backfill."""
    return tier.weight * 10 + job_type.weight
