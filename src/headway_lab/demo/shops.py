"""The demo's shops: what they sell at the start, and what people change in them directly."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from headway.app import App
from headway.app.accounts import connect_account
from headway.app.rules import seller_defaults
from headway.cli.speed import POINTS, restore_per_s
from headway.clock import Clock, fresh_id, rng
from headway.config import Settings
from headway.core.catalog.change_detection import CENT, Desired, desire, observe
from headway.core.catalog.intake import ImportRow
from headway.core.catalog.listings import Quote, SellerId, Sku, Wait
from headway.core.catalog.storefront import Gid
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.products import Products
from headway.store.catalog.publishing import Publishing
from headway.store.catalog.sellers import lift_mass_guard
from headway_lab.simulators.boeing import SupplierPart
from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.simulators.shopify.shop import ShopIds, ShopScreen, ShopSetup
from headway_lab.simulators.shopify.shop_window import ShopWindow
from headway_lab.simulators.shopify.simulator import ShopifySimulator

SELLERS = (SellerId("acme"), SellerId("northwind"), SellerId("skyline"))
TOKEN = "demo-access-token"  # noqa: S105 - of a shop that is not one
ERROR_RATE = 0.005
# How often, in all shops together, a customer buys, a merchant edits a price, parts are published.
BUYS_EVERY = timedelta(minutes=4)
EDITS_EVERY = timedelta(minutes=30)
PUBLISHES_EVERY = timedelta(minutes=40)
# By then every first price of the past is written.
TAKEOVER = timedelta(hours=26)
PUBLISHED_AT_ONCE = 2
EDITS = (Decimal("0.90"), Decimal("1.15"), Decimal("0.80"))
# Headway keeps them visible, so that a part that you unpublish by hand comes back.
CHANNELS = "Online Store"
# Prices, as factors of Headway's, and other details of merchants who did without Headway so far.
OWN_FACTORS = (Decimal(1), Decimal("1.08"), Decimal("0.94"), Decimal("2.2"), Decimal("1.03"))
OWN_DETAILS: Sequence[Mapping[str, object]] = (
    {"compare_at": Decimal("9999.00")},
    {"policy": "CONTINUE"},
    {"tracked": False},
    {"cost": None},
    {},
    {},
    {},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoShops:
    """The simulated shops, what each sells, and the parts that are not in them yet.

    If a shop `rehearses`, it is not started, and its merchant has prices of their own.
    """

    shops: ShopifySimulator
    window: ShopWindow
    sold: Sequence[tuple[SellerId, Sku, ShopIds]]
    newcomers: list[tuple[SellerId, Sku]]
    restore_per_s: float
    rehearses: bool = False

    def set_up(self, app: App, *, lists: bool = True) -> None:
        """Connect each seller's shop, and import what it sells if Headway `lists` it."""
        settings, now = app.settings, app.clock.now()
        keys = settings.secret_key.get_secret_value() if settings.secret_key else None
        vault = open_vault(keys, settings.data_dir)
        for seller in SELLERS:
            limit_key = shop_limit_key(settings.shopify_client_id, domain_of(seller))
            connect_account(app.pool, seller, domain_of(seller), rehearses=self.rehearses, now=now)
            store_tokens(Credentials(app.pool), vault, limit_key, clock=app.clock, access=TOKEN)
        if not lists:
            return
        Products(app.pool).take_in(self._rows(), form=settings.shop_sku, policy=app.policy, now=now)
        app.sellers.count_catalogs(now)
        if not self.rehearses:  # their owners have seen the first prices, and approved them
            lift_mass_guard(app.pool, SELLERS, until=now + TAKEOVER, now=now)

    def publish(self, app: App, most: int) -> None:
        """Ask for some of the parts that are in no shop yet."""
        chosen = self.newcomers[:most]
        for seller in dict(chosen):
            Publishing(app.pool).request(
                seller,
                [sku for owner, sku in chosen if owner == seller],
                batch_id=fresh_id(),
                form=app.settings.shop_sku,
                policy=app.policy,
                now=app.clock.now(),
            )
        del self.newcomers[:most]

    def _rows(self) -> Iterator[ImportRow]:
        for line, (seller, sku, ids) in enumerate(self.sold, start=1):
            yield ImportRow(
                line=line,
                sku=sku,
                seller=seller,
                shop_sku=sku,
                title=sku,
                shopify_product_id=Gid(ids.product),
                shopify_variant_id=Gid(ids.variant),
                shopify_inventory_item_id=Gid(ids.item),
                channels=CHANNELS,
            )


class DemoPeople:
    """Customers and merchants, drawn from the seed; `step` performs the actions that are due."""

    def __init__(self, app: App, demo_shops: DemoShops, *, seed: int) -> None:
        self._app = app
        self._demo_shops = demo_shops
        self._rng = rng(f"people:{seed}")
        now = app.clock.now()
        self._habits = {
            self._buy: BUYS_EVERY,
            self._edit: EDITS_EVERY,
            self._publish: PUBLISHES_EVERY,
        }
        self._due: dict[object, datetime] = {}
        for act, every in self._habits.items():
            self._due[act] = now + every * self._rng.random()

    def step(self) -> Wait:
        """Perform the actions that are due; return when the next one is."""
        now = self._app.clock.now()
        for act, every in self._habits.items():
            if self._due[act] <= now:
                act()
                self._due[act] = now + every * self._rng.uniform(0.5, 1.5)
        return Wait(until=min(self._due.values()), why="a quiet shop")

    def _buy(self) -> None:
        shop, view = self._pick()
        places = [name for name, count in (view.quantities if view else {}).items() if count > 0]
        if view is not None and places:
            self._demo_shops.shops.sell(shop, view.sku, self._rng.choice(places))

    def _edit(self) -> None:
        shop, view = self._pick()
        if view is not None:
            price = (view.price * self._rng.choice(EDITS)).quantize(CENT)
            self._demo_shops.shops.edit_price(shop, view.sku, max(price, CENT))

    def _publish(self) -> None:
        self._demo_shops.publish(self._app, PUBLISHED_AT_ONCE)

    def _pick(self) -> tuple[str, ShopScreen | None]:
        """Choose a product; None if it is gone."""
        seller, sku, _ = self._rng.choice(self._demo_shops.sold)
        return domain_of(seller), self._demo_shops.shops.shown(domain_of(seller), sku)


def domain_of(seller: SellerId) -> str:
    """Return the address of a demo seller's shop."""
    return f"{seller}.myshopify.com"


def open_shops(
    clock: Clock,
    settings: Settings,
    *,
    sold: Sequence[SupplierPart],
    newcomers: Sequence[Sku],
    seed: int,
    speed: float,
    rehearses: bool = False,
) -> DemoShops:
    """Open a shop for each seller that sells its share of the parts.

    The prices are those that Headway writes; if the shops rehearse, their merchants' own.
    """
    restored_per_s = restore_per_s(speed)
    setups = [
        ShopSetup(
            domain=domain_of(seller),
            locations=list(dict.fromkeys(settings.locations.values())),
            currency=settings.currency,
            access_token=TOKEN,
            capacity=POINTS,
            restore_per_s=restored_per_s,
        )
        for seller in SELLERS
    ]
    faults = ShopFaultPlan(seed, rates={"error": ERROR_RATE})
    shops = ShopifySimulator(clock, shops=setups, faults=faults, seed=seed)
    owners = [SELLERS[index % len(SELLERS)] for index in range(len(sold) + len(newcomers))]
    return DemoShops(
        shops=shops,
        window=ShopWindow(shops, map(domain_of, SELLERS)),
        sold=[
            (
                seller,
                Sku(part.sku),
                _put_on_sale(shops, settings, seller, part, number if rehearses else None),
            )
            for number, (seller, part) in enumerate(zip(owners, sold, strict=False))
        ],
        newcomers=list(zip(owners[len(sold) :], newcomers, strict=True)),
        restore_per_s=restored_per_s,
        rehearses=rehearses,
    )


def _put_on_sale(
    shops: ShopifySimulator,
    settings: Settings,
    seller: SellerId,
    part: SupplierPart,
    number: int | None,
) -> ShopIds:
    """Put a part on sale according to the seller's terms; with a number, as merchants do alone."""
    terms = seller_defaults(settings).terms
    quote = Quote(
        sku=Sku(part.sku),
        list_price=part.list_price,
        net_price=part.net_price,
        currency=part.currency,
        quantities=part.stock,
    )
    observed = observe(quote, terms)
    desired = desire(observed, terms)
    price = desired.price if isinstance(desired, Desired) else part.list_price
    assert price is not None, "every part of the demo's world has a price"
    cost = desired.cost if isinstance(desired, Desired) else None
    details: dict[str, object] = {"price": price, "cost": cost, "quantities": observed.quantities}
    if number is not None:
        own = (price * OWN_FACTORS[number % len(OWN_FACTORS)]).quantize(CENT)
        details |= {"price": own, **OWN_DETAILS[number % len(OWN_DETAILS)]}
    return shops.seed_product(domain_of(seller), part.sku, **details)
