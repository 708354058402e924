"""Sales channels of a simulated shop: a product made by the API is on none until it is published.

A product that is not active accepts a publication and still is visible nowhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from headway_lab.simulators.shopify.order_replies import clock_text
from headway_lab.simulators.shopify.request import Info, Payload, ShopRequest, UserError
from headway_lab.simulators.shopify.shop import ONLINE_STORE, Publication, ShopProduct

NO_INPUT = "PublicationId cannot be empty"
TWICE = "The same publication was specified more than once"
UNKNOWN = "Publication does not exist or is not publishable"


def listed(info: Info) -> Sequence[Publication]:
    """Return the channels of the shop; raises GraphQLError."""
    info.context.trade.need("read_publications", "publications")
    return list(info.context.shop.publications.values())


def listed_of(product: ShopProduct, info: Info) -> Sequence[Payload]:
    """Return the channels on which a product is visible; raises GraphQLError."""
    shop = info.context.shop
    info.context.trade.need("read_publications", "resourcePublicationsV2")
    return [
        {
            "id": own,
            "isPublished": True,
            "publication": shop.publications[own],
            "publishDate": clock_text(since),
        }
        for own, since in product.published.items()
        if shop.is_visible(product, own)
    ]


def is_published(product: ShopProduct, info: Info, **arguments: Any) -> bool:  # noqa: ANN401
    """Return True if a product is visible on a channel."""
    return info.context.shop.is_visible(product, arguments["publicationId"])


def published_at(product: ShopProduct, info: Info) -> str | None:
    """Return since when a product is in the online store; None if it is not."""
    shop = info.context.shop
    since = [at for own, at in product.published.items() if _is_online(shop.publications[own])]
    return clock_text(since[0]) if since else None


def catalog(publication: Publication) -> Payload:
    """Return the catalog of a channel, with its app."""
    number = publication.id.rpartition("/")[2]
    app = {
        "id": f"gid://shopify/App/{number}",
        "title": publication.name,
        "handle": publication.handle,
    }
    return {
        "__typename": "AppCatalog",
        "id": f"gid://shopify/AppCatalog/{number}",
        "title": f"Channel Catalog {number}",
        "apps": [app],
    }


def publish(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Publish a product on some channels, all or none; raises GraphQLError."""
    now = info.context.now
    return _change(info, arguments, lambda published, own: {own: now, **published})


def unpublish(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Take a product off some channels, all or none; raises GraphQLError."""
    return _change(
        info,
        arguments,
        lambda published, own: {name: at for name, at in published.items() if name != own},
    )


def _change(info: Info, arguments: Mapping[str, Any], edit: Any) -> Payload:  # noqa: ANN401
    shop_request = info.context
    shop_request.trade.need("write_publications", info.field_name)
    product = shop_request.shop.products.get(arguments["id"])
    if product is None:
        return _reply(shop_request, None, _error(shop_request, ("id",), "Resource does not exist"))
    ids = [entry.get("publicationId") for entry in arguments["input"]]
    for place, own in enumerate(ids):
        text = NO_INPUT if own is None else TWICE if own in ids[:place] else UNKNOWN
        if own is None or own in ids[:place] or own not in shop_request.shop.publications:
            path = ("input", str(place), "publicationId")
            return _reply(shop_request, product, _error(shop_request, path, text))
    published: Mapping[str, datetime] = product.published
    for own in ids:
        published = edit(published, own)
    changed = replace(product, published=published)
    shop_request.shop.put_product(changed)
    for own in ids:
        before, after = own in product.published, own in published
        shop_request.record([("channel", product.id, own, before, after)])
    return _reply(shop_request, changed)


def _error(shop_request: ShopRequest, path: Sequence[str], text: str) -> UserError:
    return shop_request.user_error(None, path, text)


def _reply(shop_request: ShopRequest, product: ShopProduct | None, *errors: UserError) -> Payload:
    return {"publishable": product, "shop": shop_request.shop, "userErrors": list(errors)}


def _is_online(publication: Publication) -> bool:
    return publication.handle == "_".join(ONLINE_STORE.lower().split())
