"""How each platform is paged through, by kind of data."""

from headway.core.accounts.jobs import DataKind, PlatformName
from headway.core.accounts.pagination import Paginator
from headway.providers.etsy.pagination import paginator_of as etsy_walk
from headway.providers.printify.pagination import paginator_of as printify_walk
from headway.providers.shopify.pagination import paginator_of as shopify_walk

WALKS = {
    PlatformName.SHOPIFY: shopify_walk,
    PlatformName.ETSY: etsy_walk,
    PlatformName.PRINTIFY: printify_walk,
}


def paginator_of(platform: PlatformName, kind: DataKind, *, is_backfill: bool) -> Paginator:
    """Return how a job of this kind pages through that platform."""
    return WALKS[platform](kind, is_backfill=is_backfill)
