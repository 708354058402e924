"""What sellers and platforms ask of Headway: the same operations that the page and the API use."""

from collections.abc import Mapping
from datetime import timedelta

from headway.app import App
from headway.app.accounts import connect_account
from headway.app.providers import shared_vault, token_key_of
from headway.clock import Clock
from headway.core.accounts.jobs import Account, PlatformName, Tier
from headway.core.accounts.webhooks import WebhookEffect
from headway.core.catalog.listings import LimitKey, SellerId
from headway.providers.registry import platform_role
from headway.providers.tokens import store_tokens
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.credentials import Credentials
from headway_lab.simulation.accounts.laws import AccountLaws
from headway_lab.simulation.accounts.platforms import SimulatedPlatform, SimulatedWebhook
from headway_lab.simulation.accounts.world import QUOTAS, ShopPlan

LEFT = "the seller disconnected it"


class SimulatedOperations:
    """Connects, disconnects, upgrades and takes webhooks, on the true clock."""

    def __init__(
        self,
        app: App,
        clock: Clock,
        platforms: Mapping[PlatformName, SimulatedPlatform],
        laws: AccountLaws,
    ) -> None:
        self._app = app
        self._clock = clock
        self._platforms = platforms
        self._laws = laws
        self._accounts = ConnectedShops(app.pool)
        self._vault = shared_vault(app.settings)

    def enter(self, tiers: Mapping[SellerId, Tier]) -> None:
        """Set the sellers' tiers at the start of the run."""
        for seller, tier in tiers.items():
            self._app.sellers.set_tier(seller, tier, quotas=QUOTAS, now=self._clock.now())

    def connect(self, shop: ShopPlan) -> Account:
        """Connect a shop, or connect it again, with fresh tokens."""
        simulated, now = self._platforms[shop.platform], self._clock.now()
        grant, name = simulated.grant(shop), simulated.name(shop)
        injector = None if grant.life_s is None else timedelta(seconds=grant.life_s)
        store_tokens(
            Credentials(self._app.pool),
            self._vault,
            self._limit_key(shop.platform, name),
            clock=self._clock,
            access=grant.access,
            refresh=grant.refresh,
            expires_at=None if injector is None else now + injector,
        )
        account = connect_account(
            self._app.pool,
            shop.seller,
            name,
            platform=shop.platform,
            owner_id=simulated.owner(shop),
            now=now,
        )
        self._laws.connected(account.bare)
        return account.bare

    def disconnect(self, shop: ShopPlan) -> None:
        """Disconnect a shop."""
        account = self._accounts.disconnect(
            shop.seller, LEFT, platform=shop.platform, now=self._clock.now()
        )
        self._laws.left(account.bare)

    def upgrade(self, shop: ShopPlan, tier: Tier) -> None:
        """Move a seller to a higher tier."""
        self._app.sellers.set_tier(shop.seller, tier, quotas=QUOTAS, now=self._clock.now())
        self._laws.upgraded(shop.seller, tier)

    def deliver(self, platform: PlatformName, hook: SimulatedWebhook) -> str:
        """Take a webhook as the web does: verified, read, taken once."""
        headers, now = (
            {name.lower(): header for name, header in hook.headers.items()},
            self._clock.now(),
        )
        role = platform_role(platform).webhooks
        assert role is not None
        if not role.verify(role.secret(self._app.settings), headers, hook.body, now):
            return "refused"
        event = role.read(platform, headers, hook.body)
        if event.effect is WebhookEffect.NOTHING:
            return "not used"
        return str(self._app.webhooks.take(event, now=now))

    def _limit_key(self, platform: PlatformName, name: str) -> LimitKey:
        return token_key_of(self._app.settings, platform, name)
