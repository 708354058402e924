"""Read sales channels and publications from a shop's replies; pure, and prepared for any bytes."""

from collections import Counter
from collections.abc import Sequence

from pydantic import AliasPath, Field

from headway.core.catalog.storefront import (
    Gid,
    PublishWrite,
    ShopChannels,
    WriteResult,
    WriteVerdict,
)
from headway.errors import UnreadableError
from headway.providers.reply_fields import CamelModel, ExactText
from headway.providers.reply_rows import read_model
from headway.providers.shopify.product_replies import LongId, read_visible
from headway.providers.shopify.queries import published_channels
from headway.providers.shopify.replies import PROVIDER, ShopReply, read_aliased
from headway.providers.shopify.reply_models import ShopifyInstallation, ShopifyList

ONLINE_STORE = "Online Store"
SCOPES = ("read_publications", "write_publications")


class ChannelApp(CamelModel):
    """The app behind a sales channel."""

    handle: ExactText | None = None


class ChannelCatalog(CamelModel):
    """The catalog of a sales channel."""

    title: ExactText | None = None
    apps: list[ChannelApp] = Field(default=[], validation_alias=AliasPath("apps", "nodes"))


class ShownChannel(CamelModel):
    """A sales channel of the shop, which Shopify calls a publication."""

    id: LongId
    name: ExactText | None = None
    catalog: ChannelCatalog | None = None

    @property
    def label(self) -> str:
        """The name that people use; the online store keeps its own, however it is called there."""
        handles = [app.handle or "" for app in self.catalog.apps] if self.catalog else []
        if any(handle.replace("-", "_") == "online_store" for handle in handles):
            return ONLINE_STORE
        return self.name or (self.catalog and self.catalog.title) or self.id


def read_channels(reply: ShopReply) -> ShopChannels:
    """Return channels by name; those that share one go by their ids, for it names neither."""
    if _is_denied(reply, "publications"):
        return ShopChannels(missing_scopes=SCOPES)
    reply.check_storable()
    reply.refuse()
    page = read_model(PROVIDER, ShopifyList, reply.whole("publications"))
    channels = [read_model(PROVIDER, ShownChannel, node) for node in page.nodes]
    granted = read_model(PROVIDER, ShopifyInstallation, reply.whole("currentAppInstallation"))
    scopes = {scope.handle for scope in granted.access_scopes}
    counts = Counter(channel.label for channel in channels)
    return ShopChannels(
        ids={
            channel.label if counts[channel.label] == 1 else channel.id: channel.id
            for channel in channels
        },
        # They were read, so only the scope to write can be missing.
        missing_scopes=SCOPES[1:] if SCOPES[1] not in scopes else (),
    )


def read_published(reply: ShopReply, writes: Sequence[PublishWrite]) -> list[WriteResult]:
    """Return the result of each write: done if the shop shows the product on all its channels."""
    products = list(dict.fromkeys(write.product for write in writes))
    names = {product: f"p{at}" for at, product in enumerate(products)}
    if _is_denied(reply, *names.values()):
        reason = f"the app lacks {SCOPES[1]} in this shop"
        return [WriteResult(verdict=WriteVerdict.REFUSED, reason=reason)] * len(writes)
    reply.check_storable()
    reply.refuse()
    verdicts = read_aliased(reply, dict.fromkeys(names.values(), 1))
    every = published_channels(writes)
    return [
        _confirmed(reply, names[write.product], verdicts[names[write.product]][0], write, every)
        for write in writes
    ]


def _confirmed(
    reply: ShopReply, name: str, result: WriteResult, write: PublishWrite, every: Sequence[Gid]
) -> WriteResult:
    if result.verdict is WriteVerdict.UNKNOWN and "publication" in result.reason.lower():
        return WriteResult(verdict=WriteVerdict.REFUSED, reason=result.reason)
    if result.verdict is not WriteVerdict.DONE:
        return result
    try:
        visible = read_visible(reply.payload(name).get("publishable"), every)
    except UnreadableError:
        visible = frozenset()
    if visible.issuperset(write.channels):
        return result
    reason = "the shop accepted the publication, but does not show the product on its channels"
    return WriteResult(verdict=WriteVerdict.STALE, reason=reason)


def _is_denied(reply: ShopReply, *names: str) -> bool:
    """Return True if the shop denies these fields, because the app lacks a scope."""
    is_empty = all(reply.data.get(name) is None for name in names)
    return is_empty and any(fault.code == "ACCESS_DENIED" for fault in reply.faults)
