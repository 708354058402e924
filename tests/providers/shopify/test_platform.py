"""A seller's shop is pulled whole: the warehouse equals what the simulated shop holds."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.providers.shopify.account_shop import ACCOUNT, DOMAIN, START, VAULT, Counter

from headway.clock import ScaledClock, rng
from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import PageRequest
from headway.errors import (
    PermanentError,
    RequestRefusedError,
    ThrottledError,
    TooLargeError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)
from headway.providers.shopify.api import ShopAccess
from headway.providers.shopify.limits import shop_limit_key
from headway.providers.shopify.pagination import STALE
from headway.providers.shopify.platform import ShopifyPlatform
from headway.providers.shopify.read_queries import document_of
from headway.providers.tokens import store_tokens
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.simulators.shopify.shop import SCOPES, ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

APP = ShopAccess(client_id="sim-app", client_secret="sim-app-secret")
SCOPE = shop_limit_key("sim-app", DOMAIN)
Open = Callable[..., Counter]


@pytest.fixture
def open_counter(pool: ConnectionPool) -> Iterator[Open]:
    """Open a shop on virtual time, or over real HTTP."""
    with contextlib.ExitStack() as stack:

        def start(*, is_real: bool = False, wrap: Any = None, **options: Any) -> Counter:
            clock = ScaledClock(50, start=START) if is_real else VirtualClock(START)
            setup = ShopSetup(domain=DOMAIN, scopes=options.pop("scopes", SCOPES))
            shops = ShopifySimulator(clock, shops=[setup], **options)
            shelf = Credentials(pool)
            store_tokens(shelf, VAULT, SCOPE, clock=clock, access="sim-static-token")
            handle = shops.handle if wrap is None else wrap(shops.handle)
            url, transport = "http://shops.test/{shop}", SimTransport(handle, clock)
            if is_real:
                url = stack.enter_context(serve(handle, clock)).url + "/{shop}"
                transport = None
            account = ShopifyPlatform(
                ACCOUNT,
                url=url,
                access=APP,
                token_store=shelf,
                vault=VAULT,
                clock=clock,
                transport=transport,
            )
            stack.enter_context(contextlib.closing(account))
            return Counter(shops=shops, account=account, clock=clock)

        yield start


@pytest.fixture
def counter(open_counter: Open) -> Counter:
    return open_counter()


def live(counter: Counter, generator: Any, orders: list[str], buyers: list[str]) -> None:
    """Let one thing happen in the shop."""
    shops, sku = counter.shops, f"S{generator.randrange(8)}"
    order = generator.choice(orders) if orders else ""
    act = generator.randrange(10)
    if act <= 2 or not orders:
        count = generator.choice((1, 2, 3, 12, 30))
        buyer = generator.choice([None, *buyers])
        payment = generator.choice(("SALE", "AUTHORIZATION", ""))
        lines = [(sku, number + 1) for number in range(count)]
        orders.append(shops.place_order(DOMAIN, lines, customer=buyer, payment=payment))
    elif act == 3:
        shops.fulfil(DOMAIN, order, is_whole=generator.random() < 0.5)
    elif act == 4:
        shops.refund(DOMAIN, order, Decimal(generator.randrange(1, 9)), "late")
    elif act == 5:
        shops.cancel(DOMAIN, order)
    elif act == 6:
        shops.pay(DOMAIN, order)
    elif act == 7:
        buyers.append(shops.add_customer(DOMAIN, f"B{len(buyers)}", email="b@example.com"))
    elif act == 8:
        shops.sell(DOMAIN, sku, "Dallas")
    else:
        shops.edit_product(DOMAIN, sku, status=generator.choice(("ACTIVE", "DRAFT")))


@pytest.mark.parametrize("seed", range(3))
def test_after_days_of_trade_the_warehouse_equals_the_shop(open_counter: Open, seed: int) -> None:
    counter = open_counter(index_lag_s=40)
    for number in range(8):
        counter.shops.seed_product(DOMAIN, f"S{number}", quantities={"Dallas": 50})
    generator = rng(f"trade {seed}")
    orders: list[str] = []
    buyers: list[str] = []
    for _ in range(25):
        for _ in range(generator.randrange(12)):
            live(counter, generator, orders, buyers)
            counter.clock.sleep(generator.randrange(30))
        counter.clock.sleep(generator.choice((60, 600, 7200)))
        counter.pull_all()
    counter.clock.sleep(600)
    counter.pull_all()
    assert counter.differences() == {}
    assert counter.warehouse.odd == []
    assert counter.shops.refusals == 0
    assert len(orders) > 20


def test_over_real_http_too(open_counter: Open) -> None:
    counter = open_counter(is_real=True, index_lag_s=0)
    counter.shops.seed_product(DOMAIN, "S1", quantities={"Dallas": 5})
    buyer = counter.shops.add_customer(DOMAIN, "Ada", email="ada@example.com")
    own = counter.shops.place_order(DOMAIN, [("S1", 2), ("other", 1)], customer=buyer)
    counter.shops.fulfil(DOMAIN, own)
    counter.pull_all()
    assert counter.differences() == {}


def test_an_order_of_very_many_positions_is_read_to_its_end(counter: Counter) -> None:
    own = counter.shops.place_order(DOMAIN, [(f"S{number}", 1) for number in range(650)])
    for _ in range(11):
        counter.shops.fulfil(DOMAIN, own, is_whole=False)
    counter.clock.sleep(60)
    counter.pull(DataKind.ORDERS)
    assert [request.what for request in counter.requests] == ["orders", "order", "order", "order"]
    assert len(counter.warehouse.tables["line_items"]) == 650
    assert counter.differences() == {}


def test_an_order_that_changes_between_its_pages_is_read_again(counter: Counter) -> None:
    own = counter.shops.place_order(DOMAIN, [(f"S{number}", 1) for number in range(260)])
    first = counter.account.read(PageRequest(what="order", values={"id": own, "next": None}))
    assert first.records.orders == ()
    counter.clock.sleep(5)
    counter.shops.edit_order(DOMAIN, own, [("new", 1)])
    second = counter.account.read(PageRequest(what="order", values={"id": own, "next": first.next}))
    assert (second.cut, second.next, second.records.orders) == ((own,), None, ())


def test_wanted_orders_come_first_and_those_that_are_gone_are_missing(counter: Counter) -> None:
    own = counter.shops.place_order(DOMAIN, [("S1", 1)])
    page = counter.account.read(PageRequest(what="orders_by_id", values={"ids": [own, "99999999"]}))
    assert (page.ids, page.missing) == ((own,), ("99999999",))
    gone = counter.account.read(PageRequest(what="order", values={"id": "99999999", "next": None}))
    assert gone.missing == ("99999999",)


@pytest.mark.parametrize("has_all", (False, True))
def test_history_goes_back_as_far_as_the_app_may_see(open_counter: Open, *, has_all: bool) -> None:
    counter = open_counter(scopes=(*SCOPES, "read_all_orders") if has_all else SCOPES)
    now = counter.clock.now()
    for days in range(1, 120, 3):
        at = now - timedelta(days=days)
        counter.shops.place_order(DOMAIN, [("S1", 1)], at=at)
    counter.clock.sleep(60)
    counter.pull(DataKind.ORDERS, is_backfill=True)
    since = None if has_all else now - timedelta(days=60)
    assert counter.differences(since=since) == {}
    assert len(counter.warehouse.tables["orders"]) == (40 if has_all else 20)


def test_all_customers_of_old_are_pulled(counter: Counter) -> None:
    for number in range(600):
        counter.shops.add_customer(DOMAIN, f"B{number}", country="")
    counter.pull(DataKind.CUSTOMERS, is_backfill=True)
    assert len(counter.requests) == 3
    assert counter.differences() == {}


def test_a_product_with_more_variants_than_a_page_is_read_to_its_end(counter: Counter) -> None:
    counter.pull(DataKind.LISTINGS)
    ids = counter.shops.seed_product(DOMAIN, "S0", title="Shirt")
    shelves = counter.shops.shop(DOMAIN)
    for number in range(1, 320):
        shelves.add_variant(ids.product, f"S{number}", options=(("Size", str(number)),))
    counter.clock.sleep(60)
    counter.pull(DataKind.LISTINGS)
    assert [request.what for request in counter.requests[1:]] == ["products", "product", "product"]
    assert counter.differences() == {}
    titles = {row["title"] for row in counter.warehouse.tables["listings"].values()}
    assert {"Shirt", "Shirt - 1", "Shirt - 319"} <= titles


def test_what_is_deleted_is_found_once_a_day_and_at_once_when_it_is_named(counter: Counter) -> None:
    ids = {sku: counter.shops.seed_product(DOMAIN, sku) for sku in ("A", "B", "C")}
    counter.pull(DataKind.LISTINGS)
    counter.shops.remove_product(DOMAIN, "A")
    counter.clock.sleep(3600)
    counter.pull(DataKind.LISTINGS)
    assert len(counter.differences()) == 1
    counter.clock.sleep(86_400)
    counter.pull(DataKind.LISTINGS)
    assert counter.differences() == {}
    counter.shops.remove_product(DOMAIN, "B")
    counter.clock.sleep(3600)
    counter.pull(DataKind.LISTINGS, wanted=[ids["B"].product])
    assert counter.differences() == {}


def test_what_an_order_brought_the_seller_is_the_sum_of_its_payments(counter: Counter) -> None:
    own = counter.shops.place_order(DOMAIN, [("S1", 3)], payment="AUTHORIZATION")
    counter.shops.pay(DOMAIN, own)
    counter.shops.refund(DOMAIN, own, Decimal("4.90"))
    counter.clock.sleep(60)
    counter.pull(DataKind.ORDERS)
    payments = counter.warehouse.tables["payments"].values()
    assert [(payment["kind"], payment["amount"]) for payment in payments] == [
        ("authorization", Decimal(0)),
        ("capture", Decimal("34.90")),
        ("refund", Decimal("-4.90")),
    ]


def test_an_edited_order_shows_what_is_left_beside_what_was_ordered(counter: Counter) -> None:
    own = counter.shops.place_order(DOMAIN, [("S1", 2), ("S2", 1)], shipping=Decimal(6))
    counter.shops.edit_order(DOMAIN, own, removes=[("S1", 1), ("S2", 1)])
    counter.clock.sleep(60)
    counter.pull(DataKind.ORDERS)
    order = counter.warehouse.tables["orders"][own]
    assert (order["total"], order["current_total"]) == (Decimal(36), Decimal(16))
    lines = counter.warehouse.tables["line_items"].values()
    assert {line["sku"]: (line["quantity"], line["current_quantity"]) for line in lines} == {
        "S1": (2, 1),
        "S2": (1, 0),
    }
    assert counter.differences() == {}


def test_a_cursor_that_the_shop_no_longer_knows_is_reported(counter: Counter) -> None:
    values = {"field": "updated_at", "since": START.isoformat(), "after": "nonsense"}
    assert counter.account.read(PageRequest(what="orders", values=values)).next == STALE


ORDERS = PageRequest(
    what="orders", values={"field": "updated_at", "since": "2026-01-01T00:00:00Z", "after": None}
)


def test_a_search_writes_instants_as_the_platform_does() -> None:
    values = {
        "field": "created_at",
        "since": "2026-01-01T01:00:00.123456+01:00",
        "until": "2026-02-01T00:00:00+00:00",
        "after": None,
    }
    assert document_of(PageRequest(what="orders", values=values)).variables["search"] == (
        "created_at:>='2026-01-01T00:00:00Z' AND created_at:<='2026-02-01T00:00:00Z'"
    )


def test_the_bucket_is_the_one_that_writing_uses(counter: Counter) -> None:
    assert counter.account.keys == (SCOPE,)
    assert counter.account.day_key is None
    assert counter.account.observations == {}
    counter.account.read(ORDERS)
    observation = counter.account.observations[SCOPE]
    assert (observation.capacity, observation.restore_per_s) == (2000, 100)


def test_a_throttled_read_carries_the_time_to_wait(open_counter: Open) -> None:
    counter = open_counter(faults=ShopFaultPlan(rates={"throttle": 1.0}))
    with pytest.raises(ThrottledError) as caught:
        counter.account.read(ORDERS)
    assert caught.value.retry_after_s == pytest.approx(2.0, abs=0.1)


def test_a_request_reserves_what_the_shop_charged_for_it_before(open_counter: Open) -> None:
    charged = 700.0

    def charge(body: dict[str, Any]) -> None:
        body["extensions"]["cost"]["requestedQueryCost"] = charged

    counter = open_counter(wrap=spoiled(charge))
    smaller = replace(ORDERS, values={**ORDERS.values, "first": 5})
    assert counter.account.price(ORDERS) == 400, "twice what it should be"
    counter.account.read(ORDERS)
    assert counter.account.price(ORDERS) == charged
    assert counter.account.price(smaller) < 400, "another size costs something else"


def test_a_page_that_costs_more_than_a_call_may_is_asked_for_in_smaller_ones(
    open_counter: Open,
) -> None:
    def refuse(body: dict[str, Any]) -> None:
        error = {"message": "Query cost is 1200", "extensions": {"code": "MAX_COST_EXCEEDED"}}
        body.update(data=None, errors=[error])

    counter = open_counter(wrap=spoiled(refuse))
    with pytest.raises(TooLargeError, match="too much for one call"):
        counter.account.read(ORDERS)


def test_a_missing_scope_is_named(open_counter: Open) -> None:
    counter = open_counter(scopes=[scope for scope in SCOPES if scope != "read_customers"])
    with pytest.raises(PermanentError, match=r"needs read_customers \(read customers"):
        counter.account.read(PageRequest(what="all_customers", values={"above": "0"}))


def test_a_refused_token_is_not_taken_for_anything_else(counter: Counter) -> None:
    counter.shops.tokens(DOMAIN).revoke()
    with pytest.raises(UnauthorizedError):
        counter.account.read(ORDERS)


Spoil = Callable[[dict[str, Any]], object]


def spoiled(spoil: Spoil) -> Any:
    """Wrap a handler so that its answers are spoiled on the way."""

    def wrap(handle: Any) -> Any:
        def answer(*request: Any) -> SimReply:
            reply = handle(*request)
            body = json.loads(reply.body)
            spoil(body)
            return json_reply(body, headers={"X-Shopify-API-Version": "2026-04"})

        return answer

    return wrap


def set_in(*path: Any, to: Any) -> Spoil:
    def spoil(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        body[path[-1]] = to

    return spoil


def test_a_search_that_the_shop_makes_without_its_filter_is_an_error(
    open_counter: Open,
) -> None:
    def ignore(body: dict[str, Any]) -> None:
        warning = {"field": "updated_at", "message": "Invalid search field for this query."}
        body["extensions"]["search"] = [{"path": ["orders"], "warnings": [warning]}]

    counter = open_counter(wrap=spoiled(ignore))
    with pytest.raises(RequestRefusedError, match="ignored a part of our search"):
        counter.account.read(ORDERS)


@pytest.mark.parametrize("what", ("all_customers", "variants"))
def test_a_walk_by_id_whose_ids_do_not_grow_is_an_error(open_counter: Open, what: str) -> None:
    def forget_filter(handle: Any) -> Any:
        def answer(method: str, path: str, headers: Any, body: bytes) -> SimReply:
            reply: SimReply = handle(method, path, headers, body.replace(b"id:>1000000", b""))
            return reply

        return answer

    counter = open_counter(wrap=forget_filter)
    counter.shops.seed_product(DOMAIN, "S1")
    counter.shops.add_customer(DOMAIN, "Ada")
    with pytest.raises(RequestRefusedError, match="ids above 1000000 in order"):
        counter.account.read(PageRequest(what=what, values={"above": "1000000"}))


ROW = ("data", "orders", "nodes", 1)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    (
        (set_in(*ROW, "totalPriceSet", to=None), "totalPriceSet is null"),
        (
            set_in(*ROW, "totalPriceSet", "shopMoney", "amount", to="1e9"),
            'totalPriceSet is {"shopMoney": {"amount": "1e9"',
        ),
        (
            set_in(*ROW, "totalPriceSet", "shopMoney", "amount", to=12.5),
            'totalPriceSet is {"shopMoney": {"amount": 12.5',
        ),
        (set_in(*ROW, "processedAt", to="yesterday"), 'processedAt is "yesterday"'),
        (set_in(*ROW, "processedAt", to="9999-12-31T23:59:59-12:00"), "processedAt is"),
        (set_in(*ROW, "processedAt", to="1969-12-31T23:59:59Z"), "processedAt is"),
        (set_in(*ROW, "name", to="nul\0"), "name is"),
        (set_in(*ROW, "name", to="half \ud800"), "name is"),
        (set_in(*ROW, "processedAt", to="2026-01-01T00:00:00"), "processedAt is"),
        (
            set_in(*ROW, "lineItems", "nodes", 0, "quantity", to="2"),
            'lineItems.nodes.0.quantity is "2"',
        ),
        (set_in(*ROW, "transactions", to={}), "transactions is {}"),
        (set_in(*ROW, "customer", to={"id": "1"}), 'customer is {"id": "1"}'),
        (set_in(*ROW, "id", to=None), "id is null"),
        (set_in(*ROW, to="nonsense"), 'the row is "nonsense"'),
    ),
)
def test_a_row_that_makes_no_sense_is_kept_and_the_others_are_read(
    open_counter: Open, spoil: Spoil, reason: str
) -> None:
    counter = open_counter(wrap=spoiled(spoil), index_lag_s=0)
    ids = [counter.shops.place_order(DOMAIN, [("S1", 1)]) for _ in range(3)]
    page = counter.account.read(ORDERS)
    assert [order.external_id for order in page.records.orders] == [ids[0], ids[2]]
    [odd] = page.records.unreadable
    assert reason in odd.reason
    assert odd.external_id == ids[1] or odd.external_id.startswith("?")
    assert odd.raw
    assert {payment.order_id for payment in page.records.payments} == {ids[0], ids[2]}


PRODUCT = ("data", "products", "nodes", 1)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    (
        (set_in(*PRODUCT, to=None), "the row is null"),
        (set_in(*PRODUCT, "variants", to={}), "variants.nodes is missing"),
        (set_in(*PRODUCT, "status", to=7), "product.status is 7"),
        (set_in(*PRODUCT, "variants", "nodes", 0, to=None), "id is missing"),
        (set_in(*PRODUCT, "variants", "nodes", 0, "price", to="free"), 'price is "free"'),
    ),
)
def test_a_product_that_makes_no_sense_is_kept_and_the_others_are_read(
    open_counter: Open, spoil: Spoil, reason: str
) -> None:
    counter = open_counter(wrap=spoiled(spoil), index_lag_s=0)
    for sku in ("A", "B", "C"):
        counter.shops.seed_product(DOMAIN, sku)
    page = counter.account.read(replace(ORDERS, what="products"))
    assert [listing.sku for listing in page.records.listings] == ["A", "C"]
    [odd] = page.records.unreadable
    assert reason in odd.reason


@pytest.mark.parametrize(
    "spoil",
    (
        set_in("data", "orders", to=None),
        set_in("data", "orders", "nodes", to={}),
        set_in("data", "orders", "pageInfo", to=None),
        set_in("data", "orders", "pageInfo", to={"hasNextPage": True, "endCursor": None}),
        set_in("data", "orders", "pageInfo", to={"hasNextPage": True, "endCursor": ""}),
        set_in("errors", to=[{"message": "Internal error"}]),
        set_in("data", to=None),
    ),
)
def test_a_page_that_makes_no_sense_is_not_believed(open_counter: Open, spoil: Spoil) -> None:
    counter = open_counter(wrap=spoiled(spoil), index_lag_s=0)
    counter.shops.place_order(DOMAIN, [("S1", 1)])
    with pytest.raises(UnreadableError):
        counter.account.read(ORDERS)


@pytest.mark.parametrize(
    "spoil",
    (
        set_in("data", "order", "updatedAt", to=None),
        set_in("data", "order", "lineItems", to=[]),
        set_in("data", "order", "totalPriceSet", to=None),
    ),
)
def test_one_order_that_makes_no_sense_does_not_hold_up_the_walk(
    open_counter: Open, spoil: Spoil
) -> None:
    counter = open_counter(wrap=spoiled(spoil))
    own = counter.shops.place_order(DOMAIN, [("S1", 1)])
    page = counter.account.read(PageRequest(what="order", values={"id": own, "next": None}))
    assert [row.external_id for row in page.records.unreadable] == [own]
    assert (page.next, page.cut, page.records.orders) == (None, (), ())


def test_another_order_than_was_asked_for_is_not_believed(open_counter: Open) -> None:
    other = set_in("data", "nodes", 0, "id", to="gid://shopify/Order/5")
    counter = open_counter(wrap=spoiled(other))
    own = counter.shops.place_order(DOMAIN, [("S1", 1)])
    with pytest.raises(UnreadableError, match="not asked for"):
        counter.account.read(PageRequest(what="orders_by_id", values={"ids": [own]}))


def test_faults_on_the_way_are_transient(open_counter: Open) -> None:
    counter = open_counter(faults=ShopFaultPlan(rates={"html": 1.0}))
    with pytest.raises(TransientError):
        counter.account.read(ORDERS)
