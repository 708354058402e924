"""Etsy's Open API v3 behind the engine's port `Platform`: each calling method is one request.

A refresh token is good for one use, so the new one is kept before anything is done with it. Should
the reply that brings it be lost, only the seller can help, by connecting again.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

import httpx

from headway.clock import Clock
from headway.core.accounts.jobs import Account
from headway.core.accounts.pagination import Page, PageRequest
from headway.core.catalog.storefront import Cost
from headway.core.limits.transitions import Observation
from headway.errors import ConfigError, InvariantError, TransientError, UnauthorizedError
from headway.providers.etsy import replies
from headway.providers.etsy.api import CONNECT, EtsyAccess, EtsyApi, EtsySelf, consent_url
from headway.providers.etsy.limits import day_key, day_resource, second_key, second_resource
from headway.providers.etsy.replies import PROVIDER, find_error
from headway.providers.http import HttpResponse, check_status
from headway.providers.token_store import TokenStore, token_key
from headway.providers.tokens import (
    ACCESS,
    REFRESH,
    AccountTokens,
    Token,
    TokenGrant,
    grant_error,
    replaced,
)
from headway.providers.vault import Vault

__all__ = [
    "EtsyAccess",
    "EtsyApi",
    "EtsyPlatform",
    "EtsySelf",
    "consent_url",
    "day_resource",
    "second_resource",
]

# Each list of the walks, and where it is.
LISTS = {
    "receipts": "/receipts",
    "listings": "/listings",
    "ledger": "/payment-account/ledger-entries",
}
SCOPE_OF = {
    "/receipts": "transactions_r",
    "/payment-account": "transactions_r",
    "/listings": "listings_r",
}


class EtsyPlatform:
    """One shop behind the engine's port `Platform`."""

    def __init__(
        self,
        account: Account,
        *,
        url: str = "https://api.etsy.com",
        access: EtsyAccess,
        token_store: TokenStore,
        vault: Vault,
        clock: Clock,
        timeout_s: float = 30,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not re.fullmatch(r"[1-9][0-9]{0,19}", account.shop):
            raise ConfigError(f"{account.shop!r} is no Etsy shop; write its number")
        self._account = account
        self._keystring = access.keystring
        self._clock = clock
        self._timeout_s = timeout_s
        # A scope that a reply called missing, and one that `/scopes` then listed for that token.
        self._doubted = ""
        self._confirmed: tuple[str, int] | None = None
        limit_key = token_key(account.platform, account.shop)
        self._tokens = AccountTokens(limit_key, token_store=token_store, vault=vault, clock=clock)
        self._api = EtsyApi(access, url=url, clock=clock, timeout_s=timeout_s, transport=transport)

    def __repr__(self) -> str:
        return f"EtsyConnector({self._account.shop})"

    @property
    def keys(self) -> Sequence[str]:
        """The app's limit of a second."""
        return (second_key(self._keystring),)

    @property
    def day_key(self) -> str | None:
        """The app's quota of any 24 hours."""
        return day_key(self._keystring)

    @property
    def observations(self) -> Mapping[str, Observation]:
        """The limits in the last reply, by key; empty if it had none."""
        return self._api.observations

    @property
    def cost(self) -> Cost | None:
        """None: a call is a call."""
        return None

    def close(self) -> None:
        """Let the connections go."""
        self._api.close()

    def needs_token(self) -> bool:
        """Return True if the access token must be refreshed or checked before anything else."""
        return bool(self._doubted) or self._tokens.needs_refresh()

    def refresh_token(self, *, send_by_s: float = math.inf) -> bool:
        """Refresh it; False if no request was made: another worker is at it, or it is too late.

        If a reply called a scope missing, ask Etsy for the token's scopes instead.
        """
        if self._doubted and not self._tokens.needs_refresh():
            return self._clock.monotonic() <= send_by_s and self._check_scope()
        return self._tokens.refresh(
            self._fetch_grant, timeout_s=self._timeout_s, send_by_s=send_by_s
        )

    def price(self, ask: PageRequest) -> float:  # noqa: ARG002 - as the port has it
        """Return 1: every request counts the same."""
        return 1.0

    def read(self, ask: PageRequest) -> Page:
        """Make this request, and read its page; report an absent receipt as missing."""
        if ask.what == "receipt":
            return self._read_receipt(str(ask.values["receipt_id"]))
        if ask.what == "payments":
            return self._read_payments(ask.values["links"])
        if ask.what == "shop":
            return self._read_shop()
        if ask.what not in LISTS:
            raise InvariantError(f"etsy has no {ask.what}")
        answer = self._get(LISTS[ask.what], ask.values)
        check_status(answer, provider=PROVIDER, shows_body=True)
        if ask.what == "listings":
            return replies.read_listings(answer.body)
        if ask.what == "ledger":
            return replies.read_ledger(answer.body)
        sort_on = str(ask.values["sort_on"])
        return replies.read_receipts(answer.body, sort_on=sort_on, now=self._clock.now())

    def _read_receipt(self, receipt_id: str) -> Page:
        # The id came with a webhook; only a number is a receipt id, safe in an address.
        if not re.fullmatch(r"[1-9][0-9]{0,19}", receipt_id):
            return Page(missing=(receipt_id,))
        answer = self._get(f"/receipts/{receipt_id}", {})
        if answer.status == httpx.codes.NOT_FOUND:
            return Page(missing=(receipt_id,))
        check_status(answer, provider=PROVIDER, shows_body=True)
        return replies.read_receipt(answer.body, now=self._clock.now())

    def _read_shop(self) -> Page:
        answer = self._get("", {})
        check_status(answer, provider=PROVIDER, shows_body=True)
        return replies.read_creation(answer.body)

    def _read_payments(self, links: Sequence[Sequence[str]]) -> Page:
        ids = dict.fromkeys(payment_id for _, payment_id in links)
        answer = self._get("/payments", {"payment_ids": ",".join(ids)})
        if answer.status == httpx.codes.NOT_FOUND and len(ids) == 1:
            return Page()
        check_status(answer, provider=PROVIDER, shows_body=True)
        return replies.read_payments(answer.body, links)

    def _get(self, path: str, params: Mapping[str, str | int]) -> HttpResponse:
        token = self._tokens.find(ACCESS)
        if token is None:
            text = f"no usable access token for the Etsy shop {self._account.shop}; {CONNECT}"
            raise UnauthorizedError(text, provider=PROVIDER)
        answer = self._api.get(f"/shops/{self._account.shop}{path}", params, bearer=token.text)
        if answer.status in {401, 403}:
            scope = next((scope for part, scope in SCOPE_OF.items() if part in path), "shops_r")
            self._raise_refusal(answer, token, scope)
        return answer

    def _raise_refusal(self, answer: HttpResponse, token: Token, scope: str) -> NoReturn:
        """Raise the error of a 401 or 403: only some say that the token is refused."""
        shop, code, status = self._account.shop, grant_error(answer), answer.status
        if status == httpx.codes.UNAUTHORIZED and code == "invalid_token":
            if self._tokens.refuse(token):
                raise replaced(PROVIDER)
            helps = "another is fetched" if self._tokens.can_refresh else CONNECT
            text = f"the Etsy shop {shop} refuses the access token; {helps}"
            raise UnauthorizedError(text, provider=PROVIDER, status=status)
        message = find_error(answer.body) or "without a reason"
        if code == "insufficient_scope" and self._confirmed != (scope, token.version):
            self._doubted = scope  # Etsy has refused complete tokens so for hours
            text = f"the Etsy shop {shop} refuses a token for lack of {scope}; it is checked"
            raise UnauthorizedError(text, provider=PROVIDER, status=status)
        # A firewall, a mistake of Etsy, or a shop that is not the seller's: no reason to end it.
        text = f"etsy forbids this for the shop {shop}: {message}"
        raise TransientError(text, provider=PROVIDER, status=status)

    def _check_scope(self) -> bool:
        """Ask Etsy whether the token has the scope that a reply called missing."""
        token, scope, self._doubted = self._tokens.find(ACCESS), self._doubted, ""
        if token is None:
            return False
        if scope not in self._api.find_scopes(token.text):
            text = f"the Etsy shop {self._account.shop} did not grant {scope}; {CONNECT}"
            raise UnauthorizedError(text, provider=PROVIDER, status=403)
        self._confirmed = (scope, token.version)
        return True

    def _fetch_grant(self) -> TokenGrant:
        refresh = self._tokens.find(REFRESH)
        assert refresh is not None, "a refresh needs a refresh token"
        return self._api.fetch_grant({"grant_type": "refresh_token", "refresh_token": refresh.text})
