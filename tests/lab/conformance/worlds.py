"""The worlds of the built-in providers: a client in front of its simulator."""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

from pydantic import SecretStr

from headway.config import Settings
from headway.core.accounts.jobs import DataKind
from headway.core.catalog.listings import Sku, SupplierName
from headway.core.catalog.storefront import Gid, Ids
from headway.providers.registry import BUILT_IN
from headway.store.catalog.suppliers import SupplierRow
from headway_lab.conformance import PlatformWorld, Rows, StorefrontWorld, SupplierWorld
from headway_lab.simulators.boeing import BoeingSimulator, SupplierPart
from headway_lab.simulators.etsy.simulator import EtsySimulator
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator

PRICES = {Sku(f"P{number}"): Decimal(10 + number) for number in range(4)}
DOMAIN = "one.myshopify.com"
WEBHOOK_SECRET = "whsec_c2ltLWhvb2stc2VjcmV0"
HOUR_S = 3600


class Catalog:
    def lookup(self, sku: str) -> SupplierPart | None:
        price = PRICES.get(Sku(sku))
        if price is None:
            return None
        return SupplierPart(
            sku=sku, list_price=2 * price, net_price=price, stock={"Dallas Central": 1}
        )


class BoeingWorld(SupplierWorld):
    """Boeing, with the credentials of the settings."""

    provider = BUILT_IN["boeing"]
    prices = PRICES
    secrets = ("sim-client-secret", "sim-password")

    def __init__(self, _: Path) -> None:
        super().__init__()
        simulator = BoeingSimulator(Catalog(), self.clock, limit=1000)
        settings = Settings(
            boeing_url="http://boeing.test",
            boeing_client_id="sim-client",
            boeing_client_secret=SecretStr("sim-client-secret"),
            boeing_username="sim-user",
            boeing_password=SecretStr("sim-password"),
        )
        assert self.role.main is not None
        self.connect(simulator.handle, settings, *self.role.main(settings))

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        reply = json.loads(body)
        return json.dumps({**reply, "lineItems": edit(reply["lineItems"])}).encode()

    def bad_row(self, row: Any) -> Any:
        return {**row, "netPrice": "soon"}

    def edit_currency(self, body: bytes, currency: str) -> bytes:
        return json.dumps({**json.loads(body), "currency": currency}).encode()


class FeedWorld(SupplierWorld):
    """A price list over HTTPS that is read every hour."""

    provider = BUILT_IN["feed"]
    prices = PRICES
    secrets = ("a-secret-token",)
    bytes_max = 256_000_000
    list_interval = timedelta(hours=1)

    def __init__(self, folder: Path) -> None:
        super().__init__()
        rows = "".join(f"{sku},{price},USD,1\n" for sku, price in PRICES.items())
        reply = SimReply(body=f"sku,price,currency,quantity\n{rows}".encode())
        entry = SupplierRow(
            name=SupplierName("list"),
            client_id="abc",
            username="",
            url="https://list.test/prices.csv",
            kind="feed",
        )
        self.connect(lambda *_: reply, Settings(data_dir=folder), entry, {"token": self.secrets[0]})

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        header, *rows = body.decode().splitlines()
        return "".join(f"{row}\n" for row in [header, *edit(rows)]).encode()

    def bad_row(self, row: Any) -> Any:
        return str(row).replace("10", "soon")

    def edit_currency(self, body: bytes, currency: str) -> bytes:
        return body.replace(b"USD", currency.encode())


class EtsyWorld(PlatformWorld):
    """An Etsy shop with two pages of each kind, signed in with a pair of tokens."""

    provider = BUILT_IN["etsy"]
    secrets = ("sim-shared-secret",)
    refusal = b'{"error": "invalid_token"}'
    reports_limit = True

    def __init__(self, _: Path, *, count: int = 130) -> None:
        super().__init__()
        self.etsy = EtsySimulator(self.clock, per_second=1000)
        self.etsy.add_shop(77, name="Mugs")
        for _number in range(count):
            self.etsy.add_listing(77)
            self.etsy.place_order(77)
            self.clock.sleep(HOUR_S)
        settings = Settings(
            etsy_url="http://etsy.test",
            etsy_keystring="sim-keystring",
            etsy_shared_secret=SecretStr("sim-shared-secret"),
            etsy_webhook_secret=SecretStr(WEBHOOK_SECRET),
        )
        grant = self.etsy.grant(77)
        self.connect(self.etsy.handle, settings, "77", access=grant.access, refresh=grant.refresh)

    def empty(self) -> Self:
        return type(self)(Path(), count=0)

    def truth(self, kind: DataKind) -> Collection[str]:
        return [str(key) for key in self.etsy.truth(77)[kind.value]]

    def add_row(self, kind: DataKind) -> None:
        if kind is DataKind.LISTINGS:
            self.etsy.add_listing(77)
        else:
            self.etsy.place_order(77)

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        page = json.loads(body)
        return json.dumps({**page, "results": edit(page["results"])}).encode()

    def webhook(self) -> tuple[Mapping[str, str], bytes]:
        return self.etsy.hook("order.paid", 77, 1)


class PrintifyWorld(PlatformWorld):
    """A Printify shop with a personal token."""

    provider = BUILT_IN["printify"]

    def __init__(self, _: Path, *, count: int = 60) -> None:
        super().__init__()
        self.printify = PrintifySimulator(self.clock)
        self.number = self.printify.add_shop(title="Prints")
        for _number in range(count):
            self.printify.add_product(self.number)
            self.printify.place_order(self.number)
            self.clock.sleep(HOUR_S)
        settings = Settings(
            printify_url="http://printify.test",
            printify_webhook_secret=SecretStr("sim-hook-secret"),
        )
        token = self.printify.personal_token()
        self.connect(self.printify.handle, settings, str(self.number), access=token)

    def empty(self) -> Self:
        return type(self)(Path(), count=0)

    def truth(self, kind: DataKind) -> Collection[str]:
        return [str(key) for key in self.printify.truth(self.number)[kind.value]]

    def add_row(self, kind: DataKind) -> None:
        if kind is DataKind.LISTINGS:
            self.printify.add_product(self.number)
        else:
            self.printify.place_order(self.number)

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        page = json.loads(body)
        return json.dumps({**page, "data": edit(page["data"])}).encode()

    def webhook(self) -> tuple[Mapping[str, str], bytes]:
        return self.printify.hook("order:created", self.number, "1")


def shopify_settings() -> Settings:
    return Settings(
        shopify_url="http://shops.test/{shop}",
        shopify_client_id="sim-app",
        shopify_client_secret=SecretStr("sim-app-secret"),
    )


class ShopifyWorld(PlatformWorld):
    """A Shopify shop with the token of a custom app."""

    provider = BUILT_IN["shopify"]
    secrets = ("sim-app-secret",)
    reports_limit = True

    def __init__(self, _: Path, *, count: int = 260) -> None:
        super().__init__()
        self.shops = ShopifySimulator(self.clock, shops=[ShopSetup(domain=DOMAIN)])
        for number in range(count):
            self.add(f"S{number}")
            self.clock.sleep(HOUR_S)
        self.connect(self.shops.handle, shopify_settings(), DOMAIN, access="sim-static-token")

    def add(self, sku: str) -> None:
        self.shops.seed_product(DOMAIN, sku)
        self.shops.place_order(
            DOMAIN, [(sku, 1)], customer=self.shops.add_customer(DOMAIN, f"Buyer of {sku}")
        )

    def empty(self) -> Self:
        return type(self)(Path(), count=0)

    def truth(self, kind: DataKind) -> Collection[str]:
        return [str(key) for key in self.shops.truth(DOMAIN)[kind.value]]

    def add_row(self, kind: DataKind) -> None:
        self.add(f"another of {kind}")

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        reply = json.loads(body)
        for part in reply["data"].values():
            if "nodes" in part:
                part["nodes"] = edit(part["nodes"])
        return json.dumps(reply).encode()

    def webhook(self) -> tuple[Mapping[str, str], bytes]:
        delivery = self.shops.hook("orders/create", "1", shop=DOMAIN)
        return delivery.headers, delivery.body


class ShopifyStorefrontWorld(StorefrontWorld):
    """A Shopify shop that is written to."""

    provider = BUILT_IN["shopify"]
    secrets = ("sim-app-secret", "sim-static-token")
    reports_limit = True

    def __init__(self, _: Path) -> None:
        super().__init__()
        self.shops = ShopifySimulator(self.clock, shops=[ShopSetup(domain=DOMAIN)])
        self.connect(self.shops.handle, shopify_settings(), DOMAIN, access="sim-static-token")

    def add_product(self, sku: str, *, location: str) -> Ids:
        ids = self.shops.seed_product(DOMAIN, sku, quantities={location: 5})
        return Ids(product=Gid(ids.product), variant=Gid(ids.variant), item=Gid(ids.item))

    def price_in_shop(self, sku: str) -> Decimal | None:
        shown = self.shops.shown(DOMAIN, sku)
        return None if shown is None else shown.price

    def quantity_in_shop(self, sku: str, location: str) -> int:
        shown = self.shops.shown(DOMAIN, sku)
        return -1 if shown is None else shown.quantities[location]
