"""Shopify's Admin GraphQL API behind the engine's port `Storefront`: each method is one request.

After a write UnsentError, ThrottledError, UnauthorizedError, SuspendedError and PermanentError mean
that nothing was done; any other error leaves it open. So does a reply from another API version,
since its fields may have another meaning.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import httpx

from headway.clock import Clock
from headway.core.catalog.listings import LimitKey
from headway.core.catalog.storefront import (
    Cost,
    Creation,
    FoundVariants,
    Gid,
    PriceWrite,
    PublishWrite,
    Shop,
    ShopChannels,
    ShopDetails,
    Shown,
    StatusWrite,
    StockWrite,
    UploadTarget,
    WriteResult,
    WriteVerdict,
)
from headway.errors import (
    PermanentError,
    TransientError,
    UnreadableError,
)
from headway.providers.shopify import bulk, replies
from headway.providers.shopify import product_replies as shown
from headway.providers.shopify import queries as documents
from headway.providers.shopify.api import ShopAccess, ShopApi, find_address
from headway.providers.shopify.bulk import Bulk
from headway.providers.shopify.channel_replies import read_channels, read_published
from headway.providers.shopify.limits import shop_limit_key, shop_resource
from headway.providers.shopify.queries import Document
from headway.providers.shopify.replies import PROVIDER, ShopReply
from headway.providers.token_store import TokenStore
from headway.providers.tokens import store_tokens
from headway.providers.vault import Vault

__all__ = [
    "Bulk",
    "ShopAccess",
    "ShopifyStorefront",
    "shop_limit_key",
    "shop_resource",
    "store_tokens",
]


class ShopifyStorefront:
    """One shop behind the engine's port `Storefront`."""

    def __init__(
        self,
        shop: Shop,
        *,
        url: str = "https://{shop}",
        access: ShopAccess,
        token_store: TokenStore,
        vault: Vault,
        clock: Clock,
        timeout_s: float = 30,
        currency: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._currency = currency
        self._api = ShopApi(
            shop.domain,
            url=url,
            access=access,
            token_store=token_store,
            vault=vault,
            clock=clock,
            timeout_s=timeout_s,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"ShopifyConnector({self.limit_key})"

    @property
    def limit_key(self) -> LimitKey:
        """The app and shop that the limit binds."""
        return self._api.limit_key

    @property
    def cost(self) -> Cost | None:
        """The cost of the last call, answered or refused; None if the shop did not report it."""
        return self._api.cost

    def close(self) -> None:
        """Let the connections go."""
        self._api.close()

    def needs_token(self) -> bool:
        """Return True if the access token must be refreshed before anything else."""
        return self._api.needs_token()

    def refresh_token(self, *, send_by_s: float = math.inf) -> bool:
        """Refresh it; False if no request was made: another worker is at it, or it is too late."""
        return self._api.refresh_token(send_by_s=send_by_s)

    def details(self) -> ShopDetails:
        """Return the active locations and granted scopes of a shop that sells in our currency."""
        reply = self._ask(documents.locations())
        shown.check_currency(reply, self._currency)
        return ShopDetails(locations=shown.read_locations(reply), scopes=shown.read_scopes(reply))

    def channels(self) -> ShopChannels:
        """Return the sales channels, or which scopes are missing to see them or publish there."""
        return read_channels(self._api.ask(documents.channels()))

    def find(
        self, shop_skus: Sequence[str], *, locations: int, channels: Sequence[Gid] = ()
    ) -> FoundVariants:
        """Look variants up by exact SKU, with the stock at that many locations."""
        assert shop_skus, "nothing to look for"
        document = documents.find(shop_skus, levels=locations, channels=channels)
        return shown.read_found(self._ask(document), shop_skus, channels)

    def read(
        self, variants: Sequence[Gid], *, locations: int, channels: Sequence[Gid] = ()
    ) -> Sequence[Shown | None]:
        """Return what the shop shows of each variant; None for one that is not there."""
        document = documents.read(variants, levels=locations, channels=channels)
        return shown.read_nodes(self._ask(document), variants, channels)

    def set_stock(self, writes: Sequence[StockWrite], *, key: str) -> Sequence[WriteResult]:
        """Set quantities, all or none; reports those at fault, and the others are then not set."""
        assert 0 < len(writes) <= documents.PAGE_MAX, f"{len(writes)} quantities in one call"
        reply = self._ask(documents.set_stock(writes, key=key))
        return replies.share(reply.faults_of("inventorySetQuantities"), len(writes))

    def activate(self, write: StockWrite, *, key: str) -> WriteResult:
        """Stock an item at a location where it was not, at that quantity."""
        return shown.read_activated(self._ask(documents.activate(write, key=key)), write.quantity)

    def set_prices(self, writes: Sequence[PriceWrite]) -> Sequence[WriteResult]:
        """Set prices and costs; the variants of one product all or none, products by themselves."""
        groups = documents.by_product(writes)
        names = {f"p{number}": len(places) for number, places in enumerate(groups)}
        results = replies.read_aliased(self._ask(documents.set_prices(writes)), names)
        answers = {
            place: result
            for places, name in zip(groups, names, strict=True)
            for place, result in zip(places, results[name], strict=True)
        }
        return [answers[place] for place in range(len(writes))]

    def set_status(self, writes: Sequence[StatusWrite]) -> Sequence[WriteResult]:
        """Set whether products are for sale, each by itself."""
        names = {f"s{place}": 1 for place in range(len(writes))}
        results = replies.read_aliased(self._ask(documents.set_statuses(writes)), names)
        return [results[name][0] for name in names]

    def publish(self, writes: Sequence[PublishWrite]) -> Sequence[WriteResult]:
        """Publish products, each by itself; done once the shop shows it on every channel."""
        return read_published(self._api.ask(documents.publish(writes)), writes)

    def create(self, creation: Creation) -> WriteResult:
        """Make a product; stale if the shop has one of that handle."""
        result = shown.read_created(self._ask(documents.create(creation)), creation.channels)
        if result.verdict is not WriteVerdict.STALE:
            return result
        reason = (
            f"a product in the shop has the handle {creation.handle}; unless Headway finds it by"
            f" its SKU, give it the SKU {creation.shop_sku} or another handle"
        )
        return replace(result, reason=reason)

    def stage_upload(self, name: str) -> UploadTarget:
        """Request the address to upload the file of a bulk operation."""
        return bulk.read_target(self._ask(bulk.stage_upload(name)))

    def upload(self, target: UploadTarget, content: bytes) -> str:
        """Upload the file, and return the shop's name for it; the host is not the shop's."""
        assert len(content) <= bulk.FILE_BYTES_MAX, "more than 100 MB in one file"
        request = self._files.build_request(
            "POST",
            self._elsewhere(target.url),
            data=dict(target.parameters),
            files={"file": ("file.jsonl", content, "text/jsonl")},
        )
        answer = self._api.exchange(self._files, request)
        _check_file(answer.status, "the upload was refused; stage it again")
        return target.path

    def run_bulk(self, path: str, *, key: str) -> Gid | None:
        """Start a bulk price change on that file; None if the shop cannot start one now."""
        return bulk.read_started(self._ask(bulk.run_bulk(path, key=key)))

    def find_bulk(self, key: str) -> Bulk | None:
        """Find the operation of this intent, when the reply that named it was lost."""
        return bulk.read_bulk_of(self._ask(bulk.find_bulk()), key)

    def bulk_status(self, operation: Gid) -> Bulk:
        """Return the status of a bulk operation."""
        return bulk.read_bulk(self._ask(bulk.bulk_status(operation)).whole("bulkOperation"))

    def bulk_result(self, url: str, writes: Sequence[PriceWrite]) -> Sequence[WriteResult]:
        """Fetch the result of each write; the host is not the shop's."""
        try:
            with self._files.stream("GET", self._elsewhere(url)) as response:
                _check_file(response.status_code, "no answers; ask how the operation stands")
                return bulk.read_results(bulk.split_lines(response.iter_bytes()), writes)
        except httpx.HTTPError as error:
            name = type(error).__name__
            raise TransientError(f"the answers broke off ({name})", provider=PROVIDER) from None

    def _ask(self, document: Document) -> ShopReply:
        reply = self._api.ask(document)
        reply.check_storable()
        reply.refuse()
        return reply

    @property
    def _files(self) -> httpx.Client:
        return self._api.client("")

    def _elsewhere(self, url: str) -> str:
        """Check the address of a file: encrypted, unless the shop itself is not."""
        self._api.forget_cost()
        address = find_address(url)
        if address is None or address.scheme not in {"https", self._api.base.scheme}:
            raise UnreadableError("shopify named no usable address for a file", provider=PROVIDER)
        return url


def _check_file(status: int, advice: str) -> None:
    """Raise the error of a file host's bad status: never that the shop refuses us."""
    if 200 <= status < 300:  # noqa: PLR2004 - the class of good answers
        return
    is_passing = status >= httpx.codes.INTERNAL_SERVER_ERROR or status in {408, 429}
    error = TransientError if is_passing else PermanentError
    raise error(f"a file host answered {status}: {advice}", provider=PROVIDER, status=status)
