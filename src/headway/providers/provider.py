"""The record that describes one provider: its roles, its limits and how its clients are made.

Everything about a provider lies in its own folder behind one `Provider`; the rest of the product
asks the registry. Functions of a record take the deployment's settings, of which each provider
declares the part it reads. A record imports no client before it makes one: commands that only
read the database need none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from headway.core.accounts.webhooks import read_payload
from headway.errors import ConfigError
from headway.providers.shops import plain_name

if TYPE_CHECKING:
    import httpx

    from headway.clock import Clock
    from headway.core.accounts.jobs import Account, DataKind, PlatformName
    from headway.core.accounts.pagination import Paginator
    from headway.core.accounts.webhooks import Webhook
    from headway.core.catalog.listings import LimitKey
    from headway.core.catalog.storefront import PriceWrite, Shop
    from headway.core.limits.transitions import Resource
    from headway.providers.access_scopes import AccessScope
    from headway.providers.oauth import OAuthClient
    from headway.providers.recordings import RecordingRule
    from headway.providers.token_store import TokenStore
    from headway.providers.tokens import AppClient
    from headway.providers.vault import Vault

Secrets = Mapping[str, str]


class ProviderRole(StrEnum):
    """What an outside API is to Headway."""

    SUPPLIER = "supplier"
    STOREFRONT = "storefront"
    PLATFORM = "platform"


class ClientArguments(TypedDict):
    """The arguments that every client of a shop, an account or a supplier takes."""

    token_store: TokenStore
    vault: Vault
    clock: Clock
    timeout_s: float
    transport: httpx.BaseTransport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """What a deployment hands to a provider when a client is made.

    A transport replaces the network; tests and simulations use one.
    """

    settings: Any
    clock: Clock
    token_store: TokenStore
    open_vault: Callable[[], Vault]
    transport: httpx.BaseTransport | None = None

    def client_arguments(self, *, timeout_s: float) -> ClientArguments:
        """Return the arguments that every client takes; opens the vault."""
        return {
            "token_store": self.token_store,
            "vault": self.open_vault(),
            "clock": self.clock,
            "timeout_s": timeout_s,
            "transport": self.transport,
        }


class SupplierEntry(Protocol):
    """A supplier as the deployment knows it: from the settings, or added by an operator."""

    @property
    def name(self) -> str:
        """The name operators use."""

    @property
    def client_id(self) -> str:
        """The credential that the limit binds."""

    @property
    def username(self) -> str:
        """Who signs in."""

    @property
    def url(self) -> str:
        """The address; empty for the default."""

    @property
    def kind(self) -> str:
        """The provider; empty for the one of the settings' supplier."""

    @property
    def options(self) -> Mapping[str, Any]:
        """What the operator chose; the provider checks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierSetup:
    """What an operator enters to add a supplier; each provider says which fields it needs."""

    kind: str = ""
    client_id: str = ""
    username: str = ""
    url: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierPace:
    """How many SKUs fit one call, how many calls a minute the limit allows, and their least gap.

    `is_list` marks a supplier that reads a whole list and answers from it: a listing is read when
    its row changed, and once a day.
    """

    seats: int
    calls_per_min: float
    gap_s: float = 0
    is_list: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierRole:
    """How a supplier is reached.

    `prepare` checks what an operator entered and completes it; it raises ConfigError. `open` gets
    functions that read the entry and its secrets, because an operator may change both while a
    client is open. `accept` lets the list pass that the client holds back, and returns what to
    tell the operator; it raises ConflictError if none is held. `main` returns the entry and the
    secrets of the settings; a provider without it serves only suppliers that operators add. A
    client signs in again `sign_in_early` before its token expires.
    """

    limit_key: Callable[[SupplierEntry], LimitKey]
    limit: Callable[[Any, SupplierEntry], Resource]
    pace: Callable[[Any, SupplierEntry], SupplierPace]
    prepare: Callable[[Any, SupplierSetup], SupplierSetup]
    open: Callable[[ProviderContext, Callable[[], SupplierEntry], Callable[[], Secrets]], Any]
    accept: Callable[[ProviderContext, SupplierEntry], str] | None = None
    secrets: tuple[str, ...] = ()
    optional_secrets: tuple[str, ...] = ()
    main: Callable[[Any], tuple[SupplierEntry, Secrets]] | None = None
    default_url: Callable[[Any], str] = lambda _: ""
    sign_in_early: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedLimit:
    """A limit of which there is one for each shop or account.

    `key` returns the limit key of a shop or account, `owner` the reverse: None for a key that is
    not ours. `resource` gets the rate at which the limit restores, for providers that have one.
    """

    key: Callable[[Any, str], LimitKey]
    owner: Callable[[Any, str], str | None]
    resource: Callable[[LimitKey, float], Resource]
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorefrontRole:
    """How a shop is written to; `price_file` is the upload of a bulk price change.

    `api_version` gets the settings, and returns the version of its API that requests are made for.
    `address` gets the settings and a shop's name, and returns where its customers see it.
    """

    open: Callable[[ProviderContext, Shop], Any]
    price_file: Callable[[Sequence[PriceWrite]], bytes]
    restore_per_s: float
    api_version: Callable[[Any], str]
    address: Callable[[Any, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRole:
    """How webhooks are verified and parsed, and the setting that holds their secret.

    `is_signed` gets the secret, the headers in lower case, the body as it came and the time.
    `parse` gets the platform, the headers in lower case and the JSON object in the body; it raises
    RequestError. `shop_of` returns the shop that the headers name, where a shop may have an app of
    its own, whose secret signs; that secret is good for this shop alone.
    """

    setting: str
    secret: Callable[[Any], str]
    is_signed: Callable[[str, Mapping[str, str], bytes, datetime], bool]
    parse: Callable[[PlatformName, Mapping[str, str], Mapping[str, Any]], Webhook]
    shop_of: Callable[[Mapping[str, str]], str] | None = None

    def check_secret(self, secret: str) -> None:
        """Raise ConfigError if there is no secret to verify webhooks with."""
        if not secret:
            raise ConfigError(f"{self.setting} is not set, so no webhook can be verified")

    def verify(self, secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
        """Return True if the platform signed this body; raises ConfigError without a secret."""
        self.check_secret(secret)
        return self.is_signed(secret, headers, body, now)

    def read(self, platform: PlatformName, headers: Mapping[str, str], body: bytes) -> Webhook:
        """Return what a verified delivery means; raises RequestError."""
        return self.parse(platform, headers, read_payload(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    """Which tokens a person enters to connect an account.

    `refresh_required` says why a refresh token must be entered, `refresh_refused` why it must not.
    `check_app` gets the settings and whether there is a refresh token; it raises ConfigError if
    the tokens need an app that is not in the settings. `takes_client` if the id and secret of a
    shop's own app may be entered instead of tokens; `app` returns the one in the settings, if it is
    complete. `lifetime_note` is shown after an access token without a refresh token was entered.
    The access token expires when `read_expiry` finds it in the token, else after `life`, if that is
    known.
    """

    refresh_required: str = ""
    refresh_refused: str = ""
    takes_client: bool = False
    app: Callable[[Any], AppClient | None] = lambda _: None
    lifetime_note: str = ""
    check_app: Callable[[Any, bool], None] = lambda *_: None
    life: timedelta | None = None
    read_expiry: Callable[[str], datetime | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRole:
    """How sellers connect a shop on the platform's own page.

    `asks_for_shop` if the page asks which shop. `callback_shop` returns the shop that a signed
    callback names, None if the signature is wrong.
    """

    open: Callable[[ProviderContext], OAuthClient]
    asks_for_shop: bool = False
    callback_shop: Callable[[Any, Mapping[str, str]], str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopOwner:
    """Who owns a shop, where its limit is the owner's, and the shop's title."""

    owner_id: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRole:
    """How a seller's account is connected and read.

    `kinds` are the kinds of its jobs. `shop_name` returns a shop's name, however a person wrote it;
    it raises InvalidError. Tokens are stored under `token_key`, which begins with the platform and
    ends with the shop, after a colon each. `own_limit` is the limit that binds one account alone,
    `day` the name of the daily quota that all accounts share. `has_owners` if that own limit binds
    an owner of several shops; `find_owner` gets a client, which it closes, and the shop, and asks
    who that is; it raises a HeadwayError. `counts_errors` if the platform blocks clients with too
    many errors.
    `missing_scopes` gets the settings and the access scopes that a shop granted; `scope_advice`
    gets the settings, the shop and its seller, and says how to grant the others.
    """

    open: Callable[[ProviderContext, Account], Any]
    paginator_of: Callable[..., Paginator]
    kinds: tuple[DataKind, ...]
    token_key: Callable[[Any, str], LimitKey]
    shop_name: Callable[[str], str] = plain_name
    own_limit: Callable[[Any, Account, float], Resource | None] = lambda *_: None
    day: str | None = None
    has_owners: bool = False
    find_owner: Callable[[Any, str], ShopOwner] | None = None
    counts_errors: bool = False
    tokens: TokenEntry = field(default_factory=TokenEntry)
    missing_scopes: Callable[[Any, Collection[str]], Sequence[AccessScope]] = lambda *_: ()
    scope_advice: Callable[[Any, str, str], str] = lambda *_: ""
    consent: ConsentRole | None = None
    webhooks: WebhookRole | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One outside API: which roles it plays and which limits bind it.

    `limits` returns the limits that the whole deployment shares, by display name; `keyed_limit`
    describes those of single shops or accounts. `settings` names what an operator must set.
    `warning` gets the settings and the time; it returns what an operator should know, if anything.
    `recording` returns how its replies are recorded; without it they are not.
    """

    name: str
    title: str
    supplier: SupplierRole | None = None
    storefront: StorefrontRole | None = None
    platform: PlatformRole | None = None
    limits: Callable[[Any], Mapping[str, Resource]] = field(default=lambda _: {})
    keyed_limit: KeyedLimit | None = None
    settings: tuple[str, ...] = ()
    warning: Callable[[Any, datetime], str] = lambda *_: ""
    recording: Callable[[Any], RecordingRule] | None = None

    @property
    def roles(self) -> tuple[ProviderRole, ...]:
        """The roles it plays."""
        return tuple(role for role in ProviderRole if getattr(self, role.value) is not None)
