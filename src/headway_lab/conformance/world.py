"""What the suite needs of a provider: a client in front of a simulator, and faults on the way."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import httpx

from headway.clock import Clock
from headway.core.accounts.jobs import DataKind
from headway.core.catalog.listings import LimitKey, Sku
from headway.providers.provider import Provider, ProviderContext
from headway.providers.vault import Vault
from headway_lab.simulators.reply import Handle, SimReply
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
VAULT_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

Rows = list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredText:
    """A stored token."""

    name: str
    secret: bytes = field(repr=False)
    expires_at: datetime
    version: int


class MemoryTokenStore:
    """A store of tokens in memory; one worker at a time holds the lease of a key."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], StoredText] = {}
        self._leases: dict[str, tuple[str, datetime]] = {}

    def load(self, limit_key: LimitKey) -> Sequence[StoredText]:
        """Return the tokens of this limit key, expired ones included."""
        return [token for (key, _), token in self._tokens.items() if key == limit_key]

    def save(
        self,
        limit_key: LimitKey,
        name: str,
        *,
        secret: bytes,
        expires_at: datetime,
        owner: str,
        renewed_at: datetime | None = None,  # noqa: ARG002 - as the port has it
    ) -> int | None:
        """Store a token and return its version; None if the owner lost the lease."""
        if self._leases.get(limit_key, ("", START))[0] != owner:
            return None
        known = self._tokens.get((limit_key, name))
        version = 1 if known is None else known.version + 1
        self._tokens[limit_key, name] = StoredText(
            name=name, secret=secret, expires_at=expires_at, version=version
        )
        return version

    def invalidate(
        self, limit_key: LimitKey, versions: Mapping[str, int], *, now: datetime
    ) -> None:
        """Expire exactly these versions."""
        for name, version in versions.items():
            token = self._tokens.get((limit_key, name))
            if token is not None and token.version == version:
                expires_at = min(token.expires_at, now)
                self._tokens[limit_key, name] = replace(token, expires_at=expires_at)

    def begin_refresh(
        self, limit_key: LimitKey, *, owner: str, now: datetime, lease_until: datetime
    ) -> bool:
        """Take the lease; return False while another worker holds it."""
        held = self._leases.get(limit_key)
        if held is not None and held[1] > now:
            return False
        self._leases[limit_key] = (owner, lease_until)
        return True

    def end_refresh(self, limit_key: LimitKey, *, owner: str) -> None:
        """Release the lease if this owner still holds it."""
        if self._leases.get(limit_key, ("", START))[0] == owner:
            del self._leases[limit_key]


class FaultyTransport(httpx.BaseTransport):
    """Carries requests to a simulator, or answers with a fault; counts the requests.

    `edit` changes the body of a good answer.
    """

    def __init__(self, handle: Handle, clock: Clock) -> None:
        self._inner = SimTransport(handle, clock)
        self._clock = clock
        self.requests: list[httpx.Request] = []
        self.fault: SimReply | None = None
        self.edit: Callable[[bytes], bytes] | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Deliver the request, or the fault."""
        self.requests.append(request)
        if self.fault is not None:
            fault = self.fault
            return SimTransport(lambda *_: fault, self._clock).handle_request(request)
        response = self._inner.handle_request(request)
        if self.edit is None or response.status_code != httpx.codes.OK:
            return response
        body = self.edit(response.read())
        headers = [pair for pair in response.headers.raw if pair[0].lower() != b"content-length"]
        return httpx.Response(response.status_code, headers=headers, stream=_Pieces(body))


class _Pieces(httpx.SyncByteStream):
    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Any:  # noqa: ANN401 - as httpx has it
        yield self._body


def open_context(
    settings: object, transport: FaultyTransport, clock: VirtualClock
) -> ProviderContext:
    """Return what a deployment would hand to the provider."""
    return ProviderContext(
        settings=settings,
        clock=clock,
        shelf=MemoryTokenStore(),
        open_vault=lambda: Vault([VAULT_KEY]),
        transport=transport,
    )


class ProviderWorld(ABC):
    """One client of a provider in front of a simulator; made anew for each check."""

    provider: Provider
    context: ProviderContext
    transport: FaultyTransport
    # Texts that no error and no representation may show; at least eight characters each.
    secrets: Collection[str] = ()
    # The largest body that the client reads.
    bytes_max: int = 5_000_000

    @property
    @abstractmethod
    def client(self) -> Any:  # noqa: ANN401 - a Supplier, Storefront or Platform
        """The client under test, signed in."""

    @property
    @abstractmethod
    def limit_keys(self) -> Collection[str]:
        """The keys of the limits that the record declares for this client."""

    @property
    @abstractmethod
    def used_keys(self) -> Collection[str]:
        """The limit keys that the client asks the engine to pass before a call."""

    @abstractmethod
    def call(self) -> object:
        """Make one ordinary request; raises ProviderError."""


class SupplierWorld(ProviderWorld):
    """A supplier that knows `skus`."""

    skus: Sequence[Sku]

    @abstractmethod
    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        """Return a reply whose rows were edited."""

    @abstractmethod
    def bad_row(self, row: Any) -> Any:  # noqa: ANN401 - a row as it stands in the reply
        """Return this row of the reply, still with its SKU, but with a price that is none."""


class StorefrontWorld(ProviderWorld):
    """A shop that is written to."""


class PlatformWorld(ProviderWorld):
    """An account with rows of some kinds."""

    kinds: Sequence[DataKind]

    @abstractmethod
    def truth(self, kind: DataKind) -> Collection[str]:
        """Return the ids of all rows of this kind."""

    @abstractmethod
    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        """Return a page whose rows were edited."""
