"""The worlds of the built-in providers: each a client in front of its simulator."""

import json
from collections.abc import Callable, Collection
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headway.config import Settings
from headway.core.accounts.jobs import Account, DataKind, PlatformName
from headway.core.catalog.listings import SellerId, Sku, SupplierName
from headway.core.catalog.storefront import Shop
from headway.providers.provider import PlatformRole, Provider, SupplierRole
from headway.providers.registry import BUILT_IN
from headway.providers.shopify.read_queries import SCOPES
from headway.providers.tokens import store_tokens
from headway.store.catalog.suppliers import SupplierRow
from headway_lab.conformance import (
    FaultyTransport,
    PlatformWorld,
    StorefrontWorld,
    SupplierWorld,
    open_context,
)
from headway_lab.conformance.world import START, Rows
from headway_lab.simulators.boeing import BoeingSimulator, SupplierPart
from headway_lab.simulators.etsy.simulator import EtsySimulator
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.reply import Handle, SimReply
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.virtual_clock import VirtualClock

SKUS = [Sku(f"P{number}") for number in range(4)]
DOMAIN = "one.myshopify.com"


class Catalog:
    def lookup(self, sku: str) -> SupplierPart | None:
        if sku not in SKUS:
            return None
        return SupplierPart(
            sku=sku, list_price=Decimal(20), net_price=Decimal(10), stock={"Dallas Central": 1}
        )


def supplier_role(provider: Provider) -> SupplierRole:
    assert provider.supplier is not None
    return provider.supplier


class BoeingWorld(SupplierWorld):
    """Boeing, signed in."""

    provider = BUILT_IN["boeing"]
    skus = SKUS
    secrets = ("sim-client-secret", "sim-password")

    def __init__(self, _: Path) -> None:
        clock = VirtualClock(START)
        simulator = BoeingSimulator(Catalog(), clock, limit=1000)
        self.transport = FaultyTransport(simulator.handle, clock)
        settings = Settings(
            boeing_url="http://boeing.test",
            boeing_client_id="sim-client",
            boeing_client_secret=SecretStr("sim-client-secret"),
            boeing_username="sim-user",
            boeing_password=SecretStr("sim-password"),
        )
        self.context = open_context(settings, self.transport, clock)
        role = supplier_role(self.provider)
        assert role.main is not None
        self.entry, secrets = role.main(settings)
        self._client = role.open(self.context, lambda: self.entry, lambda: secrets)

    @property
    def client(self) -> Any:
        while self.transport.fault is None and (step := self._client.auth_step()) is not None:
            assert self._client.authenticate(step)
        return self._client

    @property
    def limit_keys(self) -> Collection[str]:
        return [supplier_role(self.provider).limit(self.context.settings, self.entry).key]

    @property
    def used_keys(self) -> Collection[str]:
        return [self._client.limit_key]

    def call(self) -> object:
        fault, self.transport.fault = self.transport.fault, None
        edit, self.transport.edit = self.transport.edit, None
        client = self.client
        self.transport.requests.clear()
        self.transport.fault, self.transport.edit = fault, edit
        return client.quote(self.skus)

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        reply = json.loads(body)
        return json.dumps({**reply, "lineItems": edit(reply["lineItems"])}).encode()

    def bad_row(self, row: Any) -> Any:
        return {**row, "netPrice": "soon"}


class FeedWorld(SupplierWorld):
    """A price list; its request is the one that reads the whole list."""

    provider = BUILT_IN["feed"]
    skus = SKUS
    secrets = ("a-secret-token",)
    bytes_max = 256_000_000

    def __init__(self, folder: Path) -> None:
        clock = VirtualClock(START)
        rows = "".join(f"{sku},10.00,USD,1\n" for sku in SKUS)
        body = f"sku,price,currency,quantity\n{rows}".encode()
        self.transport = FaultyTransport(lambda *_: SimReply(body=body), clock)
        self.context = open_context(Settings(data_dir=folder), self.transport, clock)
        self.row = SupplierRow(
            name=SupplierName("list"),
            client_id="abc",
            username="",
            url="https://list.test/prices.csv",
            kind="feed",
        )
        self.client_ = supplier_role(self.provider).open(
            self.context, lambda: self.row, lambda: {"token": self.secrets[0]}
        )

    @property
    def client(self) -> Any:
        return self.client_

    @property
    def limit_keys(self) -> Collection[str]:
        return [supplier_role(self.provider).limit(self.context.settings, self.row).key]

    @property
    def used_keys(self) -> Collection[str]:
        return [self.client_.limit_key]

    def call(self) -> object:
        step = self.client_.auth_step()
        return step is not None and self.client_.authenticate(step)

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        header, *rows = body.decode().splitlines()
        return "".join(f"{row}\n" for row in [header, *edit(rows)]).encode()

    def bad_row(self, row: Any) -> Any:
        return str(row).replace("10.00", "soon")


class AccountWorld(PlatformWorld):
    """What the worlds of the built-in platforms share."""

    platform: PlatformName
    shop: str

    def connect(self, handle: Handle, settings: Settings, access: str, clock: VirtualClock) -> None:
        self.provider = BUILT_IN[self.platform]
        self.transport = FaultyTransport(handle, clock)
        self.context = open_context(settings, self.transport, clock)
        self.secrets = (*self.secrets, access)
        store_tokens(
            self.context.shelf,
            self.context.open_vault(),
            self.role.token_key(settings, self.shop),
            clock=clock,
            access=access,
        )
        self.account = Account(
            id="1", user_id=SellerId("seller"), platform=self.platform, shop=self.shop
        )
        self._client = self.role.open(self.context, self.account)

    @property
    def role(self) -> PlatformRole:
        assert self.provider.platform is not None
        return self.provider.platform

    @property
    def client(self) -> Any:
        return self._client

    @property
    def limit_keys(self) -> Collection[str]:
        settings = self.context.settings
        own = self.role.own_limit(settings, self.account, 100)
        shared = [limit.key for limit in self.provider.limits(settings).values()]
        return shared if own is None else [*shared, own.key]

    @property
    def used_keys(self) -> Collection[str]:
        day = self._client.day_key
        return [*self._client.keys, *([] if day is None else [day])]

    def call(self) -> object:
        paginator = self.role.paginator_of(self.kinds[0], is_backfill=False)
        return self.client.read(paginator.ask(paginator.begin({}, self.context.clock.now(), ())))


class EtsyWorld(AccountWorld):
    platform, shop = PlatformName.ETSY, "77"
    kinds = (DataKind.LISTINGS,)
    secrets = ("sim-shared-secret",)

    def __init__(self, _: Path) -> None:
        clock = VirtualClock(START)
        self.etsy = EtsySimulator(clock, per_second=1000)
        self.etsy.add_shop(77, name="Mugs")
        for _number in range(130):
            self.etsy.add_listing(77)
        settings = Settings(
            etsy_url="http://etsy.test",
            etsy_keystring="sim-keystring",
            etsy_shared_secret=SecretStr("sim-shared-secret"),
        )
        self.connect(self.etsy.handle, settings, self.etsy.grant(77).access, clock)

    def truth(self, kind: DataKind) -> Collection[str]:
        return [str(key) for key in self.etsy.truth(77)[kind.value]]

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        page = json.loads(body)
        return json.dumps({**page, "results": edit(page["results"])}).encode()


class PrintifyWorld(AccountWorld):
    platform = PlatformName.PRINTIFY
    kinds = (DataKind.LISTINGS,)

    def __init__(self, _: Path) -> None:
        clock = VirtualClock(START)
        self.printify = PrintifySimulator(clock)
        self.number = self.printify.add_shop(title="Prints")
        self.shop = str(self.number)
        for _number in range(60):
            self.printify.add_product(self.number)
        settings = Settings(printify_url="http://printify.test")
        self.connect(self.printify.handle, settings, self.printify.personal_token(), clock)

    def truth(self, kind: DataKind) -> Collection[str]:
        return [str(key) for key in self.printify.truth(self.number)[kind.value]]

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        page = json.loads(body)
        return json.dumps({**page, "data": edit(page["data"])}).encode()


def shopify_settings() -> Settings:
    return Settings(
        shopify_url="http://shops.test/{shop}",
        shopify_client_id="sim-app",
        shopify_client_secret=SecretStr("sim-app-secret"),
    )


class ShopifyWorld(AccountWorld):
    platform, shop = PlatformName.SHOPIFY, DOMAIN
    kinds = (DataKind.LISTINGS,)
    secrets = ("sim-app-secret",)

    def __init__(self, _: Path) -> None:
        clock = VirtualClock(START)
        self.shops = ShopifySimulator(clock, shops=[ShopSetup(domain=DOMAIN, scopes=SCOPES)])
        for number in range(70):
            self.shops.seed_product(DOMAIN, f"S{number}")
        self.connect(self.shops.handle, shopify_settings(), "sim-static-token", clock)

    def truth(self, kind: DataKind) -> Collection[str]:
        return [str(key) for key in self.shops.truth(DOMAIN)[kind.value]]

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        reply = json.loads(body)
        for part in reply["data"].values():
            if "nodes" in part:
                part["nodes"] = edit(part["nodes"])
        return json.dumps(reply).encode()


class ShopifyStorefrontWorld(StorefrontWorld):
    provider = BUILT_IN["shopify"]
    secrets = ("sim-app-secret", "sim-static-token")

    def __init__(self, _: Path) -> None:
        clock, settings = VirtualClock(START), shopify_settings()
        shops = ShopifySimulator(clock, shops=[ShopSetup(domain=DOMAIN)])
        self.transport = FaultyTransport(shops.handle, clock)
        self.context = open_context(settings, self.transport, clock)
        assert self.provider.keyed_limit is not None
        assert self.provider.storefront is not None
        self.key = self.provider.keyed_limit.key(settings, DOMAIN)
        store_tokens(
            self.context.shelf,
            self.context.open_vault(),
            self.key,
            clock=clock,
            access="sim-static-token",
        )
        shop = Shop(id="1", user_id=SellerId("seller"), domain=DOMAIN)
        self._client = self.provider.storefront.open(self.context, shop)

    @property
    def client(self) -> Any:
        return self._client

    @property
    def limit_keys(self) -> Collection[str]:
        return [self.key]

    @property
    def used_keys(self) -> Collection[str]:
        return [self._client.limit_key]

    def call(self) -> object:
        return self._client.locations()
