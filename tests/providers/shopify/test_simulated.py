"""The shop's connector and the simulated shop agree, in process and over real HTTP."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import Clock, ScaledClock
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.push_planning import CALL_POINTS, FIND_MAX, LEVEL_POINTS, READ_POINTS
from headway.core.catalog.storefront import (
    Creation,
    Gid,
    PriceWrite,
    ProductStatus,
    Shop,
    Shown,
    StatusWrite,
    StockWrite,
    WriteVerdict,
)
from headway.errors import (
    PermanentError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)
from headway.providers.shopify import queries
from headway.providers.shopify.bulk import price_lines
from headway.providers.shopify.storefront import (
    ShopAccess,
    ShopifyStorefront,
    shop_limit_key,
    store_tokens,
)
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.simulators.shopify.schema import Operation, read_document
from headway_lab.simulators.shopify.shop import ShopIds, ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
DOMAIN = "one.myshopify.com"
SHOP = Shop(id="1", user_id=SellerId("seller"), domain=DOMAIN)
APP = ShopAccess(client_id="sim-app", client_secret="sim-app-secret")
SCOPE = shop_limit_key("sim-app", DOMAIN)
ODD = 'WF "1"/2=K3 (x): \\y'


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A simulated shop, a connector in front of it, and the clock of both."""

    shops: ShopifySimulator
    shop: ShopifyStorefront
    shelf: Credentials
    clock: Clock

    def seed(self, sku: str, **details: object) -> ShopIds:
        return self.shops.seed_product(DOMAIN, sku, **details)

    def locations(self) -> tuple[Gid, Gid]:
        places = self.shop.details().locations
        return places["Dallas"], places["Chicago"]

    def see(self, ids: ShopIds) -> Shown | None:
        [shown] = self.shop.read([Gid(ids.variant)], locations=2)
        return shown


@pytest.fixture(params=("in process", "sockets"))
def stage(request: pytest.FixtureRequest, pool: ConnectionPool) -> Iterator[Stage]:
    is_real = request.param == "sockets"
    clock = ScaledClock(20, start=START) if is_real else VirtualClock(START)
    shops = ShopifySimulator(clock, shops=[ShopSetup(domain=DOMAIN)])
    shelf = Credentials(pool)
    store_tokens(shelf, VAULT, SCOPE, clock=clock, access="sim-static-token")
    with contextlib.ExitStack() as stack:
        url, transport = "http://shops.test/{shop}", SimTransport(shops.handle, clock)
        if is_real:
            url = stack.enter_context(serve(shops.handle, clock)).url + "/{shop}"
            transport = None
        shop = ShopifyStorefront(
            SHOP,
            url=url,
            access=APP,
            token_store=shelf,
            vault=VAULT,
            clock=clock,
            transport=transport,
        )
        stack.enter_context(contextlib.closing(shop))
        yield Stage(shops=shops, shop=shop, shelf=shelf, clock=clock)


def stock(ids: ShopIds, place: Gid, quantity: int, change_from: int | None) -> StockWrite:
    return StockWrite(
        sku=Sku("any"),
        item=Gid(ids.item),
        location=place,
        quantity=quantity,
        change_from=change_from,
    )


def price(ids: ShopIds, amount: str) -> PriceWrite:
    return PriceWrite(
        sku=Sku("any"),
        product=Gid(ids.product),
        variant=Gid(ids.variant),
        price=Decimal(amount),
        compare_at=Decimal("99.00"),
        cost=Decimal("9.50"),
    )


GONE = ShopIds(
    product="gid://shopify/Product/9999999",
    variant="gid://shopify/ProductVariant/9999999",
    item="gid://shopify/InventoryItem/9999999",
)


def test_the_locations_of_a_shop_are_found_by_name(stage: Stage) -> None:
    assert set(stage.shop.details().locations) == {"Dallas", "Chicago"}
    assert stage.shop.cost is not None
    assert stage.shop.cost.capacity == 2000


def test_a_sku_is_found_exactly_whatever_it_holds(stage: Stage) -> None:
    ids = stage.seed(ODD, price=Decimal("10.00"), quantities={"Dallas": 3})
    stage.seed("WF 1 2 K3 x y")
    variants = stage.shop.find([ODD, "WF1"], locations=2)
    assert set(variants.shown) == {ODD}
    [shown] = variants.shown[ODD]
    assert (shown.ids.variant, shown.price) == (ids.variant, Decimal("10.00"))
    assert shown.quantities == {stage.locations()[0]: 3}
    assert variants.unsure == frozenset()


def test_stock_is_set_and_an_unknown_stale_or_unstocked_item_is_reported(stage: Stage) -> None:
    dallas, chicago = stage.locations()
    ids = stage.seed("A", quantities={"Dallas": 3})
    other = stage.seed("B", quantities={"Dallas": 3})
    [result] = stage.shop.set_stock([stock(ids, dallas, 7, 3)], key="k1")
    assert result.verdict is WriteVerdict.DONE
    shown = stage.see(ids)
    assert shown is not None
    assert shown.quantities == {dallas: 7}
    for wrong, verdict in (
        (stock(ids, dallas, 8, 3), WriteVerdict.STALE),
        (stock(GONE, dallas, 8, None), WriteVerdict.UNKNOWN),
        (stock(ids, chicago, 8, None), WriteVerdict.UNSTOCKED),
    ):
        writes = [stock(other, dallas, 9, 3), wrong]
        results = stage.shop.set_stock(writes, key=f"k {verdict}")
        assert [result.verdict for result in results] == [WriteVerdict.AGAIN, verdict]
    assert stage.shops.shown(DOMAIN, "B").quantities["Dallas"] == 3


def test_a_write_sent_twice_with_one_key_is_done_once(stage: Stage) -> None:
    dallas, _ = stage.locations()
    ids = stage.seed("A", quantities={"Dallas": 3})
    for _ in range(2):
        [result] = stage.shop.set_stock([stock(ids, dallas, 7, 3)], key="k1")
        assert result.verdict is WriteVerdict.DONE
    assert stage.shops.double_writes() == []
    assert len(stage.shops.effects) == 1


def test_an_item_is_stocked_where_it_was_not(stage: Stage) -> None:
    _, chicago = stage.locations()
    ids = stage.seed("A", quantities={"Dallas": 3})
    assert stage.shop.activate(stock(ids, chicago, 4, None), key="k").verdict is WriteVerdict.DONE
    assert stage.shops.shown(DOMAIN, "A").quantities == {"Dallas": 3, "Chicago": 4}
    again = stage.shop.activate(stock(ids, chicago, 5, None), key="k2")
    assert again.verdict is WriteVerdict.STALE
    assert (
        stage.shop.activate(stock(GONE, chicago, 5, None), key="k3").verdict is WriteVerdict.UNKNOWN
    )


def test_prices_are_set_each_by_itself(stage: Stage) -> None:
    first, second = stage.seed("A"), stage.seed("B")
    results = stage.shop.set_prices(
        [price(first, "11.00"), price(GONE, "1.00"), price(second, "12")]
    )
    assert [result.verdict for result in results] == [
        WriteVerdict.DONE,
        WriteVerdict.UNKNOWN,
        WriteVerdict.DONE,
    ]
    view = stage.shops.shown(DOMAIN, "B")
    assert (view.price, view.compare_at, view.cost, view.tracked) == (
        Decimal("12.00"),
        Decimal("99.00"),
        Decimal("9.50"),
        True,
    )


def test_a_status_is_set_and_a_product_that_is_gone_is_reported(stage: Stage) -> None:
    ids = stage.seed("A")
    writes = [
        StatusWrite(sku=Sku("A"), product=Gid(listing.product), status=ProductStatus.DRAFT)
        for listing in (ids, GONE)
    ]
    results = stage.shop.set_status(writes)
    assert [result.verdict for result in results] == [WriteVerdict.DONE, WriteVerdict.UNKNOWN]
    assert stage.shops.shown(DOMAIN, "A").status == "DRAFT"


def test_a_product_is_made_once_however_often_it_is_asked_for(stage: Stage) -> None:
    dallas, chicago = stage.locations()
    creation = Creation(
        sku=Sku(ODD),
        shop_sku=ODD,
        handle="wf-1",
        title="A <part>",
        description_html="5 &lt; 6",
        vendor="Boeing",
        price=Decimal("11.00"),
        compare_at=None,
        cost=Decimal("9.50"),
        quantities={dallas: 5, chicago: 0},
    )
    first, second = stage.shop.create(creation), stage.shop.create(creation)
    assert first.verdict is WriteVerdict.DONE
    assert first.shown is not None
    assert first.shown.quantities == {dallas: 5, chicago: 0}
    assert (first.shown.sku, first.shown.status) == (ODD, ProductStatus.ACTIVE)
    assert second.verdict is WriteVerdict.STALE  # it is looked up again, and found
    assert "handle" in second.reason.lower()
    assert len(stage.shops.shop(DOMAIN).by_sku(ODD)) == 1


def test_what_is_gone_is_read_as_gone(stage: Stage) -> None:
    ids = stage.seed("A")
    assert stage.see(ids) is not None
    stage.shops.delete(DOMAIN, "A")
    assert stage.see(ids) is None


def test_prices_in_bulk_are_uploaded_run_found_and_answered_line_by_line(stage: Stage) -> None:
    ids = [stage.seed(f"SKU {number}") for number in range(30)]
    writes = [price(listing, f"{20 + at}.00") for at, listing in enumerate(ids)] + [
        price(GONE, "1.00")
    ]
    target = stage.shop.stage_upload("prices.jsonl")
    path = stage.shop.upload(target, price_lines(writes))
    assert path == target.path
    key = "123e4567-e89b-12d3-a456-426614174000"
    started = stage.shop.run_bulk(path, key=key)
    assert started is not None
    operation = stage.shop.find_bulk(key)
    assert operation is not None
    assert (operation.id, operation.is_over) == (started, False)
    assert stage.shop.find_bulk("another-key") is None
    stage.clock.sleep(5)
    over = stage.shop.bulk_status(started)
    assert (over.status, over.is_over, over.count) == ("COMPLETED", True, 31)
    assert over.url is not None
    results = stage.shop.bulk_result(over.url, writes)
    assert [result.verdict for result in results] == [WriteVerdict.DONE] * 30 + [
        WriteVerdict.UNKNOWN
    ]
    assert stage.shops.shown(DOMAIN, "SKU 29").price == Decimal("49.00")


def test_a_file_that_is_not_there_is_refused_and_too_many_at_once_is_not_now(stage: Stage) -> None:
    with pytest.raises(PermanentError, match="could not be found"):
        stage.shop.run_bulk("tmp/none", key="an-intent-of-ours")
    ids = stage.seed("A")
    path = stage.shop.upload(stage.shop.stage_upload("p.jsonl"), price_lines([price(ids, "1")]))
    started = [stage.shop.run_bulk(path, key=f"intent-{number:04}") for number in range(6)]
    assert started[0] is not None
    if isinstance(stage.clock, VirtualClock):
        assert started[5] is None


def test_the_hosts_of_files_never_see_a_token(stage: Stage) -> None:
    requests: list[tuple[str, dict[str, str]]] = []
    handle = stage.shops.handle

    def watch(method: str, path: str, headers: dict[str, str], body: bytes) -> object:
        requests.append((path, {name.lower(): value for name, value in headers.items()}))
        return handle(method, path, headers, body)

    clock = VirtualClock(START)
    other = ShopifyStorefront(
        SHOP,
        url="http://shops.test/{shop}",
        access=APP,
        token_store=stage.shelf,
        vault=VAULT,
        clock=clock,
        transport=SimTransport(watch, clock),
    )
    with contextlib.closing(other):
        other.upload(other.stage_upload("p.jsonl"), b"{}\n")
        with pytest.raises(PermanentError, match="404"):
            other.bulk_result("http://shops.test/one.myshopify.com/bulk/1.jsonl", [])
    shown = {
        path.rpartition("myshopify.com")[2].split("/")[1]: "sim-static" in str(headers)
        for path, headers in requests
    }
    assert shown == {"admin": True, "staged": False, "bulk": False}


def test_a_file_is_never_sent_to_an_address_of_another_kind(stage: Stage) -> None:
    for url in ("ftp://x.test/a", "file:///etc/passwd", "nonsense", "http://", "http://["):
        with pytest.raises(UnreadableError, match="no usable address"):
            stage.shop.bulk_result(url, [])


def test_an_upload_that_is_refused_is_no_refusal_of_the_shop(stage: Stage) -> None:
    target = stage.shop.stage_upload("p.jsonl")
    broken = type(target)(url=target.url, parameters=(("key", "another"),))
    with pytest.raises(PermanentError, match="stage it again"):
        stage.shop.upload(broken, b"{}\n")
    assert stage.shop.details()


def test_an_empty_bucket_says_how_long_to_wait(stage: Stage) -> None:
    stage.shops.faults = ShopFaultPlan(rates={"throttle": 1.0})
    with pytest.raises(ThrottledError) as raised:
        stage.shop.details()
    assert raised.value.retry_after_s is not None
    assert 0 < raised.value.retry_after_s <= 20
    assert stage.shop.cost is not None
    assert stage.shop.cost.actual is None


@pytest.mark.parametrize(
    ("fault", "error"),
    (
        ("lost-reply", TimedOutError),
        ("lost-request", TimedOutError),
        ("error", TransientError),
        ("html", UnreadableError),
    ),
)
def test_a_fault_of_the_shop_becomes_one_error_after_one_request(
    stage: Stage, fault: str, error: type[Exception]
) -> None:
    ids = stage.seed("A", quantities={"Dallas": 3})
    dallas, _ = stage.locations()
    before = stage.shops.requests
    stage.shops.faults = ShopFaultPlan(rates={fault: 1.0})
    with pytest.raises(TransientError) as raised:
        stage.shop.set_stock([stock(ids, dallas, 7, 3)], key="k")
    assert type(raised.value) is error
    assert stage.shops.requests == before + 1


def test_an_expiring_pair_is_refreshed_and_goes_on(stage: Stage) -> None:
    stage.shops.tokens(DOMAIN).revoke()
    with pytest.raises(UnauthorizedError):
        stage.shop.details()
    store_tokens(
        stage.shelf,
        VAULT,
        SCOPE,
        clock=stage.clock,
        access="long-dead",
        expires_at=stage.clock.now() - timedelta(seconds=1),
        refresh="sim-refresh-token",
    )
    is_virtual = isinstance(stage.clock, VirtualClock)
    for _ in range(3 if is_virtual else 1):
        assert stage.shop.needs_token()
        assert stage.shop.refresh_token()
        assert stage.locations()
        stage.clock.sleep(3600 if is_virtual else 0)


def test_a_shop_that_fell_forward_leaves_a_write_open(pool: ConnectionPool) -> None:
    clock = VirtualClock(START)
    shops = ShopifySimulator(clock, shops=[ShopSetup(domain=DOMAIN)], version="2026-07")
    shelf = Credentials(pool)
    store_tokens(shelf, VAULT, SCOPE, clock=clock, access="sim-static-token")
    transport = SimTransport(shops.handle, clock)
    shop = ShopifyStorefront(
        SHOP, access=APP, token_store=shelf, vault=VAULT, clock=clock, transport=transport
    )
    ids = shops.seed_product(DOMAIN, "A")
    with contextlib.closing(shop), pytest.raises(UnreadableError, match=r"2026-07.*upgrade"):
        shop.set_prices([price(ids, "11.00")])
    assert shops.shown(DOMAIN, "A").price == Decimal("11.00"), "it was done all the same"


@pytest.mark.parametrize("levels", (1, 2, 3, 5, 10, 20, 50, 100, 250))
def test_a_search_costs_no_more_than_a_push_reserves(levels: int) -> None:
    most = max(1, min(FIND_MAX, CALL_POINTS // (2 * (READ_POINTS + LEVEL_POINTS * levels))))
    document = queries.find([f"S{number}" for number in range(most)], levels=levels)
    operation = read_document(document.text)
    assert isinstance(operation, Operation)
    assert operation.cost(document.variables) <= CALL_POINTS
