"""The tutorials, word for word: the test takes commands, files and output from the pages."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.conftest import Headway
from tests.cli.test_first_shop import QUICK, let_a_minute_pass
from tests.cli.tutorial import Reader, environment_of, missing_from, part_of, steps_of

from headway.clock import SystemClock
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.shopify.apps import OwnApp
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import serve

FIRST_SHOP, HUNDRED = "first-shop.md", "hundred-sellers.md"
ACME = "acme.myshopify.com"


class Parts:
    """A supplier that has every part, at one price."""

    def lookup(self, sku: str) -> SupplierPart | None:
        """Return a part."""
        price, stock = Decimal("50.00"), {"Dallas Central": 5, "Miami FL": 2}
        return SupplierPart(sku=sku, list_price=price, net_price=price, stock=stock, name="Bolt")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_the_demo_of_the_first_tutorial_goes_as_it_says(
    headway_in_process: Headway, data_dir: Path, tmp_path: Path, stack: ExitStack
) -> None:
    reader = Reader(
        run=headway_in_process, folder=tmp_path, stack=stack, environment=environment_of(data_dir)
    )
    reader.follow(part_of(FIRST_SHOP, "Part 1"))
    assert len(reader.done) >= 11


def serve_supplier(stack: ExitStack) -> dict[str, str]:
    """Serve a supplier that accepts the credentials of the tutorials; return where it is."""
    access = SignIn(
        client_id="your-client-id",
        client_secret="your-client-secret",
        username="your-username",
        password="your-password",
    )
    supplier = BoeingSimulator(Parts(), SystemClock(), limit=1000, sign_in=access, delay_s=(0, 0))
    return {
        "HEADWAY_BOEING_URL": stack.enter_context(serve(supplier.handle, SystemClock())).url,
        **QUICK,
    }


def own_shop(stack: ExitStack) -> tuple[ShopifySimulator, dict[str, str]]:
    """Serve a supplier and the reader's shop; return the shop, and where both are."""
    clock = SystemClock()
    texts = [step.content for step in steps_of(part_of(FIRST_SHOP, "Part 2")) if step.file]
    app = OwnApp(client_id="your-app-id", client_secret=texts[0].strip())
    setup = ShopSetup(
        domain=ACME, locations=("Main warehouse", "Miami shop"), own_app=app, search_lag_s=0
    )
    shops = ShopifySimulator(clock, shops=[setup], delay_s=(0, 0), index_lag_s=0)
    for number, sku in enumerate(texts[1].split()[1:]):
        stock = dict.fromkeys(setup.locations, number)
        shops.seed_product(ACME, sku, quantities=stock, price=Decimal(10 + number * 10), title=sku)
    server = stack.enter_context(serve(shops.handle, clock))
    return shops, {**serve_supplier(stack), "HEADWAY_SHOPIFY_URL": f"{server.url}/{{shop}}"}


def test_the_readers_own_shop_is_taken_over_as_the_first_tutorial_says(
    headway_in_process: Headway,
    database: str,
    pool: ConnectionPool,
    tmp_path: Path,
    stack: ExitStack,
) -> None:
    shops, addresses = own_shop(stack)
    environment = environment_of(tmp_path / "data", DATABASE_URL=database, **addresses)

    def wait_a_minute() -> None:
        let_a_minute_pass(pool, environment)

    reader = Reader(
        run=headway_in_process,
        folder=tmp_path,
        stack=stack,
        environment=environment,
        before={"run": wait_a_minute},
    )
    reader.follow(part_of(FIRST_SHOP, "Part 2"))
    assert not (tmp_path / "app-secret").exists()
    prices = {variant.sku: variant.price for variant in shops.shop(ACME).variants.values()}
    assert prices["BACB30NR4K3"] == Decimal("56.00")
    assert prices["WF330523=7A"] == Decimal(10), "a price that is held was written"


def test_a_server_with_a_hundred_sellers_comes_up_as_the_second_tutorial_says(
    headway_in_process: Headway,
    database: str,
    pool: ConnectionPool,
    tmp_path: Path,
    stack: ExitStack,
) -> None:
    clock = SystemClock()
    sellers = [f"shop-{number:03}" for number in range(1, 101)]
    setups = [
        ShopSetup(
            domain=f"{seller}.myshopify.com",
            locations=("Main warehouse",),
            access_token=f"token-{seller}",
        )
        for seller in sellers
    ]
    (tmp_path / "tokens").mkdir()
    for seller, setup in zip(sellers, setups, strict=True):
        (tmp_path / "tokens" / seller).write_text(setup.access_token)
    shops = ShopifySimulator(clock, shops=setups, delay_s=(0, 0))
    server = stack.enter_context(serve(shops.handle, clock))
    environment = environment_of(
        tmp_path / "data",
        DATABASE_URL=database,
        HEADWAY_SECRET_KEY=urlsafe_b64encode(bytes(32)).decode(),
        HEADWAY_SHOPIFY_URL=f"{server.url}/{{shop}}",
        **serve_supplier(stack),
    )
    reader = Reader(
        run=headway_in_process,
        folder=tmp_path,
        stack=stack,
        environment=environment,
        before={"run": lambda: let_a_minute_pass(pool, environment)},
    )
    reader.follow(part_of(HUNDRED, "The server"))
    assert not shops.effects, "a shop in rehearsal was written"


@pytest.mark.parametrize(
    ("output", "line", "is_there"),
    (
        ("held           6 keep their price", "held 4 keep", True),
        ("held           6 keep their price", "held 4 raise", False),
        ("law  name\nL1   limit   ok   1,056 calls replayed", "L1 limit ok 7 calls", True),
        ("the page: http://127.0.0.1:4/login/ab", "the page: http://…/login/…", True),
        ("the page: http://127.0.0.1:41/login/", "the page: http://127.0.0.1:8650/login/", True),
        ("WF330523=7A  acme", "WF330524=7A acme", False),
        ("start 20261118T045512-9f3a1c2b7d04", "start 20261119T201630-e1c690ab402d", True),
        ("start again", "start 20261119T201630-e1c690ab402d", False),
    ),
)
def test_output_matches_a_shown_line_but_for_its_numbers(
    output: str, line: str, *, is_there: bool
) -> None:
    assert (missing_from(output, (line,)) is None) is is_there
