"""The GraphQL that is sent to a shop, with its variables.

Every value travels as a variable: a text depends on nothing but how many items it carries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from headway.core.catalog.intake import handle_of
from headway.core.catalog.product_details import ProductDetails
from headway.core.catalog.storefront import (
    Creation,
    Gid,
    PriceWrite,
    PublishWrite,
    StatusWrite,
    StockWrite,
)

PAGE_MAX = 250
# The maximum cost of one search, and the cost of a variant and of each of its stock levels.
SEARCH_POINTS, VARIANT_POINTS, LEVEL_POINTS = 450, 8, 3
# A new product may be stocked at locations that were not requested.
LEVELS_SPARE = 10

SEEN = """
fragment Seen on ProductVariant {{
  id sku price compareAtPrice inventoryPolicy
  product {{ id handle status variantsCount {{ count }}{published} }}
  inventoryItem {{
    id tracked unitCost {{ amount }}
    inventoryLevels(first: $levels) {{
      nodes {{ location {{ id }} quantities(names: ["available"]) {{ name quantity }} }}
      pageInfo {{ hasNextPage }}
    }}
  }}
}}
"""
LOCATIONS = """
query Locations($first: Int!) {
  shop { currencyCode }
  currentAppInstallation { accessScopes { handle } }
  locations(first: $first, includeLegacy: true) { nodes { id name } pageInfo { hasNextPage } }
}
"""
# The name is deprecated, but it is what merchants see, and a channel's catalog may be missing.
CHANNELS = """
query Channels($first: Int!) {
  currentAppInstallation { accessScopes { handle } }
  publications(first: $first) {
    nodes {
      id name
      catalog { title ... on AppCatalog { apps(first: 1) { nodes { handle } } } }
    }
    pageInfo { hasNextPage }
  }
}
"""
FIND = """  productVariants(first: $first, query: $search) {
    nodes { ...Seen } pageInfo { hasNextPage }
  }"""
BY_HANDLE = """  {name}: productByIdentifier(identifier: ${name}) {{
    variants(first: 1) {{ nodes {{ ...Seen }} }}
  }}"""
READ = "query Read($ids: [ID!]!, $levels: Int!{heads}) {{ nodes(ids: $ids) {{ ...Seen }} }}"
SET_STOCK = """
mutation SetStock($input: InventorySetQuantitiesInput!, $key: String!) {
  inventorySetQuantities(input: $input) @idempotent(key: $key) {
    userErrors { code field message }
  }
}
"""
ACTIVATE = """
mutation Activate($item: ID!, $location: ID!, $available: Int!, $key: String!) {
  inventoryActivate(inventoryItemId: $item, locationId: $location, available: $available)
    @idempotent(key: $key) {
    inventoryLevel { quantities(names: ["available"]) { name quantity } }
    userErrors { field message }
  }
}
"""
CREATE = """
mutation Create($input: ProductSetInput!, $levels: Int!{heads}) {{
  productSet(input: $input, synchronous: true) {{
    product {{ variants(first: 1) {{ nodes {{ ...Seen }} }} }}
    userErrors {{ code field message }}
  }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One request: its text and its variables."""

    text: str
    variables: Mapping[str, Any]


def locations() -> Document:
    """Return the query for all active locations, also of fulfillment services, in one page."""
    return Document(text=LOCATIONS, variables={"first": PAGE_MAX})


def find(shop_skus: Sequence[str], *, levels: int, channels: Sequence[Gid] = ()) -> Document:
    """Return the search by SKU, with the longest page that one call may cost.

    A few words of a SKU are enough for a hit, so the exact one may be far down. The search lags
    behind writes, so what headway may have made just now is looked up by its handle as well.
    """
    search = " OR ".join(f"sku:{_quoted(sku)}" for sku in shop_skus)
    fitting = SEARCH_POINTS // (VARIANT_POINTS + LEVEL_POINTS * levels)
    first = max(len(shop_skus) + 1, min(PAGE_MAX, fitting))
    handles = {f"h{at}": {"handle": handle_of(sku)} for at, sku in enumerate(shop_skus)}
    heads = ", ".join(f"${name}: ProductIdentifierInput!" for name in handles)
    lines = [FIND, *(BY_HANDLE.format(name=name) for name in handles)]
    named = name_channels(channels)
    head = f"query Find($first: Int!, $search: String!, $levels: Int!, {heads}{_heads(named)}) {{"
    variables = {"first": first, "search": search, "levels": _page(levels), **handles, **named}
    return Document(text="\n".join([head, *lines, "}", _seen(named)]), variables=variables)


def read(variants: Sequence[Gid], *, levels: int, channels: Sequence[Gid] = ()) -> Document:
    """Return the query for variants by id, and for whether they are visible on these channels."""
    named = name_channels(channels)
    variables = {"ids": list(variants), "levels": _page(levels), **named}
    text = READ.format(heads=_heads(named)) + _seen(named)
    return Document(text=text, variables=variables)


def name_channels(channels: Sequence[Gid]) -> dict[str, Gid]:
    """Name channels c0, c1 and so on: their variables, and the fields of a product's visibility."""
    return {f"c{at}": channel for at, channel in enumerate(channels)}


def publish(writes: Sequence[PublishWrite]) -> Document:
    """Return one aliased mutation per product, p0 and so on, that also reads its visibility."""
    named = name_channels(published_channels(writes))
    products = {write.product: write for write in writes}
    variables: dict[str, Any] = dict(named)
    for at, write in enumerate(products.values()):
        inputs = [{"publicationId": channel} for channel in write.channels]
        variables |= {f"p{at}": write.product, f"i{at}": inputs}
    numbers = range(len(products))
    heads = ", ".join(f"$p{n}: ID!, $i{n}: [PublicationInput!]!" for n in numbers)
    lines = [
        f"  p{n}: publishablePublish(id: $p{n}, input: $i{n}) {{"
        f" publishable {{{_published(named)} }} userErrors {{ field message }} }}"
        for n in numbers
    ]
    return Document(text=_mutation("Publish", heads + _heads(named), lines), variables=variables)


def published_channels(writes: Sequence[PublishWrite]) -> list[Gid]:
    """Return the channels of all writes, each once."""
    return list(dict.fromkeys(channel for write in writes for channel in write.channels))


def channels() -> Document:
    """Return the query for the sales channels of a shop, and for the scopes of the app."""
    return Document(text=CHANNELS, variables={"first": PAGE_MAX})


def set_stock(writes: Sequence[StockWrite], *, key: str) -> Document:
    """Return the mutation that sets quantities, with the expected ones, null if unknown."""
    quantities = [
        {
            "inventoryItemId": write.item,
            "locationId": write.location,
            "quantity": write.quantity,
            "changeFromQuantity": write.change_from,
        }
        for write in writes
    ]
    fields = {
        "name": "available",
        "reason": "correction",
        "referenceDocumentUri": f"headway://push/{key}",
        "quantities": quantities,
    }
    return Document(text=SET_STOCK, variables={"input": fields, "key": key})


def activate(write: StockWrite, *, key: str) -> Document:
    """Return the mutation that stocks an item at a location."""
    variables = {
        "item": write.item,
        "location": write.location,
        "available": write.quantity,
        "key": key,
    }
    return Document(text=ACTIVATE, variables=variables)


def by_product(writes: Sequence[PriceWrite]) -> list[list[int]]:
    """Group the places of writes by their product, which is what one mutation takes."""
    groups: dict[Gid, list[int]] = {}
    for at, write in enumerate(writes):
        groups.setdefault(write.product, []).append(at)
    return list(groups.values())


def set_prices(writes: Sequence[PriceWrite]) -> Document:
    """Return one aliased price mutation per product: p0, p1 and so on, as `by_product` groups."""
    variables: dict[str, Any] = {}
    for number, places in enumerate(by_product(writes)):
        fields = product_prices(writes, places)
        variables |= {f"p{number}": fields["productId"], f"v{number}": fields["variants"]}
    count = len(variables) // 2
    heads = ", ".join(f"$p{n}: ID!, $v{n}: [ProductVariantsBulkInput!]!" for n in range(count))
    lines = [
        f"  p{n}: productVariantsBulkUpdate(productId: $p{n}, variants: $v{n})"
        " { userErrors { code field message } }"
        for n in range(count)
    ]
    return Document(text=_mutation("SetPrices", heads, lines), variables=variables)


def set_statuses(writes: Sequence[StatusWrite]) -> Document:
    """Return one aliased status mutation per product: s0, s1 and so on."""
    variables = {
        f"s{at}": {"id": write.product, "status": write.status.value}
        for at, write in enumerate(writes)
    }
    heads = ", ".join(f"${name}: ProductUpdateInput!" for name in variables)
    lines = [
        f"  {name}: productUpdate(product: ${name}) {{ userErrors {{ field message }} }}"
        for name in variables
    ]
    return Document(text=_mutation("SetStatuses", heads, lines), variables=variables)


def create(creation: Creation) -> Document:
    """Return the mutation that creates a product of one variant.

    It names no product to set, so the shop refuses it if one has the handle, and nothing of the
    merchant's is overwritten.
    """
    variant = {
        "optionValues": [{"optionName": "Title", "name": "Default Title"}],
        "sku": creation.shop_sku,
        "price": _money(creation.price),
        **({} if creation.compare_at is None else {"compareAtPrice": _money(creation.compare_at)}),
        "inventoryItem": {
            "cost": _money(creation.cost),
            "tracked": True,
            **_item_details(creation.details),
        },
        "inventoryQuantities": [
            {"locationId": location, "name": "available", "quantity": quantity}
            for location, quantity in creation.quantities.items()
        ],
    }
    fields = {
        "handle": creation.handle,
        "title": creation.title,
        "descriptionHtml": creation.description_html,
        "vendor": creation.vendor,
        "status": "ACTIVE",
        "productOptions": [{"name": "Title", "values": [{"name": "Default Title"}]}],
        "variants": [variant],
    }
    if creation.details.tags:
        fields["tags"] = creation.details.tags
    if image := creation.details.image:
        file = {"originalSource": image, "contentType": "IMAGE", "alt": creation.title}
        fields["files"] = [file]
    variables = {
        "input": fields,
        "levels": _page(len(creation.quantities) + LEVELS_SPARE),
        **(named := name_channels(creation.channels)),
    }
    return Document(text=CREATE.format(heads=_heads(named)) + _seen(named), variables=variables)


def _item_details(details: ProductDetails) -> dict[str, Any]:
    """Return what an inventory item holds for shipping and customs."""
    item: dict[str, Any] = {}
    if details.weight is not None:
        weight = {"value": float(details.weight), "unit": details.weight_unit}
        item["measurement"] = {"weight": weight}
    if details.origin:
        item["countryCodeOfOrigin"] = details.origin
    if details.tariff_code:
        item["harmonizedSystemCode"] = details.tariff_code
    return item


def product_prices(writes: Sequence[PriceWrite], places: Sequence[int]) -> dict[str, Any]:
    """Return the variables of one price mutation: a product, and its variants at these places."""
    variants = [_variant(writes[at]) for at in places]
    return {"productId": writes[places[0]].product, "variants": variants}


def _variant(write: PriceWrite) -> dict[str, Any]:
    """Return the fields of a variant that are ours; all others stay as the merchant has them."""
    item: dict[str, Any] = {"cost": _money(write.cost)}
    fields: dict[str, Any] = {
        "id": write.variant,
        "price": _money(write.price),
        "inventoryItem": item,
    }
    if not write.keeps_compare_at:
        fields["compareAtPrice"] = _money(write.compare_at)
    if write.stops_overselling:
        item["tracked"] = True
        fields["inventoryPolicy"] = "DENY"
    return fields


def _seen(named: Mapping[str, Gid]) -> str:
    return SEEN.format(published=_published(named))


def _published(named: Mapping[str, Gid]) -> str:
    return "".join(f" {name}: publishedOnPublication(publicationId: ${name})" for name in named)


def _heads(named: Mapping[str, Gid]) -> str:
    return "".join(f", ${name}: ID!" for name in named)


def _mutation(name: str, heads: str, lines: Sequence[str]) -> str:
    return "\n".join([f"mutation {name}({heads}) {{", *lines, "}"])


def _quoted(value: str) -> str:
    """Quote a value for a search: only the backslash and the quote itself are special inside."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _page(levels: int) -> int:
    return max(1, min(PAGE_MAX, levels))


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else format(amount, "f")
