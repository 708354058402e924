"""The worked example of docs/how-to/first-real-shop.md, by its commands, over HTTP.

A merchant has 200 products with prices and details of their own. They rehearse, read the report and
start; then the shop differs from what it was by what the report says, and by nothing else.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.conftest import start_command

from headway import config
from headway.app import build
from headway.clock import SystemClock
from headway.core.limits.transitions import LimitStep
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.shopify.shop import ShopSetup, SimulatedShop
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import serve
from headway_lab.virtual_clock import VirtualClock

Headway = Callable[..., Any]
Process = subprocess.Popen[str]
Snapshot = dict[tuple[str, str, str | None], object]
PLACES = ("Chicago IL", "Dallas Central", "Goodyear AZ", "Miami FL")
OWN_PLACE = "Back room"
SOLD = [f"P-{number:03}" if number % 7 else f"PX-{number:03}" for number in range(200)]
# Twenty of them are not the supplier's, and the supplier has two that the shop does not have.
LISTED, UNKNOWN, NEW = 180, ["UNKNOWN-1", "UNKNOWN-2"], 2
SKUS = SOLD[:LISTED] + UNKNOWN
LIST_PRICE, MARKUP = Decimal("50.00"), Decimal("1.12")
OURS = LIST_PRICE * MARKUP
# What each product is besides a price of its own, by its number modulo 10.
DETAILS: dict[int, dict[str, Any]] = {
    1: {"compare_at": Decimal("99.00")},
    2: {"policy": "CONTINUE"},
    3: {"tracked": False},
    4: {"cost": Decimal("40.00")},
    5: {"status": "DRAFT"},
    6: {"price": OURS},
    7: {"price": OURS * 3},
}
QUICK = {"SYNC_BOEING_RATE_LIMIT_TOKENS": "1000", "SYNC_BOEING_RATE_LIMIT_REFILL": "0"}


class PriceList:
    """A supplier with every part, the same price for all."""

    def lookup(self, sku: str) -> SupplierPart | None:
        """Return a part."""
        stock = dict.fromkeys(PLACES, len(sku) % 3)
        return SupplierPart(
            sku=sku, list_price=LIST_PRICE, net_price=Decimal("40.00"), stock=stock, name="Bolt"
        )


def fill(simulator: ShopifySimulator, setup: ShopSetup) -> None:
    """Put the merchant's products on sale."""
    for number, sku in enumerate(SOLD):
        details = {"price": Decimal("45.00") + number % 20, **DETAILS.get(number % 10, {})}
        stocked = {name: (number + place) % 5 for place, name in enumerate(setup.locations)}
        quantities = {name: stocked[name] for name in (*PLACES[: 1 + number % 4], OWN_PLACE)}
        title = f"My own title {number}"
        simulator.seed_product(setup.domain, sku, quantities=quantities, title=title, **details)
        own = {"tags": ("mine", str(number)), "images": (f"https://img.example/{number}.png",)}
        simulator.edit_product(setup.domain, sku, description="My own words", **own)


def snapshot(shop: SimulatedShop) -> Snapshot:
    """Return all that the shop holds: by variant, field and place."""
    state: Snapshot = {}
    for variant in shop.variants.values():
        product = shop.products[variant.product]
        facts = {
            "sku": variant.sku,
            "price": variant.price,
            "compare_at": variant.compare_at,
            "cost": variant.cost,
            "tracked": variant.tracked,
            "policy": variant.policy,
            "options": variant.options,
            "carried": (variant.weight, variant.origin, variant.tariff_code),
            "status": product.status,
            "texts": (product.title, product.handle, product.vendor, product.description),
            "media": (product.tags, product.images),
            "publish": tuple(product.published),
            "variants": product.variants,
        }
        state |= {(variant.id, name, None): value for name, value in facts.items()}
        for level in shop.levels(variant.item):
            place = shop.locations[level.location].name
            state[variant.id, "stock", place] = level.quantity if level.is_active else None
    return state


def after_report(shop: SimulatedShop, before: Snapshot, report: Any) -> Snapshot:
    """Return what the shop should hold after what a report says; its old values must be true."""
    state = dict(before)
    for row in report["items"]:
        for write in row["writes"] if row["outcome"] != "create" else ():
            (variant,) = shop.by_sku(row["shop_sku"])
            key = variant.id, write["field"], write["location"]
            read: Any = int if write["field"] == "stock" else Decimal
            assert state.get(key) == (None if write["old"] is None else read(write["old"]))
            state[key] = read(write["new"])
    return state


@contextmanager
def outside(simulator: ShopifySimulator) -> Iterator[dict[str, str]]:
    """Serve the supplier and the shop; yield the settings that name them."""
    clock, access = SystemClock(), SignIn()
    supplier = BoeingSimulator(PriceList(), clock, limit=1000, sign_in=access, delay_s=(0, 0))
    with serve(supplier.handle, clock) as parts, serve(simulator.handle, clock) as shops:
        yield {
            "HEADWAY_BOEING_URL": parts.url,
            "HEADWAY_BOEING_CLIENT_ID": access.client_id,
            "HEADWAY_BOEING_CLIENT_SECRET": access.client_secret,
            "HEADWAY_BOEING_USERNAME": access.username,
            "HEADWAY_BOEING_PASSWORD": access.password,
            "HEADWAY_SHOPIFY_URL": f"{shops.url}/{{shop}}",
            **QUICK,
        }


@pytest.fixture
def setup() -> ShopSetup:
    return ShopSetup(
        domain="acme.myshopify.com",
        locations=(*PLACES, OWN_PLACE),
        capacity=20_000,
        restore_per_s=10_000,
        search_lag_s=0,
    )


def bring_in(run: Headway, setup: ShopSetup, folder: Path) -> None:
    """Connect the shop and import its parts, and some that it does not have."""
    (folder / "token").write_text(setup.access_token)
    (folder / "parts.csv").write_text("\n".join(["sku", *SKUS]))
    commands = (
        ("connect", setup.domain, "--seller", "acme", "--token-file", "token"),
        ("import", "parts.csv", "--seller", "acme", "--dry-run"),
        ("import", "parts.csv", "--seller", "acme"),
        ("terms", "acme", "--markup", "12%"),
        ("publish", *(f"NEW-{number}" for number in range(NEW)), "--seller", "acme"),
    )
    for command in commands:
        done = run(*command)
        assert done.code == 0, (command, done.out, done.err)


def let_a_minute_pass(pool: ConnectionPool, settings: dict[str, str]) -> None:
    """Start the supplier's limit two minutes ago: a new one first waits until its past is known."""
    clock = VirtualClock(SystemClock().now() - timedelta(minutes=2))
    app = build(config.load(settings), clock, pool)
    app.limiter.run((app.limit_key,), lambda _states, _now_us: LimitStep(answer=None))


def report_when(run: Headway, process: Process, is_so: Callable[[Any], bool]) -> Any:
    """Ask for the report after each line of a running Headway, until it is so."""
    assert process.stdout is not None
    while not is_so(report := run("rehearse", "acme", "--no-read", "--json").object()):
        line = process.stdout.readline()
        assert line, "it ended"
    return report


def test_a_merchant_rehearses_and_starts_and_only_what_the_report_lists_is_written(
    on_database: Headway, database: str, pool: ConnectionPool, setup: ShopSetup, tmp_path: Path
) -> None:
    simulator = ShopifySimulator(SystemClock(), shops=[setup], delay_s=(0, 0), index_lag_s=0)
    fill(simulator, setup)
    shop = simulator.shop(setup.domain)
    before = snapshot(shop)
    with outside(simulator) as settings:

        def run(*arguments: str) -> Any:
            return on_database(*arguments, **settings)

        bring_in(run, setup, tmp_path)
        assert run("trigger", *SKUS).code == 0
        let_a_minute_pass(pool, settings)
        # The key that the token is encrypted with is in the folder of the commands.
        place = {"DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path / "none")}
        with start_command("run", "--port", "0", **place, **settings) as process:
            report_when(run, process, lambda report: not report["blocks"])
            shown = run("rehearse", "acme")
            assert "in rehearsal, nothing is written" in shown.out
            report = run("rehearse", "acme", "--json").object()
            assert snapshot(shop) == before
            assert report["version"].partition("-")[2] in shown.out
            start = ("rehearse", "acme", "--start", report["version"], "--reason", "checked")
            assert run(*start).code == 0
            # The log has an entry for each, but one for all that a new product carries.
            rows = [row for row in report["items"] if row["outcome"] != "create"]
            writes = sum(len(row["writes"]) for row in rows) + NEW
            while len(simulator.effects) < writes:
                assert process.stdout is not None
                process.stdout.readline()
            report_when(run, process, lambda later: not later["summary"]["fields"])
    counts = report["summary"]["outcomes"]
    assert counts.pop("write") + counts.pop("held") == LISTED
    assert counts == {"create": NEW, "unmatched": len(UNKNOWN)}
    after = snapshot(shop)
    created = {key for key in after if shop.variants[key[0]].sku.startswith("NEW-")}
    assert len({key[0] for key in created}) == NEW
    for key in created:
        del after[key]
    assert after == after_report(shop, before, report)
    assert after != before
