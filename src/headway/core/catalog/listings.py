"""Value types of the catalog lane: listings, priorities, quotes, claims, waits."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NewType

# Leases are written by one host's clock and read by another's; each may be 90 s off.
CLOCKS_APART_MAX = timedelta(minutes=3)

Sku = NewType("Sku", str)
SellerId = NewType("SellerId", str)
LimitKey = NewType("LimitKey", str)
# What a deployment calls a credential at a supplier; `main` is the one of its settings.
SupplierName = NewType("SupplierName", str)
MAIN = SupplierName("main")


class Priority(StrEnum):
    """Why a listing is in a call, highest priority first."""

    MANUAL = "manual"
    ONBOARDING = "onboarding"
    SCHEDULED = "scheduled"
    RETRY = "retry"
    AHEAD = "ahead"


class Outcome(StrEnum):
    """How a read of a listing ended."""

    UNCHANGED = "unchanged"
    UPDATED = "updated"
    FAILED = "failed"


class AuthStep(StrEnum):
    """A token request that must go before the price call; it costs a permit of its own."""

    OAUTH = "oauth"
    PART_TOKEN = "part_token"  # noqa: S105 - the name of a step, not a secret
    LIST = "list"  # the whole price list, where a supplier is one


# Makes the listings of these SKUs due now, however their case is written; None means all.
MakeDue = Callable[[Collection[str] | None], object]


class ProductState(StrEnum):
    """State of a listing at its supplier; the first that applies."""

    PARKED = "parked"
    REMOVED = "removed"
    INACTIVE = "inactive"
    PAUSED = "paused"
    READING = "reading"
    FAILING = "failing"
    UNREAD = "unread"
    STALE = "stale"
    FRESH = "fresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A step ended; there may be more to do at once."""

    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do before `until`; `why` is the text shown to people."""

    until: datetime
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A listing at the front of the queue, not yet claimed; `is_proven` if it was read before."""

    id: str
    user_id: SellerId
    sku: Sku
    priority: Priority
    next_sync_at: datetime
    suspicion: int = 0
    is_proven: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What reads show about how often a listing changes; old changes count less and less."""

    changes_seen: float = 0.0
    watched_days: float = 0.0
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A claimed listing, with what is needed to settle it.

    `batch_id` names the batch in which it is being published, if it is. `value_weight` is what a
    minute of staleness costs compared with other listings; `family` the group it changes with;
    `swept_from` its own due time before its family was swept. `applied_price` is what the shop
    showed last. `channels` are its own sales channels; `is_published` if Headway was asked to
    publish it, now or before.
    """

    id: str
    user_id: SellerId
    sku: Sku
    priority: Priority
    fence: int
    next_sync_at: datetime
    hour_bucket: int
    minute_offset: int
    created_at: datetime
    last_successful_sync: datetime | None = None
    consecutive_failures: int = 0
    missing_count: int = 0
    suspicion: int = 0
    last_boeing_hash: str | None = None
    observed: Mapping[str, Any] | None = None
    desired: Mapping[str, Any] | None = None
    desired_version: int = 0
    applied_price: str | None = None
    held_reason: str | None = None
    proposed: Mapping[str, Any] | None = None
    rejected: Mapping[str, Any] | None = None
    moved_at: datetime | None = None
    emptied_at: datetime | None = None
    batch_id: str | None = None
    sync_priority: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    value_weight: float = 1.0
    family: str | None = None
    swept_from: datetime | None = None
    channels: str | None = None
    is_published: bool = False


class BelievedStock(StrEnum):
    """What a doubtful quote may change in a shop's stock before a person decides."""

    AS_READ = "as read"  # the doubt is about the price alone
    FALLEN = "fallen"  # less than the shop shows is believed, more is not
    NONE = "none"  # one of two claims is that there is none
    KEPT = "kept"  # the numbers are no evidence
    MOVED = "moved"  # what is gone may be at a location whose name is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a quote must wait for a person; `kind` is the same in every read, `reason` is shown."""

    kind: str
    reason: str
    stock: BelievedStock = BelievedStock.FALLEN


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppliedDetails:
    """What a supplier writes about a product, as text; nothing of it is checked yet."""

    weight: str = ""
    weight_unit: str = ""
    origin: str = ""
    tariff_code: str = ""
    condition: str = ""
    image: str = ""


DETAILS = tuple(detail.name for detail in fields(SuppliedDetails))
NO_DETAILS = SuppliedDetails()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The supplier's quote for one SKU; quantities are by the supplier's location names.

    `unit` is what price and quantities count, empty if the supplier does not name it; `minimum`
    is the least number of units that it sells. Quotes that differ only in their texts are equal.
    """

    sku: Sku
    list_price: Decimal | None
    net_price: Decimal | None
    currency: str
    quantities: Mapping[str, int] = field(default_factory=dict)
    unit: str = ""
    minimum: int = 1
    doubts: tuple[Doubt, ...] = ()
    name: str = field(default="", compare=False)
    description: str = field(default="", compare=False)
    vendor: str = field(default="", compare=False)
    details: SuppliedDetails = field(default=NO_DETAILS, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole price reply: quotes, what was silently missing, and lines that made no sense.

    `unclear` are SKUs without a line while the reply holds a line that names nobody. `raw` holds
    the supplier's own words about each SKU that has a line, and `known_fields` the names of those
    that are read; empty if the supplier has no names of its own.
    """

    quotes: Mapping[Sku, Quote]
    missing: frozenset[Sku] = frozenset()
    faulty: Mapping[Sku, str] = field(default_factory=dict)
    unclear: Mapping[Sku, str] = field(default_factory=dict)
    raw: Mapping[Sku, Mapping[str, Any]] = field(default_factory=dict)
    known_fields: frozenset[str] = frozenset()


# Keys that a change of the supplier's quote has only for those who know the documents' names.
DOCUMENT_KEYS = {"price_changed": {"price"}, "quantity_changed": {"price", "quantity"}}


def own_values(kind: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of an event without those that only repeat others."""
    repeated = DOCUMENT_KEYS.get(kind, ())
    return {name: value for name, value in (values or {}).items() if name not in repeated}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingEvent:
    """An append-only fact about a listing; `code` is the kind of its error, for programs."""

    kind: str
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] | None = None
    error: str | None = None
    code: str | None = None
