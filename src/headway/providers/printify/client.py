"""Printify's API v1 behind the engine's port `Platform`: each method is one request.

A personal token lives a year and comes alone; one of an app lives six hours and is refreshed.
Printify asks that every request name who sends it, which `build_client` does.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from urllib.parse import quote

import httpx

from headway.clock import Clock
from headway.core.accounts.jobs import Account
from headway.core.accounts.pagination import Page, PageRequest
from headway.core.catalog.storefront import Cost
from headway.core.limits.transitions import Observation
from headway.errors import (
    AppRefusedError,
    PermanentError,
    TransientError,
    UnauthorizedError,
)
from headway.providers.http import HttpResponse, build_client, check_status, exchange
from headway.providers.printify import replies
from headway.providers.printify.limits import account_limit_key
from headway.providers.printify.replies import PROVIDER, PrintifyShop
from headway.providers.token_store import TokenStore, token_key
from headway.providers.tokens import (
    ACCESS,
    GRANT_ENDED,
    REFRESH,
    AccountTokens,
    Token,
    TokenGrant,
    check_grant,
    grant_error,
    read_grant,
    replaced,
)
from headway.providers.vault import Vault

REFRESH_PATH = "/v1/app/oauth/tokens/refresh"
RENEW = "make a new one in Printify (My account, Connections), then connect the shop again"
# An id that was once wanted and is not an order, or no longer one, or not of this shop.
NO_ORDER = frozenset({400, 404, 410, 422})


class PrintifyPlatform:
    """One shop of one account behind the engine's port `Platform`."""

    def __init__(
        self,
        account: Account,
        *,
        url: str = "https://api.printify.com",
        app_id: str = "",
        token_store: TokenStore,
        vault: Vault,
        clock: Clock,
        timeout_s: float = 30,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._account = account
        self._app_id = app_id
        self._clock = clock
        self._timeout_s = timeout_s
        limit_key = token_key(account.platform, account.shop)
        self._tokens = AccountTokens(limit_key, token_store=token_store, vault=vault, clock=clock)
        self._client = build_client(url, clock=clock, timeout_s=timeout_s, transport=transport)

    def __repr__(self) -> str:
        return f"PrintifyConnector({self._account.shop})"

    @property
    def keys(self) -> Sequence[str]:
        """The account's limit: all its shops share it, whatever token they use."""
        return (account_limit_key(self._account),)

    @property
    def day_key(self) -> str | None:
        """None: Printify has no quota of a day."""
        return None

    @property
    def observations(self) -> Mapping[str, Observation]:
        """Empty: Printify's replies are silent on its limits."""
        return {}

    @property
    def cost(self) -> Cost | None:
        """None: a call is a call."""
        return None

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def needs_token(self) -> bool:
        """Return True if the access token must be refreshed before anything else."""
        return self._tokens.needs_refresh()

    def refresh_token(self, *, send_by_s: float = math.inf) -> bool:
        """Refresh it; False if no request was made: another worker is at it, or it is too late."""
        return self._tokens.refresh(
            self._fetch_grant, timeout_s=self._timeout_s, send_by_s=send_by_s
        )

    def price(self, ask: PageRequest) -> float:  # noqa: ARG002 - as the port has it
        """Return 1: every request counts the same."""
        return 1.0

    def read(self, ask: PageRequest) -> Page:
        """Make this request, and read its page; report an absent order as missing."""
        shop = f"/v1/shops/{quote(self._account.shop, safe='')}"
        if ask.what == "order":
            return self._read_order(shop, str(ask.values["id"]))
        assert ask.what in {"orders", "products"}, f"Printify has no {ask.what}"
        limit = ask.values["limit"]
        answer = self._get(f"{shop}/{ask.what}.json", {"page": ask.values["page"], "limit": limit})
        self._check_there(answer)
        if ask.what == "products":
            return replies.read_products(answer.body, limit=limit)
        return replies.read_orders(answer.body, limit=limit, now=self._clock.now())

    def list_shops(self) -> tuple[PrintifyShop, ...]:
        """Return the shops of the account that the token belongs to."""
        answer = self._get("/v1/shops.json", {})
        check_status(answer, provider=PROVIDER, shows_body=True)
        return replies.read_shops(answer.body)

    def _read_order(self, shop: str, order_id: str) -> Page:
        answer = self._get(f"{shop}/orders/{quote(order_id, safe='')}.json", {})
        if answer.status in NO_ORDER and not answer.is_page:
            return Page(missing=(order_id,))
        check_status(answer, provider=PROVIDER, shows_body=True)
        return replies.read_order(answer.body, now=self._clock.now())

    def _get(self, path: str, params: Mapping[str, int]) -> HttpResponse:
        token = self._tokens.find(ACCESS)
        if token is None:
            text = f"no usable token for the Printify shop {self._account.shop}; {RENEW}"
            raise UnauthorizedError(text, provider=PROVIDER)
        request = self._client.build_request(
            "GET", path, params=dict(params), headers={"Authorization": f"Bearer {token.text}"}
        )
        answer = self._exchange(request, token.text)
        self._check_token(answer, token)
        return answer

    def _exchange(self, request: httpx.Request, secret: str) -> HttpResponse:
        return exchange(
            self._client,
            request,
            clock=self._clock,
            timeout_s=self._timeout_s,
            provider=PROVIDER,
            hide=(secret,),
        )

    def _check_token(self, answer: HttpResponse, token: Token) -> None:
        """Raise if the API refuses this token; a page or a 403 says nothing of it."""
        if answer.status != httpx.codes.UNAUTHORIZED or answer.document is None:
            return
        if self._tokens.refuse(token):
            raise replaced(PROVIDER)
        over = f"it was revoked, or is a year old: {RENEW}"
        helps = "another is fetched" if self._tokens.can_refresh else over
        text = f"Printify refuses the token of shop {self._account.shop}; {helps}"
        raise UnauthorizedError(text + _detail(answer), provider=PROVIDER, status=answer.status)

    def _check_there(self, answer: HttpResponse) -> None:
        """Raise on a bad status of a list, with what a person can do about it."""
        shop = self._account.shop
        if answer.status == httpx.codes.NOT_FOUND and not answer.is_page:
            text = f"Printify has no shop {shop} in this account; if it stays so, connect it again"
            raise PermanentError(text + _detail(answer), provider=PROVIDER, status=answer.status)
        if answer.status == httpx.codes.FORBIDDEN:
            scopes = "shops.read, orders.read and products.read"
            text = f"Printify denies shop {shop}; if it stays so, give its token {scopes}"
            raise TransientError(text + _detail(answer), provider=PROVIDER, status=answer.status)
        check_status(answer, provider=PROVIDER, shows_body=True)

    def _fetch_grant(self) -> TokenGrant:
        refresh = self._tokens.find(REFRESH)
        assert refresh is not None, "a refresh needs a refresh token"
        if not self._app_id:
            text = "the app's id is needed to refresh a Printify token; connect with a personal one"
            raise AppRefusedError(text, provider=PROVIDER)
        form = {"app_id": self._app_id, "refresh_token": refresh.text}
        request = self._client.build_request("POST", REFRESH_PATH, data=form)
        answer = self._exchange(request, refresh.text)
        if grant_error(answer) == GRANT_ENDED:
            text = f"Printify no longer lets us into shop {self._account.shop}; connect it again"
            raise UnauthorizedError(text, provider=PROVIDER, status=answer.status)
        check_grant(answer, provider=PROVIDER)
        grant = read_grant(answer.body, self._clock.now(), provider=PROVIDER)
        expires_at = _expiry(answer.body)
        return replace(grant, access_until=expires_at) if expires_at else grant


def _detail(answer: HttpResponse) -> str:
    return f" (it says: {replies.read_message(answer.body)})"


def _expiry(body: bytes) -> datetime | None:
    """Return when an app's token expires; Printify sends an instant, other platforms a span."""
    return replies.find_instant(json.loads(body), "expire_at")
