"""Etsy's API: the app's key on every call, the limits in each reply, and consent.

An error of the app itself is ours to fix, and never disconnects a seller's account.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

import httpx

from headway.clock import Clock
from headway.core.limits.transitions import Observation
from headway.errors import AppRefusedError, UnauthorizedError
from headway.providers.etsy.limits import read_limits
from headway.providers.etsy.replies import (
    PROVIDER,
    find_error,
    read_scopes,
    read_self,
    read_title,
)
from headway.providers.http import HttpResponse, build_client, check_status, exchange
from headway.providers.tokens import (
    GRANT_ENDED,
    TokenGrant,
    check_grant,
    grant_error,
    read_grant,
)

API = "/v3/application"
TOKEN_PATH = "/v3/public/oauth/token"  # noqa: S105 - a path
CONSENT = "https://www.etsy.com/oauth/connect"
# The scopes that a seller grants: orders and ledger, listings, and the shop's identity.
SCOPES = ("transactions_r", "listings_r", "shops_r")
CONNECT = "the seller must connect the shop again"
APP = "HEADWAY_ETSY_KEYSTRING and HEADWAY_ETSY_SHARED_SECRET"
# How Etsy words that it is the app's key, not the seller's token, that it refuses.
ABOUT_THE_APP = re.compile(r"api[- _]?key|shared secret|keystring", re.IGNORECASE)
APP_ERRORS = re.compile(
    r"invalid_client|unauthorized_client|invalid_request|unsupported_grant_type"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtsyAccess:
    """The credentials of the app."""

    keystring: str
    shared_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtsySelf:
    """The owner of a token; the shop is None if that person has none."""

    user_id: str
    shop_id: str | None


class EtsyApi:
    """Etsy's API for one app; each method that sends a request is one call."""

    def __init__(
        self,
        access: EtsyAccess,
        *,
        url: str = "https://api.etsy.com",
        clock: Clock,
        timeout_s: float = 30,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._access = access
        self._clock = clock
        self._timeout_s = timeout_s
        self._client = build_client(url, clock=clock, timeout_s=timeout_s, transport=transport)
        self._headers = httpx.Headers()

    def __repr__(self) -> str:
        return f"EtsyDoor({self._access.keystring})"

    @property
    def observations(self) -> Mapping[str, Observation]:
        """The limits in the last reply, by key; empty if it had none."""
        return read_limits(self._headers, self._access.keystring)

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def get(self, path: str, params: Mapping[str, str | int], *, bearer: str) -> HttpResponse:
        """Send a GET; a refusal of the app itself raises, the caller handles other statuses."""
        request = self._client.build_request(
            "GET", f"{API}{path}", params=params, headers={"Authorization": f"Bearer {bearer}"}
        )
        answer = self._exchange(request, hide=(bearer,))
        if answer.status in {401, 403}:
            self._check_app(answer)
        return answer

    def fetch_grant(self, form: Mapping[str, str]) -> TokenGrant:
        """Request a pair of tokens; raises UnauthorizedError if the code or token is invalid.

        Only `invalid_grant` says so: pages and unknown errors cost nobody a refresh token.
        """
        data = {**form, "client_id": self._access.keystring}
        request = self._client.build_request("POST", TOKEN_PATH, data=data)
        answer = self._exchange(request)
        if grant_error(answer) == GRANT_ENDED:
            text = f"etsy no longer lets us into this shop; {CONNECT}"
            raise UnauthorizedError(text, provider=PROVIDER, status=answer.status)
        if answer.status in {400, 401, 403}:
            if APP_ERRORS.search(find_error(answer.body)):
                self._refuse_app(answer.status)
            self._check_app(answer)
        check_grant(answer, provider=PROVIDER)
        return read_grant(answer.body, self._clock.now(), provider=PROVIDER)

    def find_scopes(self, bearer: str) -> Sequence[str]:
        """Return the scopes of this token; raises UnreadableError if the reply does not list them.

        Etsy's schema names no fields: the list is the reply, or its field `scopes`.
        """
        request = self._client.build_request("POST", f"{API}/scopes", data={"token": bearer})
        answer = self._exchange(request, hide=(bearer,))
        check_grant(answer, provider=PROVIDER)
        return read_scopes(answer.body)

    def exchange_code(self, code: str, *, redirect_uri: str, verifier: str) -> TokenGrant:
        """Exchange the code that a seller came back with for tokens."""
        form = {"code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
        return self.fetch_grant({"grant_type": "authorization_code", **form})

    def find_self(self, bearer: str) -> EtsySelf:
        """Return the owner of this token, and the shop."""
        answer = self.get("/users/me", {}, bearer=bearer)
        check_status(answer, provider=PROVIDER, shows_body=True)
        user_id, shop_id = read_self(answer.body)
        return EtsySelf(user_id=user_id, shop_id=shop_id)

    def find_title(self, shop_id: str, bearer: str) -> str:
        """Return the name of a shop."""
        answer = self.get(f"/shops/{shop_id}", {}, bearer=bearer)
        check_status(answer, provider=PROVIDER, shows_body=True)
        return read_title(answer.body)

    def _exchange(self, request: httpx.Request, *, hide: tuple[str, ...] = ()) -> HttpResponse:
        self._headers = httpx.Headers()
        if not self._access.keystring or not self._access.shared_secret:
            raise AppRefusedError(f"{APP} are needed to ask Etsy; set them", provider=PROVIDER)
        key = f"{self._access.keystring}:{self._access.shared_secret}"
        request.headers["x-api-key"] = key
        answer = exchange(
            self._client,
            request,
            clock=self._clock,
            timeout_s=self._timeout_s,
            provider=PROVIDER,
            hide=(*hide, self._access.shared_secret),
        )
        self._headers = answer.headers
        return answer

    def _check_app(self, answer: HttpResponse) -> None:
        if ABOUT_THE_APP.search(find_error(answer.body)):
            self._refuse_app(answer.status)

    def _refuse_app(self, status: int) -> None:
        text = f"etsy refuses our app's key; check {APP} (sent as keystring:shared_secret)"
        raise AppRefusedError(text, provider=PROVIDER, status=status)


def consent_url(
    keystring: str, redirect_uri: str, state: str, challenge: str, *, page: str = CONSENT
) -> str:
    """Return where to send a seller who connects a shop; the challenge is S256 of a verifier."""
    query_params = {
        "response_type": "code",
        "client_id": keystring,
        "redirect_uri": redirect_uri,
        "scope": " ".join(SCOPES),
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{page}?{urlencode(query_params)}"
