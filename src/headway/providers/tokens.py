"""The tokens of one account, shared by all workers: which is alive, and who fetches the next.

A token that a person entered alone has an unknown lifetime, unless an expiry was given: it is used
until it is refused. Others live an hour or a few, and each refresh returns a new pair. The new
refresh token is stored first: if the rest is lost, it fetches another access token. Shopify accepts
the old one until the new one is used, so a refresh with a lost reply is repeated; elsewhere a lost
reply may need a person. Where a shop has an app of its own, the app's id and secret are kept
instead, and return a new access token each time.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.clock import Clock, fresh_id
from headway.core.catalog.listings import LimitKey
from headway.errors import (
    ConflictError,
    InvalidError,
    PermanentError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)
from headway.providers.http import HttpResponse, check_status
from headway.providers.token_store import TokenStore
from headway.providers.vault import Vault

ACCESS, REFRESH, CLIENT = "access", "refresh", "client"
# The error code of OAuth for a refresh token that was revoked or has expired.
GRANT_ENDED = "invalid_grant"
NEVER = datetime(2999, 1, 1, tzinfo=UTC)
EARLY = timedelta(minutes=2)
LIFE_S, REFRESH_LIFE_S = 3600, 90 * 86_400
LIFE_S_MIN, LIFE_S_MAX = 300, 366 * 86_400
LEASE_MARGIN_S = 10.0
TOKEN_CHARS_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of this account."""

    name: str
    text: str = field(repr=False)
    expires_at: datetime
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppClient:
    """The id and secret of an app, which returns access tokens for them."""

    client_id: str
    client_secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """Both in one, so that they are replaced together."""
        return f"{self.client_id}:{self.client_secret}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGrant:
    """The tokens of a refresh; no refresh token if the old one stays."""

    access: str = field(repr=False)
    access_until: datetime
    refresh: str | None = field(repr=False)
    refresh_until: datetime


class AccountTokens:
    """One worker's view of an account's tokens; it looks again when what it knows is not enough."""

    def __init__(
        self, limit_key: LimitKey, *, token_store: TokenStore, vault: Vault, clock: Clock
    ) -> None:
        self._limit_key = limit_key
        self._token_store = token_store
        self._vault = vault
        self._clock = clock
        self._known: dict[str, Token] = {}
        self._refused: dict[str, int] = {}

    def find(self, name: str, *, early: timedelta = timedelta(0)) -> Token | None:
        """Return the token of this name if it is alive, and stays so for a while."""
        token = self._alive(name, early)
        if token is None or self._refused.get(name) == token.version:
            self._reload()  # another worker may have refreshed meanwhile, or a person connected
        return self._alive(name, early)

    @property
    def can_refresh(self) -> bool:
        """Whether a new access token can be had without a person."""
        return self.find(REFRESH) is not None or self.find(CLIENT) is not None

    @property
    def client(self) -> AppClient | None:
        """The shop's own app, if it has one."""
        token = self.find(CLIENT)
        if token is None:
            return None
        client_id, _, client_secret = token.text.partition(":")
        return AppClient(client_id=client_id, client_secret=client_secret)

    def needs_refresh(self) -> bool:
        """Return True if the access token is dead or dying, and another can be had."""
        return self.find(ACCESS, early=EARLY) is None and self.can_refresh

    def kill(self, token: Token) -> bool:
        """Let exactly this token be dead, for all workers; True if a newer one is alive already."""
        self._token_store.invalidate(
            self._limit_key, {token.name: token.version}, now=self._clock.now()
        )
        self._known = {}
        return self.find(token.name) is not None

    def refuse(self, token: Token) -> bool:
        """Let a refused token be dead if another can be had; True if a newer one is alive already.

        One that cannot be renewed is kept and tried again: the refusal may be a mistake.
        """
        if self.can_refresh:
            return self.kill(token)
        self._reload()
        self._refused[token.name] = token.version
        newer = self._alive(token.name, timedelta(0))
        return newer is not None and newer.version != token.version

    def move(self, new_key: LimitKey) -> bool:
        """Rename the shop of these tokens; False if the new name is another account's."""
        return self._token_store.move(self._limit_key, new_key, now=self._clock.now())

    def begin_refresh(self, owner: str, *, timeout_s: float) -> bool:
        """Take the lease to refresh; False while another holds it."""
        now = self._clock.now()
        until = now + timedelta(seconds=timeout_s + LEASE_MARGIN_S)
        return self._token_store.begin_refresh(
            self._limit_key, owner=owner, now=now, lease_until=until
        )

    def refresh(
        self, fetch: Callable[[], TokenGrant], *, timeout_s: float, send_by_s: float
    ) -> bool:
        """Fetch a new grant and store it, one worker at a time; False if no request was made."""
        owner = fresh_id()
        if not self.begin_refresh(owner, timeout_s=timeout_s):
            return False
        try:
            if not self.needs_refresh() or self._clock.monotonic() > send_by_s:
                return False
            grant = fetch()
            self.keep(grant, owner=owner, renewed_at=self._clock.now())
        finally:
            self.end_refresh(owner)
        return True

    def end_refresh(self, owner: str) -> None:
        """Give the lease back."""
        self._token_store.end_refresh(self._limit_key, owner=owner)

    def keep(self, grant: TokenGrant, *, owner: str, renewed_at: datetime | None = None) -> None:
        """Store the tokens of a refresh, the refresh token first; a renewal is recorded once."""
        if grant.refresh is not None:
            self._save(REFRESH, grant.refresh, grant.refresh_until, owner)
        self._save(ACCESS, grant.access, grant.access_until, owner, renewed_at)
        self._known = {}

    def keep_client(self, client: AppClient, *, owner: str) -> None:
        """Store a shop's own app; its first access token is fetched when it is needed."""
        self._save(CLIENT, client.text, NEVER, owner)
        for name in (ACCESS, REFRESH):
            self.forget(name, owner=owner)
        self._known = {}

    def forget(self, name: str, *, owner: str) -> None:
        """Write over the token of this name: a later one must not get its version."""
        self._reload()
        if name in self._known:
            self._save(name, "forgotten", self._clock.now(), owner)
            self._known = {}

    def _save(
        self,
        name: str,
        text: str,
        expires_at: datetime,
        owner: str,
        renewed_at: datetime | None = None,
    ) -> None:
        self._token_store.save(
            self._limit_key,
            name,
            secret=self._vault.encrypt(text),
            expires_at=expires_at,
            owner=owner,
            renewed_at=renewed_at,
        )

    def _alive(self, name: str, early: timedelta) -> Token | None:
        token = self._known.get(name)
        is_alive = token is not None and token.expires_at > self._clock.now() + early
        return token if is_alive else None

    def _reload(self) -> None:
        self._known = {
            row.name: Token(
                name=row.name,
                text=self._vault.decrypt(row.secret),
                expires_at=row.expires_at,
                version=row.version,
            )
            for row in self._token_store.load(self._limit_key)
        }


def replaced(provider: str) -> TransientError:
    """Return the error of a call after another worker, or a person, replaced its token."""
    text = f"{provider} refuses a token that was just replaced; the new one is tried"
    return TransientError(text, provider=provider, status=401)


def store_tokens(
    token_store: TokenStore,
    vault: Vault,
    limit_key: LimitKey,
    *,
    clock: Clock,
    access: str,
    expires_at: datetime | None = None,
    refresh: str | None = None,
    refresh_expires_at: datetime | None = None,
) -> None:
    """Keep the tokens of an account that a person connects, instead of those it had.

    An access token without a refresh token and without an expiry is used until it is refused.
    """
    for name, text in ((ACCESS, access), (REFRESH, refresh)):
        if text is not None and not is_usable(text):
            raise InvalidError(f"the {name} token is empty or holds spaces or line ends")
    tokens = AccountTokens(limit_key, token_store=token_store, vault=vault, clock=clock)
    with _leased(tokens) as owner:
        for name in (CLIENT,) if refresh else (CLIENT, REFRESH):
            tokens.forget(name, owner=owner)
        now = clock.now()
        grant = TokenGrant(
            access=access,
            access_until=expires_at or (_until(now, LIFE_S, LIFE_S) if refresh else NEVER),
            refresh=refresh,
            refresh_until=refresh_expires_at or _until(now, REFRESH_LIFE_S, REFRESH_LIFE_S),
        )
        tokens.keep(grant, owner=owner)


def store_client(
    token_store: TokenStore, vault: Vault, limit_key: LimitKey, client: AppClient, *, clock: Clock
) -> None:
    """Keep the app of a shop that a person connects, instead of the tokens it had."""
    if not is_usable(client.client_id) or not is_usable(client.client_secret):
        raise InvalidError("client_id, client_secret: each is one word, on one line")
    if ":" in client.client_id:
        raise InvalidError("client_id: it has no colon; copy it from the app's settings")
    tokens = AccountTokens(limit_key, token_store=token_store, vault=vault, clock=clock)
    with _leased(tokens) as owner:
        tokens.keep_client(client, owner=owner)


@contextmanager
def _leased(tokens: AccountTokens) -> Iterator[str]:
    """Hold the lease to refresh while a person's tokens are stored; raises ConflictError."""
    owner = fresh_id()
    if not tokens.begin_refresh(owner, timeout_s=LEASE_MARGIN_S):
        raise ConflictError("the account's tokens are being refreshed; try again in a minute")
    try:
        yield owner
    finally:
        tokens.end_refresh(owner)


def read_grant(body: bytes, now: datetime, *, provider: str) -> TokenGrant:
    """Read a token reply; its text is never shown, for it holds the tokens."""
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        reply = None
    reply = reply if isinstance(reply, dict) else {}
    access, refresh = reply.get("access_token"), reply.get("refresh_token")
    if not is_usable(access) or (refresh is not None and not is_usable(refresh)):
        raise UnreadableError(f"{provider}'s token reply holds no usable token", provider=provider)
    return TokenGrant(
        access=str(access),
        access_until=_until(now, reply.get("expires_in"), LIFE_S),
        refresh=refresh,
        refresh_until=_until(now, reply.get("refresh_token_expires_in"), REFRESH_LIFE_S),
    )


def grant_error(answer: HttpResponse) -> str:
    """Return the error code of a token reply; empty if it has none, as a page has."""
    return str((answer.document or {}).get("error") or "")


def check_grant(answer: HttpResponse, *, provider: str) -> None:
    """Raise on a bad status of a token reply, which the caller could not explain.

    It costs nobody a refresh token: the same one is tried again.
    """
    try:
        check_status(answer, provider=provider, shows_body=False)
    except (PermanentError, UnauthorizedError) as error:
        raise TransientError(str(error), provider=provider, status=answer.status) from None


def is_usable(text: Any) -> bool:  # noqa: ANN401 - whatever a reply or a person gave
    """Return True if a header can carry this as a token."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= TOKEN_CHARS_MAX
        and text.isascii()
        and text.isprintable()
        and " " not in text
    )


def _until(now: datetime, life_s: object, usual_s: float) -> datetime:
    if isinstance(life_s, bool) or not isinstance(life_s, int | float) or not life_s > 0:
        life_s = usual_s
    return now + timedelta(seconds=min(max(life_s, LIFE_S_MIN), LIFE_S_MAX))
