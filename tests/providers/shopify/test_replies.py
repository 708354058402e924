"""Replies that lie, break off or make no sense are errors of the shop, never of ours."""

import copy
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from headway.core.accounts.pagination import Page, PageRequest
from headway.core.catalog.listings import Sku
from headway.core.catalog.storefront import Gid, PriceWrite, WriteVerdict
from headway.errors import PermanentError, UnreadableError
from headway.providers.shopify import bulk, product_replies, replies
from headway.providers.shopify.read_replies import read_page
from headway.providers.shopify.replies import ShopReply, ShopUserError, read_reply, share

VARIANT = {
    "id": "gid://shopify/ProductVariant/1",
    "sku": "WF1",
    "price": "11.00",
    "compareAtPrice": "12.00",
    "inventoryPolicy": "DENY",
    "product": {
        "id": "gid://shopify/Product/1",
        "handle": "wf1",
        "status": "ACTIVE",
        "variantsCount": {"count": 1},
    },
    "inventoryItem": {
        "id": "gid://shopify/InventoryItem/1",
        "tracked": True,
        "unitCost": {"amount": "9.5"},
        "inventoryLevels": {
            "nodes": [
                {
                    "location": {"id": "gid://shopify/Location/1"},
                    "quantities": [{"name": "available", "quantity": 5}],
                }
            ],
            "pageInfo": {"hasNextPage": False},
        },
    },
}
GOOD_PAGE = {"pageInfo": {"hasNextPage": False}}
NO_ERRORS: dict[str, Any] = {"userErrors": []}
FAULTY = {"userErrors": [{"code": "INVALID", "field": ["quantities", "0"], "message": "no"}]}
PRICES = [
    PriceWrite(
        sku=Sku("WF1"),
        product=Gid("gid://shopify/Product/1"),
        variant=Gid("gid://shopify/ProductVariant/1"),
        price=Decimal(11),
        compare_at=None,
        cost=Decimal(9),
    )
]
BULK = {
    "id": "gid://shopify/BulkOperation/1",
    "status": "COMPLETED",
    "errorCode": None,
    "objectCount": "5",
    "url": "https://x.test/a",
    "partialDataUrl": None,
    "query": bulk.bulk_mutation("k"),
}
TARGET = {"url": "https://x.test/up", "parameters": [{"name": "key", "value": "tmp/1"}]}

READERS: dict[str, tuple[dict[str, Any], Callable[[ShopReply], Any]]] = {
    "locations": (
        {"locations": {"nodes": [{"id": "gid://shopify/Location/1", "name": "A"}], **GOOD_PAGE}},
        product_replies.read_locations,
    ),
    "found": (
        {"productVariants": {"nodes": [VARIANT], **GOOD_PAGE}},
        lambda reply: product_replies.read_found(reply, ["WF1"]),
    ),
    "nodes": (
        {"nodes": [VARIANT]},
        lambda reply: product_replies.read_nodes(reply, [Gid("gid://shopify/ProductVariant/1")]),
    ),
    "stock": (
        {"inventorySetQuantities": FAULTY},
        lambda reply: share(reply.faults_of("inventorySetQuantities"), 2),
    ),
    "activated": (
        {
            "inventoryActivate": {
                "inventoryLevel": {"quantities": [{"name": "available", "quantity": 5}]},
                **NO_ERRORS,
            }
        },
        lambda reply: product_replies.read_activated(reply, 5),
    ),
    "aliased": (
        {"p0": NO_ERRORS, "p1": FAULTY},
        lambda reply: replies.read_aliased(reply, {"p0": 1, "p1": 2}),
    ),
    "created": (
        {"productSet": {"product": {"variants": {"nodes": [VARIANT], **GOOD_PAGE}}, **NO_ERRORS}},
        product_replies.read_created,
    ),
    "target": (
        {"stagedUploadsCreate": {"stagedTargets": [TARGET], **NO_ERRORS}},
        bulk.read_target,
    ),
    "started": (
        {"bulkOperationRunMutation": {"bulkOperation": {"id": BULK["id"]}, **NO_ERRORS}},
        bulk.read_started,
    ),
    "bulk": (
        {"bulkOperation": BULK},
        lambda reply: bulk.read_bulk(reply.whole("bulkOperation")),
    ),
    "bulk of an intent": (
        {"bulkOperations": {"nodes": [BULK]}},
        lambda reply: bulk.read_bulk_of(reply, "k"),
    ),
}
HOSTILE = (None, 5, -1, 1.5, True, "", "text", [], {}, [None], ["x"], {"nodes": 1}, 10**400)


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from places(value[key], (*path, key))


def spoil(document: dict[str, Any], path: tuple[Any, ...], value: object) -> dict[str, Any]:
    spoilt = copy.deepcopy(document)
    holder: Any = spoilt
    for key in path[:-1]:
        holder = holder[key]
    if not path:
        return value if isinstance(value, dict) else {}
    holder[path[-1]] = value
    return spoilt


@pytest.mark.parametrize("name", READERS)
def test_a_good_reply_is_read(name: str) -> None:
    data, read = READERS[name]
    assert read(read_reply(json.dumps({"data": data}).encode()))


@pytest.mark.parametrize("name", READERS)
def test_whatever_is_wrong_anywhere_is_an_error_of_the_shop_or_a_value(name: str) -> None:
    data, read = READERS[name]
    refusals = []
    for path in places(data):
        for value in HOSTILE:
            reply = ShopReply(data=spoil(data, path, value), faults=(), cost=None)
            try:
                read(reply)
            except (UnreadableError, PermanentError) as error:
                refusals.append(str(error))
    assert len(refusals) >= len(HOSTILE) / 2
    assert all("\n" not in text and len(text) <= 250 for text in refusals)


@pytest.mark.parametrize(
    "field",
    ("id", "price", "compareAtPrice", "inventoryPolicy", "sku", "product", "inventoryItem"),
)
@pytest.mark.parametrize("value", (5, True, [], {}, "  ", "-1.00", "1e5", "NaN", "11,00"))
def test_no_wrong_value_becomes_part_of_what_is_shown(field: str, value: object) -> None:
    if field == "sku" and isinstance(value, str):
        return
    with pytest.raises(UnreadableError):
        product_replies.read_shown({**VARIANT, field: value})


def test_an_item_at_more_locations_than_were_asked_for_is_not_believed() -> None:
    cut = copy.deepcopy(VARIANT)
    cut["inventoryItem"]["inventoryLevels"]["pageInfo"]["hasNextPage"] = True  # type: ignore[index]
    reply = ShopReply(data={"nodes": [cut]}, faults=(), cost=None)
    with pytest.raises(UnreadableError, match="more locations"):
        product_replies.read_nodes(reply, [Gid(str(cut["id"]))])


def test_a_variant_that_makes_no_sense_is_not_the_fault_of_the_shop() -> None:
    odd = {**VARIANT, "price": "-1.00"}
    reply = ShopReply(data={"nodes": [odd]}, faults=(), cost=None)
    with pytest.raises(PermanentError, match=r"price is .-1.00"):
        product_replies.read_nodes(reply, [Gid(str(odd["id"]))])


def test_locations_that_share_a_name_are_kept_apart_by_their_ids() -> None:
    nodes = [
        {"id": f"gid://shopify/Location/{number}", "name": name}
        for number, name in enumerate(("Depot", "Store", "Depot"))
    ]
    reply = ShopReply(data={"locations": {"nodes": nodes, **GOOD_PAGE}}, faults=(), cost=None)
    places = product_replies.read_locations(reply)
    assert places["Store"] == "gid://shopify/Location/1"
    assert "Depot" not in places
    assert len(places) == 3


def test_a_variant_that_was_not_asked_for_is_not_believed() -> None:
    reply = ShopReply(data={"nodes": [VARIANT]}, faults=(), cost=None)
    with pytest.raises(UnreadableError, match="not asked for"):
        product_replies.read_nodes(reply, [Gid("gid://shopify/ProductVariant/2")])
    with pytest.raises(UnreadableError, match="another number"):
        product_replies.read_nodes(reply, [])


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"<html><body>502 Bad Gateway</body></html>",
        b'{"data": {"p0": {"userErr',
        b"[]",
        b"null",
        b'"text"',
        b"[" * 100_000,
        b"\xff\xfe\x00",
    ),
)
def test_what_is_no_json_object_is_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableError, match="no JSON object") as raised:
        read_reply(body)
    assert "\n" not in str(raised.value)


def customer(number: int, **changes: Any) -> dict[str, Any]:
    fields = {"displayName": "Ada", "updatedAt": "2026-01-05T10:00:00Z"}
    return {"id": f"gid://shopify/Customer/{number}", **fields, **changes}


def page_of_customers(*rows: Any, what: str, has_next: bool = False) -> Page:
    listed = {"nodes": rows, "pageInfo": {"hasNextPage": has_next, "endCursor": "c"}}
    body = json.dumps({"data": {"customers": listed}}).replace('"HUGE"', "9" * 10_000)
    ask = PageRequest(what=what, values={"field": "updated_at", "above": "0"})
    return read_page(ask, read_reply(body.encode()))


@pytest.mark.parametrize("what", ("customers", "all_customers"))
@pytest.mark.parametrize(
    ("field", "value"),
    (("updatedAt", "HUGE"), ("displayName", "nul\0"), ("displayName", "half \ud800"),
     ("updatedAt", "9999-12-31T23:59:59-12:00"), ("displayName", []), ("note", {})),
)  # fmt: skip
def test_a_bad_customer_in_the_middle_of_a_page_costs_only_itself(
    what: str, field: str, value: object
) -> None:
    bad = customer(2, **{field: value})
    page = page_of_customers(customer(1), bad, customer(3), what=what)
    is_read = field == "note"  # no field of ours, so nobody minds what it holds
    assert [row.external_id for row in page.records.customers] == (
        ["1", "2", "3"] if is_read else ["1", "3"]
    )
    reasons = [(row.external_id, row.reason.split()[0]) for row in page.records.unreadable]
    assert reasons == ([] if is_read else [("2", field)])
    assert page.ids == ("1", "2", "3")


def test_one_product_that_is_malformed_is_set_aside() -> None:
    own = "gid://shopify/Product/7"
    for variants in (None, {"nodes": [], "pageInfo": {"hasNextPage": True, "endCursor": "c"}}):
        data = {"shop": {"currencyCode": "USD"}, "nodes": [{"id": own, "variants": variants}]}
        reply = ShopReply(data=data, faults=(), cost=None)
        ask = PageRequest(what="product", values={"id": "7", "next": None})
        page = read_page(ask, reply)
        assert (page.ids, page.next, page.cut) == (("7",), None, ())
        assert [row.external_id for row in page.records.unreadable] == ["7"]


def test_a_walk_by_id_goes_on_after_a_last_row_without_an_id() -> None:
    rows = customer(1), customer(2), customer(3, id=None)
    page = page_of_customers(*rows, what="all_customers", has_next=True)
    assert page.next == "2"
    assert [row.external_id for row in page.records.customers] == ["1", "2"]
    with pytest.raises(UnreadableError, match="without an id"):
        page_of_customers(customer(3, id=None), what="all_customers", has_next=True)


@pytest.mark.parametrize(
    "document",
    (
        {},
        {"data": None},
        {"data": []},
        {"data": {}},
        {"data": {"p0": None}},
        {"data": None, "errors": "[API] something"},
        {"data": None, "errors": [None, 5, {}]},
        {"errors": {"message": "x"}},
    ),
)
def test_a_reply_without_data_leaves_every_write_open(document: dict[str, Any]) -> None:
    reply = read_reply(json.dumps(document).encode())
    reply.refuse()
    for read in (
        lambda: replies.read_aliased(reply, {"p0": 1}),
        lambda: reply.faults_of("inventorySetQuantities"),
        lambda: product_replies.read_locations(reply),
    ):
        with pytest.raises(UnreadableError):
            read()


@pytest.mark.parametrize(
    "cost",
    (
        None,
        5,
        [],
        {},
        {"requestedQueryCost": "5"},
        {"requestedQueryCost": True},
        {"requestedQueryCost": -1},
        {"requestedQueryCost": 1e300},
    ),
)
def test_an_invalid_cost_is_not_reported(cost: object) -> None:
    assert read_reply(json.dumps({"extensions": {"cost": cost}}).encode()).cost is None


def test_a_bucket_that_makes_no_sense_is_not_believed() -> None:
    bucket = {"maximumAvailable": 0, "currentlyAvailable": "x", "restoreRate": float("nan")}
    cost = {"requestedQueryCost": 5, "throttleStatus": bucket}
    cost_read = read_reply(json.dumps({"extensions": {"cost": cost}}).encode()).cost
    assert cost_read is not None
    assert (
        cost_read.requested,
        cost_read.capacity,
        cost_read.available,
        cost_read.restore_per_s,
    ) == (
        5,
        None,
        None,
        None,
    )


def test_every_item_gets_exactly_one_answer_whatever_the_errors_name() -> None:
    for field in ((), ("1",), ("5",), ("-1",), ("x", "0", "1"), ("²",)):
        results = share([ShopUserError(code="INVALID_REASON", message="no", field=field)], 3)
        assert len(results) == 3
        assert WriteVerdict.DONE not in {result.verdict for result in results}


def test_a_reason_names_its_field_and_the_error_with_a_code_wins() -> None:
    long = "is too long (maximum is 255 characters)"
    vague = ShopUserError(code="", message="is invalid", field=("input", "title"))
    exact = ShopUserError(code="TOO_LONG", message=long, field=("input", "title"))
    [result] = share([vague, exact], 1)
    assert result.reason == f"input.title: {long}"
    [plain] = share([ShopUserError(code="", message="Title can't be blank", field=("title",))], 1)
    assert plain.reason == "Title can't be blank"


def test_a_line_of_a_bulk_file_that_makes_no_sense_leaves_its_item_to_be_sent_again() -> None:
    good = b'{"data":{"productVariantsBulkUpdate":{"userErrors":[]}},"__lineNumber":0}'
    assert bulk.read_results([good], PRICES)[0].verdict is WriteVerdict.DONE
    for line in (
        b"",
        b"{",
        b"[]",
        good.replace(b":0}", b":1}"),
        good.replace(b":0}", b":-1}"),
        good.replace(b":0}", b':"0"}'),
        good.replace(b"[]", b"null"),
        b'{"data":null,"__lineNumber":0}',
        b'{"data":{"productVariantsBulkUpdate":null},"errors":[{}],"__lineNumber":0}',
    ):
        assert bulk.read_results([line], PRICES)[0].verdict is WriteVerdict.AGAIN, line


def test_lines_are_found_however_a_file_is_cut_and_too_much_of_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = b'{"a":1}\n\n{"b":2}\nlast'
    for size in range(1, len(text) + 1):
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        assert list(bulk.split_lines(chunks)) == [b'{"a":1}', b"", b'{"b":2}', b"last"]
    monkeypatch.setattr(bulk, "FILE_BYTES_MAX", 10)
    with pytest.raises(UnreadableError, match="100 MB"):
        list(bulk.split_lines([text]))
    monkeypatch.setattr(bulk, "FILE_BYTES_MAX", 10_000)
    monkeypatch.setattr(bulk, "LINE_BYTES_MAX", 3)
    with pytest.raises(UnreadableError, match="absurd"):
        list(bulk.split_lines([text]))
