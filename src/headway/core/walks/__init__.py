"""The walks of every platform: which way a job of one kind finds what is new."""

from headway.core.jobs import Kind, PlatformName
from headway.core.walk import Walk
from headway.core.walks import etsy, printify, shopify

WALKS = {
    PlatformName.SHOPIFY: shopify.walk_of,
    PlatformName.ETSY: etsy.walk_of,
    PlatformName.PRINTIFY: printify.walk_of,
}


def walk_of(platform: PlatformName, kind: Kind, *, is_backfill: bool) -> Walk:
    """Return how a job of this kind walks that platform."""
    return WALKS[platform](kind, is_backfill=is_backfill)
