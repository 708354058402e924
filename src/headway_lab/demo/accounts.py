"""The demo's account lane: sellers of three tiers on three platforms, orders, and webhooks.

The shops on Shopify are those that the catalog is written to. Etsy's daily quota is small, so that
you see it run out: sellers who do not pay then wait, with the reason shown.
"""

import heapq
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx
from pydantic import SecretStr

from headway.app import App
from headway.app.accounts import connect_account
from headway.app.providers import shared_vault
from headway.clock import Clock, rng
from headway.core.accounts.jobs import DataKind, PlatformName, Tier
from headway.core.catalog.listings import SellerId, Wait
from headway.engine.pull import Pull
from headway.providers.etsy.limits import day_key
from headway.providers.token_store import token_key
from headway.providers.tokens import store_tokens
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.job_claim import Claimed
from headway.store.accounts.jobs import Jobs
from headway_lab.demo.shops import SELLERS, DemoShops, domain_of
from headway_lab.platforms import ETSY, KINDS, PRINTIFY, SHOPIFY
from headway_lab.simulators.etsy.simulator import EtsyApp, EtsySimulator
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.shopify.apps import AppSecret
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

TIERS = dict(zip(SELLERS, (Tier.PRO, Tier.GROWTH, Tier.FREE), strict=True))
TITLES = dict(zip(SELLERS, ("Acme Hangar", "Northwind Models", "Skyline Prints"), strict=True))
# What Etsy allows the demo's app in 24 hours: somewhat less than all would like.
ETSY_DAY = 300
# Pull intervals in minutes: longer than in production, so that the small quota suffices.
INTERVALS = {Tier.FREE: 120, Tier.STARTER: 60, Tier.GROWTH: 60, Tier.PRO: 30}
KIND_INTERVALS = {
    DataKind.ORDERS: 0,
    DataKind.LISTINGS: 720,
    DataKind.CUSTOMERS: 360,
    DataKind.PAYMENTS: 360,
}
HOOK_SECRET = "whsec_ZGVtby1vZi1oZWFkd2F5"  # noqa: S105 - of a platform that is not one
HISTORY = timedelta(days=14)
HISTORY_ORDERS = {Tier.PRO: 40, Tier.GROWTH: 18, Tier.FREE: 5}
LISTINGS = {Tier.PRO: 24, Tier.GROWTH: 12, Tier.FREE: 6}
# Orders of one shop in an hour.
ORDERS_PER_H = {Tier.PRO: 1.2, Tier.GROWTH: 0.6, Tier.FREE: 0.2}
SHIP_H, CANCEL_H, REFUND_H = (0.5, 5.0), (0.1, 1.0), (1.0, 6.0)
CANCEL_SHARE, REFUND_SHARE = 0.06, 0.1
# Platforms do not send webhooks for everything.
WEBHOOK_SHARE = 0.85
HOUR = timedelta(hours=1)
# In the past nothing polls more often than a job can be due.
PAST_POLL = timedelta(minutes=20)

ETSY_HOST, PRINTIFY_HOST = "etsy.demo", "printify.demo"
ACCOUNT_SETTINGS: Mapping[str, object] = {
    "shopify_client_secret": SecretStr(AppSecret().client_secret),
    "etsy_url": f"http://{ETSY_HOST}",
    "etsy_keystring": EtsyApp().keystring,
    "etsy_shared_secret": SecretStr(EtsyApp().shared_secret),
    "etsy_day_limit": ETSY_DAY,
    "etsy_webhook_secret": SecretStr(HOOK_SECRET),
    "printify_url": f"http://{PRINTIFY_HOST}",
    "printify_webhook_secret": SecretStr(HOOK_SECRET),
    "intervals_min": INTERVALS,
    "kind_intervals_min": KIND_INTERVALS,
}

Shop = tuple[SellerId, PlatformName]
SendWebhook = Callable[[PlatformName, Mapping[str, str], bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marketplace:
    """The simulated platforms, and what the sellers' shops are called there."""

    etsy: EtsySimulator
    printify: PrintifySimulator
    shopify: ShopifySimulator
    names: Mapping[Shop, str]
    skus: Mapping[SellerId, Sequence[str]]

    def set_up(self, app: App) -> None:
        """Set the sellers' tiers, and connect their shops on Etsy."""
        for seller, tier in TIERS.items():
            quotas = app.job_rule.order_quotas
            app.sellers.set_tier(seller, tier, quotas=quotas, now=app.clock.now())
        self.connect(app, ETSY)

    def connect(self, app: App, platform_name: PlatformName) -> None:
        """Connect all shops on a platform; those on Shopify are connected for the catalog."""
        vault, credentials, now = shared_vault(app.settings), Credentials(app.pool), app.clock.now()
        for (seller, platform), name in self.names.items():
            if platform is not platform_name:
                continue
            tokens: dict[str, Any] = {"access": self.printify.personal_token(seller)}
            if platform == ETSY:
                pair = self.etsy.grant(int(name))
                tokens = {"access": pair.access, "refresh": pair.refresh}
            store_tokens(credentials, vault, token_key(platform, name), clock=app.clock, **tokens)
            connect_account(
                app.pool,
                seller,
                name,
                platform=platform,
                owner_id=name if platform == PRINTIFY else "",
                title=TITLES[seller],
                now=now,
            )


def open_marketplace(clock: Clock, demo_shops: DemoShops, *, seed: int) -> Marketplace:
    """Open the shops on Etsy and Printify, and give all of them a history."""
    etsy = EtsySimulator(clock, seed=seed, per_day=ETSY_DAY, hook_secret=HOOK_SECRET)
    printify = PrintifySimulator(clock, seed=seed, hook_secret=HOOK_SECRET)
    names: dict[Shop, str] = {}
    for seller, tier in TIERS.items():
        shop = etsy.add_shop(name=TITLES[seller].replace(" ", "")).owner.shop_id
        own = printify.add_shop(account=seller, title=TITLES[seller])
        for _ in range(LISTINGS[tier]):
            etsy.add_listing(shop)
            printify.add_product(own)
        names[seller, SHOPIFY] = domain_of(seller)
        names[seller, ETSY] = str(shop)
        names[seller, PRINTIFY] = str(own)
    skus = {
        seller: [sku for owner, sku, _ in demo_shops.sold if owner == seller] for seller in SELLERS
    }
    market = Marketplace(
        etsy=etsy, printify=printify, shopify=demo_shops.shops, names=names, skus=skus
    )
    _add_history(market, clock.now(), seed)
    return market


def _add_history(market: Marketplace, now: datetime, seed: int) -> None:
    """Place orders in the weeks before."""
    generator = rng(f"history:{seed}")
    for (seller, platform), name in market.names.items():
        count = HISTORY_ORDERS[TIERS[seller]]
        for at in sorted(now - HISTORY * generator.random() for _ in range(count)):
            placed = at.replace(microsecond=0)
            if platform == ETSY:
                market.etsy.place_order(int(name), at=placed)
            elif platform == PRINTIFY:
                market.printify.shop(int(name)).place_order(placed)
            elif market.skus[seller]:
                market.shopify.place_order(
                    name, [(generator.choice(market.skus[seller]), 1)], at=placed
                )


class DemoOrders:
    """Buyers and sellers, drawn from the seed; `step` performs the actions that are due."""

    def __init__(self, market: Marketplace, clock: Clock, *, seed: int) -> None:
        self._market = market
        self._clock = clock
        self._generator = rng(f"trade:{seed}")
        self._order = itertools.count()
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._send: SendWebhook | None = None
        for shop in market.names:
            self._schedule(self._pause(shop), partial(self._buy, shop))

    def send_webhooks_with(self, send: SendWebhook | None, clock: Clock) -> None:
        """Switch to another clock, and send webhooks from here on."""
        self._send, self._clock = send, clock

    def step(self) -> Wait:
        """Perform the actions that are due; return when the next one is."""
        now = self._clock.now()
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()
        return Wait(until=self._due[0][0], why="no action is due")

    def _buy(self, shop: Shop) -> None:
        self._schedule(self._pause(shop), lambda: self._buy(shop))
        number = self._place(shop)
        if number is None:
            return
        self._send_webhook(shop, "placed", number)
        if self._generator.random() < CANCEL_SHARE:
            self._schedule(self._hours(CANCEL_H), lambda: self._finish(shop, "cancelled", number))
            return
        self._schedule(self._hours(SHIP_H), lambda: self._finish(shop, "shipped", number))

    def _finish(self, shop: Shop, action: str, number: str) -> None:
        (_, platform), name = shop, self._market.names[shop]
        _ACTIONS[platform, action](self._market, name, number)
        self._send_webhook(shop, action, number)
        may_return = action == "shipped" and (platform, "refunded") in _ACTIONS
        if may_return and self._generator.random() < REFUND_SHARE:
            self._schedule(self._hours(REFUND_H), lambda: self._finish(shop, "refunded", number))

    def _place(self, shop: Shop) -> str | None:
        (seller, platform), name, market = shop, self._market.names[shop], self._market
        if platform == ETSY:
            return str(market.etsy.place_order(int(name)))
        if platform == PRINTIFY:
            return market.printify.place_order(int(name))
        if not market.skus[seller]:
            return None
        lines = [(self._generator.choice(market.skus[seller]), self._generator.randint(1, 2))]
        return market.shopify.place_order(name, lines)

    def _send_webhook(self, shop: Shop, action: str, number: str) -> None:
        """Send a webhook, if the platform sends one for this."""
        (_, platform), name, market = shop, self._market.names[shop], self._market
        topic = _TOPICS.get((platform, action))
        if self._send is None or topic is None or self._generator.random() > WEBHOOK_SHARE:
            return
        if platform == ETSY:
            headers, body = market.etsy.hook(topic, int(name), int(number))
        elif platform == PRINTIFY:
            headers, body = market.printify.hook(topic, int(name), number)
        else:
            sent = market.shopify.hook(topic, number, shop=name)
            headers, body = dict(sent.headers), sent.body
        self._send(platform, headers, body)

    def _schedule(self, pause: timedelta, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._clock.now() + pause, next(self._order), act))

    def _pause(self, shop: Shop) -> timedelta:
        return HOUR * self._generator.expovariate(ORDERS_PER_H[TIERS[shop[0]]])

    def _hours(self, between: tuple[float, float]) -> timedelta:
        return HOUR * self._generator.uniform(*between)


def post_to(url: str, client: httpx.Client) -> SendWebhook:
    """Return a function that posts webhooks to the page's own address."""

    def send(platform: PlatformName, headers: Mapping[str, str], body: bytes) -> None:
        try:
            client.post(f"{url}webhooks/{platform}", headers=dict(headers), content=body)
        except httpx.HTTPError:
            return  # a platform that cannot reach us sends nothing; the next pull finds the change

    return send


class HostRouter(httpx.BaseTransport):
    """Simulators in one process, each behind its own host, one behind all others."""

    def __init__(
        self, by_host: Mapping[str, httpx.BaseTransport], other: httpx.BaseTransport
    ) -> None:
        self._by_host = by_host
        self._other = other

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to the simulator of its host."""
        return self._by_host.get(request.url.host, self._other).handle_request(request)


def platform_transport(market: Marketplace, clock: VirtualClock, *, seed: int) -> HostRouter:
    """Return the way to all platforms in virtual time."""
    return HostRouter(
        {
            ETSY_HOST: SimTransport(market.etsy.handle, clock, seed=seed),
            PRINTIFY_HOST: SimTransport(market.printify.handle, clock, seed=seed),
        },
        SimTransport(market.shopify.handle, clock, seed=seed),
    )


class EtsyJobs(Jobs):
    """The jobs of one platform, as if there were no others."""

    def claim(
        self, *, now: datetime, owner: str, without: Collection[PlatformName] = ()
    ) -> Claimed | None:
        """Lease the most deserving job of Etsy."""
        others = {*without, SHOPIFY, PRINTIFY}
        return super().claim(now=now, owner=owner, without=others)


def past_pull(app: App, *, is_late: bool = False) -> Pull:
    """Return a puller for the past, which polls now and then: at first Etsy alone.

    Etsy's daily quota must have a past; for the others a late pull is enough.
    """
    days = {ETSY: day_key(app.settings.etsy_keystring)}
    jobs = EtsyJobs(app.pool, app.limiter, app.job_rule, kinds=KINDS, days=days)
    slow = replace(app, pull_rule=replace(app.pull_rule, poll=PAST_POLL))
    return (slow if is_late else replace(slow, jobs=jobs)).pull("past")


def _ship_print(market: Marketplace, name: str, number: str) -> None:
    while market.printify.advance(int(name), number) != "fulfilled":
        continue


OrderAction = Callable[[Marketplace, str, str], object]
_ACTIONS: Mapping[tuple[PlatformName, str], OrderAction] = {
    (ETSY, "shipped"): lambda m, name, order: m.etsy.ship(int(name), int(order)),
    (ETSY, "cancelled"): lambda m, name, order: m.etsy.cancel(int(name), int(order)),
    (ETSY, "refunded"): lambda m, name, order: m.etsy.refund(int(name), int(order)),
    (SHOPIFY, "shipped"): lambda m, name, order: m.shopify.fulfil(name, order),
    (SHOPIFY, "cancelled"): lambda m, name, order: m.shopify.cancel(name, order),
    (SHOPIFY, "refunded"): lambda m, name, order: m.shopify.refund(name, order),
    (PRINTIFY, "shipped"): _ship_print,
    (PRINTIFY, "cancelled"): lambda m, name, order: m.printify.cancel(int(name), order),
}
_TOPICS = {
    (ETSY, "placed"): "order.paid",
    (ETSY, "shipped"): "order.shipped",
    (ETSY, "cancelled"): "order.canceled",
    (SHOPIFY, "placed"): "orders/create",
    (SHOPIFY, "shipped"): "fulfillments/create",
    (SHOPIFY, "cancelled"): "orders/cancelled",
    (SHOPIFY, "refunded"): "refunds/create",
    (PRINTIFY, "placed"): "order:created",
    (PRINTIFY, "shipped"): "order:shipment:created",
    (PRINTIFY, "cancelled"): "order:updated",
}
