"""Read shown and created products from a shop's replies; pure, and prepared for any bytes.

Anything malformed raises UnreadableError: half of a reply is not accepted.
"""

from collections import Counter
from collections.abc import Sequence

from headway.core.catalog.storefront import (
    FoundVariants,
    Gid,
    Ids,
    ProductStatus,
    Shown,
    WriteResult,
    WriteVerdict,
)
from headway.errors import PermanentError, UnauthorizedError, UnreadableError
from headway.providers.excerpt import excerpt
from headway.providers.shopify.fields import (
    amount,
    flag,
    get,
    gid,
    is_cut,
    nodes,
    part,
    text,
    whole,
)
from headway.providers.shopify.replies import PROVIDER, ShopReply, share, unreadable


def read_locations(reply: ShopReply) -> dict[str, Gid]:
    """Return locations by name; those that share one go by their ids, for it names neither."""
    page = reply.whole("locations")
    places = [(text(node, "name"), gid(node, "id")) for node in nodes(page)]
    if is_cut(page):
        raise PermanentError(
            "the shop has more than 250 active locations, which is more than headway reads;"
            " deactivate some",
            provider=PROVIDER,
        )
    counts = Counter(name for name, _ in places)
    return {name if counts[name] == 1 else gid: gid for name, gid in places}


def check_currency(reply: ShopReply, currency: str | None) -> None:
    """Raise an error if the shop has another currency than ours; a person must act."""
    sells_in = get(reply.data.get("shop"), "currencyCode")
    if currency is not None and isinstance(sells_in, str) and sells_in != currency:
        raise UnauthorizedError(
            f"the shop sells in {excerpt(sells_in.encode())} and prices are made in {currency};"
            " see HEADWAY_CURRENCY, then connect it again",
            provider=PROVIDER,
        )


def read_found(reply: ShopReply, requested: Sequence[str]) -> FoundVariants:
    """Return the variants that have exactly one of these SKUs."""
    page = reply.whole("productVariants")
    variants: dict[str, list[Shown]] = {}
    for node in nodes(page):
        if isinstance(node, dict) and node.get("sku") in requested:
            variants.setdefault(node["sku"], []).append(_read_variant(node))
    missed = frozenset(requested) - variants.keys()
    return FoundVariants(shown=variants, unsure=missed if is_cut(page) else frozenset())


def read_nodes(reply: ShopReply, requested: Sequence[Gid]) -> list[Shown | None]:
    """Return each requested variant as the shop shows it."""
    nodes = reply.whole("nodes")
    if not isinstance(nodes, list) or len(nodes) != len(requested):
        unreadable("another number of nodes than was asked for")
    # An id of something else than a variant comes back without any field.
    shown = [None if node in (None, {}) else _read_variant(node) for node in nodes]
    if any(
        variant and variant.ids.variant != gid
        for variant, gid in zip(shown, requested, strict=True)
    ):
        unreadable("a variant that was not asked for")
    return shown


def _read_variant(node: object) -> Shown:
    """Read one of several variants; raises PermanentError, since reading again would not help."""
    try:
        shown, levels = read_shown(node), part(part(node, "inventoryItem"), "inventoryLevels")
    except UnreadableError as error:
        raise PermanentError(str(error), provider=PROVIDER) from None
    if is_cut(levels):
        unreadable("an item stocked at more locations than we know; the locations were changed")
    return shown


def read_shown(node: object) -> Shown:
    """Read one variant with the stock levels in the reply; raises UnreadableError."""
    product, item = part(node, "product"), part(node, "inventoryItem")
    levels = part(item, "inventoryLevels")
    unit_cost = item.get("unitCost")
    status = text(product, "status")
    if status not in ProductStatus.__members__:
        unreadable(f"the unknown product status {status}")
    return Shown(
        ids=Ids(product=gid(product, "id"), variant=gid(node, "id"), item=gid(item, "id")),
        sku="" if get(node, "sku") is None else text(node, "sku"),
        price=amount(node, "price"),
        compare_at=None if get(node, "compareAtPrice") is None else amount(node, "compareAtPrice"),
        cost=None if unit_cost is None else amount(unit_cost, "amount"),
        tracked=flag(item, "tracked"),
        status=ProductStatus(status),
        variants_count=whole(part(product, "variantsCount"), "count"),
        quantities={
            gid(part(level, "location"), "id"): _available(level) for level in nodes(levels)
        },
        handle=text(product, "handle"),
    )


def read_activated(reply: ShopReply, quantity: int) -> WriteResult:
    """Read the answer to an activation; a quantity of old may have been kept."""
    faults = reply.faults_of("inventoryActivate")
    if faults:
        return share(faults, 1)[0]
    level = reply.payload("inventoryActivate").get("inventoryLevel")
    if level is not None and _available(level) != quantity:
        return WriteResult(verdict=WriteVerdict.STALE, reason="another quantity was kept there")
    return WriteResult(verdict=WriteVerdict.DONE)


def read_created(reply: ShopReply) -> WriteResult:
    """Read the answer to a creation, with what was made."""
    faults = reply.faults_of("productSet")
    if faults:
        return share(faults, 1)[0]
    variants = nodes(part(part(reply.payload("productSet"), "product"), "variants"))
    if not variants:
        unreadable("a product without a variant")
    return WriteResult(verdict=WriteVerdict.DONE, shown=read_shown(variants[0]))


def _available(level: object) -> int:
    quantities = get(level, "quantities")
    for quantity in quantities if isinstance(quantities, list) else []:
        if get(quantity, "name") == "available":
            return whole(quantity, "quantity")
    return unreadable("a stock level without a quantity")
