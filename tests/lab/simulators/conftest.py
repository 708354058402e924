"""A simulated shop to talk to: `shop.ask` sends a document and returns the parsed answer."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.shop import ShopIds, ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.virtual_clock import VirtualClock

DOMAIN = "acme.myshopify.com"
SET_STOCK = """
mutation ($input: InventorySetQuantitiesInput!, $key: String!) {
  inventorySetQuantities(input: $input) @idempotent(key: $key) {
    inventoryAdjustmentGroup { reason changes { name delta quantityAfterChange } }
    userErrors { code field message }
  }
}
"""


class ShopClient:
    """One client of one simulated shop with a static token."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        setup = ShopSetup(domain=DOMAIN, locations=("Dallas", "Chicago", "Miami"))
        self.clock = clock
        self.simulator = ShopifySimulator(clock, **{"shops": [setup], **options})
        self.domain = DOMAIN
        self.locations = {
            location.name: location.id for location in self.shop_listings.locations.values()
        }

    @property
    def shop_listings(self) -> Any:
        return self.simulator.shop(DOMAIN)

    def send(self, query: str, variables: dict[str, Any], **headers: str) -> SimReply:
        body = json.dumps({"query": query, "variables": variables}).encode()
        sent_headers = {
            "X-Shopify-Access-Token": "sim-static-token",
            "Host": "shop.test",
            **headers,
        }
        path = f"/{DOMAIN}/admin/api/2026-04/graphql.json"
        return self.simulator.handle("POST", path, sent_headers, body)

    def ask(self, document: str, /, **variables: Any) -> dict[str, Any]:
        self.clock.sleep(1)
        return json.loads(self.send(document, variables).body)

    def do(self, document: str, /, **variables: Any) -> Any:
        """Return the payload of the only root field, or fail with the errors."""
        answer = self.ask(document, **variables)
        assert "errors" not in answer, answer["errors"]
        return next(iter(answer["data"].values()))

    def seed(self, sku: str, **details: Any) -> ShopIds:
        fields = {"price": Decimal("10.00"), "quantities": {"Dallas": 5, "Chicago": 2}}
        return self.simulator.seed_product(DOMAIN, sku, **{**fields, **details})

    def shown(self, sku: str) -> Any:
        return self.simulator.shown(DOMAIN, sku)

    def quantity(self, ids: ShopIds, place: str, quantity: int, **more: Any) -> dict[str, Any]:
        entry = {"inventoryItemId": ids.item, "locationId": self.locations[place]}
        return {**entry, "quantity": quantity, "changeFromQuantity": None, **more}

    def set_stock(self, *quantities: dict[str, Any], key: str = "k", **more: Any) -> Any:
        fields = {"name": "available", "reason": "correction", "quantities": quantities, **more}
        return self.do(SET_STOCK, input=fields, key=key)


@pytest.fixture
def open_shop(clock: VirtualClock) -> Callable[..., ShopClient]:
    return lambda **options: ShopClient(clock, **options)


@pytest.fixture
def shop(clock: VirtualClock) -> ShopClient:
    return ShopClient(clock)
