"""Shopify's Admin GraphQL API behind the engine's port `Storefront`: each method is one request.

After a write UnsentError, ThrottledError, UnauthorizedError and PermanentError mean that nothing
was done; any other error leaves it open. So does an answer from another API version: nobody here
has read what its fields mean.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

from headway.clock import Clock, fresh_id
from headway.connectors import shopify_bulk as bulk
from headway.connectors import shopify_documents as documents
from headway.connectors import shopify_reply as replies
from headway.connectors import shopify_shown as shown
from headway.connectors.boeing import TokenShelf
from headway.connectors.http import Answer, build_client, check_status, excerpt, exchange
from headway.connectors.shopify_bulk import Bulk, UploadTarget
from headway.connectors.shopify_documents import Document
from headway.connectors.shopify_limits import (
    read_call_limit,
    rest_resource,
    shop_resource,
    shop_scope,
)
from headway.connectors.shopify_reply import PROVIDER, ShopReply
from headway.connectors.tokens import (
    ACCESS,
    REFRESH,
    AccountTokens,
    Grant,
    Token,
    read_grant,
    store_tokens,
)
from headway.connectors.vault import Vault
from headway.core.model import Scope
from headway.core.storefront import (
    Cost,
    Creation,
    Found,
    Gid,
    PriceWrite,
    Said,
    Shop,
    Shown,
    StatusWrite,
    StockWrite,
)
from headway.errors import (
    ConfigError,
    PermanentError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)

__all__ = [
    "Bulk",
    "ShopAccess",
    "ShopifyConnector",
    "UploadTarget",
    "read_call_limit",
    "rest_resource",
    "shop_resource",
    "shop_scope",
    "store_tokens",
]

VERSION = "2026-04"
PATH = f"/admin/api/{VERSION}/graphql.json"
REFRESH_PATH = "/admin/oauth/access_token"
TOKEN_HEADER = "X-Shopify-Access-Token"  # noqa: S105 - a header's name
VERSION_HEADER = "X-Shopify-API-Version"
CONNECT = "connect the shop again with `headway connect`"
# What a whole shop answers while nobody may enter; a person must act.
CLOSED = {
    402: "is frozen until its bill is paid; settle it in Shopify",
    403: "denies access; see that the app is installed there and has its scopes",
    404: "is not there; check its name",
    423: "is locked by Shopify; clear that with their support",
}
REFUSED_GRANT = frozenset({400, 401})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopAccess:
    """The app that asks; a custom app, whose token never dies, needs neither."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)


class ShopifyConnector:
    """One shop behind the engine's port `Storefront`."""

    def __init__(
        self,
        shop: Shop,
        *,
        url: str = "https://{shop}",
        access: ShopAccess,
        shelf: TokenShelf,
        vault: Vault,
        clock: Clock,
        timeout_s: float = 30,
        currency: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._base = _shop_address(url, shop.domain)
        self._shop = shop
        self._access = access
        self._currency = currency
        self._clock = clock
        self._timeout_s = timeout_s
        self._transport = transport
        self._clients: dict[str, httpx.Client] = {}
        self._tokens = AccountTokens(self.scope, shelf=shelf, vault=vault, clock=clock)
        self._cost: Cost | None = None

    def __repr__(self) -> str:
        return f"ShopifyConnector({self.scope})"

    @property
    def scope(self) -> Scope:
        """The app and shop that the limit binds."""
        return shop_scope(self._access.client_id, self._shop.domain)

    @property
    def cost(self) -> Cost | None:
        """What the last call cost, answered or refused; None if the shop did not say."""
        return self._cost

    def close(self) -> None:
        """Let the connections go."""
        for client in self._clients.values():
            client.close()

    def needs_token(self) -> bool:
        """Tell whether the access token must be refreshed before anything else."""
        return self._tokens.needs_refresh()

    def refresh_token(self, *, send_by_s: float = math.inf) -> bool:
        """Refresh it; False if no request was made: another worker is at it, or it is too late."""
        self._cost = None
        owner = fresh_id()
        if not self._tokens.begin_refresh(owner, timeout_s=self._timeout_s):
            return False
        try:
            if not self.needs_token() or self._clock.monotonic() > send_by_s:
                return False
            self._tokens.keep(self._fetch_grant(), owner=owner)
        finally:
            self._tokens.end_refresh(owner)
        return True

    def locations(self) -> Mapping[str, Gid]:
        """Return the active locations, name to id, of a shop that sells in our currency."""
        reply = self._ask(documents.locations())
        shown.check_currency(reply, self._currency)
        return shown.read_locations(reply)

    def find(self, shop_skus: Sequence[str], *, locations: int) -> Found:
        """Look variants up by exact SKU, with the stock at that many locations."""
        assert shop_skus, "nothing to look for"
        return shown.read_found(self._ask(documents.find(shop_skus, levels=locations)), shop_skus)

    def read(self, variants: Sequence[Gid], *, locations: int) -> Sequence[Shown | None]:
        """Return what the shop shows of each variant; None for one that is not there."""
        return shown.read_nodes(self._ask(documents.read(variants, levels=locations)), variants)

    def set_stock(self, writes: Sequence[StockWrite], *, key: str) -> Sequence[Said]:
        """Set quantities, all or none; those at fault are told, the others are then not done."""
        assert 0 < len(writes) <= documents.PAGE_MAX, f"{len(writes)} quantities in one call"
        reply = self._ask(documents.set_stock(writes, key=key))
        return replies.share(reply.faults_of("inventorySetQuantities"), len(writes))

    def activate(self, write: StockWrite, *, key: str) -> Said:
        """Stock an item at a location where it was not, at that quantity."""
        return shown.read_activated(self._ask(documents.activate(write, key=key)), write.quantity)

    def set_prices(self, writes: Sequence[PriceWrite]) -> Sequence[Said]:
        """Set prices and costs; the variants of one product all or none, products by themselves."""
        groups = documents.by_product(writes)
        names = {f"p{number}": len(places) for number, places in enumerate(groups)}
        said = replies.read_aliased(self._ask(documents.set_prices(writes)), names)
        answers = {
            place: one
            for places, name in zip(groups, names, strict=True)
            for place, one in zip(places, said[name], strict=True)
        }
        return [answers[place] for place in range(len(writes))]

    def set_status(self, writes: Sequence[StatusWrite]) -> Sequence[Said]:
        """Set whether products are for sale, each by itself."""
        names = {f"s{place}": 1 for place in range(len(writes))}
        said = replies.read_aliased(self._ask(documents.set_statuses(writes)), names)
        return [said[name][0] for name in names]

    def create(self, creation: Creation) -> Said:
        """Make a product, or set the one of that handle."""
        return shown.read_created(self._ask(documents.create(creation)))

    def stage_upload(self, name: str) -> UploadTarget:
        """Ask where the file of a bulk operation may be uploaded."""
        return bulk.read_target(self._ask(bulk.stage_upload(name)))

    def upload(self, target: UploadTarget, content: bytes) -> str:
        """Upload the file, and return what the shop calls it; the host is not the shop's."""
        assert len(content) <= bulk.FILE_BYTES_MAX, "more than 100 MB in one file"
        request = self._files.build_request(
            "POST",
            self._elsewhere(target.url),
            data=dict(target.parameters),
            files={"file": ("file.jsonl", content, "text/jsonl")},
        )
        answer = self._exchange(self._files, request)
        _check_file(answer.status, "the upload was refused; stage it anew")
        return target.path

    def run_bulk(self, path: str, *, key: str) -> Gid | None:
        """Start a bulk price change on that file; None if the shop cannot start one now."""
        return bulk.read_started(self._ask(bulk.run_bulk(path, key=key)))

    def find_bulk(self, key: str) -> Bulk | None:
        """Find the operation of this intent, when the reply that named it was lost."""
        return bulk.read_bulk_of(self._ask(bulk.find_bulk()), key)

    def bulk_status(self, operation: Gid) -> Bulk:
        """Tell how a bulk operation stands."""
        return bulk.read_bulk(self._ask(bulk.bulk_status(operation)).whole("bulkOperation"))

    def bulk_result(self, url: str, writes: Sequence[PriceWrite]) -> Sequence[Said]:
        """Fetch what was said of each write; the host is not the shop's."""
        try:
            with self._files.stream("GET", self._elsewhere(url)) as response:
                _check_file(response.status_code, "no answers; ask how the operation stands")
                return bulk.read_results(bulk.split_lines(response.iter_bytes()), writes)
        except httpx.HTTPError as error:
            name = type(error).__name__
            raise TransientError(f"the answers broke off ({name})", provider=PROVIDER) from None

    def _ask(self, document: Document) -> ShopReply:
        self._cost = None
        token = self._tokens.find(ACCESS)
        if token is None:
            raise UnauthorizedError(
                f"no usable access token for {self._shop.domain}; {CONNECT}", provider=PROVIDER
            )
        request = self._door.build_request(
            "POST",
            PATH,
            headers={TOKEN_HEADER: token.text},
            json={"query": document.text, "variables": document.variables},
        )
        answer = self._exchange(self._door, request, hide=(token.text,))
        self._check_status(answer, token)
        reply = replies.read_reply(answer.body)
        self._cost = reply.cost
        self._check_version(answer)
        reply.refuse()
        return reply

    def _client(self, base: str) -> httpx.Client:
        """Return the client of the shop, or of other hosts; made late, for making it is dear."""
        if base not in self._clients:
            self._clients[base] = build_client(
                base, clock=self._clock, timeout_s=self._timeout_s, transport=self._transport
            )
        return self._clients[base]

    @property
    def _door(self) -> httpx.Client:
        return self._client(str(self._base))

    @property
    def _files(self) -> httpx.Client:
        return self._client("")

    def _exchange(
        self, client: httpx.Client, request: httpx.Request, *, hide: Sequence[str] = ()
    ) -> Answer:
        return exchange(
            client,
            request,
            clock=self._clock,
            timeout_s=self._timeout_s,
            provider=PROVIDER,
            hide=hide,
        )

    def _check_status(self, answer: Answer, token: Token) -> None:
        """Raise on a bad status; a refusal kills the token used, and only that."""
        if answer.status == httpx.codes.UNAUTHORIZED:
            self._tokens.kill(token)
            helps = "another is fetched" if self._tokens.can_refresh else CONNECT
            text = f"{self._shop.domain} refuses the access token; {helps}"
            raise UnauthorizedError(text, provider=PROVIDER, status=answer.status)
        self._check_open(answer, said=excerpt(answer.body))
        check_status(answer, provider=PROVIDER, shows_body=True)

    def _check_version(self, answer: Answer) -> None:
        """Raise if the shop fell forward to a version that headway has never read."""
        version = answer.headers.get(VERSION_HEADER, "")
        if version != VERSION:
            spoken = f"version {excerpt(version.encode())}" if version else "no version"
            raise UnreadableError(
                f"{self._shop.domain} answered in {spoken} of its API, not {VERSION}; upgrade"
                " headway",
                provider=PROVIDER,
            )

    def _check_open(self, answer: Answer, *, said: str = "") -> None:
        if why := CLOSED.get(answer.status):
            shop_said = f" (it says: {said})" if said else ""
            text = f"the shop {self._shop.domain} {why}, then {CONNECT}{shop_said}"
            raise UnauthorizedError(text, provider=PROVIDER, status=answer.status)

    def _fetch_grant(self) -> Grant:
        refresh = self._tokens.find(REFRESH)
        assert refresh is not None, "a refresh needs a refresh token"
        if not self._access.client_id or not self._access.client_secret:
            raise UnauthorizedError(
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
        request = self._door.build_request("POST", REFRESH_PATH, data=form)
        answer = self._exchange(self._door, request)
        if answer.status in REFUSED_GRANT:
            self._refuse_grant(answer, refresh)
        self._check_open(answer)
        check_status(answer, provider=PROVIDER, shows_body=False)
        return read_grant(answer.body, self._clock.now(), provider=PROVIDER)

    def _refuse_grant(self, answer: Answer, refresh: Token) -> None:
        """Tell a wrong app secret, which is ours to mend, from a grant that is over."""
        if _oauth_error(answer.body) == "invalid_client":
            text = "shopify refuses HEADWAY_SHOPIFY_CLIENT_ID or its secret; set them anew"
        else:
            self._tokens.kill(refresh)
            text = f"{self._shop.domain} no longer lets us in; {CONNECT}"
        raise UnauthorizedError(text, provider=PROVIDER, status=answer.status)

    def _elsewhere(self, url: str) -> str:
        """Check the address of a file: encrypted, unless the shop itself is not."""
        self._cost = None
        address = _find_address(url)
        if address is None or address.scheme not in {"https", self._base.scheme}:
            raise UnreadableError("shopify named no usable address for a file", provider=PROVIDER)
        return url


def _shop_address(template: str, domain: str) -> httpx.URL:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?", domain):
        raise ConfigError(f"{domain!r} is no shop; write it like example.myshopify.com")
    address = _find_address(template.replace("{shop}", domain))
    if address is None:
        raise ConfigError("HEADWAY_SHOPIFY_URL must be an address like https://{shop}")
    return address


def _find_address(text: str) -> httpx.URL | None:
    try:
        address = httpx.URL(text)
    except httpx.InvalidURL:
        return None
    is_usable = address.scheme in {"http", "https"} and re.fullmatch(r"[\w.:-]+", address.host)
    return address if is_usable else None


def _check_file(status: int, advice: str) -> None:
    """Raise what a file host's bad status means: never that the shop refuses us."""
    if 200 <= status < 300:  # noqa: PLR2004 - the class of good answers
        return
    is_passing = status >= httpx.codes.INTERNAL_SERVER_ERROR or status in {408, 429}
    error = TransientError if is_passing else PermanentError
    raise error(f"a file host answered {status}: {advice}", provider=PROVIDER, status=status)


def _oauth_error(body: bytes) -> str:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return str(given.get("error") or "") if isinstance(given, dict) else ""
