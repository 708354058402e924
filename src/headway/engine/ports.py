"""What the engine needs from the outside, as protocols; the store and the providers fit them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from headway.core.accounts.jobs import Account, Job, JobStatus, PlatformName
from headway.core.accounts.pagination import Page, PageRequest, PageStep
from headway.core.accounts.refusals import RefusalVerdict
from headway.core.catalog.bulk import BulkOperationStatus
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.lifecycle import Settlement
from headway.core.catalog.listings import (
    AuthStep,
    Candidate,
    LimitKey,
    Listing,
    MakeDue,
    Reply,
    SellerId,
    Sku,
)
from headway.core.catalog.storefront import (
    BulkIntent,
    BulkProgress,
    Change,
    Cost,
    Creation,
    FoundVariants,
    Gid,
    Intent,
    PriceWrite,
    PublishWrite,
    Pushed,
    PushLease,
    Shop,
    ShopChannels,
    ShopDetails,
    Shown,
    StatusWrite,
    StockWrite,
    UploadTarget,
    WriteResult,
)
from headway.core.limits.breaker import Breaker
from headway.core.limits.transitions import Observation, Permit
from headway.core.timetable.market import Lesson, Market


class SchedulePort(Protocol):
    """The rows of `product_sync_schedule`: front of the queue, claim, settle, rescue."""

    def front(
        self,
        now: datetime,
        *,
        limit: int,
        without: Collection[Sku] = (),
        only_clean: bool = False,
    ) -> list[Candidate]:
        """Return the candidates for the next call, a few of each priority, by due time.

        `only_clean` leaves out listings that were in a failed call since their last good one.
        """

    def claim(
        self,
        skus: Sequence[Sku],
        *,
        now: datetime,
        owner: str,
        lease_until: datetime,
        retried: Collection[Sku] = (),
    ) -> list[Listing]:
        """Lease every free listing of these SKUs, of every seller, under a new fence.

        Those `retried` take seats of a retry window.
        """

    def settle(self, settlements: Sequence[Settlement], *, now: datetime, call_id: str) -> int:
        """Write outcomes, states and events in one transaction; return how many were refused."""

    def listed(self) -> int:
        """Return how many listings there are, as last counted."""

    def retried_since(self, since: datetime) -> int:
        """Return how many SKUs were in calls as retries since then."""

    def release(self, listings: Sequence[Listing], *, suspicion: Mapping[str, int]) -> int:
        """Release listings without an outcome, with their suspicion by id; return how many."""

    def make_due(self, skus: Collection[str] | None, *, now: datetime) -> int:
        """Make the listings of these SKUs due now, or all; return how many. Leases on them end."""

    def reset_suspicion(self) -> int:
        """Reset the suspicion of every listing that is not in a call; return how many."""

    def note_locations(self, names: Collection[str], *, now: datetime) -> int:
        """Store that stock was quoted at unknown locations, which raises an alert."""

    def rescue(self, now: datetime) -> int:
        """Free the listings whose lease has expired; return how many."""


class MarketsPort(Protocol):
    """The market of a supplier's seats, and the due times that it moves."""

    def load(self, families: Collection[str], now: datetime) -> Market:
        """Return the market as it is, with what is known of these families."""

    def count(self, now: datetime) -> None:
        """Count the SKUs among which the seats are shared."""

    def learn(self, market: Market, lesson: Lesson, now: datetime) -> Collection[Sku]:
        """Store what a call taught; return the SKUs whose due time it changed."""

    def refit(self, market: Market, now: datetime) -> None:
        """Learn again how rates are spread, unless another worker just did."""

    def oldest(self) -> datetime | None:
        """Return when the listing that waits longest was last read, or came; None if none waits."""

    def ages_min(self, now: datetime) -> Mapping[int, int]:
        """Return how many SKUs were last read that many minutes ago."""

    def hurry(self, count: int, now: datetime) -> Collection[Sku]:
        """Move the listings read longest ago to the front of the queue; return which moved."""


class TimetablePort(Protocol):
    """Due times that a policy moves for many at once."""

    def roll_retries(self, now: datetime, opens_at: datetime) -> Collection[Sku]:
        """Move retries that earlier windows left over into this one; return the moved SKUs."""


class SellersPort(Protocol):
    """What the engine needs of sellers: terms, guard, how much of a catalog moved."""

    def settings(
        self, user_ids: Collection[SellerId], now: datetime
    ) -> Mapping[SellerId, SellerSettings]:
        """Return the settings of each of these sellers."""

    def count_catalogs(self, now: datetime) -> int:
        """Count every seller's listings, for the guard; return how many numbers changed."""


class NoticesPort(Protocol):
    """Notices to sellers."""

    def warn_of_tokens(self, now: datetime) -> int:
        """Notify sellers, once, whose account will need a new sign-in; return how many."""


class HousekeepingPort(Protocol):
    """The record of the housekeeping's rounds."""

    def record_round(
        self, now: datetime, *, succeeded: Collection[str], errors: Mapping[str, str]
    ) -> None:
        """Record a round: the steps that succeeded in it, and the errors of those that failed."""


class BreakersPort(Protocol):
    """Circuit breakers of suppliers and platforms."""

    def load(self, limit_key: LimitKey) -> Breaker:
        """Return the breaker of this supplier; closed if it never tripped."""

    def load_all(self, limit_keys: Sequence[LimitKey]) -> Mapping[LimitKey, Breaker]:
        """Return the breakers of all these."""

    def save(self, limit_key: LimitKey, breaker: Breaker) -> None:
        """Store the breaker."""


class Supplier(Protocol):
    """An outside API that quotes price and stock for a few SKUs per call."""

    @property
    def limit_key(self) -> LimitKey:
        """The credential that the limit binds."""

    @property
    def seats(self) -> int:
        """How many SKUs fit one call."""

    def auth_step(self) -> AuthStep | None:
        """Return the request that must go first, if any: for a token, or for a whole list."""

    def authenticate(self, step: AuthStep, *, send_by_s: float, make_due: MakeDue) -> bool:
        """Make that request; False if none was made. Raises ProviderError.

        None is made while another worker is at it, nor after the monotonic second `send_by_s`.
        A supplier that reads a whole list calls `make_due` before it stores a list that differs.
        """

    def quote(self, skus: Sequence[Sku]) -> Reply:
        """Ask for these SKUs; raises ProviderError."""


class Storefront(Protocol):
    """One shop behind an outside API. Each method is one call; each raises ProviderError.

    A method that takes a sequence returns one result per item, in the same order.
    """

    @property
    def limit_key(self) -> LimitKey:
        """The app and shop that the limit binds."""

    @property
    def cost(self) -> Cost | None:
        """Cost of the last call, successful or not; None if the shop did not report it."""

    def needs_token(self) -> bool:
        """Return True if the access token must be refreshed before anything else."""

    def refresh_token(self, *, send_by_s: float) -> bool:
        """Refresh it; False if no request was made: another worker is at it, or it is too late."""

    def details(self) -> ShopDetails:
        """Return the active locations, and the access scopes that the shop granted."""

    def channels(self) -> ShopChannels:
        """Return the sales channels, or which scopes are missing to see them or publish there."""

    def find(
        self, shop_skus: Sequence[str], *, locations: int, channels: Sequence[Gid] = ()
    ) -> FoundVariants:
        """Look variants up by exact SKU, with the stock at that many locations."""

    def read(
        self, variants: Sequence[Gid], *, locations: int, channels: Sequence[Gid] = ()
    ) -> Sequence[Shown | None]:
        """Return what the shop shows of each variant, also on these channels; None if it is gone.

        Without channels, the variant is returned without what it shows on them.
        """

    def set_stock(self, writes: Sequence[StockWrite], *, key: str) -> Sequence[WriteResult]:
        """Set quantities, all or none; if any fails, its result names it and none is written."""

    def activate(self, write: StockWrite, *, key: str) -> WriteResult:
        """Stock an item at a location where it was not, at that quantity."""

    def set_prices(self, writes: Sequence[PriceWrite]) -> Sequence[WriteResult]:
        """Set prices and costs, each by itself."""

    def set_status(self, writes: Sequence[StatusWrite]) -> Sequence[WriteResult]:
        """Set whether products are for sale, each by itself."""

    def publish(self, writes: Sequence[PublishWrite]) -> Sequence[WriteResult]:
        """Publish products, each by itself; done once the shop shows it on every channel."""

    def create(self, creation: Creation) -> WriteResult:
        """Make a product; stale if the shop has one of that handle, which stays as it is."""

    def stage_upload(self, name: str) -> UploadTarget:
        """Ask where the file of a bulk operation may be uploaded."""

    def upload(self, target: Any, content: bytes) -> str:  # noqa: ANN401 - a provider has its own
        """Upload the file, and return what the shop calls it; the host is not the shop's."""

    def run_bulk(self, path: str, *, key: str) -> Gid | None:
        """Start a bulk price change on that file; None if the shop cannot start one now."""

    def find_bulk(self, key: str) -> BulkOperationStatus | None:
        """Find the operation of this intent, when the reply that named it was lost."""

    def bulk_status(self, operation: Gid) -> BulkOperationStatus:
        """Return the status of a bulk operation."""

    def bulk_result(self, url: str, writes: Sequence[PriceWrite]) -> Sequence[WriteResult]:
        """Fetch the result of each write; the host is not the shop's."""


class PushesPort(Protocol):
    """Changes to write to the shops: due shops, one push lease at a time, settled."""

    def due_shops(
        self,
        now: datetime,
        *,
        verified_before: datetime | None,
        limit: int,
        only: str | None = None,
    ) -> list[Shop]:
        """Return connected shops without a push lease: those with due changes first, oldest first.

        Then, unless None is given, those with a listing not verified since that instant.
        """

    def claim(
        self,
        shop: Shop,
        *,
        now: datetime,
        owner: str,
        lease_until: datetime,
        verified_before: datetime | None,
        limit: int,
    ) -> PushLease | None:
        """Lease a shop under a new fence, with what is due there; None if another was faster.

        A push lease holds the open intents, the changes that are due or that an open intent names
        and, only if there is nothing else, listings to verify, the longest unread first. A bulk
        intent is separate: it is not unsure, and its listings are not verified meanwhile.
        """

    def intend(self, push_lease: PushLease, intent: Intent, *, now: datetime) -> bool:
        """Store an intent before it is sent; False if the push lease was taken over."""

    def settle(
        self,
        push_lease: PushLease,
        pushed: Sequence[Pushed] = (),
        *,
        closes: Mapping[str, str] | None = None,
        voids: Mapping[str, str] | None = None,
        narrows: Mapping[str, Sequence[Sku]] | None = None,
        progress: Mapping[str, BulkProgress] | None = None,
        unbulks: Mapping[str, Sequence[Sku]] | None = None,
        details: ShopDetails | None = None,
        channels: ShopChannels | None = None,
        forgets_locations: bool = False,
        forgets_channels: bool = False,
        call_id: str | None = None,
        keeps_lease: bool = False,
        now: datetime,
    ) -> bool:
        """Write what a visit came to and end the lease, unless it is kept, in one transaction.

        Intents are closed or voided (id to result), or narrowed to the SKUs that are still unsure.
        A bulk intent makes progress, or becomes an open one of ordinary prices, of these SKUs.
        Refused as a whole (False) if the push lease was taken over.
        """

    def disconnect(self, shop: Shop, reason: str, *, now: datetime) -> None:
        """Disconnect a shop whose grant is refused, and store the reason."""


class BulksPort(Protocol):
    """Prices that go to a shop in bulk; a shop has at most one such intent that is open."""

    def count(self, push_lease: PushLease, *, now: datetime, limit: int) -> int:
        """Count the listings of this shop that are due, up to a limit."""

    def waiting(self, push_lease: PushLease, *, now: datetime, limit: int) -> list[Change]:
        """Return the listings of this shop whose price is due to be written, oldest first."""

    def intend(
        self,
        push_lease: PushLease,
        intent: Intent,
        *,
        asleep: Sequence[Change],
        until: datetime,
        now: datetime,
    ) -> bool:
        """Store an intent and let those listings sleep; return False if the lease was lost."""

    def note(self, push_lease: PushLease, bulk: BulkIntent) -> bool:
        """Store how far it has come, before a call; False if the push lease was taken over."""

    def writes(self, bulk: BulkIntent) -> list[PriceWrite]:
        """Return all that it writes, in the order of its lines."""

    def changes(self, push_lease: PushLease, skus: Collection[Sku]) -> list[Change]:
        """Return these listings of the shop as they are now."""


class Platform(Protocol):
    """One seller's account at a platform. Each method that asks is one call, and passes the limits.

    Each raises ProviderError; UnauthorizedError once no token helps: a person must connect again.
    """

    @property
    def keys(self) -> Sequence[str]:
        """The limits that bind every call, except a day's quota."""

    @property
    def day_key(self) -> str | None:
        """The quota of a day, if there is one: every call counts one, token requests too."""

    @property
    def observations(self) -> Mapping[str, Observation]:
        """What the last reply reported about the limits, by key; empty if it reported nothing."""

    @property
    def cost(self) -> Cost | None:
        """Cost of the last call, if the platform reports it; see `Storefront`."""

    def needs_token(self) -> bool:
        """Return True if the access token must be refreshed before anything else."""

    def refresh_token(self, *, send_by_s: float) -> bool:
        """Refresh it; False if no request was made: another worker is at it, or it is too late."""

    def price(self, ask: PageRequest) -> float:
        """Return what this request costs of `keys`, at most: 1, or points."""

    def read(self, ask: PageRequest) -> Page:
        """Make this request, and read its page."""


class AccountTroublesPort(Protocol):
    """Accounts that are refused or suspended; while one waits, nothing is asked of it."""

    def refuse(self, account: Account, reason: str, *, now: datetime) -> RefusalVerdict:
        """Count a refusal of an account's token: the account waits, or its connection ends."""

    def suspend(self, account: Account, reason: str, *, now: datetime) -> datetime:
        """Let an account wait that its platform has suspended; return until when."""

    def accept(self, account: Account, *, now: datetime) -> None:
        """Forget the trouble of an account that got a good answer, and resume its jobs."""


class JobsPort(Protocol):
    """The rows of `sync_jobs`: claim with its budget, commit page by page, settle, rescue.

    `calls` are those made since the last commit.
    """

    def follow(self, now: datetime) -> int:
        """Make jobs follow statuses and tiers that other programs set; return how many rows."""

    def claim(
        self, *, now: datetime, owner: str, without: Collection[PlatformName] = ()
    ) -> tuple[Job, Permit | None] | None:
        """Lease the highest-ranked job that may run now, and reserve its budget with it.

        None if no job is due, too many run, or budgets are spent. Sellers whose monthly
        quota is used up are set aside on the way. The permit is a reservation of the platform's
        day, if it has one.
        """

    def keep(self, job: Job, *, now: datetime) -> bool:
        """Renew the lease of a job; return False if it was lost."""

    def commit(
        self, job: Job, page: Page, step: PageStep, *, calls: int, asked_at: datetime, now: datetime
    ) -> Job | None:
        """Store a page, its cursor and a heartbeat in one transaction; None if the lease was lost.

        `asked_at` is when it was requested. Raises InvalidError for data that no table can store.
        """

    def settle(
        self,
        job: Job,
        status: JobStatus,
        *,
        next_run_at: datetime | None,
        retry_count: int = 0,
        reason: str = "",
        revive_at: datetime | None = None,
        calls: int = 0,
        now: datetime,
    ) -> bool:
        """End a claim; return False if the lease was lost. A job that was woken is due at once.

        A dead job is tried again from `revive_at` on, if that is given.
        """

    def stretch(self, job: Job) -> float:
        """Return how many times its interval a claimed job waits, the day being short."""

    def relax(self, now: datetime) -> int:
        """Move jobs forward whose platform has more daily quota left again; return how many."""

    def open_orders(self, account: Account, *, checked_before: datetime, limit: int) -> list[str]:
        """Return open orders that were not looked at since then, the longest ago first."""

    def orders_left(self, account: Account, *, now: datetime) -> int:
        """Return how many orders of this month the seller's tier still allows."""

    def postpone(self, account: Account, until: datetime, reason: str, *, now: datetime) -> int:
        """Let no waiting job of an account run before then; return how many have to wait."""

    def disconnect(self, job: Job, reason: str, *, calls: int = 0, now: datetime) -> bool:
        """Disconnect the account whose grant is refused; return False if the lease was lost."""

    def rescue(self, now: datetime, *, limit: int = 100) -> int:
        """Queue jobs whose lease has expired, under a new fence; return how many."""

    def revive_due(self, now: datetime, *, limit: int = 100) -> int:
        """Queue dead jobs whose failures may have passed; return how many."""


class PausesPort(Protocol):
    """Pauses by people."""

    def reconcile(self, now: datetime) -> int:
        """Mark what is paused and unmark what no longer is, so much at once; return how many."""
