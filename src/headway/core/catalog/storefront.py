"""Values of the storefront: what a shop shows, what is written to it, and its results.

Quantities are by the shop's location names here and in the tables; only the provider and what is
sent know the ids of a shop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, NewType

from headway.core.accounts.jobs import Account
from headway.core.catalog.listings import ListingEvent, SellerId, Sku
from headway.core.catalog.product_details import ProductDetails
from headway.core.dispatch import STOREFRONT
from headway.core.limits.transitions import Observation

Gid = NewType("Gid", str)


class ProductStatus(StrEnum):
    """Whether a product is for sale, as the shop names it."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"
    DRAFT = "DRAFT"
    UNLISTED = "UNLISTED"


class InventoryPolicy(StrEnum):
    """Whether customers can buy a variant when there is none left."""

    DENY = "DENY"
    CONTINUE = "CONTINUE"


class WriteKind(StrEnum):
    """What a call to the shop does; the first seven write, and have an intent."""

    STOCK = "stock"
    ACTIVATE = "activate"
    PRICE = "price"
    STATUS = "status"
    CREATE = "create"
    PUBLISH = "publish"
    BULK = "bulk"
    READ = "read"
    FIND = "find"
    LOCATIONS = "locations"
    CHANNELS = "channels"


class WriteVerdict(StrEnum):
    """Result of one item of a call."""

    DONE = "done"
    STALE = "stale"  # another state was there than we believed: read it back
    UNKNOWN = "unknown"  # no such id: find the product again by its SKU
    UNSTOCKED = "unstocked"  # not stocked at that location: activate it there
    REFUSED = "refused"  # will never be accepted as is; see the reason
    AGAIN = "again"  # not done, through no fault of its own: send it again


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopDetails:
    """What a shop reports of itself: its locations (name to id) and what it lets our app do.

    The access scopes are None if the shop did not list them.
    """

    locations: Mapping[str, Gid]
    scopes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A seller's shop: its account, locations and channels (name to id), and its seller's terms.

    Locations and channels are None until they were read recently. `stops_overselling` if variants
    that sell at zero stock are changed, rather than reported.
    `currency` is the seller's own, if it is not the deployment's.
    In rehearsal a shop is read, never written. `takeover` is why first prices are held, if so many
    parts of the shop have just been taken over.
    """

    id: str
    user_id: SellerId
    domain: str
    locations: Mapping[str, Gid] | None = None
    channels: Mapping[str, Gid] | None = None
    missing_scopes: tuple[str, ...] = ()
    guard_move: Decimal | None = None
    stops_overselling: bool = False
    is_in_rehearsal: bool = False
    currency: str | None = None
    takeover: str | None = None

    @property
    def account(self) -> Account:
        """The shop as an account of its seller."""
        return Account(id=self.id, user_id=self.user_id, platform=STOREFRONT, shop=self.domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """Where a listing lives in its shop."""

    product: Gid
    variant: Gid
    item: Gid


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a shop shows of one variant, as it was read; quantities by location id.

    `channels` are those on which customers see it; None if that was not asked.
    """

    ids: Ids
    sku: str
    price: Decimal
    compare_at: Decimal | None
    cost: Decimal | None
    tracked: bool
    status: ProductStatus
    variants_count: int
    quantities: Mapping[Gid, int]
    handle: str = ""
    inventory_policy: InventoryPolicy = InventoryPolicy.DENY
    channels: frozenset[Gid] | None = None

    @property
    def sells_at_zero(self) -> bool:
        """True if customers can buy it when there is none left."""
        return not self.tracked or self.inventory_policy is InventoryPolicy.CONTINUE

    def as_json(self, shop: Shop) -> dict[str, Any]:
        """Return the form that is stored beside the applied state: as the shop shows it."""
        names = {gid: name for name, gid in (shop.locations or {}).items()}
        return {
            "price": str(self.price),
            "compare_at": None if self.compare_at is None else str(self.compare_at),
            "cost": None if self.cost is None else str(self.cost),
            "tracked": self.tracked,
            "inventory_policy": self.inventory_policy.value,
            "status": self.status.value,
            "variants_count": self.variants_count,
            "quantities": {names.get(gid, gid): count for gid, count in self.quantities.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopChannels:
    """The sales channels of a shop, name to id, and the scopes that publishing still needs."""

    ids: Mapping[str, Gid] = field(default_factory=dict)
    missing_scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StockWrite:
    """One quantity; `change_from` is what we believe is there, None if we do not know."""

    sku: Sku
    item: Gid
    location: Gid
    quantity: int
    change_from: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceWrite:
    """Price and cost of one variant, and what else of it is ours.

    The crossed-out price stays as it is if `keeps_compare_at`. With `stops_overselling` the stock
    is tracked, and nothing is sold at zero, from then on.
    """

    sku: Sku
    product: Gid
    variant: Gid
    price: Decimal
    compare_at: Decimal | None
    cost: Decimal
    keeps_compare_at: bool = False
    stops_overselling: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWrite:
    """Whether a product is for sale."""

    sku: Sku
    product: Gid
    status: ProductStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A product to be made; the handle names it, so that making it twice makes one."""

    sku: Sku
    shop_sku: str
    handle: str
    title: str
    description_html: str
    vendor: str
    price: Decimal
    compare_at: Decimal | None
    cost: Decimal
    quantities: Mapping[Gid, int]
    details: ProductDetails = field(default_factory=ProductDetails)
    # The channels on which its visibility is read in the same call.
    channels: Sequence[Gid] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishWrite:
    """Sales channels on which a product is published."""

    sku: Sku
    product: Gid
    channels: Sequence[Gid]


Write = StockWrite | PriceWrite | StatusWrite | Creation | PublishWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """Result of one write; `shown` if the reply includes the new state."""

    verdict: WriteVerdict
    reason: str = ""
    shown: Shown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The points a call cost, and the level of the shop's bucket; None if not reported."""

    requested: float
    actual: float | None = None
    available: float | None = None
    capacity: float | None = None
    restore_per_s: float | None = None

    @property
    def observation(self) -> Observation | None:
        """The observation for the limiter, once the call is settled."""
        if self.available is None or self.capacity is None:
            return None
        return Observation(
            used=max(0.0, self.capacity - self.available),
            capacity=self.capacity,
            restore_per_s=self.restore_per_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a part that is being published brings along."""

    shop_sku: str
    title: str
    description_html: str = ""
    vendor: str = ""
    details: ProductDetails = field(default_factory=ProductDetails)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A listing whose shop differs, or may differ, from what is desired.

    `is_first` until any write was confirmed: its price in the shop is not yet ours. A `rival` is
    another part that already has its shop SKU. `is_created` until it was visible on its channels
    for the first time. `suspicion` holds, for each kind of call that failed
    as a whole with it, how many listings such a call may hold; 0 or less if it has failed alone.
    """

    user_id: SellerId
    sku: Sku
    shop_sku: str
    desired: Mapping[str, Any]
    desired_version: int
    applied: Mapping[str, Any] | None
    ids: Ids | None = None
    status: ProductStatus | None = None
    former_status: ProductStatus | None = None
    variants_count: int | None = None
    tracked: bool | None = None
    failures: int = 0
    error: str = ""
    suspicion: Mapping[str, int] = field(default_factory=dict)
    draft: Draft | None = None
    shown: Mapping[str, Any] | None = None
    is_created: bool = False
    is_first: bool = False
    rival: Sku | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A write that was stored before it was sent; its id is the idempotency key."""

    id: str
    kind: WriteKind
    skus: Sequence[Sku]
    writes: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


class Phase(StrEnum):
    """Phase of a bulk price update."""

    NEW = "new"
    STAGED = "staged"  # there is a place for the file
    UPLOADED = "uploaded"
    ASKED = "asked"  # the request to run it was sent; its reply is unknown
    RUNNING = "running"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadTarget:
    """Where to upload a file, and the form fields it needs; it grants access, so keep it secret."""

    url: str
    parameters: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def path(self) -> str:
        """The shop's name for the uploaded file."""
        return dict(self.parameters)["key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkProgress:
    """Stored progress of a bulk operation, and when its next call is due.

    `asked_at` is when the request to run it was sent; `url` is the address of its results.
    """

    phase: Phase = Phase.NEW
    target: UploadTarget | None = None
    path: str = ""
    asked_at: datetime | None = None
    operation: Gid | None = None
    url: str | None = None
    poll_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkIntent:
    """Prices that are on their way in bulk; no other price is written to these listings."""

    id: str
    skus: frozenset[Sku]
    created_at: datetime
    progress: BulkProgress = BulkProgress()


@dataclass(frozen=True, slots=True, kw_only=True)
class PushLease:
    """One visit to one shop, leased: what is due there, what is unsure, what is to be verified."""

    shop: Shop
    fence: int
    changes: Sequence[Change] = ()
    open: Sequence[Intent] = ()
    drift_check: Sequence[Change] = ()
    bulk: BulkIntent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVariants:
    """Variants by the shop SKU that was looked for, compared exactly; unsure: the page was cut."""

    shown: Mapping[str, Sequence[Shown]]
    unsure: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """Everything that one push writes about one listing, in one transaction.

    None changes nothing. If `applied` equals the newest desired state, nothing is left to push;
    otherwise the listing is due again at `retry_at`, or at once if its desired state has changed.
    With a reason to hold, `desired` takes the place of a desired state that becomes a proposal.
    `is_repriced` if a first price replaces the shop's own, now or once it is approved.
    """

    change: Change
    applied: Mapping[str, Any] | None = None
    forgets_applied: bool = False
    ids: Ids | None = None
    forgets_ids: bool = False
    handle: str | None = None
    status: ProductStatus | None = None
    former_status: ProductStatus | None = None
    variants_count: int | None = None
    shown: Mapping[str, Any] | None = None
    tracked: bool | None = None
    inventory_policy: InventoryPolicy | None = None
    is_verified: bool = False
    retry_at: datetime | None = None
    failures: int = 0
    error: str = ""
    suspicion: Mapping[str, int] | None = None
    staging: str | None = None
    held_reason: str | None = None
    desired: Mapping[str, Any] | None = None
    is_repriced: bool = False
    events: tuple[ListingEvent, ...] = ()
