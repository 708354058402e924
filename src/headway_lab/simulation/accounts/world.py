"""The sellers, their shops, and all that happens in them, drawn from the seed before the run.

Seconds count from the run's start; what lies before it is the history that a backfill finds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from headway.clock import Rng, rng
from headway.core.accounts.jobs import DataKind, PlatformName, Tier
from headway.core.catalog.listings import SellerId
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY

DAY_S = 86_400.0
HOUR_S = 3600.0
MONTH_DAYS = 30
CENT = Decimal("0.01")

TIER_SHARES = {Tier.FREE: 0.60, Tier.STARTER: 0.20, Tier.GROWTH: 0.15, Tier.PRO: 0.05}
PLATFORM_SHARES = {
    ETSY: 0.60,
    SHOPIFY: 0.45,
    PRINTIFY: 0.35,
}
# The numbers of the law, independent of our settings.
INTERVAL_S = {Tier.FREE: 3600.0, Tier.STARTER: 1800.0, Tier.GROWTH: 900.0, Tier.PRO: 300.0}
KIND_INTERVAL_S = {
    DataKind.ORDERS: 0.0,
    DataKind.LISTINGS: 21_600.0,
    DataKind.CUSTOMERS: 21_600.0,
    DataKind.PAYMENTS: 3600.0,
}
# Orders a month by tier, likewise.
QUOTAS = {Tier.FREE: 50, Tier.STARTER: 300, Tier.GROWTH: 1500, Tier.PRO: 5000}
USED_SHARE = (0.04, 0.45)
# Free sellers who sell more than their quota.
GREEDY_SHARE, GREEDY_USE = 0.08, (1.6, 2.4)
HISTORY_DAYS = (10.0, 18.0)
# Some have sold for longer than a platform shows.
LONG_SHARE, LONG_HISTORY_DAYS = 0.06, (70.0, 95.0)
LISTINGS = {Tier.FREE: (3, 25), Tier.STARTER: (8, 60), Tier.GROWTH: (20, 130), Tier.PRO: (60, 260)}

SHIP_H, DELIVER_D = (1.0, 48.0), (0.5, 3.0)
# For the others no delivery is ever reported; Printify's own carriers nearly always do.
DELIVERED_SHARE = {
    ETSY: 0.6,
    SHOPIFY: 0.6,
    PRINTIFY: 0.97,
}
CANCEL_SHARE, CANCEL_H = 0.03, (0.05, 8.0)
REFUND_SHARE, PARTIAL_SHARE, REFUND_D = 0.04, 0.4, (0.05, 6.0)
EDITS_PER_D, LISTED_PER_D, REMOVED_PER_D = 0.8, 0.12, 0.08
CUSTOMERS_PER_ORDER = 0.7
LEAVES_PER_D, AWAY_H = 0.01, (0.5, 10.0)

HOOKED_SHARE, SHAKY_SHARE = 0.5, 0.4
PROMPT_S, LATE_S = (0.5, 4.0), (600.0, 10_800.0)
LATE_CHANCE, TWICE_CHANCE, NEVER_CHANCE = 0.15, 0.15, 0.15


class AccountEventKind(StrEnum):
    """What happens; the last three are actions of the seller in Headway."""

    ORDER = "order"
    SHIP = "ship"
    DELIVER = "deliver"
    CANCEL = "cancel"
    REFUND = "refund"
    LIST = "list"
    EDIT = "edit"
    REMOVE = "remove"
    LEAVE = "leave"
    RETURN = "return"
    UPGRADE = "upgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountEvent:
    """An event in a shop at this second, about its order or listing of that number.

    `share` is the refunded share of an order. `hooks_s` are the delays of the platform's webhooks:
    none, one or two.
    """

    at_s: float
    shop: str
    kind: AccountEventKind
    number: int = 0
    lines: tuple[tuple[int, int], ...] = ()
    customer: int = 0
    price: Decimal = Decimal(0)
    share: Decimal = Decimal(1)
    tier: Tier = Tier.FREE
    hooks_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopPlan:
    """One shop of a seller: its platform, and how busy it is."""

    key: str
    number: int
    platform: PlatformName
    seller: SellerId
    tier: Tier
    orders_per_day: float
    history_days: float
    listings: int
    hooked: bool
    shaky: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountWorld:
    """All sellers and shops, and all that happens, in order."""

    tiers: Mapping[SellerId, Tier]
    shops: Mapping[str, ShopPlan]
    events: tuple[AccountEvent, ...]

    @property
    def history(self) -> tuple[AccountEvent, ...]:
        """What had happened when the run starts."""
        return tuple(event for event in self.events if event.at_s < 0)

    @property
    def future(self) -> tuple[AccountEvent, ...]:
        """What happens during the run."""
        return tuple(event for event in self.events if event.at_s >= 0)


def interval_s(tier: Tier, kind: DataKind) -> float:
    """Return how often a job of that tier and kind should run."""
    return max(INTERVAL_S[tier], KIND_INTERVAL_S[kind])


def account_world(*, sellers: int, days: float, seed: int) -> AccountWorld:
    """Draw a world."""
    tiers = _tiers(sellers, seed)
    shops: dict[str, ShopPlan] = {}
    events: list[AccountEvent] = []
    for place, (seller, tier) in enumerate(tiers.items()):
        generator = rng(f"seller:{seed}:{seller}")
        own = _shops(seller, tier, place, generator)
        shops |= {shop.key: shop for shop in own}
        for shop in own:
            events += _with_webhooks(
                shop, _shop_events(shop, days, rng(f"life:{seed}:{shop.key}")), seed
            )
        events += _account_events(own, tier, days, generator)
    events.sort(key=lambda event: (event.at_s, event.shop, event.number))
    return AccountWorld(tiers=tiers, shops=shops, events=tuple(events))


def _tiers(sellers: int, seed: int) -> dict[SellerId, Tier]:
    """Distribute the tiers by their shares, at least one of each where there are enough sellers."""
    drawn: list[Tier] = []
    for tier, share in TIER_SHARES.items():
        drawn += [tier] * max(1, round(sellers * share))
    # Rounding differences are free sellers.
    drawn = drawn[max(0, len(drawn) - sellers) :]
    drawn += [Tier.FREE] * (sellers - len(drawn))
    rng(f"tiers:{seed}").shuffle(drawn)
    return {SellerId(f"seller-{number + 1}"): tier for number, tier in enumerate(drawn)}


def _shops(seller: SellerId, tier: Tier, place: int, generator: Rng) -> list[ShopPlan]:
    platforms = [
        platform for platform, share in PLATFORM_SHARES.items() if generator.random() < share
    ]
    platforms = platforms or [generator.choice(list(PLATFORMS))]
    is_greedy = tier is Tier.FREE and generator.random() < GREEDY_SHARE
    used = generator.uniform(*(GREEDY_USE if is_greedy else USED_SHARE))
    orders_per_day = QUOTAS[tier] * used / MONTH_DAYS / len(platforms)
    is_long = tier is not Tier.PRO and generator.random() < LONG_SHARE
    history_days = generator.uniform(*(LONG_HISTORY_DAYS if is_long else HISTORY_DAYS))
    return [
        ShopPlan(
            key=f"{platform}-{place + 1}",
            number=1000 + place,
            platform=platform,
            seller=seller,
            tier=tier,
            orders_per_day=orders_per_day,
            history_days=history_days,
            listings=generator.randint(*LISTINGS[tier]),
            hooked=generator.random() < HOOKED_SHARE,
            shaky=generator.random() < SHAKY_SHARE,
        )
        for platform in platforms
    ]


# -- one shop's life ---------------------------------------------------------------------------


def _shop_events(shop: ShopPlan, days: float, generator: Rng) -> list[AccountEvent]:
    begin_s, end_s = -shop.history_days * DAY_S, days * DAY_S
    drawn = _DrawnShop(shop, generator, begin_s)
    moments = [
        *(
            (at_s, AccountEventKind.ORDER)
            for at_s in _times(generator, shop.orders_per_day, begin_s, end_s)
        ),
        *((at_s, AccountEventKind.EDIT) for at_s in _times(generator, EDITS_PER_D, begin_s, end_s)),
        *(
            (at_s, AccountEventKind.LIST)
            for at_s in _times(generator, LISTED_PER_D, begin_s, end_s)
        ),
        *(
            (at_s, AccountEventKind.REMOVE)
            for at_s in _times(generator, REMOVED_PER_D, begin_s, end_s)
        ),
    ]
    orders = 0
    for at_s, kind in sorted(moments):
        if kind is not AccountEventKind.ORDER:
            drawn.change(at_s, kind)
            continue
        orders += 1
        drawn.events += _order(shop, orders, drawn.stock, at_s, generator)
    return [event for event in drawn.events if event.at_s < end_s]


class _DrawnShop:
    """What is on offer while the events of a shop are drawn."""

    def __init__(self, shop: ShopPlan, generator: Rng, begin_s: float) -> None:
        self._shop = shop
        self._generator = generator
        self._made = 0
        self.stock: list[int] = []
        self.events: list[AccountEvent] = []
        for _ in range(shop.listings):
            self.change(begin_s, AccountEventKind.LIST)

    def change(self, at_s: float, kind: AccountEventKind) -> None:
        """Put a listing on offer, edit one, or take one off; one always stays."""
        if kind is AccountEventKind.LIST:
            self._made += 1
            number = self._made
            self.stock.append(number)
        else:
            number = self._generator.choice(self.stock)
        if kind is AccountEventKind.REMOVE:
            if len(self.stock) == 1:
                return
            self.stock.remove(number)
        price = Decimal(self._generator.randint(400, 9900)) * CENT
        event = AccountEvent(at_s=at_s, shop=self._shop.key, kind=kind, number=number, price=price)
        self.events.append(event)


def _order(
    shop: ShopPlan, number: int, stock: list[int], at_s: float, generator: Rng
) -> Iterator[AccountEvent]:
    """Yield an order and what becomes of it."""
    chosen = generator.sample(stock, min(len(stock), generator.choice((1, 1, 1, 2, 3))))
    lines = tuple((listing, generator.choice((1, 1, 2))) for listing in chosen)
    customer = generator.randint(1, max(1, round(number * CUSTOMERS_PER_ORDER)))
    event = AccountEvent(
        at_s=at_s,
        shop=shop.key,
        kind=AccountEventKind.ORDER,
        number=number,
        lines=lines,
        customer=customer,
    )
    yield event
    if generator.random() < CANCEL_SHARE:
        yield replace(
            event, kind=AccountEventKind.CANCEL, at_s=at_s + generator.uniform(*CANCEL_H) * HOUR_S
        )
        return
    shipped_s = at_s + generator.uniform(*SHIP_H) * HOUR_S
    yield replace(event, kind=AccountEventKind.SHIP, at_s=shipped_s)
    if generator.random() < DELIVERED_SHARE[shop.platform]:
        yield replace(
            event,
            kind=AccountEventKind.DELIVER,
            at_s=shipped_s + generator.uniform(*DELIVER_D) * DAY_S,
        )
    if generator.random() < REFUND_SHARE:
        share = (
            Decimal(generator.randint(10, 60)) / 100
            if generator.random() < PARTIAL_SHARE
            else Decimal(1)
        )
        refunded_s = shipped_s + generator.uniform(*REFUND_D) * DAY_S
        yield replace(event, kind=AccountEventKind.REFUND, at_s=refunded_s, share=share)


def _times(generator: Rng, per_day: float, begin_s: float, end_s: float) -> Iterator[float]:
    """Yield the moments of a Poisson process."""
    at_s = begin_s
    while per_day > 0:
        at_s += generator.expovariate(per_day / DAY_S)
        if at_s >= end_s:
            return
        yield at_s


def _with_webhooks(shop: ShopPlan, events: list[AccountEvent], seed: int) -> list[AccountEvent]:
    """Choose which events have webhooks, and when; history has none."""
    if not shop.hooked:
        return events
    generator = rng(f"hooks:{seed}:{shop.key}")
    return [
        replace(event, hooks_s=_delays(shop, generator)) if event.at_s >= 0 else event
        for event in events
    ]


def _delays(shop: ShopPlan, generator: Rng) -> tuple[float, ...]:
    prompt_s = generator.uniform(*PROMPT_S)
    draw = generator.random() if shop.shaky else 1.0
    if draw < NEVER_CHANCE:
        return ()
    if draw < NEVER_CHANCE + LATE_CHANCE:
        return (generator.uniform(*LATE_S),)
    if draw < NEVER_CHANCE + LATE_CHANCE + TWICE_CHANCE:
        return (prompt_s, prompt_s + generator.uniform(*PROMPT_S))
    return (prompt_s,)


# -- sellers' dealings with us -----------------------------------------------------------------


def _account_events(
    shops: list[ShopPlan], tier: Tier, days: float, generator: Rng
) -> Iterator[AccountEvent]:
    """Yield when a seller disconnects a shop and connects it again, or pays for more."""
    for shop in shops:
        free_s = 0.0
        for at_s in _times(generator, LEAVES_PER_D, 0.0, days * DAY_S):
            if at_s < free_s:
                continue
            free_s = at_s + generator.uniform(*AWAY_H) * HOUR_S
            yield AccountEvent(at_s=at_s, shop=shop.key, kind=AccountEventKind.LEAVE)
            yield AccountEvent(at_s=free_s, shop=shop.key, kind=AccountEventKind.RETURN)
    is_greedy = sum(shop.orders_per_day for shop in shops) * MONTH_DAYS > QUOTAS[tier]
    if is_greedy and generator.random() < 0.3:  # noqa: PLR2004 - some of them pay, once they feel it
        at_s = generator.uniform(0.3, 1.0) * days * DAY_S
        yield AccountEvent(
            at_s=at_s, shop=shops[0].key, kind=AccountEventKind.UPGRADE, tier=Tier.STARTER
        )
