"""The part of a server's desk that is about sellers' shops, and what sellers pay for."""

from headway.cli.remote_requests import ApiRequests, word
from headway.core.accounts.jobs import Tier
from headway.core.catalog.listings import SellerId
from headway.operations.shops import ShopView, TierView

SHOPS, SELLERS = "/api/shops", "/api/sellers"


class RemoteShops:
    """Shops and tiers of a server, as far as the key lets us see."""

    def __init__(self, asking: ApiRequests) -> None:
        self._asking = asking

    def some(
        self, *, seller: SellerId | None = None, limit: int, cursor: str | None = None
    ) -> list[ShopView]:
        """Return shops by seller, from a cursor on; raises NotFoundError for a seller."""
        query = {"seller": seller, "cursor": cursor}
        return self._asking.some(ShopView, SHOPS, query, limit=limit)

    def tier(self, seller: SellerId) -> TierView:
        """Return what a seller pays for; raises NotFoundError."""
        return self._asking.get(TierView, f"{SELLERS}/{word(seller)}/tier")

    def set_tier(self, seller: SellerId, tier: Tier) -> TierView:
        """Let a seller pay for this from now on; it acts at once on all the seller's jobs."""
        path = f"{SELLERS}/{word(seller)}/tier"
        return self._asking.read(TierView, self._asking.api.put(path, {"tier": tier}).json)
