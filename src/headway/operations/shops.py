"""The part of a desk that is about sellers' shops, and what sellers pay for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from headway.app import App
from headway.core.accounts.jobs import PlatformName, Tier
from headway.core.catalog.listings import SellerId
from headway.store import cursors
from headway.store.accounts.connections import ConnectedShop, ConnectedShops, ShopTally
from headway.store.accounts.warehouse import Warehouse, WrittenCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopView:
    """A seller's shop; locations are None until it told them, and only Shopify's has a tally.

    `unknown_locations` are those that stock is mapped to and the shop does not have.
    """

    seller: SellerId
    platform: PlatformName
    shop: str
    title: str
    status: str
    reason: str
    locations: tuple[str, ...] | None
    unknown_locations: tuple[str, ...] | None
    tally: ShopTally | None
    counts: WrittenCounts

    @property
    def cursor(self) -> str:
        """Where a list goes on after this one."""
        return cursors.encode(self.seller, self.platform.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierView:
    """What a seller pays for, and what is left of the month; `lifted` jobs could go on with it."""

    seller: SellerId
    tier: Tier
    orders_quota: int
    orders_used: int
    interval_min: float
    lifted: int
    has_account: bool


class ShopOperations:
    """Shops and tiers, of everybody or behind a seller's wall."""

    def __init__(self, whole: App, own: App, *, seller: SellerId | None) -> None:
        self._whole = whole
        self._app = own
        self._seller = seller

    def some(
        self, *, seller: SellerId | None = None, limit: int, cursor: str | None = None
    ) -> list[ShopView]:
        """Return shops by seller, from a cursor on; raises NotFoundError for a seller."""
        accounts, warehouse = ConnectedShops(self._app.pool), Warehouse(self._app.pool)
        after = (None, None) if cursor is None else cursors.decode(cursor, str, str)
        found = accounts.some(self._whose(seller), after=after, limit=limit)
        tallies = accounts.tally({each.user_id for each in found})
        wanted = list(self._whole.settings.locations.values())
        return [
            ShopView(
                seller=each.user_id,
                platform=each.platform,
                shop=each.shop,
                title=each.title,
                status=each.status,
                reason=each.reason,
                locations=None if each.locations is None else tuple(sorted(each.locations)),
                unknown_locations=unknown_locations(each, wanted),
                tally=tallies[each.user_id] if each.platform is PlatformName.SHOPIFY else None,
                counts=warehouse.counts(each.bare),
            )
            for each in found
        ]

    def tier(self, seller: SellerId) -> TierView:
        """Return what a seller pays for; raises NotFoundError."""
        whose = self._whose(seller)
        assert whose is not None, "somebody was named"
        return self._tier(whose)

    def set_tier(self, seller: SellerId, tier: Tier) -> TierView:
        """Let a seller pay for this from now on; it acts at once on all the seller's jobs."""
        quotas, now = self._whole.job_rule.order_quotas, self._whole.clock.now()
        lifted = self._whole.sellers.set_tier(seller, tier, quotas=quotas, now=now)
        return self._tier(seller, lifted=lifted)

    def _tier(self, seller: SellerId, *, lifted: int = 0) -> TierView:
        rule, sellers = self._whole.job_rule, self._app.sellers
        tier = sellers.tier(seller)
        return TierView(
            seller=seller,
            tier=tier,
            orders_quota=rule.order_quotas[tier],
            orders_used=sellers.orders_count(seller, now=self._whole.clock.now()),
            interval_min=rule.intervals[tier] / timedelta(minutes=1),
            lifted=lifted,
            has_account=bool(self._app.account_queries.accounts(user_id=seller, limit=1)),
        )

    def _whose(self, asked: SellerId | None) -> SellerId | None:
        return self._seller or self._app.sellers.known(asked)


def unknown_locations(account: ConnectedShop, wanted: Sequence[str]) -> tuple[str, ...] | None:
    """Return the locations that stock is mapped to and the shop does not have."""
    if account.locations is None:
        return None
    return tuple(sorted(set(wanted) - set(account.locations)))
