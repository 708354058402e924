"""A simulated shop, the walks over it, and a warehouse in memory that takes what they bring."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from headway.clock import Clock
from headway.core.accounts.jobs import Account, DataKind
from headway.core.accounts.pagination import RUN, Page, PageRequest, PageStep
from headway.core.accounts.warehouse import Order, Unreadable
from headway.core.catalog.listings import SellerId
from headway.providers.shopify.pagination import paginator_of
from headway.providers.shopify.platform import ShopifyPlatform
from headway.providers.vault import Vault
from headway_lab.platforms import SHOPIFY
from headway_lab.simulators.shopify.simulator import ShopifySimulator

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
DOMAIN = "one.myshopify.com"
ACCOUNT = Account(id="1", user_id=SellerId("seller"), platform=SHOPIFY, shop=DOMAIN)
PARTS = {"line_items": "line_items", "shipments": "shipments", "refunds": "refunds"}


@dataclass(kw_only=True)
class Warehouse:
    """Tables as the store has them: an order that comes again replaces all that it held."""

    tables: dict[str, dict[Any, dict[str, Any]]] = field(
        default_factory=lambda: {
            name: {} for name in ("orders", "listings", "customers", "payments", *PARTS)
        }
    )
    seen_at: dict[str, datetime] = field(default_factory=dict)
    odd: list[Unreadable] = field(default_factory=list)

    def take(self, page: Page, step: PageStep, now: datetime) -> None:
        for order in page.records.orders:
            self._take_order(order)
        for table in ("listings", "customers", "payments"):
            for record in getattr(page.records, table):
                row = asdict(record)
                self.tables[table][row.pop("external_id")] = row
        self.seen_at |= {listing.external_id: now for listing in page.records.listings}
        self.odd += page.records.unreadable
        if step.gone_since is not None:
            for gone in [key for key, at in self.seen_at.items() if at < step.gone_since]:
                del self.seen_at[gone], self.tables["listings"][gone]

    def _take_order(self, order: Order) -> None:
        row = asdict(order)
        own = row.pop("external_id")
        for table, name in PARTS.items():
            parts = row.pop(name)
            kept = {key: row for key, row in self.tables[table].items() if key[0] != own}
            self.tables[table] = kept | {(own, part.pop("external_id")): part for part in parts}
        self.tables["orders"][own] = row


@dataclass(kw_only=True)
class Counter:
    """A simulated shop, a connector in front of it, and what was pulled so far."""

    shops: ShopifySimulator
    account: ShopifyPlatform
    clock: Clock
    warehouse: Warehouse = field(default_factory=Warehouse)
    cursors: dict[Any, Any] = field(default_factory=dict)
    requests: list[PageRequest] = field(default_factory=list)

    def pull(
        self, kind: DataKind, *, is_backfill: bool = False, wanted: Sequence[str] = ()
    ) -> PageStep:
        """Make one run, to its end."""
        walk = paginator_of(kind, is_backfill=is_backfill)
        cursor = walk.begin(self.cursors.get((kind, is_backfill), {}), self.clock.now(), wanted)
        while True:
            ask = walk.ask(cursor)
            self.requests.append(ask)
            page = self.account.read(ask)
            cost = self.account.cost
            assert cost is not None
            assert cost.requested == self.account.price(ask) <= 1000
            step = walk.advance(cursor, page, self.clock.now())
            self.warehouse.take(page, step, self.clock.now())
            cursor = step.cursor
            self.clock.sleep(10)  # the bucket fills again
            if step.is_done:
                assert RUN not in cursor
                self.cursors[kind, is_backfill] = cursor
                return step

    def pull_all(self) -> None:
        for kind in (DataKind.ORDERS, DataKind.LISTINGS, DataKind.CUSTOMERS):
            self.pull(kind)

    def differences(self, **values: Any) -> dict[str, Any]:
        """Return where the warehouse differs from what the shop holds."""
        truth = self.shops.truth(DOMAIN, **values)
        return {
            f"{table} {key}": (rows.get(key), truth[table].get(key))
            for table, rows in self.warehouse.tables.items()
            for key in rows.keys() | truth[table].keys()
            if rows.get(key) != truth[table].get(key)
        }
