"""The shop's connector over real HTTP, against answers that were written beforehand."""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import ScaledClock
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.storefront import (
    Cost,
    Creation,
    Gid,
    PriceWrite,
    ProductStatus,
    Shop,
    StatusWrite,
    StockWrite,
    WriteResult,
    WriteVerdict,
)
from headway.errors import (
    InvariantError,
    PermanentError,
    ProviderError,
    SuspendedError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnreadableError,
    UnsentError,
)
from headway.providers.shopify.storefront import (
    ShopAccess,
    ShopifyStorefront,
    shop_limit_key,
    store_tokens,
)
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.transport import serve

VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
VERSION = {"X-Shopify-API-Version": "2026-04"}
SECRET = "shpat_hush_hush_hush"
SHOP = Shop(id="1", user_id=SellerId("seller"), domain="one.myshopify.com")
SCOPE = shop_limit_key("", SHOP.domain)
COST = {
    "requestedQueryCost": 120,
    "actualQueryCost": 12,
    "throttleStatus": {"maximumAvailable": 2000.0, "currentlyAvailable": 20, "restoreRate": 100.0},
}


class Script:
    """A shop with scripted answers; it records the requests."""

    def __init__(self, pool: ConnectionPool, clock: ScaledClock) -> None:
        self.token_store = Credentials(pool)
        self.clock = clock
        self.answers: list[SimReply] = []
        self.requests: list[tuple[str, str, Mapping[str, str], bytes]] = []
        self.url = ""

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        self.requests.append((method, path, {k.lower(): v for k, v in headers.items()}, body))
        return self.answers.pop(0)

    def answer(self, data: object, *, errors: object = None, cost: object = None) -> None:
        body = {"data": data, "errors": errors, "extensions": {"cost": cost}}
        self.answers.append(json_reply(body, headers=VERSION))

    @property
    def variables(self) -> dict[str, Any]:
        return json.loads(self.requests[-1][3])["variables"]


@pytest.fixture
def script(pool: ConnectionPool) -> Iterator[Script]:
    clock = ScaledClock(10, start=datetime(2026, 1, 1, tzinfo=UTC))
    script = Script(pool, clock)
    store_tokens(script.token_store, VAULT, SCOPE, clock=clock, access=SECRET)
    with serve(script.handle, clock) as server:
        script.url = server.url
        yield script


@pytest.fixture
def shop(script: Script) -> Iterator[ShopifyStorefront]:
    connector = ShopifyStorefront(
        SHOP,
        url=script.url,
        access=ShopAccess(),
        token_store=script.token_store,
        vault=VAULT,
        clock=script.clock,
        timeout_s=20,
    )
    with contextlib.closing(connector):
        yield connector


def gid(kind: str, number: int) -> Gid:
    return Gid(f"gid://shopify/{kind}/{number}")


def variant(number: int, *, sku: str = "WF1=K3", **fields: Any) -> dict[str, Any]:
    levels = [
        {
            "location": {"id": gid("Location", place)},
            "quantities": [{"name": "available", "quantity": place - 2}],
        }
        for place in (1, 2)
    ]
    return {
        "id": gid("ProductVariant", number),
        "sku": sku,
        "price": "11.00",
        "compareAtPrice": None,
        "inventoryPolicy": "DENY",
        "product": {
            "id": gid("Product", number),
            "handle": "wf1",
            "status": "ACTIVE",
            "variantsCount": {"count": 1},
        },
        "inventoryItem": {
            "id": gid("InventoryItem", number),
            "tracked": True,
            "unitCost": {"amount": "9.5"},
            "inventoryLevels": {"nodes": levels, "pageInfo": {"hasNextPage": False}},
        },
        **fields,
    }


def page(*nodes: object, cut: bool = False) -> dict[str, Any]:
    return {"nodes": list(nodes), "pageInfo": {"hasNextPage": cut}}


def stock(number: int, quantity: int = 5) -> StockWrite:
    return StockWrite(
        sku=Sku(f"WF{number}"),
        item=gid("InventoryItem", number),
        location=gid("Location", 1),
        quantity=quantity,
        change_from=None,
    )


def price(number: int, product: int) -> PriceWrite:
    return PriceWrite(
        sku=Sku(f"WF{number}"),
        product=gid("Product", product),
        variant=gid("ProductVariant", number),
        price=Decimal("11.00"),
        compare_at=None,
        cost=Decimal("9.5"),
    )


def status(number: int) -> StatusWrite:
    return StatusWrite(
        sku=Sku(f"WF{number}"), product=gid("Product", number), status=ProductStatus.DRAFT
    )


def errors(*codes: tuple[str, list[str] | None]) -> dict[str, Any]:
    return {
        "userErrors": [
            {"code": code, "field": field, "message": f"says {code}"} for code, field in codes
        ]
    }


def verdicts(results: Any) -> list[str]:
    return [result.verdict.value for result in results]


def test_a_request_bears_the_token_the_version_and_one_connection(
    script: Script, shop: ShopifyStorefront
) -> None:
    script.answer({"locations": page({"id": gid("Location", 1), "name": "Dallas"})})
    assert shop.details().locations == {"Dallas": gid("Location", 1)}
    [(method, path, headers, _)] = script.requests
    assert (method, path) == ("POST", "/admin/api/2026-04/graphql.json")
    assert headers["x-shopify-access-token"] == SECRET
    assert headers["connection"] == "close"


def test_a_name_of_two_locations_names_neither(script: Script, shop: ShopifyStorefront) -> None:
    names = ["Dallas", "Miami", "Dallas"]
    nodes = [{"id": gid("Location", at), "name": name} for at, name in enumerate(names)]
    script.answer({"locations": page(*nodes)})
    first, last = gid("Location", 0), gid("Location", 2)
    assert shop.details().locations == {"Miami": gid("Location", 1), first: first, last: last}


def test_more_locations_than_one_page_is_an_error(script: Script, shop: ShopifyStorefront) -> None:
    script.answer({"locations": page({"id": gid("Location", 1), "name": "Dallas"}, cut=True)})
    with pytest.raises(PermanentError, match="more than 250"):
        shop.details()


def test_a_search_is_compared_exactly(script: Script, shop: ShopifyStorefront) -> None:
    skus = ["WF1=K3", 'a"b', "not there"]
    nodes = [variant(1), variant(2, sku="WF1"), variant(3, sku='a"b'), variant(4, sku="wf1=k3")]
    script.answer({"productVariants": page(*nodes, variant(5))})
    answer = shop.find(skus, locations=2)
    assert {
        sku: [one.ids.variant for one in variants] for sku, variants in answer.shown.items()
    } == {
        "WF1=K3": [gid("ProductVariant", 1), gid("ProductVariant", 5)],
        'a"b': [gid("ProductVariant", 3)],
    }
    assert answer.unsure == frozenset()
    assert script.variables["search"] == r'sku:"WF1=K3" OR sku:"a\"b" OR sku:"not there"'


def test_a_search_that_was_cut_is_unsure_of_what_it_did_not_show(
    script: Script, shop: ShopifyStorefront
) -> None:
    script.answer({"productVariants": page(variant(1), cut=True)})
    assert shop.find(["WF1=K3", "far down"], locations=2).unsure == {"far down"}


def test_what_the_shop_shows_is_read_whole(script: Script, shop: ShopifyStorefront) -> None:
    gids = [gid("ProductVariant", at) for at in (1, 2, 3)]
    script.answer({"nodes": [variant(1, compareAtPrice="12.50"), None, {}]})
    first, *others = shop.read(gids, locations=2)
    assert others == [None, None]
    assert first is not None
    assert (first.ids.product, first.ids.item) == (gid("Product", 1), gid("InventoryItem", 1))
    assert (first.sku, first.handle, first.status) == ("WF1=K3", "wf1", ProductStatus.ACTIVE)
    assert (first.price, first.compare_at, first.cost) == (
        Decimal("11.00"),
        Decimal("12.50"),
        Decimal("9.5"),
    )
    assert first.quantities == {gid("Location", 1): -1, gid("Location", 2): 0}
    assert (first.tracked, first.variants_count) == (True, 1)


def test_nothing_where_an_error_was_is_not_taken_for_gone(
    script: Script, shop: ShopifyStorefront
) -> None:
    fault = {"message": "Timeout", "path": ["nodes", 0], "extensions": {"code": "TIMEOUT"}}
    script.answer({"nodes": [None]}, errors=[fault])
    with pytest.raises(UnreadableError, match="Timeout"):
        shop.read([gid("ProductVariant", 1)], locations=2)


def test_stock_is_done_when_nobody_complains(script: Script, shop: ShopifyStorefront) -> None:
    script.answer({"inventorySetQuantities": errors()})
    assert verdicts(shop.set_stock([stock(1), stock(2)], key="k")) == ["done", "done"]
    assert script.variables["input"]["referenceDocumentUri"] == "headway://push/k"


def test_the_item_at_fault_is_named_and_the_others_are_to_be_sent_again(
    script: Script, shop: ShopifyStorefront
) -> None:
    named = errors(
        ("CHANGE_FROM_QUANTITY_STALE", ["input", "quantities", "1", "changeFromQuantity"]),
        ("INVALID_INVENTORY_ITEM", ["input", "quantities", "2", "inventoryItemId"]),
        ("ITEM_NOT_STOCKED_AT_LOCATION", ["input", "quantities", "3", "locationId"]),
        ("INVALID_QUANTITY_TOO_HIGH", ["input", "quantities", "4", "quantity"]),
    )
    script.answer({"inventorySetQuantities": named})
    results = shop.set_stock([stock(number) for number in range(6)], key="k")
    assert verdicts(results) == ["again", "stale", "unknown", "unstocked", "refused", "again"]
    assert results[4].reason == "says INVALID_QUANTITY_TOO_HIGH"
    assert "another item" in results[0].reason


def test_an_error_that_names_nobody_splits_a_shipment_and_refuses_a_single_one(
    script: Script, shop: ShopifyStorefront
) -> None:
    for field in (None, [], ["input", "reason"], ["input", "quantities", "99"]):
        script.answer({"inventorySetQuantities": errors(("INVALID_REASON", field))})
        assert verdicts(shop.set_stock([stock(1), stock(2)], key="k")) == ["again", "again"]
        script.answer({"inventorySetQuantities": errors(("INVALID_REASON", field))})
        reason = f"{'input.quantities.99: ' * ('99' in (field or ()))}says INVALID_REASON"
        [alone] = shop.set_stock([stock(1)], key="k")
        assert alone == WriteResult(verdict=WriteVerdict.REFUSED, reason=reason)


@pytest.mark.parametrize("at_top", (False, True))
def test_a_key_still_in_use_is_ambiguous_and_one_used_twice_is_a_bug(
    script: Script, shop: ShopifyStorefront, *, at_top: bool
) -> None:
    for code, error in (
        ("IDEMPOTENCY_CONCURRENT_REQUEST", TimedOutError),
        ("IDEMPOTENCY_KEY_PARAMETER_MISMATCH", InvariantError),
    ):
        if at_top:
            script.answer(None, errors=[{"message": "no", "extensions": {"code": code}}])
        else:
            script.answer({"inventorySetQuantities": errors((code, None))})
        with pytest.raises(error):
            shop.set_stock([stock(1)], key="k")


def test_an_activation_reports_when_another_quantity_was_kept(
    script: Script, shop: ShopifyStorefront
) -> None:
    for quantity, verdict in ((5, WriteVerdict.DONE), (7, WriteVerdict.STALE)):
        level = {"quantities": [{"name": "available", "quantity": quantity}]}
        script.answer({"inventoryActivate": {"inventoryLevel": level, "userErrors": []}})
        assert shop.activate(stock(1), key="k").verdict is verdict
    for reason, field, verdict in (
        ("available: The item is already active at it.", ["available"], WriteVerdict.STALE),
        ("The inventory item could not be found.", ["inventoryItemId"], WriteVerdict.UNKNOWN),
        ("The location could not be found.", ["locationId"], WriteVerdict.REFUSED),
        ("No.", None, WriteVerdict.REFUSED),
    ):
        fault = {"field": field, "message": reason.removeprefix("available: ")}
        script.answer({"inventoryActivate": {"inventoryLevel": None, "userErrors": [fault]}})
        assert shop.activate(stock(1), key="k") == WriteResult(verdict=verdict, reason=reason)


def test_prices_are_answered_in_the_order_in_which_they_were_given(
    script: Script, shop: ShopifyStorefront
) -> None:
    writes = [price(1, 1), price(2, 2), price(3, 1), price(4, 3), price(5, 4)]
    gone = errors(("PRODUCT_DOES_NOT_EXIST", ["productId"]))
    bad = errors(("NEGATIVE_PRICE_VALUE", ["variants", "1", "price"]))
    fault = {"message": "Internal error", "path": ["p3"]}
    script.answer({"p0": bad, "p1": errors(), "p2": gone, "p3": None}, errors=[fault])
    results = shop.set_prices(writes)
    assert verdicts(results) == ["again", "done", "refused", "unknown", "stale"]
    assert results[4].reason == "no answer: Internal error"


def test_a_product_that_is_gone_is_gone_for_all_its_variants(
    script: Script, shop: ShopifyStorefront
) -> None:
    script.answer({"p0": errors(("PRODUCT_DOES_NOT_EXIST", ["productId"]))})
    assert verdicts(shop.set_prices([price(1, 1), price(2, 1)])) == ["unknown", "unknown"]


def test_statuses_are_answered_one_by_one_also_without_a_code(
    script: Script, shop: ShopifyStorefront
) -> None:
    gone = [{"field": ["id"], "message": "Product does not exist"}]
    bad = [{"field": ["status"], "message": "Is\n not\tallowed" + "!" * 900}]
    script.answer({f"s{at}": {"userErrors": own} for at, own in enumerate(([], gone, bad))})
    results = shop.set_status([status(1), status(2), status(3)])
    assert verdicts(results) == ["done", "unknown", "refused"]
    assert results[2].reason.startswith("status: Is not allowed!")
    assert len(results[2].reason) <= 200


def test_a_creation_shows_what_was_made_even_where_nobody_asked(
    script: Script, shop: ShopifyStorefront
) -> None:
    made = variant(1)
    made["inventoryItem"]["inventoryLevels"]["pageInfo"]["hasNextPage"] = True
    script.answer({"productSet": {"product": {"variants": page(made)}, "userErrors": []}})
    result = shop.create(creation())
    assert result.verdict is WriteVerdict.DONE
    assert result.shown is not None
    assert result.shown.ids.variant == gid("ProductVariant", 1)
    script.answer({"productSet": {"product": None, **errors(("HANDLE_NOT_UNIQUE", ["input"]))}})
    assert shop.create(creation()).verdict is WriteVerdict.STALE


def creation() -> Creation:
    return Creation(
        sku=Sku("WF1=K3"),
        shop_sku="WF1=K3",
        handle="wf1",
        title="A part",
        description_html="",
        vendor="",
        price=Decimal(11),
        compare_at=None,
        cost=Decimal("9.5"),
        quantities={gid("Location", 1): 5},
    )


def test_the_cost_is_that_of_the_last_call_and_only_of_that(
    script: Script, shop: ShopifyStorefront
) -> None:
    assert shop.cost is None
    script.answer({"nodes": []}, cost=COST)
    shop.read([], locations=1)
    assert shop.cost == Cost(
        requested=120, actual=12, available=20, capacity=2000, restore_per_s=100
    )
    script.answers.append(SimReply(status=502))
    with pytest.raises(TransientError):
        shop.read([], locations=1)
    assert shop.cost is None


def test_throttled_in_a_200_says_how_long_to_wait_and_what_it_would_cost(
    script: Script, shop: ShopifyStorefront
) -> None:
    fault = {"message": "Throttled", "extensions": {"code": "THROTTLED"}}
    script.answer(None, errors=[fault], cost={**COST, "actualQueryCost": None})
    with pytest.raises(ThrottledError) as raised:
        shop.set_stock([stock(1)], key="k")
    assert raised.value.retry_after_s == pytest.approx(1.0)
    assert shop.cost is not None
    assert (shop.cost.requested, shop.cost.available) == (120, 20)
    script.answer(None, errors=[fault])
    with pytest.raises(ThrottledError) as raised:
        shop.set_stock([stock(1)], key="k")
    assert raised.value.retry_after_s is None


def test_a_429_says_how_long_to_wait(script: Script, shop: ShopifyStorefront) -> None:
    script.answers.append(SimReply(status=429, headers={"Retry-After": "2.0"}))
    with pytest.raises(ThrottledError) as raised:
        shop.details()
    assert raised.value.retry_after_s == 2


@pytest.mark.parametrize(
    ("code", "error"),
    (
        ("MAX_COST_EXCEEDED", PermanentError),
        ("ACCESS_DENIED", SuspendedError),
        ("INTERNAL_SERVER_ERROR", UnreadableError),
        ("", UnreadableError),
    ),
)
def test_an_error_at_the_top_has_its_own_class(
    script: Script, shop: ShopifyStorefront, code: str, error: type[ProviderError]
) -> None:
    for call in (shop.details, lambda: shop.set_prices([price(1, 1)])):
        script.answer(None, errors=[{"message": "shop says no", "extensions": {"code": code}}])
        with pytest.raises(ProviderError, match="shop says no") as raised:
            call()
        assert type(raised.value) is error


@pytest.mark.parametrize("answered", ("2026-07", "", "unstable"))
def test_an_answer_of_another_version_leaves_a_write_open_and_says_what_to_do(
    script: Script, shop: ShopifyStorefront, answered: str
) -> None:
    headers = {"X-Shopify-API-Version": answered} if answered else {}
    script.answers.append(json_reply({"data": {"s0": {"userErrors": []}}}, headers=headers))
    with pytest.raises(UnreadableError, match="upgrade headway") as raised:
        shop.set_status([status(1)])
    assert answered in str(raised.value)


@pytest.mark.parametrize(
    ("code", "words"), ((402, "bill"), (403, "scopes"), (404, "name"), (423, "support"))
)
def test_a_shop_that_is_closed_says_what_to_do(
    script: Script, shop: ShopifyStorefront, code: int, words: str
) -> None:
    script.answers.append(SimReply(status=code, body=f'{{"errors":"no {SECRET}"}}'.encode()))
    with pytest.raises(TransientError, match=words) as raised:
        shop.details()
    assert raised.value.status == code
    assert isinstance(raised.value, SuspendedError) is (code in {402, 423})
    assert SECRET not in str(raised.value)
    script.answer({"locations": page()})
    assert shop.details().locations == {}, "its token is not to blame"


def test_a_lost_connection_after_sending_is_ambiguous_and_before_it_is_not(
    script: Script, shop: ShopifyStorefront
) -> None:
    for outcome in ("drop", "hang"):
        script.answers.append(SimReply(outcome=outcome))
        with pytest.raises(TimedOutError):
            shop.set_stock([stock(1)], key="k")
    nobody = ShopifyStorefront(
        SHOP,
        url="http://127.0.0.1:9",
        access=ShopAccess(),
        token_store=script.token_store,
        vault=VAULT,
        clock=script.clock,
    )
    with contextlib.closing(nobody), pytest.raises(UnsentError):
        nobody.set_stock([stock(1)], key="k")


def test_no_token_reaches_a_log_a_text_or_a_repr(
    script: Script, shop: ShopifyStorefront, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    script.answer({"s0": {"userErrors": [{"message": f"you sent {SECRET}", "field": None}]}})
    [result] = shop.set_status([status(1)])
    assert result.reason == "you sent ***"
    shown = f"{shop!r} {shop._api._tokens.find('access')!r} {ShopAccess(client_secret=SECRET)!r}"
    assert SECRET not in caplog.text + shown
