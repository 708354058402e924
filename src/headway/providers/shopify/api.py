"""One shop's Admin GraphQL API: tokens, version, refusals; for writing and reading.

A reply from another API version is rejected, since its fields may have another meaning.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

import httpx

from headway.clock import Clock
from headway.core.catalog.listings import LimitKey
from headway.core.catalog.storefront import Cost
from headway.errors import (
    AppRefusedError,
    ConfigError,
    MovedError,
    SuspendedError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)
from headway.providers.excerpt import excerpt
from headway.providers.http import HttpResponse, build_client, check_status, exchange
from headway.providers.shopify import replies
from headway.providers.shopify.api_version import DEFAULT_VERSION
from headway.providers.shopify.limits import shop_limit_key
from headway.providers.shopify.queries import Document
from headway.providers.shopify.replies import PROVIDER, ShopReply
from headway.providers.shopify.shops import HOST
from headway.providers.token_store import TokenStore
from headway.providers.tokens import (
    ACCESS,
    GRANT_ENDED,
    REFRESH,
    AccountTokens,
    AppClient,
    Token,
    TokenGrant,
    check_grant,
    grant_error,
    read_grant,
    replaced,
)
from headway.providers.vault import Vault

TOKEN_PATH = "/admin/oauth/access_token"  # noqa: S105 - an address
TOKEN_HEADER = "X-Shopify-Access-Token"  # noqa: S105 - a header's name
VERSION_HEADER = "X-Shopify-API-Version"
CONNECT = "connect the shop again with `headway connect`"
# A token that was entered without a refresh token has an unknown lifetime.
EXPIRED = (
    "this token has expired or was revoked; connect with client id and secret"
    " (`headway connect SHOP --seller SELLER --client-id ID`), or with a new token"
)
# Statuses that mean a whole shop is closed to us for now; its owner must act.
CLOSED = {
    402: "is frozen until its bill is paid; settle it in Shopify",
    423: "is locked by Shopify; clear that with their support",
}
# Statuses that an edge in front of the API sends too: what to check if they stay.
PASSING = {
    403: "see that the app is installed there and has its scopes",
    404: "check its name",
}
MOVED = frozenset({301, 308})
WHO = "query { shop { name myshopifyDomain } }"
# Codes of a token request that mean our app's id or secret is wrong.
APP_ERRORS = frozenset(
    {"invalid_request", "application_cannot_be_found", "invalid_client", "unauthorized_client"}
)
# Codes of a token request for a shop's own app, and what its owner has to do.
WRONG_CLIENT = (
    "Shopify refuses the app's client id or secret; copy both from the app's settings in the Dev"
    f" Dashboard and {CONNECT}"
)
OWN_APP_ERRORS = {
    **dict.fromkeys(APP_ERRORS, WRONG_CLIENT),
    "app_not_installed": "the app is not installed in this shop; install it from the Dev Dashboard",
    "shop_not_permitted": (
        "the app and the shop belong to different organizations, so its client id and secret do"
        " not work there; make the app in the shop's own organization, or use the link of"
        " `headway connect SHOP --link`"
    ),
}
# Without this header Shopify answers errors of OAuth with a page.
JSON_ONLY = {"Accept": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopAccess:
    """The app's credentials, which a shop's own app does not need, and the API version."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    version: str = DEFAULT_VERSION

    @property
    def path(self) -> str:
        """Where the API of this version is."""
        return f"/admin/api/{self.version}/graphql.json"


class ShopApi:
    """One worker's way into one shop."""

    def __init__(
        self,
        domain: str,
        *,
        url: str,
        access: ShopAccess,
        token_store: TokenStore,
        vault: Vault,
        clock: Clock,
        timeout_s: float,
        transport: httpx.BaseTransport | None,
    ) -> None:
        self.base = shop_address(url, domain)
        self._domain = domain
        self._access = access
        self._clock = clock
        self._timeout_s = timeout_s
        self._transport = transport
        self._clients: dict[str, httpx.Client] = {}
        self._tokens = AccountTokens(
            self.limit_key, token_store=token_store, vault=vault, clock=clock
        )
        self._cost: Cost | None = None
        self._url = url
        # Where a redirect says that the shop is now; not yet verified.
        self._moved_to = ""

    @property
    def limit_key(self) -> LimitKey:
        """The app and shop that the limit binds."""
        return shop_limit_key(self._access.client_id, self._domain)

    @property
    def cost(self) -> Cost | None:
        """The cost of the last call, answered or refused; None if the shop did not report it."""
        return self._cost

    def forget_cost(self) -> None:
        """Let the next call begin with no cost known."""
        self._cost = None

    def close(self) -> None:
        """Let the connections go."""
        for client in self._clients.values():
            client.close()

    def needs_token(self) -> bool:
        """Return True if a token, or the shop's new address, must be asked for first."""
        return bool(self._moved_to) or self._tokens.needs_refresh()

    def refresh_token(self, *, send_by_s: float = math.inf) -> bool:
        """Refresh it; False if no request was made: another worker is at it, or it is too late."""
        self._cost = None
        base, token = self.base, self._tokens.find(ACCESS)
        if self._moved_to:
            if self._clock.monotonic() > send_by_s:
                return False
            domain, self._moved_to = self._moved_to, ""
            base = shop_address(self._url, domain)
            if token is not None:
                self._follow(domain, base, token)
        return self._tokens.refresh(
            partial(self._fetch_grant, base), timeout_s=self._timeout_s, send_by_s=send_by_s
        )

    def _follow(self, domain: str, base: httpx.URL, token: Token) -> NoReturn:
        """Ask at the new address which shop it is; store it if it is ours, and raise MovedError."""
        client = self.client(str(base))
        request = client.build_request(
            "POST", self._access.path, headers={TOKEN_HEADER: token.text}, json={"query": WHO}
        )
        answer = self.exchange(client, request, hide=(token.text,))
        check_grant(answer, provider=PROVIDER)
        if replies.read_shop(answer.body)[0] != domain:
            text = f"{self._domain} leads to {domain}, which is another shop"
            raise UnreadableError(text, provider=PROVIDER)
        if not self._tokens.move(shop_limit_key(self._access.client_id, domain)):
            text = f"{self._domain} is now {domain}, but that is another account's shop"
            raise TransientError(text, provider=PROVIDER)
        text = f"{self._domain} is now {domain}; the next call goes there"
        raise MovedError(text, provider=PROVIDER, status=301)

    def _check_address(self, answer: HttpResponse) -> None:
        """Raise MovedError if the shop has another address; a token goes to shops only."""
        if answer.status not in MOVED:
            return
        address = find_address(answer.headers.get("location", ""))
        host = "" if address is None else address.host
        if not HOST.fullmatch(host) or host == self._domain:
            text = f"{self._domain} leads to {excerpt(host.encode())!r}, which is not a shop"
            raise UnreadableError(text, provider=PROVIDER, status=answer.status)
        self._moved_to = host
        text = f"{self._domain} leads to {host}; that is checked"
        raise MovedError(text, provider=PROVIDER, status=answer.status)

    def ask(self, document: Document) -> ShopReply:
        """Send a document; the reply's own errors are still to be looked at."""
        self._cost = None
        token = self._tokens.find(ACCESS)
        if token is None:
            raise UnauthorizedError(
                f"no usable access token for {self._domain}; {CONNECT}", provider=PROVIDER
            )
        request = self._shop.build_request(
            "POST",
            self._access.path,
            headers={TOKEN_HEADER: token.text},
            json={"query": document.text, "variables": document.variables},
        )
        answer = self.exchange(self._shop, request, hide=(token.text,))
        self._check_status(answer, token)
        reply = replies.read_reply(answer.body)
        self._cost = reply.cost
        self._check_version(answer)
        return reply

    def client(self, base: str) -> httpx.Client:
        """Return the client of the shop, or of other hosts; made late, for making it is dear."""
        if base not in self._clients:
            self._clients[base] = build_client(
                base, clock=self._clock, timeout_s=self._timeout_s, transport=self._transport
            )
        return self._clients[base]

    @property
    def _shop(self) -> httpx.Client:
        return self.client(str(self.base))

    def exchange(
        self, client: httpx.Client, request: httpx.Request, *, hide: Sequence[str] = ()
    ) -> HttpResponse:
        """Send one request, to the shop or elsewhere."""
        return exchange(
            client,
            request,
            clock=self._clock,
            timeout_s=self._timeout_s,
            provider=PROVIDER,
            hide=(*hide, self._access.client_secret),
        )

    def _check_status(self, answer: HttpResponse, token: Token) -> None:
        """Raise on a bad status; only a 401 of the API itself says that the token is refused."""
        if answer.status == httpx.codes.UNAUTHORIZED and answer.document is not None:
            if self._tokens.refuse(token):
                raise replaced(PROVIDER)
            helps = "; another is fetched" if self._tokens.can_refresh else f": {EXPIRED}"
            text = f"{self._domain} refuses the access token{helps}"
            raise UnauthorizedError(text, provider=PROVIDER, status=answer.status)
        self._check_open(answer, detail=excerpt(answer.body))
        check_status(answer, provider=PROVIDER, shows_body=True)

    def _check_version(self, answer: HttpResponse) -> None:
        """Raise if the shop fell forward to another version: support of ours has ended."""
        version = answer.headers.get(VERSION_HEADER, "")
        if version != self._access.version:
            spoken = f"version {excerpt(version.encode())}" if version else "no version"
            raise UnreadableError(
                f"{self._domain} answered in {spoken} of its API, not {self._access.version};"
                " upgrade headway, or see HEADWAY_SHOPIFY_API_VERSION",
                provider=PROVIDER,
            )

    def _check_open(self, answer: HttpResponse, *, detail: str = "") -> None:
        self._check_address(answer)
        shop_detail = f" (it says: {detail})" if detail else ""
        if why := CLOSED.get(answer.status):
            text = f"the shop {self._domain} {why}{shop_detail}"
            raise SuspendedError(text, provider=PROVIDER, status=answer.status)
        if check := PASSING.get(answer.status):
            text = f"the shop {self._domain} answered {answer.status}; if it stays so, {check}"
            raise TransientError(text + shop_detail, provider=PROVIDER, status=answer.status)

    def _fetch_grant(self, base: httpx.URL) -> TokenGrant:
        own_app = self._tokens.client
        if own_app is not None:
            return self._fetch_own(base, own_app)
        refresh = self._tokens.find(REFRESH)
        assert refresh is not None, "a refresh needs a refresh token"
        if not self._access.client_id or not self._access.client_secret:
            raise AppRefusedError(
                "HEADWAY_SHOPIFY_CLIENT_ID and HEADWAY_SHOPIFY_CLIENT_SECRET are needed to refresh"
                " a token; set them",
                provider=PROVIDER,
            )
        form = {
            "client_id": self._access.client_id,
            "client_secret": self._access.client_secret,
            "grant_type": "refresh_token",
            "refresh_token": refresh.text,
        }
        answer = self._request_token(base, form)
        if grant_error(answer) == GRANT_ENDED:
            text = f"{self._domain} no longer accepts the tokens; {CONNECT}"
            raise UnauthorizedError(text, provider=PROVIDER, status=answer.status)
        if grant_error(answer) in APP_ERRORS:
            text = "shopify refuses HEADWAY_SHOPIFY_CLIENT_ID or its secret; check both"
            raise AppRefusedError(text, provider=PROVIDER, status=answer.status)
        return self._read_grant(answer)

    def _fetch_own(self, base: httpx.URL, own_app: AppClient) -> TokenGrant:
        """Ask for an access token of the shop's own app; each lives about a day."""
        form = {
            "client_id": own_app.client_id,
            "client_secret": own_app.client_secret,
            "grant_type": "client_credentials",
        }
        answer = self._request_token(base, form)
        if why := OWN_APP_ERRORS.get(grant_error(answer)):
            text = f"{self._domain}: {why}"
            raise UnauthorizedError(text, provider=PROVIDER, status=answer.status)
        return self._read_grant(answer)

    def _request_token(self, base: httpx.URL, form: Mapping[str, str]) -> HttpResponse:
        client = self.client(str(base))
        request = client.build_request("POST", TOKEN_PATH, data=form, headers=JSON_ONLY)
        return self.exchange(client, request, hide=(form["client_secret"],))

    def _read_grant(self, answer: HttpResponse) -> TokenGrant:
        self._check_open(answer)
        check_grant(answer, provider=PROVIDER)
        return read_grant(answer.body, self._clock.now(), provider=PROVIDER)


def shop_address(template: str, domain: str) -> httpx.URL:
    """Return the address of a shop; raises ConfigError."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?", domain):
        raise ConfigError(f"{domain!r} is no shop; write it like example.myshopify.com")
    address = find_address(template.replace("{shop}", domain))
    if address is None:
        raise ConfigError("HEADWAY_SHOPIFY_URL must be an address like https://{shop}")
    return address


def find_address(text: str) -> httpx.URL | None:
    """Return the address that a text is, if it is a usable one."""
    try:
        address = httpx.URL(text)
    except httpx.InvalidURL:
        return None
    is_usable = address.scheme in {"http", "https"} and re.fullmatch(r"[\w.:-]+", address.host)
    return address if is_usable else None
