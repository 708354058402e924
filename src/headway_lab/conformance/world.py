"""Worlds: a client of the provider under test, in front of a simulator.

Derive from the class of the role. In `__init__` call `super().__init__()`, make a simulator on
`self.clock`, then `connect` it; the abstract methods say what else the checks must know.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Self

from headway.core.accounts.jobs import Account, DataKind
from headway.core.catalog.listings import AuthStep, SellerId, Sku
from headway.core.catalog.storefront import Ids, Shop
from headway.core.limits.transitions import Observation
from headway.providers.provider import (
    PlatformRole,
    Provider,
    ProviderContext,
    StorefrontRole,
    SupplierEntry,
    SupplierRole,
)
from headway.providers.tokens import store_tokens
from headway.providers.vault import Vault
from headway_lab.conformance.token_store import MemoryTokenStore
from headway_lab.conformance.transport import FaultyTransport
from headway_lab.simulators.reply import Handle
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
VAULT_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

Rows = list[Any]


class ProviderWorld(ABC):
    """One client of `provider` in front of a simulator; each check gets a new one."""

    provider: Provider
    client: Any
    # Texts that no error and no repr may show, eight characters or more.
    secrets: Collection[str] = ()
    # The size of the largest body that the client reads.
    bytes_max: int = 5_000_000
    # The body with which the provider refuses a credential, with status 401.
    refusal: bytes = b"{}"
    # True if the provider's replies report how much of its limit is used.
    reports_limit: bool = False

    def __init__(self) -> None:
        self.clock = VirtualClock(START)

    def _begin(self, handle: Handle, settings: object) -> None:
        self.transport = FaultyTransport(handle, self.clock)
        self.context = ProviderContext(
            settings=settings,
            clock=self.clock,
            token_store=MemoryTokenStore(),
            open_vault=lambda: Vault([VAULT_KEY]),
            transport=self.transport,
        )

    @property
    @abstractmethod
    def limit_keys(self) -> Collection[str]:
        """The keys of the limits that the record declares for this client."""

    @property
    @abstractmethod
    def used_keys(self) -> Collection[str]:
        """The limit keys that the client asks the engine to pass before a call."""

    @property
    @abstractmethod
    def observations(self) -> Mapping[str, Observation]:
        """What the last reply reported about the limits, by limit key."""

    @abstractmethod
    def call(self) -> object:
        """Make one ordinary request; raises ProviderError."""


class SupplierWorld(ProviderWorld):
    """A supplier that sells `prices` and answers in `currency`."""

    prices: Mapping[Sku, Decimal]
    currency: str = "USD"
    # For a supplier that is one list: how long a list that was read counts as new.
    list_interval: timedelta | None = None
    observations: Mapping[str, Observation] = {}  # a supplier's client reports none

    def connect(
        self,
        handle: Handle,
        settings: object,
        entry: SupplierEntry,
        secrets: Mapping[str, str],
    ) -> None:
        """Open the client of this supplier in front of a simulator."""
        self._begin(handle, settings)
        self.entry = entry
        self.client = self.role.open(self.context, lambda: entry, lambda: secrets)

    @property
    def role(self) -> SupplierRole:
        """The record of the role."""
        assert self.provider.supplier is not None, "the record has no SupplierRole"
        return self.provider.supplier

    @property
    def limit_keys(self) -> Collection[str]:
        """The key of the limit that the role declares."""
        return [self.role.limit(self.context.settings, self.entry).key]

    @property
    def used_keys(self) -> Collection[str]:
        """The client's limit key."""
        return [self.client.limit_key]

    def call(self) -> object:
        """Sign in without faults; then ask for all parts, or read the whole list."""
        transport, client = self.transport, self.client
        faults = transport.fault, transport.stream, transport.edit
        transport.fault = transport.stream = transport.edit = None
        while (step := client.auth_step()) not in {None, AuthStep.LIST}:
            assert client.authenticate(step), f"authenticate({step}) made no request"
        transport.requests.clear()
        transport.fault, transport.stream, transport.edit = faults
        return client.quote(list(self.prices)) if step is None else client.authenticate(step)

    @abstractmethod
    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        """Return this reply with its rows edited."""

    @abstractmethod
    def bad_row(self, row: Any) -> Any:  # noqa: ANN401 - a row as it is in the reply
        """Return this row with its SKU, but with a price that is not a number."""

    @abstractmethod
    def edit_currency(self, body: bytes, currency: str) -> bytes:
        """Return this reply with its prices in another currency."""


class StorefrontWorld(ProviderWorld):
    """A shop that is written to; it has at least one location."""

    def connect(self, handle: Handle, settings: object, domain: str, *, access: str) -> None:
        """Open the client of this shop in front of a simulator, with an access token."""
        self._begin(handle, settings)
        assert self.provider.keyed_limit is not None, "a storefront has a limit for each shop"
        key = self.provider.keyed_limit.key(settings, domain)
        self.limit_keys = [key]
        vault = self.context.open_vault()
        store_tokens(self.context.token_store, vault, key, clock=self.clock, access=access)
        shop = Shop(id="1", user_id=SellerId("seller"), domain=domain)
        self.client = self.role.open(self.context, shop)

    limit_keys: Collection[str] = ()

    @property
    def role(self) -> StorefrontRole:
        """The record of the role."""
        assert self.provider.storefront is not None, "the record has no StorefrontRole"
        return self.provider.storefront

    @property
    def used_keys(self) -> Collection[str]:
        """The client's limit key."""
        return [self.client.limit_key]

    @property
    def observations(self) -> Mapping[str, Observation]:
        """What the last reply reported about the shop's limit."""
        observation = self.client.cost and self.client.cost.observation
        return {self.client.limit_key: observation} if observation else {}

    def call(self) -> object:
        """Read the locations."""
        return self.client.details()

    @abstractmethod
    def add_product(self, sku: str, *, location: str) -> Ids:
        """Put a product with one variant into the shop, stocked at this location."""

    @abstractmethod
    def price_in_shop(self, sku: str) -> Decimal | None:
        """Return the price that a customer sees; None if the shop has no such SKU."""

    @abstractmethod
    def quantity_in_shop(self, sku: str, location: str) -> int:
        """Return the quantity at this location."""


class PlatformWorld(ProviderWorld):
    """An account with several pages of rows of every kind that the record declares.

    They were made after `START`, over some days, so that a later run need not read all again.
    """

    def connect(
        self, handle: Handle, settings: object, shop: str, *, access: str, refresh: str = ""
    ) -> None:
        """Open the client of this account in front of a simulator, with its tokens."""
        self._begin(handle, settings)
        self.secrets = [*self.secrets, access]
        store_tokens(
            self.context.token_store,
            self.context.open_vault(),
            self.role.token_key(settings, shop),
            clock=self.clock,
            access=access,
            refresh=refresh or None,
        )
        platform: Any = self.provider.name
        self.account = Account(id="1", user_id=SellerId("seller"), platform=platform, shop=shop)
        self.open()

    def open(self) -> None:
        """Open the client, or replace it as a restarted worker would."""
        self.client = self.role.open(self.context, self.account)

    @property
    def role(self) -> PlatformRole:
        """The record of the role."""
        assert self.provider.platform is not None, "the record has no PlatformRole"
        return self.provider.platform

    @property
    def limit_keys(self) -> Collection[str]:
        """The keys of the limits that all accounts share, and of the account's own."""
        settings = self.context.settings
        own = self.role.own_limit(settings, self.account, 100)
        limits = [*self.provider.limits(settings).values(), *([own] if own else [])]
        return [limit.key for limit in limits]

    @property
    def used_keys(self) -> Collection[str]:
        """The client's limit keys, with that of the daily quota."""
        return [*self.client.keys, *filter(None, [self.client.day_key])]

    @property
    def observations(self) -> Mapping[str, Observation]:
        """What the last reply reported about the limits."""
        return dict(self.client.observations)

    def call(self) -> object:
        """Read the first page of the first kind."""
        paginator = self.role.paginator_of(self.role.kinds[0], is_backfill=False)
        return self.client.read(paginator.ask(paginator.begin({}, self.clock.now(), ())))

    @abstractmethod
    def truth(self, kind: DataKind) -> Collection[str]:
        """Return the ids of all rows of this kind."""

    @abstractmethod
    def add_row(self, kind: DataKind) -> None:
        """Add a row of this kind, now."""

    @abstractmethod
    def empty(self) -> Self:
        """Return a world of the same kind without any row."""

    @abstractmethod
    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        """Return this page with its rows edited."""

    def webhook(self) -> tuple[Mapping[str, str], bytes]:
        """Return headers and body of a signed webhook about a row, if the record has webhooks."""
        raise NotImplementedError("the record has a WebhookRole, so the world needs webhook()")
