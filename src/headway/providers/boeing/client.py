"""Boeing's part price and availability: two tokens, then ten SKUs a call.

Each method is at most one HTTP request, because each request costs a permit and the engine owns
those. All workers share the encrypted tokens of the token store, and one at a time refreshes them.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import httpx

from headway.clock import Clock, fresh_id
from headway.core.catalog.listings import AuthStep, LimitKey, MakeDue, Reply, Sku
from headway.errors import ConfigError, ProviderError, UnauthorizedError, UnreadableError
from headway.providers.boeing.api import BoeingApi
from headway.providers.boeing.limits import EARLY, limit_key_of
from headway.providers.boeing.replies import PROVIDER, parse_reply
from headway.providers.boeing.settings import BoeingAccess
from headway.providers.http import HttpResponse, build_client, check_status, exchange
from headway.providers.token_store import TokenStore
from headway.providers.vault import Vault

# Statuses after which both tokens are fetched again.
REFUSED = frozenset({401, 403})

LIFE_S_DEFAULT = 3600
# Two tokens and a price call take over a minute at two calls a minute: less life is no use.
LIFE_S_MIN, LIFE_S_MAX = 180, 86_400
LEASE_MARGIN_S = 10.0
TOKEN_CHARS_MAX = 16_384
# The token requests in the order in which they must be made.
STEPS = (AuthStep.OAUTH, AuthStep.PART_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    text: str = field(repr=False)
    expires_at: datetime
    version: int


class BoeingSupplier:
    """The supplier behind the engine's port `Supplier`."""

    def __init__(
        self,
        url: str,
        access: BoeingAccess,
        *,
        token_store: TokenStore,
        vault: Vault,
        clock: Clock,
        api: BoeingApi,
        timeout_s: float = 30,
        seats: int = 10,
        transport: httpx.BaseTransport | None = None,
        renewed: Callable[[], BoeingAccess] | None = None,
    ) -> None:
        check_access(url, access)
        self._access = access
        self._renewed = renewed
        self._token_store = token_store
        self._vault = vault
        self._clock = clock
        self._timeout_s = timeout_s
        self._seats = seats
        self._api = api
        self._client = build_client(url, clock=clock, timeout_s=timeout_s, transport=transport)
        # Worked out once: to join it takes as long as all the rest of a request.
        self._price_url = self._client.build_request("POST", api.paths["price"]).url
        self._tokens: Mapping[str, _Token] = {}

    def __repr__(self) -> str:
        return f"BoeingConnector({self.limit_key})"

    @property
    def limit_key(self) -> LimitKey:
        """The credential that the limit binds."""
        return limit_key_of(self._access.client_id)

    @property
    def seats(self) -> int:
        """How many SKUs fit one call."""
        return self._seats

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def auth_step(self) -> AuthStep | None:
        """Return the token request that must go first, if any."""
        if self._missing_step() is not None:
            self._reload()  # another worker may have refreshed meanwhile
        return self._missing_step()

    def authenticate(
        self, step: AuthStep, *, send_by_s: float = math.inf, make_due: MakeDue | None = None
    ) -> bool:
        """Make that token request, and return True; False means that none was made.

        None is made while another worker refreshes, when one has just done so, nor after
        `send_by_s`, when the permit no longer covers it: give the permit back and ask `auth_step`
        again after a while. Raises ProviderError.
        """
        del make_due  # a token changes no price
        owner = fresh_id()
        now = self._clock.now()
        lease_until = now + timedelta(seconds=self._timeout_s + LEASE_MARGIN_S)
        if not self._token_store.begin_refresh(
            self.limit_key, owner=owner, now=now, lease_until=lease_until
        ):
            return False
        try:
            self._reload()
            if self._missing_step() is not step or self._clock.monotonic() > send_by_s:
                return False
            if self._renewed is not None:  # a person may have changed the secrets meanwhile
                self._access = self._renewed()
            if step is AuthStep.OAUTH:
                text, life_s = self._fetch_oauth_token()
            else:
                text, life_s = self._fetch_part_token()
            self._keep(step, text, life_s, owner=owner)
        finally:
            self._token_store.end_refresh(self.limit_key, owner=owner)
        return True

    def quote(self, skus: Sequence[Sku]) -> Reply:
        """Request quotes of these SKUs; raises ProviderError."""
        assert 0 < len(skus) <= self._seats, f"{len(skus)} SKUs for {self._seats} seats"
        used = self._tokens
        if not used.keys() >= set(STEPS):
            raise UnauthorizedError("no tokens for boeing yet; none was sent", provider=PROVIDER)
        oauth, part = used[AuthStep.OAUTH].text, used[AuthStep.PART_TOKEN].text
        request = self._client.build_request(
            "POST",
            self._price_url,
            headers={"Authorization": f"Bearer {oauth}", self._api.headers["part_token"]: part},
            json=self._api.price_request(skus),
        )
        answer = self._exchange(request, hide=(oauth, part))
        self._check(answer, used, shows_body=True)
        return parse_reply(answer.body, skus, self._api.form)

    def _fetch_oauth_token(self) -> tuple[str, float]:
        form = {
            "client_id": self._access.client_id,
            "client_secret": self._access.client_secret,
            "scope": self._api.scope,
            "grant_type": "client_credentials",
        }
        answer = self._exchange(
            self._client.build_request("POST", self._api.paths["oauth"], data=form)
        )
        self._check(answer, {}, shows_body=False)
        body = _json_object(answer)
        return _token_text(body.get("access_token")), _life_s(body)

    def _fetch_part_token(self) -> tuple[str, float]:
        oauth = self._tokens[AuthStep.OAUTH]
        names = self._api.headers
        headers = [
            (b"Authorization", b"Bearer " + oauth.text.encode()),
            (names["username"].encode(), self._access.username.encode()),
            (names["password"].encode(), self._access.password.encode()),
        ]
        path = self._api.paths["part_token"]
        answer = self._exchange(self._client.build_request("GET", path, headers=headers))
        self._check(answer, {AuthStep.OAUTH: oauth}, shows_body=False)
        body = _json_object(answer)
        name = names["part_token_reply"]
        text = answer.headers.get(name)
        fallback = body.get(name) or body.get("access_token")
        return _token_text(text or fallback), _life_s(body)

    def _exchange(self, request: httpx.Request, *, hide: Sequence[str] = ()) -> HttpResponse:
        return exchange(
            self._client,
            request,
            clock=self._clock,
            timeout_s=self._timeout_s,
            provider=PROVIDER,
            hide=(*hide, self._access.client_secret, self._access.password),
        )

    def _check(self, answer: HttpResponse, used: Mapping[str, _Token], *, shows_body: bool) -> None:
        """Raise on a bad status; a refusal kills the tokens used, and only those."""
        try:
            check_status(answer, provider=PROVIDER, shows_body=shows_body)
        except ProviderError:
            if answer.status not in REFUSED:
                raise
            if used:
                versions = {str(name): token.version for name, token in used.items()}
                self._token_store.invalidate(self.limit_key, versions, now=self._clock.now())
            self._tokens = {}
            raise

    def _keep(self, step: AuthStep, text: str, life_s: float, *, owner: str) -> None:
        expires_at = self._clock.now() + timedelta(seconds=life_s)
        version = self._token_store.save(
            self.limit_key,
            step.value,
            secret=self._vault.encrypt(text),
            expires_at=expires_at,
            owner=owner,
        )
        if version is not None:
            token = _Token(text=text, expires_at=expires_at, version=version)
            self._tokens = {**self._tokens, step.value: token}

    def _missing_step(self) -> AuthStep | None:
        alive_until = self._clock.now() + EARLY
        for step in STEPS:
            token = self._tokens.get(step)
            if token is None or token.expires_at <= alive_until:
                return step
        return None

    def _reload(self) -> None:
        self._tokens = {
            row.name: _Token(
                text=self._vault.decrypt(row.secret),
                expires_at=row.expires_at,
                version=row.version,
            )
            for row in self._token_store.load(self.limit_key)
        }


def check_access(
    url: str,
    access: BoeingAccess,
    *,
    called: Callable[[str], str] = lambda name: f"HEADWAY_BOEING_{name.upper()}",
) -> None:
    """Raise ConfigError if the address or a credential is malformed; it names the setting."""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme not in {"http", "https"} or not re.fullmatch(r"[\w.:-]+", address.host):
        raise ConfigError(f"{called('url')} must be an address like https://api.example.com")
    for name in ("client_id", "client_secret", "username", "password"):
        value = getattr(access, name)
        if not value or value != value.strip() or not value.isprintable():
            raise ConfigError(f"{called(name)} is empty or holds spaces or line ends; set it again")


def _json_object(answer: HttpResponse) -> dict[str, Any]:
    """Read a token reply; its text is never shown, for it holds the token."""
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _token_text(value: object) -> str:
    is_usable = (
        isinstance(value, str)
        and 0 < len(value) <= TOKEN_CHARS_MAX
        and value.isascii()
        and value.isprintable()
        and " " not in value
    )
    if not is_usable:
        raise UnreadableError("boeing's token reply holds no usable token", provider=PROVIDER)
    return str(value)


def _life_s(body: Mapping[str, Any]) -> float:
    value = body.get("expires_in")
    try:
        life_s = Decimal(str(value)) if value is not None else Decimal(LIFE_S_DEFAULT)
    except InvalidOperation:
        return LIFE_S_DEFAULT
    if not life_s.is_finite():
        return LIFE_S_DEFAULT
    return float(min(max(life_s, Decimal(LIFE_S_MIN)), Decimal(LIFE_S_MAX)))
