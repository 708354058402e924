"""Connect a seller's account, as the platform's provider says."""

from datetime import datetime

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId
from headway.core.dispatch import STOREFRONT
from headway.providers.registry import platform_role
from headway.store.accounts.connections import ConnectedShop, ConnectedShops
from headway.store.pool import Pool


def connect_account(
    pool: Pool,
    user_id: SellerId,
    shop: str,
    *,
    platform: PlatformName = STOREFRONT,
    owner_id: str = "",
    title: str = "",
    rehearses: bool = True,
    after_erasure: bool = False,
    now: datetime,
) -> ConnectedShop:
    """Connect a seller to a shop with its jobs, or again; raises InvalidError or ConflictError.

    A new storefront `rehearses`: it is read and not written until a person starts it. A shop that
    was erased is connected only `after_erasure`, on purpose.
    """
    role = platform_role(platform)
    return ConnectedShops(pool).connect(
        user_id,
        role.shop_name(shop),
        platform=platform,
        kinds=role.kinds,
        owner_id=owner_id,
        title=title,
        rehearses=rehearses,
        after_erasure=after_erasure,
        now=now,
    )
