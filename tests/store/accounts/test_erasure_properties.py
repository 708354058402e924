"""After any pulls, webhooks, replays and erasures no word of the erased is stored."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import fresh_database
from tests.store.accounts.erasure_world import (
    NOW,
    ErasureWorld,
    buyer_id,
    buyer_words,
    erase_buyer,
    erase_whole,
    mentions,
    page_of,
)

from headway.core.accounts.jobs import DataKind, PlatformName
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.errors import ConflictError, InvariantError
from headway.store.accounts.webhooks import Webhooks
from headway.store.monitoring.erasure_checks import ErasureChecks
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.platforms import ETSY, SHOPIFY

SELLERS, PLATFORMS, BUYERS = ("acme", "zenith"), (SHOPIFY, ETSY), (1, 2)
EFFECTS = (
    WebhookEffect.WAKE, WebhookEffect.RECORD, WebhookEffect.REDACT_CUSTOMER,
    WebhookEffect.REDACT_SHOP, WebhookEffect.UNINSTALL,
)  # fmt: skip
MINUTE = timedelta(minutes=1)
sellers, platforms = st.sampled_from(SELLERS), st.sampled_from(PLATFORMS)
buyers = st.sampled_from(BUYERS)
act = st.one_of(
    st.tuples(st.just("pull"), sellers, platforms, buyers),
    st.tuples(st.just("hook"), sellers, st.sampled_from(EFFECTS), buyers),
    st.tuples(st.just("replay"), st.integers(0, 5)),
    st.tuples(st.just("erase buyer"), sellers, buyers),
    st.tuples(st.just("erase shop"), sellers, platforms),
    st.tuples(st.just("erase seller"), sellers),
    st.tuples(st.just("work"), st.integers(0, 8)),
    st.tuples(st.just("wait"), st.integers(1, 30)),
    st.tuples(st.just("connect again"), sellers, platforms),
)


@dataclass
class RandomWorld:
    """What happened to sellers and buyers, beside the database in which it happened."""

    world: ErasureWorld
    now: datetime = NOW
    hooks: list[Webhook] = field(default_factory=list)
    erased_buyers: set[tuple[str, str, int]] = field(default_factory=set)
    erased_shops: set[tuple[str, str]] = field(default_factory=set)
    erased_sellers: set[str] = field(default_factory=set)

    def do(self, name: str, *arguments: object) -> None:
        step: Callable[..., None] = getattr(self, name.replace(" ", "_"))
        step(*arguments)

    def pull(self, seller: str, platform: PlatformName, buyer: int) -> None:
        """Store a page, also one whose worker does not know that the account was erased."""
        try:
            self.world.put(self.world.accounts[seller, platform], page_of(seller, buyer))
        except InvariantError:
            assert (seller, platform) in self.erased_shops

    def hook(self, seller: str, effect: WebhookEffect, buyer: int) -> None:
        is_wake = effect is WebhookEffect.WAKE
        needs_id = is_wake or effect in {WebhookEffect.RECORD, WebhookEffect.REDACT_CUSTOMER}
        self.hooks.append(Webhook(
            platform=SHOPIFY, delivery_id=f"d{len(self.hooks)}", topic=f"test/{effect}",
            shop=self.world.accounts[seller, SHOPIFY].shop, effect=effect,
            kind=DataKind.CUSTOMERS if is_wake else None,
            external_id=buyer_id(seller, buyer) if needs_id else None,
        ))  # fmt: skip
        self.replay(len(self.hooks) - 1)

    def replay(self, number: int) -> None:
        if number >= len(self.hooks):
            return
        hook = self.hooks[number]
        seller = next(s for s in SELLERS if self.world.accounts[s, SHOPIFY].shop == hook.shop)
        taken = Webhooks(self.world.pool).take(hook, now=self.now)
        if taken != "taken":
            return
        if hook.effect is WebhookEffect.REDACT_SHOP:
            self.erased_shops.add((seller, SHOPIFY))
        if hook.effect is WebhookEffect.REDACT_CUSTOMER:
            buyer = next(b for b in BUYERS if buyer_id(seller, b) == hook.external_id)
            self.erased_buyers.add((seller, SHOPIFY, buyer))

    def erase_buyer(self, seller: str, buyer: int) -> None:
        erase_buyer(self.world, seller, buyer, now=self.now)
        connected = self._connected(seller)
        self.erased_buyers |= {(seller, platform, buyer) for platform in connected}

    def erase_shop(self, seller: str, platform: PlatformName) -> None:
        if platform in self._connected(seller):
            account = self.world.accounts[seller, platform]
            erase_whole(self.world, seller, account.id, now=self.now)
            self.erased_shops.add((seller, platform))

    def erase_seller(self, seller: str) -> None:
        if seller not in self.erased_sellers:
            erase_whole(self.world, seller, now=self.now)
            self.erased_sellers.add(seller)
            self.erased_shops |= {(seller, platform) for platform in self._connected(seller)}

    def work(self, batches: int) -> None:
        """Continue what is due, and be killed after so many batches."""
        left = iter(range(batches))
        self.world.erasures.work(self.now, goes_on=lambda: next(left, None) is not None)

    def wait(self, minutes: int) -> None:
        self.now += minutes * MINUTE

    def connect_again(self, seller: str, platform: PlatformName) -> None:
        try:
            self.world.connect(seller, platform, after_erasure=True, now=self.now)
        except ConflictError:
            return
        self.erased_shops.discard((seller, platform))
        if seller in self.erased_sellers:
            self.erased_sellers.discard(seller)

    def _connected(self, seller: str) -> set[PlatformName]:
        rows = "SELECT platform FROM connected_accounts WHERE user_id = %s"
        return {PlatformName(name) for (name,) in self.world.ask(rows, seller)}

    def check(self) -> None:
        """Let everything end, and look for every word of whom was erased."""
        for _ in range(3):
            while self.world.erasures.work(self.now):
                pass
            self.now += 20 * MINUTE
        pool = self.world.pool
        assert ErasureChecks(pool).erased(self.now)[1].examples == ()
        for seller in self.erased_sellers:
            assert mentions(pool, seller) == []
        for seller, platform in self.erased_shops:
            assert mentions(pool, self.world.accounts[seller, platform].shop) == []
        for seller, platform, buyer in self.erased_buyers:
            kept = {p for s, p, b in self.erased_buyers if (s, b) == (seller, buyer)}
            if kept | {p for s, p in self.erased_shops if s == seller} >= set(PLATFORMS):
                assert mentions(pool, *buyer_words(seller, buyer)[:3]) == [], platform


@given(acts=st.lists(act, min_size=4, max_size=8))
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_word_of_the_erased_is_stored_after_any_history(
    postgres: EmbeddedServer, acts: list[tuple[object, ...]]
) -> None:
    with fresh_database(postgres) as dsn, open_pool(dsn, size=2) as pool:
        random_world = RandomWorld(ErasureWorld(pool))
        for seller in SELLERS:
            random_world.world.settle(seller)
        for name, *arguments in acts:
            random_world.do(str(name), *arguments)
        random_world.check()
