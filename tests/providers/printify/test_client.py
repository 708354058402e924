"""Printify's connector and its walks against the simulated Printify, in process and over HTTP."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import Clock, ScaledClock
from headway.core.accounts.jobs import Account, DataKind
from headway.core.accounts.pagination import Page, PageRequest
from headway.core.catalog.listings import SellerId
from headway.errors import (
    AppRefusedError,
    PermanentError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)
from headway.providers.printify.client import PrintifyPlatform
from headway.providers.printify.pagination import paginator_of
from headway.providers.token_store import token_key
from headway.providers.tokens import store_tokens
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.platforms import PRINTIFY
from headway_lab.simulators.faults import FaultPlan
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 3, 1, tzinfo=UTC)
VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
FIRST = PageRequest(what="orders", values={"page": 1, "limit": 10})


@dataclass(kw_only=True)
class Stage:
    """A simulated Printify, a connector in front of one of its shops, and the clock of both."""

    printify: PrintifySimulator
    platform: PrintifyPlatform
    shelf: Credentials
    clock: Clock
    shop: int
    token: str

    def connect(self, access: str, refresh: str | None = None) -> None:
        store_tokens(
            self.shelf,
            VAULT,
            token_key(PRINTIFY, str(self.shop)),
            clock=self.clock,
            access=access,
            refresh=refresh,
        )

    def worker(self, transport: SimTransport, **options: Any) -> PrintifyPlatform:
        return make(
            self.shop,
            url="http://printify.test",
            token_store=self.shelf,
            clock=self.clock,
            transport=transport,
            **options,
        )

    def walk(self, kind: DataKind, *, is_backfill: bool, between: Any = None) -> list[Page]:
        walk, pages = paginator_of(kind, is_backfill=is_backfill), list[Page]()
        cursor = walk.begin({}, self.clock.now(), ())
        while True:
            pages.append(self.platform.read(walk.ask(cursor)))
            step = walk.advance(cursor, pages[-1], self.clock.now())
            if step.is_done:
                return pages
            cursor = step.cursor
            if between is not None:
                between()


def make(shop: int, *, app_id: str = "sim-printify-app", **options: Any) -> PrintifyPlatform:
    account = Account(id="1", user_id=SellerId("s"), platform=PRINTIFY, shop=str(shop))
    return PrintifyPlatform(account, app_id=app_id, vault=VAULT, **options)


@pytest.fixture(params=("in process", "sockets"))
def stage(request: pytest.FixtureRequest, pool: ConnectionPool) -> Iterator[Stage]:
    is_real = request.param == "sockets"
    with open_stage(pool, ScaledClock(20, start=START) if is_real else VirtualClock(START)) as made:
        yield made


@contextlib.contextmanager
def open_stage(pool: ConnectionPool, clock: Clock, **options: Any) -> Iterator[Stage]:
    printify = PrintifySimulator(clock, **options)
    shop = printify.add_shop(title="Prints")
    with contextlib.ExitStack() as stack:
        url, transport = "http://printify.test", SimTransport(printify.handle, clock)
        if clock.is_real:
            url = stack.enter_context(serve(printify.handle, clock)).url
            transport = None
        shelf = Credentials(pool)
        platform = make(shop, url=url, token_store=shelf, clock=clock, transport=transport)
        stack.callback(platform.close)
        token = printify.personal_token()
        stage = Stage(
            printify=printify, platform=platform, shelf=shelf, clock=clock, shop=shop, token=token
        )
        stage.connect(token)
        yield stage


@pytest.fixture
def virtual(pool: ConnectionPool) -> Iterator[Stage]:
    with open_stage(pool, VirtualClock(START)) as made:
        yield made


def rows_of(pages: list[Page]) -> dict[str, dict[Any, dict[str, Any]]]:
    """Return what the pages brought, by the warehouse's tables and keys."""
    tables: dict[str, dict[Any, dict[str, Any]]] = {
        name: {} for name in ("orders", "line_items", "shipments", "listings", "customers")
    }
    for page in pages:
        assert not page.records.unreadable
        for listing in page.records.listings:
            tables["listings"][listing.external_id] = asdict(listing)
        for customer in page.records.customers:
            tables["customers"][customer.external_id] = asdict(customer)
        for order in page.records.orders:
            row = asdict(order)
            for table in ("line_items", "shipments"):
                for part in row.pop(table):
                    key = (order.external_id, part["external_id"])
                    tables[table][key] = {**part, "order_id": order.external_id}
            tables["orders"][order.external_id] = row
    return tables


def same(tables: Any, truth: Any) -> bool:
    """Return True if the rows equal the truth in the columns that the truth has."""
    return {
        table: {
            key: {name: row[name] for name in truth[table].get(key, row)}
            for key, row in rows.items()
        }
        for table, rows in tables.items()
    } == truth


def test_a_whole_walk_brings_the_shops_truth_row_by_row(stage: Stage) -> None:
    printify, shop = stage.printify, stage.shop
    for _ in range(60):
        printify.add_product(shop)
    for number in range(34):
        order = printify.place_order(shop)
        for _ in range(number % 6):
            printify.advance(shop, order)
        if number % 7 == 0:
            printify.cancel(shop, order)
        if number % 6 == 5:
            printify.deliver(shop, order)
    pages = stage.walk(DataKind.ORDERS, is_backfill=True)
    pages += stage.walk(DataKind.LISTINGS, is_backfill=False)
    assert same(rows_of(pages), printify.truth(shop))
    assert len(pages) == 4 + 2


def test_nothing_is_missed_while_products_vanish_between_pages(virtual: Stage) -> None:
    printify, shop = virtual.printify, virtual.shop
    for _ in range(260):
        printify.add_product(shop)

    def vanish() -> None:
        for product in printify.shop(shop).products()[-3:]:
            printify.remove_product(shop, product)

    pages = virtual.walk(DataKind.LISTINGS, is_backfill=False, between=vanish)
    listings = rows_of(pages)["listings"]
    assert set(printify.truth(shop)["listings"]) <= set(listings)


def test_a_wanted_order_is_read_by_itself_and_one_that_is_gone_is_missing(
    stage: Stage,
) -> None:
    order = stage.printify.place_order(stage.shop)
    page = stage.platform.read(PageRequest(what="order", values={"id": order}))
    assert [order.external_id for order in page.records.orders] == [order]
    assert len(page.records.customers) == 1
    page = stage.platform.read(PageRequest(what="order", values={"id": "no/such order"}))
    assert page == Page(missing=("no/such order",))


def test_an_order_is_open_until_it_is_delivered_or_a_month_has_passed(virtual: Stage) -> None:
    printify, shop = virtual.printify, virtual.shop
    delivered, silent, cancelled, waiting = (printify.place_order(shop) for _ in range(4))
    for order in (delivered, silent):
        while printify.advance(shop, order) != "fulfilled":
            pass
    printify.deliver(shop, delivered)
    printify.cancel(shop, cancelled)

    def open_now() -> set[str]:
        return {
            order.external_id
            for order in virtual.platform.read(FIRST).records.orders
            if order.is_open
        }

    assert open_now() == {silent, waiting}
    virtual.clock.sleep(timedelta(days=31).total_seconds())
    assert open_now() == {waiting}


def test_the_shops_of_an_account_are_named_with_its_smallest_id(stage: Stage) -> None:
    sister = stage.printify.add_shop(title="Sister")
    stage.printify.add_shop(account="other")
    shops = stage.platform.list_shops()
    assert [(shop.id, shop.title, shop.owner_id) for shop in shops] == [
        (str(stage.shop), "Prints", str(stage.shop)),
        (str(sister), "Sister", str(stage.shop)),
    ]


def test_the_limit_is_the_owners(stage: Stage) -> None:
    assert stage.platform.keys == (f"printify:{stage.shop}",)
    assert stage.platform.day_key is None
    assert stage.platform.price(FIRST) == 1
    assert (stage.platform.observations, stage.platform.cost) == ({}, None)


def test_a_call_too_many_is_a_throttle_without_a_time(pool: ConnectionPool) -> None:
    with open_stage(pool, VirtualClock(START), limit=2) as stage:
        for _ in range(2):
            stage.platform.read(FIRST)
        with pytest.raises(ThrottledError) as caught:
            stage.platform.read(FIRST)
    assert caught.value.retry_after_s is None
    assert caught.value.status == 429


def test_a_personal_token_that_is_revoked_is_kept_until_the_connection_ends(
    stage: Stage,
) -> None:
    stage.printify.revoke()
    with pytest.raises(UnauthorizedError, match="revoked, or is a year old") as caught:
        stage.platform.read(FIRST)
    assert caught.value.status == 401
    assert stage.token not in str(caught.value)
    assert not stage.platform.needs_token()
    with pytest.raises(UnauthorizedError, match="revoked, or is a year old") as caught:
        stage.platform.read(FIRST)
    assert caught.value.status == 401, "it was asked again"


def test_an_apps_token_is_refreshed_before_it_dies_and_once(virtual: Stage) -> None:
    virtual.connect(*virtual.printify.grant())
    assert not virtual.platform.needs_token()
    virtual.clock.sleep(3600)
    assert virtual.platform.needs_token()
    assert virtual.platform.refresh_token(send_by_s=virtual.clock.monotonic() + 1)
    assert not virtual.platform.refresh_token()
    virtual.platform.read(FIRST)
    virtual.clock.sleep(5.9 * 3600)
    assert not virtual.platform.needs_token(), "Printify reports that it lives six hours"
    virtual.clock.sleep(0.1 * 3600)
    assert virtual.platform.needs_token()


def test_an_apps_token_that_is_refused_is_refreshed(virtual: Stage) -> None:
    virtual.connect(*virtual.printify.grant())
    virtual.printify.revoke(keeps_refresh=True)
    with pytest.raises(UnauthorizedError, match="another is fetched"):
        virtual.platform.read(FIRST)
    assert virtual.platform.needs_token()
    assert virtual.platform.refresh_token()
    virtual.platform.read(FIRST)


def test_a_grant_that_is_over_needs_a_person(virtual: Stage) -> None:
    access, refresh = virtual.printify.grant()
    virtual.connect(access, refresh)
    virtual.printify.revoke()
    virtual.clock.sleep(3600)
    with pytest.raises(UnauthorizedError, match="no longer lets us in") as caught:
        virtual.platform.refresh_token()
    assert refresh not in str(caught.value)
    assert virtual.platform.needs_token(), "one refusal may be a mistake"


def test_it_is_too_late_to_refresh_once_the_permit_is_over(virtual: Stage) -> None:
    virtual.connect(*virtual.printify.grant())
    virtual.clock.sleep(3600)
    assert not virtual.platform.refresh_token(send_by_s=virtual.clock.monotonic() - 1)
    assert virtual.printify.calls["refresh"] == 0


@pytest.mark.parametrize(
    ("kind", "error"),
    (
        ("error", TransientError),
        ("timeout", TimedOutError),
        ("drop", TimedOutError),
        ("html", UnreadableError),
        ("truncate", UnreadableError),
    ),
)
def test_every_fault_is_an_error_of_our_tree(
    pool: ConnectionPool, kind: str, error: type[Exception]
) -> None:
    with open_stage(pool, VirtualClock(START), faults=FaultPlan(rates={kind: 1.0})) as stage:
        stage.printify.place_order(stage.shop)
        with pytest.raises(error):
            stage.platform.read(FIRST)


def test_no_secret_is_in_a_repr(virtual: Stage) -> None:
    assert virtual.token not in repr(virtual.platform)
    assert repr(virtual.platform) == f"PrintifyConnector({virtual.shop})"


@pytest.mark.parametrize(
    ("status", "text"),
    ((403, r"denies shop .*orders.read.*\(it says: No.: why\)"), (404, "has no shop")),
)
def test_a_shop_that_is_not_ours_needs_a_person(virtual: Stage, status: int, text: str) -> None:
    error_body = {"status": "error", "message": "No.", "errors": {"reason": "why", "code": 1}}
    transport = SimTransport(lambda *_: json_reply(error_body, status=status), virtual.clock)
    with contextlib.closing(virtual.worker(transport)) as worker:
        with pytest.raises((PermanentError, TransientError), match=text) as caught:
            worker.read(FIRST)
        assert caught.value.status == status
        assert virtual.platform.read(FIRST).total == 0, "the token is still good"


def test_the_time_of_retry_after_is_kept(virtual: Stage) -> None:
    reply = json_reply({}, status=429, headers={"Retry-After": "17"})
    with contextlib.closing(
        virtual.worker(SimTransport(lambda *_: reply, virtual.clock))
    ) as worker:
        for ask in (FIRST, PageRequest(what="order", values={"id": "a"})):
            with pytest.raises(ThrottledError) as caught:
                worker.read(ask)
            assert caught.value.retry_after_s == 17
        with pytest.raises(ThrottledError):
            worker.list_shops()


def test_a_token_of_an_app_cannot_be_refreshed_without_the_apps_id(virtual: Stage) -> None:
    virtual.connect(*virtual.printify.grant())
    virtual.clock.sleep(3600)
    transport = SimTransport(virtual.printify.handle, virtual.clock)
    with (
        contextlib.closing(virtual.worker(transport, app_id="")) as worker,
        pytest.raises(AppRefusedError, match="the app's id is needed"),
    ):
        worker.refresh_token()


def test_an_id_stays_an_id_in_the_address(virtual: Stage) -> None:
    requests = []

    def note(_: str, path: str, *__: object) -> SimReply:
        requests.append(path)
        return json_reply({}, status=404)

    with contextlib.closing(virtual.worker(SimTransport(note, virtual.clock))) as worker:
        worker.read(PageRequest(what="order", values={"id": "a/b?c=d#e"}))
    assert requests == [f"/v1/shops/{virtual.shop}/orders/a%2Fb%3Fc%3Dd%23e.json"]


def test_a_token_that_is_echoed_is_not_shown(virtual: Stage) -> None:
    reply = json_reply({"message": f"bad token {virtual.token}"}, status=403)
    with (
        contextlib.closing(virtual.worker(SimTransport(lambda *_: reply, virtual.clock))) as worker,
        pytest.raises(TransientError) as caught,
    ):
        worker.read(FIRST)
    assert "bad token ***" in str(caught.value)
