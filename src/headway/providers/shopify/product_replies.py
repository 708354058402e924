"""Read shown and created products from a shop's replies; pure, and prepared for any bytes.

Anything malformed raises UnreadableError: half of a reply is not accepted.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AliasPath, Field, PlainValidator

from headway.core.catalog.storefront import (
    FoundVariants,
    Gid,
    Ids,
    InventoryPolicy,
    ProductStatus,
    Shown,
    WriteResult,
    WriteVerdict,
)
from headway.errors import PermanentError, SuspendedError, UnreadableError
from headway.providers.excerpt import excerpt
from headway.providers.reply_fields import (
    COUNT_MAX,
    Amount,
    CamelModel,
    ExactText,
    Flag,
    SignedCount,
    read_amount,
)
from headway.providers.reply_rows import read_model
from headway.providers.shopify.queries import name_channels
from headway.providers.shopify.replies import PROVIDER, ShopReply, share, unreadable
from headway.providers.shopify.reply_models import (
    ShopifyInstallation,
    ShopifyList,
    ShopifyPageInfo,
)

GID_CHARS_MAX = 200


def _gid(value: object) -> Gid:
    if not isinstance(value, str) or not value.startswith("gid://") or not value.isprintable():
        raise ValueError("no id")
    if len(value) > GID_CHARS_MAX:
        raise ValueError("too long")
    return Gid(value)


def _available(value: object) -> int:
    """Return the quantity that is for sale, from a list of quantities by name."""
    for row in value if isinstance(value, list) else ():
        if isinstance(row, dict) and row.get("name") == "available":
            quantity = row.get("quantity")
            if type(quantity) is int and abs(quantity) <= COUNT_MAX:
                return quantity
            break
    raise ValueError("no available quantity")


def _unit_cost(value: object) -> Decimal:
    return read_amount(value.get("amount") if isinstance(value, dict) else None)


def _at(*path: str, default: Any = ...) -> Any:  # noqa: ANN401 - a field of any type
    return Field(default, validation_alias=AliasPath(*path))


LongId = Annotated[Gid, PlainValidator(_gid)]
UnitCost = Annotated[Decimal, PlainValidator(_unit_cost)]


class ShownLocation(CamelModel):
    """A location of the shop."""

    id: LongId
    name: ExactText


class StockLevel(CamelModel):
    """The stock of an item for sale."""

    available: Annotated[int, PlainValidator(_available)] = Field(validation_alias="quantities")


class ShownLevel(StockLevel):
    """The stock of an item at a location."""

    location_id: LongId = Field(validation_alias=AliasPath("location", "id"))


class ShownVariant(CamelModel):
    """A variant as the shop shows it, with its product and its item in stock."""

    id: LongId
    sku: ExactText | None = None
    price: Amount
    compare_at_price: Amount | None = None
    inventory_policy: InventoryPolicy
    product: dict[str, object]
    product_id: LongId = _at("product", "id")
    handle: ExactText = _at("product", "handle")
    status: ProductStatus = _at("product", "status")
    variants_count: SignedCount = _at("product", "variantsCount", "count")
    item_id: LongId = _at("inventoryItem", "id")
    tracked: Flag = _at("inventoryItem", "tracked")
    unit_cost: UnitCost | None = _at("inventoryItem", "unitCost", default=None)
    levels: list[ShownLevel] = _at("inventoryItem", "inventoryLevels", "nodes")
    levels_page: ShopifyPageInfo | None = _at(
        "inventoryItem", "inventoryLevels", "pageInfo", default=None
    )

    def shown(self, channels: Sequence[Gid] = ()) -> Shown:
        """Return the variant with its stock levels, and its visibility on these channels."""
        return Shown(
            ids=Ids(product=self.product_id, variant=self.id, item=self.item_id),
            sku=self.sku or "",
            price=self.price,
            compare_at=self.compare_at_price,
            cost=self.unit_cost,
            tracked=self.tracked,
            status=self.status,
            variants_count=self.variants_count,
            quantities={level.location_id: level.available for level in self.levels},
            handle=self.handle,
            inventory_policy=self.inventory_policy,
            channels=read_visible(self.product, channels) if channels else None,
        )


class CreatedProduct(CamelModel):
    """A product that was created."""

    variants: list[ShownVariant] = Field(
        validation_alias=AliasPath("variants", "nodes"), min_length=1
    )


def read_locations(reply: ShopReply) -> dict[str, Gid]:
    """Return locations by name; those that share one go by their ids, for it names neither."""
    page = read_model(PROVIDER, ShopifyList, reply.whole("locations"))
    locations = [read_model(PROVIDER, ShownLocation, node) for node in page.nodes]
    if page.page_info.has_next_page:
        raise PermanentError(
            "the shop has more than 250 active locations, which is more than headway reads;"
            " deactivate some",
            provider=PROVIDER,
        )
    counts = Counter(location.name for location in locations)
    return {
        location.name if counts[location.name] == 1 else location.id: location.id
        for location in locations
    }


def read_scopes(reply: ShopReply) -> tuple[str, ...] | None:
    """Return the access scopes that the shop granted; None if it does not list them."""
    try:
        installation = ShopifyInstallation.model_validate(reply.data.get("currentAppInstallation"))
    except ValueError:
        return None
    return tuple(sorted({scope.handle for scope in installation.access_scopes}))


def check_currency(reply: ShopReply, currency: str | None) -> None:
    """Raise an error if the shop has another currency than ours; a person must act."""
    shop = reply.data.get("shop")
    sells_in = shop.get("currencyCode") if isinstance(shop, dict) else None
    if currency is not None and isinstance(sells_in, str) and sells_in != currency:
        raise SuspendedError(
            f"the shop sells in {excerpt(sells_in.encode())} and prices are made in {currency};"
            " see HEADWAY_CURRENCY, then connect it again",
            provider=PROVIDER,
        )


def read_found(
    reply: ShopReply, requested: Sequence[str], channels: Sequence[Gid] = ()
) -> FoundVariants:
    """Return the variants that have exactly one of these SKUs, by search or by their handle."""
    page = read_model(PROVIDER, ShopifyList, reply.whole("productVariants"))
    variants: dict[str, list[Shown]] = {}
    for node in [*page.nodes, *_by_handle(reply, len(requested))]:
        if isinstance(node, dict) and node.get("sku") in requested:
            variant, known = _read_variant(node, channels), variants.setdefault(node["sku"], [])
            if variant.ids not in [other.ids for other in known]:
                known.append(variant)
    missed = frozenset(requested) - variants.keys()
    return FoundVariants(
        shown=variants, unsure=missed if page.page_info.has_next_page else frozenset()
    )


def _by_handle(reply: ShopReply, count: int) -> Iterator[object]:
    """Yield the first variants of products that were found by the handles that we give."""
    for at in range(count):
        product = reply.data.get(f"h{at}")
        variants = product.get("variants") if isinstance(product, dict) else None
        nodes = variants.get("nodes") if isinstance(variants, dict) else None
        yield from nodes if isinstance(nodes, list) else ()


def read_nodes(
    reply: ShopReply, requested: Sequence[Gid], channels: Sequence[Gid] = ()
) -> list[Shown | None]:
    """Return each requested variant as the shop shows it."""
    nodes = reply.whole("nodes")
    if not isinstance(nodes, list) or len(nodes) != len(requested):
        unreadable("another number of nodes than was asked for")
    # An id of something else than a variant comes back without any field.
    shown = [None if node in (None, {}) else _read_variant(node, channels) for node in nodes]
    if any(
        variant and variant.ids.variant != gid
        for variant, gid in zip(shown, requested, strict=True)
    ):
        unreadable("a variant that was not asked for")
    return shown


def _read_variant(node: object, channels: Sequence[Gid]) -> Shown:
    """Read one of several variants; raises PermanentError, since reading again would not help."""
    try:
        variant = read_model(PROVIDER, ShownVariant, node)
        shown = variant.shown(channels)
    except UnreadableError as error:
        raise PermanentError(str(error), provider=PROVIDER) from None
    if read_model(PROVIDER, ShopifyPageInfo, variant.levels_page).has_next_page:
        unreadable("an item stocked at more locations than we know; the locations were changed")
    return shown


def read_visible(fields: object, channels: Sequence[Gid]) -> frozenset[Gid]:
    """Return the channels on which a product is visible; raises UnreadableError."""
    flags = fields if isinstance(fields, dict) else {}
    if not all(isinstance(flags.get(name), bool) for name in name_channels(channels)):
        unreadable("no visibility on a sales channel")
    return frozenset(channel for name, channel in name_channels(channels).items() if flags[name])


def read_shown(node: object) -> Shown:
    """Read one variant with the stock levels in the reply; raises UnreadableError."""
    return read_model(PROVIDER, ShownVariant, node).shown()


def read_activated(reply: ShopReply, quantity: int) -> WriteResult:
    """Read the answer to an activation; a quantity of old may have been kept."""
    faults = reply.faults_of("inventoryActivate")
    if faults:
        return share(faults, 1)[0]
    level = reply.payload("inventoryActivate").get("inventoryLevel")
    if level is not None and read_model(PROVIDER, StockLevel, level).available != quantity:
        return WriteResult(verdict=WriteVerdict.STALE, reason="another quantity was kept there")
    return WriteResult(verdict=WriteVerdict.DONE)


def read_created(reply: ShopReply, channels: Sequence[Gid] = ()) -> WriteResult:
    """Read the answer to a creation, with what was made."""
    faults = reply.faults_of("productSet")
    if faults:
        return share(faults, 1)[0]
    product = read_model(PROVIDER, CreatedProduct, reply.payload("productSet").get("product"))
    return WriteResult(verdict=WriteVerdict.DONE, shown=product.variants[0].shown(channels))
